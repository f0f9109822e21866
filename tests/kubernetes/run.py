# SPDX-License-Identifier: MIT OR Apache-2.0
"""The placement service beside a real kube-scheduler and API server, on loopback.

    .venv/bin/python tests/kubernetes/run.py [CASE...]
    .venv/bin/python tests/kubernetes/run.py --measure 200

The first run compiles the control plane from Go modules, which takes 12 minutes of processor time and 4 GB of disk.
Ends with 77 and the reason where Go or the modules cannot be had. Everything is taken down at the end, also after
SIGTERM and Ctrl-C.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from cases import CASES, NODES, WITH_DRIVES
from cluster_bed import Bed, write_drives
from control_plane import ControlPlane, Skipped, build
from measure import measure

SKIPPED = 77


def main() -> int:
    """Run the cases that are named, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("case", nargs="*", choices=[*CASES, []], metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--measure", type=int, metavar="NODES", help="time bindings in a cluster of so many nodes")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, _terminated)
    try:
        build()
    except Skipped as error:
        print(f"skipped: {error}")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="linnet-kubernetes-") as folder:
        plane = ControlPlane(Path(folder))
        try:
            plane.start()
            if asked.measure:
                measure(plane, asked.measure)
                return 0
            run(plane, asked.case or list(CASES))
            return 0
        except AssertionError:
            for name in plane.running:
                print(f"--- {name}\n{plane.log(name)[-6000:]}", file=sys.stderr)
            raise
        finally:
            plane.close()


def run(plane: ControlPlane, names: list[str]) -> None:
    """Run cases one after the other on one cluster."""
    bed = Bed(plane)
    for name, cpus in NODES.items():
        bed.add_node(name, cpus)
    drives = plane.folder / "drives.toml"
    write_drives(drives, WITH_DRIVES)
    plane.service(drives)
    plane.scheduler()
    for name in names:
        print(f"{name}: ", end="", flush=True)
        began = time.monotonic()
        CASES[name](bed)
        print(f"passed ({time.monotonic() - began:.1f} s)", flush=True)
        bed.clear()


def _terminated(*_: Any) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
