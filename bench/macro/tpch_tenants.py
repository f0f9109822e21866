# SPDX-License-Identifier: MIT OR Apache-2.0
"""TPC-H on PostgreSQL beside tenants of one served SSD model: measured slowdown, and slowdown predicted from profiles.

    sudo .venv/bin/python bench/macro/tpch_tenants.py --out runs.json [--scale 0.2] [--rounds 3] [--time-scale 8]
    .venv/bin/python bench/macro/tpch_tenants_table.py runs.json [--figure FILE.svg]

Two equal modelled drives are served over NBD in real time. The first has the database, through nbdfuse and a loop
device with direct I/O, because not every kernel has nbd. The tenants of tpch_tenants.fio run by fio on other parts of
the same drive, or, as the control, on the second drive: there they take the processor's time and not the drive's. Each
query runs with a cold cache on a PostgreSQL of its own, inside a memory limit. The NBD server records its I/Os, with
latencies as achieved.

With --time-scale N the drive is N times slower than its model and all else runs in real time: as on a host with
processors N times as fast. Needs root, loop devices, FUSE, control groups, PostgreSQL (Debian: postgresql), nbdfuse
(libnbd-bin), fio with its nbd engine, and tpchgen-cli (`pip install tpchgen-cli`).
"""

from __future__ import annotations

import argparse
import configparser
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "tune"))
from bed import Bed
from linnet import _native
from linnet._native import Device, Server, SharedDrive, Trace
from linnet.place.words import METRICS
from owner import unwinding
from tpch import MEMORY_BYTES, SKIPPED, queries
from tpch import Server as Postgres
from tpch import lacking as lacking_of_tpch

JOBS = Path(__file__).with_suffix(".fio")
DRIVES = ("drive0", "drive1")
BYTES_AT_SCALE_1 = 5 << 30
"""Tables, indexes, log and spilled sorts."""
PART_BYTES = 512 << 20
"""Of the drive, for each tenant."""
COUNTS = (1, 2, 4)
QUERIES = "Q1,Q3,Q6,Q12,Q17,Q20"
LOG = 2_000_000
"""I/Os of a drive that are kept: more than a query and its neighbours make."""
SETTLE_S = 0.2
ALONE_S = 0.2
"""Drive's time: until tenants and the drive's collection of garbage run steadily, as in `linnet place label`, and of a
tenant's own sample. fio takes another second to start."""


def lacking() -> str | None:
    """Why this cannot run here; None where it can."""
    if why := lacking_of_tpch():
        return why
    for tool, package in (("nbdfuse", "libnbd-bin"), ("fio", "fio")):
        if shutil.which(tool) is None:
            return f"needs {tool} (Debian: {package})"
    if not Path("/dev/fuse").exists():
        return "needs FUSE"
    engines = subprocess.run(["fio", "--enghelp"], check=False, capture_output=True, text=True).stdout
    return None if "nbd" in engines.split() else "needs fio with its nbd engine"


class ServedBed(Bed):
    """A file system on a drive that is served over NBD. Unless it may trim, the drive stays full, as it was made."""

    def __init__(self, uri: str, memory_bytes: int, size_bytes: int, trim: bool) -> None:
        super().__init__(None, memory_bytes, size_bytes)
        self.uri = uri
        self.mkfs_options = (*Bed.mkfs_options, *(() if trim else ("nodiscard",)))

    def attach(self, base: Path, undo: contextlib.ExitStack) -> str:
        """See :meth:`Bed.attach`."""
        file = base / "drive"
        file.touch()
        process = subprocess.Popen(["nbdfuse", "-C", "4", str(file), self.uri])
        undo.callback(process.wait, 30)
        undo.callback(subprocess.run, ["umount", str(file)], check=False)
        for _ in range(200):
            if os.path.ismount(file):
                break
            if process.poll() is not None:
                raise RuntimeError(f"nbdfuse ended with status {process.returncode}")
            time.sleep(0.05)
        # Without direct I/O the file would be cached outside of the memory limit.
        words = ["losetup", "-f", "--show", "--direct-io=on", "--sizelimit", str(self.size_bytes), str(file)]
        device = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
        undo.callback(subprocess.run, ["losetup", "-d", device], check=True)
        return device


class TenantServer(Postgres):
    """PostgreSQL with a socket of its own, beside others of this machine."""

    @property
    def socket(self) -> str:
        """See :attr:`Postgres.socket`."""
        return str(self.bed.root.parent)


def job_names() -> list[str]:
    """The tenants, in their order."""
    return [name for name in _jobs().sections() if name != "global"]


