// SPDX-License-Identifier: MIT OR Apache-2.0
//! `choose.txt`, `decide.txt` and `hedge.txt`: choices among replicas, and second copies.

use linnet_core::{Asked, Budget, Candidate, Decision, Hedging, Policy, Question, Rate, Settings, TREE_ONE};

use super::text::unhex;
use crate::common::{lines, root};

const POLICIES: [Policy; 5] =
    [Policy::Baseline, Policy::ShortestQueue, Policy::EwmaInflight, Policy::Linnos, Policy::Best];

/// The choices of `choose.txt` as whole decisions, with both kinds of model at every replica.
#[test]
fn choices() {
    let text = std::fs::read_to_string(root().join("spec/vectors/choose.txt")).unwrap();
    let (mut decision, mut revokes) = (Decision::new(), Budget::default());
    let (mut chosen, mut probes, mut scored, mut candidates_scored) = (0, 0, 0, 0);
    for line in lines(&text) {
        let number = |at: usize| unhex(line[at]);
        let candidates: Vec<Candidate> = line[7..]
            .chunks(8)
            .map(|words| {
                let bit = |at: usize| unhex(words[at]) == 1;
                Candidate {
                    eligible: bit(0),
                    known: bit(1),
                    slow: bit(2),
                    probing: bit(3),
                    score: unhex(words[4]) as i32,
                    in_flight: unhex(words[5]) as u32,
                    ewma_ns: unhex(words[6]) as u64,
                    learnt_ns: unhex(words[7]) as u64,
                    revokes_in_row: 0,
                }
            })
            .collect();
        // Without an eligible replica a decision uses any usable one; there is no choice to compare.
        if number(4) == i128::from(u32::MAX) {
            assert!(candidates.iter().all(|candidate| !candidate.eligible));
            continue;
        }
        let settings =
            Settings { policy: POLICIES[number(1) as usize], age_ns: number(3) as u64, ..Settings::default() };
        let all = u8::MAX >> (8 - candidates.len());
        let question = Question {
            now_ns: number(2) as u64,
            replicas: candidates.len(),
            usable: all,
            trees: all,
            networks: all,
            may_revoke: false,
        };
        decision.begin(&settings, &question);
        for (k, candidate) in candidates.iter().enumerate() {
            *decision.describe(k) = *candidate;
        }
        // A prediction is available only for a replica that is asked.
        if matches!(settings.policy, Policy::Linnos | Policy::Best) {
            (0..candidates.len()).for_each(|k| {
                let Candidate { known, slow, score, .. } = decision.describe(k);
                (*known, *slow, *score) = (false, false, -2 * TREE_ONE);
            });
        }
        while let Some(asked) = decision.next_to_ask(&settings, &mut revokes) {
            let (Asked::Trees(k) | Asked::Network(k)) = asked;
            let (own, now) = (&candidates[k], decision.describe(k));
            now.known = own.known;
            match asked {
                Asked::Trees(_) => (now.score, now.slow) = (own.score, own.score > 0),
                Asked::Network(_) => now.slow = own.slow,
            }
            scored += u32::from(asked == Asked::Trees(k));
        }
        candidates_scored += if settings.policy == Policy::Best { candidates.len() as u32 } else { 0 };
        let answer = decision.answer();
        let told = (answer.replica as i128, i128::from(answer.probe), i128::from(answer.predicted_fast));
        assert_eq!(told, (number(4), number(5), number(6)), "{line:?}");
        chosen += u32::from(answer.replica > 0);
        probes += u32::from(answer.probe);
    }
    assert!(chosen > 100 && probes > 20, "{chosen} chosen elsewhere, {probes} probes prove little");
    assert!(scored > 100 && scored < candidates_scored, "{scored} of {candidates_scored} were asked for a score");
}

/// Where copies go: lines `copy` of `decide.txt`.
#[test]
fn copies() {
    let text = std::fs::read_to_string(root().join("spec/vectors/decide.txt")).unwrap();
    let (mut decision, mut nowhere, mut scored) = (Decision::new(), 0, 0);
    for line in lines(&text).filter(|line| line[0] == "copy") {
        let number = |at: usize| unhex(line[at]);
        let replicas: Vec<&[&str]> = line[8..].chunks(13).collect();
        let those = |is: &dyn Fn(&[&str]) -> bool| {
            replicas.iter().enumerate().map(|(k, words)| u8::from(is(words)) << k).sum::<u8>()
        };
        let question = Question {
            now_ns: number(3) as u64,
            replicas: replicas.len(),
            usable: those(&|words| words[0] == "1"),
            trees: those(&|words| words[2] == "1"),
            networks: those(&|words| words[3] == "1"),
            may_revoke: false,
        };
        let (policy, on) = (POLICIES[number(1) as usize], number(2) as u32);
        let settings = Settings { policy, on, age_ns: number(4) as u64, ..Settings::default() };
        decision.begin_copy(&settings, &question);
        for (k, words) in replicas.iter().enumerate() {
            *decision.describe(k) = Candidate {
                eligible: words[1] == "0",
                probing: words[6] == "1",
                score: -2 * TREE_ONE,
                in_flight: unhex(words[8]) as u32,
                ewma_ns: unhex(words[9]) as u64,
                learnt_ns: unhex(words[10]) as u64,
                ..Candidate::default()
            };
        }
        while let Some(k) = decision.next_of_copy() {
            let candidate = decision.describe(k);
            (candidate.known, candidate.score) = (true, unhex(replicas[k][7]) as i32);
            scored += 1;
        }
        let told = decision.copy().map_or(i128::from(u32::MAX), |k| k as i128);
        assert_eq!(told, number(7), "{line:?}");
        nowhere += u32::from(decision.copy().is_none());
    }
    assert!(nowhere > 10 && scored > 100, "{nowhere} go nowhere, {scored} scores");
}

