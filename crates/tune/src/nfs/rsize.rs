// SPDX-License-Identifier: MIT OR Apache-2.0
//! The read size of a mount follows what its readers do.
//!
//! Scans whose readahead is larger than the read size get a larger one: each call carries more. Random reads do not get
//! a smaller one. A call is never larger than what readahead asks for, so that the small readahead already makes it
//! small, and a small read size would only cut the next scan.

use std::rc::Rc;
use std::time::Duration;

use crate::event::Event;
use crate::host::Host;
use crate::journal::Journal;
use crate::mounts::{mounts, top};
use crate::nfs::overmount::{Taken, place, take_off};
use crate::nfs::path::Path;
use crate::nfs::rsize_bytes;
use crate::nfs::rule::NfsRule;
use crate::tuner::Companion;

/// The largest read size of NFS clients and of servers by default.
const RSIZE_MAX: u32 = 1 << 20;
/// The share of what comes that scans must read.
const DOMINANT: f64 = 0.8;
/// Random reads are spoken of after so much time.
const SETTLED: Duration = Duration::from_secs(3);

/// What the read size should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// Not enough is known yet.
    Wait,
    /// As it is, and why.
    Stay(String),
    /// So many bytes, and why.
    Change(u32, String),
}

/// The wish for a mount with `rsize` bytes.
pub fn wish(now: Duration, path: &Path, rsize: u32) -> Wish {
    let share = path.ordered_share();
    let kib = rsize / 1024;
    if path.rate_max() == 0.0 || now < SETTLED {
        return Wish::Wait;
    }
    if share < 1.0 - DOMINANT {
        let percent = 100.0 * (1.0 - share);
        return Wish::Stay(format!(
            "{percent:.0} % of what comes is for scattered reads, whose calls are as small as their readahead: another read \
             size changes nothing for them"
        ));
    }
    if share < DOMINANT || !path.is_settled() {
        return Wish::Wait;
    }
    if path.scan_kib() <= kib || rsize >= RSIZE_MAX {
        return Wish::Stay(format!("{kib} KiB hold what scans ask for at a time, or are the largest there is"));
    }
    let percent = 100.0 * share;
    // The server answers with the largest that it has.
    Wish::Change(
        RSIZE_MAX,
        format!(
            "{percent:.0} % of what comes is for scans, which read {} KiB ahead in calls of {kib}",
            path.scan_kib()
        ),
    )
}

/// The knob of one mount.
pub struct Rsize {
    point: String,
    rule: Rc<NfsRule>,
    dry_run: bool,
    done: bool,
    said: bool,
}

impl Rsize {
    /// For the mount at `point`.
    pub fn new(point: &str, rule: Rc<NfsRule>, dry_run: bool) -> Rsize {
        Rsize { point: point.to_owned(), rule, dry_run, done: false, said: false }
    }

    fn event(&self, kind: &'static str, why: String) -> Event {
        Event { knob: "rsize", ..Event::note(kind, self.point.clone(), why) }
    }
}

impl Companion for Rsize {
    /// Changes once: a mount over a mount over a mount helps nobody.
    fn look(&mut self, now: Duration, host: &Host, journal: &mut Journal) -> Vec<Event> {
        if self.done {
            return Vec::new();
        }
        let all = mounts(host, "self");
        let Some(rsize) = top(&all, &self.point).and_then(rsize_bytes) else { return Vec::new() };
        let path = self.rule.path();
        let from_kib = Some(rsize / 1024);
        let (wanted, why) = match wish(now, &path, rsize) {
            Wish::Wait => return Vec::new(),
            // A wish to stay may change with the readers; it is said once.
            Wish::Stay(_) if self.said => return Vec::new(),
            Wish::Stay(why) => {
                self.said = true;
                return vec![Event { from_kib, to_kib: from_kib, ..self.event("skip", why) }];
            }
            Wish::Change(wanted, why) => (wanted, why),
        };
        self.done = true;
        let mut event = Event { from_kib, to_kib: Some(wanted / 1024), ..self.event("decision", why) };
        event.confidence = path.ordered_share();
        if self.dry_run {
            return vec![event];
        }
        match place(host, journal, &self.point, wanted) {
            Ok(new) => {
                event.to_kib = rsize_bytes(&new).map(|bytes| bytes / 1024);
                event.applied = true;
                event.why = format!("{}; a mount placed over the old one, where open files stay", event.why);
            }
            Err(refused) => {
                event.kind = "skip";
                event.to_kib = from_kib;
                event.why = format!("{}; not done, {}; {}", event.why, refused.reason, refused.advice);
            }
        }
        vec![event]
    }

    fn restore(&mut self, host: &Host, journal: &mut Journal) -> Vec<Event> {
        let mut events = Vec::new();
        while journal.mounts.iter().any(|entry| entry.point == self.point) {
            match take_off(host, journal, &self.point) {
                Taken::Off => {
                    let why = "the end: the mount from before, with its read size";
                    events.push(Event { applied: true, ..self.event("restore", why.to_owned()) });
                }
                Taken::Gone => {}
                Taken::Stays(why) => {
                    events.push(self.event("note", format!("{why}; `linnet tune restore` tries again")));
                    break;
                }
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mounts::Dev;
    use crate::nfs::rpc::Rpcs;
    use crate::openfile::FileId;

    fn path(ordered: bool) -> Path {
        let mut path = Path::new(2048, false);
        let file = FileId { dev: Dev { major: 0, minor: 50 }, inode: 1 };
        for tick in 0..30 {
            let rpcs = Rpcs { matched: 100, latency_ns: 500_000_000, bytes: 25_000_000, ..Rpcs::default() };
            path.note(Duration::from_millis(250 * tick), file, ordered, 2048, &rpcs);
        }
        path
    }

    #[test]
    fn scans_get_a_larger_read_size_and_random_reads_no_smaller_one() {
        let later = Duration::from_secs(8);
        let Wish::Change(bytes, why) = wish(later, &path(true), 65_536) else { panic!("no change") };
        assert_eq!(bytes, RSIZE_MAX);
        assert!(why.contains("read 2048 KiB ahead in calls of 64"), "{why}");
        assert!(matches!(wish(later, &path(true), RSIZE_MAX), Wish::Stay(_)));
        let Wish::Stay(why) = wish(later, &path(false), RSIZE_MAX) else { panic!("a change") };
        assert!(why.contains("100 % of what comes is for scattered reads"), "{why}");
        assert_eq!(wish(Duration::from_secs(1), &path(true), 65_536), Wish::Wait);
        assert_eq!(wish(later, &Path::new(128, true), 65_536), Wish::Wait, "nothing came");
    }
}
