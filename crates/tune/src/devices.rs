// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of whole devices: what files begin with when they are opened. A device moves only where nearly everything
//! that is read from it asks for the same.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::bdi::Bdi;
use crate::device::{Device, Found, Rivals};
use crate::error::Result;
use crate::event::Event;
use crate::govern::WINDOW;
use crate::host::Host;
use crate::journal::Journal;
use crate::mounts::mounts;
use crate::openfile::is_sequential;
use crate::rule::{Class, DEFAULT_KIB, Decider};

/// The share of what is read that moves a device.
const DOMINANT: f64 = 0.8;
/// Fewer pages read in a window move no device.
const PAGES_MIN: u64 = 32;

struct Whole {
    device: Device,
    began: Duration,
    /// Pages read in this window for random reads and runs, and for reads in order.
    scattered: u64,
    ordered: u64,
}

/// How a device's value is moved.
pub(crate) struct Moves<'a> {
    /// Values are explained and not set.
    pub(crate) dry_run: bool,
    /// Only devices are set: files depend on them, so random reads get the smallest value.
    pub(crate) alone: bool,
    /// Knows the value for reads in order.
    pub(crate) decider: &'a dyn Decider,
}

/// Devices by the name of their backing device.
#[derive(Default)]
pub(crate) struct Devices {
    all: HashMap<String, Whole>,
    /// Those whose value cannot be read, although they are there.
    unreadable: HashSet<String>,
    /// What is to be told of these.
    news: Vec<Event>,
    /// When it was looked last whether devices were replaced.
    checked: Duration,
}

fn target(bdis: &[Bdi], name: &str) -> String {
    bdis.iter().find(|bdi| bdi.name == name).map_or_else(|| name.to_owned(), Bdi::target)
}

impl Devices {
    /// The value that a new file of the device has. None where it cannot be read: the device went away, or the next look
    /// says why.
    pub(crate) fn value_of(
        &mut self,
        host: &Host,
        bdi: &Bdi,
        now: Duration,
        rivals: Rivals,
        backoff: Duration,
    ) -> Option<u32> {
        if !self.all.contains_key(&bdi.name) {
            let knob = bdi.knob(host);
            match bdi.known().and_then(|()| Device::open(host, &knob, rivals, backoff)) {
                Ok(device) => {
                    self.all.insert(bdi.name.clone(), Whole { device, began: now, scattered: 0, ordered: 0 });
                }
                Err(error) => {
                    let is_there = !bdi.among.is_empty() || host.has(&knob);
                    if is_there && self.unreadable.insert(bdi.name.clone()) {
                        self.news.push(Event::note("note", bdi.target(), format!("its files are left alone: {error}")));
                    }
                    return None;
                }
            }
        }
        Some(self.all[&bdi.name].device.expected_kib())
    }

    /// Counts pages that were read from a device.
    pub(crate) fn count(&mut self, name: &str, class: Class, pages: u64) {
        if let Some(whole) = self.all.get_mut(name) {
            let ordered = matches!(class, Class::Sequential | Class::Reverse);
            *(if ordered { &mut whole.ordered } else { &mut whole.scattered }) += pages;
        }
    }

    /// True where somebody else's decision stands for the device and its files.
    pub(crate) fn is_decided(&self, name: &str, now: Duration) -> bool {
        self.all.get(name).is_some_and(|whole| whole.device.is_decided(now))
    }

    /// The value from before us.
    pub(crate) fn original_kib(&self, name: &str) -> Option<u32> {
        self.all.get(name).map(|whole| whole.device.original_kib())
    }

    /// Forgets devices whose knob another one has by now: that one keeps its value. What is to be told of them.
    fn forget_replaced(&mut self, host: &Host, journal: &mut Journal) -> Vec<Event> {
        let mounted = if self.all.is_empty() { Vec::new() } else { mounts(host, "self") };
        let mut events = Vec::new();
        self.all.retain(|_, Whole { device, .. }| {
            let Some(why) = device.replaced(&mounted) else { return true };
            if device.written_kib().is_some() {
                events.push(Event::note("note", device.knob(), why));
                journal.forget_device(device.knob());
                events.extend(journal.save().err().map(|error| Event::note("note", device.knob(), error.to_string())));
            }
            false
        });
        events
    }

