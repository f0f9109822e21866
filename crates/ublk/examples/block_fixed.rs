// SPDX-License-Identifier: MIT OR Apache-2.0
//! A block device of 1 GiB on which every request takes the same time: `block_fixed LATENCY_NS`. Needs root and
//! ublk_drv. To end it, delete the device: write a line to its standard input. It then prints its statistics.

use std::io::BufRead;
use std::sync::Arc;

use linnet_nbd::{Export, Front};
use linnet_types::{LatencyModel, Nanos, Outcome, Request};

struct Fixed(Nanos);

impl LatencyModel for Fixed {
    fn submit(&mut self, now: Nanos, _: &Request) -> Outcome {
        Outcome::Done(now + self.0)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let latency_ns = std::env::args().nth(1).ok_or("usage: block_fixed LATENCY_NS")?.parse()?;
    let front = Arc::new(Front::new(Export::of_device("fixed", 1 << 30, Fixed(latency_ns)), 1.0, Some(1_000_000_000))?);
    let ready = |id: u32| {
        println!("/dev/ublkb{id}");
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = std::io::stdin().lock().read_line(&mut line);
            if let Err(error) = linnet_ublk::stop(id) {
                eprintln!("{error}");
            }
        });
    };
    linnet_ublk::serve(Arc::clone(&front), -1, 128, ready)?;
    println!("{:?}", front.stats());
    Ok(())
}
