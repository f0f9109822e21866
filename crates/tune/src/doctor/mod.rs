// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is wrong with the readahead values of this machine, for what runs on it now. Reads only; needs no privileges,
//! but sees the memory-mapped files of other users' processes only with them.

mod activity;
mod kernel;
mod mountstats;
mod origin;

use std::time::Duration;

use serde_json::{Value, json};

pub use activity::{Activity, Load, Mapped};
pub use kernel::DEFAULT_KIB;
pub use origin::Origins;

use crate::bdi::{self, Bdi, Kind};
use crate::error::{Error, Result};
use crate::host::Host;
use crate::mounts::mounts;
use crate::nfs::path::SCAN_MAX_KIB;

/// From this value on readahead costs more than it gains on any device, because one random fault reads as much.
const HIGH_KIB: u32 = 4096;
/// Above it one scan of a network mount evicts what others read; `linnet tune nfs` goes no further.
const NETWORK_HIGH_KIB: u32 = SCAN_MAX_KIB;
/// When a read of an NFS server takes this long, in milliseconds, the default value leaves the link idle.
const FAR_MS: f64 = 1.0;
/// Bytes per second that a scan of an NFS mount should reach: those of a link of 1 Gbit/s.
const NFS_RATE: f64 = 125e6;
/// A major fault that reads this much, on average, reads far more than was asked for.
const WASTE_KIB: f64 = 32.0;
/// A fault reads no more than the readahead value; where so many times that is read, most was read in other ways.
const FAULT_MOST: f64 = 1.5;

/// What the doctor says about one device or mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What the operator calls it.
    pub target: String,
    /// block, nfs, fuse, btrfs, other.
    pub kind: &'static str,
    /// The value; None where it cannot be read.
    pub value_kib: Option<u32>,
    /// Where the value came from.
    pub source: String,
    /// ok, high, low, suspect or unreadable.
    pub verdict: &'static str,
    /// Why.
    pub reason: String,
    /// The command line that mends it; empty where nothing is to mend.
    pub fix: String,
    /// Where its file systems are mounted.
    pub mounts: Vec<String>,
}

impl Row {
    /// As `linnet tune doctor --json` prints it.
    pub fn to_json(&self) -> Value {
        json!({"target": self.target, "kind": self.kind, "value_kib": self.value_kib, "source": self.source,
               "verdict": self.verdict, "reason": self.reason, "fix": self.fix, "mounts": self.mounts})
    }
}

/// What the doctor says of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Of each device and mount.
    pub rows: Vec<Row>,
    /// Processes for whose mapped files there was no time.
    pub left_out: usize,
}

struct Finding {
    verdict: &'static str,
    reason: String,
    fix: String,
}

fn ok(reason: impl Into<String>) -> Finding {
    Finding { verdict: "ok", reason: reason.into(), fix: String::new() }
}

/// A word of a command line. Any user may choose the name of a mount point.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

fn write_line(host: &Host, bdi: &Bdi, kib: u32) -> String {
    let knobs: Vec<String> = bdi.shown_knobs(host).iter().map(|knob| word(knob)).collect();
    format!("echo {kib} | sudo tee {}", knobs.join(" "))
}

fn tune_line(bdi: &Bdi) -> String {
    match bdi.kind {
        Kind::Nfs => format!("sudo linnet tune nfs {}", word(&bdi.target())),
        _ => format!("sudo linnet tune readahead --watch --device {}", word(&bdi.target())),
    }
}

/// "db_bench (process 12) maps /data/a.sst, and 3 more"
fn mapped_text(mapped: &[Mapped]) -> String {
    let Some(first) = mapped.first() else { return String::new() };
    let more = if mapped.len() > 1 { format!(", and {} more", mapped.len() - 1) } else { String::new() };
    let megabytes = first.bytes >> 20;
    format!("{} (process {}) maps {megabytes} MiB of {}{more}", first.command, first.process, first.path)
}

