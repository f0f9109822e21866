// SPDX-License-Identifier: MIT OR Apache-2.0
//! The real-time clock of a replay, and the bell with which devices wake a thread that waits on it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use linnet_types::{Clock, Nanos, Waited};

/// Longest wait before the caller can check whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The start of the run and the speed of its time: `time_scale` nanoseconds of real time per nanosecond of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epoch {
    begun: Instant,
    time_scale: f64,
}

impl Epoch {
    /// The time of the run at an instant.
    pub fn at(&self, moment: Instant) -> Nanos {
        (moment.saturating_duration_since(self.begun).as_nanos() as f64 / self.time_scale) as Nanos
    }

    fn until(&self, due: Nanos) -> Duration {
        let left = due.saturating_sub(self.at(Instant::now()));
        Duration::from_nanos((left as f64 * self.time_scale) as u64)
    }
}

/// Wakes its clock; a device's thread rings it when an answer can be polled.
#[derive(Clone, Debug)]
pub(crate) struct Bell(SyncSender<()>);

impl Bell {
    pub fn ring(&self) {
        // If the bell is already ringing, there is nothing to do.
        let _ = self.0.try_send(());
    }
}

/// Real time since the clock was made, divided by the time scale.
#[derive(Debug)]
pub(crate) struct WallClock {
    epoch: Epoch,
    rung: Receiver<()>,
    looked: Instant,
}

impl WallClock {
    /// A clock that starts now, and its bell. The clock waits for devices as long as a copy of the bell exists.
    pub fn new(time_scale: f64) -> (WallClock, Bell) {
        let (bell, rung) = sync_channel(1);
        let begun = Instant::now();
        (WallClock { epoch: Epoch { begun, time_scale }, rung, looked: begun }, Bell(bell))
    }

    /// The start and speed of this clock.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
}

impl Clock for WallClock {
    fn now(&mut self) -> Nanos {
        self.epoch.at(Instant::now())
    }

    fn wait(&mut self, due: Option<Nanos>) -> Waited {
        let left = due.map(|due| self.epoch.until(due));
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            return Waited::Idle;
        }
        if left == Some(Duration::ZERO) {
            return Waited::Ready;
        }
        match (self.rung.recv_timeout(left.unwrap_or(LOOK_EVERY).min(LOOK_EVERY)), left) {
            (Err(RecvTimeoutError::Disconnected), None) => Waited::Never,
            (Err(RecvTimeoutError::Disconnected), Some(left)) => {
                thread::sleep(left.min(LOOK_EVERY));
                Waited::Ready
            }
            _ => Waited::Ready,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wait in which the clock did not say that it had been waited for long.
    fn waited(clock: &mut WallClock, due: Option<Nanos>) -> Waited {
        loop {
            match clock.wait(due) {
                Waited::Idle => {}
                other => return other,
            }
        }
    }

    #[test]
    fn it_waits_for_the_time() {
        let (mut clock, _bell) = WallClock::new(2.0);
        let due = clock.now() + 10_000_000;
        let begun = Instant::now();
        while clock.now() < due {
            assert_eq!(waited(&mut clock, Some(due)), Waited::Ready);
        }
        assert!(begun.elapsed() >= Duration::from_millis(19), "twice as slow: {:?}", begun.elapsed());
    }

    #[test]
    fn a_bell_that_rang_before_the_wait_wakes_it() {
        let (mut clock, bell) = WallClock::new(1.0);
        // This thread may stall, but without the bell no wait is short.
        let short = (0..20).any(|_| {
            bell.ring();
            bell.ring();
            let rung = Instant::now();
            waited(&mut clock, Some(Nanos::MAX)) == Waited::Ready && rung.elapsed() < LOOK_EVERY / 2
        });
        assert!(short);
    }

    #[test]
    fn it_says_so_when_it_was_waited_for_long_and_when_no_device_is_left() {
        let (mut clock, bell) = WallClock::new(1.0);
        assert!((0..3).any(|_| clock.wait(None) == Waited::Idle));
        drop(bell);
        assert_eq!(waited(&mut clock, None), Waited::Never);
    }
}
