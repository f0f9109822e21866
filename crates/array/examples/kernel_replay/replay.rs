// SPDX-License-Identifier: MIT OR Apache-2.0
//! The replay: the array is told what happened in the order that the record gives each replica's events.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use linnet_array::{Array, Budget, Config, CopyId, Learned, Output, TimerId, policy};
use linnet_core::Model;
use linnet_types::Nanos;

use crate::Result;
use crate::record::{Decision, Io, Record, Step};
use crate::watched::{Notes, Watched, locked, overruling};

const POLICIES: [&str; 5] = ["baseline", "shortest-queue", "ewma-inflight", "linnos", "linnet-best"];
const LINNOS: usize = 3;
const LINNET_BEST: usize = 4;
/// `events` of a replica that would not hold still.
const NOT_SEEN: u64 = u64::MAX;
const SHOWN_MAX: u64 = 10;

/// What happened at a replica next: this read arrived, or ended.
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

/// How far a read has come.
#[derive(Clone, Copy, Default)]
struct State {
    /// Steps taken.
    steps: usize,
    /// What the next one rests on is being brought about.
    begun: bool,
    /// Sends it on from the target that revoked it last.
    timer: Option<TimerId>,
    copy: Option<CopyId>,
}

/// What the array does with a read at a target.
enum Answer {
    Submitted(usize, CopyId),
    /// The timer sends it on.
    Revoked(TimerId),
}

pub struct Replay<'a> {
    record: &'a Record,
    /// The record has come to its end.
    ended: bool,
    array: Array,
    notes: Arc<Mutex<Notes>>,
    replicas: Vec<Replica>,
    states: Vec<State>,
    out: Vec<Output>,
    taken: usize,
    compared: u64,
    elsewhere: u64,
    probes: u64,
    revokes: u64,
    undecided: u64,
    torn: u64,
    pub differences: u64,
}

/// The array's policy for a record, and who judges what it chose.
fn watched(record: &Record, kernel: usize, learned: Vec<Learned>, config: &Config) -> Result<Watched> {
    let name = *POLICIES.get(kernel).ok_or("an unknown policy")?;
    let tagged = record.decisions.iter().any(|decision| decision.tagged);
    let by_network = kernel == LINNOS || (tagged && learned[0].trees.is_none() && learned[0].network.is_some());
    let in_order = if by_network { "linnos" } else { "linnet+hl" };
    let (name, judge) = if by_network || (tagged && record.targets[0] == 1) {
        (in_order, None)
    } else {
        (name, tagged.then_some(in_order))
    };
    if by_network && kernel != LINNOS && record.targets[0] > 1 {
        return Err("the array has no policy that chooses by the averages and then asks a network".into());
    }
    Ok(Watched {
        policy: policy(name, &learned, config)?,
        judge: judge.map(|name| policy(name, &learned, config)).transpose()?,
        by_network,
        learned,
        notes: Arc::new(Mutex::new(Notes::default())),
    })
}

