// SPDX-License-Identifier: MIT OR Apache-2.0
//! The path selectors of Linux, with each replica as a path. One CPU's statistics: per-CPU ones would know less.
//!
//! - **nvme-queue-depth**: NVMe native multipath, `iopolicy=queue-depth` (`nvme_queue_depth_path`, since 6.11). Submit to
//!   the controller with the fewest I/Os in flight; the first among equals.
//! - **nvme-latency**: the `latency` policy proposed for NVMe native multipath (N. Shroff, "nvme-multipath: introduce
//!   latency I/O policy", linux-nvme, versions 4 to 6). Every 15 seconds the mean latency of each path enters a moving
//!   average with weight 1/8; the first answer of a path is its first average, at once. Each path gets credits in
//!   proportion to the inverse of its average, 64 in all; an I/O takes one credit of its path, paths take turns, and
//!   when all credits are spent they are given again. We give at least one credit to each path, because a path without
//!   I/Os could not show that it has recovered; and we average reads alone, which is to the policy's advantage here.
//! - **dm-hst**: dm-multipath's `historical-service-time` (`drivers/md/dm-ps-historical-service-time.c`) with its default
//!   arguments. The service time of an I/O counts from the end of the I/O before it on the path, if that is later than
//!   its submission. It enters a moving average that keeps 972/1024 of the old value for an I/O below 16.8 ms, and the
//!   next power of that factor for each further 16.8 ms. Submit to the path with the lowest average x (I/Os in flight +
//!   1). A path that has not finished an I/O for (paths x average) is stale: an idle stale path is tried, the most stale
//!   first, and a busy one gets no more I/Os than its rival. The path used last loses ties.

use super::mirror::first_least;
use crate::{Ask, Choice, Completion, Policy, Submit};
use linnet_core::Budget;
use linnet_sim::Chance;
use linnet_types::Nanos;

pub(crate) struct NvmeQueueDepth;

impl Policy for NvmeQueueDepth {
    fn name(&self) -> &str {
        "nvme-queue-depth"
    }

    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance, _revokes: &mut Budget) -> Choice {
        Choice::Submit(Submit::to(first_least(ask, |device| ask.devices[device].in_flight())))
    }
}

/// Length of a sampling window of nvme-latency.
const WINDOW_NS: Nanos = 15_000_000_000;
/// Credits of all paths of nvme-latency together.
const CREDITS: f64 = 64.0;
/// Share of the old average that nvme-latency keeps.
const KEPT: f64 = 7.0 / 8.0;

#[derive(Clone, Copy, Default)]
struct Path {
    window_ns: u128,
    window_ios: u64,
    average_ns: f64,
    credits: u32,
}

pub(crate) struct NvmeLatency {
    paths: Vec<Path>,
    window_end_ns: Nanos,
    last: usize,
}

impl NvmeLatency {
    pub(crate) fn new(devices: usize) -> NvmeLatency {
        NvmeLatency { paths: vec![Path::default(); devices], window_end_ns: WINDOW_NS, last: devices - 1 }
    }

    fn end_window(&mut self, now_ns: Nanos) {
        for path in &mut self.paths {
            if path.window_ios > 0 {
                let mean_ns = path.window_ns as f64 / path.window_ios as f64;
                path.average_ns = KEPT * path.average_ns + (1.0 - KEPT) * mean_ns;
            }
            (path.window_ns, path.window_ios) = (0, 0);
        }
        self.window_end_ns = now_ns + WINDOW_NS;
    }

    /// Gives all paths their credits. Until every path has an average they are equal.
    fn refill(&mut self) {
        let unknown = self.paths.iter().any(|path| path.average_ns == 0.0);
        let score = |path: &Path| if unknown { 1.0 } else { 1.0 / path.average_ns };
        let total: f64 = self.paths.iter().map(score).sum();
        for path in &mut self.paths {
            path.credits = ((CREDITS * score(path) / total) as u32).max(1);
        }
    }
}

impl Policy for NvmeLatency {
    fn name(&self) -> &str {
        "nvme-latency"
    }

    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance, _revokes: &mut Budget) -> Choice {
        if ask.now_ns >= self.window_end_ns {
            self.end_window(ask.now_ns);
        }
        if ask.candidates().all(|device| self.paths[device].credits == 0) {
            self.refill();
        }
        let count = self.paths.len();
        let turn = |device: usize| (device + count - self.last - 1) % count;
        let chosen = ask.least(|device| (self.paths[device].credits == 0, turn(device)));
        self.paths[chosen].credits = self.paths[chosen].credits.saturating_sub(1);
        self.last = chosen;
        Choice::Submit(Submit::to(chosen))
    }

    fn completed(&mut self, done: &Completion) {
        if !done.op.is_read() {
            return;
        }
        let path = &mut self.paths[done.device];
        path.window_ns += u128::from(done.latency_ns);
        path.window_ios += 1;
        if path.average_ns == 0.0 {
            path.average_ns = done.latency_ns.max(1) as f64;
            self.refill();
        }
    }
}

