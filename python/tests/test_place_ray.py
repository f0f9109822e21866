# SPDX-License-Identifier: MIT OR Apache-2.0
"""Labels, forests' scores and fits from a Ray cluster of two local nodes, of which one is killed in the middle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from linnet.place.answers import TARGETS
from linnet.place.cache import Cache
from linnet.place.fitted_file import to_bytes
from linnet.place.fitting import fit_model
from linnet.place.label import Labeller, Plan
from linnet.place.observations import observe
from linnet.place.workers import RayCluster
from linnet.studies import colocation
from linnet.threads import Threads
from place_tables import write_ssdiq

ray = pytest.importorskip("ray", reason="ray is not installed (pip install 'ray[tune]')")

pytestmark = pytest.mark.slow

PLAN = Plan("sata", 24, (2, 4), 8, seconds=0.4, warm_s=0.05)


@pytest.fixture
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    try:
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        cluster.victim = cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False)
    except Exception as error:
        # Ray gives its processes 30 s to start, whatever else the machine does.
        pytest.skip(f"a Ray cluster does not start here: {error}")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def _quiet(*_: object) -> None:
    pass


def _keys(cache: Path) -> list[str]:
    return [json.loads(line)["key"] for line in cache.read_text().splitlines()]


def test_a_node_that_is_killed_loses_nothing(cluster: Any, tmp_path: Path) -> None:
    workers = RayCluster(cluster.address)
    victim = cluster.victim.node_id
    labeller = Labeller(PLAN, tmp_path / "runs", workers=workers)
    library = labeller.library(_quiet)
    before = dict(workers.done_by)
    done_at_kill = []

    def kill_in_the_middle(stage: str, done: int, total: int) -> None:
        # Both nodes have done runs of this stage, and more are left than one node has in its hands.
        by_now = workers.done_by[victim] - before.get(victim, 0)
        if not done_at_kill and by_now >= 2 and done - by_now >= 2:
            assert done < total - 4
            cluster.remove_node(cluster.victim, allow_graceful=False)
            done_at_kill.append(done)

    found = labeller.runs(library, kill_in_the_middle)
    assert done_at_kill, workers.done_by
    assert [node["Alive"] for node in ray.nodes() if node["NodeID"] == victim] == [False]
    # Each result was kept once, and all are those of threads.
    keys = _keys(tmp_path / "runs")
    assert len(keys) == len(set(keys)) == PLAN.workloads + PLAN.runs
    alone = Labeller(PLAN, workers=Threads(1))
    assert list(found) == list(alone.runs(alone.library(_quiet), _quiet))

    # Forests are fitted on what is left of the cluster, with the scores of this process.
    rows = colocation.seen_of("sata", library, found)
    pieces = [("by-run", 0, "read_bandwidth_mean", model) for model in ("gray-box", "weighted mean")]
    scores = dict(workers.map(colocation.score_of, rows, pieces))
    assert [scores[n] for n in range(2)] == [colocation.score_of(rows, piece) for piece in pieces]
    labeller.cache.close()


def test_a_stopped_driver_continues_where_it_was(cluster: Any, tmp_path: Path) -> None:
    labeller = Labeller(PLAN, tmp_path / "runs", workers=RayCluster(cluster.address))
    library = labeller.library(_quiet)

    def stop(stage: str, done: int, total: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        labeller.runs(library, stop)
    labeller.cache.close()
    again = Labeller(PLAN, tmp_path / "runs", workers=RayCluster(cluster.address))
    again.runs(again.library(_quiet), _quiet)
    assert again.cache.hits == PLAN.workloads + 5
    again.cache.close()


def test_a_fit_survives_its_node_and_is_that_of_one_process(cluster: Any, tmp_path: Path) -> None:
    write_ssdiq(tmp_path)
    rows = observe(tmp_path, TARGETS)["ssdiq"]
    workers, cache = RayCluster(cluster.address), Cache(tmp_path / "fits")
    victim, done_at_kill = cluster.victim.node_id, []

    def kill_in_the_middle(done: int) -> None:
        if not done_at_kill and workers.done_by[victim] and len(workers.done_by) == 2:
            cluster.remove_node(cluster.victim, allow_graceful=False)
            done_at_kill.append(done)

    model = fit_model(rows, 42, kill_in_the_middle, workers, cache)
    assert done_at_kill and done_at_kill[0] < len(TARGETS), workers.done_by
    assert len(set(_keys(tmp_path / "fits"))) == len(_keys(tmp_path / "fits")) == len(TARGETS)
    assert to_bytes(model) == to_bytes(fit_model(rows, 42, _quiet))
    cache.close()
