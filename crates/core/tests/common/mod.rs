// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slow, plain references of the core, and files that tests share.
#![allow(dead_code)]

pub mod inflight;
pub mod predictions;

use std::path::PathBuf;

use linnet_core::{DIGITS, Layer, Network};

/// A tracker that keeps every I/O and prints numbers as text.
#[derive(Default)]
pub struct Slow {
    pub pending: Vec<u32>,
    pub reads: Vec<(u32, u64)>,
}

impl Slow {
    pub fn pages(&self) -> u32 {
        self.pending.iter().map(|&size| size.div_ceil(4096)).sum()
    }

    pub fn leave(&mut self, size: u32) {
        let at = self.pending.iter().position(|&s| s == size).expect("was pending");
        self.pending.swap_remove(at);
    }

    pub fn digits(&self, snapshot: u32) -> Vec<u8> {
        let mut text = String::new();
        let last: Vec<(u32, u64)> =
            (0..4).map(|i| (self.reads.len() + i).checked_sub(4).map_or((0, 0), |at| self.reads[at])).collect();
        for (pages, _) in &last {
            text += &format!("{:03}", pages.min(&999));
        }
        text += &format!("{:03}", snapshot.min(999));
        for (_, latency_ns) in &last {
            text += &format!("{:04}", (latency_ns / 1000).min(9999));
        }
        text.bytes().map(|c| c - b'0').collect()
    }
}

/// The expected sums of a network; `None` if 128 bits do not hold them.
pub fn logits(layers: &[Layer], inputs: &[u8]) -> Option<Vec<i128>> {
    let mut row: Vec<i128> = inputs.iter().map(|&d| i128::from(d)).collect();
    for (k, layer) in layers.iter().enumerate() {
        let mut next = Vec::new();
        for o in 0..layer.outputs {
            let mut sum = i128::from(layer.biases[o]);
            for (i, x) in row.iter().enumerate() {
                sum = sum.checked_add(i128::from(layer.weights[o * layer.inputs + i]).checked_mul(*x)?)?;
            }
            next.push(if k + 1 < layers.len() { sum.max(0) } else { sum });
        }
        row = next;
    }
    Some(row)
}

/// CRC-32C of each single byte.
static CRC32C: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// CRC-32C.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc = crc >> 8 ^ CRC32C[(crc as u8 ^ byte) as usize];
    }
    !crc
}

/// The same file with other bytes at `at` and a valid checksum: the output of a faulty writer.
pub fn forged(good: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = good[..good.len() - 4].to_vec();
    file[at..at + bytes.len()].copy_from_slice(bytes);
    let checksum = crc32c(&file);
    file.extend(checksum.to_le_bytes());
    file
}

/// The root of the repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the shared data, or `None` if it does not exist.
pub fn shared(path: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("LINNET_SHARED")
        .filter(|folder| !folder.is_empty())
        .map_or_else(|| root().join("../shared"), PathBuf::from);
    let file = folder.join(path);
    if file.exists() {
        return Some(file);
    }
    println!("skipped: {} is not there", file.display());
    None
}

/// One input of the published LinnOS network, with its exact answers.
pub struct Published {
    pub digits: [u8; DIGITS],
    pub logits: [i64; 2],
    pub revokes: bool,
}

/// The published LinnOS network and its inputs, or `None` where the shared data is absent.
pub fn published_linnos() -> Option<(Network, Vec<Published>)> {
    let path = shared("reference/linnos/vectors.json")?;
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let integers = |list: &serde_json::Value| -> Vec<i64> {
        list.as_array().unwrap().iter().map(|number| number.as_i64().unwrap()).collect()
    };
    let layers = vec![
        Layer { inputs: 31, outputs: 256, weights: integers(&json["w0"]), biases: integers(&json["b0"]) },
        Layer { inputs: 256, outputs: 2, weights: integers(&json["w1"]), biases: integers(&json["b1"]) },
    ];
    let network = Network::from_integers(layers, vec![1_000, 1_000_000]).unwrap();
    let inputs = json["inputs"].as_array().unwrap().iter().zip(json["out"].as_array().unwrap());
    let cases = inputs.zip(integers(&json["decisions"])).map(|((input, out), decision)| Published {
        digits: input.as_str().unwrap().bytes().map(|c| c - b'0').collect::<Vec<u8>>().try_into().unwrap(),
        logits: integers(out).try_into().unwrap(),
        revokes: decision == 1,
    });
    Some((network, cases.collect()))
}

/// The first line of a vector file.
pub const SPDX: &str = "# SPDX-License-Identifier: MIT OR Apache-2.0\n";

/// Compares with the file in `spec/vectors`, or writes it on request.
pub fn keep(name: &str, text: &str) {
    let path = root().join("spec/vectors").join(name);
    if std::env::var_os("LINNET_WRITE_VECTORS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(kept == text, "{name} is not what the models write; LINNET_WRITE_VECTORS=1 writes it again");
}

/// The lines of a vector file in words, without comments.
pub fn lines(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(|line| line.split(' ').collect())
}
