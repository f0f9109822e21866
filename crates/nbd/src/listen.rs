// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses to listen on.

use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::stream::Stream;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP address; the port is the one that was actually bound.
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "{}", path.display()),
            Address::Tcp(address) => write!(f, "{address}"),
        }
    }
}

/// Percent-encodes characters that a URI's path or query does not allow.
fn encode(text: &[u8]) -> String {
    let mut out = String::new();
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

impl Address {
    /// The NBD URI of an export at this address.
    pub fn uri(&self, export: &str) -> String {
        let name = encode(export.as_bytes());
        match self {
            Address::Unix(path) => format!("nbd+unix:///{name}?socket={}", encode(path.as_os_str().as_encoded_bytes())),
            Address::Tcp(address) => format!("nbd://{address}/{name}"),
        }
    }
}

/// A bound socket. Dropping it removes a Unix socket's file, unless another file has replaced it.
pub struct Listener {
    socket: Socket,
    pub address: Address,
}

enum Socket {
    Unix { listener: UnixListener, inode: (u64, u64) },
    Tcp(TcpListener),
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

/// Removes a stale socket file of a server that no longer runs. Refuses a socket in use and any other file.
fn make_way(path: &Path) -> Result<(), Error> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(Error::NotASocket { path: path.to_owned() });
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|source| Error::Listen { address: path.display().to_string(), source })
        }
        _ => Err(Error::InUse { path: path.to_owned() }),
    }
}

impl Listener {
    pub fn bind(address: &Address) -> Result<Listener, Error> {
        let failed = |source| Error::Listen { address: address.to_string(), source };
        let (socket, address) = match address {
            Address::Unix(path) => {
                make_way(path)?;
                let listener = UnixListener::bind(path).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                let inode = inode(path).map_err(failed)?;
                (Socket::Unix { listener, inode }, address.clone())
            }
            Address::Tcp(wanted) => {
                let listener = TcpListener::bind(wanted).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                let bound = listener.local_addr().map_err(failed)?;
                (Socket::Tcp(listener), Address::Tcp(bound))
            }
        };
        Ok(Listener { socket, address })
    }

    /// Accepts the next client; an error of kind `WouldBlock` if there is none.
    pub fn accept(&self) -> io::Result<Stream> {
        let stream = match &self.socket {
            Socket::Unix { listener, .. } => Stream::Unix(listener.accept()?.0),
            Socket::Tcp(listener) => Stream::Tcp(listener.accept()?.0),
        };
        stream.tune()?;
        Ok(stream)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Unix { listener, .. } => listener.as_fd(),
            Socket::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let (Socket::Unix { inode: ours, .. }, Address::Unix(path)) = (&self.socket, &self.address)
            && inode(path).is_ok_and(|found| found == *ours)
        {
            // If the file was removed in the meantime, that is fine.
            let _ = fs::remove_file(path);
        }
    }
}
