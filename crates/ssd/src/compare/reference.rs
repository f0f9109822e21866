// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a reference: the parameters of its device, its requests and their latencies.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use linnet_types::{Nanos, Op, Request};
use serde::Deserialize;
use serde_json::Value;

use crate::error::Error;
use crate::queued::{QueuedParams, VictimPolicy};

/// A reference's own numbers take some KiB; its I/Os are in another file.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Why a comparison with a reference failed.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// A file could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The JSON file is damaged, or a field has the wrong type.
    #[error("{}: not a reference file (JSON): {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Line, column and reason.
        source: serde_json::Error,
    },
    /// A parameter has a value that no device can have.
    #[error("{}: parameters: {source}", path.display())]
    Parameters {
        /// The file.
        path: PathBuf,
        /// Key, value and reason.
        source: Error,
    },
    /// A line of the CSV is not a request.
    #[error("{}: line {line}, column {column}: `{text}`: {reason}", path.display())]
    Csv {
        /// The file.
        path: PathBuf,
        /// Line, from 1 (the header).
        line: u64,
        /// Name of the column.
        column: &'static str,
        /// The text in that column.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No read has a latency in both.
    #[error("{}: no measured read has a latency (phase `m`, op `R`), so there is nothing to compare", path.display())]
    NoReads {
        /// The CSV file.
        path: PathBuf,
    },
}

/// The supported keys of `parameters`. All have defaults; other keys are listed in
/// [`crate::Check::ignored_parameters`].
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Keys {
    channels: Option<u32>,
    chips_per_channel: Option<u32>,
    dies_per_chip: Option<u32>,
    planes_per_die: Option<u32>,
    blocks_per_plane: Option<u32>,
    pages_per_block: Option<u32>,
    page_bytes: Option<u32>,
    over_provisioning: Option<f64>,
    gc_free_block_fraction_threshold: Option<f64>,
    gc_stop_writes_below_free_blocks: Option<u32>,
    gc_max_concurrent_per_plane: Option<u32>,
    gc_policy: Option<String>,
    gc_preemptible: Option<bool>,
    copyback: Option<bool>,
    wear_levelling_static: Option<bool>,
    t_read_ns: Option<Nanos>,
    t_program_ns: Option<Nanos>,
    t_erase_ns: Option<Nanos>,
    channel_ns_per_2_bytes: Option<u32>,
    channel_mb_s: Option<f64>,
    program_suspend: Option<bool>,
    erase_suspend: Option<bool>,
    multi_plane: Option<bool>,
    write_buffer_bytes: Option<u64>,
    write_buffer_mode: Option<String>,
    read_from_write_buffer: Option<bool>,
    allocation: Option<String>,
    /// A comment in the file. It changes nothing, and is listed so that it does not count as an unknown key.
    #[allow(dead_code)]
    mapping: Option<String>,
    host_link_gb_s: Option<f64>,
    #[allow(dead_code)]
    scheduler: Option<String>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

/// The part of the JSON file that a comparison needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// The reference's name.
    pub name: String,
    /// The device.
    pub params: QueuedParams,
    /// The file of the requests.
    pub csv: PathBuf,
    /// Write amplification after the first fill, if the file states it.
    pub waf: Option<f64>,
    /// Unknown keys of `parameters`.
    pub ignored_parameters: Vec<String>,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    name: Option<String>,
    parameters: Keys,
    #[serde(default)]
    workload: Value,
    #[serde(default)]
    results: Value,
}

