// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trains on a file of rows and prints seconds per epoch and accuracy, for bench/macro/train_vs_torch.py to compare.
//!
//! Usage: train_speed TRAIN TEST EPOCHS SEED WEIGHT. A file holds 32 bytes for each row: 31 digits and the label.

use std::process::ExitCode;
use std::time::Instant;

use linnet_core::{DIGITS, TrainOptions, train};

fn read(path: &str) -> std::io::Result<(Vec<u8>, Vec<bool>)> {
    let bytes = std::fs::read(path)?;
    let rows = bytes.chunks_exact(DIGITS + 1);
    Ok((rows.clone().flat_map(|row| row[..DIGITS].to_vec()).collect(), rows.map(|row| row[DIGITS] != 0).collect()))
}

fn accuracy(decide: impl Fn(&[u8]) -> bool, rows: &[u8], slow: &[bool]) -> f64 {
    let right = rows.chunks(DIGITS).zip(slow).filter(|(row, slow)| decide(row) == **slow).count();
    right as f64 / slow.len() as f64
}

fn run(arguments: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let [train_path, test_path, epochs, seed, weight] = arguments else {
        return Err("usage: train_speed TRAIN TEST EPOCHS SEED WEIGHT".into());
    };
    let (rows, slow) = read(train_path)?;
    let (test_rows, test_slow) = read(test_path)?;
    let options = TrainOptions {
        epochs: epochs.parse()?,
        seed: seed.parse()?,
        false_submit_weight: weight.parse()?,
        ..Default::default()
    };
    let mut seconds = Vec::new();
    let mut start = Instant::now();
    let float = train(&options, &rows, &slow, &mut |epoch, loss| {
        seconds.push(start.elapsed().as_secs_f64());
        eprintln!("epoch {epoch}: loss {loss:.6}, {:.3} s", seconds[epoch]);
        start = Instant::now();
        true
    })?;
    let network = float.quantise(3)?;
    println!(
        "{{\"seconds\": {seconds:?}, \"accuracy_train\": {:.6}, \"accuracy\": {:.6}, \"accuracy_quantised\": {:.6}}}",
        accuracy(|row| network.decide(row), &rows, &slow),
        accuracy(|row| float.decide(row), &test_rows, &test_slow),
        accuracy(|row| network.decide(row), &test_rows, &test_slow),
    );
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("train_speed: {error}");
            ExitCode::FAILURE
        }
    }
}
