// SPDX-License-Identifier: MIT OR Apache-2.0
//! A seeded random generator. A seed is part of every published result, so its stream of numbers must not change with
//! a library's version: the generator is implemented here (splitmix64; Steele, Lea and Flood, OOPSLA 2014).

/// A reproducible random generator: the same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Spreads a number over 64 bits; each seed does it in another way. `linnet.mixing.mixed` is the same for arrays.
pub fn mixed(number: u64, seed: u64) -> u64 {
    mix(number.wrapping_add(seed.wrapping_mul(GOLDEN)))
}

impl Chance {
    /// Starts the stream of this seed.
    pub fn new(seed: u64) -> Self {
        Chance { state: mix(seed.wrapping_add(GOLDEN)) }
    }

    /// An independent stream, named by `stream`. Another fork elsewhere does not shift its numbers.
    pub fn fork(&self, stream: u64) -> Self {
        Chance { state: mix(self.state ^ mix(stream.wrapping_add(GOLDEN))) }
    }

    /// A 64-bit number that depends only on the seed and on `counter`: for peeks, which must not change state.
    pub fn at(&self, counter: u64) -> u64 {
        mix(self.state.wrapping_add(counter.wrapping_mul(GOLDEN)))
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// Uniform in `0..bound` (Lemire's multiply-shift; bias below 2^-32 for bounds under 2^32). `bound` must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in `[0, 1)`, 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with the given probability.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Exponential with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Standard normal (Box-Muller, one of the pair).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_names_its_numbers() {
        let mut chance = Chance::new(0);
        let first: Vec<u64> = (0..3).map(|_| chance.bits()).collect();
        assert_eq!(first, {
            let mut again = Chance::new(0);
            (0..3).map(|_| again.bits()).collect::<Vec<_>>()
        });
        assert_ne!(first[0], Chance::new(1).bits());
        assert_ne!(Chance::new(0).fork(1).bits(), Chance::new(0).fork(2).bits());
    }

    #[test]
    fn uniform_stays_below_its_bound_and_fills_it() {
        let mut chance = Chance::new(7);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[chance.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
    }

    #[test]
    fn means_are_those_asked_for() {
        let mut chance = Chance::new(3);
        let n = 100_000;
        let mean = (0..n).map(|_| chance.exponential(5.0)).sum::<f64>() / f64::from(n);
        assert!((mean - 5.0).abs() < 0.1, "{mean}");
        let normal = (0..n).map(|_| chance.normal()).sum::<f64>() / f64::from(n);
        assert!(normal.abs() < 0.02, "{normal}");
    }
}
