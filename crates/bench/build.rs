// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the core once more with the flags of a kernel build, the plain loop with several sets of flags, and
//! the plain re-implementation of KML's data path.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Flags of a kernel build, as in `core/Makefile`.
const KERNEL_FLAGS: &[&str] = &["-O2", "-ffreestanding", "-fno-builtin", "-mgeneral-regs-only", "-fno-strict-aliasing"];

fn main() {
    if env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64") {
        kernel();
        plain();
    }
    cc::Build::new().std("c11").opt_level(3).file("src/tune/matrix.c").compile("linnet_peer");
    println!("cargo:rerun-if-changed=../../core");
    println!("cargo:rerun-if-changed=src/decide/plain.c");
    println!("cargo:rerun-if-changed=src/tune/matrix.c");
}

/// Builds the parts of the core that a kernel module runs, with names `linnet_kernel_*`, so that they can be linked
/// with the other builds.
fn kernel() {
    let core = Path::new("../../core");
    // crates/core/build.rs reads the list of units and passes it on as `cargo:units=`.
    let units = env::var("DEP_LINNET_CORE_UNITS").expect("linnet-core's build script names the core's units");
    let mut kernel = cc::Build::new();
    kernel.std("c11").opt_level(2).flags(KERNEL_FLAGS).flag("-include").flag(renames(core));
    for unit in units.split_whitespace() {
        kernel.file(core.join(unit));
    }
    kernel.compile("linnet_kernel");
}

/// A header that gives every `linnet_` name in the core's sources the prefix `linnet_kernel_`: functions, tables, and
/// also types, which is harmless.
fn renames(core: &Path) -> PathBuf {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(core).expect("the core's sources") {
        let path = entry.expect("a file of the core").path();
        if path.extension().is_some_and(|kind| kind == "c" || kind == "h") {
            let text = fs::read_to_string(&path).expect("a source of the core");
            let words = text.split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
            names.extend(words.filter(|word| word.starts_with("linnet_")).map(str::to_owned));
        }
    }
    let mut header = String::new();
    for name in names {
        let rest = &name["linnet_".len()..];
        writeln!(header, "#define {name} linnet_kernel_{rest}").expect("a string takes it");
    }
    let path = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo")).join("kernel_names.h");
    fs::write(&path, header).expect("a folder for what is built");
    path
}

/// Not -march=native: the program may run elsewhere. The flags give gcc -O3's code for such machines.
fn plain() {
    for (name, level, flags) in [
        ("portable", 2, &["-march=x86-64"][..]),
        ("kernel", 2, KERNEL_FLAGS),
        ("avx2", 3, &["-march=x86-64-v3"]),
        ("avx512", 3, &["-march=x86-64-v4"]),
    ] {
        let mut plain = cc::Build::new();
        plain.std("c11").opt_level(level).flags(flags).file("src/decide/plain.c");
        plain.define("PLAIN", format!("linnet_plain_{name}").as_str()).compile(&format!("linnet_plain_{name}"));
    }
}
