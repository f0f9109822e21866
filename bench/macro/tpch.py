# SPDX-License-Identifier: MIT OR Apache-2.0
"""TPC-H on PostgreSQL, on the throttled device: kernel default, static values, and the readahead tuner.

    sudo .venv/bin/python bench/macro/tpch.py [--scale 0.3] [--rounds 3] [--model nvme|sata] [--out FILE.json]

Each query runs with a cold cache on a server of its own, inside the memory limit. The settings take turns within a
round. One tuner watches all queries of its turn, as it would in service. Needs root, loop devices, control groups,
PostgreSQL (Debian: postgresql) and tpchgen-cli (`pip install tpchgen-cli`), which writes the tables.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "tune"))
from bed import MODELS, Bed, bed_for_rates, missing, tuner

QUERIES = Path(__file__).with_suffix(".sql")
DEFAULT_KIB = 128
DEFAULT = f"{DEFAULT_KIB} KiB (default)"
TUNER = "tuner"
MEMORY_BYTES = 300 << 20
"""Of the server and of the page cache for its files: less than the tables, more than its buffers."""
BYTES_AT_SCALE_1 = 4 << 30
"""Tables, indexes, log and spilled sorts."""
SKIPPED = 77

TABLES = """
CREATE TABLE region (r_regionkey int PRIMARY KEY, r_name text, r_comment text);
CREATE TABLE nation (n_nationkey int PRIMARY KEY, n_name text, n_regionkey int, n_comment text);
CREATE TABLE supplier (s_suppkey int PRIMARY KEY, s_name text, s_address text, s_nationkey int, s_phone text,
    s_acctbal numeric, s_comment text);
CREATE TABLE part (p_partkey int PRIMARY KEY, p_name text, p_mfgr text, p_brand text, p_type text, p_size int,
    p_container text, p_retailprice numeric, p_comment text);
CREATE TABLE partsupp (ps_partkey int, ps_suppkey int, ps_availqty int, ps_supplycost numeric, ps_comment text,
    PRIMARY KEY (ps_partkey, ps_suppkey));
CREATE TABLE customer (c_custkey int PRIMARY KEY, c_name text, c_address text, c_nationkey int, c_phone text,
    c_acctbal numeric, c_mktsegment text, c_comment text);
CREATE TABLE orders (o_orderkey int PRIMARY KEY, o_custkey int, o_orderstatus text, o_totalprice numeric,
    o_orderdate date, o_orderpriority text, o_clerk text, o_shippriority int, o_comment text);
CREATE TABLE lineitem (l_orderkey int, l_partkey int, l_suppkey int, l_linenumber int, l_quantity numeric,
    l_extendedprice numeric, l_discount numeric, l_tax numeric, l_returnflag text, l_linestatus text, l_shipdate date,
    l_commitdate date, l_receiptdate date, l_shipinstruct text, l_shipmode text, l_comment text,
    PRIMARY KEY (l_orderkey, l_linenumber));
"""
INDEXES = """
CREATE INDEX ON orders (o_custkey);
CREATE INDEX ON orders (o_orderdate);
CREATE INDEX ON lineitem (l_partkey, l_suppkey);
CREATE INDEX ON lineitem (l_shipdate);
CREATE INDEX ON partsupp (ps_suppkey);
VACUUM ANALYZE;
CHECKPOINT;
"""
"""Foreign keys and dates, as the specification allows (Section 1.5)."""


def programs() -> Path | None:
    """Where PostgreSQL's server programs are; Debian keeps them out of the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return found[-1].parent if found else None


def lacking() -> str | None:
    """Why this cannot run here; None where it can."""
    if why := missing():
        return why
    if programs() is None:
        return "needs PostgreSQL (Debian: postgresql)"
    return None if generator() else "needs tpchgen-cli (pip install tpchgen-cli)"


def generator() -> str | None:
    """The program that writes the tables: of this environment, or in the path."""
    here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return shutil.which("tpchgen-cli", path=here)


def queries() -> dict[str, str]:
    """Name to text."""
    parts = re.split(r"^-- (Q\d+)$", QUERIES.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))


