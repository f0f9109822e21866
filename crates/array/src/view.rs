// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the array knows of one device: everything here is counted at the host, nothing is asked of the device.

use linnet_core::{Place, Tracker, Watch};
use linnet_types::{Nanos, Op, Request};

use crate::Config;

/// Weight of a new read in the moving average of latency: 1/8, so that about the last eight reads count.
const EWMA_SHIFT: u32 = 3;

/// A device, seen from the array.
#[derive(Clone, Debug, Default)]
pub struct DeviceView {
    /// Copies handed to the device that have not ended.
    pub in_flight: u32,
    /// Features of LinnOS.
    pub tracker: Tracker,
    /// Features of the schema `linnet-1`, for policies that want them.
    pub watch: Option<Watch>,
    /// Moving average of read latency; 0 before the first read.
    pub ewma_ns: Nanos,
    /// When something last completed, reads and writes.
    pub completed_ns: Nanos,
    /// When a read last completed or a probe was last sent: the age of what is known of the device.
    pub learnt_ns: Nanos,
    /// Revokes since a read last completed.
    pub revokes_in_row: u32,
    /// Errors and time-outs since an I/O last completed.
    pub errors_in_row: u32,
    /// Out of service until this time.
    pub out_until_ns: Nanos,
    /// How long the next absence lasts.
    backoff_ns: Nanos,
    /// A probe is under way.
    pub probing: bool,
}

impl DeviceView {
    /// An idle device. With an inflection point it is watched; 0 stands for an unknown one, above which nothing is.
    pub(crate) fn new(watched_ns: Option<Nanos>) -> Self {
        let watch = watched_ns.map(|inflection_ns| match inflection_ns {
            0 => Watch::default(),
            known => Watch::new(known),
        });
        DeviceView { watch, ..DeviceView::default() }
    }

    /// True while the device is left out because of errors.
    pub fn is_out(&self, now: Nanos) -> bool {
        now < self.out_until_ns
    }

    /// True when what is known of the device has expired (see [`Config::age_ns`], [`Config::revokes_in_row_max`]) and no
    /// probe is under way to refresh it.
    pub fn is_stale(&self, now: Nanos, config: &Config) -> bool {
        let old = now.saturating_sub(self.learnt_ns) >= config.age_ns;
        !self.probing && (old || self.revokes_in_row >= config.revokes_in_row_max)
    }

    /// Features of a read of this size, were it to arrive now.
    pub fn digits(&self, size_bytes: u32) -> [u8; linnet_core::DIGITS] {
        let mut tracker = self.tracker;
        let snapshot = tracker.arrive(size_bytes);
        tracker.digits(snapshot)
    }

    /// What a read would wait by the averages: EWMA latency x (in flight + 1), in nanoseconds. 0 before the first read.
    pub fn expected_ns(&self) -> u64 {
        self.ewma_ns.saturating_mul(u64::from(self.in_flight) + 1)
    }

    pub(crate) fn submitted(&mut self, size_bytes: u32) -> u32 {
        self.in_flight += 1;
        self.tracker.arrive(size_bytes)
    }

    /// Tells the watch, where there is one, of an I/O that was handed to the device.
    pub(crate) fn watch_arrive(&mut self, now: Nanos, request: &Request) -> Option<Place> {
        self.watch.as_mut().map(|watch| watch.arrive(now, request))
    }

    /// Tells the watch that it completed at this time, or left without an answer worth learning from.
    pub(crate) fn watch_end(&mut self, place: Option<Place>, done_ns: Option<Nanos>) {
        if let (Some(watch), Some(place)) = (&mut self.watch, place) {
            match done_ns {
                Some(now) => watch.complete(place, now),
                None => watch.withdraw(place),
            }
        }
    }

    pub(crate) fn completed(&mut self, now: Nanos, op: Op, size_bytes: u32, latency_ns: Nanos, snapshot: u32) {
        self.in_flight -= 1;
        self.tracker.complete(op, size_bytes, latency_ns, snapshot);
        self.completed_ns = now;
        self.errors_in_row = 0;
        self.out_until_ns = 0;
        self.backoff_ns = 0;
        if op.is_read() {
            self.learnt_ns = now;
            self.revokes_in_row = 0;
            self.ewma_ns = match self.ewma_ns {
                0 => latency_ns,
                ewma => ewma - (ewma >> EWMA_SHIFT) + (latency_ns >> EWMA_SHIFT),
            };
        }
    }

    /// A copy left without an answer worth learning from: cancelled or refused.
    pub(crate) fn withdrawn(&mut self, size_bytes: u32) {
        self.in_flight -= 1;
        self.tracker.withdraw(size_bytes);
    }

    pub(crate) fn failed(&mut self, now: Nanos, size_bytes: u32, config: &Config) {
        self.withdrawn(size_bytes);
        self.errors_in_row = self.errors_in_row.saturating_add(1);
        if self.errors_in_row >= config.error_limit {
            self.leave_out(now, config);
        }
    }

    /// Leaves the device out for the current absence, and makes the next one twice as long.
    fn leave_out(&mut self, now: Nanos, config: &Config) {
        let absence = self.backoff_ns.max(config.out_ns);
        self.out_until_ns = now + absence;
        self.backoff_ns = (absence * 2).min(config.out_ns_max);
    }

    /// A read is about to go to a device that was left out: it is the one probe; the others stay away meanwhile.
    pub(crate) fn readmit(&mut self, now: Nanos, config: &Config) -> bool {
        let probe = self.errors_in_row >= config.error_limit && !self.is_out(now);
        if probe {
            self.out_until_ns = now + self.backoff_ns.max(config.out_ns);
        }
        probe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_device_is_left_out_longer_each_time_and_comes_back() {
        let config = Config { error_limit: 2, out_ns: 100, out_ns_max: 250, ..Config::default() };
        let mut view = DeviceView::default();
        let fail = |view: &mut DeviceView, now| {
            view.submitted(4096);
            view.failed(now, 4096, &config);
        };
        fail(&mut view, 10);
        assert!(!view.is_out(10), "one error is no reason");
        fail(&mut view, 20);
        assert!(view.is_out(119) && !view.is_out(120));
        assert!(view.readmit(120, &config));
        assert!(view.is_out(200) && !view.readmit(200, &config), "one probe at a time");
        fail(&mut view, 130);
        assert!(view.is_out(329) && !view.is_out(330));
        fail(&mut view, 330);
        assert!(view.is_out(579) && !view.is_out(580), "the absence is bounded");
        let snapshot = view.submitted(4096);
        view.completed(600, Op::Read, 4096, 20, snapshot);
        assert!(!view.is_out(600) && !view.readmit(600, &config));
        assert_eq!((view.in_flight, view.tracker.pending_pages(), view.ewma_ns), (0, 0, 20));
    }

    #[test]
    fn knowledge_expires_with_age_or_after_many_revokes() {
        let config = Config { age_ns: 1000, revokes_in_row_max: 3, ..Config::default() };
        let mut view = DeviceView { learnt_ns: 500, ..DeviceView::default() };
        assert!(!view.is_stale(1499, &config) && view.is_stale(1500, &config));
        view.revokes_in_row = 3;
        assert!(view.is_stale(600, &config));
        view.probing = true;
        assert!(!view.is_stale(5000, &config));
    }
}
