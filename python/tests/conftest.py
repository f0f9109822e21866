# SPDX-License-Identifier: MIT OR Apache-2.0
"""Shared by the tests: the real data if it exists, a generated trace, and the command line as a user calls it."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from linnet import Trace
from starter import COMMAND, close, starter

if TYPE_CHECKING:
    from linnet.place.fitted import PlacementModel
    from linnet.place.observations import Observations

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("LINNET_SHARED") or ROOT.parent / "shared")

SMALL_QUEUED = """model = "queued"
channels = 2
chips_per_channel = 2
planes_per_die = 2
blocks_per_plane = 64
pages_per_block = 32
spare_share_of_raw = 0.2
write_buffer_bytes = 1048576
gc_free_share = 0.05
gc_stop_writes_below_blocks = 3
gc_concurrent_per_plane = 1
reserved_blocks_per_plane = 0
"""

# How long an example takes says more about the machine than about the code. In CI Hypothesis does so by itself.
settings.register_profile("linnet", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("linnet")

# A shell's background job ignores SIGINT, and so would the programs that the tests interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """The modules and tests, of which nothing becomes garbage, are not searched for it again and again."""
    gc.freeze()


def pytest_unconfigure() -> None:
    """End the processes that start the others, if any test made them."""
    close()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real traces and reference data; the test is skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"no {SHARED}")
    return SHARED


@pytest.fixture(scope="session")
def placement_model(tmp_path_factory: pytest.TempPathFactory) -> PlacementModel:
    """Fitted to the drives of ``place_tables``; it takes seconds, so all tests ask one."""
    # Most test files need none of it.
    from linnet.place.answers import TARGETS
    from linnet.place.fitting import fit_model
    from linnet.place.observations import observe
    from place_tables import write_ssdiq

    folder = tmp_path_factory.mktemp("drives")
    write_ssdiq(folder)
    return fit_model(observe(folder, TARGETS)["ssdiq"], 42, lambda done: None)


@pytest.fixture(scope="session")
def mixes(tmp_path_factory: pytest.TempPathFactory) -> Observations:
    """The runs of mixes of ``place_tables``."""
    from linnet.place.observations import observe
    from place_tables import write_icpe

    folder = tmp_path_factory.mktemp("mixes")
    write_icpe(folder)
    return observe(folder)["icpe"]


def device_trace(seed: int = 0, reads: int = 6000, name: str = "made") -> Trace:
    """A device with busy episodes of 5 ms in every 50 ms: reads in one take 3 ms, others 100 us."""
    chance = np.random.default_rng(seed)
    arrive = np.cumsum(chance.exponential(200_000, reads)).astype(np.uint64)
    busy = (arrive % 50_000_000) < 5_000_000
    latency = np.where(busy, 3_000_000, 100_000) + chance.integers(0, 20_000, reads)
    op = (chance.random(reads) < 0.2).astype(np.uint8)
    return Trace.from_columns(
        name,
        arrive_ns=arrive,
        op=op,
        offset_bytes=(chance.integers(0, 1 << 20, reads) * 4096).astype(np.uint64),
        size_bytes=np.full(reads, 4096, np.uint32),
        device=np.zeros(reads, np.uint32),
        latency_ns=latency.astype(np.uint64),
    )


@pytest.fixture
def made() -> Trace:
    """See :func:`device_trace`."""
    return device_trace()


@pytest.fixture(scope="session")
def small_drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parameters of an eighth of the preset ``sata``, for tests of which the drive is not the subject.

    Most of what a short run computes is the state of its drives after long use, which takes time with their size.
    """
    text = (ROOT / "crates/ssd/presets/sata.toml").read_text()
    small = text.replace("pages_per_block = 32", "pages_per_block = 4")
    assert small != text
    path = tmp_path_factory.mktemp("drive") / "small.toml"
    path.write_text(small)
    return path


@pytest.fixture(scope="session")
def small_queued_drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parameters of a small drive of the queued model."""
    path = tmp_path_factory.mktemp("drive") / "small-queued.toml"
    path.write_text(SMALL_QUEUED)
    return path


@pytest.fixture
def linnet() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command ``linnet`` with these arguments; with options, by an interpreter of its own."""

    def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        words = [*map(str, arguments)]
        done = None if options else starter(words).run(words, timeout=300)
        return done or subprocess.run(
            [str(COMMAND), *words], capture_output=True, text=True, check=False, timeout=300, **options
        )

    return run


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The files of a machine with one disk, mounted at /data, with the kernel's default of 128 KiB."""
    disk = tmp_path / "sys/block/nvme0n1"
    (disk / "queue").mkdir(parents=True)
    (disk / "size").write_text("1000")
    (disk / "dev").write_text("259:0")
    (disk / "queue/rotational").write_text("0")
    (disk / "queue/read_ahead_kb").write_text("128")
    (tmp_path / "sys/dev/block").mkdir(parents=True)
    (tmp_path / "sys/dev/block/259:0").symlink_to("../../block/nvme0n1")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("30 1 259:0 / /data rw - ext4 /dev/nvme0n1 rw\n")
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("this one")
    return tmp_path