class Server:
    """PostgreSQL with its files on the bed."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.data = bed.root / "postgres"
        where = programs()
        assert where is not None
        self.programs = where

    def words(self, program: str, *more: str) -> list[str]:
        """A command of the server's own user; it refuses to run as root."""
        return ["runuser", "-u", "postgres", "--", str(self.programs / program), *more]

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """The server, from when it answers until it has ended."""
        settings = ["listen_addresses=", f"unix_socket_directories={self.socket}", "shared_buffers=32MB", "jit=off"]
        options = [word for one in settings for word in ("-c", one)]
        process = self.bed.start(self.words("postgres", "-D", str(self.data), *options))
        try:
            for _ in range(200):
                if process.poll() is not None:
                    raise RuntimeError(f"PostgreSQL ended: {process.communicate()[1][-500:]}")
                if subprocess.run(self.words("pg_isready", "-q", "-h", self.socket), check=False).returncode == 0:
                    break
                time.sleep(0.05)
            yield
        finally:
            process.terminate()
            process.communicate(timeout=120)

    @property
    def socket(self) -> str:
        """Folder of the socket: a short path, since a socket's name is limited."""
        return "/tmp"

    def ask(self, text: str) -> str:
        """The answer to SQL."""
        words = self.words("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", self.socket, "-d", "postgres")
        done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"psql: {done.stderr.strip()[-500:]}")
        return done.stdout

    def fill(self, scale: float, folder: Path) -> None:
        """Make the database with its tables."""
        self.data.mkdir()
        shutil.chown(self.data, "postgres", "postgres")
        subprocess.run(
            self.words("initdb", "-D", str(self.data), "--locale=C", "-A", "trust"), check=True, capture_output=True
        )
        made = subprocess.run(
            [str(generator()), "-s", str(scale), "--output-dir", str(folder)],
            check=False,
            capture_output=True,
            text=True,
        )
        if made.returncode:
            raise RuntimeError(f"tpchgen-cli: {made.stderr.strip()[-500:]}")
        for path in (folder, *folder.rglob("*")):
            os.chmod(path, 0o755 if path.is_dir() else 0o644)
        with self.running():
            self.ask(TABLES)
            for file in sorted(folder.rglob("*.tbl")):
                # Each line ends with a separator, which COPY takes for one more column.
                self.ask(f"COPY {file.stem} FROM PROGRAM 'sed s/.$// {file}' WITH (DELIMITER '|');")
            self.ask(INDEXES)


def run(server: Server, names: list[str], log: Path, setting: str, kib: int) -> dict[str, float]:
    """Seconds of each query under a setting, on a device that has `kib` at first."""
    bed, texts, took = server.bed, queries(), {}
    bed.set(kib)
    with tuner(bed, log) if setting == TUNER else contextlib.nullcontext():
        for name in names:
            bed.cold()
            with server.running():
                start = time.monotonic()
                server.ask(texts[name])
                took[name] = time.monotonic() - start
            print(f"{setting}: {name} {took[name]:.2f} s", file=sys.stderr, flush=True)
    return took


def show(found: dict[str, list[dict[str, float]]], names: list[str]) -> None:
    """Medians over the rounds; ratios above 1 mean that the tuner is faster."""
    median = {s: {n: statistics.median(run[n] for run in runs) for n in names} for s, runs in found.items()}
    print(
        "| query | "
        + " | ".join(f"{s}, s" for s in found)
        + " | tuner, spread | default / tuner | best static / tuner |"
    )
    print("|---" * (len(found) + 4) + "|")
    for name in [*names, "all"]:
        of = {s: sum(m.values()) if name == "all" else m[name] for s, m in median.items()}
        runs = [sum(run.values()) if name == "all" else run[name] for run in found[TUNER]]
        spread = (max(runs) - min(runs)) / 2 / of[TUNER]
        best = min(value for s, value in of.items() if s != TUNER)
        print(
            f"| {name} | " + " | ".join(f"{value:.2f}" for value in of.values())
            + f" | ±{100 * spread:.0f} % | {of[DEFAULT] / of[TUNER]:.2f} | {best / of[TUNER]:.2f} |"
        )  # fmt: skip


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.3, help="scale factor: 1 is about 1 GB of text")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", choices=MODELS, default="nvme")
    parser.add_argument("--static", default="16,1024", help="other values of the device, in KiB, separated by commas")
    parser.add_argument("--query", help="queries, separated by commas, such as Q1,Q6 (default: all)")
    parser.add_argument("--logs", type=Path, help="keep the tuner's events of each round in this folder")
    parser.add_argument("--out", type=Path, help="also write the runs as JSON")
    args = parser.parse_args()
    if why := lacking():
        print(f"skipped: {why}", file=sys.stderr)
        return SKIPPED
    names = args.query.split(",") if args.query else list(queries())
    if unknown := set(names) - set(queries()):
        parser.error(f"no query {sorted(unknown)[0]}: they are Q1 to Q22")
    others = {f"{kib} KiB": int(kib) for kib in args.static.split(",") if kib}
    settings = {**others, DEFAULT: DEFAULT_KIB, TUNER: DEFAULT_KIB}
    found: dict[str, list[dict[str, float]]] = {setting: [] for setting in settings}
    with tempfile.TemporaryDirectory(prefix="linnet-tpch-") as folder, contextlib.ExitStack() as stack:
        bed = stack.enter_context(
            bed_for_rates(MODELS[args.model], MEMORY_BYTES, int(BYTES_AT_SCALE_1 * args.scale) + (256 << 20))
        )
        os.chmod(bed.root.parent, 0o755)
        server = Server(bed)
        bed.throttle(None)
        os.chmod(folder, 0o755)
        server.fill(args.scale, Path(folder))
        bed.throttle(bed.model)
        logs = args.logs or Path(folder)
        logs.mkdir(exist_ok=True)
        for turn in range(args.rounds):
            for setting, kib in settings.items():
                found[setting].append(run(server, names, logs / f"tuner-{turn}.jsonl", setting, kib))
    show(found, names)
    if args.out:
        args.out.write_text(json.dumps({"scale": args.scale, "model": args.model, "seconds": found}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
