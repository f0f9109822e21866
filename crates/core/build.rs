// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the C core for user space. Always at full optimisation: debugging happens in the C tests.

use std::path::Path;

/// Translation units without a variant per instruction set.
const UNITS: &[&str] = &["feature.c"];

fn main() {
    let core = Path::new("../../core");
    let mut build = cc::Build::new();
    build.std("c11").opt_level(3).warnings(true).extra_warnings(true).flag("-ffp-contract=off");
    for unit in UNITS {
        build.file(core.join(unit));
    }
    build.compile("linnet_core");
    println!("cargo:rerun-if-changed=../../core");
}
