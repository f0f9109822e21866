// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same seed gives the same bytes, in debug and release and in later versions: checks hashes of whole runs. Results
//! published with a preset depend on them, so a change here is a change of the model, which the changelog must mention.

use linnet_sim::Chance;
use linnet_ssd::queued::{QueuedParams, QueuedSsd};
use linnet_ssd::{PRESETS, Params, Ssd};
use linnet_types::{LatencyModel, Op, Outcome, Request};

struct Fnv(u64);

impl Fnv {
    fn add(&mut self, number: u64) {
        for byte in number.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

fn requests(capacity: u64) -> impl Iterator<Item = (u64, Request)> {
    let mut chance = Chance::new(77);
    let mut now = 0;
    (0..30_000).map(move |_| {
        // Integer gaps: the hash must not depend on a mathematical library.
        let gap = if chance.happens(0.1) { 20_000_000 } else { 400_000 };
        now += chance.below(gap);
        let op = if chance.happens(0.6) { Op::Read } else { Op::Write };
        let large = chance.happens(0.3);
        let size_bytes = 4096 << if large { chance.below(7) } else { 0 };
        let grain = if chance.happens(0.05) { 512 } else { 4096 };
        (now, Request::new(op, chance.below(capacity / grain) * grain, size_bytes))
    })
}

#[test]
fn runs_of_the_presets_match_their_hashes() {
    let mut found = Vec::new();
    for name in PRESETS {
        let mut ssd = Ssd::new(&Params::preset(name).unwrap(), 5).unwrap();
        ssd.precondition();
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        for (now, request) in requests(ssd.capacity_bytes()) {
            let Outcome::Done(at) = ssd.submit(now, &request) else { panic!("a device without faults fails") };
            hash.add(at);
        }
        let stats = ssd.stats();
        hash.add(stats.flash_write_pages);
        hash.add(stats.die_busy_ns.iter().sum());
        found.push((*name, hash.0));
    }
    let pinned = [
        ("consumer-deep", 0x775f_f1d9_fb6b_0140),
        ("enterprise-wide", 0x0bc2_b338_9add_8856),
        ("sata", 0xbf17_3ab2_a858_a5a2),
        ("970-evo", 0x7d22_88e7_b40b_3f76),
        ("600p", 0x6e79_6411_8803_b497),
        ("pe8110", 0x72d5_8a75_cc41_64df),
        ("d7-p5520", 0xa9ef_1c28_1430_96df),
        ("cm7-r", 0x16de_aeab_47cc_d9d3),
        ("7450-pro", 0xfbc1_6940_d342_eda3),
    ];
    assert_eq!(found, pinned, "{found:#x?}");
}

#[test]
fn a_run_of_the_queued_model_matches_its_hash() {
    let mut ssd = QueuedSsd::new(&QueuedParams { blocks_per_plane: 64, ..QueuedParams::default() })
        .unwrap_or_else(|e| panic!("{e}"));
    let answers = ssd.serve(requests(1 << 27).map(|(now, request)| (now / 4, request)));
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    answers.iter().for_each(|served| hash.add(served.latency_ns));
    hash.add(ssd.stats().events);
    assert_eq!(hash.0, 0xa511_7614_d007_be07, "{:#x}", hash.0);
}
