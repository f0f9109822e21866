// SPDX-License-Identifier: MIT OR Apache-2.0
//! Synthetic workloads with the statistics of LinnOS, Table 1.
//!
//! The traces behind that table were never published; only its columns were. Each workload here reproduces them: mean
//! IOPS, highest IOPS within a 10 s window, read:write ratio, mean and largest sizes. The rest is our own, set by
//! [`Shape`]:
//!
//! * **Time**: the rate changes every 10 s; its peak is that of the table. Within a window, bursts are in busy tenths
//!   of a second. A burst has some tens of I/Os, in batches microseconds apart. So few I/Os find an idle device ("low
//!   slack") and many find a queue.
//! * **Devices**: busy windows and bursts coincide across devices with probability `correlation`.
//! * **Sizes**: log-logistic, cut at the largest size, with a scale that gives the mean; drawn by strata, so that the
//!   mean is close.
//! * **Places**: extents whose popularity follows a power law, runs of sequential I/Os, and a share of I/Os that are not
//!   aligned to 4 KiB.
//!
//! The paper prints BI/E's ratio as "23:17", which does not add up to 100; 23:77 is used.

mod place;
mod rate;
mod size;

use linnet_sim::Chance;
use linnet_types::{IoRecord, Op};

use crate::error::Error;
use place::Places;

const KIB: f64 = 1024.0;
/// Most I/Os of all devices together: 4 GiB of records.
const IOS_MAX: f64 = 100e6;

/// A row of LinnOS, Table 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// Server type (az, bi, bs, co) and array: c (consumer) or e (enterprise).
    pub name: &'static str,
    /// Mean I/Os per second of one device.
    pub iops_mean: f64,
    /// Most I/Os per second within any 10 s.
    pub iops_max_10s: f64,
    /// Share of reads.
    pub read_share: f64,
    /// Mean size of reads.
    pub read_bytes_mean: f64,
    /// Mean size of writes.
    pub write_bytes_mean: f64,
    /// Largest read.
    pub read_bytes_max: u32,
    /// Largest write.
    pub write_bytes_max: u32,
}

#[allow(clippy::too_many_arguments)]
const fn row(
    name: &'static str,
    iops_mean: f64,
    iops_max_10s: f64,
    read_percent: f64,
    read_kib: f64,
    write_kib: f64,
    read_max_kib: u32,
    write_max_kib: u32,
) -> Workload {
    Workload {
        name,
        iops_mean,
        iops_max_10s,
        read_share: read_percent / 100.0,
        read_bytes_mean: read_kib * KIB,
        write_bytes_mean: write_kib * KIB,
        read_bytes_max: read_max_kib * 1024,
        write_bytes_max: write_max_kib * 1024,
    }
}

/// The eight workloads of Table 1.
pub static WORKLOADS: [Workload; 8] = [
    row("az-c", 745.0, 4_900.0, 27.0, 24.0, 18.0, 64, 64),
    row("bi-c", 361.0, 1_800.0, 17.0, 57.0, 30.0, 64, 1_024),
    row("bs-c", 114.0, 1_100.0, 22.0, 163.0, 73.0, 2_048, 9_216),
    row("co-c", 113.0, 623.0, 32.0, 479.0, 121.0, 6_144, 32_768),
    row("az-e", 13_000.0, 31_000.0, 25.0, 25.0, 17.0, 64, 64),
    row("bi-e", 2_400.0, 9_200.0, 23.0, 55.0, 30.0, 512, 1_024),
    row("bs-e", 1_300.0, 4_300.0, 27.0, 196.0, 73.0, 2_048, 9_216),
    row("co-e", 2_500.0, 7_200.0, 22.0, 430.0, 107.0, 7_168, 32_768),
];

/// Properties that Table 1 does not give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// How much the bursts of devices coincide: 0 independent, 1 all together.
    pub correlation: f64,
    /// Size of the range that a device's I/Os access.
    pub footprint_bytes: u64,
    /// Skew of offsets: the first `x` of the extents, by popularity, get `x^(1/skew)` of the I/Os; 1 is uniform, 7.2 is
    /// 80:20.
    pub skew: f64,
    /// Share of I/Os that start where the last one of the same direction ended.
    pub sequential_share: f64,
    /// Share of I/Os whose offset is a multiple of 512 but not of 4096; their size is a multiple of 512.
    pub unaligned_share: f64,
    /// Mean number of I/Os in a burst, at least 1.
    pub burst_ios_mean: f64,
    /// Share of a burst's I/Os that follow the previous one within microseconds (mean 10 us).
    pub batch_share: f64,
}

impl Default for Shape {
    /// Correlation 0.8, footprint 16 GiB, skew 3, 20 % sequential, 10 % unaligned, 40 I/Os per burst, 60 % of them in
    /// batches.
    fn default() -> Self {
        Shape {
            correlation: 0.8,
            footprint_bytes: 16 << 30,
            skew: 3.0,
            sequential_share: 0.2,
            unaligned_share: 0.1,
            burst_ios_mean: 40.0,
            batch_share: 0.6,
        }
    }
}

