// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connected socket, TCP or Unix.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    pub fn try_clone(&self) -> io::Result<Stream> {
        Ok(match self {
            Stream::Unix(s) => Stream::Unix(s.try_clone()?),
            Stream::Tcp(s) => Stream::Tcp(s.try_clone()?),
        })
    }

    /// Shuts down both directions, which wakes every thread that waits on the socket.
    pub fn cut(&self) {
        // It fails if the socket is shut down already, which is fine.
        let _ = match self {
            Stream::Unix(s) => s.shutdown(Shutdown::Both),
            Stream::Tcp(s) => s.shutdown(Shutdown::Both),
        };
    }

    /// Sets a timeout for each read and write; `None` waits for ever.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Unix(s) => s.set_read_timeout(timeout).and_then(|()| s.set_write_timeout(timeout)),
            Stream::Tcp(s) => s.set_read_timeout(timeout).and_then(|()| s.set_write_timeout(timeout)),
        }
    }

    /// Sends small replies at once, and detects a peer that has vanished.
    pub fn tune(&self) -> io::Result<()> {
        match self {
            Stream::Unix(_) => Ok(()),
            Stream::Tcp(s) => {
                s.set_nodelay(true)?;
                Ok(rustix::net::sockopt::set_socket_keepalive(s, true)?)
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(s) => s.read(into),
            Stream::Tcp(s) => s.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        // A closed peer gives an error here, and no SIGPIPE, which the host program may not expect.
        Ok(rustix::net::send(self.as_fd(), from, rustix::net::SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A stream that gives up at a deadline, however small the pieces are in which bytes come.
pub struct Until<'a> {
    stream: &'a mut Stream,
    deadline: Instant,
}

impl<'a> Until<'a> {
    pub fn new(stream: &'a mut Stream, time: Duration) -> Until<'a> {
        Until { stream, deadline: Instant::now() + time }
    }

    fn prepare(&mut self) -> io::Result<&mut Stream> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_timeout(Some(left))?;
        Ok(self.stream)
    }
}

impl Read for Until<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.prepare()?.read(into)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.prepare()?.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(s) => s.as_fd(),
            Stream::Tcp(s) => s.as_fd(),
        }
    }
}
