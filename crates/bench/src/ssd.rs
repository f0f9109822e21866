// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures requests per second of one modelled drive: 4 KiB at random offsets, with the latency of each recorded.

use std::hint::black_box;
use std::time::Instant;

use linnet_sim::Chance;
use linnet_ssd::{Error, Params, Ssd};
use linnet_types::{Nanos, Op, Request};

/// Name, percentage of reads, and gap between requests in ns: loads that a drive of 64 GiB sustains.
pub const MIXES: [(&str, u64, Nanos); 3] =
    [("read", 100, 2_000), ("mixed-70-30", 70, 10_000), ("overwrite", 0, 20_000)];
/// Requests between two calls of the model.
const BATCH: usize = 4096;

fn drive(blocks_per_plane: u32) -> Result<Ssd, Error> {
    let base = Params::preset("enterprise-wide")?;
    let params = Params { pages_per_block: 32, blocks_per_plane, superblocks_per_erase: 8, ..base };
    Ssd::new(&params, 1)
}

fn requests(capacity_bytes: u64, ios: usize, read_percent: u64, gap_ns: Nanos) -> Vec<(Nanos, Request)> {
    let (mut chance, pages) = (Chance::new(11), capacity_bytes / 4096);
    (0..ios as u64)
        .map(|n| {
            let op = if chance.below(100) < read_percent { Op::Read } else { Op::Write };
            (n * gap_ns, Request::new(op, chance.below(pages) * 4096, 4096))
        })
        .collect()
}

/// The function whose instructions callgrind counts.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn linnet_bench_ssd_counted(device: &mut Ssd, asked: &[(Nanos, Request)], done: &mut Vec<Nanos>) {
    for batch in asked.chunks(BATCH) {
        device.submit_many(batch, done);
    }
}

/// A preconditioned drive to measure.
pub struct Bench {
    device: Ssd,
    precondition_s: f64,
}

impl Bench {
    /// A drive of about `raw_gib` GiB, 10..=1024: 64 GiB raw are 256 superblocks of 256 MiB.
    ///
    /// # Errors
    /// Those of the drive.
    pub fn new(raw_gib: u32) -> Result<Bench, Error> {
        let mut device = drive(raw_gib * 4)?;
        let begun = Instant::now();
        device.precondition();
        Ok(Bench { device, precondition_s: begun.elapsed().as_secs_f64() })
    }

    /// The drive.
    pub fn device(&self) -> &Ssd {
        &self.device
    }

    /// Seconds that the preconditioning took.
    pub fn precondition_s(&self) -> f64 {
        self.precondition_s
    }

    /// Requests per second under one of [`MIXES`], the best of `rounds`. `go_on` is called before each round; `None` if
    /// it returns false.
    pub fn rate(&mut self, mix: usize, ios: usize, rounds: u32, go_on: &mut dyn FnMut() -> bool) -> Option<f64> {
        let (_, read_percent, gap_ns) = MIXES[mix];
        let asked = requests(self.device.capacity_bytes(), ios, read_percent, gap_ns);
        let mut best = f64::INFINITY;
        for _ in 0..rounds {
            if !go_on() {
                return None;
            }
            let mut copy = self.device.clone();
            let mut done = Vec::with_capacity(asked.len());
            let begun = Instant::now();
            linnet_bench_ssd_counted(&mut copy, &asked, &mut done);
            black_box(&done);
            best = best.min(begun.elapsed().as_secs_f64());
        }
        Some(ios as f64 / best)
    }
}

/// Runs `ios` requests of a mix on a small drive inside the counted function, for callgrind. False for an unknown mix.
///
/// # Errors
/// Those of the drive.
pub fn count(mix: &str, ios: usize) -> Result<bool, Error> {
    let Some((_, read_percent, gap_ns)) = MIXES.into_iter().find(|(name, ..)| *name == mix) else { return Ok(false) };
    let mut device = drive(64)?;
    device.precondition();
    let asked = requests(device.capacity_bytes(), ios, read_percent, gap_ns);
    let mut done = Vec::with_capacity(ios);
    linnet_bench_ssd_counted(&mut device, &asked, &mut done);
    black_box(&done);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "slow: make test-slow"]
    fn every_mix_is_measured_and_counted() {
        let mut bench = Bench::new(10).expect("a drive");
        for (mix, (name, ..)) in MIXES.iter().enumerate() {
            assert!(bench.rate(mix, 2_000, 1, &mut || true).expect("not stopped") > 0.0);
            assert!(count(name, 100).expect("a drive"), "{name}");
        }
        assert_eq!(bench.rate(0, 10, 1, &mut || false), None);
        assert!(!count("no such mix", 100).expect("nothing is made"));
    }
}
