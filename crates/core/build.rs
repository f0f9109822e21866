// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the C core for user space. Always at full optimisation: debugging happens in the C tests.

use std::env;
use std::path::Path;

/// Units of which one build serves every machine.
const UNITS: &[&str] = &[
    "feature.c",
    "heimdall.c",
    "network.c",
    "infer.c",
    "dense.c",
    "decide.c",
    "model.c",
    "judge.c",
    "sift.c",
    "watch.c",
    "trees.c",
    "latencies.c",
    "grove.c",
    "replica.c",
    "choose.c",
    "hedge.c",
];
/// Units with floats. Bit-reproducible: no contraction, no errno, and vectors that never show in a result.
const FLOAT_UNITS: &[&str] = &["float.c", "loops.c", "loss.c", "train.c", "quantise.c"];

fn build() -> cc::Build {
    let mut build = cc::Build::new();
    build.std("c11").opt_level(3).warnings(true).extra_warnings(true).flags([
        "-ffp-contract=off",
        "-fno-math-errno",
        "-Wno-psabi",
    ]);
    build
}

/// Compiles `unit` once more for each instruction set that `src/simd.rs` may find at run time.
fn variants(core: &Path, unit: &str, symbol: &str) {
    let sets: [(&str, &[&str]); 2] = [
        ("avx2", &["-mavx2"]),
        ("avx512", &["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512vnni", "-mprefer-vector-width=512"]),
    ];
    for (set, flags) in sets {
        let mut build = build();
        build.file(core.join(unit)).define(&symbol.to_uppercase(), format!("{symbol}_{set}").as_str());
        for flag in flags {
            build.flag(flag);
        }
        build.compile(&format!("{symbol}_{set}"));
    }
}

/// Flags of a kernel build, as in `core/Makefile`.
const KERNEL_FLAGS: &[&str] = &["-O2", "-ffreestanding", "-fno-builtin", "-mgeneral-regs-only", "-fno-strict-aliasing"];
/// What `src/bench` calls of the kernel build, and what that calls in turn; renamed so that both builds fit one program.
const KERNEL_NAMES: &[&str] = &[
    "bucket",
    "dense_portable",
    "heimdall_arrive",
    "heimdall_complete_read",
    "heimdall_features",
    "heimdall_init",
    "heimdall_inputs",
    "heimdall_leave",
    "heimdall_scale_set",
    "heimdall_throughput",
    "judge_arrive",
    "judge_behind",
    "judge_catch_up",
    "judge_decide",
    "judge_history_len",
    "judge_init",
    "judge_note_read",
    "judge_pending_pages",
    "judge_score",
    "judge_snapshot",
    "judge_tracker",
    "judge_withdraw",
    "network_first_sums",
    "network_logits",
    "network_score",
    "network_score_rest",
    "sift_portable",
    "tables_place",
    "tables_plan",
    "tracker_arrive",
    "tracker_complete_read",
    "tracker_complete_write",
    "tracker_digits",
    "tracker_init",
    "tracker_withdraw",
    "trees_check",
    "trees_score",
    "watch_arrive",
    "watch_complete",
    "watch_describe",
    "watch_init",
    "watch_withdraw",
];

/// The decision path with the kernel's flags, and the plain loops with several.
fn bench(core: &Path) {
    let mut kernel = cc::Build::new();
    kernel.std("c11").opt_level(2).flags(KERNEL_FLAGS);
    for name in KERNEL_NAMES {
        kernel.define(&format!("linnet_{name}"), format!("linnet_kernel_{name}").as_str());
    }
    for unit in ["feature.c", "heimdall.c", "infer.c", "dense.c", "judge.c", "sift.c", "trees.c", "watch.c"] {
        kernel.file(core.join(unit));
    }
    kernel.compile("linnet_kernel");
    // Not -march=native: the program may run elsewhere. These are what gcc -O3 makes of the loop for such machines.
    for (name, level, flags) in [
        ("portable", 2, &["-march=x86-64"][..]),
        ("kernel", 2, KERNEL_FLAGS),
        ("avx2", 3, &["-march=x86-64-v3"]),
        ("avx512", 3, &["-march=x86-64-v4"]),
    ] {
        let mut plain = cc::Build::new();
        plain.std("c11").opt_level(level).flags(flags).file("src/bench/plain.c");
        plain.define("PLAIN", format!("linnet_plain_{name}").as_str()).compile(&format!("linnet_plain_{name}"));
    }
    println!("cargo:rerun-if-changed=src/bench/plain.c");
}

fn main() {
    let core = Path::new("../../core");
    let mut portable = build();
    for unit in UNITS.iter().chain(FLOAT_UNITS) {
        portable.file(core.join(unit));
    }
    portable.include(core).file("src/inline.c").compile("linnet_core");
    println!("cargo:rerun-if-changed=src/inline.c");
    if env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64") {
        variants(core, "dense.c", "linnet_dense");
        variants(core, "sift.c", "linnet_sift");
        variants(core, "loops.c", "linnet_loops");
        variants(core, "trees.c", "linnet_trees_score");
        if env::var_os("CARGO_FEATURE_BENCH").is_some() {
            bench(core);
        }
    }
    println!("cargo:rerun-if-changed=../../core");
}
