// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a read takes on an idle drive, beside its nominal service time.

use linnet_sim::Chance;
use linnet_ssd::{Mechanism, PRESETS, Params, Ssd};
use linnet_types::{LatencyModel, Nanos, Op, Outcome, Request};
use proptest::prelude::*;

/// A preset with shorter blocks, which is quick to precondition, and without chance in its reads.
fn plain(name: &str) -> Params {
    Params {
        pages_per_block: 4,
        gc_quantum_rows: 2,
        retry_probability: 0.0,
        page_type_read_ns: Vec::new(),
        ..Params::preset(name).unwrap()
    }
}

fn latency(ssd: &mut Ssd, now: Nanos, request: &Request) -> Nanos {
    match ssd.submit(now, request) {
        Outcome::Done(at) => at - now,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 18, failure_persistence: None, ..ProptestConfig::default() })]

    /// A read of one program unit takes exactly the nominal time; any other is at most faster by what the unit's other
    /// pages take on the channel.
    #[test]
    fn the_nominal_service_time_is_that_of_a_unit(seed: u64, preset in 0..PRESETS.len()) {
        let params = plain(PRESETS[preset]);
        let mut ssd = Ssd::new(&params, seed).unwrap();
        ssd.precondition();
        let page_ns = 4_096_000u64.div_ceil(u64::from(params.channel_mb_per_s));
        let unit_pages = u64::from(params.planes * params.flash_page_bytes / 4096);
        let mut chance = Chance::new(seed);
        let (mut now, mut whole, mut spread) = (0, 0, 0);
        for _ in 0..200 {
            let pages = 1 + chance.below(16);
            let first = chance.below(ssd.capacity_bytes() / 4096 - pages);
            let (offset_bytes, size_bytes) = (first * 4096, pages as u32 * 4096);
            if chance.happens(0.5) {
                // What is flushed together lies together.
                ssd.submit(now, &Request::new(Op::Write, offset_bytes, size_bytes));
                ssd.flush(now);
            }
            now += 10_000_000_000;
            let before = ssd.stats();
            let took = latency(&mut ssd, now, &Request::new(Op::Read, offset_bytes, size_bytes));
            let (parts, hits) = (ssd.stats().flash_reads - before.flash_reads, ssd.stats().buffer_read_hits);
            prop_assert_eq!(hits, before.buffer_read_hits);
            let nominal = ssd.unloaded_read_ns(size_bytes);
            if parts == 1 {
                whole += 1;
                prop_assert_eq!(took, nominal, "{} pages", pages);
            } else {
                spread += 1;
                // The link's time is rounded down for each part.
                let least = nominal - (pages.min(unit_pages) - 1) * page_ns - parts;
                prop_assert!(took >= least, "{took} for {pages} pages in {parts} units, nominal {nominal}");
            }
        }
        prop_assert!(whole > 20 && spread > 20, "{whole} {spread}");
    }

    /// On an idle drive the parts of a read wait for each other and for nothing else.
    #[test]
    fn a_read_waits_for_its_own_parts_on_an_idle_drive(seed: u64, preset in 0..PRESETS.len(), pages in 1u32..1024) {
        let params = plain(PRESETS[preset]);
        let mut ssd = Ssd::new(&params, seed).unwrap();
        ssd.precondition();
        let mut chance = Chance::new(seed);
        let mut now = 0;
        let mut waited = 0;
        for _ in 0..20 {
            now += 10_000_000_000;
            let first = chance.below(ssd.capacity_bytes() / 4096 - u64::from(pages));
            let asked = Request::new(Op::Read, first * 4096, pages * 4096);
            let (_, cause) = ssd.submit_explained(now, &asked);
            prop_assert_eq!(cause.total_ns(), cause.wait_ns(Mechanism::OwnParts), "{:?}", cause);
            waited += cause.total_ns();
            // Not so when the die reads for another request.
            now += 10_000_000_000;
            let page = Request::new(Op::Read, first * 4096, 4096);
            ssd.submit(now, &page);
            let (_, cause) = ssd.submit_explained(now, &page);
            prop_assert_eq!(cause.total_ns(), cause.wait_ns(Mechanism::HostRead), "{:?}", cause);
            prop_assert!(cause.total_ns() >= params.read_ns);
        }
        prop_assert!(waited > 0 || pages < 128, "{pages} pages wait for none of their own");
    }
}
