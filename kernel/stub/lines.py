# SPDX-License-Identifier: GPL-2.0-only
"""Which cache lines do two CPUs write when each sends reads: lines.py PROGRAM MODEL, the program being cpus.c.

Valgrind's lackey prints each store. What belongs to one leg is written by whoever reads that leg, as its queue is.
Anything else that both CPUs write would be written by all submitters; there must be nothing.
"""

import subprocess
import sys
import tempfile

POLICIES = ["baseline", "shortest-queue", "ewma-inflight", "linnet-best"]
LINE = 64
STACK = 0x1F00000000  # of valgrind's client, here shared by both CPUs


def stores(program: str, model: str, policy: str) -> tuple[list[set[int]], list[tuple[int, int]]]:
    """The lines that each CPU stores to, and the places of the legs: first and end."""
    with tempfile.NamedTemporaryFile("r") as log:
        said = subprocess.run(
            ["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-file={log.name}", program, model, "lines", policy],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        words = [line.split() for line in said.splitlines()]
        legs = [(int(w[i], 16), int(w[i + 1], 16)) for w in words if w[0] == "leg" for i in (2, 4)]
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
    return found, legs


def main() -> int:
    """Prints the counts for each policy. Returns 1 if a line of all submitters was found, or nothing was seen."""
    program, model = sys.argv[1:3]
    bad = 0
    for policy in POLICIES:
        found, legs = stores(program, model, policy)
        both = found[0] & found[1]
        of_legs = {n for n in both if any(first < (n + 1) * LINE and n * LINE < end for first, end in legs)}
        others = sorted(both - of_legs)
        bad += len(others)
        print(
            f"{policy}: CPU 0 writes {len(found[0])} lines, CPU 1 {len(found[1])}; both write {len(of_legs)} of the "
            f"legs and their places, and {len(others)} others{''.join(f' {n * LINE:#x}' for n in others)}"
        )
        if min(map(len, found)) < 4:
            print("nothing was seen")
            bad += 1
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
