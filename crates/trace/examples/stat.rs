// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints the statistics of traces, and how fast they were read:
//! `cargo run --release -p linnet-trace --example stat -- FILE... [--format NAME]`

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use linnet_trace::{Options, read_all};

fn main() -> std::io::Result<()> {
    let mut files = Vec::new();
    let mut format = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--format" {
            format = arguments.next();
        } else {
            files.push(argument);
        }
    }
    let mut out = std::io::stdout().lock();
    for file in files {
        let start = Instant::now();
        match read_all(Path::new(&file), Options { format: format.clone(), ..Options::default() }) {
            Ok(trace) => {
                let seconds = start.elapsed().as_secs_f64();
                let rate = trace.records.len() as f64 / seconds / 1e6;
                writeln!(out, "{file}: {} ({rate:.2} M records/s, {} reordered)", trace.format, trace.reordered)?;
                writeln!(out, "{:#?}", trace.stats())?;
                for warning in &trace.warnings {
                    writeln!(out, "warning: {warning}")?;
                }
            }
            Err(error) => writeln!(out, "{error}")?,
        }
    }
    Ok(())
}
