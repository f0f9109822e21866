// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts instructions per call: the program runs itself under callgrind, which counts inside one function.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use linnet_core::{Error, Layer, Network};

use super::others::{FREE, InflightBench, TREES_NAME};
use super::{Build, CALLS, Chance, INPUTS, Plain, RING, Row, Subject, advance, entry, ring};

/// Blocks of calls that are counted.
const BLOCKS: usize = 16;

/// The function whose instructions are counted: it makes the calls.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn linnet_bench_counted(calls: usize, call: &mut dyn FnMut(usize)) {
    for i in 0..calls {
        call(i);
    }
}

/// Writes the layers as numbers to a file, so that the counted program need not train them again under valgrind.
fn write(network: &Network, path: &Path) -> std::io::Result<()> {
    let mut text = String::new();
    for layer in network.layers() {
        for number in [layer.inputs as i64, layer.outputs as i64].iter().chain(&layer.weights).chain(&layer.biases) {
            text += &format!("{number} ");
        }
    }
    std::fs::write(path, text)
}

fn read(path: &str) -> Option<Network> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut numbers = text.split_whitespace().map_while(|word| word.parse::<i64>().ok());
    let mut layers = Vec::new();
    while let (Some(inputs), Some(outputs)) = (numbers.next(), numbers.next()) {
        let (inputs, outputs) = (inputs as usize, outputs as usize);
        let weights = numbers.by_ref().take(inputs * outputs).collect();
        let biases = numbers.by_ref().take(outputs).collect();
        layers.push(Layer { inputs, outputs, weights, biases });
    }
    let scales = vec![1; layers.len()];
    Network::from_integers(layers, scales).ok()
}

/// Instructions of one call of this row, or `None` if valgrind is missing or does not know the instructions, or if the
/// row is not counted. Trees are built from their name, without a network.
pub(super) fn instructions(program: &Path, network: Option<&Network>, row: &Row, seed: u64) -> Option<f64> {
    // valgrind does not support AVX-512, and hides it; streams are a mix of the other rows.
    if row.build == "avx512" || row.inputs == "stream" {
        return None;
    }
    let file = std::env::temp_dir().join(format!("linnet-bench-{}.txt", std::process::id()));
    let calls = match network {
        Some(network) => {
            write(network, &file).ok()?;
            BLOCKS * CALLS
        }
        None => {
            if row.path == "submit" {
                BLOCKS * CALLS
            } else {
                CALLS
            }
        }
    };
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=linnet_bench_counted"])
        .arg(program)
        .arg("count")
        .arg(if network.is_some() { file.as_os_str() } else { TREES_NAME.as_ref() })
        .args([row.inputs, row.path, row.build, &row.remembered.to_string(), &seed.to_string()])
        .output();
    // A file that is left behind does no harm.
    let _ = std::fs::remove_file(&file);
    let output = output.ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let (_, after) = text.split_once("Collected : ")?;
    let total: f64 = after.split_whitespace().next()?.parse().ok()?;
    Some(total / calls as f64)
}

/// Runs the calls of one row, given by the arguments after `count`.
pub fn count(arguments: &[String]) -> Result<(), Error> {
    let bad = || Error::Input(format!("not a row to count: {arguments:?}"));
    let [file, inputs, path, build, remembered, seed] = arguments else { return Err(bad()) };
    let seed = seed.parse().map_err(|_| bad())?;
    let build = Build::available().into_iter().find(|b| b.name() == build).ok_or_else(bad)?;
    if file == TREES_NAME {
        let mut tracking = InflightBench::new(build, seed)?;
        match path.as_str() {
            "submit" => linnet_bench_counted(BLOCKS * CALLS, &mut |i| {
                black_box(tracking.submit(black_box(i)));
            }),
            "arrive" => linnet_bench_counted(CALLS, &mut |k| tracking.arrive(FREE + k, true, black_box(4_096))),
            _ => {
                (0..CALLS).for_each(|k| tracking.arrive(FREE + k, true, 4_096));
                linnet_bench_counted(CALLS, &mut |k| tracking.complete(FREE + k));
            }
        }
        return Ok(());
    }
    let network = read(file).ok_or_else(bad)?;
    let inputs = INPUTS.into_iter().find(|i| i == inputs).ok_or_else(bad)?;
    if path == "plain" {
        let (plain, ring) = (Plain::new(&network, build), ring(inputs, seed));
        linnet_bench_counted(BLOCKS * CALLS, &mut |i| {
            black_box(plain.decide(black_box(&ring[i % RING])));
        });
        return Ok(());
    }
    let subject = Subject::new(&network, build)?;
    let device = subject.device();
    let (mut chance, mut found) = (Chance(seed), Chance(seed));
    let found: Vec<(u64, u32)> = (0..RING).map(|_| entry(inputs, &mut found)).collect();
    for block in 0..BLOCKS {
        advance(&device, inputs, &mut chance);
        device.decide(found[block].1);
        let (from, again) = (block * CALLS, found[block].1);
        let mut score = |i: usize| {
            black_box(device.score(black_box(found[from + i].1)));
        };
        let mut decide = |_| {
            black_box(device.decide(black_box(again)));
        };
        let mut complete = |i: usize| device.complete_read(0, black_box(found[from + i].0), found[from + i].1);
        let mut arrive = |_| {
            black_box(device.arrive(black_box(4_096)));
        };
        let call: &mut dyn FnMut(usize) = match (path.as_str(), remembered.as_str()) {
            ("submit", "false") => &mut score,
            ("submit", _) => &mut decide,
            ("complete", _) => &mut complete,
            _ => &mut arrive,
        };
        linnet_bench_counted(CALLS, call);
    }
    Ok(())
}
