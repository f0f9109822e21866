// SPDX-License-Identifier: MIT OR Apache-2.0
//! From proposals for files to the values of their descriptors.

use std::collections::HashMap;
use std::time::Duration;

use crate::advised::Advised;
use crate::bdi::{Bdi, of_files};
use crate::clock::processor_time;
use crate::error::Result;
use crate::event::Event;
use crate::govern::{Proposal, WINDOW};
use crate::host::Host;
use crate::journal::{At, Journal};
use crate::memory::soon_held;
use crate::mounts::{Mount, mounts};
use crate::names::Names;
use crate::observe::{Observer, Reader};
use crate::openfile::{Change, Descriptor, FileId, is_sequential, set};
use crate::track::Track;

/// A file that cannot be set is looked at again after this long.
const AGAIN: Duration = Duration::from_secs(10);
/// Why a file keeps its value that is read at random; asked again after a window.
const SOON_HELD: &str = "all that its group reads may soon be in memory";
/// Files that were opened since are looked for so often, or less where looking takes long.
const REFRESH: Duration = Duration::from_secs(2);
/// Looking may take one part of so many.
const REFRESH_SHARE: u32 = 1000;
/// And one part of so many where a file is read again after a pause, which most often means that it was opened again.
const REFRESH_SHARE_RESUMED: u32 = 20;
/// Setting files that takes longer than this may take one part of so many: the journal, which is written before and after,
/// has an entry for each open file that was set.
const LONG: Duration = Duration::from_millis(100);
const SHARE_LONG: u32 = 5;

/// What applying needs of the tuner.
pub(crate) struct Context<'a> {
    pub(crate) host: &'a Host,
    pub(crate) observer: &'a mut dyn Observer,
    pub(crate) journal: &'a mut Journal,
    pub(crate) names: &'a mut Names,
    pub(crate) bdis: &'a [Bdi],
    pub(crate) tracks: &'a mut HashMap<Key, Track>,
    pub(crate) advised: &'a Advised,
    pub(crate) dry_run: bool,
}

/// Sets files, and those that are opened later.
#[derive(Default)]
pub(crate) struct Files {
    refreshed: Duration,
    /// The last look at files whose true value was not known.
    learned: Duration,
    /// Processor time of the last look.
    took: Duration,
    resumed: bool,
    /// No proposal is carried out before.
    set_from: Duration,
    /// What a device's knob makes of values that it does not take.
    bounds: Bounds,
}

/// By knob and asked value, the value that stands.
type Bounds = HashMap<(String, u32), u32>;

fn bounded(bounds: &Bounds, knob: &str, kib: u32) -> u32 {
    bounds.get(&(knob.to_owned(), kib)).copied().unwrap_or(kib)
}

/// A file under one control group. Those who read it with a value of its owner's are looked at apart: what they read is
/// explained and never acted on, and says nothing of the value that the others have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) file: FileId,
    pub(crate) cgroup: u64,
    pub(crate) advised: bool,
}

impl Key {
    fn is_of(self, d: &Descriptor) -> bool {
        (d.file, d.cgroup) == (self.file, self.cgroup)
    }
}

/// The descriptors that may be set, or why none may.
fn settable<'a>(
    open: &'a [Descriptor],
    key: Key,
    device_kib: u32,
    original_kib: u32,
    context: &Context,
) -> std::result::Result<Vec<&'a Descriptor>, String> {
    let mine: Vec<&Descriptor> = open.iter().filter(|d| key.is_of(d)).collect();
    if mine.is_empty() {
        return Err("no process has it open: a file that is mapped and closed cannot be reached".into());
    }
    let advice = |d: &Descriptor| d.advice_of_owner(device_kib, original_kib, context.journal);
    let free: Vec<&Descriptor> = mine.iter().copied().filter(|d| advice(d).is_none()).collect();
    if free.is_empty() || key.advised {
        let mapped = context.advised.get(&key.file).map(|advice| advice.why());
        return Err(mine.iter().find_map(|d| advice(d)).or(mapped).unwrap_or("its owner gave advice").to_owned());
    }
    Ok(free)
}

/// A file that is about to be set.
struct Planned {
    key: Key,
    event: Event,
    kib: u32,
    of: Vec<At>,
}

impl Planned {
    /// What is told of it. Where the system refused all its descriptors, the file is left alone for a while.
    fn end(self, now: Duration, track: &mut Track, unset: &Unset) -> Option<Event> {
        let refused: Vec<&String> = self.of.iter().filter_map(|of| unset.get(of)).collect();
        let Some(reason) = refused.first().filter(|_| refused.len() == self.of.len()) else {
            // The governor keeps what it asked for, so that it does not ask again.
            track.governor.changed(now, self.kib);
            return (!self.of.is_empty()).then_some(self.event);
        };
        track.refused(now, AGAIN);
        let why = format!("left alone, {reason} ({})", self.event.why);
        let event = Event { kind: "skip", to_kib: self.event.from_kib, applied: false, why, ..self.event };
        track.is_news(reason).then_some(event)
    }
}

