# SPDX-License-Identifier: GPL-2.0-only
"""Which cache lines do two CPUs write when each sends reads: lines.py PROGRAM MODEL, the program being cpus.c.

Valgrind's lackey prints each store. There must be no line that both CPUs write, as long as neither renews the digest.
"""

import subprocess
import sys
import tempfile

POLICIES = ["baseline", "shortest-queue", "ewma-inflight", "linnet-best"]
LINE = 64
STACK = 0x1F00000000  # of valgrind's client, here shared by both CPUs


def stores(program: str, model: str, policy: str) -> list[set[int]]:
    """The lines that each CPU stores to."""
    with tempfile.NamedTemporaryFile("r") as log:
        said = subprocess.run(
            ["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-file={log.name}", program, model, "lines", policy],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        words = [line.split() for line in said.splitlines()]
        own, marks = (next(int(w[1], 16) for w in words if w[0] == key) for key in ("own", "marks"))
        found: list[set[int]] = [set(), set()]
        cpu = 2
        for line in log:
            if line[:2] not in (" S", " M"):
                continue
            address = int(line[3:].split(",")[0], 16)
            if marks <= address < marks + 3 * LINE:
                cpu = (address - marks) // LINE
            elif cpu < 2 and address < STACK and address // LINE != own // LINE:
                found[cpu].add(address // LINE)
    return found


def main() -> int:
    """Prints the counts for each policy. Returns 1 if both CPUs write a line, or nothing was seen."""
    program, model = sys.argv[1:3]
    bad = 0
    for policy in POLICIES:
        found = stores(program, model, policy)
        both = sorted(found[0] & found[1])
        bad += len(both)
        print(
            f"{policy}: CPU 0 writes {len(found[0])} lines, CPU 1 {len(found[1])}; both write {len(both)}"
            f"{''.join(f' {n * LINE:#x}' for n in both)}"
        )
        if min(map(len, found)) < 4:
            print("nothing was seen")
            bad += 1
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
