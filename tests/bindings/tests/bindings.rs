// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that the declarations of the C core in `crates/core` agree with its headers. Needs the command `bindgen`,
//! with libclang.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use linnet_bindings::compare::compare;
use linnet_bindings::source::Source;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The module that contains the constants of the headers.
const CONSTANTS: &str = "crates/core/src/ffi";
/// Harmless differences that should be fixed there: a pointer that Rust declares read-only although C may write through
/// it (it writes through another pointer in the struct), and names of private fields.
const KNOWN: &[&str] = &[
    "crates/core/src/ffi/train.rs: linnet_float_set: argument 1: *const FloatNetwork, *mut linnet_float_network in C",
    "crates/core/src/predictions/latencies.rs: Latencies.score_edges: score_edge in C",
    "crates/core/src/predictions/latencies.rs: Latencies.feature_edges: feature_edge in C",
    "crates/core/src/predictions/latencies.rs: Latencies.bins: ns in C",
];

/// Files of a folder with this suffix, sorted by name.
fn files(folder: &str, suffix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(ROOT).join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("a folder's entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|own| own == suffix) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// bindgen's output for all headers of the core and the C code that the crate adds; `None` without bindgen.
fn generated() -> Option<String> {
    if Command::new("bindgen").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("skipped: no command bindgen; install it with: apt-get install bindgen, or cargo install bindgen-cli");
        return None;
    }
    let header = Path::new(env!("CARGO_TARGET_TMPDIR")).join("all.h");
    let first = vec![Path::new(ROOT).join("core/linnet.h")];
    let parts = [first, files("core", "h"), files("crates/core/src", "c")].concat();
    let lines = parts.iter().map(|path| format!("#include \"{}\"\n", path.display())).collect::<String>();
    fs::write(&header, lines).expect("a folder for what tests write");
    let done = Command::new("bindgen")
        .arg(&header)
        .args(["--default-enum-style", "consts", "--no-prepend-enum-name", "--no-doc-comments"])
        .args(["--allowlist-function", "linnet_.*", "--allowlist-type", "linnet_.*"])
        .args(["--allowlist-var", "(linnet|LINNET)_.*", "--", "-I"])
        .arg(Path::new(ROOT).join("core"))
        .output()
        .expect("bindgen was there");
    assert!(done.status.success(), "bindgen: {}", String::from_utf8_lossy(&done.stderr));
    Some(String::from_utf8(done.stdout).expect("Rust is UTF-8"))
}

/// The declarations of the crate, after `change` of each file's text.
fn declared(change: impl Fn(String) -> String) -> Source {
    let mut source = Source::default();
    for path in [files("crates/core/src", "rs"), files("crates/types/src", "rs")].concat() {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = path.strip_prefix(ROOT).expect("below the root").display().to_string();
        source.read(&name, &change(text)).expect("it compiles");
    }
    source
}

#[test]
fn declarations_are_those_of_the_headers() {
    let Some(text) = generated() else { return };
    let report = compare(&declared(|text| text), CONSTANTS, &text).expect("bindgen writes Rust");
    let unknown = report.differences.iter().filter(|line| !KNOWN.contains(&line.as_str())).collect::<Vec<_>>();
    let (functions, records, constants) = (report.functions, report.records.len(), report.constants);
    println!("{functions} functions and statics, {records} records, {constants} constants compared");
    assert!(unknown.is_empty(), "{unknown:#?}");
    assert_eq!(unknown.len() + KNOWN.len(), report.differences.len(), "KNOWN names what does not differ any more");
    assert!(functions > 40 && records > 10 && constants > 10, "too few were found to compare");
}

/// Changes of the Rust side, and what the report must say about each.
const CHANGES: [(&str, &str, &str); 7] = [
    ("pub weight_bytes: u32,", "pub weight_bytes: u64,", "Source.weight_bytes: u64, u32 in C"),
    ("pub weight_bytes: u32,", "pub weight_bytes: [u64; 2],", "Source: weights at 24, at Some(16) in C"),
    ("pub weight_bytes: u32,", "", "Source: 4 fields, 5 in C"),
    ("pub batch: u32,", "pub lot: u32,", "TrainOptions.lot: batch in C"),
    ("pub const LAYERS_MAX: usize = 8;", "pub const LAYERS_MAX: usize = 9;", "LAYERS_MAX is Ok(9)"),
    ("fn linnet_crc32c(bytes: *const u8,", "fn linnet_crc32c(bytes: *mut u8,", "argument 1: *mut u8, *const u8 in C"),
    ("fn linnet_quantise(", "fn linnet_quantize(", "linnet_quantize: not in the headers"),
];

#[test]
fn a_different_declaration_is_reported() {
    let Some(text) = generated() else { return };
    for (from, to, told) in CHANGES {
        let changed = declared(|text| text.replace(from, to));
        let report = compare(&changed, CONSTANTS, &text).expect("bindgen writes Rust");
        let lines = report.differences.join("\n");
        assert!(lines.contains(told), "{from} -> {to}: {told:?} is not in\n{lines}");
    }
}
