// SPDX-License-Identifier: MIT OR Apache-2.0
//! Another knob by the same library: how many requests a disk's queue holds (`queue/nr_requests`).
//!
//! A long queue lets writes merge and be sorted; a read that arrives behind them waits for all. So the value should be
//! small where reads share the queue with writes, and large where one of them is alone.
//!
//! Observer: counters of `/sys/block/DISK/stat`, which every kernel has. Model: a tree on three features, whose labels come
//! from how long requests waited under each value. Setter: the device's setter of the readahead tuner, which keeps a
//! journal and yields to others.

use std::collections::HashMap;
use std::io;

use linnet_core::{Knob, SCHEMA_PRIVATE, Unit};
use linnet_tune::fit::{FitOptions, Parts, Rows, fit};
use linnet_tune::host::Host;
use linnet_tune::{Error, Result};

/// Schema of these features. Numbers from [`SCHEMA_PRIVATE`] up are the caller's own.
pub const SCHEMA: u16 = SCHEMA_PRIVATE + 1;
/// Values that are set, in requests.
pub const VALUES: [u32; 3] = [16, 64, 256];
/// Numbers of a window.
pub const FEATURES: usize = 3;
/// A mean wait up to this much above the shortest is as good: windows differ by as much.
const AS_GOOD: f32 = 1.05;

/// Counters of a disk since it was made (Documentation/block/stat.rst).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stat {
    reads: u64,
    read_sectors: u64,
    writes: u64,
    write_merges: u64,
    /// Sum of the time that requests waited or ran, in ms.
    busy_ms: u64,
}

impl Stat {
    /// Reads the counters.
    pub fn read(host: &Host, disk: &str) -> Result<Stat> {
        let name = format!("/sys/block/{disk}/stat");
        let text = host.read(&name)?;
        let numbers: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
        match numbers.as_deref() {
            Some([reads, _, read_sectors, _, writes, write_merges, _, _, _, _, busy_ms, ..]) => Ok(Stat {
                reads: *reads,
                read_sectors: *read_sectors,
                writes: *writes,
                write_merges: *write_merges,
                busy_ms: *busy_ms,
            }),
            _ => Err(Error::Format { path: host.path(name), what: format!("{text:?}: eleven counters are expected") }),
        }
    }

    /// The time between two looks; None without requests.
    pub fn window(self, before: Stat) -> Option<Window> {
        let of = |now: u64, then: u64| now.saturating_sub(then) as f32;
        let (reads, writes) = (of(self.reads, before.reads), of(self.writes, before.writes));
        let requests = reads + writes;
        if requests == 0.0 {
            return None;
        }
        let read_kib = of(self.read_sectors, before.read_sectors) / 2.0 / reads.max(1.0);
        let merges = of(self.write_merges, before.write_merges);
        Some(Window {
            features: [reads / requests, read_kib.max(1.0).log2() / 10.0, merges / (writes + merges).max(1.0)],
            wait_ms: of(self.busy_ms, before.busy_ms) / requests,
        })
    }
}

/// What a disk did for some time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Shares and a logarithm: twice the speed gives the same numbers.
    pub features: [f32; FEATURES],
    /// How long a request waited and ran, on average. It follows the machine's speed and the value that we set, so it is
    /// no feature: it tells which value was best.
    pub wait_ms: f32,
}

impl Window {
    /// Windows are of one kind where reads have the same share, to a tenth.
    fn kind(&self) -> u8 {
        (10.0 * self.features[0]) as u8
    }
}

/// The value that was best for the kind of each window, as a place in [`VALUES`]: the first whose mean wait is as good as
/// the shortest. `seen` holds windows, each with the place of the value that stood.
pub fn best(seen: &[(usize, Window)]) -> Vec<u8> {
    let mut waits: HashMap<u8, [(f32, u32); VALUES.len()]> = HashMap::new();
    for (at, window) in seen {
        let (sum, count) = &mut waits.entry(window.kind()).or_default()[*at];
        (*sum, *count) = (*sum + window.wait_ms, *count + 1);
    }
    let mean = |(sum, count): (f32, u32)| if count == 0 { f32::INFINITY } else { sum / count as f32 };
    let of_window = |window: &Window| {
        let means = waits[&window.kind()].map(mean);
        let shortest = means.into_iter().fold(f32::INFINITY, f32::min);
        means.iter().position(|wait| *wait <= AS_GOOD * shortest).unwrap_or(0) as u8
    };
    seen.iter().map(|(_, window)| of_window(window)).collect()
}

/// The value that stands after setting one; None where the kernel refuses the value. Without a scheduler a queue holds at
/// most as many requests as the disk has tags.
pub fn accepted(set: Result<u32>) -> Result<Option<u32>> {
    match set {
        Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::InvalidInput => Ok(None),
        set => set.map(Some),
    }
}

/// A model from labelled windows: `best` holds the place in [`VALUES`] of what was best in each.
pub fn model(windows: &[[f32; FEATURES]], best: &[u8]) -> std::result::Result<Knob, linnet_core::Error> {
    let features: Vec<f32> = windows.iter().flatten().copied().collect();
    let rows = Rows { features: &features, inputs: FEATURES, classes: best };
    fit(SCHEMA, Unit::None, &VALUES, rows, Parts::Tree, 0.7, &FitOptions::default(), &mut || true)
}