/// What dm-hst's average keeps of its old value: 972/1024, for an I/O of the shortest class.
const HST_KEPT: f64 = 972.0 / 1024.0;
/// Width of a class of service times is 2^24 ns; there are 64.
const HST_CLASS_SHIFT: u32 = 24;
const HST_CLASSES: u64 = 64;

#[derive(Clone, Copy, Default)]
struct HstPath {
    service_ns: f64,
    finished_ns: Nanos,
    stale_after_ns: Nanos,
}

pub(crate) struct DmHst {
    paths: Vec<HstPath>,
    /// Paths, the one used last at the end.
    order: Vec<usize>,
}

impl DmHst {
    pub(crate) fn new(devices: usize) -> DmHst {
        DmHst { paths: vec![HstPath::default(); devices], order: (0..devices).collect() }
    }

    /// Whether path `a` with `out_a` I/Os in flight is better than path `b`.
    fn is_better(&self, (a, out_a): (usize, u32), (b, out_b): (usize, u32), now_ns: Nanos) -> bool {
        let (a, b) = (&self.paths[a], &self.paths[b]);
        let (stale_a, stale_b) = (a.stale_after_ns < now_ns, b.stale_after_ns < now_ns);
        // With the default threshold of 0, averages count as alike only if both are 0.
        if a.service_ns == 0.0 && b.service_ns == 0.0 {
            return out_a < out_b;
        }
        if (out_a == 0 && stale_a) || (out_b == 0 && stale_b) || (out_a == 0 && out_b == 0) {
            return if out_a == 0 && out_b == 0 { a.stale_after_ns < b.stale_after_ns } else { out_a == 0 };
        }
        let wait = |path: &HstPath, out: u32| path.service_ns * (f64::from(out) + 1.0);
        let (b_better, winner_is_stale) =
            if wait(a, out_a) > wait(b, out_b) { (true, stale_b) } else { (false, stale_a) };
        if winner_is_stale { out_a < out_b } else { !b_better }
    }
}

