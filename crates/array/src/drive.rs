// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drives an array over devices and a clock, which is virtual or real.
//!
//! Arrivals come from the streams, ends from the devices, and timers from the array. Events of the same time are
//! handled in the order of their submit or of setting their timer, and before arrivals of that time, so that an
//! arriving read sees every completion of its own nanosecond. The run ends when all requests have arrived and all
//! copies have ended, including losers of races. In virtual time the same devices, streams, settings and policy give
//! the same run and the same hash.
//!
//! Arrivals keep their absolute times, but in a closed loop. If a driver in real time is late, the delay counts as latency
//! for the user: a run that waited for answers before it sent more would hide the tail. That it comes late to an answer
//! does not count.
//! The array itself hears of both when they are handled, because its time must not go back.

mod arrivals;
mod flights;
mod result;

use std::collections::HashMap;

use linnet_sim::{EventQueue, VirtualClock};
use linnet_types::{Clock, Device, End, Ended, IoRecord, Nanos, Op, Outcome, Request, Thresholds, Waited};

use crate::{Array, CopyId, Error, Output, Policy, TimerId};
use arrivals::{Arrival, Arrivals};
use flights::{Flight, Flights};
pub use result::{Playback, Progress, ReadLatencies, RunOptions, RunResult};

/// I/Os between two calls of [`Observer::progress`].
const PROGRESS_EVERY: u64 = 8192;
/// Turns of the loop between two calls of it, whether I/Os arrive or not.
const TURNS_EVERY: u64 = 1 << 18;

/// Input to the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A request arrives.
    Arrive {
        /// Its name.
        tag: u64,
        /// Its stream.
        stream: usize,
        /// The request.
        request: Request,
        /// Its arrival time: now, unless the driver is late. The array takes it to arrive now.
        arrive_ns: Nanos,
    },
    /// A copy completed.
    Completed(CopyId),
    /// A copy failed.
    Failed(CopyId),
    /// A device refused a copy.
    Revoked(CopyId),
    /// A device cancelled a copy.
    Cancelled(CopyId),
    /// A timer expires.
    Timer(TimerId),
}

/// Observes a run. The default of each call does nothing.
pub trait Observer {
    /// Called every few thousand I/Os, and in real time at intervals. Returning false stops the run with
    /// [`Error::Interrupted`].
    fn progress(&mut self, _progress: Progress) -> bool {
        true
    }

    /// Called before the array gets this input.
    fn input(&mut self, _now: Nanos, _input: &Input) {}

    /// The array requested this output.
    fn output(&mut self, _now: Nanos, _output: &Output) {}

    /// One input has been handled.
    fn step(&mut self, _now: Nanos, _array: &Array) {}
}

/// Observes nothing.
impl Observer for () {}

/// Runs `streams` (one list of records per stream, each in the order of arrival; stream i has device i mod n as its
/// primary) through an array of `devices` in virtual time.
///
/// # Errors
/// Wrong settings, a number of thresholds that is not the number of devices, records that are empty or out of order,
/// and a stop by the observer.
pub fn run<D: Device, O: Observer>(
    devices: &mut [D],
    streams: &[&[IoRecord]],
    thresholds: &[Thresholds],
    policy: Box<dyn Policy>,
    options: &RunOptions,
    observer: &mut O,
) -> Result<RunResult, Error> {
    run_on(&mut VirtualClock::new(), devices, streams, thresholds, policy, options, observer)
}

/// [`run`] with the time of `clock`.
///
/// # Errors
/// Those of [`run`].
pub fn run_on<C: Clock, D: Device, O: Observer>(
    clock: &mut C,
    devices: &mut [D],
    streams: &[&[IoRecord]],
    thresholds: &[Thresholds],
    policy: Box<dyn Policy>,
    options: &RunOptions,
    observer: &mut O,
) -> Result<RunResult, Error> {
    if thresholds.len() != devices.len() {
        return Err(Error::Count { what: "thresholds", got: thresholds.len(), devices: devices.len() });
    }
    let array = Array::new(options.array, thresholds, policy)?;
    drive(array, clock, devices, streams, &options.playback, observer)
}

