// SPDX-License-Identifier: MIT OR Apache-2.0
//! Write amplification of greedy collection under uniform random overwrites, against theory.

use linnet_sim::Chance;
use linnet_ssd::{Params, Ssd};
use linnet_types::{Device, Op, Request};

/// A victim holds the share u of valid pages that solves u = exp(-a (1 - u)), for large blocks and a pages of flash per page of
/// data; amplification is 1 / (1 - u) (Desnoyers, SYSTOR 2012; the limit of greedy for many pages per block).
fn theory(a: f64) -> f64 {
    let mut u: f64 = 0.5;
    for _ in 0..1000 {
        u = (-a * (1.0 - u)).exp();
    }
    1.0 / (1.0 - u)
}

#[test]
fn amplification_is_that_of_theory() {
    for over_provisioning in [0.12, 0.2, 0.28, 0.4] {
        // Flushes by watermark only and no checkpoints: nothing but data and relocations is written.
        let params = Params {
            channels: 2,
            dies_per_channel: 2,
            pages_per_block: 8,
            blocks_per_plane: 256,
            over_provisioning,
            gc_free_superblocks: 3.0,
            gc_quantum_rows: 1,
            gc_episode_rounds: 1,
            buffer_bytes: 1 << 20,
            flush_timer_ns: 3_600_000_000_000,
            checkpoint_host_pages: 0,
            device_wide_share: 1.0,
            ..Params::preset("consumer-deep").unwrap()
        };
        let mut ssd = Ssd::new(&params, 6).unwrap();
        ssd.precondition();
        let pages = ssd.capacity_bytes() / 4096;
        let mut chance = Chance::new(6);
        let mut amplification = 0.0;
        let mut before = (0, 0);
        for lap in 0..4 {
            for n in lap * pages..(lap + 1) * pages {
                let offset_bytes = chance.below(pages) * 4096;
                ssd.submit(n * 1_000_000, &Request { offset_bytes, size_bytes: 4096, op: Op::Write });
            }
            let stats = ssd.stats();
            let now = (stats.flash_write_pages, stats.flushed_pages);
            amplification = (now.0 - before.0) as f64 / (now.1 - before.1) as f64;
            before = now;
        }
        let flash = ssd.params().raw_bytes() as f64 * (1.0 - 3.0 / 256.0);
        let expected = theory(flash / ssd.capacity_bytes() as f64);
        println!("over-provisioning {over_provisioning}: {amplification:.3}, theory {expected:.3}");
        assert!(
            (amplification / expected - 1.0).abs() < 0.035,
            "{over_provisioning}: {amplification} against {expected}"
        );
    }
}
