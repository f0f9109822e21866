// SPDX-License-Identifier: MIT OR Apache-2.0
//! One drive that is served: a model that computes times, a store that holds data, and statistics of accuracy. Nothing
//! here depends on the transport of the requests.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use linnet_types::{LatencyModel, Nanos, Op, Outcome};

use crate::clock::Clock;
use crate::drive::{Drive, Plain, submit_range};
use crate::stats::{Command, ExportStats, Ledger, Sample};
use crate::store::{Storage, Store};

/// Describes a drive that [`crate::Builder::export`] will serve.
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
    pub fn of_device(name: impl Into<String>, size_bytes: u64, device: impl LatencyModel + Send + 'static) -> Export {
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
    /// The time of the last call. The drive never sees time go back, even if the clock does.
    now: Nanos,
}

/// A drive that is being served.
pub struct Served {
    pub name: String,
    pub size_bytes: u64,
    pub read_only: bool,
    /// Seconds of real time per second of the drive's model, of which clients are told.
    pub time_scale: f64,
    store: Store,
    model: Mutex<Model>,
    ledger: Mutex<Ledger>,
}

/// A command, its range and its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What to do.
    pub command: Command,
    /// First byte; 0 for a flush.
    pub offset_bytes: u64,
    /// Length; 0 for a flush, at least 1 otherwise. The range is inside the drive.
    pub size_bytes: u32,
    /// The answer waits until the write is durable (force unit access).
    pub durable: bool,
    /// For [`Command::WriteZeroes`]: the drive must write zeros instead of discarding the range, and keep storage for
    /// them.
    pub no_hole: bool,
}

/// A command's data, of the same length as its range.
#[derive(Debug)]
pub enum Data<'a> {
    /// No data.
    None,
    /// The data of a write.
    From(&'a [u8]),
    /// The destination of a read.
    Into(&'a mut [u8]),
}

/// A command whose answer waits for its deadline.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// When it may be answered.
    pub due_wall_ns: Nanos,
    /// Whether it failed; if so, no data was read, and nothing or a part was written.
    pub failed: bool,
    /// Whether it failed because the host has no memory, or no space on its disk, for the data.
    pub full: bool,
    /// What to record once it is answered; the achieved latency is filled in then.
    pub sample: Sample,
}

/// Whether an error means that the data has no room.
fn no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl Served {
    /// Which parts of a range are stored ([`Store::extents`]).
    pub fn extents(&self, offset_bytes: u64, size_bytes: u32, most: usize) -> std::io::Result<Vec<(u32, bool)>> {
        self.store.extents(offset_bytes, size_bytes, most)
    }

    pub fn new(spec: Export, time_scale: f64, store: Store, ledger: Ledger) -> Served {
        Served {
            name: spec.name,
            size_bytes: spec.size_bytes,
            read_only: spec.read_only,
            time_scale,
            store,
            model: Mutex::new(Model { drive: spec.drive, now: 0 }),
            ledger: Mutex::new(ledger),
        }
    }

    /// Submits a command to the model. Returns its arrival and how it ends. The arrival is read under the drive's lock,
    /// so that times never decrease. If the model has panicked, every later command fails.
    fn submit(&self, clock: &Clock, ask: &Ask) -> (Nanos, Outcome) {
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

    /// Asks the model and moves the data. `None` if the model lost the command and it must not be answered.
    pub fn serve(&self, clock: &Clock, lost_after_ns: Option<Nanos>, ask: &Ask, data: Data<'_>) -> Option<Held> {
        let (arrive_ns, outcome) = self.submit(clock, ask);
        let (done_ns, failed) = match outcome {
            Outcome::Done(at) => (at.max(arrive_ns), false),
            Outcome::Error(at) => (at.max(arrive_ns), true),
            Outcome::Lost => {
                self.ledger().lost += 1;
                (arrive_ns.saturating_add(lost_after_ns?), true)
            }
        };
        let error = if failed { None } else { self.carry(ask, data).err() };
        let full = error.as_ref().is_some_and(no_space);
        if full {
            self.ledger().no_space += 1;
        }
        let failed = failed || error.is_some();
        let sample = Sample {
            arrive_ns,
            offset_bytes: ask.offset_bytes,
            size_bytes: ask.size_bytes,
            command: ask.command,
            failed,
            latency_ns_model: done_ns - arrive_ns,
            latency_ns_achieved: 0,
        };
        Some(Held { due_wall_ns: clock.wall_of(done_ns), failed, full, sample })
    }

    /// [`Served::serve`] for callers that have not checked the range of the command.
    pub fn serve_checked(
        &self,
        clock: &Clock,
        lost_after_ns: Option<Nanos>,
        ask: &Ask,
        data: Data<'_>,
    ) -> Option<Held> {
        let end = ask.offset_bytes.checked_add(u64::from(ask.size_bytes));
        let fits = match (ask.command, &data) {
            (Command::Read, Data::Into(into)) => into.len() == ask.size_bytes as usize,
            (Command::Write, Data::From(from)) => from.len() == ask.size_bytes as usize,
            (Command::Read | Command::Write, _) => false,
            _ => true,
        };
        let writes = matches!(ask.command, Command::Write | Command::Trim | Command::WriteZeroes);
        if fits && end.is_some_and(|end| end <= self.size_bytes) && !(writes && self.read_only) {
            return self.serve(clock, lost_after_ns, ask, data);
        }
        self.ledger().refused += 1;
        let due_wall_ns = clock.wall_ns();
        let sample = Sample {
            arrive_ns: clock.model_of(due_wall_ns),
            offset_bytes: ask.offset_bytes,
            size_bytes: ask.size_bytes,
            command: ask.command,
            failed: true,
            latency_ns_model: 0,
            latency_ns_achieved: 0,
        };
        Some(Held { due_wall_ns, failed: true, full: false, sample })
    }

    fn carry(&self, ask: &Ask, data: Data<'_>) -> io::Result<()> {
        match (ask.command, data) {
            (Command::Read, Data::Into(into)) => self.store.read(ask.offset_bytes, into)?,
            (Command::Write, Data::From(from)) => self.store.write(ask.offset_bytes, from)?,
            (Command::WriteZeroes, _) if ask.no_hole => {
                self.store.zero(ask.offset_bytes, u64::from(ask.size_bytes))?;
            }
            (Command::Trim | Command::WriteZeroes, _) => {
                self.store.clear(ask.offset_bytes, u64::from(ask.size_bytes))?;
            }
            _ => {}
        }
        if ask.durable || ask.command == Command::Flush { self.store.flush() } else { Ok(()) }
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn stats(&self) -> ExportStats {
        let memory_bytes = self.store.memory_bytes();
        self.ledger().stats(&self.name, memory_bytes)
    }
}
