# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cases of run.py: how a bed ends. Each makes a small bed in a process of its own, and looks at the machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import owner
from bed import Bed

# One bed with a reader in its group, until a signal. Under nohup, SIGHUP would be ignored, here too.
CODE = (
    "import signal,sys,time\n"
    "signal.signal(signal.SIGHUP,signal.SIG_DFL)\n"
    f"sys.path.insert(0,{str(Path(__file__).parent)!r})\n"
    "import bed\n"
    "with getattr(bed,sys.argv[2])(bed.NVME,32<<20,32<<20) as bed:\n"
    " inside=bed.start(['sleep','600']) if sys.argv[1]=='reader' else None\n"
    " print(bed.root.parent,inside.pid if inside else 0,flush=True)\n"
    " time.sleep(600)\n"
)


def _made(kind: str, bed: str = "Bed") -> tuple[subprocess.Popen[str], Path, int]:
    process = subprocess.Popen([sys.executable, "-c", CODE, kind, bed], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    base, inside = process.stdout.readline().split()
    made = (True, 2, 1, True) if bed == "Bed" else (True, 1, 0, True)
    assert _left(Path(base)) == made, _left(Path(base))
    return process, Path(base), int(inside)


def _left(base: Path) -> tuple[bool, int, int, bool]:
    """What exists of a bed: its directory, mounts, loop devices, and any control group."""
    name = base.name.rpartition("-")[0]
    return base.exists(), len(owner.mounts_below(base)), len(owner.loops_below(base)), bool(owner.groups_of(name))


NOTHING = (False, 0, 0, False)


def leaves_nothing_when_terminated(bed: Bed, data: Path, log: Path) -> None:
    """SIGTERM and SIGHUP take the bed down, and the process says by its status which it was."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        process, base, _ = _made("reader")
        process.send_signal(number)
        assert process.wait(60) == 128 + number
        assert _left(base) == NOTHING, _left(base)


def next_one_clears_what_a_killed_one_left(bed: Bed, data: Path, log: Path) -> None:
    """After SIGKILL all is there, until the next bed begins; the bed of a process that lives stays."""
    alive, other, _ = _made("reader")
    killed, base, inside = _made("reader")
    try:
        killed.kill()
        killed.wait()
        assert _left(base) == (True, 2, 1, True) and Path(f"/proc/{inside}").exists()
        following, own, _ = _made("alone")
        assert _left(base) == NOTHING, _left(base)
        assert not Path(f"/proc/{inside}").exists() or owner.is_dead(f"{owner.NAME}-{inside}-0")
        assert _left(other) == _left(own) == (True, 2, 1, True), (_left(other), _left(own))
        following.terminate()
        following.wait(60)
    finally:
        alive.terminate()
        alive.wait(60)
    assert _left(other) == NOTHING, _left(other)
    assert owner.is_dead(f"{owner.NAME}-{os.getpid()}-1"), "the same number, another process"
    assert not owner.is_dead(owner.name_of(os.getpid())) and not owner.is_dead(f"{owner.NAME}-1")


def _zram(base: Path) -> Path:
    return Path(f"/sys/block/zram{(base / owner.ZRAM_MARK).read_text().split()[0]}")


def on_zram_nothing_is_left_either(bed: Bed, data: Path, log: Path) -> None:
    """A bed on zram removes its device when it is terminated, and the next bed that of one that was killed."""
    if not owner.ZRAM_CONTROL.exists():
        print("skipped: no zram")
        return
    process, base, _ = _made("reader", "ZramBed")
    device = _zram(base)
    assert device.exists()
    process.terminate()
    assert process.wait(60) == 128 + signal.SIGTERM
    assert _left(base) == NOTHING and not device.exists(), _left(base)
    killed, base, _ = _made("alone", "ZramBed")
    device = _zram(base)
    killed.kill()
    killed.wait()
    assert _left(base)[0] and device.exists()
    following, following_base, _ = _made("alone", "ZramBed")
    assert _left(base) == NOTHING, _left(base)
    own = _zram(following_base)
    assert own.exists()
    assert owner.remove_zram(f"{own.name.removeprefix('zram')} 0 another boot"), "somebody else's"
    assert own.exists(), "a number alone is not enough"
    following.terminate()
    following.wait(60)
    assert not own.exists()
