// SPDX-License-Identifier: MIT OR Apache-2.0
//! A die's timeline: the operation that runs, the reads that are scheduled, and the internal work that waits.
//!
//! Each read gets its start time when it arrives. Internal work either joins the same queue (no read priority), or
//! waits in a short backlog. Before each read, the backlog work that would have started by then is started; the rest
//! waits behind the read.

use linnet_types::Nanos;

use super::spans::SpanLog;
use crate::cause::{Cause, Mechanism};

const SEGMENTS: usize = 8;
const RUNS: usize = 8;

/// An interval in the past or scheduled part of the timeline, kept to explain waits.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: Nanos,
    end: Nanos,
    of: Mechanism,
}

/// Internal operations of one kind: `units` of `unit_ns` each, which start at `ready` or later. A unit is not
/// interrupted, except by suspension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub of: Mechanism,
    pub units: u32,
    pub unit_ns: Nanos,
    pub ready: Nanos,
}

impl Run {
    fn length(&self) -> Nanos {
        u64::from(self.units) * self.unit_ns
    }
}

/// What the die does about reads that meet its internal work. The default suspends at once and loses nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    /// [`crate::Params::suspend_after_ns`].
    pub suspend_after_ns: u32,
    /// [`crate::Params::resume_ns`].
    pub resume_ns: u32,
    /// Waiting work of one kind is kept together, whatever arrived between: reads overtake any amount of it.
    pub by_kind: bool,
}

/// Until when a die is taken by what it has started. A read changes nothing else, apart from what the die records.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Front {
    /// Since when the operation that started last runs without interruption.
    op_from: Nanos,
    /// End of the internal operation that started last.
    op_end: Nanos,
    /// End of the read that was scheduled last.
    read_end: Nanos,
}

impl Front {
    /// When all that was started or scheduled has ended.
    pub fn ends(&self) -> Nanos {
        self.op_end.max(self.read_end)
    }

    /// When the die is free for internal work.
    #[inline(always)]
    fn free_for(&self, run: &Run) -> Nanos {
        run.ready.max(self.op_end).max(self.read_end)
    }

    /// How many units of waiting work start before `now`.
    #[inline]
    fn due(&self, run: &Run, now: Nanos) -> u32 {
        let start = self.free_for(run);
        if start >= now {
            return 0;
        }
        u64::from(run.units).min((now - 1 - start) / run.unit_ns + 1) as u32
    }

    /// Starts internal work. Returns when it starts.
    #[inline]
    fn run(&mut self, run: &Run) -> Nanos {
        let start = self.free_for(run);
        self.op_end = start + run.length();
        self.op_from = self.op_end - run.unit_ns.min(run.length());
        start
    }
}

/// What every read needs is in the first cache line, because the dies of a drive do not fit in the first cache. The whole
/// has an odd number of cache lines, so that the first ones of all dies do not compete for a few places of the cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Die {
    pub front: Front,
    /// Total time of operations, started or scheduled.
    pub busy_ns: Nanos,
    /// What the die did, if this is recorded.
    pub log: Option<Box<SpanLog>>,
    backlog_ns: Nanos,
    rules: Rules,
    newest: u8,
    runs_len: u8,
    segments: [Segment; SEGMENTS],
    runs: [Run; RUNS],
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Die>() == 7 * 64 && std::mem::offset_of!(Die, segments) == 64);

const NO_RUN: Run = Run { of: Mechanism::FlushWide, units: 0, unit_ns: 0, ready: 0 };

impl Die {
    pub fn new(rules: Rules) -> Self {
        let nothing = Segment { start: 0, end: 0, of: Mechanism::HostRead };
        Die {
            rules,
            front: Front::default(),
            newest: 0,
            runs_len: 0,
            segments: [nothing; SEGMENTS],
            runs: [NO_RUN; RUNS],
            backlog_ns: 0,
            busy_ns: 0,
            log: None,
        }
    }

    #[inline]
    fn record(&mut self, of: Mechanism, start: Nanos, end: Nanos) {
        self.busy_ns += end - start;
        if let Some(log) = &mut self.log {
            log.add(of, start, end);
        }
        // Whether it continues the newest segment is hard to predict, so there is no branch.
        let last = self.segments[self.newest as usize % SEGMENTS];
        let continues = last.of == of && last.end == start;
        self.newest = (self.newest + u8::from(!continues)) % SEGMENTS as u8;
        let start = if continues { last.start } else { start };
        self.segments[self.newest as usize % SEGMENTS] = Segment { start, end, of };
    }

    fn run(&mut self, run: Run) -> Nanos {
        let start = self.front.run(&run);
        self.record(run.of, start, self.front.op_end);
        self.front.op_end
    }

    /// Queues internal work together with the reads. Returns its end.
    pub fn queue(&mut self, run: Run) -> Nanos {
        if run.units == 0 { self.front.free_for(&run) } else { self.run(run) }
    }