impl Files {
    /// True where a file is read with a value of its owner's.
    pub(crate) fn is_advised(
        reader: Reader,
        file: FileId,
        device_kib: u32,
        original_kib: u32,
        journal: &Journal,
    ) -> bool {
        let Reader::Above(kib) = reader else { return reader == Reader::Advised };
        (is_sequential(kib, device_kib) || is_sequential(kib, original_kib))
            && !journal.files.of(file).any(|entry| entry.is_value(kib))
    }

    /// False while setting would take too much of the time: proposals are refused then.
    pub(crate) fn may_set(&self, now: Duration) -> bool {
        now >= self.set_from
    }

    /// Setting files took so much processor time.
    pub(crate) fn note_set(&mut self, now: Duration, took: Duration) {
        if took > LONG {
            self.set_from = now + took * SHARE_LONG;
        }
    }

    /// Carries proposals out, device by device.
    pub(crate) fn apply(
        &mut self,
        context: &mut Context,
        now: Duration,
        proposals: Vec<(Bdi, Key, Proposal)>,
        originals: &dyn Fn(&str) -> Option<u32>,
    ) -> Result<Vec<Event>> {
        if proposals.is_empty() {
            return Ok(Vec::new());
        }
        let wanted: Vec<FileId> = proposals.iter().map(|(_, key, _)| key.file).collect();
        let open = context.observer.descriptors(&wanted)?;
        let held = soon_held(context.host, context.observer, context.tracks, now, &proposals, &open)?;
        let ours = mounts(context.host, "self");
        let mut events = Vec::new();
        let mut batches: HashMap<String, Vec<Change>> = HashMap::new();
        let mut planned = Vec::new();
        for (bdi, key, proposal) in proposals {
            let (knob, device_kib) = (bdi.knob(context.host), bdi.value_kib(context.host).unwrap_or(0));
            let original_kib = originals(&bdi.name).unwrap_or(device_kib);
            let free = settable(&open, key, device_kib, original_kib, context);
            let free = match free {
                Ok(_) if held.contains(&key) => Err((SOON_HELD.to_owned(), WINDOW)),
                free => free.map_err(|reason| (reason, AGAIN)),
            };
            let track = context.tracks.get_mut(&key).expect("proposed just now");
            let mut event = Event {
                from_kib: Some(track.governor.current_kib()),
                to_kib: Some(proposal.to_kib),
                confidence: proposal.confidence,
                ..Event::note(proposal.kind, bdi.target(), proposal.why)
            };
            let free = match free {
                Ok(free) => free,
                Err((reason, wait)) => {
                    track.refused(now, wait);
                    // Files that leave their group may have been closed since, and then need nothing.
                    if track.follower.leaves().is_none() && track.is_news(&reason) {
                        event.kind = "skip";
                        event.to_kib = event.from_kib;
                        event.why = format!("left alone, {reason} ({})", event.why);
                        let any = open.iter().find(|d| key.is_of(d));
                        name(context.names, &mut event, any, key, &ours);
                        events.push(event);
                    }
                    continue;
                }
            };
            if !track.corrected {
                // The file was opened under another value than the device has now.
                track.corrected = true;
                track.learn(now, free[0], &knob, device_kib, context.journal);
                event.from_kib = Some(free[0].value_kib);
            }
            name(context.names, &mut event, Some(free[0]), key, &ours);
            event.applied = !context.dry_run;
            let kib = bounded(&self.bounds, &knob, proposal.to_kib);
            let changes: Vec<Change> = free
                .into_iter()
                .filter(|d| d.value_kib != kib)
                .map(|d| Change { descriptor: d.clone(), kib: proposal.to_kib })
                .collect();
            let of = changes.iter().map(|change| (change.descriptor.process, change.descriptor.fd)).collect();
            batches.entry(knob).or_default().extend(changes);
            planned.push(Planned { key, event, kib: proposal.to_kib, of });
        }
        let mut after = Vec::new();
        let unset =
            if context.dry_run { HashMap::new() } else { carry_out(context, &mut self.bounds, &batches, &mut after)? };
        for plan in planned {
            let track = context.tracks.get_mut(&plan.key).expect("proposed just now");
            events.extend(plan.end(now, track, &unset));
        }
        events.append(&mut after);
        Ok(events)
    }

    /// A file is read again that had not been read for a while. It may have been opened anew, so the next look for such
    /// files comes sooner.
    pub(crate) fn note_resumed(&mut self) {
        self.resumed = true;
    }

