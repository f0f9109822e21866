// SPDX-License-Identifier: MIT OR Apache-2.0
//! The readahead tuner: looks at what is read, decides per file, sets open files and devices, and puts everything back.
//!
//! Open files are set from outside their process. The device's value is what files begin with when they are opened; it
//! only moves towards the kernel's default, and only where nearly everything that is read asks for it: a file that
//! nobody has seen yet shall neither read 64 MiB for a page nor scan with 8 KiB.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::advised::{Advised, forbids, put_back};
use crate::apply::{Files, Key};
use crate::bdi::{self, Bdi, Kind};
use crate::clock::processor_time;
use crate::device::Rivals;
use crate::devices::{Devices, Moves};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::govern::{Governor, WINDOW};
use crate::groups::{Groups, Look, Proposed};
use crate::host::Host;
use crate::journal::{Journal, Lock};
use crate::mounts::Dev;
use crate::names::Names;
use crate::nfs::rpc::Rpcs;
use crate::observe::{Counts, Observer, Sample};
use crate::putback::{self, Restored};
use crate::recover::recover;
use crate::rule::{Class, Decider, FileReads};
use crate::track::Track;
use crate::unseen::Unseen;
use crate::wanted::{Wanted, only};

/// What is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Open files, and the device towards the kernel's default.
    Both,
    /// Open files only.
    Files,
    /// Devices only: files that are opened later.
    Devices,
}

/// How to tune.
#[derive(Debug, Clone)]
pub struct Options {
    /// One disk, partition or mounted file system; all where none is given.
    pub device: Option<String>,
    /// One control group, container or unit, and those within.
    pub cgroup: Option<String>,
    /// Decide and explain, change nothing.
    pub dry_run: bool,
    /// Stop after one round of decisions, and leave the values.
    pub once: bool,
    /// What is set.
    pub scope: Scope,
    /// What happens when somebody else sets a device.
    pub rivals: Rivals,
    /// How long somebody's decision stands.
    pub backoff: Duration,
    /// Time between looks.
    pub tick: Duration,
    /// How long `once` watches at most.
    pub once_for: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            device: None,
            cgroup: None,
            dry_run: false,
            once: false,
            scope: Scope::Both,
            rivals: Rivals::Auto,
            backoff: Duration::from_secs(600),
            tick: Duration::from_millis(250),
            once_for: Duration::from_secs(5),
        }
    }
}

/// How long a file without reads is remembered, and a group. The file's value stays in the journal.
pub(crate) const IDLE: Duration = Duration::from_secs(60);
/// A file that was not read for so long may have been closed and opened again.
const PAUSE: Duration = Duration::from_millis(300);
/// If nobody reads a file for so long, a process that then opens it begins with the device's value.
const ANOTHER: Duration = Duration::from_secs(2);
/// Mounts are listed again at least this often.
const MOUNTS: Duration = Duration::from_secs(10);
/// The next look after one that saw reads whose kind is not known yet: until then they have a value for other reads.
const TICK_UNDECIDED: Duration = Duration::from_millis(100);
/// But looks and what follows from them then take at most one part of so many of the time.
const UNDECIDED_SHARE: u32 = 200;
/// What the observer lost is said again when it is so many times as much.
const LOST_TIMES: u64 = 10;

/// Another knob, which is turned beside readahead by the same observation.
pub trait Companion {
    /// Called at every look.
    fn look(&mut self, now: Duration, host: &Host, journal: &mut Journal) -> Vec<Event>;
    /// Puts the knob back.
    fn restore(&mut self, host: &Host, journal: &mut Journal) -> Vec<Event>;
}

/// What was read of a file since the last look.
struct Reads {
    key: Key,
    bdi: Bdi,
    /// The value with which the file is opened.
    value: u32,
    counts: Counts,
    rpcs: Rpcs,
}

