// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server's clock: real time since start, and the corresponding model time.

use std::time::Instant;

use linnet_types::Nanos;

/// `time_scale` nanoseconds of real time pass for each nanosecond of model time.
#[derive(Clone, Debug)]
pub struct Clock {
    start: Instant,
    time_scale: f64,
}

impl Clock {
    pub fn new(time_scale: f64) -> Clock {
        Clock { start: Instant::now(), time_scale }
    }

    pub fn time_scale(&self) -> f64 {
        self.time_scale
    }

    /// Nanoseconds of real time since start.
    pub fn wall_ns(&self) -> Nanos {
        self.start.elapsed().as_nanos() as Nanos
    }

    /// The model time at a real time, rounded down.
    pub fn model_of(&self, wall_ns: Nanos) -> Nanos {
        if self.time_scale == 1.0 { wall_ns } else { (wall_ns as f64 / self.time_scale) as Nanos }
    }

    /// First real time that is not before this model time: an answer at that time is never early.
    pub fn wall_of(&self, model_ns: Nanos) -> Nanos {
        if self.time_scale == 1.0 {
            return model_ns;
        }
        let mut wall_ns = (model_ns as f64 * self.time_scale).ceil() as Nanos;
        // Rounding can make the product one floating-point step too small.
        while wall_ns < Nanos::MAX && self.model_of(wall_ns) < model_ns {
            wall_ns = wall_ns.saturating_add((wall_ns >> 52) + 1);
        }
        wall_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_at_wall_of_is_never_early() {
        let mut chance = linnet_sim::Chance::new(1);
        for time_scale in [0.001, 0.37, 1.0, 3.0, 10.0, 1e6] {
            let clock = Clock::new(time_scale);
            for _ in 0..2000 {
                let model_ns = chance.bits() >> (21 + chance.below(40));
                let wall_ns = clock.wall_of(model_ns);
                assert!(clock.model_of(wall_ns) >= model_ns, "scale {time_scale}, model {model_ns}");
                let exact = model_ns as f64 * time_scale;
                assert!(wall_ns as f64 <= exact * (1.0 + 1e-12) + 2.0 + time_scale, "scale {time_scale}, {model_ns}");
            }
        }
        assert_eq!(Clock::new(10.0).wall_of(u64::MAX), u64::MAX);
    }
}
