// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the queued model with references.
//!
//! `cargo run --release -p linnet-ssd --example check -- NAME.json...`

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for name in std::env::args().skip(1) {
        let (check, stats) = linnet_ssd::check(Path::new(&name))?;
        println!("{}", serde_json::to_string_pretty(&check)?);
        println!("{stats:?}");
    }
    Ok(())
}
