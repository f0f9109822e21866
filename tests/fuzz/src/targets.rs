// SPDX-License-Identifier: MIT OR Apache-2.0
//! The readers other than those of traces. Each gets bytes and says whether it took them; what it took is used, so that a
//! value that passes the checks and breaks later is found.

use std::path::{Path, PathBuf};

use linnet_core::{Forest, Knob, Model};
use linnet_ssd::{DeviceParams, Params, Ssd};

use crate::nbd::Session;

/// Bytes that a target begins with, by name.
type Seeds = Vec<(String, Vec<u8>)>;

/// A reader under test.
pub enum Target {
    Models,
    Knobs,
    Forests,
    Params,
    Snapshots(PathBuf),
    Nbd(Session),
}

/// Files of `spec/vectors` in this folder.
fn vectors(folder: &str) -> Result<Seeds, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/vectors").join(folder);
    let mut found = Vec::new();
    let entries = std::fs::read_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    for entry in entries.flatten().filter(|e| e.path().is_file()) {
        let text = std::fs::read_to_string(entry.path()).map_err(|e| format!("{}: {e}", entry.path().display()))?;
        // A file in hex, behind comments and before cases.
        let hex = text.lines().skip_while(|line| line.starts_with('#')).take_while(|line| is_hex(line));
        let hex: String = hex.collect();
        let bytes = (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap_or(0)).collect();
        found.push((entry.file_name().to_string_lossy().into_owned(), bytes));
    }
    found.sort();
    if found.is_empty() { Err(format!("{}: no file", path.display())) } else { Ok(found) }
}

fn is_hex(line: &str) -> bool {
    !line.is_empty() && line.len() % 2 == 0 && line.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The checksum of model files (CRC-32C).
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    })
}

/// A drive whose snapshot has some kilobytes.
fn small() -> Params {
    let preset = Params::preset("sata").expect("a preset");
    Params { channels: 2, dies_per_channel: 1, planes: 1, pages_per_block: 16, blocks_per_plane: 64, over_provisioning: 0.3, ..preset }
}

impl Target {
    /// The target of this name, and what its cases begin with.
    pub fn new(name: &str, scratch: &Path) -> Result<(Target, Seeds), String> {
        Ok(match name {
            "models" => (Target::Models, vectors("models")?),
            "knobs" => (Target::Knobs, vectors("knobs/models")?),
            "forests" => (Target::Forests, vectors("place/models")?),
            "params" => {
                let text = |name: &str| {
                    let params = DeviceParams::find(name).map_err(|e| e.to_string())?;
                    let path = scratch.join("params.toml");
                    params.write(&path).map_err(|e| e.to_string())?;
                    std::fs::read(&path).map(|bytes| (name.to_string(), bytes)).map_err(|e| e.to_string())
                };
                (Target::Params, vec![text("sata")?, text("consumer-deep-queued")?, text("enterprise-wide")?])
            }
            "snapshots" => {
                let path = scratch.join("snapshot");
                let mut ssd = Ssd::new(&small(), 1).map_err(|e| e.to_string())?;
                ssd.precondition();
                ssd.save(&path).map_err(|e| e.to_string())?;
                let bytes = std::fs::read(&path).map_err(|e| e.to_string())?;
                (Target::Snapshots(path), vec![("snapshot".into(), bytes)])
            }
            "nbd" => {
                let session = Session::new(scratch)?;
                let seeds = session.seeds();
                (Target::Nbd(session), seeds)
            }
            other => return Err(format!("{other}: no such target")),
        })
    }

    /// Makes the checksum right again in most of the cases, so that what is behind it is reached.
    pub fn mend(&self, bytes: &mut [u8]) {
        let Some(body) = bytes.len().checked_sub(4).filter(|&body| body > 0 && bytes[body - 1] % 8 != 7) else { return };
        let sum = match self {
            Target::Models | Target::Knobs | Target::Forests => {
                // The size stands in the header, too.
                if body >= 20 {
                    let size = (bytes.len() as u32).to_le_bytes();
                    bytes[16..20].copy_from_slice(&size);
                }
                crc32c(&bytes[..body])
            }
            Target::Snapshots(_) => crc32fast::hash(&bytes[..body]),
            Target::Params | Target::Nbd(_) => return,
        };
        bytes[body..].copy_from_slice(&sum.to_le_bytes());
    }

    /// Gives these bytes to the reader: whether it took them, or what is wrong with what it did.
    pub fn run(&mut self, bytes: &[u8]) -> Result<bool, String> {
        match self {
            Target::Models => {
                let Ok(model) = Model::from_bytes(bytes) else { return Ok(false) };
                let again = model.to_bytes().map_err(|e| format!("a model that was read cannot be written: {e}"))?;
                let again = Model::from_bytes(&again).map_err(|e| format!("it cannot be read again: {e}"))?;
                if again.to_bytes().ok() == model.to_bytes().ok() { Ok(true) } else { Err("it changed".into()) }
            }
            Target::Knobs => Ok(Knob::from_bytes(bytes).is_ok()),
            Target::Forests => Ok(Forest::from_bytes(bytes).is_ok()),
            Target::Params => {
                let Ok(text) = std::str::from_utf8(bytes) else { return Ok(false) };
                Ok(DeviceParams::from_toml(text).is_ok())
            }
            Target::Snapshots(path) => {
                std::fs::write(&*path, bytes).map_err(|e| e.to_string())?;
                let Ok(ssd) = Ssd::load(path) else { return Ok(false) };
                ssd.check().map(|()| true).map_err(|e| format!("a drive that was loaded is not whole: {e}"))
            }
            Target::Nbd(session) => session.run(bytes),
        }
    }
}
