# SPDX-License-Identifier: MIT OR Apache-2.0
"""The readahead tuner on a real kernel: values follow the workload, others win where they should, all is put back.

    sudo .venv/bin/python tests/tune/run.py [CASE...]

Ends with 77 and the reason where the machine lacks something: root, BPF with type information, loop devices, control
groups.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import advice
import calibrate
import ends
import observer
from bed import LINNET, NVME, Bed, missing, tuner
from helpers import events, file_system, reader, reset, script, settled, values, wait
from linnet import _native

SKIPPED = 77
DATA = 160 << 20
MEMORY = 112 << 20
"""More than the largest readahead of the cases, 64 MiB: no page that is being read can be reclaimed for another."""
JOURNAL = Path("/run/linnet/tune/journal.json")


def follows_and_restores(bed: Bed, data: Path, log: Path) -> None:
    """A random reader gets 8 KiB, a scan the default again; signals that end the tuner put everything back."""
    for number, status in ((signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGHUP, 0)):
        with reader(bed, data, "random") as process:
            with tuner(bed, log) as running:
                wait("8 KiB on the open file", settled(data, process.pid, 8))
                assert bed.value() == 128, "the device keeps its value while a file is set"
                found = events(log, "decision")[0]
                assert (found["from_kib"], found["to_kib"], found["applied"]) == (128, 8, True), found
                assert found["file"] == str(data) and found["target"] == bed.device, found
                assert 0.6 <= found["confidence"] <= 1 and "random" in found["why"], found
                running.send_signal(number)
                assert running.wait(20) == status
            assert settled(data, process.pid, 128)(), "the open file has its value again"
        assert json.loads(JOURNAL.read_text())["files"] == []


def scan_keeps_its_readahead(bed: Bed, data: Path, log: Path) -> None:
    """Scans and reverse scans are left at the device's value."""
    for order in ("seq", "reverse"):
        with tuner(bed, log), reader(bed, data, order) as process:
            time.sleep(3)
            assert settled(data, process.pid, 128)(), (order, values(data, process.pid))
            assert not events(log, "decision"), events(log, "decision")


def change_is_followed(bed: Bed, data: Path, log: Path) -> None:
    """One process that scans after reading at random: its open file follows within two seconds."""
    code = (
        "import mmap,os,random,sys,time\n"
        "fd=os.open(sys.argv[1],0); m=mmap.mmap(fd,0,prot=1); n=len(m)//4096\n"
        "end=time.time()+4\n"
        "while time.time()<end: m[random.randrange(n)*4096]\n"
        "print(time.time(),flush=True)\n"
        "while True:\n"
        " os.posix_fadvise(os.open(sys.argv[1],0),0,0,4)\n"
        " m.close(); m=mmap.mmap(fd,0,prot=1)\n"
        " for i in range(n): m[i*4096]\n"
    )
    reset(data)
    with tuner(bed, log), script(bed, code, data) as process:
        assert process.stdout is not None
        turned = float(process.stdout.readline())
        back = wait(
            "128 KiB again", lambda: [e for e in events(log, "decision") if e["to_kib"] == 128 and e["t"] > turned]
        )
        assert back[0]["t"] - turned < 2.5, f"followed after {back[0]['t'] - turned:.1f} s"


def another_reader_begins_anew(bed: Bed, data: Path, log: Path) -> None:
    """A scan that opens a file two seconds after a random reader has ended does not get what that one wanted."""
    with tuner(bed, log):
        with reader(bed, data, "random") as process:
            wait("8 KiB on the open file", settled(data, process.pid, 8))
        time.sleep(3)
        with reader(bed, data, "seq") as process:
            end = time.monotonic() + 3
            while time.monotonic() < end:
                assert 8 not in values(data, process.pid), events(log, "decision")
                time.sleep(0.02)
        with reader(bed, data, "random") as process:
            wait("8 KiB once more", settled(data, process.pid, 8))


