// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells how far a reading is, and asks whether to go on.
//!
//! A reader asks after so many records. A file of which nearly everything is left out has none to ask after, so its
//! bytes count, too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::read::Progress;

/// Bytes, after decompression, from one question to the next while no record comes: a tenth of a second.
const BYTES_EVERY: u64 = 16 << 20;

/// Called with the progress; returns whether to continue.
pub(crate) type Callback = Box<dyn FnMut(Progress) -> bool + Send>;

/// Shared by a reader and its inputs. The default one asks nobody.
#[derive(Clone, Default)]
pub(crate) struct Teller(Option<Arc<Mutex<Told>>>);

struct Told {
    callback: Callback,
    /// What was read of each file, as stored.
    meters: Vec<Arc<AtomicU64>>,
    total_bytes: u64,
    records: u64,
    /// Bytes since the last question.
    quiet_bytes: u64,
}

impl Teller {
    pub fn new(callback: Option<Callback>, meters: Vec<Arc<AtomicU64>>, total_bytes: u64) -> Teller {
        let told = |callback| Told { callback, meters, total_bytes, records: 0, quiet_bytes: 0 };
        Teller(callback.map(|callback| Arc::new(Mutex::new(told(callback)))))
    }

    /// Tells that there are so many records; true to continue.
    pub fn records(&self, count: u64) -> bool {
        self.ask(|told| {
            told.records = count;
            true
        })
    }

    /// Notes that so many bytes were read; true to continue.
    pub fn read(&self, bytes: u64) -> bool {
        self.ask(|told| {
            told.quiet_bytes += bytes;
            told.quiet_bytes >= BYTES_EVERY
        })
    }

    /// Asks now; true to continue.
    pub fn go_on(&self) -> bool {
        self.ask(|_| true)
    }

    /// Asks if `due`. A callback that panicked before is a reason to stop.
    fn ask(&self, due: impl FnOnce(&mut Told) -> bool) -> bool {
        let Some(told) = &self.0 else { return true };
        let Ok(mut told) = told.lock() else { return false };
        if !due(&mut told) {
            return true;
        }
        told.quiet_bytes = 0;
        let bytes = told.meters.iter().map(|meter| meter.load(Ordering::Relaxed)).sum();
        let state = Progress { bytes, total_bytes: told.total_bytes, records: told.records };
        (told.callback)(state)
    }
}