fn size(kib: u32) -> String {
    if kib >= 1024 && kib.is_multiple_of(1024) { format!("{} MiB", kib / 1024) } else { format!("{kib} KiB") }
}

/// What is to be said of one device with `value_kib`, under `load`. `has_zfs`: ZFS is mounted, on disks that nothing
/// names.
fn examine_one(host: &Host, bdi: &Bdi, value_kib: u32, load: &Load, has_zfs: bool) -> Finding {
    let disk = bdi.disk.as_deref().unwrap_or("");
    let is_unused = bdi.kind == Kind::Block && bdi.mounts.is_empty() && load.mapped.is_empty();
    let above = if is_unused { bdi::above(host, disk) } else { Vec::new() };
    if !above.is_empty() {
        return ok(format!("file systems are on {}, whose value counts", above.join(", ")));
    }
    if has_zfs && is_unused {
        return ok("nothing is seen to use it but perhaps ZFS, which does not use the value");
    }
    // NFS had large defaults that are mistakes.
    let by_kernel = bdi.kind != Kind::Nfs && kernel::default_of(host, bdi, value_kib).is_some();
    let waste = load.kib_per_fault.filter(|kib| *kib <= FAULT_MOST * f64::from(value_kib));
    if let Some(finding) = too_high(host, bdi, value_kib, by_kernel, waste, &load.mapped) {
        return finding;
    }
    let rotational = host.text(format!("/sys/block/{disk}/queue/rotational")).as_deref() == Some("1");
    let read_size = if bdi.kind == Kind::Nfs { kernel::option_kib(bdi, "rsize=") } else { None };
    if value_kib == 0 && bdi.kind == Kind::Fuse {
        return ok("readahead is off, for which its server may have asked (max_readahead)");
    }
    if value_kib == 0 {
        let reason = "readahead is off: reading in order waits for each page".into();
        return Finding { verdict: "low", reason, fix: write_line(host, bdi, DEFAULT_KIB) };
    }
    if let Some(rsize) = read_size.filter(|rsize| value_kib < *rsize) {
        let reason = format!(
            "the server gives {} at a time and readahead asks for {}: scans are cut small",
            size(rsize),
            size(value_kib)
        );
        return Finding { verdict: "low", reason, fix: write_line(host, bdi, DEFAULT_KIB.max(2 * rsize)) };
    }
    if let Some(finding) = too_low_for_the_delay(bdi, value_kib, read_size, load) {
        return finding;
    }
    if value_kib < DEFAULT_KIB && (rotational || bdi.kind != Kind::Block) && !by_kernel {
        let reason = format!("below the kernel's {}: scans wait for each piece", size(DEFAULT_KIB));
        return Finding { verdict: "low", reason, fix: write_line(host, bdi, DEFAULT_KIB) };
    }
    if let Some(waste) = waste.filter(|kib| *kib >= WASTE_KIB)
        && !load.mapped.is_empty()
    {
        let reason = format!(
            "{}; each major fault reads {waste:.0} KiB: right for a scan, wasted on random reads; the tuner sees which",
            mapped_text(&load.mapped)
        );
        return Finding { verdict: "suspect", reason, fix: tune_line(bdi) };
    }
    if value_kib < DEFAULT_KIB {
        return ok("small: good for random reads through mappings, slow for scans");
    }
    ok("no reason to change it")
}

/// An NFS mount whose readers scan a distant server: a scan gets one readahead value for each round trip.
fn too_low_for_the_delay(bdi: &Bdi, value_kib: u32, rsize_kib: Option<u32>, load: &Load) -> Option<Finding> {
    let latency_ms = load.latency_ms.filter(|ms| *ms >= FAR_MS)?;
    let most = f64::from(value_kib) * 1024.0 / (latency_ms / 1e3);
    // Scans make the largest calls that the value allows.
    let scans = load.read_kib >= 0.75 * f64::from(value_kib.min(rsize_kib.unwrap_or(value_kib)));
    if !scans || most >= NFS_RATE {
        return None;
    }
    let reason = format!(
        "a read of the server takes {latency_ms:.1} ms, so that {} of readahead give a scan about {:.0} MB/s; the tuner finds \
         how much the link can take",
        size(value_kib),
        most / 1e6,
    );
    Some(Finding { verdict: "low", reason, fix: tune_line(bdi) })
}

