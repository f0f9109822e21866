// SPDX-License-Identifier: MIT OR Apache-2.0
//! Serves SSD models as drives `ssd0`, `ssd1`, ...: `serve_ssd SOCKET PRESET DRIVES [TIME_SCALE]`.
//! Prints statistics as JSON when its standard input ends.

use std::io::Read;

use linnet_nbd::{Builder, Export};
use linnet_ssd::{Params, Ssd};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: serve_ssd SOCKET PRESET DRIVES [TIME_SCALE]";
    let mut args = std::env::args().skip(1);
    let socket = args.next().ok_or(usage)?;
    let params = Params::preset(&args.next().ok_or(usage)?)?;
    let drives: u64 = args.next().ok_or(usage)?.parse()?;
    let mut builder = Builder::new().unix(&socket);
    if let Some(time_scale) = args.next() {
        builder = builder.time_scale(time_scale.parse()?);
    }
    for drive in 0..drives {
        let mut ssd = Ssd::new(&params, drive)?;
        ssd.precondition();
        let size_bytes = ssd.capacity_bytes();
        builder = builder.export(Export::of_device(format!("ssd{drive}"), size_bytes, ssd));
    }
    let handle = builder.start()?;
    eprintln!("{}", handle.uris("ssd0")[0]);
    std::io::stdin().read_to_end(&mut Vec::new())?;
    println!("{}", handle.stop().to_json());
    Ok(())
}