/// Candidates that are no longer eligible once a model was asked: the choice is one of those that were in service.
#[test]
fn none_eligible_between_the_steps() {
    let own = Candidate { eligible: true, score: -2 * TREE_ONE, ..Candidate::default() };
    for (policy, may_revoke) in [Policy::Best, Policy::Linnos].into_iter().flat_map(|p| [(p, false), (p, true)]) {
        let settings = Settings { policy, ..Settings::default() };
        let question = Question { now_ns: 0, replicas: 4, usable: 6, trees: 6, networks: 6, may_revoke };
        let (mut decision, mut revokes, mut asked) = (Decision::new(), Budget::default(), 0);
        decision.begin(&settings, &question);
        (0..4).for_each(|k| *decision.describe(k) = own);
        while decision.next_to_ask(&settings, &mut revokes).is_some() {
            (0..4).for_each(|k| *decision.describe(k) = Candidate { known: true, slow: true, score: 100, ..own });
            (0..4).for_each(|k| decision.describe(k).eligible = false);
            asked += 1;
        }
        let replica = decision.answer().replica;
        assert!(asked > 0 && (1..=2).contains(&replica), "{policy:?}: {replica} after {asked}");

        decision.begin_copy(&settings, &question);
        (0..4).for_each(|k| *decision.describe(k) = own);
        while let Some(k) = decision.next_of_copy() {
            *decision.describe(k) = Candidate { eligible: false, score: 100, ..own };
            (0..4).for_each(|k| decision.describe(k).eligible = false);
        }
        let copy = decision.copy();
        assert!(copy.is_some_and(|k| (1..=2).contains(&k)), "{policy:?}: {copy:?}");
        assert_eq!((decision.next_of_copy(), decision.copy()), (None, copy));
    }
}

/// A decision on a read is not continued as one on its copy, which may have no replica.
#[test]
#[should_panic(expected = "no decision on a copy has begun")]
fn a_read_is_not_its_copy() {
    let mut decision = Decision::new();
    let question = Question { now_ns: 0, replicas: 2, usable: 3, trees: 0, networks: 0, may_revoke: true };
    decision.begin(&Settings::default(), &question);
    decision.next_of_copy();
}

/// Second copies of `hedge.txt`.
#[test]
fn hedges() {
    let text = std::fs::read_to_string(root().join("spec/vectors/hedge.txt")).unwrap();
    let mut held_back = 0;
    for line in lines(&text) {
        let number = |at: usize| unhex(line[at]);
        if line[0] == "answered" {
            let mut hedging = Hedging::new(&Settings::default(), Some(number(1) as u64));
            hedging.answered(number(2) as u64);
            assert_eq!(hedging.delay_ns().map(i128::from), Some(number(4)), "{line:?}");
            continue;
        }
        if line[0] == "due" {
            let hedging = Hedging::new(&Settings::default(), Some(number(1) as u64));
            assert_eq!(hedging.due_ns(number(2) as u64).map(i128::from), Some(number(4)), "{line:?}");
            continue;
        }
        let candidates: Vec<Candidate> = line[9..]
            .chunks(3)
            .map(|words| Candidate {
                eligible: unhex(words[0]) == 1,
                in_flight: unhex(words[1]) as u32,
                ewma_ns: unhex(words[2]) as u64,
                ..Candidate::default()
            })
            .collect();
        let rate = Rate { per_million: number(2) as u32, burst: number(3) as u32 };
        let settings = Settings { hedges: rate, ..Settings::default() };
        let mut hedging = Hedging::new(&settings, Some(number(1) as u64));
        (0..number(4)).for_each(|_| hedging.earn(&settings));
        let sent = hedging.ask(&settings, &candidates);
        let again = hedging.ask(&settings, &[]);
        assert_eq!((i128::from(sent), i128::from(again)), (number(6), number(7)), "{line:?}");
        assert_eq!(i128::from(hedging.delay_ns().unwrap_or(0)), number(8), "{line:?}");
        held_back += usize::from(again && !sent);
    }
    assert!(held_back > 20, "{held_back} copies held back by overload prove little");
}
