// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the checker tells each broken rule, and nothing where the rule is just kept.

use super::*;
use crate::{Array, Checker, CopyId, Counters, Input, Observer, Output, Progress, Revokes};

/// A checker that is told what happens, of two devices that both hold everything.
struct Told(Checker);

const LIMIT_NS: Nanos = 1_000;
const PROGRESS: Progress = Progress { done: 0, total: 0, now_ns: 0 };

fn config() -> Config {
    Config {
        read_timeout_ns: LIMIT_NS,
        write_timeout_ns: 2 * LIMIT_NS,
        settings: Settings {
            errors_max: 2,
            out_ns: 100,
            out_ns_max: 300,
            revokes: Rate::new(0.25, 1),
            ..Settings::default()
        },
        hedge_budget: Rate::new(0.5, 2),
        ..two_replicas()
    }
}

impl Told {
    fn new(revokes: Revokes) -> Told {
        Told(Checker::of(&config(), 2, revokes))
    }

    fn arrives(&mut self, now: Nanos, tag: u64, op: Op) -> &mut Told {
        let request = Request::new(op, 0, 4097);
        self.0.input(now, &Input::Arrive { tag, stream: 0, request, arrive_ns: now });
        self
    }

    /// The copy has the number of the request and of the device.
    fn goes(&mut self, device: usize, tag: u64, op: Op) -> &mut Told {
        self.submits(device, tag, op, CopyId(10 * tag + device as u64))
    }

    fn submits(&mut self, device: usize, tag: u64, op: Op, copy: CopyId) -> &mut Told {
        let request = Request::new(op, 0, 4097);
        self.0.output(0, &Output::Submit { device, copy, tag, request, may_revoke: true });
        self
    }

    fn ends(&mut self, now: Nanos, end: fn(CopyId) -> Input, copy: u64) -> &mut Told {
        self.0.input(now, &end(CopyId(copy)));
        self
    }

    fn times_out(&mut self, now: Nanos, copy: u64) -> &mut Told {
        self.0.input(now, &Input::Timer(crate::TimerId(0)));
        self.0.output(now, &Output::Cancel { device: 0, copy: CopyId(copy), timed_out: true });
        self
    }

    fn answers(&mut self, tag: u64, op: Op) -> &mut Told {
        self.0.output(0, &Output::Complete { tag, stream: 0, tenant: 0, op, arrive_ns: 0, latency_ns: 0 });
        self
    }

    fn fails(&mut self, tag: u64, op: Op) -> &mut Told {
        self.0.output(0, &Output::Fail { tag, stream: 0, tenant: 0, op, arrive_ns: 0 });
        self
    }

    /// A read that takes 50 ns there.
    fn reads(&mut self, now: Nanos, tag: u64, device: usize) -> &mut Told {
        self.arrives(now, tag, Op::Read).goes(device, tag, Op::Read);
        self.ends(now + 50, Input::Completed, 10 * tag + device as u64).answers(tag, Op::Read)
    }

    /// A read whose copy fails there after 10 ns, and then completes at the other device.
    fn errs(&mut self, now: Nanos, tag: u64, device: usize) -> &mut Told {
        self.arrives(now, tag, Op::Read).goes(device, tag, Op::Read);
        self.ends(now + 10, Input::Failed, 10 * tag + device as u64).goes(1 - device, tag, Op::Read);
        self.ends(now + 20, Input::Completed, 10 * tag + 1 - device as u64).answers(tag, Op::Read)
    }

    /// What is told at the end.
    fn finish(&mut self, counters: Counters) -> String {
        std::mem::take(&mut self.0).finish(&counters).map_or_else(|broken| broken.join("; "), |()| String::new())
    }

    /// The same, with the counts that belong to this many reads and copies more.
    fn of(&mut self, reads: u64, extra_io: u64) -> String {
        self.finish(Counters { reads, extra_io, submits: reads + extra_io, ..Counters::default() })
    }
}

fn told() -> Told {
    Told::new(Revokes::None)
}

#[test]
fn each_request_is_answered_once_and_as_what_it_was() {
    let read = Op::Read;
    assert_eq!(told().reads(0, 1, 0).of(1, 0), "");
    assert!(told().reads(0, 1, 0).answers(1, read).of(1, 0).contains("request 1 is answered 2 times"));
    assert!(told().answers(9, read).of(0, 0).contains("request 9 is answered and never arrived"));
    assert!(told().reads(0, 1, 0).arrives(60, 1, read).of(1, 0).contains("request 1 arrives twice"));
    let text = told().arrives(0, 1, read).goes(0, 1, read).ends(5, Input::Completed, 10).answers(1, Op::Write).of(1, 0);
    assert!(text.contains("request 1 changed its kind"), "{text}");
    let text = told().arrives(0, 1, read).goes(0, 1, read).of(0, 0);
    assert!(text.contains("1 requests never got an answer") && text.contains("1 copies still fly"), "{text}");
    assert!(told().reads(7, 1, 0).reads(6, 2, 0).of(2, 0).starts_with("at 57 ns: time went back to 6"));
    assert_eq!(told().reads(0, 1, 0).reads(50, 2, 0).of(2, 0), "", "at the same time");
}

