// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run that the kernel's target recorded, replayed through the array: does it decide as the kernel did?
//!
//!     linnet dm export-trace vol --seconds 10 -o traces --decisions vol.txt
//!     cargo run --release -p linnet-array --example kernel_replay -- vol.txt [m.linnet]
//!
//! The text holds the target's two trace events (`spec/dm-target.md`) from before the first I/O of the device on. It may end while
//! reads are under way: what rests on those is left out.
//! The array gets each read when the kernel decided about it, and each completion when the kernel saw it; hedge timers are
//! never rung, since the kernel sends no hedges. Compared are the replica, whether it is a probe, what the network said of
//! each replica asked, and what was known of every one: average, I/Os in flight, score.
//!
//! Events of a replica are numbered, and a decision says how many of each it knew; so the order is that of the kernel, not of its
//! clocks. With several CPUs a decision may rest on what no single moment showed. Such a read is sent where the kernel
//! sent it, and counted instead of compared. `tests/conformance/decisions.c` compares these too, and revokes.
//!
//! The exit status is 1 when anything differs, 2 when the record cannot be used.

use std::collections::HashMap;
use std::error::Error;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linnet_array::{
    Array, Ask, Budget, Choice, Completion, Config, CopyId, Hedge, Learned, Output, Policy, Submit, TimerId, policy,
};
use linnet_core::Model;
use linnet_sim::Chance;
use linnet_types::{Nanos, Op, Request};

const POLICIES: [&str; 5] = ["baseline", "shortest-queue", "ewma-inflight", "linnos", "linnet-best"];
const REVOKE: u64 = 1;
/// `events` of a replica that would not hold still.
const NOT_SEEN: u64 = u64::MAX;
const SHOWN_MAX: u64 = 10;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

// ---- the record ----

/// `key=value` words of an event.
struct Words<'a>(HashMap<&'a str, &'a str>);

impl<'a> Words<'a> {
    fn of(line: &'a str, event: &str) -> Option<Words<'a>> {
        let (_, words) = line.split_once(event)?;
        Some(Words(words.split_whitespace().filter_map(|word| word.split_once('=')).collect()))
    }

    fn text(&self, key: &str) -> Result<&'a str> {
        Ok(self.0.get(key).ok_or_else(|| format!("an event without {key}"))?)
    }

    fn number(&self, key: &str) -> Result<u64> {
        number(self.text(key)?)
    }

    /// `{0x1,0x2}`
    fn numbers(&self, key: &str) -> Result<Vec<u64>> {
        let inner = self.text(key)?.trim_start_matches('{').trim_end_matches('}');
        inner.split(',').map(number).collect()
    }
}

fn number(text: &str) -> Result<u64> {
    let value = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    value.map_err(|_| format!("{text}: not a number").into())
}

/// A read that ended at a replica.
struct Io {
    replica: usize,
    arrived_ns: Nanos,
    latency_ns: Nanos,
    arrive: u64,
    end: u64,
}

struct Decision {
    id: u64,
    now_ns: Nanos,
    request: Request,
    policy: usize,
    replica: usize,
    probe: bool,
    eligible: u64,
    slow: u64,
    seen: Vec<u64>,
    known: Vec<Known>,
}

/// What was known of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    ewma_ns: Nanos,
    in_flight: u64,
    score: i32,
}

#[derive(Default)]
struct Record {
    ios: HashMap<u64, Io>,
    decisions: Vec<Decision>,
}