def _jobs() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(delimiters=("=",), comment_prefixes=(";", "#"), allow_no_value=True)
    parser.read(JOBS)
    return parser


class Tenants:
    """fio's jobs on a served drive."""

    def __init__(self, folder: Path, uris: dict[str, str], first_byte: int, time_scale: float) -> None:
        self.folder, self.uris, self.first_byte, self.time_scale = folder, uris, first_byte, time_scale

    def part(self, name: str) -> tuple[int, int]:
        """First byte of a tenant's part of the drive, and the byte behind it."""
        first = self.first_byte + job_names().index(name) * PART_BYTES
        return first, first + PART_BYTES

    def _file(self, names: list[str], drive: str) -> Path:
        parser = _jobs()
        lines = ["[global]", *(f"{key}={value}" for key, value in parser["global"].items())]
        lines += ["ioengine=nbd", f"uri={self.uris[drive]}", "time_based", "runtime=3600", f"size={PART_BYTES}"]
        for name in names:
            options = dict(parser[name])
            options["rate_iops"] = str(max(1, round(float(options["rate_iops"]) / self.time_scale)))
            options["offset"] = str(self.part(name)[0])
            lines += [f"[{name}]", *(f"{key}={value}" for key, value in options.items())]
        path = self.folder / f"{drive}-{'-'.join(names)}.fio"
        path.write_text("\n".join(lines) + "\n")
        return path

    @contextlib.contextmanager
    def running(self, names: list[str], drive: str) -> Iterator[None]:
        """The tenants, from when they are steady until the block ends."""
        if not names:
            yield
            return
        words = ["fio", "--output=/dev/null", str(self._file(names, drive))]
        process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        try:
            time.sleep(1 + SETTLE_S * self.time_scale)
            if process.poll() is not None:
                raise RuntimeError(f"fio: {process.communicate()[1][-500:]}")
            yield
        finally:
            process.terminate()
            process.communicate(timeout=60)


class Recorder:
    """What the served drives answered."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def now_ns(self) -> int:
        """Model time."""
        text = self.server.stats()
        assert text is not None
        return int(json.loads(text)["uptime_ns"])

    def between(self, drive: str, begin_ns: int, end_ns: int, first: int, end: int) -> dict[str, Any]:
        """Columns of the I/Os that arrived between these times on these bytes, by arrival; times from the first on."""
        columns = self.server.requests(drive)
        assert columns is not None
        arrive, offset = columns["arrive_ns"], columns["offset_bytes"]
        kept = np.flatnonzero((arrive >= begin_ns) & (arrive < end_ns) & (offset >= first) & (offset < end))
        kept = kept[np.argsort(arrive[kept], kind="stable")]
        found = {name: column[kept] for name, column in columns.items()}
        found["arrive_ns"] = found["arrive_ns"] - np.uint64(begin_ns)
        return found


def seen(columns: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What a tenant saw of the drive in so many seconds of model time: metrics, its profile, and its time in I/O."""
    metrics = []
    for op in (0, 1):
        mine = columns["op"] == op
        took = columns["latency_ns"][mine] / 1000.0
        metrics.append(float(columns["size_bytes"][mine].sum()) / seconds)
        metrics += [float(took.mean()), *map(float, np.quantile(took, (0.9, 0.95, 0.99)))] if len(took) else [0.0] * 4
    found: dict[str, Any] = {"seconds": seconds, "ios": len(columns["op"]), "metrics": metrics}
    reads = columns["op"] == 0
    begin = columns["arrive_ns"][reads].astype(np.int64)
    end = begin + columns["latency_ns"][reads].astype(np.int64)
    found["reading_s"] = union_s(begin, end)
    late = columns["latency_ns"].astype(np.int64) - columns["latency_ns_model"].astype(np.int64)
    found["late_us"] = [float(x) / 1000 for x in np.quantile(late, (0.5, 0.99))] if len(late) else [0.0, 0.0]
    found["model_read_us"] = float(columns["latency_ns_model"][reads].mean()) / 1000 if reads.any() else 0.0
    if len(columns["op"]):
        names = ("arrive_ns", "op", "offset_bytes", "size_bytes")
        device = np.zeros(len(columns["op"]), np.uint32)
        trace = Trace.from_columns("query", *(columns[name] for name in names), device, columns["latency_ns"])
        found["features"] = _native.profile_trace(trace, end_s=seconds)[0][1].features.tolist()
        found["trace"] = {name: columns[name].tolist() for name in (*names, "latency_ns")}
    return found


