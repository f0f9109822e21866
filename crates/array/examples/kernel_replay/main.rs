// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run that the kernel's target recorded, replayed through the array: does it decide as the kernel did?
//!
//!     linnet dm export-trace vol --seconds 10 -o traces --decisions vol.txt
//!     cargo run --release -p linnet-array --example kernel_replay -- vol.txt [m.linnet]
//!
//! The text holds the target's two trace events (`spec/dm-target.md`) from before the first I/O of the device on. It may end while
//! reads are under way: what rests on those is left out.
//! The array gets each read when the kernel decided about it, and each completion when the kernel saw it; hedge timers are
//! never rung, since the kernel sends no hedges. Compared are the replica, whether it is a probe or the read is revoked, what the
//! network said of each replica asked, and what was known of every one: average, I/Os in flight, score.
//!
//! One target of several replicas is an array of these, under the target's policy. Several targets of one replica, whose
//! application sends a revoked read from one to the next, are an array, too, that asks in order: `linnos`, or by trees
//! `linnet+hl`. Where one target chooses among several replicas and then may revoke the read, the policy that asks in order judges
//! what the other chose.
//!
//! Events of a replica are numbered, and a decision says how many of each it knew; so the order is that of the kernel, not of its
//! clocks. With several CPUs a decision may rest on what no single moment showed. Such a read is sent where the kernel
//! sent it, and counted instead of compared. `tests/conformance/decisions.c` compares these too.
//!
//! The exit status is 1 when anything differs, 2 when the record cannot be used.

mod record;
mod replay;
mod watched;

use std::error::Error;
use std::process::ExitCode;

use linnet_core::Model;

use record::Record;
use replay::Replay;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn replay() -> Result<bool> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: kernel_replay RECORD [MODEL]")?;
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let model = match arguments.next().filter(|path| !path.is_empty()) {
        Some(path) => Some(Model::from_bytes(&std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?)?),
        None => None,
    };
    let record = Record::read(&text)?;
    let mut replay = Replay::new(&record, model.as_ref())?;
    let stopped = replay.run();
    println!("{replay}");
    match stopped {
        Err(error) if replay.differences == 0 => Err(error),
        _ => Ok(replay.differences == 0),
    }
}

fn main() -> ExitCode {
    match replay() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("kernel_replay: {error}");
            ExitCode::from(2)
        }
    }
}
