// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs of one kind that wait for a chip, in the order in which they came.
//!
//! A command takes the oldest job of a die, and for each other plane of the die the oldest job of the same page number.
//! The second is found by looking through the jobs of its plane, and in a long backlog by an index, so that a command
//! costs log n with n jobs waiting and not n.

use std::collections::{BTreeSet, VecDeque};

use super::engine::NO_JOB;

/// A plane with more jobs has an index, until it has half as many: below this, looking through them costs less.
const LONG: usize = 64;

#[derive(Clone, Copy, Debug)]
struct One {
    age: u64,
    /// Number of the page in its block.
    number: u32,
    /// [`NO_JOB`] once it was taken, until it reaches the front.
    job: u32,
}

/// Jobs that wait for one plane.
#[derive(Clone, Debug, Default)]
struct Plane {
    /// By age. The first was not taken.
    jobs: VecDeque<One>,
    /// Page number and age of the jobs that were not taken.
    by_number: Option<BTreeSet<(u32, u64)>>,
}

impl Plane {
    fn push(&mut self, one: One) {
        self.jobs.push_back(one);
        if let Some(index) = &mut self.by_number {
            index.insert((one.number, one.age));
        } else if self.jobs.len() > LONG {
            let left = self.jobs.iter().filter(|one| one.job != NO_JOB);
            self.by_number = Some(left.map(|one| (one.number, one.age)).collect());
        }
    }

    /// The age of the oldest job, or of the oldest one of a page number.
    fn oldest(&self, number: Option<u32>) -> Option<u64> {
        let Some(number) = number else { return self.jobs.front().map(|one| one.age) };
        match &self.by_number {
            Some(index) => index.range((number, 0)..=(number, u64::MAX)).next().map(|&(_, age)| age),
            None => self.jobs.iter().find(|one| one.number == number && one.job != NO_JOB).map(|one| one.age),
        }
    }

    /// Takes the job of this age, which is there.
    fn take(&mut self, age: u64) -> u32 {
        let at = self.jobs.partition_point(|one| one.age < age);
        let job = std::mem::replace(&mut self.jobs[at].job, NO_JOB);
        if let Some(index) = &mut self.by_number {
            index.remove(&(self.jobs[at].number, age));
        }
        while self.jobs.front().is_some_and(|one| one.job == NO_JOB) {
            self.jobs.pop_front();
        }
        if self.jobs.len() <= LONG / 2 {
            self.by_number = None;
        }
        job
    }
}

/// Jobs that wait for one chip. Older ones have lower ages.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    planes: Vec<Plane>,
    planes_per_die: u32,
    next_age: u64,
    count: usize,
}

impl Waiting {
    pub fn new(dies: u32, planes_per_die: u32) -> Waiting {
        Waiting {
            planes: vec![Plane::default(); (dies * planes_per_die) as usize],
            planes_per_die,
            next_age: 0,
            count: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// A job of this page number comes.
    pub fn push(&mut self, die: u32, plane: u32, number: u32, job: u32) {
        let plane = &mut self.planes[(die * self.planes_per_die + plane) as usize];
        plane.push(One { age: self.next_age, number, job });
        self.next_age += 1;
        self.count += 1;
    }

    /// The oldest job.
    pub fn first(&self) -> Option<u32> {
        self.planes.iter().filter_map(|plane| plane.jobs.front()).min_by_key(|one| one.age).map(|one| one.job)
    }

    /// Takes the oldest job of a die and returns it with its plane: of no plane that is `busy`, and of this page number
    /// if one is given.
    pub fn take(&mut self, die: u32, busy: u32, number: Option<u32>) -> Option<(u32, u32)> {
        if self.count == 0 {
            return None;
        }
        let first = (die * self.planes_per_die) as usize;
        let of_die = (0..self.planes_per_die).zip(&self.planes[first..]);
        let free = of_die.filter(|(plane, _)| busy & (1 << plane) == 0);
        let (age, plane) = free.filter_map(|(plane, jobs)| Some((jobs.oldest(number)?, plane))).min()?;
        self.count -= 1;
        Some((self.planes[first + plane as usize].take(age), plane))
    }
}

#[cfg(test)]
mod tests {
    use super::Waiting;
    use linnet_sim::Chance;

    const DIES: u32 = 2;
    const PLANES: u32 = 4;

    /// The same by looking through all jobs.
    fn scanned(jobs: &mut Vec<(u32, u32, u32, u32)>, die: u32, busy: u32, number: Option<u32>) -> Option<(u32, u32)> {
        let fits = |&(of_die, plane, of_number, _): &(u32, u32, u32, u32)| {
            of_die == die && busy & (1 << plane) == 0 && number.is_none_or(|number| number == of_number)
        };
        let at = jobs.iter().position(fits)?;
        let (_, plane, _, job) = jobs.remove(at);
        Some((job, plane))
    }

    #[test]
    fn short_and_long_backlogs_give_what_a_scan_in_order_of_age_gives() {
        let mut chance = Chance::new(7);
        let (mut waiting, mut jobs) = (Waiting::new(DIES, PLANES), Vec::<(u32, u32, u32, u32)>::new());
        let mut draw = |below: u32| chance.below(below.into()) as u32;
        let (mut longest, mut indexed) = (0, 0);
        for job in 0..40_000 {
            assert_eq!(waiting.first(), jobs.first().map(|&(.., job)| job));
            assert_eq!(waiting.is_empty(), jobs.is_empty());
            // The backlog grows and shrinks.
            if draw(100) < if job / 5_000 % 2 == 0 { 65 } else { 25 } {
                let (die, plane, number) = (draw(DIES), draw(PLANES), draw(6));
                waiting.push(die, plane, number, job);
                jobs.push((die, plane, number, job));
            } else {
                let (die, busy, number) = (draw(DIES), draw(1 << PLANES), Some(draw(6)).filter(|&n| n < 4));
                assert_eq!(waiting.take(die, busy, number), scanned(&mut jobs, die, busy, number));
            }
            longest = longest.max(jobs.len());
            indexed += usize::from(waiting.planes.iter().any(|plane| plane.by_number.is_some()));
        }
        assert!(longest > 1_000 && (5_000..35_000).contains(&indexed), "{longest} jobs, {indexed} steps with an index");
    }
}
