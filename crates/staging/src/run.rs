// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run: all tenants at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linnet_measure::quantile_unsorted;
use linnet_tenant::{Outcome, TENANTS_MAX, Tenant};
use linnet_types::{IoRecord, Nanos, Op};

use crate::buffer::Buffer;
use crate::drive::Drive;
use crate::error::Error;
use crate::player::{NOISE, Player, Span};

/// How often the caller is asked whether to go on.
const ASK: Duration = Duration::from_millis(20);

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Ran {
    /// What each tenant saw.
    pub outcomes: Vec<Outcome>,
    /// Microseconds from when an I/O could be submitted to when it was: 99th percentile of all measured I/Os.
    pub late_us_p99: f64,
    /// Of the tenant that had to wait most for a CPU: for which share of the time with I/Os outstanding. So much of its
    /// latencies is the machine's.
    pub waited_share: f64,
}

/// Runs the tenants, whose I/Os arrive from 0, for `measured_ns` after `warm_ns`. What completes in the warm-up is not
/// measured. `None` if `proceed`, which is called all the time, returns false.
///
/// # Panics
/// With more tenants than [`TENANTS_MAX`].
pub fn colocate(
    drive: &Drive,
    tenants: &[Tenant<&[IoRecord]>],
    warm_ns: Nanos,
    measured_ns: Nanos,
    mut proceed: impl FnMut() -> bool,
) -> Result<Option<Ran>, Error> {
    assert!(tenants.len() <= TENANTS_MAX, "{} tenants, where {TENANTS_MAX} are allowed", tenants.len());
    let mut largest = 0;
    for (number, tenant) in tenants.iter().enumerate() {
        drive.check(number, tenant.ios)?;
        let writes = tenant.ios.iter().filter(|io| io.op == Op::Write);
        largest = largest.max(writes.map(|io| drive.place(number, io).size_bytes).max().unwrap_or(0));
    }
    // Reads need none.
    let noise = if largest == 0 { 0 } else { NOISE + largest as usize };
    let source = Arc::new(Buffer::noise(noise.next_multiple_of(8)));
    let players: Result<Vec<_>, _> =
        (0..).zip(tenants).map(|(n, tenant)| Player::new(drive, n, tenant.ios, tenant.depth, source.clone())).collect();
    let (players, stop) = (players?, AtomicBool::new(false));
    let span = Span { from_ns: warm_ns, end_ns: warm_ns + measured_ns };
    let start = Instant::now();
    let mut refused = None;
    let found: Vec<_> = thread::scope(|scope| {
        let stop = &stop;
        let play = |player: Player<'_>| {
            let found = player.play(start, span, stop);
            // Without one of them the others are not what was asked for.
            stop.fetch_or(found.is_err(), Ordering::Relaxed);
            found
        };
        let mut running = Vec::new();
        for player in players {
            match thread::Builder::new().spawn_scoped(scope, move || play(player)) {
                Ok(thread) => running.push(thread),
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    refused = Some(error);
                    break;
                }
            }
        }
        while running.iter().any(|one| !one.is_finished()) {
            stop.fetch_or(!proceed(), Ordering::Relaxed);
            thread::sleep(ASK);
        }
        running.into_iter().map(|one| one.join().expect("players do not panic")).collect()
    });
    if let Some(error) = refused {
        return Err(Error::Thread(error));
    }
    let stopped = stop.load(Ordering::Relaxed);
    let (mut outcomes, mut late_ns, mut waited_share) = (Vec::new(), Vec::new(), 0.0f64);
    for one in found {
        let played = one?;
        outcomes.push(played.meter.outcome(measured_ns));
        late_ns.extend(played.late_ns);
        waited_share = waited_share.max(played.waited_share);
    }
    let late_us_p99 = quantile_unsorted(&mut late_ns, 0.99) as f64 / 1e3;
    Ok((!stopped).then_some(Ran { outcomes, late_us_p99, waited_share }))
}
