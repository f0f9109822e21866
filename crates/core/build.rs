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
    }
    // For crates that compile the core in other ways: DEP_LINNET_CORE_UNITS.
    println!("cargo:units={}", UNITS.join(" "));
    println!("cargo:rerun-if-changed=../../core");
}
