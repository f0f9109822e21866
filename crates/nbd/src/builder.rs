// SPDX-License-Identifier: MIT OR Apache-2.0
//! The builder of a server.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use linnet_types::Nanos;

use crate::error::Error;
use crate::export::{Export, Served};
use crate::listen::{Address, Listener};
use crate::memory::Left;
use crate::server::Handle;
use crate::stats::Ledger;
use crate::store::Store;
use crate::wire::NAME_BYTES_MAX;

/// The settings that the methods of [`Builder`] change.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub time_scale: f64,
    pub spin_ns: Nanos,
    pub inflight_bytes_max: usize,
    pub connections_max: usize,
    pub bytes_max: usize,
    pub handshake_max: Duration,
    pub stall_max: Duration,
    pub late_after_ns: Nanos,
    pub log_len: usize,
    pub lost_after_ns: Option<Nanos>,
    pub memory_left: Option<Left>,
}

/// Describes a server: drives, addresses, settings.
pub struct Builder {
    exports: Vec<Export>,
    addresses: Vec<Address>,
    settings: Settings,
}

impl Default for Builder {
    fn default() -> Self {
        Builder::new()
    }
}

impl Builder {
    /// No drive, no address; the defaults of the settings are documented at their methods.
    pub fn new() -> Builder {
        Builder {
            exports: Vec::new(),
            addresses: Vec::new(),
            settings: Settings {
                time_scale: 1.0,
                spin_ns: 10_000,
                inflight_bytes_max: 64 << 20,
                connections_max: 128,
                bytes_max: 1 << 30,
                handshake_max: Duration::from_secs(10),
                stall_max: Duration::from_secs(60),
                late_after_ns: 100_000,
                log_len: 65_536,
                lost_after_ns: None,
                memory_left: None,
            },
        }
    }

    /// Adds a drive. The first one also has the empty name.
    #[must_use]
    pub fn export(mut self, export: Export) -> Builder {
        self.exports.push(export);
        self
    }

    /// Adds a Unix socket. Its file is removed when the server stops; a stale one of a server that no longer runs is
    /// replaced.
    #[must_use]
    pub fn unix(mut self, path: impl AsRef<Path>) -> Builder {
        self.addresses.push(Address::Unix(path.as_ref().to_owned()));
        self
    }

