// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of the queued model.

use linnet_types::Nanos;
use serde::{Deserialize, Serialize};

use crate::error::{Error, refuse, within};

/// How garbage collection chooses a victim among the full blocks of a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VictimPolicy {
    /// The block with the most invalid pages.
    Greedy,
    /// The block with the largest (1 - u) x age / 2u, where u is the valid share (Rosenblum and Ousterhout, SOSP 1991).
    CostBenefit,
    /// The block with the most invalid pages among log2(blocks) random blocks (Van Houdt, SIGMETRICS 2013).
    DChoices,
}

/// A device of the queued model. The map has one entry per flash page. Check with [`QueuedParams::validate`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueuedParams {
    /// Channels, 1..=256.
    pub channels: u32,
    /// Chips on each channel, 1..=256.
    pub chips_per_channel: u32,
    /// Dies of a chip, 1..=16.
    pub dies_per_chip: u32,
    /// Planes of a die, 1..=16.
    pub planes_per_die: u32,
    /// Blocks of a plane, 4..=65536.
    pub blocks_per_plane: u32,
    /// Flash pages of a block, 1..=8192.
    pub pages_per_block: u32,
    /// Bytes of a flash page: a multiple of 512 up to 32768.
    pub page_bytes: u32,
    /// Share of the *raw* space that is spare, in (0, 0.9]. (In [`crate::Params`] it is relative to the logical space.)
    pub spare_share_of_raw: f64,
    /// How a logical page number is divided among C channel, W chip, D die and P plane, the fastest changing first.
    pub placement: String,

    /// Read from the cells to the page register.
    pub read_ns: Nanos,
    /// Program of one page, or of one page on each plane together.
    pub program_ns: Nanos,
    /// Erase of one block.
    pub erase_ns: Nanos,
    /// Transfer of two bytes over a channel.
    pub channel_ns_per_2_bytes: u32,
    /// Command and address of a read on the channel.
    pub read_command_ns: Nanos,
    /// Command and address of a program on the channel, before its data.
    pub program_command_ns: Nanos,
    /// Command and address of an erase on the channel.
    pub erase_command_ns: Nanos,
    /// Commands include jobs for other planes.
    pub multi_plane: bool,
    /// Reads suspend a program if its remaining time is longer than this; absent: never.
    pub program_suspend_above_ns: Option<Nanos>,
    /// Reads suspend an erase if its remaining time is longer than this; absent: never.
    pub erase_suspend_above_ns: Option<Nanos>,

    /// Time from arrival to the controller.
    pub command_ns: Nanos,
    /// Transfer of 512 bytes over the host link, in picoseconds.
    pub link_ps_per_sector: u64,
    /// Copy of 512 bytes into or out of DRAM, in picoseconds.
    pub dram_ps_per_sector: u64,
    /// Time from the last data to the completion at the host.
    pub complete_ns: Nanos,

    /// Write buffer; 0 for none: then a write is acknowledged after its programs.
    pub write_buffer_bytes: u64,
    /// Reads are answered from the write buffer if it has their data.
    pub read_from_write_buffer: bool,
    /// Most sectors that may be destaged at a time, in flash pages, from 1 up; further writes wait. Absent: one page per
    /// plane.
    pub destage_pages_max: Option<u32>,
    /// A page that is written again within this period after its destage is hot and stays in the buffer until it is
    /// evicted; 0: every write is destaged. (A filter that is emptied at this period detects hot pages.)
    pub hot_period_ns: Nanos,

    /// Garbage collection of a plane starts when the share of its free blocks is below this.
    pub gc_free_share: f64,
    /// Host writes to a plane wait while it has fewer free blocks than this; also the lowest threshold at which GC
    /// starts.
    pub gc_stop_writes_below_blocks: u32,
    /// Most blocks of one plane that are collected at the same time.
    pub gc_concurrent_per_plane: u32,
    /// Blocks of each plane that never hold data; MQSim keeps one open for translation pages.
    pub reserved_blocks_per_plane: u32,
    /// How victims are chosen.
    pub gc_policy: VictimPolicy,
    /// Host requests go before garbage collection.
    pub gc_preemptible: bool,
}

