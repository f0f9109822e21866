// SPDX-License-Identifier: MIT OR Apache-2.0
//! A drive in real time for transports other than NBD (ublk): the same model, data and statistics, without sockets.

use linnet_types::Nanos;

use crate::builder::Builder;
use crate::clock::Clock;
use crate::error::Error;
use crate::export::{Ask, Data, Export, Held, Served};
use crate::stats::ExportStats;

/// One drive and its clock. The transport passes commands to it, answers each when [`Front::left_ns`] is 0, and reports
/// that.
pub struct Front {
    served: Served,
    clock: Clock,
    lost_after_ns: Option<Nanos>,
}

impl Front {
    /// Opens the data file and starts the model clock; `time_scale` and `lost_after_ns` as in [`Builder`].
    ///
    /// # Errors
    /// An invalid setting, or a data file that cannot be used.
    pub fn new(export: Export, time_scale: f64, lost_after_ns: Option<Nanos>) -> Result<Front, Error> {
        let mut exports = Builder::new().export(export).time_scale(time_scale).open()?;
        let served = exports.pop().ok_or(Error::NoExport)?;
        Ok(Front { served, clock: Clock::new(time_scale), lost_after_ns })
    }

    /// The drive's size.
    pub fn size_bytes(&self) -> u64 {
        self.served.size_bytes
    }

    /// Asks the model and moves the data; `None` if the command is lost and must not be answered. A command beyond the
    /// drive's end, or with data of another length than its range, fails at once without asking the model.
    pub fn serve(&self, ask: &Ask, data: Data<'_>) -> Option<Held> {
        self.served.serve_checked(&self.clock, self.lost_after_ns, ask, data)
    }

    /// Real time until the command may be answered.
    pub fn left_ns(&self, held: &Held) -> Nanos {
        held.due_wall_ns.saturating_sub(self.clock.wall_ns())
    }

    /// Records a command that has just been answered.
    pub fn answered(&self, held: Held) {
        let mut sample = held.sample;
        sample.latency_ns_achieved = self.clock.model_of(self.clock.wall_ns()).saturating_sub(sample.arrive_ns);
        self.served.ledger().record(sample);
    }

    /// The statistics so far.
    pub fn stats(&self) -> ExportStats {
        self.served.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Command;
    use linnet_types::{LatencyModel, Outcome, Request};
    use std::time::{Duration, Instant};

    struct Fixed(Nanos);

    impl LatencyModel for Fixed {
        fn submit(&mut self, now: Nanos, _: &Request) -> Outcome {
            Outcome::Done(now + self.0)
        }
    }

    #[test]
    fn a_front_serves_data_and_holds_answers() {
        let front = Front::new(Export::of_device("a", 1 << 20, Fixed(50_000_000)), 2.0, None).unwrap();
        let ask = |command, offset_bytes, size_bytes| Ask {
            command,
            offset_bytes,
            size_bytes,
            durable: false,
            no_hole: false,
        };
        front.serve(&ask(Command::Write, 512, 4), Data::From(b"data")).unwrap();
        let mut back = [0; 4];
        let begun = Instant::now();
        let held = front.serve(&ask(Command::Read, 512, 4), Data::Into(&mut back)).unwrap();
        assert_eq!((&back, held.failed, held.sample.latency_ns_model), (b"data", false, 50_000_000));
        let left_ns = front.left_ns(&held);
        // Times are rounded down to a nanosecond of the model.
        let whole = Duration::from_nanos(100_000_000 - 2);
        assert!(left_ns <= 100_000_000, "twice as slow: {left_ns}");
        assert!(left_ns > 0 || begun.elapsed() >= whole, "nothing is left only if this thread has paused");
        while front.left_ns(&held) > 0 {
            std::thread::sleep(Duration::from_micros(100));
        }
        assert!(begun.elapsed() >= whole, "the answer is held for all of it");
        front.answered(held);
        let stats = front.stats();
        assert_eq!((stats.commands[0], stats.read_bytes), (1, 4));
        assert!(stats.achieved.ns_max >= 50_000_000);
        let beyond = front.serve(&ask(Command::Trim, 1 << 20, 1), Data::None).unwrap();
        let short = front.serve(&ask(Command::Read, 0, 5), Data::Into(&mut back)).unwrap();
        assert!(beyond.failed && short.failed);
        assert_eq!(front.stats().refused, 2);
    }
}
