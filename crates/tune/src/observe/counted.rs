// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the programs have counted: reads their maps, takes differences, and forgets files that nobody reads any more.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use aya::maps::{Map, MapData};
use aya::{Ebpf, Pod};

use crate::error::Result;
use crate::observe::batch::{Batch, take};
use crate::observe::bpf::refused;
use crate::observe::cell::{Cell, Counts};

/// A file, its readers' control group, and with whose value they read: `struct key` of readahead.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub(super) struct Key {
    pub inode: u64,
    pub cgroup: u64,
    pub dev: u32,
    /// `ADVISED`, a value above the device's in pages, or 0.
    pub reader: u32,
}

/// `ADVISED` of readahead.h.
pub(super) const ADVISED: u32 = u32::MAX;

/// `struct place`: each CPU counts apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
struct Place {
    key: Key,
    cpu: u32,
    zero: u32,
}

/// `struct hot`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Hot {
    key: Key,
    cell: Cell,
    missed: u32,
    zero: u32,
}

// SAFETY: all are plain numbers without padding, as the C side declares them.
unsafe impl Pod for Key {}
// SAFETY: as above.
unsafe impl Pod for Place {}
// SAFETY: as above.
unsafe impl Pod for Cell {}
// SAFETY: as above.
unsafe impl Pod for Hot {}

/// Places of `hot`.
const HOT: u32 = 64;
/// Cells in `files` for each CPU. A cell takes 1 KiB of the kernel, so that all of them take at most 64 MiB, however many
/// CPUs there are. Files that are read by more CPUs at once are counted in part.
const CELLS: usize = 4096;
const CELLS_CPUS: std::ops::RangeInclusive<usize> = 2..=16;
/// A cell that nobody counts in is forgotten after so long.
const IDLE: Duration = Duration::from_secs(30);
/// But every look reads all cells. So where more than this many are known, each has less time: a copy of a tree reads
/// each file once.
const FEW: usize = 1024;
const IDLE_LEAST: Duration = Duration::from_secs(3);

/// How many cells `files` has room for.
pub(super) fn cells_max() -> u32 {
    let cpus = aya::util::nr_cpus().unwrap_or(*CELLS_CPUS.end());
    (CELLS * cpus.clamp(*CELLS_CPUS.start(), *CELLS_CPUS.end())) as u32
}

/// How long a cell is kept where nobody counts in it and so many are known.
fn idle(known: usize) -> Duration {
    let share = FEW as f64 / known.max(FEW) as f64;
    IDLE.mul_f64(share).max(IDLE_LEAST)
}

/// A cell of `files`.
struct Known {
    total: Counts,
    active: Instant,
}

/// What one look finds of a file, all CPUs together.
#[derive(Default)]
pub(super) struct Found {
    pub counts: Counts,
    /// Processes that demanded.
    pub processes: Vec<u32>,
}

/// What was counted until the last look.
pub(super) struct Counted {
    known: HashMap<Place, Known>,
    /// By place and CPU.
    hot: HashMap<(u32, usize), (Key, Counts)>,
    /// What was counted in a cell between the look that found it idle and its end.
    late: Vec<(Key, Counts, u32)>,
    batch: Batch<Place, Cell>,
    hot_batch: Batch<u32, Hot>,
}

impl Counted {
    pub fn new() -> Result<Counted> {
        let (batch, hot_batch) = (Batch::new(), hot_batch()?);
        Ok(Counted { known: HashMap::new(), hot: HashMap::new(), late: Vec::new(), batch, hot_batch })
    }

