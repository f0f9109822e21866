// SPDX-License-Identifier: MIT OR Apache-2.0
//! Brings a preconditioned drive to the state that some tenants keep it in.
//!
//! Preconditioning overwrites the whole drive at random, so all blocks hold nearly as much valid data. Tenants overwrite
//! their own parts: soon most invalid pages are in few blocks, and collecting these moves less. With rates as tenants
//! have them this takes seconds to hours. So their writes, in the order of their arrival, change the maps of the drive
//! without time passing, until write amplification is steady.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use linnet_ssd::{Settled, Ssd};
use linnet_types::{IoRecord, Nanos, Op};

use crate::colocate::{TENANTS_MAX, part_bytes};
use crate::load::Offer;

/// Windows that are not compared, of a quarter of the parts that are written: until each part was overwritten once,
/// collection finds the blocks that preconditioning left.
const WINDOWS_LEAST: u32 = 4;

/// Overwrites the parts of the drive that loads write, each with a seed of its own, until write amplification is steady
/// or the limit of [`Ssd::precondition`] is reached. Tells also how long the loads take to offer so much. Loads that
/// wait for the drive offer in another proportion; this is not looked at.
///
/// # Panics
/// With more loads than [`TENANTS_MAX`].
pub fn settle<L: Offer + ?Sized>(drive: &mut Ssd, loads: &[(&L, u64)]) -> (Settled, Nanos) {
    assert!(loads.len() <= TENANTS_MAX, "{} loads, where {TENANTS_MAX} are allowed", loads.len());
    let space = part_bytes(drive);
    let mut streams: Vec<_> = loads
        .iter()
        .enumerate()
        .filter(|(_, (load, _))| load.writes())
        .map(|(t, (load, seed))| (t as u64 * space, load.ios(space, *seed).filter(|record| record.op == Op::Write)))
        .collect();
    let parts = streams.len() as u64;
    let mut next: Vec<Option<IoRecord>> = streams.iter_mut().map(|(_, stream)| stream.next()).collect();
    let arrivals = next.iter().enumerate().filter_map(|(s, record)| Some(Reverse((record.as_ref()?.arrive_ns, s))));
    let mut queue: BinaryHeap<Reverse<(Nanos, usize)>> = arrivals.collect();
    let mut last_ns = 0;
    let writes = std::iter::from_fn(|| {
        let Reverse((arrive_ns, s)) = queue.pop()?;
        let (begin, stream) = &mut streams[s];
        let record = std::mem::replace(&mut next[s], stream.next())?;
        queue.extend(next[s].as_ref().map(|record| Reverse((record.arrive_ns, s))));
        last_ns = arrive_ns;
        Some((*begin + record.offset_bytes % space, record.size_bytes))
    });
    let settled = drive.overwrite_until_steady(writes, parts * space, WINDOWS_LEAST);
    (settled, last_ns)
}
