# SPDX-License-Identifier: MIT OR Apache-2.0
"""What-if, drift and rebalancing: who suffers and by what, when a profile no longer holds, and which moves help."""

import numpy as np
import pytest
from linnet.place import catalogue
from linnet.place import rebalance as module
from linnet.place.allocate import Allocator, Settings
from linnet.place.cluster import Cluster, DriveSpec
from linnet.place.drift import VIOLATIONS, advise, broken, drift
from linnet.place.rebalance import rebalance
from linnet.place.sheet import SheetModel
from linnet.place.slo import Slo, Tenant
from linnet.place.whatif import ABLATIONS, ablate, what_if
from linnet.place.words import OPS, Drive, Prediction, Profile
from place_made import GB, SHEET, Line, chance_profile, drive, profile, tenant


def made(drives: int = 3, model=None, **settings) -> Allocator:
    found = Allocator(Cluster(), model or Line(), Settings(**settings))
    found.add_drives([DriveSpec(drive(f"d{i}"), 960 * GB) for i in range(drives)])
    return found


def test_what_if_names_the_sufferer_and_changes_nothing() -> None:
    allocator = made()
    allocator.place(tenant("strict", 1000, at_most=105))
    answer = what_if(allocator, tenant("loud", 30_000), "d0")
    assert (answer.allowed, answer.drive) == (False, "d0")
    worst = answer.effects[0]
    assert (worst.tenant, worst.before.value, worst.after.value, worst.limit) == ("strict", 101.0, 131.0, 105.0)
    assert worst.broken
    assert (worst.cause, worst.cause_share) == ("reads", 1.0)
    assert "strict: read_latency_mean 101 -> 131 us [118, 144], 30 % worse, promised 105: BROKEN" in answer.text()
    assert not allocator.cluster.has_tenant("loud")
    assert allocator.cluster.placed == 1
    elsewhere = what_if(allocator, tenant("loud", 30_000))
    assert (elsewhere.allowed, elsewhere.drive) == (True, "d1")
    assert allocator.cluster.placed == 1


def test_a_promise_that_breaks_by_its_confidence_shows_the_number_that_was_compared() -> None:
    promise = (Slo("read_latency_mean_us", bound=125, confidence_percent=95),)
    answer = what_if(made(), Tenant("a", GB, profile("a", 20_000), promise), "d0")
    (one,) = answer.effects
    assert (one.limit, one.compared, one.confidence_percent, one.broken) == (125.0, 132.0, 95, True)
    assert "120 -> 120 us [108, 132], 0 % worse, promised 125 and at 95 % 132: BROKEN" in answer.text()


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"write_aligned_rate_mean": 60_000.0, "write_aligned_size_bytes_mean": 4096.0}, "writes"),
        ({"read_aligned_rate_mean": 400_000.0, "read_aligned_size_bytes_mean": 4096.0}, "reads"),
    ],
)
def test_the_cause_is_what_the_newcomer_does(changed: dict[str, float], cause: str) -> None:
    allocator = made(model=SheetModel(), load_max=9.0)
    promise = (Slo("read_latency_mean_us", degradation_percent=1),)
    allocator.place(Tenant("a", GB, profile("a", 50_000), promise))
    loud = Profile("b", {"read_random_ratio": 1.0, "write_random_ratio": 1.0, "depth": 1.0, **changed})
    effect = next(e for e in what_if(allocator, Tenant("b", GB, loud), "d0").effects if e.tenant == "a")
    assert effect.broken and effect.cause == cause
    # A cause is real if the harm is gone without it.
    without = what_if(allocator, Tenant("b", GB, ablate(loud, cause)), "d0")
    assert not any(e.broken for e in without.effects)


def test_tenants_of_one_profile_are_not_taken_for_the_newcomer() -> None:
    allocator = made()
    shared, promise = profile("oltp", 1000), (Slo("read_latency_mean_us", bound=500.0),)
    for name in "abc":
        allocator.place(Tenant(name, GB, shared, promise), "d0")
    effects = what_if(allocator, Tenant("new", GB, shared, promise), "d0").effects
    # Line: 100 us and 1 for each thousand reads a second of all who are there.
    assert {e.tenant: (e.before.value, e.after.value) for e in effects} == {
        **dict.fromkeys("abc", (103.0, 104.0)),
        "new": (101.0, 104.0),
    }