fn read_record(text: &str) -> Result<Record> {
    let mut record = Record::default();
    for line in text.lines() {
        if let Some(words) = Words::of(line, " linnet_io: ") {
            if words.text("op")? != "read" || words.text("error")? != "0" || words.text("tracked")? != "1" {
                return Err(
                    format!("only reads that the watch follows and that succeed can be replayed: {line}").into()
                );
            }
            let io = Io {
                replica: words.number("replica")? as usize,
                arrived_ns: words.number("arrived_ns")?,
                latency_ns: words.number("latency_ns")?,
                arrive: words.number("arrive")?,
                end: words.number("end")?,
            };
            record.ios.insert(words.number("id")?, io);
        } else if let Some(words) = Words::of(line, " linnet_decision: ") {
            if words.number("verdict")? == REVOKE || words.number("tagged")? != 0 {
                return Err("reads that may be revoked are the application's to send on, not the array's".into());
            }
            let (ewma_ns, in_flight) = (words.numbers("ewma_ns")?, words.numbers("inflight")?);
            let scores = words.numbers("score")?;
            let known = ewma_ns.iter().zip(&in_flight).zip(&scores);
            record.decisions.push(Decision {
                id: words.number("id")?,
                now_ns: words.number("ns")?,
                request: Request {
                    offset_bytes: 512 * words.number("sector")?,
                    size_bytes: words.number("size")? as u32,
                    op: Op::Read,
                },
                policy: words.number("policy")? as usize,
                replica: words.number("replica")? as usize,
                probe: words.number("probe")? != 0,
                eligible: words.number("eligible")?,
                slow: words.number("slow")?,
                seen: words.numbers("events")?,
                known: known
                    .map(|((&ewma_ns, &in_flight), &score)| Known { ewma_ns, in_flight, score: score as u32 as i32 })
                    .collect(),
            });
        } else if line.contains("LOST") {
            return Err(format!("events were lost: {line}").into());
        }
    }
    record.decisions.sort_by_key(|decision| (decision.now_ns, decision.id));
    Ok(record)
}

// ---- the policy, watched ----

/// What passes between the replay and the policy that it watches.
#[derive(Default)]
struct Notes {
    /// Send the read here, whatever the policy thinks.
    forced: Option<Submit>,
    known: Vec<Known>,
    slow: u64,
}

/// The array's own policy. What it is shown and what it says is noted.
struct Watched {
    policy: Box<dyn Policy>,
    learned: Vec<Learned>,
    notes: Arc<Mutex<Notes>>,
}

fn locked(notes: &Mutex<Notes>) -> MutexGuard<'_, Notes> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watched {
    fn known(&self, ask: &Ask<'_>, device: usize) -> Known {
        let view = &ask.devices[device];
        let Request { offset_bytes, size_bytes, .. } = *ask.request;
        let score = match (&view.watch, &self.learned[device].trees) {
            (Some(watch), Some(trees)) => trees.score(&watch.describe(ask.now_ns, offset_bytes, size_bytes)),
            _ => 0,
        };
        Known { ewma_ns: view.ewma_ns, in_flight: view.in_flight.into(), score }
    }
}

impl Policy for Watched {
    fn name(&self) -> &str {
        self.policy.name()
    }

    fn judges(&self) -> bool {
        self.policy.judges()
    }

    fn learns(&self) -> bool {
        self.policy.learns()
    }

    fn watches(&self) -> bool {
        self.policy.watches()
    }

    fn choose(&mut self, ask: &Ask<'_>, chance: &mut Chance) -> Choice {
        let mut notes = locked(&self.notes);
        if ask.first {
            notes.slow = 0;
            notes.known = (0..ask.devices.len()).map(|device| self.known(ask, device)).collect();
        }
        if let Some(forced) = notes.forced {
            return Choice::Submit(forced);
        }
        let choice = self.policy.choose(ask, chance);
        if matches!(choice, Choice::Revoke { .. }) {
            notes.slow |= 1 << ask.next;
        }
        choice
    }

    fn hedge(&mut self, _ask: &Ask<'_>) -> Hedge {
        Hedge::Never
    }

    fn completed(&mut self, done: &Completion) {
        self.policy.completed(done);
    }
}

// ---- the replay ----

/// What happened at a replica next: a read of this decision arrived, or this one's ended.
#[derive(Clone, Copy)]
enum Event {
    Arrive(usize),
    End(usize),
}

struct Replica {
    events: Vec<Event>,
    /// How many of them have happened.
    done: usize,
    latest_ns: Nanos,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Ahead,
    /// What it rests on is being brought about.
    Begun,
    Taken,
}

struct Replay<'a> {
    record: &'a Record,
    /// Decisions up to the first whose read the record does not see the end of.
    whole: usize,
    /// The record has come to its end.
    ended: bool,
    array: Array,
    notes: Arc<Mutex<Notes>>,
    replicas: Vec<Replica>,
    states: Vec<State>,
    copies: HashMap<u64, CopyId>,
    out: Vec<Output>,
    compared: u64,
    elsewhere: u64,
    probes: u64,
    torn: u64,
    differences: u64,
}