impl Policy for DmHst {
    fn name(&self) -> &str {
        "dm-hst"
    }

    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance, _revokes: &mut Budget) -> Choice {
        let mut best = None;
        for (place, &device) in self.order.iter().enumerate() {
            if !ask.candidates().any(|candidate| candidate == device) {
                continue;
            }
            let out = ask.devices[device].in_flight();
            if best.is_none_or(|(_, least)| self.is_better((device, out), least, ask.now_ns)) {
                best = Some((place, (device, out)));
            }
        }
        let Some((place, (chosen, _))) = best else { return Choice::Submit(Submit::to(ask.next)) };
        self.order.remove(place);
        self.order.push(chosen);
        Choice::Submit(Submit::to(chosen))
    }

    fn completed(&mut self, done: &Completion) {
        let paths = self.paths.len() as f64;
        let path = &mut self.paths[done.device];
        let started_ns = (done.now_ns - done.latency_ns).max(path.finished_ns);
        let service_ns = done.now_ns.saturating_sub(started_ns);
        let class = (service_ns >> HST_CLASS_SHIFT).min(HST_CLASSES - 1);
        let kept = HST_KEPT.powi(class as i32 + 1);
        path.service_ns = kept * path.service_ns + (1.0 - kept) * service_ns as f64;
        path.finished_ns = done.now_ns;
        path.stale_after_ns = done.now_ns + (paths * path.service_ns) as Nanos;
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, Chance, Choice, DmHst, HstPath, Policy, Submit};
    use crate::tests::{Scene, answer};

    #[test]
    fn an_idle_path_is_tried_once_it_is_stale_in_whatever_order_paths_are_compared() {
        let mut policy = DmHst::new(2);
        policy.paths[0] = HstPath { service_ns: 100_000.0, finished_ns: 0, stale_after_ns: 10_000 };
        policy.paths[1] = HstPath { service_ns: 2_000_000.0, finished_ns: 0, stale_after_ns: 5_000 };
        let (busy, idle) = ((0, 1), (1, 0));
        for (now_ns, tried) in [(4_999, false), (5_000, false), (5_001, true)] {
            assert_eq!(policy.is_better(idle, busy, now_ns), tried, "{now_ns}");
            assert_eq!(policy.is_better(busy, idle, now_ns), !tried, "{now_ns}");
        }
    }

    #[test]
    fn service_counts_from_the_end_of_the_io_before_and_long_ones_weigh_more() {
        const KEPT: f64 = 972.0 / 1024.0;
        let mut policy = DmHst::new(3);
        let mut average = 0.0;
        // The second was submitted before the first ended. A class is 2^24 ns wide, and there are 64.
        for (now_ns, latency_ns, service_ns, class) in [
            (1_000_000, 600_000, 600_000.0, 0),
            (1_200_000, 700_000, 200_000.0, 0),
            (100_000_000, (1 << 24) - 1, 16_777_215.0, 0),
            (200_000_000, 1 << 24, 16_777_216.0, 1),
            (300_000_000, 50_331_648, 50_331_648.0, 3),
            (50_000_000_000, 20_000_000_000, 2e10, 63),
        ] {
            policy.completed(&answer(now_ns, 1, latency_ns, 0));
            let kept = KEPT.powi(class + 1);
            average = kept * average + (1.0 - kept) * service_ns;
            let path = policy.paths[1];
            assert!((path.service_ns / average - 1.0).abs() < 1e-9, "{} and not {average}", path.service_ns);
            assert_eq!((path.finished_ns, path.stale_after_ns), (now_ns, now_ns + (3.0 * average) as u64));
        }
        assert_eq!(policy.paths[0].service_ns, 0.0);
    }

    #[test]
    fn paths_are_compared_by_average_and_queue_and_a_stale_one_gets_no_more_than_its_rival() {
        let better = |a: (f64, u64, u32), b: (f64, u64, u32), now_ns| {
            let mut policy = DmHst::new(2);
            for (path, (service_ns, stale_after_ns, _)) in policy.paths.iter_mut().zip([a, b]) {
                *path = HstPath { service_ns, finished_ns: 0, stale_after_ns };
            }
            (policy.is_better((0, a.2), (1, b.2), now_ns), policy.is_better((1, b.2), (0, a.2), now_ns))
        };
        // Without averages the queue alone counts.
        for now_ns in [0, 9] {
            assert_eq!(better((0.0, 0, 1), (0.0, 0, 2), now_ns), (true, false));
            assert_eq!(better((0.0, 0, 2), (0.0, 0, 2), now_ns), (false, false));
        }
        assert_eq!(better((0.0, 9, 2), (9.0, 9, 1), 9), (true, false), "one of them has an average");
        // Both are idle: the one that is stale first.
        assert_eq!(better((9.0, 5, 0), (1.0, 6, 0), 0), (true, false));
        assert_eq!(better((9.0, 5, 0), (0.0, 5, 0), 0), (false, false));
        // One is idle and stale, whatever the other one is.
        assert_eq!(better((100.0, 8, 0), (1.0, 5, 3), 9), (true, false));
        // Neither is stale: 100 x 3 against 150 x 2, and one more or less.
        assert_eq!(better((100.0, 9, 2), (149.0, 9, 1), 9), (false, true));
        assert_eq!(better((100.0, 9, 2), (150.0, 9, 1), 9), (true, true));
        assert_eq!(better((100.0, 9, 2), (151.0, 9, 1), 9), (true, false));
        assert_eq!(better((100.0, 9, 0), (99.0, 9, 1), 9), (true, false), "an idle one that is fresh");
        assert_eq!(better((100.0, 9, 0), (49.0, 9, 1), 9), (false, true));
        // The one with the shorter wait is stale: it gets an I/O only if it has fewer.
        assert_eq!(better((1.0, 8, 2), (151.0, 9, 1), 9), (false, true));
        assert_eq!(better((1.0, 8, 1), (151.0, 9, 2), 9), (true, false));
        assert_eq!(better((1.0, 8, 2), (151.0, 9, 2), 9), (false, false));
    }

    #[test]
    fn the_path_used_last_loses_ties_and_others_are_left_out() {
        let (mut policy, scene) = (DmHst::new(3), Scene::new(&[0, 0, 0]));
        let sent = [7, 7, 7, 7, 6, 6, 6, 7]
            .map(|candidates| policy.choose(&scene.ask(0, candidates), &mut Chance::new(0), &mut Budget::default()));
        assert_eq!(sent, [0, 1, 2, 0, 1, 2, 1, 0].map(|device| Choice::Submit(Submit::to(device))));
    }
}
