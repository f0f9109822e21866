// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the observers' BPF objects where the feature `bpf` asks for them. The objects travel inside the library:
//! who uses them needs no compiler.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-changed=../../core/reads.h");
    println!("cargo:rerun-if-env-changed=CLANG");
    if env::var_os("CARGO_FEATURE_BPF").is_none() {
        return;
    }
    for name in ["readahead", "nfs"] {
        compile(name);
    }
}

fn compile(name: &str) {
    let source = format!("bpf/{name}.bpf.c");
    let object = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join(format!("{name}.bpf.o"));
    let endian = env::var("CARGO_CFG_TARGET_ENDIAN").unwrap_or_default();
    let target = if endian == "big" { "bpfeb" } else { "bpfel" };
    let given = env::var("CLANG").ok();
    let known = ["clang", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14"];
    for clang in given.as_deref().into_iter().chain(known) {
        let mut command = Command::new(clang);
        command.args(["-target", target, "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"]);
        command.args(["-c", &source, "-o"]).arg(&object);
        match command.status() {
            Ok(status) if status.success() => return,
            Ok(status) => panic!("{clang} cannot compile {source} ({status})"),
            Err(_) => {}
        }
    }
    panic!(
        "the feature `bpf` needs clang (Debian: apt install clang); set CLANG to its path, or build without the feature"
    );
}
