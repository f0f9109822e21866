# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cases of run.py: files whose owners gave advice are left alone."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from bed import Bed, tuner
from helpers import events, reset, script, settled, values, wait


def left_alone(bed: Bed, data: Path, log: Path, code: str, word: str, kib: int) -> None:
    """A reader keeps its value, and the reason, which has this word, is told once."""
    with tuner(bed, log), script(bed, code, data) as process:
        found = wait("a reason", lambda: events(log, "skip"))
        time.sleep(1.5)
        assert word in found[0]["why"] and len(events(log, "skip")) == 1, events(log, "skip")
        assert settled(data, process.pid, kib)(), values(data, process.pid)


def is_respected(bed: Bed, data: Path, log: Path) -> None:
    """Files whose owner advised RANDOM or SEQUENTIAL are not touched, and the reason is told once."""
    for advice, kib, word in ((1, 128, "RANDOM"), (2, 256, "SEQUENTIAL")):
        reset(data)
        code = (
            f"import os,random,sys,mmap\nfd=os.open(sys.argv[1],0); os.posix_fadvise(fd,0,0,{advice})\n"
            "m=mmap.mmap(fd,0,prot=1); n=len(m)//4096\n"
            "other=os.open(sys.argv[1],0)\n"
            "os.close(other)\n"
            "while True:\n"
            " i=random.randrange(n); m[i*4096]; os.pread(fd,65536,i*4096)\n"
        )
        left_alone(bed, data, log, code, word, kib)


def by_madvise_is_respected(bed: Bed, data: Path, log: Path) -> None:
    """Nor are files that their owner mapped with advice, which the open file's value does not show."""
    for word in ("RANDOM", "SEQUENTIAL"):
        reset(data)
        code = (
            "import os,random,sys,mmap\nfd=os.open(sys.argv[1],0); m=mmap.mmap(fd,0,prot=1); n=len(m)//4096\n"
            f"m.madvise(mmap.MADV_{word})\n"
            "while True:\n"
            " i=random.randrange(n); m[i*4096]; os.pread(fd,4096,random.randrange(n)*4096)\n"
        )
        left_alone(bed, data, log, code, f"MADV_{word}", 128)
        assert not events(log, "decision"), events(log, "decision")


def given_later_puts_back(bed: Bed, data: Path, log: Path) -> None:
    """Who maps with advice what has our value gets its own value back, until the advice is withdrawn."""
    code = (
        "import mmap,os,random,sys,time\n"
        "fd=os.open(sys.argv[1],0); m=mmap.mmap(fd,0,prot=1); n=len(m)//4096\n"
        "while True:\n"
        " m[random.randrange(n)*4096]; os.pread(fd,4096,random.randrange(n)*4096)\n"
        " m.madvise(mmap.MADV_SEQUENTIAL if os.path.exists(sys.argv[2]) else mmap.MADV_NORMAL)\n"
    )
    reset(data)
    go = log.with_suffix(".go")
    with tuner(bed, log), script(bed, code, data, go) as process:
        wait("8 KiB on the open file", settled(data, process.pid, 8))
        go.touch()
        wait("128 KiB again", settled(data, process.pid, 128))
        found = wait("the reason", lambda: events(log, "rollback"))
        assert [(e["from_kib"], e["to_kib"]) for e in found] == [(8, 128)], found
        assert "MADV_SEQUENTIAL" in found[0]["why"], found
        time.sleep(3)
        assert settled(data, process.pid, 128)(), values(data, process.pid)
        go.unlink()
        wait("8 KiB once more", settled(data, process.pid, 8))


def those_who_gave_it_do_not_count(bed: Bed, data: Path, log: Path) -> None:
    """What readers with advice of their own bring in vain is no reason to take back the value of the others."""
    code = (
        "import mmap,os,random,sys,time\n"
        "fd=os.open(sys.argv[1],0); n=os.fstat(fd).st_size//4096\n"
        "if sys.argv[3:]: os.posix_fadvise(fd,0,0,int(sys.argv[3]))\n"
        "while not os.path.exists(sys.argv[2]): time.sleep(0.02)\n"
        "while True:\n"
        " m=mmap.mmap(fd,0,prot=1)\n"
        " for _ in range(64): m[random.randrange(n)*4096]; sys.argv[3:] or time.sleep(0.01)\n"
        " m.close(); os.posix_fadvise(fd,0,0,4)\n"
    )
    for advice, device_kib, kib in ((os.POSIX_FADV_SEQUENTIAL, 128, 256), (os.POSIX_FADV_RANDOM, 512, 512)):
        go = log.with_suffix(f".go{advice}")
        bed.set(device_kib)
        advised = bed.start([sys.executable, "-c", code, str(data), str(go), str(advice)])
        plain = None
        try:
            wait("the open file with advice", settled(data, advised.pid, kib))
            bed.set(128)
            with tuner(bed, log):
                plain = bed.start([sys.executable, "-c", code, str(data), "/"])
                wait("8 KiB on the open file", settled(data, plain.pid, 8))
                # Ten of these and more for each of the others.
                go.touch()
                time.sleep(4)
                assert not events(log, "rollback"), events(log, "rollback")
                assert settled(data, plain.pid, 8)(), values(data, plain.pid)
                assert settled(data, advised.pid, kib)(), values(data, advised.pid)
        finally:
            for process in filter(None, (advised, plain)):
                process.kill()
                process.communicate()