#[test]
fn a_device_holds_one_copy_of_a_request_and_none_after_the_answer() {
    let read = Op::Read;
    let flying = |device, copy| {
        let mut told = told();
        told.arrives(0, 1, read).goes(0, 1, read).submits(device, 1, read, CopyId(copy));
        told.ends(9, Input::Completed, copy).ends(9, Input::Completed, 10).answers(1, read).of(1, 1)
    };
    assert_eq!(flying(1, 11), "");
    assert!(flying(0, 11).contains("device 0 gets request 1 twice"));
    assert!(flying(1, 10).contains("CopyId(10) is submitted twice"));
    let text = told().reads(0, 1, 0).goes(1, 1, read).ends(60, Input::Cancelled, 11).of(1, 1);
    assert!(text.contains("request 1 is submitted after its answer"), "{text}");
    assert_eq!(text.matches("request").count(), 1, "{text}");
    // Another request may be there.
    let mut two = told();
    two.arrives(0, 1, read).goes(0, 1, read).arrives(0, 2, read).goes(0, 2, read);
    two.ends(9, Input::Completed, 10).answers(1, read).ends(9, Input::Completed, 20).answers(2, read);
    assert_eq!(two.of(2, 0), "");
}

#[test]
fn a_request_fails_after_a_failure_at_each_place_it_may_be() {
    let failing = |op: Op, copies: u64| {
        let mut told = told();
        told.arrives(0, 1, op);
        for k in 0..copies {
            told.goes(k as usize, 1, op).ends(5, Input::Failed, 10 + k);
        }
        let counters = match op {
            Op::Read => Counters { reads: 1, reads_failed: 1, extra_io: copies - 1, ..Counters::default() },
            Op::Write => Counters { writes: 1, writes_failed: 1, extra_writes: copies - 1, ..Counters::default() },
        };
        told.fails(1, op).finish(Counters { submits: copies, ..counters })
    };
    assert!(failing(Op::Read, 1).contains("request 1 failed after 1 failed copies, 2 possible"));
    assert_eq!([failing(Op::Read, 2), failing(Op::Write, 1)], ["", ""]);
    // A copy that a device refused or cancelled has not failed.
    for withdrawn in [Input::Revoked, Input::Cancelled] {
        let mut told = told();
        told.arrives(0, 1, Op::Write).goes(0, 1, Op::Write).ends(5, withdrawn, 10).fails(1, Op::Write);
        let text = told.finish(Counters { writes: 1, writes_failed: 1, submits: 1, ..Counters::default() });
        assert!(text.contains("request 1 failed after 0 failed copies, 1 possible"), "{text}");
    }
}

#[test]
fn a_copy_ends_at_its_time_limit_and_not_before() {
    let told = |op: Op, now: Nanos, times_out: bool| {
        let mut told = told();
        told.arrives(7, 1, op).goes(0, 1, op);
        if times_out {
            told.times_out(now, 10).goes(1, 1, op).ends(now, Input::Completed, 11);
        } else {
            told.ends(now, Input::Completed, 10);
        }
        let (reads, writes, more) = (u64::from(op.is_read()), u64::from(!op.is_read()), u64::from(times_out));
        told.answers(1, op).finish(Counters { reads, writes, extra_io: more, submits: 1 + more, ..Counters::default() })
    };
    for (op, limit_ns) in [(Op::Read, LIMIT_NS), (Op::Write, 2 * LIMIT_NS)] {
        assert_eq!([told(op, 7 + limit_ns, false), told(op, 7 + limit_ns, true)], ["", ""]);
        for (now, times_out) in [(8 + limit_ns, false), (8 + limit_ns, true), (6 + limit_ns, true)] {
            let text = told(op, now, times_out);
            assert!(text.contains(&format!("its limit is {limit_ns} ns")), "{text}");
        }
    }
}

