// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tuner for some seconds, one line of JSON for each event: `cargo run -p linnet-tune --features bpf --example tune
//! -- [SECONDS] [DEVICE]`. `linnet tune readahead` is the command for daily use.

use std::time::{Duration, Instant};

use linnet_tune::event::Event;
use linnet_tune::host::Host;
use linnet_tune::observe;
use linnet_tune::rule::Rule;
use linnet_tune::tuner::{Options, Tuner, only_dev};

fn main() -> linnet_tune::Result<()> {
    let mut words = std::env::args().skip(1);
    let seconds = words.next().and_then(|text| text.parse().ok()).unwrap_or(10);
    let host = Host::default();
    let options = Options { device: words.next(), ..Options::default() };
    let mut observer = observe::best(&host, only_dev(&host, &options)?)?;
    let rule = Rule::default();
    let show = |event: &Event| println!("{}", event.to_json());
    let tuner = Tuner::start(&host, options, &rule, observer.as_mut(), &mut |event| {
        show(event);
        true
    })?;
    let end = Instant::now() + Duration::from_secs(seconds);
    tuner.run(&mut |event| {
        if let Some(event) = event {
            show(event);
        }
        Instant::now() < end
    })
}