/// A running tuner. `run` puts everything back before it returns, unless it is to leave the values.
pub struct Tuner<'a> {
    host: Host,
    options: Options,
    decider: &'a dyn Decider,
    observer: &'a mut dyn Observer,
    journal: Journal,
    names: Names,
    files: Files,
    bdis: Vec<Bdi>,
    listed: Duration,
    looked: Duration,
    wanted: Option<Wanted>,
    tracks: HashMap<Key, Track>,
    groups: Groups,
    devices: Devices,
    unseen: Unseen,
    began: Instant,
    /// The last look saw reads whose kind is not known yet.
    is_undecided: bool,
    /// So many events were lost when it was said last.
    lost: u64,
    companion: Option<&'a mut dyn Companion>,
    _lock: Option<Lock>,
}

/// The file system to observe where the options name a device with only one.
pub fn only_dev(host: &Host, options: &Options) -> Result<Option<Dev>> {
    let Some(name) = &options.device else { return Ok(None) };
    let bdis = bdi::list(host);
    Ok(only(&Wanted::find(host, &bdis, name)?.devs(&bdis)))
}

impl<'a> Tuner<'a> {
    /// Takes the lock and puts back what an earlier run left. A dry run does neither. A group that is absent is waited
    /// for, and is an error where `once` is asked for. An error also where the observer sees no files, but in a dry run.
    pub fn start(
        host: &Host,
        options: Options,
        decider: &'a dyn Decider,
        observer: &'a mut dyn Observer,
        tell: &mut dyn FnMut(&Event) -> bool,
    ) -> Result<Tuner<'a>> {
        let bdis = bdi::list(host);
        let wanted = options.device.as_ref().map(|name| Wanted::find(host, &bdis, name)).transpose()?;
        let shares = wanted.as_ref().and_then(Wanted::shares).filter(|_| options.cgroup.is_none());
        if let (Scope::Devices, Some(why)) = (options.scope, &shares) {
            let what = format!("{why}, and --scope devices sets nothing else; name the disk");
            return Err(Error::Refused { what });
        }
        let mut names = Names::new(host);
        let absent = options.cgroup.clone().filter(|wanted| !names.has_group(wanted));
        if let Some(name) = absent.as_ref().filter(|_| options.once) {
            return Err(Error::Group { name: name.clone() });
        }
        let lock = if options.dry_run { None } else { Some(Lock::take(host)?) };
        let mut journal = if options.dry_run { Journal::unsaved(host) } else { Journal::open(host)? };
        if !journal.is_empty() {
            let back = recover(host, &mut journal)?;
            for (knob, kib) in &back.devices {
                tell(&Event {
                    to_kib: Some(*kib),
                    applied: true,
                    ..Event::note("restore", knob, "an earlier run left its value")
                });
            }
            for (knob, why) in &back.gone {
                tell(&Event::note("note", knob, format!("an earlier run left its value: {why}")));
            }
            for point in &back.mounts {
                let why = "an earlier run left a mount there, which is taken off";
                tell(&Event { knob: "rsize", applied: true, ..Event::note("restore", point, why) });
            }
            if back.files > 0 {
                tell(&Event::note("restore", "", format!("an earlier run left {} open files changed", back.files)));
            }
            for refused in back.refused {
                tell(&Event::note("note", "", format!("what an earlier run left cannot be put back: {refused}")));
            }
        }
        // With nothing to be seen nothing would ever be changed, and nobody would look why.
        if !observer.sight().files && !options.dry_run {
            return Err(Error::Observer { what: observer.sight().limits.join("; ") });
        }
        for limit in &observer.sight().limits {
            tell(&Event::note("note", "", limit.clone()));
        }
        if let (Scope::Both, Some(why)) = (options.scope, shares) {
            let why = format!("{why}: only open files are set; to set the value too, name the disk");
            tell(&Event::note("note", "", why));
        }
        if let Some(wanted) = absent {
            let why = format!(
                "no control group, container or unit is called {wanted} now: until there is one, nothing is tuned"
            );
            tell(&Event::note("note", "", why));
        }
        Ok(Tuner {
            host: host.clone(),
            decider,
            names,
            files: Files::default(),
            options,
            observer,
            journal,
            bdis,
            listed: Duration::ZERO,
            looked: Duration::ZERO,
            wanted,
            tracks: HashMap::new(),
            groups: Groups::default(),
            devices: Devices::default(),
            unseen: Unseen::default(),
            began: Instant::now(),
            is_undecided: false,
            lost: 0,
            companion: None,
            _lock: lock,
        })
    }

    /// Turns another knob too.
    #[must_use]
    pub fn with(mut self, companion: &'a mut dyn Companion) -> Tuner<'a> {
        self.companion = Some(companion);
        self
    }

    /// Tunes until `tell` answers false (it is asked at every tick, with None), or once. Always puts back what it has
    /// to.
    pub fn run(mut self, tell: &mut dyn FnMut(Option<&Event>) -> bool) -> Result<()> {
        let ended = self.watch(tell);
        if let Some(event) = self.lost(1) {
            tell(Some(&event));
        }
        let keep = self.options.once && matches!(ended, Ok(true));
        let restored = if keep || self.options.dry_run { Ok(()) } else { self.restore(tell) };
        ended.and(restored)
    }

    /// Says what the observer did not count, where that is `times` as many as when it was said last.
    fn lost(&mut self, times: u64) -> Option<Event> {
        let lost = self.observer.lost().ok().filter(|lost| lost.total() > times * self.lost)?;
        self.lost = lost.total();
        Some(Event::note("note", "", lost.to_string()))
    }

    /// True where it ended of itself.
    fn watch(&mut self, tell: &mut dyn FnMut(Option<&Event>) -> bool) -> Result<bool> {
        self.observer.look()?;
        let (mut acted, mut pause) = (false, self.options.tick);
        loop {
            if !tell(None) {
                return Ok(false);
            }
            std::thread::sleep(pause);
            let (now, looked) = (self.began.elapsed(), processor_time());
            let samples = self.observer.look()?;
            let mut events = self.tick(now, &samples)?;
            events.extend(self.lost(LOST_TIMES));
            acted |= events.iter().any(|event| event.kind == "decision");
            for event in &events {
                if !tell(Some(event)) {
                    return Ok(false);
                }
            }
            if self.options.once && (acted && now >= WINDOW || now >= self.options.once_for) {
                return Ok(true);
            }
            pause = self.pause(processor_time() - looked);
        }
    }

    /// The time until the next look, after one that took so much processor time.
    fn pause(&self, took: Duration) -> Duration {
        let tick = self.options.tick;
        if self.is_undecided { TICK_UNDECIDED.max(took * UNDECIDED_SHARE).min(tick) } else { tick }
    }

    /// One look: what it saw becomes decisions, and these become values.
    fn tick(&mut self, now: Duration, samples: &[Sample]) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        if now >= self.listed + MOUNTS || samples.iter().any(|s| bdi::of_files(&self.bdis, s.file.dev).is_none()) {
            // Files of file systems without a device (in memory, overlays) come again and again: not at every tick.
            if now >= self.listed + WINDOW {
                events.extend(self.list(now)?);
                if self.wanted.is_none() {
                    let devs = samples.iter().filter(|s| self.in_group(s.cgroup)).map(|s| s.file.dev).collect();
                    events.extend(self.unseen.tell(&self.host, &self.bdis, devs));
                }
            }
        }
        events.extend(self.devices.look(&self.host, now, &mut self.journal, &self.bdis));
        let demands = self.observer.sight().demands;
        let advised = self.observer.advised(false)?;
        let found = self.sort(now, samples, &advised);
        let since = std::mem::replace(&mut self.looked, now);
        let look = Look { now, since, demands, decider: self.decider, bdis: &self.bdis };
        let mut proposals = put_back(&advised, now, look.bdis, &self.tracks);
        self.is_undecided = false;
        for Reads { key, bdi, value, counts, rpcs } in found {
            let track = self.tracks.entry(key).or_insert_with(|| Track { begun: since, ..Track::new(now, value) });
            if now > track.seen + PAUSE {
                self.files.note_resumed();
            }
            let has_rested = now > track.seen + ANOTHER;
            track.rested |= has_rested;
            track.seen = now;
            if has_rested {
                (track.brought, track.begun) = (0, since);
            }
            track.brought += counts.added;
            if !demands || counts.accesses + counts.repeats > 0 {
                track.demanded = Some(now);
            }
            if bdi.kind != Kind::Nfs && !key.advised {
                self.groups.add(look, &bdi, key, value, &counts, track);
            }
            track.governor.note_rpcs(&rpcs);
            // Whose reads these are, and under which value, is seen at the end of this look.
            let step = |governor: &mut Governor| governor.step(now, &counts, demands, self.decider);
            let proposal = if has_rested { None } else { step(&mut track.governor) };
            let class = track.governor.class();
            let is_settled = class.is_some() || track.follower.follows() || track.governor.is_held(now);
            self.is_undecided |= counts.added > 0 && !is_settled && !key.advised;
            let kib = if key.advised { 0 } else { track.governor.current_kib() };
            self.decider.note(now, &FileReads { file: key.file, class, kib, rpcs });
            if let Some(class) = class.filter(|_| !key.advised) {
                self.devices.count(&bdi.name, class, counts.added);
            }
            if let Some(proposal) = proposal {
                let is_random = track.governor.class() == Some(Class::Random);
                if proposal.kind == "rollback" || track.follower.follows() && !is_random {
                    track.follower.stay();
                } else {
                    track.follower.reset();
                }
                proposals.push((bdi, key, proposal));
            }
        }
        let own: HashSet<Key> = proposals.iter().map(|(_, key, _)| *key).collect();
        proposals.extend(self.groups.turn(look, &mut self.tracks, &own));
        if self.options.scope != Scope::Devices {
            let following = self.groups.follow(look, &mut self.tracks, &own);
            let (begun, any) = (processor_time(), !following.is_empty());
            proposals.extend(following);
            events.extend(self.set_files(now, proposals, advised)?);
            if any {
                self.groups.note_took(now, processor_time() - begun);
            }
        } else {
            for (_, key, proposal) in proposals {
                // The device follows below; the governor only keeps the class.
                self.tracks.get_mut(&key).expect("just stepped").governor.changed(now, proposal.to_kib);
            }
        }
        let is_whole = self.options.cgroup.is_none() && !self.wanted.as_ref().is_some_and(Wanted::is_shared);
        if self.options.scope != Scope::Files && is_whole {
            let Options { dry_run, scope, .. } = self.options;
            let moves = Moves { dry_run, alone: scope == Scope::Devices, decider: self.decider };
            events.extend(self.devices.set(now, &moves, &mut self.journal, &self.bdis)?);
        }
        if let Some(companion) = &mut self.companion {
            let found = companion.look(now, &self.host, &mut self.journal);
            if !found.is_empty() {
                self.listed = Duration::ZERO;
            }
            events.extend(found);
        }
        self.tracks.retain(|_, track| now < track.seen + IDLE || !Groups::may_forget(track, now - track.seen));
        Ok(events)
    }

    /// Lists devices again, and looks which of them the operator means. The observer follows.
    fn list(&mut self, now: Duration) -> Result<Option<Event>> {
        self.bdis = bdi::list(&self.host);
        self.listed = now;
        let Some(wanted) = &mut self.wanted else { return Ok(None) };
        let mut told = wanted.renew(&self.host, &self.bdis);
        let devs = wanted.devs(&self.bdis);
        if told.is_some() {
            // What has the numbers now is something else.
            self.tracks.retain(|key, _| devs.contains(&key.file.dev));
        }
        if !devs.is_empty() && self.observer.watch_only(only(&devs))? {
            self.lost = 0;
            let name = self.options.device.as_deref().unwrap_or_default();
            told = told
                .or_else(|| Some(format!("other file systems of {name} are mounted now than before, and are tuned")));
        }
        Ok(told.map(|why| Event::note("note", "", why)))
    }

    /// What is to be tuned: the samples of each file together, but apart those with a value of the owner's.
    fn sort(&mut self, now: Duration, samples: &[Sample], mapped: &Advised) -> Vec<Reads> {
        let Options { rivals, backoff, .. } = self.options;
        let mut found: HashMap<Key, Reads> = HashMap::new();
        for sample in samples {
            let Some(bdi) = bdi::of_files(&self.bdis, sample.file.dev).cloned() else { continue };
            let is_wanted = self.wanted.as_ref().is_none_or(|wanted| wanted.has(&bdi, sample.file.dev));
            if !is_wanted || !self.in_group(sample.cgroup) {
                continue;
            }
            let Some(value) = self.devices.value_of(&self.host, &bdi, now, rivals, backoff) else { continue };
            let original = self.devices.original_kib(&bdi.name).unwrap_or(value);
            let advised = mapped.contains_key(&sample.file)
                || Files::is_advised(sample.reader, sample.file, value, original, &self.journal);
            let key = Key { file: sample.file, cgroup: sample.cgroup, advised };
            let (counts, rpcs) = (Counts::default(), Rpcs::default());
            let reads = found.entry(key).or_insert(Reads { key, bdi, value, counts, rpcs });
            reads.counts = reads.counts.plus(sample.counts);
            // The same time for all of them.
            let elapsed_ns = reads.rpcs.elapsed_ns.max(sample.rpcs.elapsed_ns);
            reads.rpcs = Rpcs { elapsed_ns, ..reads.rpcs.plus(sample.rpcs) };
        }
        found.into_values().collect()
    }

    fn in_group(&mut self, id: u64) -> bool {
        match &self.options.cgroup {
            Some(wanted) => self.names.group_is(id, &wanted.clone()),
            None => true,
        }
    }

    /// Sets open files of every device for which there are proposals, and files that were opened since.
    fn set_files(&mut self, now: Duration, proposals: Vec<Proposed>, advised: Rc<Advised>) -> Result<Vec<Event>> {
        let begun = processor_time();
        let may_set = self.files.may_set(now);
        let advised = if proposals.is_empty() || !may_set { advised } else { self.observer.advised(true)? };
        let is_decided = |name: &str| self.devices.is_decided(name, now);
        let may_not = |(bdi, key, proposal): &Proposed| {
            !may_set || is_decided(&bdi.name) || forbids(&advised, *key, proposal, &self.tracks[key])
        };
        let (held, free): (Vec<_>, Vec<_>) = proposals.into_iter().partition(may_not);
        for (_, key, _) in held {
            self.tracks.get_mut(&key).expect("just stepped").refused(now, WINDOW);
        }
        let mut context = crate::apply::Context {
            host: &self.host,
            observer: self.observer,
            journal: &mut self.journal,
            names: &mut self.names,
            bdis: &self.bdis,
            tracks: &mut self.tracks,
            advised: &advised,
            dry_run: self.options.dry_run,
        };
        let originals = |name: &str| self.devices.original_kib(name);
        let mut events = self.files.apply(&mut context, now, free, &originals)?;
        self.files.note_set(now, processor_time() - begun);
        events.extend(self.files.refresh(&mut context, now, &is_decided, &originals)?);
        Ok(events)
    }

    fn restore(&mut self, tell: &mut dyn FnMut(Option<&Event>) -> bool) -> Result<()> {
        let compared = putback::compare(&self.host, &mut self.journal, self.observer);
        let files = putback::restore(&self.host, &mut self.journal, compared);
        let devices = self.devices.restore(&self.host, &mut self.journal, &self.bdis, &mut |event| {
            tell(Some(event));
        });
        if let Some(companion) = &mut self.companion {
            for event in companion.restore(&self.host, &mut self.journal) {
                tell(Some(&event));
            }
        }
        let Restored { files, refused } = files?;
        if files > 0 {
            let why = format!("the end: {files} open files have their value from before");
            tell(Some(&Event { applied: true, ..Event::note("restore", "", why) }));
        }
        if let Some(first) = refused.first() {
            let why = format!("{} could not be put back; `linnet tune restore` tries again; {first}", refused.len());
            tell(Some(&Event::note("note", "", why)));
        }
        devices
    }
}

#[cfg(test)]
#[path = "tuner_tests.rs"]
pub(crate) mod tests;