def survives_a_crash(bed: Bed, data: Path, log: Path) -> None:
    """Killed without a chance to clean up: `linnet tune restore` puts the open file and the device back."""
    bed.set(65_536)
    with reader(bed, data, "random") as process:
        with tuner(bed, log) as running:
            wait("8 KiB on the open file", settled(data, process.pid, 8))
            wait("the device at the default", lambda: bed.value() == 128)
            running.kill()
            running.wait()
        assert settled(data, process.pid, 8)() and bed.value() == 128
        subprocess.run([str(LINNET), "tune", "restore"], check=True, stdout=subprocess.DEVNULL)
        assert settled(data, process.pid, 65_536)() and bed.value() == 65_536
    bed.set(128)


def second_tuner_is_refused(bed: Bed, data: Path, log: Path) -> None:
    """The lock names the first one; a dry run is welcome beside it."""
    with tuner(bed, log) as first:
        words = [str(LINNET), "tune", "readahead", "--once", "--device", bed.device]
        second = subprocess.run(words, capture_output=True, text=True, check=False)
        assert second.returncode == 1 and f"process {first.pid}" in second.stderr, second.stderr
        assert subprocess.run([*words, "--dry-run"], check=False, capture_output=True).returncode == 0


def administrator_wins(bed: Bed, data: Path, log: Path) -> None:
    """Another value on the device is a decision: told, respected, and still there after the end."""
    bed.set(65_536)
    with reader(bed, data, "random"):
        with tuner(bed, log):
            wait("the device at the default", lambda: bed.value() == 128)
            bed.set(512)
            found = wait("the rival", lambda: events(log, "rival"))
            assert found[0]["to_kib"] == 512 and "leave the device alone for 600 s" in found[0]["why"], found
            time.sleep(2)
            assert bed.value() == 512
        assert bed.value() == 512
    bed.set(128)


def rewriter_is_outlasted(bed: Bed, data: Path, log: Path) -> None:
    """The old value put back by a program: open files keep theirs, and the device follows after a patience."""
    bed.set(65_536)
    with reader(bed, data, "random") as process, tuner(bed, log):
        for _ in range(2):
            wait("the device at the default", lambda: bed.value() == 128)
            wait("8 KiB on the open file", settled(data, process.pid, 8))
            bed.set(65_536)
            time.sleep(1)
            assert settled(data, process.pid, 8)()
        wait("the device at the default again", lambda: bed.value() == 128)
        assert len(events(log, "rival")) == 2
    assert bed.value() == 65_536
    bed.set(128)


def dry_run_changes_nothing(bed: Bed, data: Path, log: Path) -> None:
    """Decisions are told and not applied; root's lock is not taken."""
    with reader(bed, data, "random") as process:
        words = [str(LINNET), "tune", "readahead", "--once", "--dry-run", "--json", "--device", str(bed.root)]
        out = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        found = [json.loads(line) for line in out.splitlines()]
        assert [(e["to_kib"], e["applied"]) for e in found if e["kind"] == "decision"] == [(8, False)], found
        assert settled(data, process.pid, 128)()


def once_stays_until_restored(bed: Bed, data: Path, log: Path) -> None:
    """--once leaves its values; restore takes them back."""
    with reader(bed, data, "random") as process:
        words = [str(LINNET), "tune", "readahead", "--once", "--json", "--device", bed.device]
        said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        assert settled(data, process.pid, 8)(), (said, values(data, process.pid))
        out = subprocess.run(
            [str(LINNET), "tune", "restore", "--json"], check=True, capture_output=True, text=True
        ).stdout
        assert json.loads(out)["files"] >= 1 and settled(data, process.pid, 128)()


