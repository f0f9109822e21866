// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices by layout, which are not calibrated to a product: each value says where it comes from. Then the calibrated ones.
//!
//! *published*: printed by a maker or a paper. *simulator*: default of MQSim, FEMU or NVMeVirt. *guess*: ours, inside the band that the
//! published and simulator values leave (`docs/design/ssd-model.md`). Capacity is scaled down everywhere, with blocks scaled to match, so
//! that a device is preconditioned in well under a second; write amplification depends on the ratio of spare to data, which is kept.

use crate::error::Error;
use crate::queued::QueuedParams;
use crate::timeline::params::{Params, ReadPriority};

/// Names that [`Params::preset`] knows.
pub const PRESETS: &[&str] = &["consumer-deep", "enterprise-wide", "sata", "970-evo", "600p"];

/// Names of presets of the queued model ([`crate::DeviceParams::find`]): the layouts of their namesakes.
pub const QUEUED_PRESETS: &[&str] = &["consumer-deep-queued", "enterprise-wide-queued"];

const QUEUED: &[(&str, &str)] = &[
    ("consumer-deep-queued", include_str!("../presets/consumer-deep-queued.toml")),
    ("enterprise-wide-queued", include_str!("../presets/enterprise-wide-queued.toml")),
];

/// The calibrated presets, and no others: fitted by `linnet ssd calibrate` to what resctl-bench's iocost benchmarks measured of one
/// Samsung 970 EVO 500 GB and one Intel SSDPEKKA256G7 (600p class); `docs/design/calibration.md` has what was met and what not.
const CALIBRATED: &[(&str, &str)] =
    &[("970-evo", include_str!("../presets/970-evo.toml")), ("600p", include_str!("../presets/600p.toml"))];

const MIB: u64 = 1 << 20;
const MS: u64 = 1_000_000;

impl Params {
    /// The preset of this name (one of [`PRESETS`]).
    ///
    /// # Errors
    /// [`Error::UnknownPreset`] lists the names that exist.
    pub fn preset(name: &str) -> Result<Params, Error> {
        match name {
            "consumer-deep" => Ok(consumer_deep()),
            "enterprise-wide" => Ok(enterprise_wide()),
            "sata" => Ok(sata()),
            _ => match CALIBRATED.iter().find(|(known, _)| *known == name) {
                Some((_, text)) => Params::from_toml(text),
                None => Err(Error::UnknownPreset { name: name.to_owned(), known: PRESETS.join(", ") }),
            },
        }
    }
}

impl QueuedParams {
    /// The preset of this name (one of [`QUEUED_PRESETS`]).
    ///
    /// # Errors
    /// [`Error::UnknownPreset`] lists the names that exist.
    pub fn preset(name: &str) -> Result<QueuedParams, Error> {
        match QUEUED.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => QueuedParams::from_toml(text),
            None => Err(Error::UnknownPreset { name: name.to_owned(), known: QUEUED_PRESETS.join(", ") }),
        }
    }
}

/// Few channels with many dies, little spare space, no read priority: an aged M.2 drive.
fn consumer_deep() -> Params {
    Params {
        channels: 4,                       // published layout: LinnOS's deep array, 4 x 16
        dies_per_channel: 16,              // published, as above
        planes: 2,                         // simulator (MQSim)
        flash_page_bytes: 16384,           // simulator (FEMU OCSSD)
        pages_per_block: 12,               // scaled down with the capacity (8 GiB raw in 340 superblocks)
        blocks_per_plane: 340,             // scaled down, as above
        over_provisioning: 0.10,           // guess in the band 7-12 %
        read_ns: 60_000,                   // guess in the band 45-75 us
        program_ns: 1_300_000, // guess: upper end for 16 nm MLC (0.9-1.3 ms); FEMU's MLC pair averages 1.6 ms
        erase_ns: 4 * MS,      // simulator (MQSim 3.8 ms)
        superblocks_per_erase: 20, // blocks of 256 pages (simulator) over the 12 of the model
        suspend_ns: 20_000,    // guess; not used without suspend
        channel_mb_per_s: 400, // guess in the band 333-500
        link_mb_per_s: 3200,   // published class (PCIe 3 x4)
        link_half_duplex: false, // PCIe
        command_ns: 6_000,     // guess: unloaded 4 KiB read of 80 us, published band 71-115 us
        complete_ns: 3_000,    // guess, as above
        dram_ns: 4_000,        // simulator (NVMeVirt: 4 us to acknowledge)
        buffer_bytes: 16 * MIB, // published band 12-256 MB (LinnOS)
        flush_timer_ns: 500 * MS, // published band 8 ms-1 s (LinnOS)
        flush_watermark: 0.5,  // guess
        read_priority: ReadPriority::None, // guess: the plain FIFO that makes the LinnOS tail
        retry_probability: 0.002, // guess, at most 0.5 %
        retry_max: 6,          // guess: 2-8 x tR in all
        gc_free_superblocks: 4.0, // guess
        gc_quantum_rows: 2,    // guess: reads wait up to about 4 ms for it
        gc_episode_rounds: 20, // guess: episodes of tens of ms, which the notes of LinnOS ask for
        checkpoint_host_pages: 2048, // guess: a map page covers 16 MiB, so scattered writes dirty many
        checkpoint_units_per_die: 2, // guess
        device_wide_share: 0.90, // guess in the band 0.75-0.90; results are to be reported across it
        retry_growth_per_1000_erases: 0.0, // off
        wear_levelling_dynamic: false, // oldest first spreads erases evenly enough
        wear_levelling_static_gap: 0, // off
        gc_foreground_only: false,
        partial_page_mapping: false,
        slc_cache_bytes: 0, // off
        slc_program_ns: 0,
    }
}