    /// Queues internal work that lets reads go first until it starts. Returns its end, assuming that no read goes
    /// first.
    pub fn queue_behind_reads(&mut self, run: Run) -> Nanos {
        if run.units == 0 {
            return self.front.free_for(&run) + self.backlog_ns;
        }
        let len = self.runs_len as usize;
        self.backlog_ns += run.length();
        let alike = |kept: &Run| kept.of == run.of && kept.unit_ns == run.unit_ns;
        let from = if self.rules.by_kind { 0 } else { len.saturating_sub(1) };
        match self.runs[from..len].iter().position(alike) {
            Some(at) => self.runs[from + at].units += run.units,
            _ => {
                if len == RUNS {
                    // Priority is limited: the oldest work cannot be delayed any longer.
                    let oldest = self.pop();
                    self.run(oldest);
                }
                self.runs[self.runs_len as usize] = run;
                self.runs_len += 1;
            }
        }
        self.front.free_for(&run) + self.backlog_ns
    }

    fn pop(&mut self) -> Run {
        let oldest = self.runs[0];
        // Mostly it is alone, so this is faster than a copy of all.
        for at in 1..self.runs_len as usize {
            self.runs[(at - 1) % RUNS] = self.runs[at % RUNS];
        }
        self.runs_len -= 1;
        self.backlog_ns -= oldest.length();
        oldest
    }

    /// Whether waiting work was due to start before `now`. Mostly there is none, which is seen at once.
    #[inline(always)]
    fn is_behind(&self, now: Nanos) -> bool {
        self.runs_len > 0 && self.front.free_for(&self.runs[0]) < now
    }

    /// Starts the waiting work that was due to start before `now`.
    #[inline(always)]
    pub fn catch_up(&mut self, now: Nanos) {
        if self.is_behind(now) {
            self.start_waiting(now);
        }
    }

    /// [`Die::catch_up`] when there is work.
    #[inline(never)]
    fn start_waiting(&mut self, now: Nanos) {
        while self.runs_len > 0 {
            let first = self.runs[0];
            let started = self.front.due(&first, now);
            if started == 0 {
                return;
            }
            if started == first.units {
                self.pop();
            } else {
                self.runs[0].units -= started;
                self.backlog_ns -= u64::from(started) * first.unit_ns;
            }
            self.run(Run { units: started, ..first });
        }
    }

    /// What [`Die::front`] is after [`Die::catch_up`], which may lie ahead: work that arrives until then still finds the
    /// waiting work where it is.
    #[inline(always)]
    fn front_at(&self, now: Nanos) -> Front {
        if self.is_behind(now) { self.front_ahead(now) } else { self.front }
    }

    /// [`Die::front_at`] when there is work.
    #[inline(never)]
    fn front_ahead(&self, now: Nanos) -> Front {
        let mut front = self.front;
        for waiting in &self.runs[..self.runs_len as usize] {
            let started = front.due(waiting, now);
            if started == 0 {
                break;
            }
            front.run(&Run { units: started, ..*waiting });
        }
        front
    }

    /// When a read that reaches the die at `arrive` would start. `suspend_ns` is the cost of suspension, if it is
    /// possible.
    #[inline]
    pub fn read_start(&self, arrive: Nanos, suspend_ns: Option<Nanos>) -> Nanos {
        let front = self.front_at(arrive);
        let free = arrive.max(front.read_end);
        match suspend_ns {
            // An operation that is already suspended for another read causes no further cost.
            Some(_) if front.op_end > free && front.read_end > arrive => free,
            Some(suspend_ns) if front.op_end > free => {
                let start = self.suspended_at(&front, free) + suspend_ns;
                if self.rules.suspend_after_ns > 0 { start.min(front.op_end) } else { start }
            }
            _ => free.max(front.op_end),
        }
    }

    /// When the running operation can be suspended for a read that finds it at `free`.
    #[inline]
    fn suspended_at(&self, front: &Front, free: Nanos) -> Nanos {
        free.max(front.op_from + u64::from(self.rules.suspend_after_ns))
    }

    /// Schedules a read from `start` to `end`, after the waiting work that starts before it arrives.
    #[inline]
    pub fn read(&mut self, of: Mechanism, arrive: Nanos, start: Nanos, end: Nanos) {
        self.catch_up(arrive);
        self.occupy(arrive, start, end);
        self.record(of, start, end);
    }

    /// [`Die::read`] that changes [`Die::front`] only: nothing is recorded, and the work that it starts still waits.
    #[inline]
    pub fn occupy(&mut self, arrive: Nanos, start: Nanos, end: Nanos) {
        let mut front = self.front_at(arrive);
        let free = arrive.max(front.read_end);
        if front.op_end > start {
            // Suspended: the operation resumes after the read.
            if front.read_end > arrive {
                front.op_end += end - free;
            } else {
                front.op_end += end - self.suspended_at(&front, free) + u64::from(self.rules.resume_ns);
            }
            front.op_from = end;
        }
        front.read_end = end;
        self.front = front;
    }

