#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes spec/vectors/choose.txt: the rules of core/choose.c, written down once more, on situations drawn from a seed.

choose.py > ../../spec/vectors/choose.txt
"""

import random

POLICIES = ["baseline", "shortest-queue", "ewma-inflight", "linnos", "linnet-best"]
NONE = 2**32 - 1
LIMIT = 2**64 - 1


def wait(replica):
    """EWMA latency times the I/Os that a read would be among."""
    return min(replica["ewma"] * (replica["inflight"] + 1), LIMIT)


def preference(replica):
    """Log of the wait times the odds, in 1/1024; the logarithm goes straight between powers of two."""
    log2 = 0
    if wait(replica) >= 2:
        octave = wait(replica).bit_length() - 1
        log2 = 1024 * octave + (wait(replica) - 2**octave) * 1024 // 2**octave
    return max(replica["score"], -2048) + 710 * log2 // 1024


def expired(policy, replica, now, age):
    """Whether what is known of a replica is too old for this policy, and no probe is on its way."""
    if replica["probing"]:
        return False
    since = max(now - replica["learnt"], 0)
    if policy == "linnet-best":
        return replica["inflight"] == 0 and since > min(100 * age, LIMIT)
    return since >= age


def choose(policy, replicas, now, age):
    """Replica, probe, judged."""
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
    judged = policy == "linnet-best" and replicas[best]["known"] and replicas[best]["score"] < 0
    return best, 0, int(judged)


def situation(rng, age):
    """Replicas of which much is alike, so that ties are met; times around the ages that decide."""
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


def signed(number):
    """Hex with a sign in front."""
    return f"-{-number:x}" if number < 0 else f"{number:x}"


def main():
    """Print the vectors."""
    rng = random.Random(17)
    print("# SPDX-License-Identifier: MIT OR Apache-2.0")
    print("# Choices among replicas (core/choose.c), written by tests/conformance/choose.py. Numbers in hex.")
    print("# choose POLICY NOW_NS AGE_NS REPLICA PROBE JUDGED, then for each replica:")
    print("# ELIGIBLE KNOWN SLOW PROBING SCORE IN_FLIGHT EWMA_NS LEARNT_NS")
    for n in range(600):
        age = rng.choice([1, 1000, 10_000_000, 10_000_000, LIMIT])
        now, replicas = situation(rng, age)
        policy = n % len(POLICIES)
        words = [policy, now, age, *choose(POLICIES[policy], replicas, now, age)]
        for r in replicas:
            words += [r[key] for key in ("eligible", "known", "slow", "probing", "score", "inflight", "ewma", "learnt")]
        print("choose", *map(signed, words))


if __name__ == "__main__":
    main()
