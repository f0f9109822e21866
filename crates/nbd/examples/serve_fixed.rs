// SPDX-License-Identifier: MIT OR Apache-2.0
//! Serves a drive on which every request takes the same time: `serve_fixed SOCKET LATENCY_NS SIZE_BYTES [SPIN_US]
//! [TIME_SCALE]`. Prints statistics as JSON when its standard input ends.

use std::io::Read;
use std::time::Duration;

use linnet_nbd::{Builder, Export};
use linnet_types::{LatencyModel, Nanos, Outcome, Request};

struct Fixed(Nanos);

impl LatencyModel for Fixed {
    fn submit(&mut self, now: Nanos, _: &Request) -> Outcome {
        Outcome::Done(now + self.0)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: serve_fixed SOCKET LATENCY_NS SIZE_BYTES [SPIN_US] [TIME_SCALE]";
    let mut args = std::env::args().skip(1);
    let socket = args.next().ok_or(usage)?;
    let latency_ns = args.next().ok_or(usage)?.parse()?;
    let size_bytes = args.next().ok_or(usage)?.parse()?;
    let mut builder = Builder::new().export(Export::of_device("fixed", size_bytes, Fixed(latency_ns))).unix(&socket);
    if let Some(spin_us) = args.next() {
        builder = builder.spin(Duration::from_micros(spin_us.parse()?));
    }
    if let Some(time_scale) = args.next() {
        builder = builder.time_scale(time_scale.parse()?);
    }
    let handle = builder.start()?;
    eprintln!("{}", handle.uris("fixed")[0]);
    std::io::stdin().read_to_end(&mut Vec::new())?;
    println!("{}", handle.stop().to_json());
    Ok(())
}