def test_an_empty_drive_takes_what_passes_its_load() -> None:
    allocator = made(drives=1, load_max=0.001)
    heavy = tenant("heavy", 50_000)
    assert what_if(allocator, heavy).allowed
    assert allocator.place(heavy).drive == "d0"


@pytest.mark.slow
def test_what_if_agrees_with_placement() -> None:
    chance = np.random.default_rng(4)
    allocator = made(drives=6, model=SheetModel())
    promise = (Slo("read_latency_mean_us", degradation_percent=10),)
    answers = []
    for index in range(60):
        one = Tenant(f"t{index}", GB, chance_profile(chance, "p", 20_000), promise)
        for name in ("d0", "d1", "d2"):
            said = what_if(allocator, one, name).allowed
            took = allocator.place(one, drive=name).drive
            assert said == (took == name)
            answers.append(said)
            if took is not None:
                break
    assert True in answers and False in answers


def test_what_if_says_what_else_stands_in_the_way() -> None:
    allocator = made(drives=1, load_max=0.1, tenants_max=1)
    allocator.place(tenant("a", 10))
    answer = what_if(allocator, tenant("b", 100_000, capacity=2000 * GB), "d0")
    assert not answer.allowed
    assert [part for part in ("bytes free", "of its time", "as many as it may") if part in answer.text()] == [
        "bytes free",
        "of its time",
        "as many as it may",
    ]
    with pytest.raises(ValueError, match="give a profile"):
        what_if(allocator, Tenant("x", 1), "d0")
    with pytest.raises(ValueError, match="placed already"):
        what_if(allocator, tenant("a", 1), "d0")


def test_each_ablation_takes_away_its_property_and_no_other() -> None:
    full = Profile(
        "full",
        {
            "read_aligned_size_bytes_mean": 8192,
            "read_aligned_rate_mean": 100,
            "read_aligned_rate_std": 10,
            "read_aligned_bandwidth_mean": 819_200,
            "read_unaligned_size_bytes_mean": 1000,
            "read_unaligned_rate_mean": 50,
            "write_aligned_size_bytes_mean": 4096,
            "write_aligned_rate_mean": 10,
            "write_aligned_unaligned_ratio": 0.5,
            "read_random_ratio": 0.7,
            "depth": 9,
        },
    )
    after = {name: ablate(full, name).features for name in ABLATIONS}
    assert after["writes"]["write_aligned_rate_mean"] == 0 == after["reads"]["read_aligned_rate_mean"]
    assert after["writes"]["read_aligned_rate_mean"] == 100
    assert after["bursts"]["read_aligned_rate_std"] == 0 and after["bursts"]["read_aligned_rate_mean"] == 100
    assert after["large I/Os"]["read_aligned_size_bytes_mean"] == 4096
    assert after["large I/Os"]["read_aligned_bandwidth_mean"] == 409_600
    assert after["unaligned I/Os"]["read_aligned_rate_mean"] == 150
    assert after["unaligned I/Os"]["read_aligned_size_bytes_mean"] == pytest.approx((8192 * 100 + 4096 * 50) / 150)
    assert after["unaligned I/Os"]["write_aligned_unaligned_ratio"] == 0
    assert after["random access"]["read_random_ratio"] == 0
    assert after["queue depth"]["depth"] == 1


def test_drift() -> None:
    stored = profile("p", 5000, 500)
    assert drift(stored, stored).distance == 0
    slightly = drift(stored, profile("p", 5500, 550))
    assert not slightly.left
    for rates in ((10_000, 1000), (2500, 250)):
        moved = drift(stored, profile("p", *rates))
        assert moved.distance == pytest.approx(1, abs=0.01) and moved.left, "double and half"
        assert advise([], moved) == "reprofile"
    tripled = drift(stored, profile("p", 15_000, 1500))
    assert tripled.left
    assert tripled.factor == pytest.approx(3, rel=0.01)
    other = drift(stored, profile("p", 5000, 500, size=65536.0))
    assert other.left
    assert other.feature in ("read_aligned_size_bytes_mean", "read_aligned_bandwidth_mean")
    assert not drift(profile("idle", 1), profile("idle", 9)).left, "ten I/Os per second disturb nobody"
    assert drift(profile("idle", 1), profile("busy", 900)).left
    declared = drift(stored, profile("p", 5000, 500, burst=0.0))
    assert not declared.left and declared.distance < 0.2, "a declared load has no bursts"


