# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rebalancing of clusters with many drives: each tenant moves once, and measured ones leave staging drives."""

import numpy as np
import pytest
from linnet.place.allocate import Allocator, Policy, Settings
from linnet.place.catalogue import profiles
from linnet.place.cluster import Cluster, DriveSpec
from linnet.place.rebalance import Advice, rebalance
from linnet.place.sheet import SheetModel
from linnet.place.slo import Slo, Tenant
from linnet.place.words import Profile
from place_made import GB, Line, drive, tenant


def light(drives: int, each: int, policy: Policy) -> Allocator:
    """A cluster that could do with fewer drives: each has some tenants that ask for little of it."""
    chance, known = np.random.default_rng(1), profiles()
    promises = (Slo("read_latency_p99_us", bound=3000.0), Slo("read_bandwidth_mean", degradation_percent=20.0))
    found = Allocator(Cluster(), SheetModel(), Settings(policy=policy))
    found.add_drives([DriveSpec(drive(f"d{i}"), 960 * GB) for i in range(drives)])
    tenants = []
    for index in range(drives):
        for number in range(each):
            one, share = known[int(chance.integers(len(known)))], float(chance.uniform(0.05, 0.2))
            features = {k: v * share if "rate" in k or "bandwidth" in k else v for k, v in one.features.items()}
            name = f"t{index}-{number}"
            tenants.append((Tenant(name, GB, Profile(name, features), promises), f"d{index}"))
    found.restore(tenants)
    return found


def carry_out(allocator: Allocator, advice: Advice) -> None:
    """Make the moves in their order, each of which must be allowed at its turn."""
    for move in advice.moves:
        row = allocator.cluster.row_of(move.tenant)
        assert allocator.cluster.specs[allocator.take(row)].drive.name == move.source
        assert allocator.place_row(row, allocator.cluster.drive_index(move.target)).drive == move.target
    assert allocator.cluster.drives_used == advice.drives_after


def broken_everywhere(allocator: Allocator) -> int:
    return sum(len(allocator.breaches(drive)) for drive in range(len(allocator.cluster.specs)))


@pytest.mark.parametrize("policy", ["first-fit", "best-fit"])
def test_no_tenant_moves_twice(policy: Policy) -> None:
    allocator = light(40, 6, policy)
    advice = rebalance(allocator, moves_max=1000)
    moved = [move.tenant for move in advice.moves]
    assert len(set(moved)) == len(moved)
    assert (advice.drives_before, advice.drives_after) == (40, 4)
    assert not {move.source for move in advice.moves} & {move.target for move in advice.moves}
    carry_out(allocator, advice)
    assert broken_everywhere(allocator) == 0


def test_a_measured_tenant_leaves_its_staging_drive_when_there_is_room() -> None:
    allocator = Allocator(Cluster(), Line(), Settings())
    allocator.add_drives([DriveSpec(drive("d0"), 100 * GB), DriveSpec(drive("s0"), 100 * GB, staging=True)])
    there = (tenant("a", 1000, 105.0), "d0"), (Tenant("unmeasured", GB), "s0")
    allocator.restore([*there, (tenant("b", 2000, 110.0), "s0"), (tenant("loud", 30_000), "s0")])
    advice = rebalance(allocator)
    assert [(one.tenant, one.source, one.target) for one in advice.moves] == [("b", "s0", "d0")], "loud would harm a"
    assert advice.moves[0].reason == "was measured on s0, and has room elsewhere"
    carry_out(allocator, advice)
    assert broken_everywhere(allocator) == 0
    assert rebalance(allocator).moves == []
    allocator.add_drives([DriveSpec(drive("d1"), 100 * GB)])
    assert [(one.tenant, one.target) for one in rebalance(allocator).moves] == [("loud", "d1")]
