// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the observer's BPF object where the feature `bpf` asks for it. The object travels inside the library: who uses
//! it needs no compiler.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    if env::var_os("CARGO_FEATURE_BPF").is_none() {
        return;
    }
    let object = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("readahead.bpf.o");
    let endian = env::var("CARGO_CFG_TARGET_ENDIAN").unwrap_or_default();
    let target = if endian == "big" { "bpfeb" } else { "bpfel" };
    let given = env::var("CLANG").ok();
    let known = ["clang", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14"];
    for clang in given.as_deref().into_iter().chain(known) {
        let mut command = Command::new(clang);
        command.args(["-target", target, "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"]);
        command.args(["-c", "bpf/readahead.bpf.c", "-o"]).arg(&object);
        match command.status() {
            Ok(status) if status.success() => return,
            Ok(status) => panic!("{clang} cannot compile bpf/readahead.bpf.c ({status})"),
            Err(_) => {}
        }
    }
    panic!(
        "the feature `bpf` needs clang (Debian: apt install clang); set CLANG to its path, or build without the feature"
    );
}