    /// What was counted since the last look, and forgets what is idle.
    pub fn look(&mut self, ebpf: &Ebpf) -> Result<HashMap<Key, Found>> {
        let now = Instant::now();
        let mut found: HashMap<Key, Found> = HashMap::new();
        let mut note = |key: Key, counts: Counts, process: u32| {
            let of = found.entry(key).or_default();
            of.counts = of.counts.plus(counts);
            of.processes.extend((process != 0).then_some(process));
        };
        let Counted { known, hot, late, batch, hot_batch } = self;
        late.drain(..).for_each(|(key, counts, process)| note(key, counts, process));
        // What lost its place in `hot` since the last look was counted in part, and is in `files` now. So `hot` is read
        // first: what moves later is still known here.
        let mut moved = HashMap::new();
        let unreadable = |error| refused(format!("the counters cannot be read: {error}"));
        let read = hot_batch.read(hot_places(ebpf), |at, all| {
            for (cpu, place) in all.iter().enumerate().filter(|(_, place)| place.key.dev != 0) {
                let mut before = hot.insert((at, cpu), (place.key, place.cell.counts));
                if let Some((key, counts)) = before.take_if(|(key, _)| *key != place.key) {
                    moved.insert(Place { key, cpu: cpu as u32, zero: 0 }, counts);
                }
                let counts = place.cell.counts.since(before.map_or(Counts::default(), |(_, counts)| counts));
                if !counts.is_idle() {
                    note(place.key, counts, place.cell.process);
                }
            }
        });
        read.map_err(unreadable)?;
        let read = batch.read(files(ebpf), |place, cell| {
            let cell = &cell[0];
            let known = known.entry(place).or_insert_with(|| {
                let total = moved.remove(&place).unwrap_or_else(|| counted_hot(hot, &place));
                Known { total, active: now }
            });
            if cell.counts != known.total {
                note(place.key, cell.counts.since(known.total), cell.process);
                *known = Known { total: cell.counts, active: now };
            }
        });
        read.map_err(unreadable)?;
        self.forget(ebpf, now);
        Ok(found)
    }

    /// So the map has room, and a look has little to read.
    fn forget(&mut self, ebpf: &Ebpf, now: Instant) {
        let idle = idle(self.known.len());
        let old: Vec<Place> =
            self.known.iter().filter(|(_, k)| now - k.active > idle).map(|(place, _)| *place).collect();
        for place in old {
            let last = take::<_, Cell>(files(ebpf), &place).map(|cell| (cell.counts, cell.process));
            let known = self.known.remove(&place);
            // It may have been read since the look.
            self.late.extend(
                last.zip(known)
                    .filter(|((counts, _), known)| *counts != known.total)
                    .map(|((counts, process), known)| (place.key, counts.since(known.total), process)),
            );
        }
    }
}

/// What was counted of a file in `hot`, until the last look.
fn counted_hot(hot: &HashMap<(u32, usize), (Key, Counts)>, place: &Place) -> Counts {
    let at = |at| hot.get(&(at, place.cpu as usize)).filter(|(key, _)| *key == place.key);
    (0..HOT).find_map(at).map_or(Counts::default(), |(_, counts)| *counts)
}

/// All cells, wherever they are.
pub(super) fn cells(ebpf: &Ebpf) -> Result<Vec<Cell>> {
    let mut all = Vec::new();
    Batch::<Place, Cell>::new().read(files(ebpf), |_, cell| all.extend(cell)).map_err(refused)?;
    let hot = |_, places: &[Hot]| all.extend(places.iter().map(|place| place.cell));
    hot_batch()?.read(hot_places(ebpf), hot).map_err(refused)?;
    Ok(all)
}

fn files(ebpf: &Ebpf) -> &MapData {
    match ebpf.map("files").expect("in the object") {
        Map::HashMap(map) => map,
        other => unreachable!("files is a hash map, not {other:?}"),
    }
}

fn hot_places(ebpf: &Ebpf) -> &MapData {
    match ebpf.map("hot").expect("in the object") {
        Map::PerCpuArray(map) => map,
        other => unreachable!("hot has a value for each CPU, unlike {other:?}"),
    }
}

/// The kernel writes a value for each CPU that the machine may have, so their number must be known.
fn hot_batch() -> Result<Batch<u32, Hot>> {
    let cpus = aya::util::nr_cpus().map_err(|(file, error)| refused(format!("{file}: {error}")))?;
    Ok(Batch::per_cpu(HOT as usize, cpus))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_cells_are_kept_for_less_time() {
        let seconds = |known| idle(known).as_secs_f64();
        assert_eq!((seconds(0), seconds(1024), seconds(2048), seconds(1 << 20)), (30.0, 30.0, 15.0, 3.0));
        // A walk that goes on settles where as many come as are forgotten. Little of that is read in vain.
        let room = cells_max() as usize;
        assert!(room >= 8192 && seconds(8192) * 2000.0 < 8192.0, "2,000 files a second, each read once, find room");
    }
}