impl Shape {
    fn check(&self, largest: u32) -> Result<(), Error> {
        let share = |name, value: f64| check(name, value, (0.0..=1.0).contains(&value), "must be in 0..=1");
        share("correlation", self.correlation)?;
        share("sequential_share", self.sequential_share)?;
        share("unaligned_share", self.unaligned_share)?;
        share("batch_share", self.batch_share)?;
        check("skew", self.skew, (1.0..=100.0).contains(&self.skew), "must be in 1..=100")?;
        let burst = self.burst_ios_mean;
        check("burst_ios_mean", burst, (1.0..=10_000.0).contains(&burst), "must be in 1..=10000")?;
        let fits = self.footprint_bytes >= 4 * u64::from(largest) && self.footprint_bytes <= 1 << 50;
        check(
            "footprint_bytes",
            self.footprint_bytes as f64,
            fits,
            "must hold four of the largest I/Os and be at most 1 PiB",
        )
    }
}

fn check(name: &'static str, value: f64, holds: bool, problem: &'static str) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::Argument { name, value: value.to_string(), problem }) }
}

impl Workload {
    /// The workload of this name.
    ///
    /// # Errors
    /// [`Error::Argument`] for a name that is not in [`WORKLOADS`].
    pub fn named(name: &str) -> Result<&'static Workload, Error> {
        WORKLOADS.iter().find(|w| w.name == name).ok_or_else(|| Error::Argument {
            name: "workload",
            value: name.to_string(),
            problem: "must be one of az-c, bi-c, bs-c, co-c, az-e, bi-e, bs-e, co-e",
        })
    }

    /// The shortest run, in seconds, that can have both the peak of [`Workload::iops_max_10s`] and the mean: at most
    /// 100.
    pub fn seconds_for_peak(&self) -> f64 {
        rate::seconds_for_peak(self)
    }

    /// One trace per device, sorted; it starts within the first burst at or after 0. `device` is the index.
    ///
    /// Mean IOPS, ratio and sizes are right in every run of some thousand I/Os. The peak is right once the run lasts
    /// [`Workload::seconds_for_peak`]; a shorter run has a lower peak. The largest size occurs once it is at most a
    /// fifth of the bytes of its direction.
    ///
    /// # Errors
    /// [`Error::Argument`] for a length, a number of devices or a shape that is out of range.
    pub fn generate(
        &self,
        seconds: f64,
        devices: usize,
        shape: &Shape,
        seed: u64,
    ) -> Result<Vec<Vec<IoRecord>>, Error> {
        shape.check(self.read_bytes_max.max(self.write_bytes_max))?;
        check("devices", devices as f64, (1..=1024).contains(&devices), "must be in 1..=1024")?;
        let ios = (self.iops_mean * seconds).round();
        check("seconds", seconds, ios >= 1.0 && ios * devices as f64 <= IOS_MAX, "must give 1 to 100 million I/Os")?;
        let chance = Chance::new(seed);
        Ok((0..devices).map(|device| self.one(seconds, ios as usize, device as u32, shape, &chance)).collect())
    }

    fn one(&self, seconds: f64, ios: usize, device: u32, shape: &Shape, chance: &Chance) -> Vec<IoRecord> {
        let common = chance.fork(0);
        let own = chance.fork(1 + u64::from(device));
        let arrivals = rate::arrivals(self, seconds, ios, shape, &common, &own);
        let reads = (self.read_share * ios as f64).round() as usize;
        let mut draw = own.fork(10);
        let mut read_sizes = size::sizes(reads, self.read_bytes_mean, self.read_bytes_max, &mut draw).into_iter();
        let mut write_sizes =
            size::sizes(ios - reads, self.write_bytes_mean, self.write_bytes_max, &mut draw).into_iter();
        let mut places = Places::new(shape, own.fork(11));
        let mut reads_left = reads as u64;
        let mut left = ios as u64;
        arrivals
            .into_iter()
            .map(|arrive_ns| {
                let read = draw.below(left) < reads_left;
                left -= 1;
                reads_left -= u64::from(read);
                let op = if read { Op::Read } else { Op::Write };
                let (sizes, most) = if read {
                    (&mut read_sizes, self.read_bytes_max)
                } else {
                    (&mut write_sizes, self.write_bytes_max)
                };
                let size = sizes.next().expect("one size for each I/O");
                let (offset_bytes, size_bytes) = places.next(op, size, most);
                IoRecord { arrive_ns, latency_ns: None, offset_bytes, size_bytes, device, tenant: 0, op }
            })
            .collect()
    }
}

/// The workload of Table 1 with this name, with the default [`Shape`]: one trace per device.
///
/// # Errors
/// Those of [`Workload::generate`], and an unknown name.
pub fn synth(name: &str, seconds: f64, devices: usize, seed: u64) -> Result<Vec<Vec<IoRecord>>, Error> {
    Workload::named(name)?.generate(seconds, devices, &Shape::default(), seed)
}