def union_s(begin: Any, end: Any) -> float:
    """Seconds in which at least one of the intervals [begin, end) of ns lasts; ``begin`` ascends."""
    if not len(begin):
        return 0.0
    reach = np.maximum.accumulate(end)
    # Where an interval begins behind all before it, time passes without any.
    gaps = np.maximum(begin[1:] - reach[:-1], 0).sum()
    return float(reach[-1] - begin[0] - gaps) / 1e9


def settings(elsewhere: bool) -> list[tuple[str, int, str]]:
    """Name, number of tenants, and their drive."""
    found = [("alone", 0, DRIVES[0]), *((f"{n} beside", n, DRIVES[0]) for n in COUNTS)]
    return found + ([(f"{COUNTS[-1]} elsewhere", COUNTS[-1], DRIVES[1])] if elsewhere else [])


def measure(args: argparse.Namespace, folder: Path, say: Any) -> dict[str, Any]:
    """All runs."""
    shared = SharedDrive(args.drive)
    params = folder / "drive.toml"
    params.write_text(shared.parameters)
    served = [(name, Device(params=params, seed=seed)) for seed, name in enumerate(DRIVES)]
    socket = folder / "drives.sock"
    server = Server(served, unix=socket, time_scale=args.time_scale, log_len=LOG)
    uris = dict(zip(DRIVES, server.uris, strict=True))
    recorder, size = Recorder(server), int(BYTES_AT_SCALE_1 * args.scale) + (256 << 20)
    tenants = Tenants(folder, uris, size, args.time_scale)
    names, texts = args.query.split(","), queries()
    runs: list[dict[str, Any]] = []
    alone: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        bed = stack.enter_context(ServedBed(uris[DRIVES[0]], MEMORY_BYTES, size, args.trim))
        os.chmod(bed.root.parent, 0o777)
        database = TenantServer(bed)
        say(f"filling the tables at scale {args.scale:g}")
        database.fill(args.scale, folder / "tables")
        for name in job_names():
            with tenants.running([name], DRIVES[0]):
                begin = recorder.now_ns()
                time.sleep(ALONE_S * args.time_scale)
                end = recorder.now_ns()
            alone[name] = seen(recorder.between(DRIVES[0], begin, end, *tenants.part(name)), (end - begin) / 1e9)
            alone[name]["part"] = tenants.part(name)
        for turn in range(args.rounds):
            for setting, count, drive in settings(not args.no_control):
                for query in names:
                    bed.cold()
                    with database.running(), tenants.running(job_names()[:count], drive):
                        begin = recorder.now_ns()
                        database.ask(texts[query])
                        end = recorder.now_ns()
                    row = {"round": turn, "setting": setting, "tenants": count, "query": query}
                    row |= seen(recorder.between(DRIVES[0], begin, end, 0, size), (end - begin) / 1e9)
                    row["load_average"] = os.getloadavg()[0]
                    if count:
                        row.pop("trace", None)
                    runs.append(row)
                    wall = row["seconds"] * args.time_scale
                    say(f"{setting}: {query} {wall:.2f} s, {row['reading_s'] / row['seconds']:.0%} in reads")
        stats = json.loads(server.stats() or "{}")
    return {
        "drive": args.drive,
        "parameters": shared.parameters,
        "scale": args.scale,
        "time_scale": args.time_scale,
        "trim": args.trim,
        "metrics": METRICS,
        "tenants": alone,
        "runs": runs,
        "server": stats,
    }


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--drive", default="sata", help="nvme or sata of the gray-box paper's Table 1, a preset, or a file"
    )
    parser.add_argument("--scale", type=float, default=0.2, help="scale factor: 1 is about 1 GB of text")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--time-scale", type=float, default=8.0, help="how many times slower than its model the drive is"
    )
    parser.add_argument("--query", default=QUERIES, help="queries, separated by commas")
    parser.add_argument("--trim", action="store_true", help="let the file system trim its part of the drive when made")
    parser.add_argument("--no-control", action="store_true", help="without tenants on the other drive")
    parser.add_argument("--out", type=Path, required=True, help="write the runs as JSON")
    args = parser.parse_args()
    if why := lacking():
        print(f"skipped: {why}", file=sys.stderr)
        return SKIPPED
    if unknown := set(args.query.split(",")) - set(queries()):
        parser.error(f"no query {sorted(unknown)[0]}: they are Q1 to Q22")

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    # A mount, a loop device and a server are taken down.
    with unwinding(), tempfile.TemporaryDirectory(prefix="linnet-tpch-") as name:
        os.chmod(name, 0o755)
        (Path(name) / "tables").mkdir(mode=0o755)
        found = measure(args, Path(name), say)
    args.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