/// Many channels, ample spare space, a large buffer, reads before queued programs: a data-centre drive.
fn enterprise_wide() -> Params {
    Params {
        channels: 32,                            // published layout: LinnOS's wide array, 32 x 4
        dies_per_channel: 4,                     // published, as above
        planes: 4,                               // guess in the band 2-4
        flash_page_bytes: 16384,                 // simulator (FEMU OCSSD)
        pages_per_block: 8,                      // scaled down with the capacity (16 GiB raw in 256 superblocks)
        blocks_per_plane: 256,                   // scaled down, as above
        over_provisioning: 0.28,                 // published band 25-28 % (PM1725a: 8 TB raw for 6.4 TB)
        read_ns: 55_000,                         // guess in the band 50-70 us
        program_ns: 900_000,                     // guess in the band 0.65-1.0 ms
        erase_ns: 3_500_000,                     // simulator (MQSim 3.8 ms)
        superblocks_per_erase: 32,               // blocks of 256 pages (simulator) over the 8 of the model
        suspend_ns: 20_000,                      // guess; not used without suspend
        channel_mb_per_s: 800,                   // simulator (NVMeVirt)
        link_mb_per_s: 3200,                     // published (P4500/P4600 class: 3.2 GB/s)
        link_half_duplex: false,                 // PCIe
        command_ns: 12_000,                      // guess: unloaded 4 KiB read of 80 us, published 85-115 us
        complete_ns: 5_000,                      // guess, as above
        dram_ns: 6_000,                          // guess: published random write latency 20 us
        buffer_bytes: 128 * MIB,                 // published band 12-256 MB (LinnOS)
        flush_timer_ns: 400 * MS,                // published band 8 ms-1 s (LinnOS)
        flush_watermark: 0.5,                    // guess
        read_priority: ReadPriority::OverQueued, // simulator (MQSim: queued user reads before queued writes)
        retry_probability: 0.001,                // guess, at most 0.5 %
        retry_max: 6,                            // guess
        gc_free_superblocks: 4.0,                // guess
        gc_quantum_rows: 2,                      // guess: reads wait up to about 2 ms for it
        gc_episode_rounds: 32,                   // guess: episodes of tens of ms, which the notes of LinnOS ask for
        checkpoint_host_pages: 32768,            // guess
        checkpoint_units_per_die: 2,             // guess
        device_wide_share: 0.90,                 // guess in the band 0.75-0.90
        retry_growth_per_1000_erases: 0.0,       // off
        wear_levelling_dynamic: false,           // oldest first spreads erases evenly enough
        wear_levelling_static_gap: 0,            // off
        gc_foreground_only: false,
        partial_page_mapping: false,
        slc_cache_bytes: 0, // off
        slc_program_ns: 0,
    }
}

/// Eight channels behind a SATA link.
fn sata() -> Params {
    Params {
        channels: 8,                       // published layout (S3700, 870 EVO class)
        dies_per_channel: 4,               // guess
        planes: 2,                         // guess
        flash_page_bytes: 16384,           // guess (870 EVO class)
        pages_per_block: 32,               // scaled down with the capacity (8 GiB raw in 256 superblocks)
        blocks_per_plane: 256,             // scaled down, as above
        over_provisioning: 0.10,           // guess in the band 7-12 %
        read_ns: 45_000,                   // published (Samsung V6: under 45 us)
        program_ns: 450_000,               // published (Samsung V6: under 450 us)
        erase_ns: 3_500_000,               // simulator (MQSim 3.8 ms)
        superblocks_per_erase: 8,          // blocks of 256 pages (simulator) over the 32 of the model
        suspend_ns: 20_000,                // guess; not used without suspend
        channel_mb_per_s: 400,             // guess
        link_mb_per_s: 560,                // published
        link_half_duplex: true,            // SATA
        command_ns: 20_000,                // guess: 30-40 us of link and protocol per command
        complete_ns: 15_000,               // guess, as above
        dram_ns: 4_000,                    // simulator (NVMeVirt)
        buffer_bytes: 32 * MIB,            // published band 12-256 MB (LinnOS)
        flush_timer_ns: 500 * MS,          // published band 8 ms-1 s (LinnOS)
        flush_watermark: 0.5,              // guess
        read_priority: ReadPriority::None, // guess
        retry_probability: 0.002,          // guess, at most 0.5 %
        retry_max: 6,                      // guess
        gc_free_superblocks: 4.0,          // guess
        gc_quantum_rows: 4,                // guess
        gc_episode_rounds: 16,             // guess: episodes of tens of ms, which the notes of LinnOS ask for
        checkpoint_host_pages: 4096,       // guess
        checkpoint_units_per_die: 2,       // guess
        device_wide_share: 0.90,           // guess in the band 0.75-0.90
        retry_growth_per_1000_erases: 0.0, // off
        wear_levelling_dynamic: false,     // oldest first spreads erases evenly enough
        wear_levelling_static_gap: 0,      // off
        gc_foreground_only: false,
        partial_page_mapping: false,
        slc_cache_bytes: 0, // off
        slc_program_ns: 0,
    }
}
