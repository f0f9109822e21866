// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints the cost of a decision as lines of JSON (`linnet_bench::decide`).
//!
//! Usage: bench_decide [--blocks N] [--seed N] [--instructions] [--threads]
//!
//! LINNET_BENCH_WEIGHTS may name a JSON file with the weights of one more LinnOS network: w0, b0, w1, b1.

use std::error::Error;
use std::path::Path;

use linnet_bench::decide::{Options, count, decide, two_threads};
use linnet_core::{DIGITS, Layer, Network};

fn published(path: &str) -> Result<Network, Box<dyn Error>> {
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(path)?)?;
    let numbers = |name: &str| -> Result<Vec<i64>, Box<dyn Error>> {
        let row = json[name].as_array().ok_or(format!("{path}: no {name}"))?;
        Ok(row.iter().filter_map(serde_json::Value::as_i64).collect())
    };
    let (b0, b1) = (numbers("b0")?, numbers("b1")?);
    let layers = vec![
        Layer { inputs: DIGITS, outputs: b0.len(), weights: numbers("w0")?, biases: b0.clone() },
        Layer { inputs: b0.len(), outputs: b1.len(), weights: numbers("w1")?, biases: b1 },
    ];
    Ok(Network::from_integers(layers, vec![1_000, 1_000_000])?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = Options::default();
    let mut arguments = std::env::args().skip(1);
    let mut threads = false;
    if let Ok(path) = std::env::var("LINNET_BENCH_WEIGHTS") {
        let name = Path::new(&path).file_stem().map_or(String::new(), |s| s.to_string_lossy().into_owned());
        options.networks.push((name, published(&path)?));
    }
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "count" => return Ok(count(&arguments.collect::<Vec<_>>())?),
            "--blocks" => options.blocks = value()?.parse()?,
            "--seed" => options.seed = value()?.parse()?,
            "--instructions" => options.counter = Some(std::env::current_exe()?),
            "--threads" => threads = true,
            _ => return Err(format!("unknown argument {argument}").into()),
        }
    }
    if threads {
        for row in two_threads(&options)? {
            println!("{row:?}");
        }
        return Ok(());
    }
    for row in decide(&options)? {
        println!("{}", row.to_json());
    }
    Ok(())
}