/// `by_kernel`: the kernel chose the value. `waste`: KiB that each major fault of those that map files reads.
fn too_high(
    host: &Host,
    bdi: &Bdi,
    value_kib: u32,
    by_kernel: bool,
    waste: Option<f64>,
    mapped: &[Mapped],
) -> Option<Finding> {
    let is_network = matches!(bdi.kind, Kind::Nfs | Kind::Other);
    if if is_network { value_kib <= NETWORK_HIGH_KIB } else { value_kib < HIGH_KIB } {
        return None;
    }
    let value = size(value_kib);
    // Scans of a network mount gain from a few reads in flight.
    let better = if is_network {
        1024.max(2 * kernel::option_kib(bdi, "rsize=").unwrap_or(0)).min(NETWORK_HIGH_KIB / 2)
    } else {
        kernel::usual_kib(host, bdi)
    };
    if mapped.is_empty() {
        // What the kernel chose for an array or a whole file system is no mistake as long as nothing suffers from it.
        if by_kernel || value_kib <= better {
            return None;
        }
        let reason = format!("a random read through a mapping reads up to {value}, and evicts as much");
        return Some(Finding { verdict: "high", reason, fix: write_line(host, bdi, better) });
    }
    let now = waste.map(|kib| format!("; each major fault reads {kib:.0} KiB now")).unwrap_or_default();
    let reason = format!("{}, and a random read there reads up to {value}{now}", mapped_text(mapped));
    // Lowering the device does not reach files that are open, and would slow the scans of an array.
    let (lower, tune) = (write_line(host, bdi, better), tune_line(bdi));
    let fix = if bdi.known().is_err() {
        lower
    } else if value_kib <= better {
        tune
    } else {
        format!("{lower} && {tune}")
    };
    Some(Finding { verdict: "high", reason, fix })
}

/// Looks at every device and mount. `pause` passes the time over which activity is counted, `watched`.
pub fn examine(host: &Host, watched: Duration, pause: impl FnOnce()) -> Result<Report> {
    if !host.has("/sys/class/bdi") && !host.has("/sys/block") {
        return Err(Error::Observer {
            what: format!("{} is not there; mount sysfs", host.path("/sys/block").display()),
        });
    }
    let all = bdi::list(host);
    let has_zfs = mounts(host, "self").iter().any(|mount| mount.fs == "zfs");
    let origins = Origins::read(host);
    let activity = Activity::watch(host, watched, pause);
    let is_gone = |bdi: &Bdi| !bdi::list(host).iter().any(|now| now.name == bdi.name);
    let row = |bdi: &Bdi| {
        let (value_kib, source, finding) = match bdi.value_kib(host) {
            Err(_) if is_gone(bdi) => return None,
            Ok(kib) => (Some(kib), origins.of(host, bdi, kib), examine_one(host, bdi, kib, &activity.of(bdi), has_zfs)),
            Err(error) => {
                let finding = Finding { verdict: "unreadable", reason: error.to_string(), fix: String::new() };
                (None, String::new(), finding)
            }
        };
        let Finding { verdict, reason, fix } = finding;
        let mounts = bdi.mounts.iter().map(|mount| mount.point.clone()).collect();
        Some(Row { target: bdi.target(), kind: bdi.kind.name(), value_kib, source, verdict, reason, fix, mounts })
    };
    Ok(Report { rows: all.iter().filter_map(row).collect(), left_out: activity.left_out })
}