    /// Adds to `cause` what the read waited for between `arrive` and `start`.
    pub fn explain(&self, arrive: Nanos, start: Nanos, cause: &mut Cause) {
        let mut left = start - arrive;
        let mut oldest = Mechanism::HostRead;
        for back in 0..SEGMENTS {
            let segment = &self.segments[(self.newest as usize + SEGMENTS - back) % SEGMENTS];
            let overlap = segment.end.min(start).saturating_sub(segment.start.max(arrive)).min(left);
            if overlap > 0 {
                cause.add(segment.of, overlap);
                left -= overlap;
                oldest = segment.of;
            }
        }
        // The part of a wait that is older than all kept segments is attributed to the oldest of them.
        if left > 0 {
            cause.add(oldest, left);
        }
    }

    #[cfg(test)]
    pub fn promised_until(&self) -> Nanos {
        self.front.op_end.max(self.front.read_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: Run = Run { of: Mechanism::FlushWide, units: 3, unit_ns: 100, ready: 10 };

    #[test]
    fn without_priority_a_read_waits_for_all_that_is_queued() {
        let mut die = Die::new(Rules::default());
        assert_eq!(die.queue(PROGRAM), 310);
        assert_eq!(die.read_start(20, None), 310);
        let mut cause = Cause::default();
        die.explain(20, 310, &mut cause);
        assert_eq!(cause.wait_ns(Mechanism::FlushWide), 290);
        assert_eq!(cause.total_ns(), 290);
    }

    #[test]
    fn before_queued_work_a_read_waits_for_the_unit_that_runs() {
        let mut die = Die::new(Rules::default());
        assert_eq!(die.queue_behind_reads(PROGRAM), 310);
        die.catch_up(120);
        let start = die.read_start(120, None);
        assert_eq!(start, 210, "the second unit runs from 110 to 210");
        die.read(Mechanism::HostRead, 120, start, 240);
        die.catch_up(10_000);
        assert_eq!(die.promised_until(), 340, "the third unit follows the read");
    }

    #[test]
    fn a_suspended_operation_is_longer_by_the_read() {
        let mut die = Die::new(Rules::default());
        die.queue_behind_reads(PROGRAM);
        die.catch_up(50);
        let start = die.read_start(50, Some(5));
        assert_eq!(start, 55);
        die.read(Mechanism::HostRead, 50, start, 85);
        assert_eq!(die.read_start(60, Some(5)), 85, "already suspended");
        die.catch_up(10_000);
        assert_eq!(die.promised_until(), 310 + 35);
    }

    #[test]
    fn suspension_takes_effect_after_the_least_run_and_costs_a_resumption() {
        let rules = Rules { suspend_after_ns: 40, resume_ns: 7, by_kind: false };
        let mut die = Die::new(rules);
        die.queue_behind_reads(PROGRAM);
        die.catch_up(20);
        let start = die.read_start(20, Some(5));
        assert_eq!(start, 55, "the unit runs from 10, for 40 before it can be suspended, which takes 5");
        die.read(Mechanism::HostRead, 20, start, 85);
        assert_eq!(die.read_start(90, Some(5)), 130, "resumed at 85, it runs for 40 again");
        assert_eq!(die.read_start(140, Some(5)), 145);
        assert_eq!(die.read_start(140, Some(100)), 110 + 35 + 7, "its end is sooner than its suspension");
        die.catch_up(10_000);
        assert_eq!(die.promised_until(), 310 + 35 + 7);
    }

    #[test]
    fn work_kept_by_kind_is_never_forced_before_a_read() {
        let waits = |by_kind| {
            let mut die = Die::new(Rules { by_kind, ..Rules::default() });
            for of in [Mechanism::FlushSingle, Mechanism::GcSingle].repeat(40) {
                die.queue_behind_reads(Run { of, units: 1, unit_ns: 100, ready: 0 });
            }
            die.catch_up(1);
            die.read_start(1, None)
        };
        assert_eq!(waits(true), 100);
        assert!(waits(false) > 5_000);
    }

    #[test]
    fn catching_up_in_steps_is_catching_up_at_once() {
        let mut steps = Die::new(Rules::default());
        steps.queue_behind_reads(PROGRAM);
        steps.queue_behind_reads(Run { of: Mechanism::GcWide, units: 1, unit_ns: 1000, ready: 15 });
        let mut once = steps.clone();
        for now in (0..2000).step_by(7) {
            steps.catch_up(now);
        }
        once.catch_up(1996);
        assert_eq!(steps.promised_until(), once.promised_until());
        assert_eq!(steps.busy_ns, once.busy_ns);
        assert_eq!(once.busy_ns, 1300);
    }
}