def a_value_of_ours_is_told_as_no_advice(bed: Bed, data: Path, log: Path) -> None:
    """`linnet tune files` knows the tuner's values: twice the device's is not the owner's SEQUENTIAL then."""
    bed.set(64)
    why = lambda process: {left for owner, _, _, left in _native.tune_open_files(data) if owner == process}  # noqa: E731
    with reader(bed, data, "seq") as process:
        with tuner(bed, log, "--scope", "files"):
            wait("128 KiB on the open file", settled(data, process.pid, 128))
            assert why(process.pid) == {None}, why(process.pid)
        assert settled(data, process.pid, 64)(), values(data, process.pid)
    bed.set(128)
    with reader(bed, data, "seq") as process:
        wait("an open file", lambda: values(data, process.pid))
        bed.set(64)
        assert why(process.pid) == {"its owner advised SEQUENTIAL"}, why(process.pid)
    bed.set(128)


def many_files_that_come_and_go(bed: Bed, data: Path, log: Path) -> None:
    """A thousand open files, some deleted, a process that ends in the middle: nothing breaks and all is put back."""
    many = bed.root / "many"
    many.mkdir(exist_ok=True)
    for number in range(1000):
        (many / str(number)).write_bytes(os.urandom(1 << 16))
    os.sync()
    code = (
        "import os,random,sys,mmap\n"
        "d=sys.argv[1]; fds=[os.open(f'{d}/{i}',0) for i in range(1000)]\n"
        "maps=[mmap.mmap(fd,0,prot=1) for fd in fds]\n"
        "[os.unlink(f'{d}/{i}') for i in range(0,1000,10)]\n"
        "while True:\n"
        " for _ in range(2000): maps[random.randrange(1000)][random.randrange(16)*4096]\n"
        " [os.posix_fadvise(fd,0,0,4) for fd in fds]\n"
        " [m.close() for m in maps]; maps=[mmap.mmap(fd,0,prot=1) for fd in fds]\n"
    )
    with tuner(bed, log) as running:
        bed.throttle(None)
        words = [sys.executable, "-c", code, str(many)]
        process = bed.start(words)
        time.sleep(6)
        process.kill()
        process.communicate()
        assert running.poll() is None
    bed.throttle(bed.model)
    assert json.loads(JOURNAL.read_text())["files"] == []
    assert bed.value() == 128


def seldom_read_files_follow_their_group(bed: Bed, data: Path, log: Path) -> None:
    """Files that are read less than once a second, at random like all others of their group, get 8 KiB."""
    few = bed.root / "few"
    few.mkdir()
    for number in range(100):
        (few / str(number)).write_bytes(os.urandom(3 << 20))
    os.sync()
    for file in few.iterdir():
        reset(file)
    code = (
        "import mmap,os,random,sys,time\n"
        "fds=[os.open(e.path,0) for e in os.scandir(sys.argv[1])]; maps=[mmap.mmap(fd,0,prot=1) for fd in fds]\n"
        "while True: m=random.choice(maps); m[random.randrange(len(m)//4096)*4096]; time.sleep(1/70)\n"
    )
    try:
        with tuner(bed, log):
            process = bed.start([sys.executable, "-c", code, str(few)])
            try:
                found = wait("most files decided", lambda: events(log, "decision")[80:] and events(log, "decision"), 60)
                assert all(settled(Path(event["file"]), process.pid, 8)() for event in found[::10]), found[::10]
            finally:
                process.kill()
                process.communicate()
    finally:
        shutil.rmtree(few)
    followed = [event for event in found if "like the other files of its group" in event["why"]]
    assert len(followed) >= 40 and not events(log, "rollback"), (len(followed), events(log, "rollback"))


