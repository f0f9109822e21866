// SPDX-License-Identifier: MIT OR Apache-2.0
//! One drive as it is served: a model that tells when, a store that knows what, a ledger of how well.

use std::sync::{Mutex, MutexGuard, PoisonError};

use linnet_types::{Device, Nanos, Op, Outcome};

use crate::clock::Clock;
use crate::drive::{Drive, Plain, submit_range};
use crate::stats::{Command, ExportStats, Ledger};
use crate::store::{Storage, Store};

/// A drive to be served, as it is described to [`crate::Builder::export`].
pub struct Export {
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
    pub(crate) drive: Box<dyn Drive>,
    pub(crate) storage: Storage,
    pub(crate) read_only: bool,
}

impl Export {
    /// A drive of this name and size that holds its data in memory.
    pub fn new(name: impl Into<String>, size_bytes: u64, drive: Box<dyn Drive>) -> Export {
        Export { name: name.into(), size_bytes, drive, storage: Storage::Memory, read_only: false }
    }

    /// The same for a device that knows only reads and writes: flush and trim cost nothing.
    pub fn of_device(name: impl Into<String>, size_bytes: u64, device: impl Device + Send + 'static) -> Export {
        Export::new(name, size_bytes, Box::new(Plain(device)))
    }

    /// Where the data lives; memory unless set.
    #[must_use]
    pub fn storage(mut self, storage: Storage) -> Export {
        self.storage = storage;
        self
    }

    /// Whether writes are refused; no unless set.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Export {
        self.read_only = read_only;
        self
    }
}

struct Model {
    drive: Box<dyn Drive>,
    /// The last time the drive was asked: whatever the clock does, it never sees time go back.
    now: Nanos,
}

/// A drive that is being served.
pub struct Served {
    pub name: String,
    pub size_bytes: u64,
    pub read_only: bool,
    pub store: Store,
    model: Mutex<Model>,
    ledger: Mutex<Ledger>,
}

/// A command's range and whether it must be durable when it is answered.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    pub command: Command,
    pub offset_bytes: u64,
    pub size_bytes: u32,
    pub durable: bool,
    /// For [`Command::WriteZeroes`]: the drive shall write zeros where it could have forgotten the range.
    pub no_hole: bool,
}

impl Served {
    pub fn new(spec: Export, store: Store, ledger: Ledger) -> Served {
        Served {
            name: spec.name,
            size_bytes: spec.size_bytes,
            read_only: spec.read_only,
            store,
            model: Mutex::new(Model { drive: spec.drive, now: 0 }),
            ledger: Mutex::new(ledger),
        }
    }

    /// Hands a command to the model: when it arrived there, and what becomes of it. Arrival is read under the drive's
    /// lock, so that times never decrease. A drive whose model panicked fails everything from then on.
    pub fn submit(&self, clock: &Clock, ask: &Ask) -> (Nanos, Outcome) {
        let Ok(mut model) = self.model.lock() else {
            let now = clock.model_of(clock.wall_ns());
            return (now, Outcome::Error(now));
        };
        let now = clock.model_of(clock.wall_ns()).max(model.now);
        model.now = now;
        let drive = &mut *model.drive;
        let (offset_bytes, size_bytes) = (ask.offset_bytes, u64::from(ask.size_bytes));
        let outcome = match ask.command {
            Command::Read => submit_range(drive, now, Op::Read, offset_bytes, size_bytes, false),
            Command::Write => submit_range(drive, now, Op::Write, offset_bytes, size_bytes, ask.durable),
            Command::WriteZeroes if ask.no_hole => {
                submit_range(drive, now, Op::Write, offset_bytes, size_bytes, ask.durable)
            }
            Command::Trim | Command::WriteZeroes => {
                let done = drive.trim(now, offset_bytes, size_bytes);
                Outcome::Done(if ask.durable { done.max(drive.flush(now)) } else { done })
            }
            Command::Flush => Outcome::Done(drive.flush(now)),
            Command::Cache => Outcome::Done(now),
        };
        (now, outcome)
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn stats(&self) -> ExportStats {
        let memory_bytes = self.store.memory_bytes();
        self.ledger().stats(&self.name, memory_bytes)
    }
}