#[test]
fn a_device_out_of_service_gets_one_read_after_each_absence() {
    let outside = "which is out of service; device Some(1) is not";
    // Two errors in a row take it out for 100 ns from the second, at 40 ns.
    let out = || {
        let mut told = told();
        told.errs(0, 1, 0).errs(30, 2, 0);
        told
    };
    assert!(out().reads(139, 3, 0).of(3, 2).contains(outside));
    assert_eq!(out().reads(140, 3, 0).reads(190, 4, 0).of(4, 2), "", "it answered");
    let mut one = told();
    assert_eq!(one.errs(0, 1, 0).reads(20, 2, 0).errs(80, 3, 0).reads(100, 4, 0).of(4, 2), "", "not in a row");
    // While the probe flies no other read goes there, until twice the time has passed.
    let probing = |until_ns: Nanos| {
        let mut told = out();
        told.arrives(140, 3, Op::Read).goes(0, 3, Op::Read).reads(until_ns - 50, 4, 1);
        told.arrives(until_ns, 5, Op::Read).goes(0, 5, Op::Read);
        told.ends(until_ns, Input::Completed, 30).ends(until_ns, Input::Completed, 50);
        told.answers(3, Op::Read).answers(5, Op::Read).of(5, 2)
    };
    assert!(probing(339).contains(outside));
    assert_eq!(probing(340), "");
    // A probe that fails doubles the time, to 300 ns at most.
    let again = |at_ns: [Nanos; 3], last_ns| {
        let mut told = out();
        for (now, tag) in at_ns.into_iter().zip(3..) {
            told.errs(now, tag, 0);
        }
        told.reads(last_ns, 6, 0).of(6, 5)
    };
    assert_eq!(again([140, 350, 660], 970), "");
    for (at_ns, last_ns) in [([140, 349, 660], 970), ([140, 350, 659], 970), ([140, 350, 660], 969)] {
        assert!(again(at_ns, last_ns).contains(outside), "{at_ns:?} {last_ns}");
    }
    // Where the other one was tried it may be read, which is not the one read after the absence.
    let mut tried = out();
    tried.arrives(55, 3, Op::Read).goes(1, 3, Op::Read).ends(60, Input::Failed, 31).goes(0, 3, Op::Read);
    tried.arrives(145, 4, Op::Read).goes(0, 4, Op::Read);
    tried.ends(150, Input::Completed, 30).answers(3, Op::Read).ends(150, Input::Completed, 40).answers(4, Op::Read);
    assert_eq!(tried.of(4, 3), "");
    // Or where the other one is out as well: two reads fail at both.
    let mut both = out();
    for (now, tag) in [(55, 3), (70, 4)] {
        both.arrives(now, tag, Op::Read).goes(1, tag, Op::Read).ends(now + 5, Input::Failed, 10 * tag + 1);
        both.goes(0, tag, Op::Read).ends(now + 8, Input::Failed, 10 * tag).fails(tag, Op::Read);
    }
    let counters = Counters { reads: 5, reads_failed: 2, extra_io: 4, submits: 9, ..Counters::default() };
    assert_eq!(both.reads(80, 5, 0).finish(counters), "");
    // A policy that revokes may read there. Writes may go there, too.
    let mut any = Told::new(Revokes::Any);
    assert_eq!(any.errs(0, 1, 0).errs(30, 2, 0).reads(50, 3, 0).of(3, 2), "");
    let mut write = out();
    write.arrives(50, 3, Op::Write).goes(0, 3, Op::Write).ends(60, Input::Completed, 30).answers(3, Op::Write);
    let counters = Counters { reads: 2, writes: 1, extra_io: 2, submits: 5, ..Counters::default() };
    assert_eq!(write.finish(counters), "");
    // One that completes says nothing of reads, but ends a row of errors of writes.
    let mut write = out();
    write.arrives(50, 3, Op::Write).goes(0, 3, Op::Write).ends(60, Input::Completed, 30).answers(3, Op::Write);
    assert!(write.reads(70, 4, 0).finish(Counters { reads: 3, submits: 6, ..counters }).contains(outside));
    let mut writes = told();
    for (now, tag) in [(0, 1), (30, 2)] {
        writes.arrives(now, tag, Op::Write).goes(0, tag, Op::Write);
        writes.ends(now + 10, Input::Failed, 10 * tag).fails(tag, Op::Write);
    }
    writes.arrives(50, 3, Op::Write).goes(0, 3, Op::Write).ends(60, Input::Completed, 30).answers(3, Op::Write);
    let counters = Counters { reads: 1, writes: 3, writes_failed: 2, submits: 4, ..Counters::default() };
    assert_eq!(writes.reads(70, 4, 0).finish(counters), "");
}