impl Reference {
    /// Reads `NAME.json`; the CSV is the file that `workload.file` names, or else `NAME.csv.gz` or `NAME.csv`.
    ///
    /// Missing keys take the values of [`QueuedParams::default`].
    ///
    /// # Errors
    /// A file that cannot be read, a key of the wrong type, an impossible device.
    pub fn read(path: &Path) -> Result<Reference, CheckError> {
        let bytes = linnet_files::read(path, FILE_BYTES_MAX)
            .map_err(|source| CheckError::Io { path: path.to_owned(), source })?;
        let file: File =
            serde_json::from_slice(&bytes).map_err(|source| CheckError::Json { path: path.to_owned(), source })?;
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let named = file.workload.get("file").and_then(Value::as_str).map(|name| path.with_file_name(name));
        let csv = named
            .into_iter()
            .chain([path.with_file_name(format!("{stem}.csv.gz")), path.with_file_name(format!("{stem}.csv"))])
            .find(|csv| csv.exists())
            .unwrap_or_else(|| path.with_file_name(format!("{stem}.csv.gz")));
        let whole = file.results.get("whole_run");
        let number = |key: &str| whole.and_then(|w| w.get(key)).and_then(Value::as_f64);
        let waf = number("write_amplification_after_first_fill").or_else(|| number("write_amplification_whole_run"));
        let mut ignored_parameters: Vec<String> = file.parameters.rest.keys().cloned().collect();
        for (key, wanted) in
            [("copyback", file.parameters.copyback), ("wear_levelling_static", file.parameters.wear_levelling_static)]
        {
            // The queued model has neither feature, so `false` matches it and only `true` is reported as ignored.
            if wanted == Some(true) {
                ignored_parameters.push(key.to_owned());
            }
        }
        let params = params_of(&file.parameters);
        params.validate().map_err(|source| CheckError::Parameters { path: path.to_owned(), source })?;
        Ok(Reference { name: file.name.unwrap_or(stem), params, csv, waf, ignored_parameters })
    }
}

fn params_of(keys: &Keys) -> QueuedParams {
    let plain = QueuedParams::default();
    let says =
        |text: &Option<String>, word: &str| text.as_ref().is_some_and(|text| text.to_ascii_lowercase().contains(word));
    let placement = keys
        .allocation
        .iter()
        .flat_map(|text| text.split(|c: char| !c.is_ascii_alphabetic()))
        .find(|word| {
            let mut letters: Vec<u8> = word.bytes().collect();
            letters.sort_unstable();
            letters == b"CDPW"
        })
        .unwrap_or("CWDP")
        .to_owned();
    let gc_policy = if says(&keys.gc_policy, "cost") {
        VictimPolicy::CostBenefit
    } else if says(&keys.gc_policy, "choices") || says(&keys.gc_policy, "rga") || says(&keys.gc_policy, "random") {
        VictimPolicy::DChoices
    } else {
        VictimPolicy::Greedy
    };
    let unbuffered = ["no write buffer", "no cache", "none", "off", "disabled", "turned_off"]
        .iter()
        .any(|word| keys.write_buffer_mode.as_ref().is_some_and(|text| text.to_ascii_lowercase().starts_with(word)));
    // MQSim rounds the duration of a transfer down to whole nanoseconds and then doubles it.
    let channel_ns =
        keys.channel_ns_per_2_bytes.or(keys.channel_mb_s.map(|mb| ((1000.0 / mb.max(1e-3)).floor() as u32 * 2).max(1)));
    QueuedParams {
        channels: keys.channels.unwrap_or(plain.channels),
        chips_per_channel: keys.chips_per_channel.unwrap_or(plain.chips_per_channel),
        dies_per_chip: keys.dies_per_chip.unwrap_or(plain.dies_per_chip),
        planes_per_die: keys.planes_per_die.unwrap_or(plain.planes_per_die),
        blocks_per_plane: keys.blocks_per_plane.unwrap_or(plain.blocks_per_plane),
        pages_per_block: keys.pages_per_block.unwrap_or(plain.pages_per_block),
        page_bytes: keys.page_bytes.unwrap_or(plain.page_bytes),
        spare_share_of_raw: keys.over_provisioning.unwrap_or(plain.spare_share_of_raw),
        placement,
        read_ns: keys.t_read_ns.unwrap_or(plain.read_ns),
        program_ns: keys.t_program_ns.unwrap_or(plain.program_ns),
        erase_ns: keys.t_erase_ns.unwrap_or(plain.erase_ns),
        channel_ns_per_2_bytes: channel_ns.unwrap_or(plain.channel_ns_per_2_bytes),
        multi_plane: keys.multi_plane.unwrap_or(plain.multi_plane),
        // MQSim's default for the shortest remaining time at which it suspends.
        program_suspend_above_ns: keys.program_suspend.unwrap_or(false).then_some(100_000),
        erase_suspend_above_ns: keys.erase_suspend.unwrap_or(false).then_some(700_000),
        link_ps_per_sector: keys
            .host_link_gb_s
            .filter(|gb| *gb > 0.0)
            .map_or(plain.link_ps_per_sector, |gb| (plain.link_ps_per_sector as f64 * 4.0 / gb).round() as u64),
        read_from_write_buffer: keys.read_from_write_buffer.unwrap_or(plain.read_from_write_buffer),
        write_buffer_bytes: if unbuffered { 0 } else { keys.write_buffer_bytes.unwrap_or(plain.write_buffer_bytes) },
        gc_free_share: keys.gc_free_block_fraction_threshold.unwrap_or(plain.gc_free_share),
        gc_stop_writes_below_blocks: keys
            .gc_stop_writes_below_free_blocks
            .or(keys.gc_max_concurrent_per_plane)
            .unwrap_or(plain.gc_stop_writes_below_blocks),
        gc_concurrent_per_plane: keys.gc_max_concurrent_per_plane.unwrap_or(plain.gc_concurrent_per_plane),
        gc_policy,
        gc_preemptible: keys.gc_preemptible.unwrap_or(plain.gc_preemptible),
        ..plain
    }
}

