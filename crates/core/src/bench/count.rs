// SPDX-License-Identifier: MIT OR Apache-2.0
//! Instructions per call: the program runs itself under callgrind, which counts inside one function.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use super::{CALLS, Chance, INPUTS, Plain, RING, Row, Subject, advance, entry, networks, ring};
use crate::Error;
use crate::bench::{Build, Options};

/// Blocks of calls that are counted.
const BLOCKS: usize = 16;

/// The function whose instructions are counted: these calls.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn linnet_bench_counted(calls: usize, call: &mut dyn FnMut(usize)) {
    for i in 0..calls {
        call(i);
    }
}

/// Of one call of this row, or `None`: no valgrind, or instructions that it does not know, or nothing to count.
pub(super) fn instructions(program: &Path, row: &Row, seed: u64) -> Option<f64> {
    // valgrind knows no AVX-512, and hides it; streams are the other rows mixed.
    if row.build == "avx512" || row.inputs == "stream" {
        return None;
    }
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=linnet_bench_counted"])
        .arg(program)
        .args(["count", &row.network, row.inputs, row.path, row.build, &row.remembered.to_string(), &seed.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let (_, after) = text.split_once("Collected : ")?;
    let total: f64 = after.split_whitespace().next()?.parse().ok()?;
    Some(total / (BLOCKS * CALLS) as f64)
}

/// Runs the calls of one row: what a counting program does with its arguments after `count`.
pub fn count(arguments: &[String], options: &Options) -> Result<(), Error> {
    let bad = || Error::Input(format!("not a row to count: {arguments:?}"));
    let [name, inputs, path, build, remembered, seed] = arguments else { return Err(bad()) };
    let options = Options { seed: seed.parse().map_err(|_| bad())?, ..options.clone() };
    let network = networks(&options)?.into_iter().find(|(n, _)| n == name).ok_or_else(bad)?.1;
    let build = Build::available().into_iter().find(|b| b.name() == build).ok_or_else(bad)?;
    let inputs = INPUTS.into_iter().find(|i| i == inputs).ok_or_else(bad)?;
    if path == "plain" {
        let (plain, ring) = (Plain::new(&network, build).ok_or_else(bad)?, ring(inputs, options.seed));
        linnet_bench_counted(BLOCKS * CALLS, &mut |i| {
            black_box(plain.decide(black_box(&ring[i % RING])));
        });
        return Ok(());
    }
    let subject = Subject::new(&network, build)?;
    let device = subject.device();
    let (mut chance, mut found, mut pending) = (Chance(options.seed), Chance(options.seed), 0);
    let found: Vec<(u64, u32)> = (0..RING).map(|_| entry(inputs, &mut found)).collect();
    for block in 0..BLOCKS {
        advance(&device, inputs, &mut chance, &mut pending);
        device.decide(found[block].1);
        linnet_bench_counted(CALLS, &mut |i| {
            let (latency_ns, snapshot) = found[(block * CALLS + i) % RING];
            match (path.as_str(), remembered.as_str()) {
                ("submit", "false") => {
                    black_box(device.score(black_box(snapshot)));
                }
                ("submit", _) => {
                    black_box(device.decide(black_box(found[block].1)));
                }
                ("complete", _) => device.complete_read(0, black_box(latency_ns), snapshot),
                _ => {
                    black_box(device.arrive(black_box(4_096)));
                }
            }
        });
    }
    Ok(())
}
