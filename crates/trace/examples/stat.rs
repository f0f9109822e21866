// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints the statistics of traces, and how fast they were read:
//! `cargo run --release -p linnet-trace --example stat -- FILE... [--format NAME]`

use std::path::Path;
use std::time::Instant;

use linnet_trace::{Options, read_all};

fn main() {
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
    for file in files {
        let start = Instant::now();
        match read_all(Path::new(&file), Options { format: format.clone(), ..Options::default() }) {
            Ok(trace) => {
                let seconds = start.elapsed().as_secs_f64();
                let rate = trace.records.len() as f64 / seconds / 1e6;
                println!("{file}: {} ({rate:.2} M records/s, {} reordered)", trace.format, trace.reordered);
                println!("{:#?}", trace.stats());
                trace.warnings.iter().for_each(|w| println!("warning: {w}"));
            }
            Err(error) => println!("{error}"),
        }
    }
}
