// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets a disk's `nr_requests` by what it does: `cargo run -p linnet-tune --example nr_requests -- DISK MODEL
//! [SECONDS]`.
//!
//! Without MODEL's file it is first learned: the program sets each value in turn for some windows, while your workload
//! runs, and keeps for each kind of window the value under which requests waited least. Needs root. `linnet tune
//! restore` puts the value back after a crash.

mod queue;

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use linnet_core::Knob;
use linnet_tune::device::{Device, Found, Rivals};
use linnet_tune::host::Host;
use linnet_tune::journal::{Journal, Lock};
use queue::{FEATURES, Stat, VALUES, model};

const WINDOW: Duration = Duration::from_secs(1);
const WINDOWS: usize = 10;
const BACKOFF: Duration = Duration::from_secs(600);

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn window(host: &Host, disk: &str) -> Outcome<Option<[f32; FEATURES]>> {
    let before = Stat::read(host, disk)?;
    std::thread::sleep(WINDOW);
    Ok(Stat::read(host, disk)?.features(before))
}

/// Each value for some windows. Windows are of one kind where reads have the same share, to a tenth.
fn learn(host: &Host, disk: &str, device: &mut Device, journal: &mut Journal) -> Outcome<Knob> {
    let mut seen: Vec<(usize, [f32; FEATURES])> = Vec::new();
    for (at, value) in VALUES.iter().enumerate() {
        let stands = device.set(*value, journal)?;
        println!("learning at {stands} requests");
        for _ in 0..WINDOWS {
            seen.extend(window(host, disk)?.map(|features| (at, features)));
        }
    }
    let kind = |features: &[f32; FEATURES]| (10.0 * features[0]) as u8;
    let mut waits: HashMap<u8, [(f32, u32); VALUES.len()]> = HashMap::new();
    for (at, features) in &seen {
        let (sum, count) = &mut waits.entry(kind(features)).or_default()[*at];
        (*sum, *count) = (*sum + features[3], *count + 1);
    }
    let mean = |(sum, count): (f32, u32)| if count == 0 { f32::INFINITY } else { sum / count as f32 };
    let best = |features: &[f32; FEATURES]| {
        let of_kind = waits[&kind(features)].map(mean);
        (0..VALUES.len()).min_by(|a, b| of_kind[*a].total_cmp(&of_kind[*b])).unwrap_or(0) as u8
    };
    let labels: Vec<u8> = seen.iter().map(|(_, features)| best(features)).collect();
    let windows: Vec<[f32; FEATURES]> = seen.into_iter().map(|(_, features)| features).collect();
    Ok(model(&windows, &labels)?)
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
    let knob = if Path::new(file).exists() {
        Knob::from_bytes(&std::fs::read(file)?)?
    } else {
        let learned = learn(&host, disk, &mut device, &mut journal);
        device.restore(&mut journal)?;
        let learned = learned?;
        std::fs::write(file, learned.to_bytes()?)?;
        learned
    };
    for second in 0..seconds {
        let Some(features) = window(&host, disk)? else { continue };
        if device.look(Duration::from_secs(second), &mut journal)? != Found::Ours {
            println!("somebody else set it: theirs stands");
            continue;
        }
        let (_, value, confidence) = knob.decide(&features)?;
        if confidence >= knob.confidence && !device.stands_for(value) {
            println!("{} requests, {confidence:.2} sure of {features:?}", device.set(value, &mut journal)?);
        }
    }
    device.restore(&mut journal)?;
    Ok(())
}