impl<'a> Replay<'a> {
    pub fn new(record: &'a Record, model: Option<&Model>) -> Result<Replay<'a>> {
        let first = record.decisions.iter().min_by_key(|one| one.now_ns).ok_or("no decision in the record")?;
        let several = record.targets.len() > 1;
        if several && record.targets.iter().any(|&replicas| replicas != 1) {
            return Err("several targets, and one of them with several replicas".into());
        }
        let count: usize = record.targets.iter().sum();
        let of_one = |decision: &Decision| decision.policy == first.policy && decision.known.len() == first.known.len();
        if !record.decisions.iter().all(of_one) {
            return Err("decisions of several policies in one record".into());
        }
        // What the last replica asked in order turns away goes to one that the record does not know, and the array never reads.
        let last = record.targets.len() - 1;
        let goes_on = |step: &Step| step.target == last && step.decision.is_some_and(|i| record.decisions[i].tagged);
        let in_order = first.policy == LINNOS || record.targets[0] == 1;
        let beyond = in_order && record.reads.iter().flat_map(|read| &read.steps).any(goes_on);
        let devices = count + usize::from(beyond);
        let learned = Learned {
            thresholds: model.map(|model| model.thresholds).unwrap_or_default(),
            network: model.and_then(|model| model.network.clone()),
            trees: model.and_then(|model| model.trees),
            latencies: None,
        };
        let learned = vec![learned; devices];
        // What bounds the array's own applications has no counterpart in the kernel.
        let config = Config {
            replicas: devices,
            failover_ns: 0,
            revoke_budget: Budget { share: 8.0, burst: 1_000_000_000 },
            revokes_in_row_max: u32::MAX,
            ..Config::default()
        };
        let thresholds: Vec<_> = learned.iter().map(|one| one.thresholds).collect();
        let watched = watched(record, first.policy, learned, &config)?;
        let notes = Arc::clone(&watched.notes);
        let array = Array::new(config, &thresholds, Box::new(watched))?;
        Ok(Replay {
            record,
            ended: false,
            array,
            notes,
            replicas: replicas(record, count)?,
            states: vec![State::default(); record.whole],
            out: Vec::new(),
            taken: 0,
            compared: 0,
            elsewhere: 0,
            probes: 0,
            revokes: 0,
            undecided: 0,
            torn: 0,
            differences: 0,
        })
    }

    /// Takes every decision anew.
    pub fn run(&mut self) -> Result<()> {
        for &(i, n) in &self.record.steps {
            if self.ended {
                break;
            }
            if i < self.record.whole && self.states[i].steps <= n {
                self.step(i)?;
            }
        }
        if self.compared == 0 {
            return Err("nothing could be compared".into());
        }
        Ok(())
    }

    /// Makes this many events of a replica happen. False when that cannot be, or more have happened already.
    fn bring(&mut self, k: usize, count: u64) -> Result<bool> {
        while (self.replicas[k].done as u64) < count {
            let Some(&event) = self.replicas[k].events.get(self.replicas[k].done) else {
                self.ended = self.record.whole < self.record.reads.len();
                return Ok(false);
            };
            match event {
                Event::Arrive(i) if self.states[i].begun => return Ok(false),
                Event::Arrive(i) => self.step(i)?,
                Event::End(i) => self.end(i)?,
            }
            if self.ended {
                return Ok(false);
            }
        }
        Ok(self.replicas[k].done as u64 == count)
    }

    /// Where a read was served: the device of the array, and the I/O.
    fn served(&self, i: usize) -> Option<(usize, &'a Io)> {
        served(self.record, i)
    }

    fn end(&mut self, i: usize) -> Result<()> {
        let (k, io) = self.served(i).ok_or("a read that ends nowhere")?;
        let copy = self.states[i].copy.take().ok_or("a read that ends before it arrives")?;
        let now = io.arrived_ns + io.latency_ns;
        self.out.clear();
        self.array.completed(now, copy, &mut self.out);
        self.happened(k, now);
        Ok(())
    }

    fn happened(&mut self, k: usize, now: Nanos) {
        self.replicas[k].done += 1;
        self.replicas[k].latest_ns = now;
    }

    /// Lets the array decide about a read at the target that it comes to next, with what the kernel knew.
    fn step(&mut self, i: usize) -> Result<()> {
        let read = &self.record.reads[i];
        let n = self.states[i].steps;
        let step = &read.steps[n];
        let here = self.served(i).filter(|_| n + 1 == read.steps.len());
        let decision = step.decision.map(|d| &self.record.decisions[d]);
        self.states[i].begun = true;
        let mut same = match decision {
            Some(decision) => self.bring_known(step, decision)?,
            None => true,
        };
        if let Some((k, io)) = here {
            let brought = self.bring(k, io.arrive - 1)?;
            if !brought && !self.ended {
                return Err(format!("a read of replica {k}: what came before it rests on it").into());
            }
            same &= decision.is_none_or(|decision| io.arrived_ns == decision.now_ns);
        }
        if self.ended {
            return Ok(());
        }
        let now = here.map(|(_, io)| io.arrived_ns).or(decision.map(|one| one.now_ns)).ok_or("an empty step")?;
        same &= decision.is_none_or(|decision| self.is_now(step, decision));
        self.prepare(step, decision, here.map_or(0, |(k, _)| k), same);
        let probes = self.array.counters().probes;
        let answer = self.ask(now, i)?;
        let probe = self.array.counters().probes > probes;
        if let Some((k, _)) = here {
            self.happened(k, now);
        }
        self.taken += usize::from(decision.is_some());
        match decision {
            Some(decision) if same => self.compare(step, decision, &answer, probe),
            Some(_) => self.torn += 1,
            None => self.undecided += 1,
        }
        let state = &mut self.states[i];
        (state.steps, state.begun) = (n + 1, false);
        match (answer, here) {
            (Answer::Submitted(device, copy), Some((k, io))) if device == k && probe == io.probe => {
                state.copy = Some(copy)
            }
            (Answer::Revoked(timer), None) => state.timer = Some(timer),
            _ => return Err(format!("read {i} cannot go on as it did in the kernel").into()),
        }
        Ok(())
    }

    /// Brings about what a target knew of its replicas when it decided. False when that was never so.
    fn bring_known(&mut self, step: &Step, decision: &Decision) -> Result<bool> {
        let mut same = true;
        for (leg, k) in self.devices(step).enumerate().filter(|(leg, _)| decision.eligible >> leg & 1 != 0) {
            same &= decision.seen[leg] != NOT_SEEN && self.bring(k, decision.seen[leg])?;
        }
        Ok(same)
    }

    /// Whether the target's replicas are as it knew them. The kernel's clock stands still for a replica where another
    /// CPU's is ahead; the array has one time for all.
    fn is_now(&self, step: &Step, decision: &Decision) -> bool {
        let replicas = &self.replicas[self.devices(step)];
        replicas.iter().zip(&decision.seen).all(|(one, &seen)| one.done as u64 == seen)
            && replicas.iter().all(|one| one.latest_ns <= decision.now_ns)
    }

    /// The devices of the array that a target holds.
    fn devices(&self, step: &Step) -> Range<usize> {
        let first: usize = self.record.targets[..step.target].iter().sum();
        first..first + self.record.targets[step.target]
    }

    /// Tells the policy what it is asked about.
    fn prepare(&mut self, step: &Step, decision: Option<&Decision>, device: usize, same: bool) {
        let devices = self.devices(step);
        let mut notes = locked(&self.notes);
        *notes = Notes { devices, ..Notes::default() };
        let Some(decision) = decision else { return };
        notes.tagged = decision.tagged;
        notes.by_trees = decision.policy == LINNET_BEST || (decision.tagged && decision.policy != LINNOS);
        notes.forced = (!same).then(|| overruling(decision.revoked, device, decision.probe));
    }

    /// The read comes, or is sent on to the next target; the array asks its policy until that has an answer.
    fn ask(&mut self, now: Nanos, i: usize) -> Result<Answer> {
        self.out.clear();
        match self.states[i].timer.take() {
            Some(timer) => self.array.timer(now, timer, &(), &mut self.out),
            None => self.array.arrive(now, i as u64, 0, &self.record.reads[i].request, &(), &mut self.out),
        }
        loop {
            let mut again = None;
            for output in self.out.drain(..) {
                match output {
                    Output::Submit { device, copy, .. } => return Ok(Answer::Submitted(device, copy)),
                    Output::SetTimer { timer, .. } => again = Some(timer),
                    _ => {}
                }
            }
            let again = again.ok_or("the array keeps a read to itself")?;
            if locked(&self.notes).revoked {
                return Ok(Answer::Revoked(again));
            }
            self.array.timer(now, again, &(), &mut self.out);
        }
    }

    fn compare(&mut self, step: &Step, decision: &Decision, answer: &Answer, probe: bool) {
        let Range { start, end } = self.devices(step);
        let notes = locked(&self.notes);
        let mut differ = |what: &str, kernel: &dyn fmt::Debug, ours: &dyn fmt::Debug| {
            self.differences += 1;
            if self.differences <= SHOWN_MAX {
                println!("decision {:#x}: {what} is {kernel:?} in the kernel, {ours:?} in the array", decision.id);
            }
        };
        for (leg, (theirs, ours)) in decision.known.iter().zip(&notes.known).enumerate() {
            if decision.eligible >> leg & 1 != 0 && theirs != ours {
                differ(&format!("what is known of replica {}", start + leg), theirs, ours);
            }
        }
        let (device, revoked) = match answer {
            Answer::Submitted(device, _) => (*device, false),
            Answer::Revoked(_) => (notes.chosen, true),
        };
        // Beyond the chosen one the kernel may have asked, and the array not.
        let asked = (2u64 << device.min(end)) - 1;
        if (decision.slow << start) & asked != notes.slow & asked {
            differ("slow by the network", &(decision.slow << start & asked), &(notes.slow & asked));
        }
        let theirs = (start + decision.replica, decision.probe, decision.revoked);
        if theirs != (device, probe, revoked) {
            differ("the choice (replica, probe, revoked)", &theirs, &(device, probe, revoked));
        }
        self.compared += 1;
        self.elsewhere += u64::from(device != 0);
        self.probes += u64::from(probe);
        self.revokes += u64::from(revoked);
    }
}

impl fmt::Display for Replay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} reads, {} decisions taken anew by the array ({} for another replica than the primary, {} probes, {} \
             revokes), {} reads that nothing was decided about, {} not compared, {} left out at the end, {} differences",
            self.record.reads.len(),
            self.compared,
            self.elsewhere,
            self.probes,
            self.revokes,
            self.undecided,
            self.torn,
            self.record.decisions.len() - self.taken,
            self.differences
        )
    }
}

