// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the commit into the engine, so that every simulated result can name it.

use std::process::Command;

fn main() {
    let described = Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).output();
    let commit = described
        .ok()
        .filter(|output| output.status.success())
        .map_or_else(|| "unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    println!("cargo:rustc-env=LINNET_COMMIT={commit}");
    // This file changes with every commit and checkout, and only then.
    println!("cargo:rerun-if-changed=../../.git/logs/HEAD");
}
