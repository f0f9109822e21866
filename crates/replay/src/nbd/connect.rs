// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connects to a server, for no longer than the caller wants to wait.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::{Socket, Target};

/// The server must be there and end the handshake in this time.
pub(crate) const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// The caller is asked this often whether to go on.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// How long a server is waited for.
pub(crate) struct Patience<'a> {
    deadline: Instant,
    /// False: the caller wants to stop.
    go_on: &'a mut dyn FnMut() -> bool,
    /// Whether the caller has stopped the wait.
    pub stopped: bool,
}

impl<'a> Patience<'a> {
    /// Waits for this time at most, and while `go_on` says so.
    pub fn new(limit: Duration, go_on: &'a mut dyn FnMut() -> bool) -> Self {
        Patience { deadline: Instant::now() + limit, go_on, stopped: false }
    }

    /// How long to wait before this is called again: more than nothing.
    ///
    /// # Errors
    /// The time is over, or the caller wants to stop.
    pub fn next(&mut self) -> io::Result<Duration> {
        self.stopped |= !(self.go_on)();
        if self.stopped {
            return Err(io::Error::other("stopped"));
        }
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let text = format!("the server did not end the handshake in {} s", HANDSHAKE_MAX.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        Ok(left.min(ASK_EVERY))
    }

    /// For one of so many attempts that are left: its part of the time.
    fn share(&mut self, attempts: usize) -> Patience<'_> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        Patience { deadline: self.deadline - left + left / attempts as u32, go_on: &mut *self.go_on, stopped: false }
    }
}

/// Connects to the server of an export. Returns also where it was found: two that are equal are one server.
///
/// # Errors
/// Those of the system, of the last of its addresses, and those of [`Patience::next`].
pub(super) fn open(target: &Target, patience: &mut Patience<'_>) -> io::Result<(Arc<dyn Socket>, String)> {
    let host = match target {
        Target::Unix(path) => {
            let socket = within(AddressFamily::UNIX, &SocketAddrUnix::new(path.as_path())?, patience)?;
            let at = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
            return Ok((Arc::new(UnixStream::from(socket)), at.to_string_lossy().into_owned()));
        }
        Target::Tcp(host) => host,
    };
    let addresses: Vec<SocketAddr> = host.to_socket_addrs()?.collect();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for (tried, address) in addresses.iter().enumerate() {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let mut share = patience.share(addresses.len() - tried);
        let result = within(family, address, &mut share);
        let stopped = share.stopped;
        patience.stopped |= stopped;
        match result {
            Ok(socket) => {
                let socket = TcpStream::from(socket);
                socket.set_nodelay(true)?;
                return Ok((Arc::new(socket), address.to_string()));
            }
            Err(error) => last = error,
        }
        if stopped {
            break;
        }
    }
    Err(last)
}

/// Connects a socket. Where its time to send is over, Linux returns from a connect that is in progress, and the next
/// call goes on with it (socket(7), `SO_SNDTIMEO`); where a Unix socket's queue is full, it begins again.
fn within(family: AddressFamily, to: &impl SocketAddrArg, patience: &mut Patience<'_>) -> io::Result<OwnedFd> {
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    loop {
        set_socket_timeout(&socket, Timeout::Send, Some(patience.next()?))?;
        match connect(&socket, to) {
            Ok(()) | Err(Errno::ISCONN) => return Ok(socket),
            Err(Errno::AGAIN | Errno::INPROGRESS | Errno::ALREADY | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::net::{SocketAddrAny, accept, bind, getsockname, listen};

    use super::*;

    /// A server that accepts nothing, and sockets that fill its queue; what it is called.
    fn full(family: AddressFamily, address: &impl SocketAddrArg) -> (Vec<OwnedFd>, SocketAddrAny) {
        let server = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&server, address).unwrap();
        listen(&server, 0).unwrap();
        let name = getsockname(server.as_fd()).unwrap();
        let mut held = vec![server];
        // More than a queue of 0 holds, which has room for one.
        for _ in 0..4 {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = socket_with(family, SocketType::STREAM, flags, None).unwrap();
            let _ = connect(&socket, &name);
            held.push(socket);
        }
        (held, name)
    }

    /// A name of a socket, which is gone with it.
    struct Named(std::path::PathBuf);

    impl Drop for Named {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn full_unix(name: &str) -> (Vec<OwnedFd>, Target, Option<Named>) {
        let path = std::env::temp_dir().join(format!("linnet-connect-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let (held, _) = full(AddressFamily::UNIX, &SocketAddrUnix::new(path.as_path()).unwrap());
        (held, Target::Unix(path.clone()), Some(Named(path)))
    }

    fn full_tcp() -> (Vec<OwnedFd>, Target, Option<Named>) {
        let (held, name) = full(AddressFamily::INET, &SocketAddr::from(([127, 0, 0, 1], 0)));
        (held, Target::Tcp(SocketAddr::try_from(name).unwrap().to_string()), None)
    }

    #[test]
    fn a_server_that_accepts_nobody_is_given_up() {
        for (_held, target, _name) in [full_unix("late"), full_tcp()] {
            let mut go_on = || true;
            let mut patience = Patience::new(Duration::from_millis(250), &mut go_on);
            let error = open(&target, &mut patience).err().unwrap();
            assert_eq!((error.kind(), patience.stopped), (io::ErrorKind::TimedOut, false), "{target:?}: {error}");
        }
    }

    #[test]
    fn a_wait_for_a_server_ends_when_the_caller_wants_it() {
        for (_held, target, _name) in [full_unix("stop"), full_tcp()] {
            let mut asked = 0;
            let mut go_on = || {
                asked += 1;
                asked < 3
            };
            let mut patience = Patience::new(Duration::from_secs(86_400), &mut go_on);
            assert!(open(&target, &mut patience).is_err());
            assert!(patience.stopped, "{target:?}");
            assert_eq!(asked, 3);
        }
    }

    #[test]
    fn a_server_that_accepts_late_is_connected() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::Tcp(listener.local_addr().unwrap().to_string());
        let mut go_on = || true;
        assert!(open(&target, &mut Patience::new(Duration::from_secs(60), &mut go_on)).is_ok());
        let (held, target, _name) = full_unix("room");
        let mut asked = 0;
        let mut go_on = || {
            asked += 1;
            if asked == 3 {
                // The one in the queue is taken, and there is room.
                drop(accept(&held[0]).unwrap());
            }
            true
        };
        assert!(open(&target, &mut Patience::new(Duration::from_secs(60), &mut go_on)).is_ok());
    }
}