#[test]
fn counters_add_up() {
    let sound = Counters { reads: 4, submits: 4, ..Counters::default() };
    let told = |revokes, counters| {
        let mut told = Told::new(revokes);
        for n in 0..4 {
            told.reads(100 * n, n, 0);
        }
        assert!(told.0.progress(PROGRESS), "nothing is broken");
        told.finish(counters)
    };
    let budget = |counters| told(Revokes::Budget, counters);
    assert_eq!(budget(sound), "");
    let more = |extra: u64| Counters { extra_io: extra, submits: 4 + extra, ..sound };
    for (counters, text) in [
        (Counters { reads: 3, submits: 3, ..sound }, "4 reads, 0 writes answered"),
        (Counters { writes: 1, submits: 5, ..sound }, "4 reads, 0 writes answered"),
        (Counters { reads_failed: 1, ..sound }, "[0, 0] failed"),
        (Counters { writes_failed: 1, ..sound }, "[0, 0] failed"),
        (Counters { submits: 5, ..sound }, "submits do not add up"),
        (Counters { extra_io: 1, ..sound }, "submits do not add up"),
        (Counters { extra_writes: 1, ..sound }, "submits do not add up"),
        (Counters { refusals: 1, revokes: 1, ..sound }, "submits do not add up"),
        (Counters { revokes: 5, predictions: 5, ..sound }, "a last replica was revoked"),
        (Counters { hedges: 1, hedges_won: 2, ..more(2) }, "hedges do not add up"),
        (Counters { hedges: 2, ..more(1) }, "hedges do not add up"),
        // Half a hedge for each read, and two.
        (Counters { hedges: 5, ..more(5) }, "more hedges than their budget"),
        // A quarter of a revoke for each read, and one.
        (Counters { revokes: 3, predictions: 3, ..sound }, "more revokes than their budget"),
        (Counters { false_submits: 1, false_revokes: 1, predictions: 1, ..sound }, "predictions do not add up"),
        (Counters { revokes: 2, predictions: 1, ..sound }, "revokes without a prediction"),
    ] {
        assert!(budget(counters).contains(text), "{counters:?}: {}", budget(counters));
    }
    for counters in [
        Counters { extra_writes: 2, submits: 6, ..sound },
        Counters { hedges: 4, hedges_won: 4, ..more(4) },
        Counters { hedges: 1, extra_io: 0, refusals: 1, revokes: 1, submits: 5, ..sound },
        Counters { revokes: 2, predictions: 2, false_submits: 1, false_revokes: 1, ..sound },
        Counters { revokes: 4, refusals: 2, predictions: 2, submits: 6, ..sound },
    ] {
        assert_eq!(budget(counters), "");
    }
    // Four reads of two replicas may be revoked once each; this policy has no budget.
    assert_eq!(told(Revokes::Any, Counters { revokes: 4, predictions: 4, ..sound }), "");
    // Of three replicas, each read may be revoked by two.
    for (revokes, text) in [(8, ""), (9, "a last replica was revoked")] {
        let mut three = Told(Checker::of(&Config { replicas: 3, ..config() }, 3, Revokes::Any));
        for n in 0..4 {
            three.reads(100 * n, n, 0);
        }
        let told = three.finish(Counters { revokes, predictions: revokes, ..sound });
        assert!(if text.is_empty() { told.is_empty() } else { told.contains(text) }, "{told}");
    }
    let revokes = Counters { revokes: 1, predictions: 1, ..sound };
    assert!(told(Revokes::None, revokes).contains("more revokes than their budget"));
}

#[test]
fn the_array_counts_what_is_in_flight() {
    let learned = learned(&[None, None]);
    let policy = policy("baseline", &learned, &config()).expect("a known name");
    let array = Array::new(config(), &thresholds(&learned), policy).expect("settings within their ranges");
    let mut told = told();
    told.0.step(0, &array);
    told.arrives(0, 1, Op::Read).goes(1, 1, Op::Read).0.step(0, &array);
    let stopped = !told.0.progress(PROGRESS);
    told.ends(5, Input::Completed, 11).answers(1, Op::Read).0.step(5, &array);
    let text = told.of(1, 0);
    assert_eq!(
        text,
        "at 0 ns: device 1: the array counts 0 in flight, 1 are; at 0 ns: device 1: the array counts 0 pages, 2 are"
    );
    assert!(stopped, "a run in which a rule is broken stops");
}

#[test]
fn the_first_violations_are_kept() {
    let mut told = told();
    for tag in 0..30 {
        told.fails(tag, Op::Read);
    }
    let text = told.finish(Counters::default());
    assert!(
        text.starts_with("at 0 ns: request 0 ") && text.ends_with("request 19 is answered and never arrived"),
        "{text}"
    );
}
