// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rates over the time of a sample, in bounded memory: when the slots are full, pairs of them are added and their width
//! doubles.

use linnet_types::Nanos;

use crate::error::Error;
use crate::rates::Sums;

/// Most slots of a history.
pub const HISTORY_SLOTS: usize = 1024;

/// I/Os and bytes of each group in slots of equal width, from the start of the sample.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    window_ns: Nanos,
    shift: u32,
    slots: Vec<[Sums; 4]>,
}

impl History {
    pub(crate) fn new(window_ns: Nanos) -> History {
        History { window_ns, shift: 0, slots: Vec::new() }
    }

    /// Width of a slot: the window of the profile, times a power of two.
    pub fn slot_ns(&self) -> Nanos {
        self.window_ns << self.shift
    }

    /// The slots, in the order of time; the last ones may be empty.
    pub fn slots(&self) -> &[[Sums; 4]] {
        &self.slots
    }

    /// Adds what a window has. Windows come in the order of time.
    pub(crate) fn add(&mut self, window: u64, sums: &[Sums; 4]) {
        while window >> self.shift >= HISTORY_SLOTS as u64 {
            let halves = self.slots.chunks(2).map(|pair| match pair {
                [one, other] => std::array::from_fn(|g| one[g] + other[g]),
                rest => rest[0],
            });
            self.slots = halves.collect();
            self.shift += 1;
        }
        let slot = (window >> self.shift) as usize;
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, [Sums::default(); 4]);
        }
        for (to, from) in self.slots[slot].iter_mut().zip(sums) {
            *to = *to + *from;
        }
    }

    /// Ends after so many complete windows: an incomplete slot is dropped, and slots without I/Os are added.
    pub(crate) fn finish(&mut self, windows: u64) {
        // The widths of two histories of equal length are then equal, even if one tenant stopped early.
        if windows > 0 {
            self.add(windows - 1, &[Sums::default(); 4]);
        }
        self.slots.resize((windows >> self.shift) as usize, [Sums::default(); 4]);
    }

    /// The sum, slot by slot.
    ///
    /// # Errors
    /// [`Error::Histories`] if the two differ in width or number of slots.
    pub(crate) fn plus(&self, other: &History) -> Result<History, Error> {
        if (self.slot_ns(), self.slots.len()) != (other.slot_ns(), other.slots.len()) {
            return Err(Error::Histories(format!(
                "one history has {} slots of {} ms, another {} of {} ms",
                self.slots.len(),
                self.slot_ns() as f64 / 1e6,
                other.slots.len(),
                other.slot_ns() as f64 / 1e6
            )));
        }
        let sum = |(a, b): (&[Sums; 4], &[Sums; 4])| std::array::from_fn(|g| a[g] + b[g]);
        Ok(History { slots: self.slots.iter().zip(&other.slots).map(sum).collect(), ..*self })
    }

    /// Variance of the rate (I/Os per second) and of the bandwidth (bytes per second) of a group over the slots.
    pub(crate) fn variances(&self, group: usize) -> (f64, f64) {
        let seconds = self.slot_ns() as f64 / 1e9;
        let of = |pick: fn(&Sums) -> u64| {
            let values = self.slots.iter().map(|slot| pick(&slot[group]));
            crate::rates::deviation(values, seconds).powi(2)
        };
        (of(|sums| sums.ios), of(|sums| sums.bytes))
    }
}
