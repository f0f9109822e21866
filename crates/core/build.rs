// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the C core for user space. Always at full optimisation: debugging happens in the C tests.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// A line of `core/UNITS`.
struct Unit {
    file: PathBuf,
    /// The symbol that is renamed in copies of the unit for other instruction sets; `None` if there are no copies.
    symbol: Option<String>,
    floats: bool,
}

/// All units, of both kinds: user space may use floats.
fn units(core: &Path) -> Vec<Unit> {
    let list = core.join("UNITS");
    let text = fs::read_to_string(&list).unwrap_or_else(|error| panic!("{}: {error}", list.display()));
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
            [name, kind @ ("module" | "integer" | "tune" | "fpu" | "float"), ref rest @ ..] if rest.len() < 2 => Unit {
                file: core.join(format!("{name}.c")),
                symbol: rest.first().map(|symbol| symbol.to_string()),
                floats: matches!(kind, "fpu" | "float"),
            },
            _ => panic!("{}: `{line}` is not `name kind [symbol]` with a kind that its head explains", list.display()),
        })
        .collect()
}

/// Flags for floats with reproducible bits: no contraction, no errno, and results that do not depend on vector width.
///
/// Those of `CFLAGS` come after ours. `core/float.h` refuses `-ffast-math` and its like, but cannot see contraction.
fn build() -> cc::Build {
    let mut build = cc::Build::new();
    build.std("c11").opt_level(3).warnings(true).extra_warnings(true).flags([
        "-ffp-contract=off",
        "-fno-math-errno",
        "-Wno-psabi",
    ]);
    let compiler = build.get_compiler();
    let contraction = compiler.args().iter().rfind(|flag| flag.to_string_lossy().starts_with("-ffp-contract="));
    assert!(
        contraction.is_some_and(|flag| flag == "-ffp-contract=off"),
        "{contraction:?} of CFLAGS changes the bits of training; build linnet-core without it"
    );
    build
}

/// Compiles a unit once more for each instruction set that `src/simd.rs` may find at run time.
fn variants(unit: &Path, symbol: &str) {
    let sets: [(&str, &[&str]); 2] = [
        ("avx2", &["-mavx2"]),
        ("avx512", &["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512vnni", "-mprefer-vector-width=512"]),
    ];
    for (set, flags) in sets {
        let mut build = build();
        build.file(unit).define(&symbol.to_uppercase(), format!("{symbol}_{set}").as_str());
        for flag in flags {
            build.flag(flag);
        }
        build.compile(&format!("{symbol}_{set}"));
    }
}

fn main() {
    let core = Path::new("../../core");
    let units = units(core);
    let mut portable = build();
    portable.files(units.iter().map(|unit| &unit.file)).include(core).file("src/inline.c").compile("linnet_core");
    println!("cargo:rerun-if-changed=src/inline.c");
    if env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64") {
        for unit in &units {
            if let Some(symbol) = &unit.symbol {
                variants(&unit.file, symbol);
            }
        }
    }
    // For crates that compile the core with other flags: DEP_LINNET_CORE_UNITS, the units without floats.
    let integer = units.iter().filter(|unit| !unit.floats).filter_map(|unit| unit.file.file_name()?.to_str());
    println!("cargo:units={}", integer.collect::<Vec<_>>().join(" "));
    println!("cargo:rerun-if-changed=../../core");
}
