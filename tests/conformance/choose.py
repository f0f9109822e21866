#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes spec/vectors/choose.txt, decide.txt and hedge.txt, and late.txt: a second implementation of spec/decision.md.

choose.py choose > ../../spec/vectors/choose.txt
choose.py decide > ../../spec/vectors/decide.txt
choose.py hedge > ../../spec/vectors/hedge.txt
choose.py late > late.txt
"""

import math
import random
import sys
from fractions import Fraction

POLICIES = ["baseline", "shortest-queue", "ewma-inflight", "linnos", "linnet-best"]
SUBMIT, REVOKE, FORCED = 0, 1, 2
NONE = 2**32 - 1
LIMIT = 2**64 - 1
DELAY_MAX = 2**40
# Lower scores count as this one, and replicas without trees have it.
LEAST = -2048


def wait(replica):
    """EWMA latency times the I/Os in flight, with this read; without history a millisecond for each I/O in flight."""
    if not replica["ewma"]:
        return replica["inflight"] * 10**6
    return min(replica["ewma"] * (replica["inflight"] + 1), LIMIT)


def preference(replica):
    """Log of the wait times the odds, in 1/1024; the logarithm is linear between powers of two."""
    log2 = 0
    if wait(replica) >= 2:
        octave = wait(replica).bit_length() - 1
        log2 = 1024 * octave + (wait(replica) - 2**octave) * 1024 // 2**octave
    return max(replica["score"], LEAST) + 710 * log2 // 1024


def expired(policy, replica, now, age):
    """Whether the state of a replica is too old for this policy and no probe is in flight."""
    if replica["probing"]:
        return False
    since = max(now - replica["learnt"], 0)
    if policy == "linnos":
        return replica.get("revokes", 0) >= 1024 or since >= age
    if policy == "linnet-best" and replica["inflight"]:
        return False
    return since > min(100 * age, LIMIT)


def choose(policy, replicas, now, age):
    """Returns replica, probe and predicted fast."""
    able = [k for k, r in enumerate(replicas) if r["eligible"]]
    if len(able) < 2:
        return (able[0] if able else NONE), 0, 0
    if policy == "linnos":
        for k in able[:-1]:
            slow, known = replicas[k]["slow"], replicas[k]["known"]
            if slow and known and not expired(policy, replicas[k], now, age):
                continue
            return k, slow, int(known and not slow)
        return able[-1], 0, 0
    keys = {
        "baseline": lambda k: k,
        "shortest-queue": lambda k: (replicas[k]["inflight"], k),
        "ewma-inflight": lambda k: (wait(replicas[k]), k),
        "linnet-best": lambda k: (preference(replicas[k]), wait(replicas[k]), k),
    }
    best = min(able, key=keys[policy])
    for k in able:
        own = replicas[k]
        if policy == "ewma-inflight" and k != best and own["ewma"] and expired(policy, own, now, age):
            return k, 1, 0
        if policy == "linnet-best" and expired(policy, own, now, age):
            return k, 1, 0
    predicted_fast = policy == "linnet-best" and replicas[best]["known"] and replicas[best]["score"] < 0
    return best, 0, int(predicted_fast)


def situation(rng, age):
    """Replicas with many equal values, so that ties occur, and times close to the age limits."""
    now = rng.choice([0, 5, age, 10**9, 10**12])
    ages = [0, 1, age - 1, age, age + 1, 100 * age - 1, 100 * age, 100 * age + 1, now]
    latencies = [0, 1, 2, 3, 90_000, 100_000, 100_001, 5_000_000, 2**40, 2**63, LIMIT]
    replicas = [
        {
            "eligible": int(rng.random() < 0.85),
            "known": int(rng.random() < 0.8),
            "slow": int(rng.random() < 0.6),
            "probing": int(rng.random() < 0.15),
            "score": rng.choice([-(2**31), -9000, -2049, -2048, -2047, -1, 0, 1, 700, 2048, 2**31 - 1]),
            "inflight": rng.choice([0, 0, 1, 2, 7, 2**32 - 1]),
            "ewma": rng.choice(latencies),
            "learnt": max(now - rng.choice(ages), 0) if rng.random() < 0.9 else now + 7,
        }
        for _ in range(rng.randint(1, 8))
    ]
    return now, replicas


def close_ones(rng):
    """Two replicas whose preferences by linnet-best differ by at most one: the last bit of the logarithm decides."""
    ewma = rng.randint(10, 2 ** rng.randint(4, 32))
    replicas = [
        {"eligible": 1, "known": 1, "slow": 0, "probing": 0, "score": 0, "inflight": 0, "ewma": own, "learnt": 10**9}
        for own in (ewma, ewma * rng.randint(250, 4000) // 1000)
    ]
    apart = preference(replicas[0]) - preference(replicas[1])
    replicas[apart < 0]["score"] -= abs(apart) + rng.choice([-1, 0, 1])
    return replicas


def signed(number):
    """Hex with a leading sign."""
    return f"-{-number:x}" if number < 0 else f"{number:x}"


def print_choices():
    """Print choose.txt."""
    rng = random.Random(17)
    print("# SPDX-License-Identifier: MIT OR Apache-2.0")
    print("# Choices among replicas (core/choose.c), written by tests/conformance/choose.py. Numbers in hex.")
    print("# choose POLICY NOW_NS AGE_NS REPLICA PROBE PREDICTED, then for each replica:")
    print("# ELIGIBLE KNOWN SLOW PROBING SCORE IN_FLIGHT EWMA_NS LEARNT_NS")
    for n in range(600):
        age = rng.choice([1, 1000, 10_000_000, 10_000_000, LIMIT])
        now, replicas = situation(rng, age)
        policy = n % len(POLICIES)
        print_choice(policy, now, age, replicas)
    for _ in range(100):
        print_choice(POLICIES.index("linnet-best"), 10**9, 10_000_000, close_ones(rng))


def print_choice(policy, now, age, replicas):
    """Print a line of choose.txt."""
    words = [policy, now, age, *choose(POLICIES[policy], replicas, now, age)]
    for r in replicas:
        words += [r[key] for key in ("eligible", "known", "slow", "probing", "score", "inflight", "ewma", "learnt")]
    print("choose", *map(signed, words))


def followed(case):
    """The policy that the models allow."""
    policy = case["policy"] if case["on"] else "baseline"
    if policy == "linnos" and not any(r["network"] for r in case["replicas"]):
        return "baseline"
    return policy


def describe(replica, eligible, known):
    """The known state of a replica before its model is asked, or with the answer of its trees."""
    return {**replica, "eligible": eligible, "known": known, "score": replica["score"] if known else LEAST, "slow": 0}


def decide(case):
    """Returns policy, by_trees, asked, replica, probe, predicted fast, verdict, denied."""
    policy, replicas, now, age = followed(case), case["replicas"], case["now"], case["age"]
    by_trees = policy == "linnet-best" or (case["tagged"] and policy != "linnos")
    usable = [k for k, r in enumerate(replicas) if r["usable"]]
    able = [k for k in usable if not replicas[k]["out"]] or usable
    # Trees are compared only if all have them.
    compared = policy == "linnet-best" and all(replicas[k]["trees"] for k in able)
    seen = [describe(r, k in able, compared and r["trees"]) for k, r in enumerate(replicas)]
    asked = set()

    def ask(k):
        asked.add(k)
        answers = replicas[k]["network"] and replicas[k]["history"]
        seen[k].update(known=answers, slow=replicas[k]["slow"] if answers else 0)

    if policy == "linnos":
        for k in able[:-1]:
            ask(k)
            if not seen[k]["slow"]:
                break
    chosen, probe, predicted_fast = choose(policy, seen, now, age)
    verdict = FORCED if len(able) == 1 or (policy == "baseline" != case["policy"]) else SUBMIT
    denied = 0
    if case["tagged"] and not probe:
        if by_trees and replicas[chosen]["trees"]:
            seen[chosen] = describe(replicas[chosen], True, 1)
        own = seen[chosen]
        if not own["known"] and chosen not in asked:
            ask(chosen)
        if own["known"]:
            by_network = chosen in asked
            slow = own["slow"] if by_network else own["score"] > own["slow_score"]
            verdict, predicted_fast = SUBMIT, int(not slow)
            if slow and is_expired(own, by_network, now, age):
                probe = 1
            elif slow and case["budget"]:
                verdict = REVOKE
            else:
                denied = int(slow)
    mask = sum(1 << k for k in asked)
    return POLICIES.index(policy), int(by_trees), mask, chosen, probe, predicted_fast, verdict, denied


def place_copy(case):
    """Policy and replica of a second copy: the one in service that is preferred, without networks and probes."""
    policy, replicas = followed(case), case["replicas"]
    if policy in ("linnos", "baseline"):
        policy = "ewma-inflight"
    able = [k for k, r in enumerate(replicas) if r["usable"] and not r["out"]]
    compared = all(replicas[k]["trees"] for k in able)
    seen = [describe({**r, "probing": 1}, k in able, compared) for k, r in enumerate(replicas)]
    return POLICIES.index(policy), choose(policy, seen, case["now"], case["age"])[0]


def is_expired(replica, by_network, now, age):
    """Whether a revoke would be based on expired state."""
    if replica["probing"]:
        return False
    since = max(now - replica["learnt"], 0)
    if by_network:
        return since >= age or replica["revokes"] >= 1024
    return replica["inflight"] == 0 and since > min(5 * age, LIMIT)


KEYS = ("usable", "out", "trees", "network", "history", "slow")
KEYS += ("probing", "score", "inflight", "ewma", "learnt", "revokes", "slow_score")


def print_decisions():
    """Print decide.txt."""
    rng, scores = random.Random(18), random.Random(21)
    print("# SPDX-License-Identifier: MIT OR Apache-2.0")
    print("# Whole decisions (core/decide.c), written by tests/conformance/choose.py. Numbers in hex.")
    print("# decide ASKED_POLICY ON TAGGED BUDGET NOW_NS AGE_NS =")
    print("# POLICY BY_TREES ASKED REPLICA PROBE PREDICTED VERDICT DENIED, then for each replica:")
    print("# USABLE OUT TREES NETWORK HISTORY SLOW PROBING SCORE IN_FLIGHT EWMA_NS LEARNT_NS REVOKES_IN_ROW SLOW_SCORE")
    print("# copy ASKED_POLICY ON NOW_NS AGE_NS = POLICY REPLICA, then the same: where the copy of a late read goes")
    for n in range(1100):
        case = decision_case(rng, scores, n)
        words = [POLICIES.index(case["policy"]), case["on"], case["tagged"], case["budget"], case["now"], case["age"]]
        print_case("decide", words, decide(case), case)
    rng = random.Random(22)
    for n in range(600, 1100):
        case = decision_case(rng, rng, n)
        words = [POLICIES.index(case["policy"]), case["on"], case["now"], case["age"]]
        print_case("copy", words, place_copy(case), case)


def decision_case(rng, scores, n):
    """Replicas, settings and a read; from the 800th on under linnet-best, with trees at every usable replica.

    From the 1,000th on, replicas that are out of service have no trees.
    """
    age = rng.choice([1000, 10_000_000, 10_000_000, LIMIT])
    now, replicas = situation(rng, age)
    lacks = rng.choice(["", "", "", "trees", "network", "both"])
    for r in replicas:
        r["usable"], r["out"] = int(rng.random() < 0.85), int(rng.random() < 0.2)
        r["trees"] = int(lacks not in ("trees", "both") and rng.random() < 0.8)
        r["network"] = int(lacks not in ("network", "both") and rng.random() < 0.8)
        r["history"] = int(rng.random() < 0.8)
        r["revokes"] = rng.choice([0, 0, 1, 1023, 1024])
        near = r["score"] + scores.choice([-1, 0, 1])
        r["slow_score"] = min(max(scores.choice([0, 0, near, near]), -(2**15)), 2**15 - 1)
        if rng.random() < 0.3:
            r["learnt"] = max(now - rng.choice([5 * age - 1, 5 * age, 5 * age + 1]), 0)
    if n >= 800:
        for r in replicas:
            r["trees"] = int(not r["out"]) if n >= 1000 else r["trees"] | r["usable"]
    if not any(r["usable"] for r in replicas):
        replicas[0]["usable"] = 1
    policy = POLICIES[n % len(POLICIES)] if n < 800 else "linnet-best"
    case = {"policy": policy, "on": int(rng.random() < 0.9), "tagged": int(rng.random() < 0.6), "now": now}
    return case | {"budget": int(rng.random() < 0.8), "age": age, "replicas": replicas}


def print_case(keyword, words, results, case):
    """Print a line of decide.txt."""
    rest = [r[key] for r in case["replicas"] for key in KEYS]
    print(keyword, *map(signed, words), "=", *map(signed, results), *map(signed, rest))


def longer(delay, per_million):
    """The delay after a read has waited for it: longer by (N - 1)/1000, rounded up; one hedge in N reads, N >= 2."""
    reads = max(Fraction(10**6, per_million), 2) if per_million else 2
    return min(delay + math.ceil(delay * (reads - 1) / 1000), DELAY_MAX)


def shorter(delay, latency):
    """The delay after a read was answered: shorter by a thousandth if that was not later than the delay."""
    return delay if latency > delay else delay - delay // 1000


def is_overload(delay, candidates):
    """Whether all that could take the copy have sixteen I/Os or more in flight and need an eighth of the delay."""
    able = [c for c in candidates if c["eligible"]]
    return bool(able) and all(c["inflight"] >= 16 and c["ewma"] >= delay // 8 for c in able)


def print_hedges():
    """Print hedge.txt."""
    rng = random.Random(19)
    print("# SPDX-License-Identifier: MIT OR Apache-2.0")
    print("# Second copies (core/hedge.c), written by tests/conformance/choose.py. Numbers in hex.")
    print("# hedge DELAY_NS PER_MILLION BURST EARNED = SENT SENT_AGAIN DELAY_NS, then for each replica:")
    print("# ELIGIBLE IN_FLIGHT EWMA_NS. EARNED reads arrive, a read is late, and one more, without replicas.")
    print("# answered DELAY_NS LATENCY_NS = DELAY_NS: a read that was not found late is answered.")
    print("# due DELAY_NS SENT_NS = DUE_NS: when a read is late.")
    for n in range(400):  # the last hundred: every percentage
        delay = rng.choice([1, 7, 999, 80_000, 1_000_000, 1_000_001, 2**39, 2**40 - 1, 2**40, LIMIT])
        per_million, burst = rng.choice([(20_000, 1), (20_000, 2), (10**6, 1), (8 * 10**6, 3), (333_333, 1), (0, 1)])
        earned = rng.choice([0, 1, 3, 49, 50, 51, 100])
        if n >= 300:
            per_million, burst = 10_000 * (n - 299), 256
        long = rng.random() < 0.6
        eighth = min(delay, DELAY_MAX) // 8
        candidates = [
            {
                "eligible": int(rng.random() < 0.8),
                "inflight": rng.choice([16, 17, 2**32 - 1] if long else [0, 1, 15, 16]),
                "ewma": rng.choice([eighth, eighth + 1, delay] if long else [0, max(eighth - 1, 0), eighth]),
            }
            for _ in range(rng.randint(1, 8))
        ]
        set_delay = min(delay, DELAY_MAX) if per_million else 0
        left = min(per_million * earned, burst * 10**6)
        sent = int(left >= 10**6 and not is_overload(set_delay, candidates))
        again = int(left - sent * 10**6 >= 10**6)
        after = longer(longer(set_delay, per_million), per_million)
        words = [delay, per_million, burst, earned, "=", sent, again, after]
        words += [c[key] for c in candidates for key in ("eligible", "inflight", "ewma")]
        print("hedge", *(word if word == "=" else signed(word) for word in words))
    # A lengthening that is rounded up for a remainder of 1, the least there is; no percentage has one.
    delay, per_million = pow(666_667, -1, 333_333_000), 333_333
    after = longer(longer(delay, per_million), per_million)
    words = [delay, per_million, 1, 0, "=", 0, 0, after, 0, 0, 0]
    print("hedge", *(word if word == "=" else signed(word) for word in words))
    for delay in (1, 999, 1000, 1001, 80_000, 1_000_001, 2**40 - 1, 2**40, 2**40 + 1, LIMIT):
        for latency in sorted({0, delay - 1, delay, min(delay + 1, LIMIT), LIMIT}):
            print("answered", signed(delay), signed(latency), "=", signed(shorter(min(delay, DELAY_MAX), latency)))
    for delay in (1, 80_000, 2**40, LIMIT):
        for sent in (0, 1, 2**63, LIMIT - 2**40, LIMIT - 80_000, LIMIT):
            print("due", signed(delay), signed(sent), "=", signed(min(sent + min(delay, DELAY_MAX), LIMIT)))


class Reads:
    """Reads in flight that share a hedge delay, and the timer that finds those that are late."""

    def __init__(self, percent):
        """No read, and the delay that the target starts with; this share of the reads may be hedged."""
        self.delay, self.earned, self.per_million = 10_000_000, 0, 10_000 * percent
        self.waiting = []  # when a read was sent, and its number, oldest first
        self.looks_at = None

    def send(self, at, read):
        """A read is sent."""
        self.earned = min(self.earned + self.per_million, 256 * 10**6)
        self.waiting.append((at, read))
        if self.looks_at is None:
            self.looks_at = at + self.delay

    def answer(self, at, read):
        """A read is answered."""
        for sent, number in self.waiting:
            if number == read:
                self.waiting.remove((sent, number))
                self.delay = shorter(self.delay, at - sent)
                break

    def look(self):
        """The timer expires. Returns the reads that are late, and whether there is a hedge for each."""
        at, late = self.looks_at, []
        while self.waiting and self.waiting[0][0] + self.delay <= at:
            self.delay = longer(self.delay, self.per_million)
            hedged = self.earned >= 10**6
            self.earned -= 10**6 if hedged else 0
            late.append((self.waiting.pop(0)[1], hedged))
        self.looks_at = self.waiting[0][0] + self.delay if self.waiting else None
        return late


def print_late():
    """Print late.txt: bursts of up to 12 reads, so no replica of three has a long queue when a copy is sent."""
    rng = random.Random(20)
    print("# SPDX-License-Identifier: MIT OR Apache-2.0")
    print("# Late reads in flight together (spec/decision.md), written by tests/conformance/choose.py. Numbers in hex.")
    print("# send AT_NS READ; answer AT_NS READ COPY (1: the second copy) = DELAY_NS;")
    print("# late AT_NS READ HEDGED = DELAY_NS: it is found late, and there is a second copy, or not.")
    print("# The delay is that when all late reads of this time were found. Three replicas; at first there is no read.")
    print("# hedge PERCENT: the same of a device of its own, of which so many reads are hedged; before, 2 percent.")
    print_late_of(rng, 2, 800)
    for percent in (7, 34, 49):
        print("hedge", signed(percent))
        print_late_of(rng, percent, 150)


def print_late_of(rng, percent, bursts):
    """Print the lines of one device."""
    reads, now, number = Reads(percent), 1, 0
    for burst in range(bursts):
        now += rng.randrange(10**6, 10**8)
        several = burst > 100 and rng.random() < 0.04
        count = rng.randint(2, 12) if several else 1
        slow = rng.random() < (0.5 if several else 0.02)
        events = []
        for _ in range(count):
            latency = rng.randrange(10**6, 10**8) if slow else rng.randrange(10**4, 10**6)
            events.append((now, "send", number))
            events.append((now + latency, "answer", number))
            number += 1
        answered = set()
        while events or (reads.looks_at is not None and reads.waiting):
            events.sort(key=lambda event: event[0])
            if reads.looks_at is not None and (not events or reads.looks_at < events[0][0]):
                now = reads.looks_at
                late = reads.look()
                for read, copy in late:
                    print("late", signed(now), signed(read), int(copy), "=", signed(reads.delay))
                    if copy:
                        latency = rng.randrange(10**4, rng.choice([10**6, 10**8]))
                        events.append((now + latency, "second", read))
                continue
            now, what, read = events.pop(0)
            assert now != reads.looks_at, "an event and the timer at one time"
            if what == "send":
                reads.send(now, read)
                print("send", signed(now), signed(read))
                continue
            reads.answer(now, read)
            answered.add(read)
            print("answer", signed(now), signed(read), int(what == "second"), "=", signed(reads.delay))
        assert len(answered) == count


PRINTERS = {"choose": print_choices, "decide": print_decisions, "hedge": print_hedges, "late": print_late}


def main():
    """Print the requested vectors."""
    if len(sys.argv) != 2 or sys.argv[1] not in PRINTERS:
        sys.exit(__doc__)
    PRINTERS[sys.argv[1]]()


if __name__ == "__main__":
    main()