    /// Has somebody else set a device? A device that went away, or was replaced, is forgotten.
    pub(crate) fn look(&mut self, host: &Host, now: Duration, journal: &mut Journal, bdis: &[Bdi]) -> Vec<Event> {
        let mut events = std::mem::take(&mut self.news);
        if now >= self.checked + WINDOW {
            self.checked = now;
            events.extend(self.forget_replaced(host, journal));
        }
        self.all.retain(|name, whole| {
            let Ok(found) = whole.device.look(now, journal) else {
                // Another device may come by its name, and must not get its value.
                journal.forget_device(whole.device.knob());
                if let Err(error) = journal.save() {
                    events.push(Event::note("note", target(bdis, name), error.to_string()));
                }
                return false;
            };
            if let Found::Changed { kib, ours_kib, wait, original } = found {
                let seconds = wait.as_secs();
                let why = if original {
                    format!("something put the old value back: it stands, and we set ours again in {seconds} s")
                } else {
                    format!("somebody set it: that stands, and we leave the device alone for {seconds} s")
                };
                events.push(Event {
                    from_kib: Some(ours_kib),
                    to_kib: Some(kib),
                    ..Event::note("rival", target(bdis, name), why)
                });
            }
            true
        });
        events
    }

    /// Moves devices on which one way of reading dominates.
    pub(crate) fn set(
        &mut self,
        now: Duration,
        moves: &Moves<'_>,
        journal: &mut Journal,
        bdis: &[Bdi],
    ) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        for (name, whole) in &mut self.all {
            match whole.set(now, moves, journal, || target(bdis, name)) {
                // The next look forgets it.
                Err(_) if whole.device.is_gone() => {}
                set => events.extend(set?),
            }
        }
        Ok(events)
    }

    /// Puts every value back, whatever happens to others; the last error is given.
    pub(crate) fn restore(
        &mut self,
        host: &Host,
        journal: &mut Journal,
        bdis: &[Bdi],
        tell: &mut dyn FnMut(&Event),
    ) -> Result<()> {
        self.forget_replaced(host, journal).iter().for_each(&mut *tell);
        let mut problem = None;
        for (name, whole) in &mut self.all {
            match whole.device.restore(journal) {
                Ok(true) => {
                    let to_kib = Some(whole.device.original_kib());
                    let why = "the end: its value from before";
                    tell(&Event { to_kib, applied: true, ..Event::note("restore", target(bdis, name), why) });
                }
                Ok(false) => {}
                // Another device may come by its name, and must not get its value.
                Err(_) if whole.device.is_gone() => {
                    journal.forget_device(whole.device.knob());
                    problem = journal.save().err().or(problem);
                }
                Err(error) => problem = Some(error),
            }
        }
        problem.map_or(Ok(()), Err)
    }
}

impl Whole {
    /// The value that this window's reads ask for, why, and how large their share is. None where no way of reading
    /// dominates.
    fn wanted(&self, moves: &Moves<'_>) -> Option<(u32, String, f64)> {
        let share = self.scattered as f64 / (self.scattered + self.ordered) as f64;
        let original = self.device.original_kib();
        let says = |share: f64, how| {
            let percent = 100.0 * share;
            (format!("{percent:.0} % of the pages read are {how}; files opened from now on"), share)
        };
        if share >= DOMINANT {
            let small = if moves.alone { 8 } else { original.min(DEFAULT_KIB) };
            let (why, share) = says(share, "for scattered reads");
            Some((small, why, share))
        } else if share <= 1.0 - DOMINANT {
            let (why, share) = says(1.0 - share, "in order");
            Some((moves.decider.ordered_kib(original), why, share))
        } else {
            None
        }
    }

    fn set(
        &mut self,
        now: Duration,
        moves: &Moves<'_>,
        journal: &mut Journal,
        target: impl FnOnce() -> String,
    ) -> Result<Option<Event>> {
        if now < self.began + WINDOW {
            return Ok(None);
        }
        let pages = self.scattered + self.ordered;
        let wanted = if pages < PAGES_MIN || self.device.is_theirs(now) { None } else { self.wanted(moves) };
        (self.began, self.scattered, self.ordered) = (now, 0, 0);
        let Some((to, why, share)) = wanted else { return Ok(None) };
        if self.device.stands_for(to) {
            return Ok(None);
        }
        let original = self.device.original_kib();
        // Files that were opened before would look as if their owners had advised SEQUENTIAL.
        if !moves.alone && is_sequential(original, to) {
            return Ok(None);
        }
        let stands = self.device.expected_kib();
        let mut now_kib = to;
        let applied = if moves.dry_run {
            false
        } else if to == original && self.device.written_kib().is_some() {
            self.device.restore(journal)?
        } else {
            now_kib = self.device.set(to, journal)?;
            true
        };
        if moves.dry_run && self.device.written_kib().is_none() && to == original {
            return Ok(None);
        }
        let why = if now_kib == to { why } else { format!("{why}; the device makes {now_kib} of {to} KiB") };
        Ok(Some(Event {
            from_kib: Some(stands),
            to_kib: Some(now_kib),
            confidence: share,
            applied,
            ..Event::note("decision", target(), why)
        }))
    }
}