impl Default for QueuedParams {
    /// A mid-range device: 8 channels of 4 chips, and the command times of ONFI NV-DDR2. The design page marks which
    /// are guesses.
    fn default() -> Self {
        QueuedParams {
            channels: 8,
            chips_per_channel: 4,
            dies_per_chip: 1,
            planes_per_die: 2,
            blocks_per_plane: 256,
            pages_per_block: 64,
            page_bytes: 4096,
            spare_share_of_raw: 0.2,
            placement: "CWDP".to_owned(),
            read_ns: 60_000,
            program_ns: 600_000,
            erase_ns: 3_500_000,
            channel_ns_per_2_bytes: 4,
            read_command_ns: 290,
            program_command_ns: 300,
            erase_command_ns: 220,
            multi_plane: true,
            program_suspend_above_ns: None,
            erase_suspend_above_ns: None,
            command_ns: 40,
            link_ps_per_sector: 158_400,
            dram_ps_per_sector: 35_600,
            complete_ns: 13,
            write_buffer_bytes: 16 << 20,
            read_from_write_buffer: true,
            destage_pages_max: None,
            hot_period_ns: 1_000_000_000,
            gc_free_share: 0.05,
            gc_stop_writes_below_blocks: 10,
            gc_concurrent_per_plane: 10,
            reserved_blocks_per_plane: 1,
            gc_policy: VictimPolicy::Greedy,
            gc_preemptible: false,
        }
    }
}

