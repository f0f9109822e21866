// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of a device, with units in the names.

use linnet_types::Nanos;
use serde::{Deserialize, Serialize};

use crate::error::{Error, refuse, within};

/// How a read is prioritised over internal work on its die.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadPriority {
    /// No priority: it queues behind all work already queued on the die.
    None,
    /// It goes before queued work, and waits for the running operation. A GC quantum counts as one operation.
    OverQueued,
    /// It suspends a running program, erase or GC quantum, which costs [`Params::suspend_ns`].
    Suspend,
}

/// A device: geometry, timing, write buffer, garbage collection. Check with [`Params::validate`].
///
/// A *program unit* is one flash page on every plane of a die, programmed at once; a *row* is one program unit on every
/// die; a *superblock* is the block of the same number on every plane of every die, hence `pages_per_block` rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Channels, 1..=256.
    pub channels: u32,
    /// Dies on each channel, 1..=256.
    pub dies_per_channel: u32,
    /// Planes of a die, which read, program and erase together, 1..=8.
    pub planes: u32,
    /// Bytes of a flash page: a multiple of 4096, up to 64 KiB.
    pub flash_page_bytes: u32,
    /// Flash pages of a block, 1..=4096.
    pub pages_per_block: u32,
    /// Blocks of a plane, which is also the number of superblocks: 16..=65536.
    pub blocks_per_plane: u32,
    /// Spare space divided by logical space: 0.07 means that 107 bytes of flash carry 100 bytes of data.
    pub over_provisioning: f64,

    /// tR: read from the cells to the page register.
    pub read_ns: Nanos,
    /// tPROG: one program unit, all planes at once.
    pub program_ns: Nanos,
    /// tBERS: one block on each plane, all planes at once.
    pub erase_ns: Nanos,
    /// Superblocks collected for each erase that takes time, 1..=4096: how many times larger the blocks of the real
    /// drive are than those of its scaled-down model. With this ratio, erases take their true share of time.
    pub superblocks_per_erase: u32,
    /// The cost of suspending a running operation before the read starts (with [`ReadPriority::Suspend`]).
    pub suspend_ns: Nanos,
    /// Bandwidth of one channel.
    pub channel_mb_per_s: u32,

    /// Bandwidth of the host link, in each direction, 1..=32,000. A byte takes whole picoseconds, rounded down, so the
    /// link is up to 3.2 % faster than this at the upper end: 14,085 MB/s for 14,000.
    pub link_mb_per_s: u32,
    /// The two directions of the link share its bandwidth (SATA).
    pub link_half_duplex: bool,
    /// Time in the controller and protocol before a request reaches flash or DRAM.
    pub command_ns: Nanos,
    /// Time in the controller and protocol after the data moved.
    pub complete_ns: Nanos,
    /// Access time of the write buffer.
    pub dram_ns: Nanos,

    /// Size of the write buffer. Writes wait only when it is full.
    pub buffer_bytes: u64,
    /// Age at which buffered pages are flushed.
    pub flush_timer_ns: Nanos,
    /// A flush starts without waiting for the timer if unflushed pages fill this share of the buffer, in (0, 1].
    pub flush_watermark: f64,

    /// Priority of reads over internal work.
    pub read_priority: ReadPriority,
    /// Probability that a flash read has to be repeated with shifted voltages, 0..=0.1.
    pub retry_probability: f64,
    /// Maximum number of repetitions of one read, 1..=16; the number is uniform from 1.
    pub retry_max: u32,

    /// Background GC runs while the free pages amount to fewer superblocks than this. At least 3.
    pub gc_free_superblocks: f64,
    /// GC quantum: rows of the victim that one round relocates without interruption on each die, 1..=`pages_per_block`.
    pub gc_quantum_rows: u32,
    /// Rounds that background GC runs in a row once it has started, 1..=1024. Reads that wait are served between
    /// rounds.
    pub gc_episode_rounds: u32,
    /// Host pages between two checkpoints of the mapping table; 0 for none.
    pub checkpoint_host_pages: u32,
    /// Program units that a checkpoint writes on each die.
    pub checkpoint_units_per_die: u32,

    /// Share of internal work, in [0, 1], done as device-wide bursts. At 0, program units are destaged as soon as they
    /// are full, and GC rounds visit one die at a time. At 1, flushes are batched and GC rounds use all dies at once.
    pub device_wide_share: f64,

    /// Growth of [`Params::retry_probability`] with wear, as a multiple per 1,000 erases of the superblock, 0..=1000; 0
    /// for none.
    #[serde(default)]
    pub retry_growth_per_1000_erases: f64,
    /// Dynamic wear levelling: opens the free superblock with the fewest erases instead of the one that was freed
    /// first.
    #[serde(default)]
    pub wear_levelling_dynamic: bool,
    /// Static wear levelling: collects a full superblock early if it has this many fewer erases than the most worn one;
    /// 0..=1,000,000; 0: never.
    #[serde(default)]
    pub wear_levelling_static_gap: u32,
    /// Only foreground garbage collection: a round runs when a write finds no free superblock, as one burst or die by
    /// die as [`Params::device_wide_share`] says.
    #[serde(default)]
    pub gc_foreground_only: bool,
    /// Writes part of a page without reading the rest. The page is then read in two pieces until it is rewritten or
    /// relocated.
    #[serde(default)]
    pub partial_page_mapping: bool,
    /// Capacity of the SLC cache: host data that is programmed in one-bit mode before it is folded; at least one program
    /// unit, or 0 for no SLC cache.
    #[serde(default)]
    pub slc_cache_bytes: u64,
    /// tPROG in one-bit mode; only used with an SLC cache.
    #[serde(default)]
    pub slc_program_ns: Nanos,

    /// tR by page type, in the order of a block's pages: lower, middle and upper page of a three-bit cell. At most 16
    /// values, which repeat; none if all pages take [`Params::read_ns`], which internal reads always do.
    #[serde(default, skip_serializing_if = "is_off")]
    pub page_type_read_ns: Vec<Nanos>,
    /// How long an operation runs after its start or its resumption before it can be suspended. A read waits for the
    /// end of the operation if that is sooner.
    #[serde(default, skip_serializing_if = "is_off")]
    pub suspend_after_ns: Nanos,
    /// Time that a suspended operation loses when it resumes.
    #[serde(default, skip_serializing_if = "is_off")]
    pub resume_ns: Nanos,
    /// Paced collection: instead of episodes, a share of collection follows each program unit of host data, die by die
    /// and one flash operation at a time. The share grows as free space falls below [`Params::gc_free_superblocks`].
    #[serde(default, skip_serializing_if = "is_off")]
    pub gc_paced: bool,
    /// 4 KiB pages that one read of paced collection takes from a die; 0: all pages of a program unit at once. Valid
    /// pages lie scattered, so most controllers read them one flash page at a time.
    #[serde(default, skip_serializing_if = "is_off")]
    pub gc_read_pages: u32,
    /// Rate at which the controller admits host writes in the long run, once as much as the buffer holds was written
    /// faster; 0: only the buffer limits them.
    #[serde(default, skip_serializing_if = "is_off")]
    pub write_limit_mb_per_s: u32,
    /// Writes that wait for buffer space before the controller stops fetching commands, reads included; 0: it always
    /// fetches.
    #[serde(default, skip_serializing_if = "is_off")]
    pub stalled_writes_max: u32,
}