def test_a_kind_of_io_that_quadruples_is_drift_however_few_it_has() -> None:
    for stored in catalogue.profiles():
        rates = {op: sum(v for k, v in stored.features.items() if k.startswith(op) and "rate_mean" in k) for op in OPS}
        for op in (op for op in OPS if rates[op] > 0.06 * sum(rates.values())):
            grows = [k for k in stored.features if k.startswith(op) and ("rate" in k or "bandwidth" in k)]
            scaled = {**stored.features, **{k: 4 * stored.features[k] for k in grows}}
            seen = drift(stored, Profile(stored.name, scaled))
            assert seen.left, f"{stored.name}: {op}s"
            assert seen.feature is not None and seen.feature.startswith(op)


def test_broken_promises_are_counted_and_one_is_chance() -> None:
    one = Tenant("a", 1, profile("a", 1), (Slo("read_latency_p99_us", bound=500), Slo("read_bandwidth_mean", None, 10)))
    assert broken(one, {"read_latency_p99_us": 499, "read_bandwidth_mean": 91}, {"read_bandwidth_mean": 100}) == []
    assert len(broken(one, {"read_latency_p99_us": 501, "read_bandwidth_mean": 89}, {"read_bandwidth_mean": 100})) == 2
    same = drift(profile("a", 1000), profile("a", 1000))
    assert advise([True] * (VIOLATIONS - 1), None) == "none"
    assert advise([True] * VIOLATIONS, None) == "reprofile"
    assert advise([True] * VIOLATIONS, same) == "rebalance"
    assert advise([], drift(profile("a", 1000), profile("a", 9000))) == "reprofile"
    assert advise([True] * VIOLATIONS + [False] * 12, None) == "none"


def crowd(allocator: Allocator) -> None:
    """Tenants where the model would not have put them: d0 is too loud for its strict tenant, d1 could hold d2's."""
    rows = (
        ("strict", 1000, 105.0, "d0"),
        ("loud", 30_000, None, "d0"),
        ("small", 500, None, "d0"),
        ("c", 2000, None, "d1"),
        ("d", 1000, None, "d2"),
    )
    allocator.restore([(tenant(name, rate, at_most), home) for name, rate, at_most, home in rows])


def test_rebalancing_mends_broken_promises_and_empties_drives() -> None:
    allocator = made(drives=5)
    crowd(allocator)
    homes = allocator.cluster.drive_of.copy()
    advice = rebalance(allocator)
    assert (advice.broken_before, advice.broken_after) == (1, 0)
    assert (advice.drives_before, advice.drives_after) == (3, 2)
    assert (allocator.cluster.drive_of == homes).all(), "advice changes nothing"
    assert {move.source for move in advice.moves} == {"d0", "d2"}
    for move in advice.moves:
        row = allocator.cluster.row_of(move.tenant)
        assert allocator.cluster.specs[allocator.take(row)].drive.name == move.source
        decision = allocator.place_row(row, allocator.cluster.drive_index(move.target))
        assert decision.drive == move.target, "each move is allowed when its turn comes"
    assert allocator.cluster.drives_used == advice.drives_after
    assert sum(len(allocator.breaches(drive)) for drive in range(5)) == advice.broken_after
    assert rebalance(allocator).moves == []


def test_rebalancing_keeps_to_its_number_of_moves() -> None:
    allocator = made(drives=5)
    crowd(allocator)
    assert [move.tenant for move in rebalance(allocator, moves_max=1).moves] == ["strict"]
    assert rebalance(allocator, moves_max=0).moves == []


def test_rebalancing_that_is_late_answers_with_the_moves_that_it_has() -> None:
    allocator = made(drives=5)
    crowd(allocator)
    whole = rebalance(allocator)
    assert whole.complete and len(whole.moves) > 1
    for looks in range(6):
        left = iter(range(looks))
        advice = rebalance(allocator, late=lambda left=left: next(left, None) is None)
        assert not advice.complete
        assert advice.moves == whole.moves[: len(advice.moves)]
        assert advice.broken_after == (0 if advice.moves else 1)
        emptied = [move.reason for move in advice.moves].count("empties d2")
        assert emptied in (0, len(whole.moves) - 1), "no drive is left half empty"