/// [`run_on`] with a given array, for instance one with its own placement.
///
/// # Errors
/// Records that are empty or out of order, and a stop by the observer.
pub fn drive<C: Clock, D: Device, O: Observer>(
    array: Array,
    clock: &mut C,
    devices: &mut [D],
    streams: &[&[IoRecord]],
    playback: &Playback,
    observer: &mut O,
) -> Result<RunResult, Error> {
    if streams.len() > usize::from(u16::MAX) {
        let expected = format!("give at most {} streams", u16::MAX);
        return Err(Error::Setting { field: "streams", value: streams.len().to_string(), expected });
    }
    let reads = streams.iter().flat_map(|stream| stream.iter()).filter(|record| record.op.is_read()).count();
    let mut result = RunResult::default();
    if playback.log {
        result.log = vec![Vec::new(); devices.len()];
    }
    result.reads.latency_ns.reserve(reads);
    result.reads.arrive_ns.reserve(reads);
    result.reads.stream.reserve(reads);
    result.reads.tenant.reserve(reads);
    let mut driver = Driver {
        array,
        clock,
        devices,
        timers: EventQueue::new(),
        late: HashMap::new(),
        flights: Flights::default(),
        order: 0,
        ended: Vec::with_capacity(64),
        ready: Vec::with_capacity(64),
        out: Vec::with_capacity(64),
        arrivals: Arrivals::new(streams, playback.closed_loop),
        arrived: 0,
        warm_up_ns: playback.warm_up_ns,
        first_measured: None,
        total: streams.iter().map(|stream| stream.len() as u64).sum(),
        result,
        log: playback.log,
        observer,
    };
    driver.run()?;
    driver.complete_log()?;
    if driver.first_measured.is_some() {
        driver.result.counters = *driver.array.counters();
    }
    Ok(driver.result)
}

#[derive(Clone, Copy)]
enum Event {
    Ended(CopyId, End),
    Timer(TimerId),
}

/// An event that is due.
#[derive(Clone, Copy)]
struct Ready {
    at_ns: Nanos,
    /// Number of the submit or timer among all submits and timers.
    order: u64,
    event: Event,
}

struct Driver<'a, C, D, O> {
    array: Array,
    clock: &'a mut C,
    devices: &'a mut [D],
    timers: EventQueue<(u64, TimerId)>,
    /// By how much requests reached the array late, by tag; none in virtual time.
    late: HashMap<u64, Nanos>,
    flights: Flights,
    /// Submits and timers so far.
    order: u64,
    ended: Vec<Ended>,
    ready: Vec<Ready>,
    out: Vec<Output>,
    arrivals: Arrivals<'a>,
    arrived: u64,
    warm_up_ns: Nanos,
    /// The tag of the first request after the warm-up.
    first_measured: Option<u64>,
    total: u64,
    result: RunResult,
    log: bool,
    observer: &'a mut O,
}