impl<'a> Replay<'a> {
    fn new(record: &'a Record, model: Option<&Model>) -> Result<Replay<'a>> {
        let first = record.decisions.first().ok_or("no decision in the record")?;
        let count = first.known.len();
        let name = *POLICIES.get(first.policy).ok_or("an unknown policy")?;
        let learned = Learned {
            profile: model.map(|model| model.profile).unwrap_or_default(),
            network: model.and_then(|model| model.network.clone()),
            trees: model.and_then(|model| model.trees),
            latencies: None,
        };
        let learned = vec![learned; count];
        // What bounds the array's own applications has no counterpart in the kernel.
        let config = Config {
            replicas: count,
            failover_ns: 0,
            revoke_budget: Budget { share: 8.0, burst: 1_000_000_000 },
            revokes_in_row_max: u32::MAX,
            ..Config::default()
        };
        let notes = Arc::new(Mutex::new(Notes::default()));
        let inner = policy(name, &learned, &config)?;
        let profiles: Vec<_> = learned.iter().map(|one| one.profile).collect();
        let watched = Watched { policy: inner, learned, notes: Arc::clone(&notes) };
        let array = Array::new(config, &profiles, Box::new(watched))?;

        let under_way = record.decisions.iter().position(|decision| !record.ios.contains_key(&decision.id));
        let whole = under_way.unwrap_or(record.decisions.len());
        let mut numbered: Vec<Vec<(u64, Event)>> = vec![Vec::new(); count];
        for (i, decision) in record.decisions[..whole].iter().enumerate() {
            if decision.policy != first.policy || decision.known.len() != count || decision.seen.len() != count {
                return Err("decisions of several policies or devices in one record".into());
            }
            let io = &record.ios[&decision.id];
            let events = numbered.get_mut(io.replica).ok_or("no such replica")?;
            events.extend([(io.arrive, Event::Arrive(i)), (io.end, Event::End(i))]);
        }
        let mut replicas = Vec::new();
        for mut events in numbered {
            events.sort_by_key(|(number, _)| *number);
            let gap = events.iter().zip(1..).position(|((number, _), wanted)| *number != wanted);
            if gap.is_some_and(|at| at == 0 || under_way.is_none()) {
                return Err("events of a replica are missing: record from before the first I/O".into());
            }
            events.truncate(gap.unwrap_or(events.len()));
            replicas.push(Replica {
                events: events.into_iter().map(|(_, event)| event).collect(),
                done: 0,
                latest_ns: 0,
            });
        }
        Ok(Replay {
            record,
            whole,
            ended: false,
            array,
            notes,
            replicas,
            states: vec![State::Ahead; whole],
            copies: HashMap::new(),
            out: Vec::new(),
            compared: 0,
            elsewhere: 0,
            probes: 0,
            torn: 0,
            differences: 0,
        })
    }

    /// Makes this many events of a replica happen. False when that cannot be, or more have happened already.
    fn bring(&mut self, k: usize, count: u64) -> Result<bool> {
        while (self.replicas[k].done as u64) < count {
            let Some(&event) = self.replicas[k].events.get(self.replicas[k].done) else {
                self.ended = self.whole < self.record.decisions.len();
                return Ok(false);
            };
            match event {
                Event::Arrive(i) if self.states[i] == State::Begun => return Ok(false),
                Event::Arrive(i) => self.decide(i)?,
                Event::End(i) => self.end(i)?,
            }
            if self.ended {
                return Ok(false);
            }
        }
        Ok(self.replicas[k].done as u64 == count)
    }

    fn io(&self, i: usize) -> &'a Io {
        &self.record.ios[&self.record.decisions[i].id]
    }

    fn end(&mut self, i: usize) -> Result<()> {
        let (io, id) = (self.io(i), self.record.decisions[i].id);
        let copy = self.copies.remove(&id).ok_or("a read that ends before it arrives")?;
        let now = io.arrived_ns + io.latency_ns;
        self.out.clear();
        self.array.completed(now, copy, &mut self.out);
        self.happened(io.replica, now);
        Ok(())
    }

    fn happened(&mut self, k: usize, now: Nanos) {
        self.replicas[k].done += 1;
        self.replicas[k].latest_ns = now;
    }