/// True for the value that a parameter has when its mechanism is off. Such a key is not written.
fn is_off<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Most page types of a block.
const PAGE_TYPES_MAX: usize = 16;

/// Most channels of a device.
pub(crate) const CHANNELS_MAX: u32 = 256;

/// 4 KiB, the unit of the map.
pub(crate) const PAGE_BYTES: u32 = 4096;

fn share(field: &'static str, value: f64, most: f64) -> Result<(), Error> {
    // In this form, NaN is refused too.
    if value >= 0.0 && value <= most {
        return Ok(());
    }
    refuse(field, value, format!("must be in 0..={most}"))
}

impl Params {
    /// Refuses settings that are out of range or contradict each other.
    ///
    /// # Errors
    /// [`Error::Setting`] names the field, its value and the accepted range.
    pub fn validate(&self) -> Result<(), Error> {
        within("channels", self.channels.into(), 1, CHANNELS_MAX.into())?;
        within("dies_per_channel", self.dies_per_channel.into(), 1, 256)?;
        within("planes", self.planes.into(), 1, 8)?;
        within("flash_page_bytes", self.flash_page_bytes.into(), PAGE_BYTES.into(), 65536)?;
        if !self.flash_page_bytes.is_multiple_of(PAGE_BYTES) {
            return refuse("flash_page_bytes", self.flash_page_bytes, "must be a multiple of 4096");
        }
        within("pages_per_block", self.pages_per_block.into(), 1, 4096)?;
        within("blocks_per_plane", self.blocks_per_plane.into(), 16, 65536)?;
        for (field, value) in [("read_ns", self.read_ns), ("program_ns", self.program_ns), ("erase_ns", self.erase_ns)]
        {
            within(field, value, 1, 1_000_000_000)?;
        }
        for (field, value) in [
            ("suspend_ns", self.suspend_ns),
            ("command_ns", self.command_ns),
            ("complete_ns", self.complete_ns),
            ("dram_ns", self.dram_ns),
        ] {
            within(field, value, 0, 1_000_000_000)?;
        }
        within("channel_mb_per_s", self.channel_mb_per_s.into(), 1, 100_000)?;
        within("link_mb_per_s", self.link_mb_per_s.into(), 1, 32_000)?;
        within("flush_timer_ns", self.flush_timer_ns, 1_000, 3_600_000_000_000)?;
        share("flush_watermark", self.flush_watermark, 1.0)?;
        share("retry_probability", self.retry_probability, 0.1)?;
        within("retry_max", self.retry_max.into(), 1, 16)?;
        within("gc_quantum_rows", self.gc_quantum_rows.into(), 1, self.pages_per_block.into())?;
        within("superblocks_per_erase", self.superblocks_per_erase.into(), 1, 4096)?;
        within("gc_episode_rounds", self.gc_episode_rounds.into(), 1, 1024)?;
        within("checkpoint_units_per_die", self.checkpoint_units_per_die.into(), 0, 1024)?;
        share("device_wide_share", self.device_wide_share, 1.0)?;
        share("retry_growth_per_1000_erases", self.retry_growth_per_1000_erases, 1000.0)?;
        within("wear_levelling_static_gap", self.wear_levelling_static_gap.into(), 0, 1_000_000)?;
        if self.slc_cache_bytes > 0 {
            within("slc_cache_bytes", self.slc_cache_bytes, self.unit_bytes(), self.raw_bytes())?;
            within("slc_program_ns", self.slc_program_ns, 1, self.program_ns)?;
        }
        if self.page_type_read_ns.len() > PAGE_TYPES_MAX {
            let found = self.page_type_read_ns.len();
            return refuse("page_type_read_ns", found, format!("must have at most {PAGE_TYPES_MAX} values"));
        }
        for &value in &self.page_type_read_ns {
            within("page_type_read_ns", value, 1, 1_000_000_000)?;
        }
        within("suspend_after_ns", self.suspend_after_ns, 0, 1_000_000_000)?;
        within("resume_ns", self.resume_ns, 0, 1_000_000_000)?;
        within("gc_read_pages", self.gc_read_pages.into(), 0, self.unit_pages().into())?;
        within("write_limit_mb_per_s", self.write_limit_mb_per_s.into(), 0, 1_000_000)?;
        within("stalled_writes_max", self.stalled_writes_max.into(), 0, 65_536)?;
        if self.gc_paced && self.gc_foreground_only {
            return refuse("gc_paced", true, "needs background garbage collection; set gc_foreground_only to false");
        }
        if self.gc_foreground_only && self.wear_levelling_static_gap > 0 {
            return refuse(
                "wear_levelling_static_gap",
                self.wear_levelling_static_gap,
                "needs background garbage collection; set gc_foreground_only to false, or this to 0",
            );
        }
        self.validate_space()
    }