impl QueuedParams {
    /// Refuses settings that are out of range or contradict each other.
    ///
    /// # Errors
    /// [`Error::Setting`] names the field, its value and the accepted range.
    pub fn validate(&self) -> Result<(), Error> {
        within("channels", self.channels.into(), 1, 256)?;
        within("chips_per_channel", self.chips_per_channel.into(), 1, 256)?;
        within("dies_per_chip", self.dies_per_chip.into(), 1, 16)?;
        within("planes_per_die", self.planes_per_die.into(), 1, 16)?;
        within("blocks_per_plane", self.blocks_per_plane.into(), 4, 65536)?;
        within("pages_per_block", self.pages_per_block.into(), 1, 8192)?;
        within("page_bytes", self.page_bytes.into(), 512, 32768)?;
        if !self.page_bytes.is_multiple_of(512) {
            return refuse("page_bytes", self.page_bytes, "must be a multiple of 512");
        }
        let mut letters: Vec<char> = self.placement.chars().collect();
        letters.sort_unstable();
        if letters != ['C', 'D', 'P', 'W'] {
            return refuse("placement", &self.placement, "must have each of C, W, D and P once, as in CWDP");
        }
        for (field, value) in [("read_ns", self.read_ns), ("program_ns", self.program_ns), ("erase_ns", self.erase_ns)]
        {
            within(field, value, 1, 10_000_000_000)?;
        }
        for (field, value) in [
            ("read_command_ns", self.read_command_ns),
            ("program_command_ns", self.program_command_ns),
            ("erase_command_ns", self.erase_command_ns),
            ("command_ns", self.command_ns),
            ("complete_ns", self.complete_ns),
            ("link_ps_per_sector", self.link_ps_per_sector),
            ("dram_ps_per_sector", self.dram_ps_per_sector),
        ] {
            within(field, value, 0, 1_000_000_000)?;
        }
        within("channel_ns_per_2_bytes", self.channel_ns_per_2_bytes.into(), 1, 10_000)?;
        if let Some(pages) = self.destage_pages_max {
            within("destage_pages_max", pages.into(), 1, u32::MAX.into())?;
        }
        within("gc_concurrent_per_plane", self.gc_concurrent_per_plane.into(), 1, 1024)?;
        if !(self.spare_share_of_raw > 0.0 && self.spare_share_of_raw <= 0.9) {
            return refuse("spare_share_of_raw", self.spare_share_of_raw, "must be in (0, 0.9]");
        }
        if !(0.0..=0.9).contains(&self.gc_free_share) {
            return refuse("gc_free_share", self.gc_free_share, "must be in 0..=0.9");
        }
        if self.raw_pages() >= u64::from(u32::MAX) - 1 {
            return refuse("blocks_per_plane", self.blocks_per_plane, "the device exceeds 2^32 flash pages");
        }
        let spare = f64::from(self.blocks_per_plane) * self.spare_share_of_raw;
        let stop = self.stop_writes_below();
        let least = f64::from(self.reserved_blocks_per_plane) + 5.0;
        if spare < least {
            return refuse(
                "spare_share_of_raw",
                self.spare_share_of_raw,
                format!(
                    "leaves {spare:.1} spare blocks per plane; {least} are needed (two open, two free, one to win, and the reserved)"
                ),
            );
        }
        within("reserved_blocks_per_plane", self.reserved_blocks_per_plane.into(), 0, 1024)?;
        if f64::from(stop) + 1.0 > spare {
            return refuse(
                "spare_share_of_raw",
                self.spare_share_of_raw,
                format!(
                    "leaves {spare:.1} spare blocks per plane, but host writes stop below {stop} free ones \
                     (gc_stop_writes_below_blocks), for ever: raise the one or lower the other"
                ),
            );
        }
        let goal = self.gc_start_blocks();
        if f64::from(goal) + f64::from(self.reserved_blocks_per_plane) > spare {
            return refuse(
                "gc_free_share",
                self.gc_free_share,
                format!(
                    "collects until {goal} blocks of a plane are free, and of its {spare:.1} spare blocks {} are \
                     reserved, so it would never end: lower it or raise spare_share_of_raw",
                    self.reserved_blocks_per_plane
                ),
            );
        }
        if self.logical_pages() == 0 {
            return refuse("spare_share_of_raw", self.spare_share_of_raw, "leaves the host no flash page");
        }
        if self.write_buffer_bytes > 0 && self.write_buffer_bytes < 4 * u64::from(self.page_bytes) {
            return refuse("write_buffer_bytes", self.write_buffer_bytes, "must be 0 or hold four flash pages");
        }
        Ok(())
    }

    pub(crate) fn planes(&self) -> u32 {
        self.channels * self.chips_per_channel * self.dies_per_chip * self.planes_per_die
    }

    /// The host waits if a plane has fewer free blocks than this.
    pub(crate) fn stop_writes_below(&self) -> u32 {
        self.gc_stop_writes_below_blocks.max(3)
    }

    /// A plane starts collecting if it has fewer free blocks than this.
    pub(crate) fn gc_start_blocks(&self) -> u32 {
        ((self.gc_free_share * f64::from(self.blocks_per_plane)) as u32).max(self.stop_writes_below())
    }

    fn raw_pages(&self) -> u64 {
        u64::from(self.planes()) * u64::from(self.blocks_per_plane) * u64::from(self.pages_per_block)
    }

    /// Flash pages that the host sees.
    pub fn logical_pages(&self) -> u32 {
        (self.raw_pages() as f64 * (1.0 - self.spare_share_of_raw)) as u32
    }

    /// Bytes that the host sees.
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.logical_pages()) * u64::from(self.page_bytes)
    }

    /// Latency of a read of this size within one flash page on an idle device.
    pub fn unloaded_read_ns(&self, size_bytes: u32) -> Nanos {
        let sectors = u64::from(size_bytes.div_ceil(512));
        self.command_ns
            + self.read_command_ns
            + self.read_ns
            + sectors * 256 * u64::from(self.channel_ns_per_2_bytes)
            + sectors * self.link_ps_per_sector / 1000
            + self.complete_ns
    }
}