def test_equal_tenants_that_nobody_takes_are_searched_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator = made(drives=30)
    # Alone on a drive they have 100 us, so no move mends this.
    allocator.restore([(tenant(f"hopeless{i}", 1000, 50.0), f"d{i}") for i in range(20)])
    allocator.restore([(tenant(f"beside{i}", 30_000), f"d{i}") for i in range(20)])
    place_row, asked = allocator.place_row, []
    monkeypatch.setattr(
        allocator, "place_row", lambda row, *how, **more: asked.append(how) or place_row(row, *how, **more)
    )
    advice = rebalance(allocator)
    assert (advice.broken_before, advice.broken_after, advice.moves) == (20, 20, [])
    assert len([how for how in asked if how[0] is None]) <= 4
    assert len(asked) < 60


@pytest.mark.parametrize("seed", range(5))
def test_what_is_remembered_of_refusals_changes_no_advice(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def crowded() -> tuple[Allocator, list[int | None]]:
        chance, allocator = np.random.default_rng(seed), made(drives=12, exact=True)
        kinds = [(rate, most) for rate in (1000, 4000, 15_000) for most in (None, 90.0, 110.0, 125.0)]
        for index in range(36):
            rate, most = kinds[int(chance.integers(len(kinds)))]
            one = tenant(f"t{index}", rate, most, capacity=int(chance.choice([100, 300])) * GB)
            home = np.flatnonzero(allocator.cluster.capacity - allocator.cluster.used >= one.capacity_bytes)
            allocator.restore([(one, f"d{chance.choice(home)}")])
        place_row, asked = allocator.place_row, []

        def counted(row: int, only: int | None, but: int, **how):
            asked.append(only)
            return place_row(row, only, but, **how)

        monkeypatch.setattr(allocator, "place_row", counted)
        return allocator, asked

    remembers, asked = crowded()
    advice = rebalance(remembers)
    assert advice.broken_after < advice.broken_before
    monkeypatch.setattr(module, "LEFT_MAX", -1)
    forgets, asked_all = crowded()
    assert rebalance(forgets) == advice
    assert asked.count(None) < asked_all.count(None) == len(asked_all)


def test_rebalancing_moves_another_tenant_where_the_best_has_nowhere_to_go() -> None:
    allocator = made(drives=1)
    allocator.add_drives([DriveSpec(drive("small"), 20 * GB)])
    # Without the log both promises hold, but no other drive has the capacity for it; a move of a tenant mends its own.
    rows = [tenant("log", 30_000, capacity=500 * GB), *(tenant(name, 1000, 110.0) for name in ("a", "b"))]
    allocator.restore([(one, "d0") for one in rows])
    advice = rebalance(allocator)
    assert [(move.tenant, move.target) for move in advice.moves] == [("a", "small"), ("b", "small")]
    assert [move.reason.partition(" broken")[0] for move in advice.moves] == ["1 of 2", "1 of 1"]
    assert (advice.broken_before, advice.broken_after) == (2, 0)


def test_the_sheet_model_says_what_physics_says() -> None:
    model = SheetModel()
    one = Drive("d", "m", SHEET)

    def mean(reads: float, *others: Profile, **how: float) -> Prediction:
        return model.predict([one], [profile("p", reads, **how)], [others])[0]["read_latency_mean_us"]

    quiet = mean(1000.0)
    assert 80 < quiet.value < 85, "alone, the sheet's latency and the transfer"
    assert quiet.low90 < quiet.value < quiet.high90
    at = [mean(1000.0, profile("o", rate)).value for rate in (1e5, 3e5, 4e5, 5e5, 6e5)]
    assert at == sorted(at) and at[-1] > 2 * at[0]
    writes = mean(1000.0, profile("o", 0, 80_000)).value
    assert writes > mean(1000.0, profile("o", 80_000)).value
    bursty = [model.predict([one], [profile("p", 1000)], [[profile("o", 480_000, burst=b)]])[0] for b in (0.0, 0.5)]
    assert bursty[1]["read_bandwidth_mean"].value < bursty[0]["read_bandwidth_mean"].value
    alone, beside = (
        model.predict([one], [profile("p", 50_000, burst=2.0)], [others])[0] for others in ([], [profile("o", 20_000)])
    )
    assert all(beside[name].value >= alone[name].value for name in alone if "latency" in name), "nobody helps a burst"
    answer = model.predict([one], [profile("p", 1000)], [[profile("o", 2_000_000)]])[0]
    assert answer["read_bandwidth_mean"].value == pytest.approx(1000 * 4096 * 530 / 2001, rel=0.35)
    assert "write_latency_mean_us" not in answer
    blind = model.predict([Drive("d", "m", {})], [profile("p", 1000)], [()])[0]
    assert blind == {}, "no sheet, no prediction"