    fn validate_space(&self) -> Result<(), Error> {
        let raw = self.raw_pages();
        if raw >= u64::from(u32::MAX) - 1 {
            return refuse("blocks_per_plane", self.blocks_per_plane, "the device exceeds 2^32 pages of 4 KiB");
        }
        let unit = self.unit_bytes();
        if self.buffer_bytes < 4 * unit || self.buffer_bytes > 1 << 40 {
            return refuse(
                "buffer_bytes",
                self.buffer_bytes,
                format!("must be in {}..=2^40 (four program units)", 4 * unit),
            );
        }
        if self.flush_watermark * self.buffer_bytes as f64 <= unit as f64 {
            return refuse(
                "flush_watermark",
                self.flush_watermark,
                "must hold more than one program unit of the buffer",
            );
        }
        if !(self.over_provisioning > 0.0 && self.over_provisioning <= 4.0) {
            return refuse("over_provisioning", self.over_provisioning, "must be in (0, 4]");
        }
        if !(self.gc_free_superblocks >= 3.0 && self.gc_free_superblocks.is_finite()) {
            return refuse(
                "gc_free_superblocks",
                self.gc_free_superblocks,
                "must be a number from 3 up: two frontiers and one victim",
            );
        }
        let superblocks = f64::from(self.blocks_per_plane);
        let spare = superblocks - superblocks / (1.0 + self.over_provisioning);
        // Two open frontiers and the victim being collected hold up to three superblocks that are not in the free pool.
        if spare < self.gc_free_superblocks + 3.0 {
            return refuse(
                "over_provisioning",
                self.over_provisioning,
                format!(
                    "leaves {spare:.1} spare superblocks, and gc_free_superblocks = {} needs {:.1}; raise it or blocks_per_plane",
                    self.gc_free_superblocks,
                    self.gc_free_superblocks + 3.0
                ),
            );
        }
        Ok(())
    }

    /// Pages of 4 KiB in a program unit.
    pub(crate) fn unit_pages(&self) -> u32 {
        self.planes * (self.flash_page_bytes / PAGE_BYTES)
    }

    /// Bytes of a program unit.
    fn unit_bytes(&self) -> u64 {
        u64::from(self.unit_pages()) * u64::from(PAGE_BYTES)
    }

    /// Pages of 4 KiB in a superblock.
    pub(crate) fn superblock_pages(&self) -> u64 {
        u64::from(self.channels)
            * u64::from(self.dies_per_channel)
            * u64::from(self.unit_pages())
            * u64::from(self.pages_per_block)
    }

    fn raw_pages(&self) -> u64 {
        self.superblock_pages() * u64::from(self.blocks_per_plane)
    }

    /// Pages of 4 KiB that the host sees.
    pub(crate) fn logical_pages(&self) -> u32 {
        (self.raw_pages() as f64 / (1.0 + self.over_provisioning)) as u32
    }

    /// Bytes of flash, including spare space.
    pub fn raw_bytes(&self) -> u64 {
        self.raw_pages() * u64::from(PAGE_BYTES)
    }
}
