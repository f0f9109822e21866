// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the target's trace events say, put together to reads: which targets each met, in which order, and where it was served.
//!
//! An application that fails over sends a read that one target revokes to the next, and the last it reads without the tag. The
//! events do not name its reads, so a read that reaches a target is taken for the one of the same place and size that has
//! waited longest since the target before revoked it. Which of two equal ones it was makes no difference to any replica.

use std::collections::{HashMap, VecDeque};

use linnet_types::{Nanos, Op, Request};

use crate::Result;

const REVOKE: u64 = 1;

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
pub struct Io {
    target: usize,
    id: u64,
    pub replica: usize,
    offset: u64,
    size: u32,
    pub arrived_ns: Nanos,
    pub latency_ns: Nanos,
    pub arrive: u64,
    pub end: u64,
    pub probe: bool,
}

pub struct Decision {
    target: usize,
    pub id: u64,
    pub now_ns: Nanos,
    request: Request,
    pub policy: usize,
    pub replica: usize,
    pub revoked: bool,
    pub tagged: bool,
    pub probe: bool,
    pub eligible: u64,
    pub slow: u64,
    pub seen: Vec<u64>,
    pub known: Vec<Known>,
    io: Option<usize>,
}

/// What was known of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub ewma_ns: Nanos,
    pub in_flight: u64,
    pub score: i32,
}

/// A target that a read came to.
pub struct Step {
    /// In the order in which reads fail over.
    pub target: usize,
    /// The target's decision. None: it had nothing to decide.
    pub decision: Option<usize>,
}

/// A read of the application's.
pub struct Read {
    pub request: Request,
    pub steps: Vec<Step>,
    /// Where it was served. None: revoked by the last target, or still under way.
    pub io: Option<usize>,
    /// The record does not see its end.
    open: bool,
}

pub struct Record {
    pub ios: Vec<Io>,
    pub decisions: Vec<Decision>,
    /// By the time of their first event.
    pub reads: Vec<Read>,
    /// The steps of all reads by time: the read, and how many steps it took before.
    pub steps: Vec<(usize, usize)>,
    /// How many of them come before the first whose end the record does not see.
    pub whole: usize,
    /// Replicas of each target.
    pub targets: Vec<usize>,
}

/// A number for the name of a target, by first appearance.
fn number_of<'a>(name: &'a str, names: &mut Vec<&'a str>) -> usize {
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}

fn io_of(words: &Words<'_>, target: usize) -> Result<Io> {
    Ok(Io {
        target,
        id: words.number("id")?,
        replica: words.number("replica")? as usize,
        offset: words.number("offset")?,
        size: words.number("size")? as u32,
        arrived_ns: words.number("arrived_ns")?,
        latency_ns: words.number("latency_ns")?,
        arrive: words.number("arrive")?,
        end: words.number("end")?,
        probe: words.number("probe")? != 0,
    })
}

fn decision_of(words: &Words<'_>, target: usize) -> Result<Decision> {
    let (ewma_ns, in_flight) = (words.numbers("ewma_ns")?, words.numbers("inflight")?);
    let scores = words.numbers("score")?;
    let known = ewma_ns.iter().zip(&in_flight).zip(&scores);
    Ok(Decision {
        target,
        id: words.number("id")?,
        now_ns: words.number("ns")?,
        request: Request::new(Op::Read, 512 * words.number("sector")?, words.number("size")? as u32),
        policy: words.number("policy")? as usize,
        replica: words.number("replica")? as usize,
        revoked: words.number("verdict")? == REVOKE,
        tagged: words.number("tagged")? != 0,
        probe: words.number("probe")? != 0,
        eligible: words.number("eligible")?,
        slow: words.number("slow")?,
        seen: words.numbers("events")?,
        known: known
            .map(|((&ewma_ns, &in_flight), &score)| Known { ewma_ns, in_flight, score: score as u32 as i32 })
            .collect(),
        io: None,
    })
}

/// A read comes to a target: by a decision, or by an I/O that nothing was decided about.
#[derive(Clone, Copy)]
enum Coming {
    Decided(usize),
    Plain(usize),
}

