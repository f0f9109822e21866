// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints what the observer counts, second by second, and what an event costs: `cargo run -p linnet-tune --features bpf
//! --example observe -- [SECONDS]`. Needs root.

use linnet_tune::host::Host;
use linnet_tune::observe;

fn main() -> linnet_tune::Result<()> {
    let seconds: u32 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(5);
    #[cfg(feature = "bpf")]
    println!("{:?}", observe::event_cost(30, 50_000)?);
    let mut observer = observe::best(&Host::default(), None)?;
    println!("{:?}", observer.sight());
    for _ in 0..seconds {
        std::thread::sleep(std::time::Duration::from_secs(1));
        for sample in observer.look()? {
            let open = observer.descriptors(&[sample.file])?;
            println!("{sample:?}\n   {open:?}");
        }
        println!("lost {}", observer.lost()?);
    }
    Ok(())
}