impl<C: Clock, D: Device, O: Observer> Driver<'_, C, D, O> {
    fn run(&mut self) -> Result<(), Error> {
        let mut turns = 0u64;
        loop {
            // Between two arrivals far apart there may be any number of events.
            turns += 1;
            if turns.is_multiple_of(TURNS_EVERY) {
                self.progress()?;
            }
            let arrival = self.arrivals.next_ns();
            if self.is_over() {
                return Ok(());
            }
            let due = self.due();
            match self.clock.wait(earlier(due, arrival)) {
                Waited::Ready => {}
                Waited::Idle => self.progress()?,
                Waited::Never => return Err(Error::Stuck { live: self.array.live() }),
            }
            let now = self.clock.now();
            if due.is_some_and(|due| due <= now) {
                self.gather(now);
                for i in 0..self.ready.len() {
                    self.happen(now, self.ready[i]);
                    if self.is_over() {
                        break;
                    }
                }
            } else if arrival.is_some_and(|at| at <= now) {
                let arrival = self.arrivals.take()?;
                self.arrive(now, &arrival);
                if self.arrived.is_multiple_of(PROGRESS_EVERY) {
                    self.progress()?;
                }
            }
        }
    }

    /// All requests have arrived and ended.
    fn is_over(&self) -> bool {
        self.array.live() == 0 && self.arrivals.next_ns().is_none()
    }

    fn progress(&mut self) -> Result<(), Error> {
        let Driver { arrived: done, total, .. } = *self;
        let now_ns = self.clock.now();
        if self.observer.progress(Progress { done, total, now_ns }) {
            return Ok(());
        }
        Err(Error::Interrupted { done, total })
    }

    /// Time of the next timer or poll.
    fn due(&mut self) -> Option<Nanos> {
        let timer = self.timers.next_ns();
        self.devices.iter_mut().fold(timer, |due, device| earlier(due, device.next_due()))
    }

    /// Collects all events that are due by `now` in `ready`: by time, then in the order of submits and timers.
    fn gather(&mut self, now: Nanos) {
        self.ready.clear();
        for number in 0..self.devices.len() {
            let device = &mut self.devices[number];
            if device.next_due().is_some_and(|due| due <= now) {
                device.poll(now, &mut self.ended);
                self.land(number);
            }
        }
        while self.timers.next_ns().is_some_and(|at| at <= now)
            && let Some((at_ns, (order, timer))) = self.timers.pop()
        {
            self.ready.push(Ready { at_ns, order, event: Event::Timer(timer) });
        }
        self.ready.sort_unstable_by_key(|ready| (ready.at_ns, ready.order));
    }

    /// Moves the requests that device `number` has ended to `ready`, and their latencies to the log.
    fn land(&mut self, number: usize) {
        for Ended { token, at_ns, end } in self.ended.drain(..) {
            let flight = self.flights.end(token);
            debug_assert!(flight.is_some(), "device {number} ended token {token}, which it does not hold");
            let Some(Flight { copy, order, place }) = flight else { continue };
            if self.log && end == End::Done {
                let record = &mut self.result.log[number][place];
                record.latency_ns = Some(at_ns.saturating_sub(record.arrive_ns));
            }
            self.ready.push(Ready { at_ns, order, event: Event::Ended(copy, end) });
        }
    }

    fn arrive(&mut self, now: Nanos, &Arrival { at_ns: arrive_ns, stream, record }: &Arrival<'_>) {
        let (tag, request) = (self.arrived, record.request());
        self.arrived += 1;
        if self.first_measured.is_none() && record.arrive_ns >= self.warm_up_ns {
            self.first_measured = Some(tag);
            self.result.measured_from_ns = arrive_ns;
            self.array.reset_counters();
        }
        self.note(now, 1, tag);
        self.observer.input(now, &Input::Arrive { tag, stream, request, arrive_ns });
        if now > arrive_ns {
            self.late.insert(tag, now - arrive_ns);
        }
        self.array.arrive(now, tag, stream, &request, &Peek(self.devices), &mut self.out);
        self.carry_out(now, now);
    }

    fn happen(&mut self, now: Nanos, Ready { at_ns, event, .. }: Ready) {
        let (kind, name, input) = match event {
            Event::Ended(copy, End::Done) => (2, copy.0, Input::Completed(copy)),
            Event::Ended(copy, End::Failed) => (3, copy.0, Input::Failed(copy)),
            Event::Ended(copy, End::Revoked) => (0xfe, copy.0, Input::Revoked(copy)),
            Event::Ended(copy, End::Cancelled) => (0xff, copy.0, Input::Cancelled(copy)),
            Event::Timer(timer) => (4, timer.0, Input::Timer(timer)),
        };
        self.note(now, kind, name);
        self.observer.input(now, &input);
        match event {
            Event::Ended(copy, End::Done) => self.array.completed(now, copy, &mut self.out),
            Event::Ended(copy, End::Failed) => self.array.failed(now, copy, &mut self.out),
            Event::Ended(copy, End::Revoked) => self.array.revoked(now, copy, &mut self.out),
            Event::Ended(copy, End::Cancelled) => self.array.cancelled(now, copy, &mut self.out),
            Event::Timer(timer) => self.array.timer(now, timer, &Peek(self.devices), &mut self.out),
        }
        self.carry_out(now, at_ns);
    }

    /// `at_ns` is when the event came that the outputs follow, at or before `now`.
    fn carry_out(&mut self, now: Nanos, at_ns: Nanos) {
        for i in 0..self.out.len() {
            let mut output = self.out[i];
            self.see(&mut output, now - at_ns);
            self.observer.output(now, &output);
            if let Output::Complete { .. } | Output::Fail { .. } = output {
                self.arrivals.ended(now);
            }
            match output {
                Output::Submit { device, copy, request, .. } => self.submit(now, device, copy, &request),
                Output::Complete { tag, .. } | Output::Fail { tag, .. }
                    if self.first_measured.is_none_or(|first| tag < first) => {}
                Output::Complete { stream, tenant, op: Op::Read, arrive_ns, latency_ns, .. } => {
                    self.result.reads.push(stream, tenant, arrive_ns, latency_ns);
                }
                Output::Fail { stream, tenant, op: Op::Read, arrive_ns, .. } => {
                    let latency_ns = (now - arrive_ns).max(self.array.read_timeout_ns());
                    self.result.reads.push(stream, tenant, arrive_ns, latency_ns);
                }
                Output::SetTimer { at_ns, timer } => {
                    self.timers.push(at_ns.max(now), (self.order, timer));
                    self.order += 1;
                }
                Output::Cancel { device, copy, .. } => {
                    if let Some(token) = self.flights.token(copy) {
                        self.devices[device].cancel(now, token);
                    }
                }
                // Ends of writes are counted by the array.
                Output::Complete { .. } | Output::Fail { .. } => {}
            }
        }
        self.out.clear();
        self.result.end_ns = now;
        self.observer.step(now, &self.array);
    }

    /// Changes the end of a request to what the user sees, if it reached the array late or was handled this late.
    fn see(&mut self, output: &mut Output, behind_ns: Nanos) {
        match output {
            Output::Complete { tag, arrive_ns, latency_ns, .. } => {
                let late_ns = self.late_ns(*tag);
                *arrive_ns -= late_ns;
                *latency_ns = (*latency_ns + late_ns).saturating_sub(behind_ns);
            }
            Output::Fail { tag, arrive_ns, .. } => *arrive_ns -= self.late_ns(*tag),
            _ => {}
        }
    }

    /// By how much a request that ends had reached the array late.
    fn late_ns(&mut self, tag: u64) -> Nanos {
        if self.late.is_empty() { 0 } else { self.late.remove(&tag).unwrap_or(0) }
    }

    fn submit(&mut self, now: Nanos, device: usize, copy: CopyId, request: &Request) {
        self.note(now, 5 + device as u64, copy.0);
        let place = if self.log { self.result.log[device].len() } else { 0 };
        let token = self.flights.begin(Flight { copy, order: self.order, place });
        self.order += 1;
        self.devices[device].submit(now, token, request);
        if self.log {
            self.result.log[device].push(IoRecord {
                arrive_ns: now,
                latency_ns: None,
                offset_bytes: request.offset_bytes,
                size_bytes: request.size_bytes,
                device: device as u32,
                tenant: request.tenant,
                op: request.op,
            });
        }
    }

    /// Waits for copies that the array no longer waits for, because the log needs their latencies. Real devices, of which
    /// no answer is known in advance, are given up a read's time limit after the run.
    fn complete_log(&mut self) -> Result<(), Error> {
        let limit = self.result.end_ns.saturating_add(self.array.read_timeout_ns());
        while self.log && self.flights.len() > 0 {
            let due = self.devices.iter_mut().filter_map(D::next_due).min();
            match self.clock.wait(due.or(Some(limit))) {
                Waited::Ready => {}
                Waited::Idle => self.progress()?,
                Waited::Never => return Ok(()),
            }
            let now = self.clock.now();
            if due.is_none() && now >= limit {
                return Ok(());
            }
            self.gather(now);
        }
        Ok(())
    }

    fn note(&mut self, now: Nanos, kind: u64, name: u64) {
        self.result.event_hash = hashed(self.result.event_hash, now, kind, name);
    }
}

