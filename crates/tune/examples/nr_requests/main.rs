// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets a disk's `nr_requests` by what it does: `cargo run -p linnet-tune --example nr_requests -- DISK MODEL
//! [SECONDS]`.
//!
//! Without MODEL's file it is first learned: the program sets each value in turn for some windows, while your workload
//! runs, and keeps for each kind of window the value under which requests waited least. Needs root. `linnet tune
//! restore` puts the value back after a crash.

mod queue;

use std::path::Path;
use std::time::Duration;

use linnet_core::Knob;
use linnet_tune::device::{Device, Found, Rivals};
use linnet_tune::host::Host;
use linnet_tune::journal::{Journal, Lock};
use queue::{FEATURES, Stat, VALUES, Window, accepted, best, model};

const WINDOW: Duration = Duration::from_secs(1);
const WINDOWS: usize = 10;
const BACKOFF: Duration = Duration::from_secs(600);

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn window(host: &Host, disk: &str) -> Outcome<Option<Window>> {
    let before = Stat::read(host, disk)?;
    std::thread::sleep(WINDOW);
    Ok(Stat::read(host, disk)?.window(before))
}

/// Each value that the kernel takes for some windows.
fn learn(host: &Host, disk: &str, device: &mut Device, journal: &mut Journal) -> Outcome<Knob> {
    let mut seen: Vec<(usize, Window)> = Vec::new();
    for (at, value) in VALUES.iter().enumerate() {
        let Some(stands) = accepted(device.set(*value, journal))? else {
            println!("{value} requests: refused by the kernel");
            continue;
        };
        println!("learning at {stands} requests");
        for _ in 0..WINDOWS {
            seen.extend(window(host, disk)?.map(|window| (at, window)));
        }
    }
    let labels = best(&seen);
    let windows: Vec<[f32; FEATURES]> = seen.into_iter().map(|(_, window)| window.features).collect();
    Ok(model(&windows, &labels)?)
}

/// Decides for so many seconds, by the model of a file or by one that is learned first.
fn run(host: &Host, disk: &str, file: &str, seconds: u64, device: &mut Device, journal: &mut Journal) -> Outcome<()> {
    let knob = if Path::new(file).exists() {
        Knob::from_bytes(&std::fs::read(file)?)?
    } else {
        let learned = learn(host, disk, device, journal)?;
        device.restore(journal)?;
        std::fs::write(file, learned.to_bytes()?)?;
        learned
    };
    for second in 0..seconds {
        let Some(Window { features, .. }) = window(host, disk)? else { continue };
        if device.look(Duration::from_secs(second), journal)? != Found::Ours {
            println!("somebody else set it: theirs stands");
            continue;
        }
        let (_, value, confidence) = knob.decide(&features)?;
        if confidence < knob.confidence || device.stands_for(value) {
            continue;
        }
        match accepted(device.set(value, journal))? {
            Some(stands) => println!("{stands} requests, {confidence:.2} sure of {features:?}"),
            None => println!("{value} requests: refused by the kernel"),
        }
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [disk, file, rest @ ..] = &words[..] else { return Err("give DISK and MODEL".into()) };
    let seconds: u64 = rest.first().map_or(Ok(60), |text| text.parse())?;
    let host = Host::default();
    let _lock = Lock::take(&host)?;
    let mut journal = Journal::open(&host)?;
    let knob_file = format!("/sys/block/{disk}/queue/nr_requests");
    let mut device = Device::open(&host, &knob_file, Rivals::Auto, BACKOFF)?;
    let outcome = run(&host, disk, file, seconds, &mut device, &mut journal);
    // The first value returns after an error, too.
    let restored = device.restore(&mut journal);
    outcome?;
    restored?;
    Ok(())
}