impl Record {
    pub fn read(text: &str) -> Result<Record> {
        let mut record = Record {
            ios: Vec::new(),
            decisions: Vec::new(),
            reads: Vec::new(),
            steps: Vec::new(),
            whole: 0,
            targets: Vec::new(),
        };
        let mut names = Vec::new();
        for line in text.lines() {
            if let Some(words) = Words::of(line, " linnet_io: ") {
                if words.text("op")? != "read" || words.text("error")? != "0" || words.text("tracked")? != "1" {
                    return Err(
                        format!("only reads that the watch follows and that succeed can be replayed: {line}").into()
                    );
                }
                record.ios.push(io_of(&words, number_of(words.text("dev")?, &mut names))?);
            } else if let Some(words) = Words::of(line, " linnet_decision: ") {
                record.decisions.push(decision_of(&words, number_of(words.text("dev")?, &mut names))?);
            } else if line.contains("LOST") {
                return Err(format!("events were lost: {line}").into());
            }
        }
        let coming = record.order(names.len());
        record.put_together(&coming)?;
        Ok(record)
    }

    /// All that came to targets, by time. Targets are numbered as reads fail over: in the order of the first read that
    /// reached them.
    fn order(&mut self, names: usize) -> Vec<Coming> {
        let served: HashMap<_, _> = self.ios.iter().enumerate().map(|(i, io)| ((io.target, io.id), i)).collect();
        let mut plain = vec![true; self.ios.len()];
        for decision in &mut self.decisions {
            decision.io = served.get(&(decision.target, decision.id)).copied().filter(|_| !decision.revoked);
            if let Some(i) = decision.io {
                plain[i] = false;
            }
        }
        let mut coming: Vec<Coming> = (0..self.decisions.len()).map(Coming::Decided).collect();
        coming.extend((0..self.ios.len()).filter(|&i| plain[i]).map(Coming::Plain));
        coming.sort_by_key(|&one| match one {
            Coming::Decided(i) => (self.decisions[i].now_ns, self.decisions[i].id),
            Coming::Plain(i) => (self.ios[i].arrived_ns, self.ios[i].id),
        });
        let mut numbers: Vec<Option<usize>> = vec![None; names];
        for &one in &coming {
            let (name, replicas) = match one {
                Coming::Decided(i) => (self.decisions[i].target, self.decisions[i].known.len()),
                Coming::Plain(i) => (self.ios[i].target, 1),
            };
            if numbers[name].is_none() {
                numbers[name] = Some(self.targets.len());
                self.targets.push(replicas);
            }
        }
        let renumber = |target: &mut usize| *target = numbers[*target].unwrap_or(0);
        self.decisions.iter_mut().for_each(|one| renumber(&mut one.target));
        self.ios.iter_mut().for_each(|one| renumber(&mut one.target));
        coming
    }

    fn put_together(&mut self, coming: &[Coming]) -> Result<()> {
        // Where the targets begin on their drives, told by the reads that were decided.
        let begins = |one: &Decision| self.ios[one.io?].offset.checked_sub(one.request.offset_bytes);
        let start = self.decisions.iter().find_map(begins).unwrap_or(0);
        let mut waiting: HashMap<(usize, u64, u32), VecDeque<usize>> = HashMap::new();
        for &one in coming {
            let (target, request, io) = match one {
                Coming::Decided(i) => (self.decisions[i].target, self.decisions[i].request, self.decisions[i].io),
                Coming::Plain(i) => {
                    let offset_bytes = self.ios[i].offset.wrapping_sub(start);
                    (self.ios[i].target, Request::new(Op::Read, offset_bytes, self.ios[i].size), Some(i))
                }
            };
            let place = |target| (target, request.offset_bytes, request.size_bytes);
            let before = waiting.get_mut(&place(target)).and_then(VecDeque::pop_front);
            let read = match before {
                Some(read) => read,
                None if target == 0 => {
                    self.reads.push(Read { request, steps: Vec::new(), io: None, open: true });
                    self.reads.len() - 1
                }
                None => return Err(format!("target {target} is asked for a read that no other revoked").into()),
            };
            let decision = match one {
                Coming::Decided(i) => Some(i),
                Coming::Plain(_) => None,
            };
            self.steps.push((read, self.reads[read].steps.len()));
            self.reads[read].steps.push(Step { target, decision });
            self.reads[read].io = io;
            let revoked = decision.is_some_and(|i| self.decisions[i].revoked);
            // The last target's revokes go where the record does not see.
            self.reads[read].open = io.is_none() && !(revoked && target + 1 == self.targets.len());
            if revoked && target + 1 < self.targets.len() {
                waiting.entry(place(target + 1)).or_default().push_back(read);
            }
        }
        self.whole = self.reads.iter().position(|read| read.open).unwrap_or(self.reads.len());
        Ok(())
    }
}