    /// Sets descriptors of known files that were opened since, and thus have the device's value. Where a file was opened
    /// only after it had rested, what its earlier readers wanted is forgotten instead.
    pub(crate) fn refresh(
        &mut self,
        context: &mut Context,
        now: Duration,
        decided: &dyn Fn(&str) -> bool,
        originals: &dyn Fn(&str) -> Option<u32>,
    ) -> Result<Vec<Event>> {
        let pause =
            if self.resumed { self.took * REFRESH_SHARE_RESUMED } else { REFRESH.max(self.took * REFRESH_SHARE) };
        if context.dry_run || now < self.refreshed + pause {
            return Ok(Vec::new());
        }
        self.refreshed = now;
        self.resumed = false;
        let begun = processor_time();
        let learns = now >= self.learned + REFRESH.max(self.took * REFRESH_SHARE);
        if learns {
            self.learned = now;
        }
        let mut wanted: HashMap<Key, (&Bdi, u32)> = HashMap::new();
        for (key, track) in context.tracks.iter() {
            let governor = &track.governor;
            let Some(bdi) = of_files(context.bdis, key.file.dev) else { continue };
            let is_advised = key.advised || context.advised.contains_key(&key.file);
            if is_advised || now >= track.seen + REFRESH || decided(&bdi.name) {
                continue;
            }
            // The device may have another value by now than the file had when we first saw it.
            let kib = governor.current_kib();
            if !track.corrected {
                if learns {
                    wanted.insert(*key, (bdi, kib));
                }
                continue;
            }
            let set =
                kib != governor.original_kib() || context.journal.files.of(key.file).any(|old| !old.is_value(kib));
            if set || bdi.value_kib(context.host).is_ok_and(|device| device != kib) {
                wanted.insert(*key, (bdi, kib));
            }
        }
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let files: Vec<FileId> = wanted.keys().map(|key| key.file).collect();
        let open = context.observer.descriptors(&files)?;
        let mut tried = Vec::new();
        let mut batches: HashMap<String, Vec<Change>> = HashMap::new();
        for (key, (bdi, mut kib)) in wanted {
            let (knob, device_kib) = (bdi.knob(context.host), bdi.value_kib(context.host).unwrap_or(0));
            let original_kib = originals(&bdi.name).unwrap_or(device_kib);
            let free = settable(&open, key, device_kib, original_kib, context);
            let track = context.tracks.get_mut(&key).expect("it was wanted");
            let known = std::mem::replace(&mut track.corrected, true);
            let Ok(free) = free else { continue };
            if !known {
                // It may have been opened under another value than the device has now, or be ours from before.
                if !track.learn(now, free[0], &knob, device_kib, context.journal) {
                    continue;
                }
                kib = track.governor.current_kib();
            } else if std::mem::take(&mut track.rested) && free.iter().all(|d| d.value_kib == device_kib) {
                *track = Track::new(now, device_kib);
                continue;
            }
            let stands = bounded(&self.bounds, &knob, kib);
            let changes: Vec<&Descriptor> = free.into_iter().filter(|d| d.value_kib != stands).collect();
            tried.extend(changes.iter().map(|d| (key, knob.clone(), (d.process, d.fd))));
            let changes = changes.into_iter();
            batches.entry(knob).or_default().extend(changes.map(|d| Change { descriptor: d.clone(), kib }));
        }
        let mut events = Vec::new();
        let unset = carry_out(context, &mut self.bounds, &batches, &mut events)?;
        let mut news: HashMap<String, String> = HashMap::new();
        for (key, knob, of) in tried {
            let track = context.tracks.get_mut(&key).expect("it was wanted");
            if let Some(why) = unset.get(&of).filter(|why| track.is_news(why)) {
                news.insert(knob, format!("a file was opened, and {why}"));
            }
        }
        events.extend(news.into_iter().map(|(knob, why)| Event::note("skip", knob, why)));
        self.took = processor_time() - begun;
        Ok(events)
    }
}

/// Files that were not set, and what kept the first one of their device.
type Unset = HashMap<At, String>;

/// Sets the files of each device, and says what went wrong.
fn carry_out(
    context: &mut Context,
    bounds: &mut Bounds,
    batches: &HashMap<String, Vec<Change>>,
    events: &mut Vec<Event>,
) -> Result<Unset> {
    let mut unset = Unset::new();
    for (knob, changes) in batches.iter().filter(|(_, changes)| !changes.is_empty()) {
        let outcome = set(context.host, knob, changes, context.journal)?;
        for (asked, stands) in outcome.bounded {
            if bounds.insert((knob.clone(), asked), stands) != Some(stands) {
                let why = format!("the device makes {stands} of {asked} KiB, and so do its files");
                events.push(Event { to_kib: Some(stands), ..Event::note("note", knob, why) });
            }
        }
        if let Some(kib) = outcome.rival_kib {
            let why = "somebody set the device while we set a file: theirs stands";
            events.push(Event { to_kib: Some(kib), ..Event::note("rival", knob, why) });
        }
        let why = match outcome.refused.first() {
            Some(first) => format!("it cannot be set: {first}"),
            None => "somebody set its device meanwhile".to_owned(),
        };
        unset.extend(outcome.unset.into_iter().map(|at| (at, why.clone())));
    }
    Ok(unset)
}

fn name(names: &mut Names, event: &mut Event, open: Option<&Descriptor>, key: Key, ours: &[Mount]) {
    let group = names.group(key.cgroup);
    match open {
        Some(d) => {
            let (path, command) = names.file(d.process, d.fd, ours);
            event.file = path.or_else(|| Some(format!("inode {}", key.file.inode)));
            event.reader = Some(format!("{command} (process {}) in {group}", d.process));
        }
        None => {
            event.file = Some(format!("inode {}", key.file.inode));
            event.reader = Some(group);
        }
    }
}