/// A row of the CSV.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub now: Nanos,
    pub request: Request,
    pub measured: bool,
    pub latency_ns: Option<Nanos>,
}

pub(crate) fn rows(path: &Path) -> Result<Vec<Row>, CheckError> {
    let io = |source| CheckError::Io { path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(io)?;
    let unpacked: Box<dyn Read> = if path.extension().is_some_and(|extension| extension == "gz") {
        Box::new(flate2::read::MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    };
    let mut lines = BufReader::new(unpacked).lines();
    let header = lines.next().transpose().map_err(io)?.unwrap_or_default();
    let names: Vec<&str> = header.trim().split(',').collect();
    let bad = |line: u64, column: &'static str, text: &str, reason: &str| CheckError::Csv {
        path: path.to_owned(),
        line,
        column,
        text: text.to_owned(),
        reason: reason.to_owned(),
    };
    let column = |name: &'static str| {
        names
            .iter()
            .position(|&n| n == name)
            .ok_or_else(|| bad(1, name, &header, "the header does not name this column"))
    };
    let (time, op, lba, sectors) = (column("t_ns")?, column("op")?, column("lba_512")?, column("sectors")?);
    let phase = names.iter().position(|&name| name == "phase");
    let latency = column("latency_ns")?;
    let mut all: Vec<Row> = Vec::new();
    for (line, text) in (2u64..).zip(lines) {
        let text = text.map_err(io)?;
        if text.trim().is_empty() {
            continue;
        }
        let fields: Vec<&str> = text.trim().split(',').collect();
        let number = |at: usize, name: &'static str| -> Result<u64, CheckError> {
            let field = fields.get(at).copied().unwrap_or_default();
            field.parse().map_err(|_| bad(line, name, field, "not a number"))
        };
        let now = number(time, "t_ns")?;
        if all.last().is_some_and(|last| last.now > now) {
            return Err(bad(line, "t_ns", fields[time], "earlier than the line before"));
        }
        let op = match fields.get(op).copied().unwrap_or_default() {
            "R" | "r" => Op::Read,
            "W" | "w" => Op::Write,
            other => return Err(bad(line, "op", other, "neither R nor W")),
        };
        let size = number(sectors, "sectors")?;
        if size == 0 || size > 1 << 22 {
            return Err(bad(line, "sectors", fields[sectors], "must be in 1..=2^22"));
        }
        let request = Request::new(op, number(lba, "lba_512")?.saturating_mul(512), (size * 512) as u32);
        let told = fields.get(latency).copied().unwrap_or_default();
        let latency_ns = if told.is_empty() { None } else { Some(number(latency, "latency_ns")?) };
        let measured = phase.is_none_or(|at| fields.get(at) == Some(&"m"));
        all.push(Row { now, request, measured, latency_ns });
    }
    Ok(all)
}
