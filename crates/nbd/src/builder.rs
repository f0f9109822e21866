// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describing a server.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use linnet_types::Nanos;

use crate::error::Error;
use crate::export::{Export, Served};
use crate::listen::{Address, Listener};
use crate::server::Handle;
use crate::stats::Ledger;
use crate::store::Store;
use crate::wire::NAME_BYTES_MAX;

/// What the methods of [`Builder`] set.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub time_scale: f64,
    pub spin_ns: Nanos,
    pub inflight_bytes_max: usize,
    pub connections_max: usize,
    pub late_after_ns: Nanos,
    pub log_len: usize,
    pub lost_after_ns: Option<Nanos>,
}

/// A server to be: drives, addresses, settings.
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
    /// No drive, no address; every setting as its method says.
    pub fn new() -> Builder {
        Builder {
            exports: Vec::new(),
            addresses: Vec::new(),
            settings: Settings {
                time_scale: 1.0,
                spin_ns: 10_000,
                inflight_bytes_max: 64 << 20,
                connections_max: 128,
                late_after_ns: 100_000,
                log_len: 65_536,
                lost_after_ns: None,
            },
        }
    }

    /// Adds a drive. The first one also answers to the empty name.
    #[must_use]
    pub fn export(mut self, export: Export) -> Builder {
        self.exports.push(export);
        self
    }

    /// Adds a Unix socket. Its file is removed when the server stops; one that a dead server left is replaced.
    #[must_use]
    pub fn unix(mut self, path: impl AsRef<Path>) -> Builder {
        self.addresses.push(Address::Unix(path.as_ref().to_owned()));
        self
    }

    /// Adds a TCP port on loopback; 0 lets the system choose one ([`Handle::addresses`] tells which).
    #[must_use]
    pub fn tcp(self, port: u16) -> Builder {
        self.tcp_at(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    /// Adds any TCP address. Whoever reaches it can read and write the drives.
    #[must_use]
    pub fn tcp_at(mut self, address: SocketAddr) -> Builder {
        self.addresses.push(Address::Tcp(address));
        self
    }

    /// Wall time that passes per model time, 0.001 to 1000000; 1 unless set. At 10 the world is ten times slower, and
    /// the server's own cost a tenth as large beside the model's latencies.
    #[must_use]
    pub fn time_scale(mut self, time_scale: f64) -> Builder {
        self.settings.time_scale = time_scale;
        self
    }

    /// Wall time before a deadline that is spun instead of slept; 10 us unless set, 0 never spins. A sleep ends about
    /// 5 us late, which a short spin hides; on a busy machine a long one uses up the thread's turn and makes the tail
    /// worse. At most half of the machine's cores spin at a time, the other connections sleep.
    #[must_use]
    pub fn spin(mut self, spin: Duration) -> Builder {
        self.settings.spin_ns = spin.as_nanos() as Nanos;
        self
    }

    /// Most bytes of replies that one connection may have in flight; 64 MiB unless set. A client that asks for more is
    /// not read from until some have left. One request is always let through.
    #[must_use]
    pub fn inflight_bytes_max(mut self, bytes: usize) -> Builder {
        self.settings.inflight_bytes_max = bytes;
        self
    }

    /// Most connections at a time; 128 unless set. Others are closed at once.
    #[must_use]
    pub fn connections_max(mut self, count: usize) -> Builder {
        self.settings.connections_max = count;
        self
    }

    /// The error, in model time, from which an answer counts as late; 100 us unless set.
    #[must_use]
    pub fn late_after_ns(mut self, late_after_ns: Nanos) -> Builder {
        self.settings.late_after_ns = late_after_ns;
        self
    }

    /// How many requests of each drive are remembered one by one ([`Handle::samples`]); the last 65536 unless set.
    #[must_use]
    pub fn log_len(mut self, samples: usize) -> Builder {
        self.settings.log_len = samples;
        self
    }

    /// What happens to requests that the model loses: `None`, unless set, leaves them unanswered; otherwise they fail
    /// with an I/O error after this much model time.
    #[must_use]
    pub fn lost_after_ns(mut self, lost_after_ns: Option<Nanos>) -> Builder {
        self.settings.lost_after_ns = lost_after_ns;
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
        ] {
            if value == 0 {
                return Err(Error::Zero { setting });
            }
        }
        Ok(())
    }

    /// Checks the settings and opens the data.
    pub(crate) fn open(&mut self) -> Result<Vec<Served>, Error> {
        self.validate()?;
        let mut exports = Vec::new();
        for export in self.exports.drain(..) {
            let store = Store::new(&export.storage, export.size_bytes).map_err(|source| Error::Storage {
                name: export.name.clone(),
                path: export.storage.path().to_owned(),
                source,
            })?;
            exports.push(Served::new(export, store, Ledger::new(self.settings.late_after_ns, self.settings.log_len)));
        }
        Ok(exports)
    }

    /// Opens the data, listens, and begins model time.
    ///
    /// # Errors
    /// A setting that makes no sense, an address or a data file that cannot be had; no socket is left behind then.
    pub fn start(mut self) -> Result<Handle, Error> {
        if self.addresses.is_empty() {
            return Err(Error::NoAddress);
        }
        let exports = self.open()?;
        let listeners = self.addresses.iter().map(Listener::bind).collect::<Result<Vec<_>, _>>()?;
        Handle::start(exports, listeners, self.settings)
    }
}