    /// Lets the array decide about a read, with what the kernel knew.
    fn decide(&mut self, i: usize) -> Result<()> {
        let (decision, io) = (&self.record.decisions[i], self.io(i));
        self.states[i] = State::Begun;
        let mut same = true;
        for k in (0..decision.known.len()).filter(|k| decision.eligible >> k & 1 != 0) {
            same &= decision.seen[k] != NOT_SEEN && self.bring(k, decision.seen[k])?;
        }
        let brought = self.bring(io.replica, io.arrive - 1)?;
        if self.ended {
            return Ok(());
        }
        if !brought {
            return Err(format!("read {:#x}: what came before it rests on it", decision.id).into());
        }
        same &= decision.seen.iter().zip(&self.replicas).all(|(&seen, replica)| replica.done as u64 == seen);
        // The kernel's clock stands still where another CPU's is ahead; the array has one time for all.
        same &= io.arrived_ns == decision.now_ns;
        same &= self.replicas.iter().all(|replica| replica.latest_ns <= decision.now_ns);

        let probes = self.array.counters().probes;
        let forced = Submit { probe: decision.probe, ..Submit::to(io.replica) };
        locked(&self.notes).forced = (!same).then_some(forced);
        let (device, copy) = self.arrive(io.arrived_ns, decision)?;
        self.copies.insert(decision.id, copy);
        self.states[i] = State::Taken;
        self.happened(io.replica, io.arrived_ns);
        if !same {
            self.torn += 1;
        } else {
            self.compare(decision, device, self.array.counters().probes > probes);
        }
        if device != io.replica {
            return Err(format!("read {:#x} cannot go on at replica {}", decision.id, io.replica).into());
        }
        Ok(())
    }

    /// A read arrives, and is revoked and sent on until the array submits it.
    fn arrive(&mut self, now: Nanos, decision: &Decision) -> Result<(usize, CopyId)> {
        self.out.clear();
        self.array.arrive(now, decision.id, 0, &decision.request, &(), &mut self.out);
        loop {
            let mut again: Option<TimerId> = None;
            for output in self.out.drain(..) {
                match output {
                    Output::Submit { device, copy, .. } => return Ok((device, copy)),
                    Output::SetTimer { timer, .. } => again = Some(timer),
                    _ => {}
                }
            }
            let again = again.ok_or("the array keeps a read to itself")?;
            self.array.timer(now, again, &(), &mut self.out);
        }
    }

    fn compare(&mut self, decision: &Decision, device: usize, probe: bool) {
        let notes = locked(&self.notes);
        let mut differ = |what: &str, kernel: &dyn std::fmt::Debug, ours: &dyn std::fmt::Debug| {
            self.differences += 1;
            if self.differences <= SHOWN_MAX {
                println!("decision {:#x}: {what} is {kernel:?} in the kernel, {ours:?} in the array", decision.id);
            }
        };
        for (k, (theirs, ours)) in decision.known.iter().zip(&notes.known).enumerate() {
            if decision.eligible >> k & 1 != 0 && theirs != ours {
                differ(&format!("what is known of replica {k}"), theirs, ours);
            }
        }
        // Beyond the chosen one the kernel may have asked, and the array not.
        let asked = (2u64 << device) - 1;
        if decision.slow & asked != notes.slow & asked {
            differ("slow by the network", &(decision.slow & asked), &(notes.slow & asked));
        }
        if (decision.replica, decision.probe) != (device, probe) {
            differ("the choice (replica, probe)", &(decision.replica, decision.probe), &(device, probe));
        }
        self.compared += 1;
        self.elsewhere += u64::from(device != 0);
        self.probes += u64::from(probe);
    }
}

fn replay() -> Result<bool> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: kernel_replay RECORD [MODEL]")?;
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let model = match arguments.next().filter(|path| !path.is_empty()) {
        Some(path) => Some(Model::from_bytes(&std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?)?),
        None => None,
    };
    let record = read_record(&text)?;
    let mut replay = Replay::new(&record, model.as_ref())?;
    let mut stopped = None;
    for i in 0..replay.whole {
        if replay.ended {
            break;
        }
        if replay.states[i] == State::Ahead
            && let Err(error) = replay.decide(i)
        {
            stopped = Some(error);
            break;
        }
    }
    let taken = (replay.compared + replay.torn) as usize;
    println!(
        "{} reads, {} decisions taken anew by the array ({} for another replica than the primary, {} probes), {} not \
         compared, {} left out at the end, {} differences",
        record.ios.len(),
        replay.compared,
        replay.elsewhere,
        replay.probes,
        replay.torn,
        record.decisions.len() - taken,
        replay.differences
    );
    match stopped {
        Some(error) if replay.differences == 0 => Err(error),
        _ => Ok(replay.differences == 0),
    }
}

fn main() -> ExitCode {
    match replay() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("kernel_replay: {error}");
            ExitCode::from(2)
        }
    }
}
