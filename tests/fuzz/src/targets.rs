// SPDX-License-Identifier: MIT OR Apache-2.0
//! The readers other than those of traces. Each gets bytes and says whether it took them; what it took is used, so that
//! a value that passes the checks and breaks later is found.

use std::path::{Path, PathBuf};

use linnet_core::{Forest, Knob, Model};
use linnet_ssd::{DeviceParams, Params, Ssd};
use linnet_types::{LatencyModel, Op, Request};

use crate::nbd::Session;
use crate::nbd_client;

/// Bytes that a target begins with, by name.
type Seeds = Vec<(String, Vec<u8>)>;

/// A reader under test.
pub enum Target {
    Models,
    Knobs,
    Forests,
    Params,
    Snapshots(PathBuf),
    Jobs,
    Nbd(Session),
    NbdClient(nbd_client::Session),
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
    Params {
        channels: 2,
        dies_per_channel: 1,
        planes: 1,
        pages_per_block: 16,
        blocks_per_plane: 64,
        over_provisioning: 0.3,
        ..preset
    }
}

/// fio job files with every kind of option that declares a load.
const JOBS: [(&str, &str); 3] = [
    (
        "mixed",
        "[global]\nioengine=libaio\niodepth=16\nbs=4k\n[db]\nrw=randrw\nrwmixread=75\nrate_iops=750,1000\nnumjobs=2\n\
         [log]\nrw=write\nbs=6k\nrate=6m\niodepth=1\n",
    ),
    (
        "range",
        "[a]\nrw=randread\nbsrange=2k-8k,1k-1m\nrate_iops=400\nblockalign=2k\n[b]\nrw=rw:8k\nrwmixwrite=30\nrate=1m,2m\n",
    ),
    (
        "pauses",
        "; pauses\n[a]\nrw=randwrite\nrate_iops=1000\nthinktime=3s\nthinktime_iotime=1s\nrate_ignore_thinktime\n\
         percentage_random=50%\n",
    ),
];

/// Finite numbers that depend on the bytes: small, large and negative.
fn numbers(bytes: &[u8], count: usize) -> Vec<f32> {
    let cell = |i: usize| f32::from(bytes[(i * 7 + 3) % bytes.len()]) - 128.0;
    (0..count).map(|i| cell(i) * [1e-3, 1.0, 1e6, 1e30][i % 4]).collect()
}

/// A drive of these parameters, if it is small, serves some requests.
fn use_small(params: &Params) -> Result<(), String> {
    let of = [params.channels, params.dies_per_channel, params.planes, params.blocks_per_plane, params.pages_per_block];
    let pages = of.iter().try_fold(1u64, |product, &n| product.checked_mul(u64::from(n)));
    if pages.is_none_or(|pages| pages > 1 << 14) {
        return Ok(());
    }
    let Ok(mut ssd) = Ssd::new(params, 1) else { return Ok(()) };
    for i in 0..64u64 {
        let op = if i % 3 == 0 { Op::Write } else { Op::Read };
        ssd.submit(i * 1000, &Request::new(op, i * 40_961 / 512 * 512, 4096 << (i % 4)));
    }
    ssd.check().map_err(|e| format!("a drive of parameters that were taken is not whole: {e}"))
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
                let own = ("small".to_string(), small().to_toml().into_bytes());
                (Target::Params, vec![own, text("sata")?, text("consumer-deep-queued")?, text("enterprise-wide")?])
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
            "nbd-client" => {
                let session = nbd_client::Session::new(scratch)?;
                let seeds = session.seeds();
                (Target::NbdClient(session), seeds)
            }
            "jobs" => (Target::Jobs, JOBS.map(|(name, text)| (name.to_string(), text.as_bytes().to_vec())).to_vec()),
            other => return Err(format!("{other}: no such target")),
        })
    }

    /// Makes the checksum right again in most of the cases, so that what is behind it is reached.
    pub fn mend(&self, bytes: &mut [u8]) {
        let Some(body) = bytes.len().checked_sub(4).filter(|&body| body > 0 && bytes[body - 1] % 8 != 7) else {
            return;
        };
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
            Target::Params | Target::Jobs | Target::Nbd(_) | Target::NbdClient(_) => return,
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
            Target::Knobs => {
                let Ok(knob) = Knob::from_bytes(bytes) else { return Ok(false) };
                let again = knob.to_bytes().map_err(|e| format!("a model that was read cannot be written: {e}"))?;
                Knob::from_bytes(&again).map_err(|e| format!("it cannot be read again: {e}"))?;
                let row = numbers(bytes, knob.normaliser.inputs());
                // A class that the model cannot name is refused; any other has a confidence.
                match knob.decide(&row) {
                    Ok((class, _, confidence)) if class >= knob.values.len() || !(0.0..=1.0).contains(&confidence) => {
                        Err(format!("class {class} of {}, confidence {confidence}", knob.values.len()))
                    }
                    _ => Ok(true),
                }
            }
            Target::Forests => {
                let Ok(forest) = Forest::from_bytes(bytes) else { return Ok(false) };
                if forest.to_bytes() != bytes {
                    return Err("a forest changed".into());
                }
                let rows = numbers(bytes, 3 * forest.inputs());
                let mut out = vec![0.0; 3 * forest.names().len()];
                forest.predict(&rows, &mut out).map(|()| true).map_err(|e| format!("finite rows are refused: {e}"))
            }
            Target::Params => {
                let Ok(text) = std::str::from_utf8(bytes) else { return Ok(false) };
                let Ok(params) = DeviceParams::from_toml(text) else { return Ok(false) };
                let written = params.to_toml();
                match DeviceParams::from_toml(&written) {
                    Ok(again) if again.to_toml() == written => {}
                    Ok(_) => return Err("parameters changed".into()),
                    Err(e) => return Err(format!("parameters that were written are refused: {e}")),
                }
                if let DeviceParams::Timelines(params) = params {
                    use_small(&params)?;
                }
                Ok(true)
            }
            Target::Jobs => {
                let Ok(text) = std::str::from_utf8(bytes) else { return Ok(false) };
                let Ok(jobs) = linnet_tenant::declared(Path::new("a.fio"), text) else { return Ok(false) };
                for (name, profile) in &jobs {
                    if let Some(odd) = profile.features.iter().find(|value| !value.is_finite() || **value < 0.0) {
                        return Err(format!("job {name} has a feature of {odd}"));
                    }
                }
                Ok(true)
            }
            Target::Snapshots(path) => {
                std::fs::write(&*path, bytes).map_err(|e| e.to_string())?;
                let Ok(ssd) = Ssd::load(path) else { return Ok(false) };
                ssd.check().map(|()| true).map_err(|e| format!("a drive that was loaded is not whole: {e}"))
            }
            Target::Nbd(session) => session.run(bytes),
            Target::NbdClient(session) => session.run(bytes),
        }
    }
}
