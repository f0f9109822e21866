// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs tenants together on a modelled drive and measures each: the labels of interference models.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::Peekable;

use linnet_ssd::{Params, Ssd};
use linnet_types::{IoRecord, Nanos};

use crate::outcome::{Completed, Meter, Outcome};

/// The drives of the gray-box paper's Table 1, by name, as parameter files.
pub const DRIVES: [(&str, &str); 2] =
    [("nvme", include_str!("../drives/nvme.toml")), ("sata", include_str!("../drives/sata.toml"))];
/// Most tenants of a drive. Each has an equal part of its space.
pub const TENANTS_MAX: usize = 16;

/// The parameters of a drive of this name.
pub fn drive(name: &str) -> Option<Result<Params, linnet_ssd::Error>> {
    DRIVES.iter().find(|(own, _)| *own == name).map(|(_, text)| Params::from_toml(text))
}

/// Bytes of a tenant's part of a drive.
pub fn part_bytes(drive: &Ssd) -> u64 {
    drive.capacity_bytes() / TENANTS_MAX as u64 / 4096 * 4096
}

/// A tenant of a run.
#[derive(Clone, Debug)]
pub struct Tenant<I> {
    /// Its I/Os, by arrival.
    pub ios: I,
    /// Maximum of its I/Os outstanding; others wait, as in fio.
    pub depth: usize,
}

/// What runs before a run is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warm {
    /// So long.
    For(Nanos),
    /// Until the drive's reserve of free pages is steady: its mean over two successive windows is nearly the same.
    /// Writers that ask for more than collection wins draw on it for seconds, and are slowed down when it is short.
    Steady,
}

/// A window of [`Warm::Steady`]: the longest period of a drawn load.
const WINDOW_NS: Nanos = 500_000_000;
/// The reserve is looked at so often.
const SAMPLE_NS: Nanos = 10_000_000;
/// Means of the reserve, as shares of it, that count as the same.
const ALIKE: f64 = 0.05;
/// The longest warm-up of [`Warm::Steady`].
pub const WARM_MOST_NS: Nanos = 5_000_000_000;

/// A run.
#[derive(Clone, Debug)]
pub struct Colocated {
    /// Of each tenant.
    pub outcomes: Vec<Outcome>,
    /// How long the warm-up was.
    pub warm_ns: Nanos,
    /// Whether [`Warm::Steady`] ended because the reserve was steady.
    pub steady: bool,
}

struct State<I: Iterator<Item = IoRecord>> {
    ios: Peekable<I>,
    depth: usize,
    outstanding: BinaryHeap<Reverse<Nanos>>,
    meter: Meter,
    /// I/Os of the warm-up that are outstanding when it may end.
    carried: Vec<Completed>,
}

impl<I: Iterator<Item = IoRecord>> State<I> {
    fn new(tenant: Tenant<I>) -> Self {
        State {
            ios: tenant.ios.peekable(),
            depth: tenant.depth.max(1),
            outstanding: BinaryHeap::new(),
            meter: Meter::default(),
            carried: Vec::new(),
        }
    }

    /// When the next I/O can be submitted: when it arrives, or when a place is free.
    fn due(&mut self, now: Nanos) -> Option<Nanos> {
        let from = self.ios.peek()?.arrive_ns.max(now);
        while self.outstanding.peek().is_some_and(|Reverse(done)| *done <= from) {
            self.outstanding.pop();
        }
        if self.outstanding.len() < self.depth {
            return Some(from);
        }
        self.outstanding.peek().map(|Reverse(done)| (*done).max(from))
    }
}

/// Follows the reserve of free pages through a warm-up.
#[derive(Default)]
struct Reserve {
    next_ns: Nanos,
    sum: f64,
    samples: u32,
    before: Option<f64>,
}

impl Reserve {
    fn sample(&mut self, now: Nanos, drive: &Ssd) {
        if now >= self.next_ns {
            // Between two I/Os nothing is seen of it.
            let times = (now - self.next_ns) / SAMPLE_NS + 1;
            self.sum += drive.free_share() * times as f64;
            self.samples += times as u32;
            self.next_ns += times * SAMPLE_NS;
        }
    }

    /// Ends a window: whether its mean is that of the window before.
    fn is_steady(&mut self) -> bool {
        let mean = self.sum / f64::from(self.samples.max(1));
        (self.sum, self.samples) = (0.0, 0);
        self.before.replace(mean).is_some_and(|before| (mean - before).abs() < ALIKE)
    }
}

/// Runs the tenants on a preconditioned drive, whose state changes, for `measured_ns` after a warm-up. What completes
/// in the warm-up is not measured. `None` if `proceed`, which is called every 4,096 I/Os, returns false.
///
/// # Panics
/// With more tenants than [`TENANTS_MAX`].
pub fn colocate<I: Iterator<Item = IoRecord>>(
    drive: &mut Ssd,
    tenants: Vec<Tenant<I>>,
    warm: Warm,
    measured_ns: Nanos,
    mut proceed: impl FnMut() -> bool,
) -> Option<Colocated> {
    assert!(tenants.len() <= TENANTS_MAX, "{} tenants, where {TENANTS_MAX} are allowed", tenants.len());
    let space = part_bytes(drive);
    let mut states: Vec<_> = tenants.into_iter().map(State::new).collect();
    let mut queue = BinaryHeap::new();
    for (t, state) in states.iter_mut().enumerate() {
        queue.extend(state.due(0).map(|due| Reverse((due, t))));
    }
    // The end of the warm-up; while it is sought, the end of its window.
    let (mut from_ns, mut seeks) = match warm {
        Warm::For(ns) => (ns, false),
        Warm::Steady => (WINDOW_NS, true),
    };
    let (mut reserve, mut steady, mut count) = (Reserve::default(), false, 0u64);
    while let Some(Reverse((now, t))) = queue.pop() {
        while seeks {
            reserve.sample(now.min(from_ns), drive);
            if now < from_ns {
                break;
            }
            steady = reserve.is_steady();
            if steady || from_ns >= WARM_MOST_NS {
                seeks = false;
                for state in &mut states {
                    for io in std::mem::take(&mut state.carried) {
                        state.meter.count(&io, from_ns, from_ns + measured_ns);
                    }
                }
            } else {
                from_ns += WINDOW_NS;
                for state in &mut states {
                    state.carried.retain(|io| io.complete_ns >= from_ns);
                }
            }
        }
        if !seeks && now >= from_ns + measured_ns {
            break;
        }
        count += 1;
        if count.is_multiple_of(4096) && !proceed() {
            return None;
        }
        let state = &mut states[t];
        let record = state.ios.next().expect("an I/O that is due");
        let mut request = record.request();
        request.offset_bytes = request.offset_bytes % space + t as u64 * space;
        let (done, cause) = drive.submit_explained(now, &request);
        state.outstanding.push(Reverse(done));
        let io = Completed { submit_ns: now, complete_ns: done, op: record.op, size_bytes: record.size_bytes, cause };
        if !seeks {
            state.meter.count(&io, from_ns, from_ns + measured_ns);
        } else if done >= from_ns {
            state.carried.push(io);
        }
        queue.extend(state.due(now).map(|due| Reverse((due, t))));
    }
    let outcomes = states.into_iter().map(|state| state.meter.outcome(measured_ns)).collect();
    Some(Colocated { outcomes, warm_ns: from_ns, steady })
}