/// The hash of the events so far and of one more.
fn hashed(so_far: u64, now: Nanos, kind: u64, name: u64) -> u64 {
    let word = now ^ name.rotate_left(32) ^ (kind << 56);
    (so_far.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn earlier(one: Option<Nanos>, other: Option<Nanos>) -> Option<Nanos> {
    match (one, other) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, None) => one,
        (None, other) => other,
    }
}

/// Makes the devices' foresight available to policies.
struct Peek<'a, D>(&'a [D]);

impl<D: Device> crate::Outlook for Peek<'_, D> {
    fn peek(&self, device: usize, now: Nanos, request: &Request) -> Option<Outcome> {
        self.0.get(device).and_then(Device::foresight).map(|device| device.peek(now, request))
    }

    fn peek_until(&self, device: usize, now: Nanos, request: &Request, limit: Nanos) -> Option<Outcome> {
        self.0.get(device).and_then(Device::foresight).map(|device| device.peek_until(now, request, limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_of_an_event_and_of_those_before_it_is_in_the_hash() {
        let chance = |seed| linnet_sim::Chance::new(seed).bits();
        for seed in 0..8 {
            let event = [chance(seed), chance(seed + 8), chance(seed + 16) & 255, chance(seed + 24)];
            let hash = |[so_far, now, kind, name]: [u64; 4]| hashed(so_far, now, kind, name);
            for (part, bits) in [64, 64, 8, 64].into_iter().enumerate() {
                for bit in 0..bits {
                    let mut other = event;
                    other[part] ^= 1 << bit;
                    assert_ne!(hash(event), hash(other), "bit {bit} of part {part}");
                }
            }
        }
    }
}
