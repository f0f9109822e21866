// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tuner of an NFS mount for some seconds, one line of JSON for each event: `cargo run -p linnet-tune --features
//! bpf --example nfs -- MOUNT [SECONDS] [--rsize]`. `linnet tune nfs` is the command for daily use.

use std::time::{Duration, Instant};

use linnet_tune::device::Rivals;
use linnet_tune::host::Host;
use linnet_tune::nfs::tune::{NfsOptions, run};

fn main() -> linnet_tune::Result<()> {
    let (flags, words): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let seconds = words.get(1).and_then(|text| text.parse().ok()).unwrap_or(10);
    let options = NfsOptions {
        mount: words.first().cloned().unwrap_or_else(|| "/mnt".to_owned()),
        dry_run: false,
        once: false,
        model: None,
        rsize: flags.iter().any(|flag| flag == "--rsize"),
        rivals: Rivals::Auto,
        backoff: Duration::from_secs(600),
    };
    let end = Instant::now() + Duration::from_secs(seconds);
    run(&Host::default(), &options, &mut |event| {
        if let Some(event) = event {
            println!("{}", event.to_json());
        }
        Instant::now() < end
    })
}