fn served(record: &Record, i: usize) -> Option<(usize, &Io)> {
    let read = &record.reads[i];
    let io = &record.ios[read.io?];
    let first: usize = record.targets[..read.steps.last()?.target].iter().sum();
    Some((first + io.replica, io))
}

/// The events of every replica, in order.
fn replicas(record: &Record, count: usize) -> Result<Vec<Replica>> {
    let mut numbered: Vec<Vec<(u64, Event)>> = vec![Vec::new(); count];
    for i in 0..record.whole {
        let Some((k, io)) = served(record, i) else { continue };
        let events = numbered.get_mut(k).ok_or("no such replica")?;
        events.extend([(io.arrive, Event::Arrive(i)), (io.end, Event::End(i))]);
    }
    let mut replicas = Vec::new();
    for mut events in numbered {
        events.sort_by_key(|(number, _)| *number);
        let gap = events.iter().zip(1..).position(|((number, _), wanted)| *number != wanted);
        if gap.is_some_and(|at| at == 0 || record.whole == record.reads.len()) {
            return Err("events of a replica are missing: record from before the first I/O".into());
        }
        events.truncate(gap.unwrap_or(events.len()));
        let events = events.into_iter().map(|(_, event)| event).collect();
        replicas.push(Replica { events, done: 0, latest_ns: 0 });
    }
    Ok(replicas)
}