    /// Adds a TCP port on loopback; with 0 the system chooses one ([`Handle::addresses`] returns it).
    #[must_use]
    pub fn tcp(self, port: u16) -> Builder {
        self.tcp_at(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    /// Adds any TCP address. Everyone who can reach it can read and write the drives.
    #[must_use]
    pub fn tcp_at(mut self, address: SocketAddr) -> Builder {
        self.addresses.push(Address::Tcp(address));
        self
    }

    /// Real time per model time, 0.001 to 1000000; default 1. At 10, everything is ten times slower, and the server's
    /// overhead is a tenth as large relative to the model's latencies.
    #[must_use]
    pub fn time_scale(mut self, time_scale: f64) -> Builder {
        self.settings.time_scale = time_scale;
        self
    }

    /// How long before a deadline the thread spins instead of sleeping; default 10 us, 0 never spins. A sleep ends
    /// about 5 us late; a short spin hides that. On a busy machine a long spin uses up the thread's time slice and
    /// makes the tail worse. At most half of the machine's cores spin at a time; the other connections sleep.
    #[must_use]
    pub fn spin(mut self, spin: Duration) -> Builder {
        self.settings.spin_ns = spin.as_nanos() as Nanos;
        self
    }

    /// Most bytes of replies in flight per connection; default 64 MiB. Above that, the server reads nothing more from
    /// the client until replies have been sent. One request is always accepted.
    #[must_use]
    pub fn inflight_bytes_max(mut self, bytes: usize) -> Builder {
        self.settings.inflight_bytes_max = bytes;
        self
    }

    /// Most bytes of requests and replies of all connections together; default 1 GiB. Beyond that, requests wait, first
    /// come, first served; one that is longer than all of it waits until it is alone. Each connection may hold 128 KiB
    /// of requests, and 1 MiB of requests and replies, besides; within that nothing waits.
    #[must_use]
    pub fn bytes_max(mut self, bytes: usize) -> Builder {
        self.settings.bytes_max = bytes;
        self
    }

    /// Longest handshake, from the first byte to the last; default 10 s.
    #[must_use]
    pub fn handshake_max(mut self, time: Duration) -> Builder {
        self.settings.handshake_max = time;
        self
    }

    /// How long a client may accept no reply that is due, or leave a request incomplete; default 60 s. Then its
    /// connection is closed. Time in the line for memory ([`Builder::bytes_max`]) does not count. A client without open
    /// requests may be idle as long as there is room for others.
    #[must_use]
    pub fn stall_max(mut self, time: Duration) -> Builder {
        self.settings.stall_max = time;
        self
    }

    /// Most connections at a time; default 128. When there are as many, the one that has been idle longest makes way,
    /// those in their handshake first; if none has been idle for a second, the new one is closed at once.
    #[must_use]
    pub fn connections_max(mut self, count: usize) -> Builder {
        self.settings.connections_max = count;
        self
    }

    /// An answer counts as late if its error, in model time, reaches this; default 100 us.
    #[must_use]
    pub fn late_after_ns(mut self, late_after_ns: Nanos) -> Builder {
        self.settings.late_after_ns = late_after_ns;
        self
    }

    /// How many requests of each drive are recorded individually ([`Handle::samples`]); default the last 65536.
    #[must_use]
    pub fn log_len(mut self, samples: usize) -> Builder {
        self.settings.log_len = samples;
        self
    }

    /// What happens to requests that the model loses. With `None`, the default, they get no answer; otherwise they fail
    /// with an I/O error after this model time.
    #[must_use]
    pub fn lost_after_ns(mut self, lost_after_ns: Option<Nanos>) -> Builder {
        self.settings.lost_after_ns = lost_after_ns;
        self
    }

    /// Tells how many bytes of memory the process may still take (`None` if nothing says); not asked unless set. Drives
    /// in memory then leave 64 MiB of it: a write that would take them fails with ENOSPC, where otherwise the system
    /// would end the process. It is asked when a drive's data has grown by 16 MiB, so it may read files.
    #[must_use]
    pub fn memory_left(mut self, left: fn() -> Option<u64>) -> Builder {
        self.settings.memory_left = Some(left);
        self
    }

    fn validate(&self) -> Result<(), Error> {
        if self.exports.is_empty() {
            return Err(Error::NoExport);
        }
        let mut names = HashSet::new();
        for export in &self.exports {
            if export.name.len() > NAME_BYTES_MAX {
                return Err(Error::LongName { bytes: export.name.len() });
            }
            if export.size_bytes == 0 || export.size_bytes > i64::MAX as u64 {
                return Err(Error::Size { name: export.name.clone(), size_bytes: export.size_bytes });
            }
            if !names.insert(&export.name) {
                return Err(Error::DuplicateName { name: export.name.clone() });
            }
        }
        if !(0.001..=1e6).contains(&self.settings.time_scale) {
            return Err(Error::TimeScale { time_scale: self.settings.time_scale });
        }
        for (setting, value) in [
            ("inflight_bytes_max", self.settings.inflight_bytes_max),
            ("connections_max", self.settings.connections_max),
            ("bytes_max", self.settings.bytes_max),
        ] {
            if value == 0 {
                return Err(Error::Zero { setting });
            }
        }
        Ok(())
    }

    /// Checks the settings and opens the data files.
    pub(crate) fn open(&mut self) -> Result<Vec<Served>, Error> {
        self.validate()?;
        let mut exports = Vec::new();
        for export in self.exports.drain(..) {
            let left = self.settings.memory_left;
            let store = Store::new(&export.storage, export.size_bytes, left).map_err(|source| Error::Storage {
                name: export.name.clone(),
                path: export.storage.path().to_owned(),
                source,
            })?;
            let ledger = Ledger::new(self.settings.late_after_ns, self.settings.log_len);
            exports.push(Served::new(export, self.settings.time_scale, store, ledger));
        }
        Ok(exports)
    }

    /// Opens the data files, listens, and starts the model clock.
    ///
    /// # Errors
    /// An invalid setting, or an address or data file that cannot be used; then no socket file remains.
    pub fn start(mut self) -> Result<Handle, Error> {
        if self.addresses.is_empty() {
            return Err(Error::NoAddress);
        }
        let exports = self.open()?;
        let listeners = self.addresses.iter().map(Listener::bind).collect::<Result<Vec<_>, _>>()?;
        Handle::start(exports, listeners, self.settings)
    }
}