def more_open_files_than_the_tuner_may_hold(bed: Bed, data: Path, log: Path) -> None:
    """A thousand descriptors of one file are set and put back by a tuner that may have half as many."""
    code = (
        "import mmap,os,random,sys\n"
        "fds=[os.open(sys.argv[1],0) for _ in range(1000)]; m=mmap.mmap(fds[0],0,prot=1); n=len(m)//4096\n"
        "while True: m[random.randrange(n)*4096]\n"
    )
    reset(data)
    with tuner(bed, log) as running:
        resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (512, 512))
        process = bed.start([sys.executable, "-c", code, str(data)])
        try:
            wait("8 KiB everywhere", lambda: values(data, process.pid).count(8) > 1000)
            running.terminate()
            assert running.wait(20) == 0
            assert set(values(data, process.pid)) == {128}
        finally:
            process.kill()
            process.communicate()
    assert json.loads(JOURNAL.read_text())["files"] == []


def open_files_of_btrfs_are_found(bed: Bed, data: Path, log: Path) -> None:
    """stat numbers a subvolume of btrfs unlike the kernel numbers its file system."""
    if not shutil.which("mkfs.btrfs"):
        print("no mkfs.btrfs: open_files_of_btrfs_are_found tests nothing")
        return
    with file_system("btrfs", log) as place:
        (place / "inner").mkdir()
        assert _native.TuneDevice(str(place / "inner")).target == str(place)
        with (place / "data").open("wb"):
            assert len(values(place / "data", os.getpid())) == 1


CASES = [
    follows_and_restores,
    scan_keeps_its_readahead,
    change_is_followed,
    another_reader_begins_anew,
    survives_a_crash,
    second_tuner_is_refused,
    advice.is_respected,
    advice.by_madvise_is_respected,
    advice.given_later_puts_back,
    advice.those_who_gave_it_do_not_count,
    administrator_wins,
    rewriter_is_outlasted,
    dry_run_changes_nothing,
    once_stays_until_restored,
    a_value_of_ours_is_told_as_no_advice,
    many_files_that_come_and_go,
    seldom_read_files_follow_their_group,
    more_open_files_than_the_tuner_may_hold,
    open_files_of_btrfs_are_found,
    observer.nothing_is_demanded_past_the_end,
    observer.sees_whole_reads_that_wait,
    observer.sees_splice,
    observer.counts_reads_that_are_tried_again_once,
    observer.counts_on_where_another_takes_the_place,
    observer.tells_threads_apart,
    observer.sees_one_file_system_of_a_device,
    observer.takes_memory_where_a_file_is_read,
    calibrate.refuses_what_it_cannot_do,
    calibrate.leaves_nothing_when_interrupted,
    calibrate.a_model_decides_where_the_rule_would_not,
    calibrate.learns_and_its_model_decides,
    ends.leaves_nothing_when_terminated,
    ends.next_one_clears_what_a_killed_one_left,
    ends.on_zram_nothing_is_left_either,
]


def lacking() -> str | None:
    """Why nothing can be tested here."""
    reason = missing()
    if reason:
        return reason
    _, demands, descriptors, limits = _native.tune_sight()
    return None if demands and descriptors else "; ".join(limits)


def main(wanted: list[str]) -> int:
    """Run the cases that are wanted, or all."""
    reason = lacking()
    if reason:
        print(f"skipped: {reason}", file=sys.stderr)
        return SKIPPED
    # A shell's background job ignores SIGINT, one under nohup SIGHUP, and so would the commands that are ended here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    failed = []
    with tempfile.TemporaryDirectory(prefix="linnet-tune-") as place, Bed(NVME, MEMORY, DATA + (480 << 20)) as bed:
        data = bed.fill("data", DATA)
        bed.set(128)
        for case in CASES:
            if wanted and case.__name__ not in wanted:
                continue
            begun = time.monotonic()
            log = Path(place) / f"{case.__name__}.jsonl"
            try:
                case(bed, data, log)
                print(f"ok {case.__name__} ({time.monotonic() - begun:.1f} s)", flush=True)
            except (AssertionError, subprocess.SubprocessError, RuntimeError) as error:
                failed.append(case.__name__)
                print(
                    f"FAILED {case.__name__}: {error!r}\n{log.read_text()[-2000:] if log.exists() else ''}", flush=True
                )
                bed.set(128)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
