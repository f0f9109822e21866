# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the commands write: modes, links, pipes, devices, standard output, and what SIGTERM leaves."""

import gzip
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from conftest import device_trace
from linnet import Trace, TraceError, read_trace, write_trace
from linnet.cli.options import ENDINGS, trace_destination
from linnet.files import check_target, whole_file, write_whole

COMMAND = str(Path(sys.executable).with_name("linnet"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "made.parquet"
    write_trace(device_trace(reads=500), path)
    return path


def test_python_and_the_engine_keep_modes_and_links(tmp_path: Path) -> None:
    """One writer: a file of 0600 stays private, and a link stays a link, whoever writes."""
    made = device_trace(reads=10)
    for name, put in (("a.csv", made.write), ("b.txt", lambda path: write_whole(path, "new"))):
        target, link = tmp_path / name, tmp_path / f"link-{name}"
        target.write_text("old")
        target.chmod(0o600)
        link.symlink_to(name)
        put(link)
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
        assert link.is_symlink() and target.read_text() != "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "b.txt", "link-a.csv", "link-b.txt"]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_text("old")
    with pytest.raises(RuntimeError), whole_file(target) as file:
        file.write(b"half")
        raise RuntimeError
    assert target.read_text() == "old" and list(tmp_path.iterdir()) == [target]
    with pytest.raises(OSError, match="link"):
        (tmp_path / "link").symlink_to("a")
        write_whole(tmp_path / "link", "x", follow=False)


@pytest.mark.slow
def test_a_pipe_and_a_device_are_written_through(linnet, file: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        done = linnet("trace", "convert", file, "-o", pipe)
        text = reader.communicate(timeout=60)[0]
    assert done.returncode == 0, done.stderr
    assert len(text.splitlines()) == 501 and stat.S_ISFIFO(pipe.stat().st_mode)
    null = tmp_path / "null.csv"
    null.symlink_to("/dev/null")
    assert linnet("trace", "convert", file, "-o", null).returncode == 0
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode) and null.is_symlink()


def test_a_dash_is_standard_output(linnet, file: Path, tmp_path: Path) -> None:
    done = linnet("trace", "convert", file, "-o", "-")
    (tmp_path / "back.csv").write_text(done.stdout)
    assert Trace.read(tmp_path / "back.csv").stat() == Trace.read(file).stat()
    assert "500 records" in done.stderr
    done = linnet("ssd", "run", "-w", file, "--json", "-o", "-")
    assert done.stdout.startswith("t_ns,op,") and '"ios": 500' in done.stderr


BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
"""What a user has: Python writes at the end of a command what is short."""


def test_nothing_is_written_of_an_input_that_cannot_be_read(linnet, tmp_path: Path) -> None:
    (tmp_path / "wrong.csv").write_text("1,2\n")
    for name in ("absent.csv", "wrong.csv"):
        done = linnet("trace", "convert", tmp_path / name, "-o", "-")
        assert done.returncode == 1 and done.stdout == ""


def test_a_dash_is_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    write_trace(device_trace(reads=500), file)

    def given(data: bytes, *words: str) -> bytes:
        command = [sys.executable, "-c", "from linnet.cli import main; main()", *words]
        return subprocess.run(command, input=data, capture_output=True, check=True).stdout

    data = file.read_bytes()
    stat, packed = (given(one, "trace", "stat", "-", "--json") for one in (data, gzip.compress(data)))
    assert stat == packed and json.loads(stat)["records"] == 500
    (tmp_path / "back.csv").write_bytes(given(data, "trace", "convert", "-", "-o", "-"))
    assert Trace.read(tmp_path / "back.csv").stat() == Trace.read(file).stat()


@pytest.mark.parametrize(
    "words",
    [
        ("trace", "convert", "long.csv", "-o", "-"),
        ("ssd", "run", "-w", "long.csv", "-o", "-"),
        ("trace", "formats"),
        ("trace", "formats", "--json"),
    ],
)
def test_a_reader_that_leaves_is_no_error(tmp_path: Path, words: tuple[str, ...]) -> None:
    """As `| head`: what is written after that goes nowhere."""
    rows = "\n".join(f"{t * 100_000},R,{t * 8},8" for t in range(20_000))
    (tmp_path / "long.csv").write_text(f"t_ns,op,lba_512,sectors\n{rows}\n")
    with subprocess.Popen(
        [COMMAND, *words], cwd=tmp_path, env=BUFFERED, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as runs:
        assert runs.stdout and runs.stderr
        if "-" in words:
            assert runs.stdout.readline().startswith(b"t_ns,op,")
        runs.stdout.close()
        said = runs.stderr.read().decode()
        assert (runs.wait(timeout=60), said) == (0, "")


def test_a_pipe_that_breaks_is_an_error_elsewhere(linnet, tmp_path: Path) -> None:
    rows = "\n".join(f"{t * 100_000},R,{t * 8},8" for t in range(20_000))
    (tmp_path / "long.csv").write_text(f"t_ns,op,lba_512,sectors\n{rows}\n")
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    with subprocess.Popen(["head", "-n", "1", pipe], stdout=subprocess.DEVNULL):
        done = linnet("trace", "convert", tmp_path / "long.csv", "-o", pipe)
    assert done.returncode == 1
    assert "Broken pipe" in done.stderr and "as it was" not in done.stderr


def test_a_full_standard_output_is_one_error() -> None:
    with Path("/dev/full").open("w") as full:
        words = [COMMAND, "trace", "formats", "--json"]
        done = subprocess.run(
            words, check=False, env=BUFFERED, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert (done.returncode, done.stderr) == (1, "linnet: No space left on device\n")


def test_a_closed_standard_output_is_one_error(tmp_path: Path) -> None:
    for closed, said in ((">&-", "linnet: standard output is closed; to drop"), (">&- 2>&-", "")):
        words = ["sh", "-c", f'"$0" trace synth bs-c --seconds 1 -o "$1" {closed}', COMMAND, tmp_path / "made"]
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (1, "") and done.stderr.startswith(said)
        assert not (tmp_path / "made").exists()


def _opens(process: int) -> bool:
    """True when a process waits in open or openat, which only a pipe without a reader makes it do."""
    call = Path(f"/proc/{process}/syscall").read_text().split()[0]
    state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "S" and call in (("2", "257") if os.uname().machine == "x86_64" else ("56",))


def test_ctrl_c_ends_the_wait_for_a_reader(file: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        waits = subprocess.Popen(
            [COMMAND, "trace", "convert", file, "-o", pipe], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        until = time.monotonic() + 60
        while not _opens(waits.pid):
            assert waits.poll() is None and time.monotonic() < until
            time.sleep(0.05)
        waits.send_signal(number)
        assert "Traceback" not in waits.communicate(timeout=60)[1]
        assert waits.returncode == status


def test_sigterm_leaves_nothing(file: Path, tmp_path: Path) -> None:
    """Wherever in its work the command is when it is ended."""
    folder = tmp_path / "out"
    folder.mkdir()
    target = folder / "table.csv"
    target.write_text("old")
    for delay in (0.2, 0.5):
        words = [COMMAND, "place", "label", "--drive", "sata", "--runs", "400", "-o", target, "--cache", tmp_path / "c"]
        runs = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(delay)
        runs.terminate()
        assert "Traceback" not in runs.communicate(timeout=60)[1]
        assert [path.name for path in folder.iterdir()] == ["table.csv"]
    assert target.read_text() == "old"


LOSES = """
import os, signal, sys
from linnet import cli

class Dies:
    def __del__(self):
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))

def app():
    Dies()
    signal.pause()

cli.app = app
cli.main()
"""
"""The signal arrives within a finaliser, from which no exception leaves."""


def test_a_signal_is_not_lost_in_a_finaliser() -> None:
    for name, status in (("SIGTERM", 143), ("SIGINT", 130)):
        done = subprocess.run(
            [sys.executable, "-c", LOSES, name], check=False, capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stderr) == (status, "linnet: interrupted; no incomplete file was left\n")


EARLY = """
import os, signal, sys

class Dies:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

class Watches:
    def find_spec(self, name, *rest):
        if name == sys.argv[1]:
            Dies()

signal.signal(signal.SIGINT, getattr(signal, sys.argv[2]))
sys.meta_path.insert(0, Watches())
from linnet import cli
assert signal.getsignal(signal.SIGINT) is getattr(signal, sys.argv[2])
sys.argv = ["linnet", "trace", "formats"]
cli.main()
"""
"""The signal arrives within a finaliser, from which no exception leaves, while a module is imported."""


@pytest.mark.parametrize("module", ["select", "typer", "rich.console", "linnet.cli.lazy", "linnet.extras"])
def test_ctrl_c_during_the_imports_is_told_in_one_line(module: str) -> None:
    words = [sys.executable, "-c", EARLY, module]
    done = subprocess.run([*words, "default_int_handler"], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "linnet: interrupted; no incomplete file was left\n"


def test_who_ignores_ctrl_c_is_not_ended_by_it() -> None:
    words = [sys.executable, "-c", EARLY, "typer", "SIG_IGN"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "") and "blkparse" in done.stdout


def test_the_command_line_is_imported_by_other_threads_too() -> None:
    code = "import threading\nt = threading.Thread(target=__import__, args=['linnet.cli'])\nt.start(); t.join()"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_rows_are_not_appended_to_a_pipe(linnet, file: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = linnet("study", "accuracy", "-t", file, "--model", "linnet", "--out", tmp_path / "pipe")
    assert done.returncode == 1 and "not a regular file" in done.stderr
    assert len(read_trace(file)) == 500


@pytest.mark.parametrize(
    "command",
    [
        "fit -t ABSENT -o OUT",
        "compare -t ABSENT --report OUT",
        "whatif ABSENT --report OUT",
        "ssd run -w ABSENT -o OUT.csv",
        "ssd explain -w ABSENT --picture OUT",
        "ssd calibrate ABSENT -o OUT",
        "ssd calibrate ABSENT -o fine.toml --report OUT",
        "study drift -t ABSENT --figure OUT",
    ],
)
def test_what_cannot_be_written_is_refused_before_the_work(linnet, tmp_path: Path, command: str) -> None:
    """Before the input is read, even: it is not there, and not what the error is about."""
    (tmp_path / "file").write_text("old")
    (tmp_path / "a.csv").mkdir()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    for out, why in (
        ("no/x.csv", "No such file or directory"),
        ("a.csv", "directory"),
        ("file/x.csv", "Not a directory"),
    ):
        words = [
            tmp_path / out if word.startswith("OUT") else tmp_path / word if word == "fine.toml" else word
            for word in command.split()
        ]
        done = linnet(*words)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"linnet: {tmp_path / out}: ") and why in done.stderr
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("fit -t IN -o OUT", "--trace"),
        ("fit -t other.csv -t IN -o OUT", "--trace"),
        ("fit -t other.csv --preset IN -o OUT", "--preset"),
        ("compare -t IN --report OUT", "--trace"),
        ("compare -w az-c --preset sata,IN,sata --report OUT", "--preset"),
        ("whatif other.csv IN --report OUT", "traces"),
        ("ssd explain -w IN --picture OUT", "--workload"),
        ("ssd precondition --params IN -o OUT", "--params"),
        ("ssd calibrate IN -o OUT", "result"),
        ("ssd calibrate other.json -o OUT --report IN", "--report"),
        ("place label -t IN -o OUT", "--trace"),
        ("place label --cache IN -o OUT", "--cache"),
        ("place label -t IN --cache OUT -o other.csv", "--trace"),
        ("place fit data -o OUT --cache IN", "--cache"),
        ("place fit IN -o other.linnet --cache OUT", "data"),
        ("trace rerate other.csv --like IN -o OUT", "--like"),
        ("trace merge other.csv IN -o OUT", "files"),
        ("ssd run -w IN -o OUT", "--workload"),
        ("place whatif dump --state IN --picture OUT", "--state"),
        ("study drift -t IN --figure OUT", "--trace"),
    ],
)
def test_an_input_is_not_written_over(linnet, tmp_path: Path, command: str, option: str) -> None:
    """By its own name or by a link: the recording may be the only one."""
    # The endings of outputs: of parameters in one command, of traces in others.
    ending = "csv" if command.startswith(("trace", "ssd run")) else "toml"
    target = tmp_path / f"only.{ending}"
    target.write_text("the only copy")
    for name in (target.name, f"link.{ending}"):
        if name != target.name:
            (tmp_path / name).symlink_to(target)
        found = {"IN": target, "OUT": tmp_path / name}
        done = linnet(*(str(found.get(word, word)).replace("IN", str(target)) for word in command.split()))
        assert done.returncode == 2, done.stderr
        said = "".join(letter for letter in done.stderr if letter.isprintable() and letter not in "│ ")
        which = f"the(in|out)put{option}" if option.startswith("--") else "aninput"
        assert re.search(f"isalso{which},whichwouldbelost", said), done.stderr
    assert target.read_text() == "the only copy"


def test_two_outputs_are_two_files(linnet, tmp_path: Path) -> None:
    """Also where neither is there yet."""
    new = tmp_path / "new.csv"
    done = linnet("place", "label", "-o", new, "--cache", tmp_path / "." / "new.csv")
    assert done.returncode == 2 and "also the output" in done.stderr and not new.exists()


def test_a_trace_and_an_earlier_result_are_written_over(linnet, file: Path, tmp_path: Path) -> None:
    before = Trace.read(file).stat()
    assert linnet("trace", "convert", file, "-o", file).returncode == 0
    assert Trace.read(file).stat() == before
    assert linnet("trace", "rerate", file, "--factor", 2, "-o", file).returncode == 0
    assert len(Trace.read(file)) == 500
    for _ in range(2):
        done = linnet("fit", "-t", file, "-o", tmp_path / "sata", "--preset", "sata", "--epochs", 1)
        assert done.returncode == 0, done.stderr
    # A device keeps nothing.
    done = linnet("fit", "-t", "/dev/null", "-o", "/dev/null")
    assert done.returncode == 1 and "no I/O" in done.stderr


def test_a_part_of_a_trace_is_not_written_over_the_whole(linnet, file: Path) -> None:
    before = file.read_bytes()
    for command, option in (
        (("convert", "--device", "0"), "device"),
        (("convert", "--lenient"), "lenient"),
        (("rerate", "--factor", "2", "--lenient"), "lenient"),
    ):
        done = linnet("trace", *command, file, "-o", file)
        said = " ".join(done.stderr.replace("│", " ").split())
        assert done.returncode == 2 and f"and what --{option} leaves out of it would be lost" in said, said
    done = linnet("trace", "merge", file, file, "-o", file)
    assert done.returncode == 2 and "is also an input, which" in " ".join(done.stderr.replace("│", " ").split())
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "command",
    [
        "ssd explain -w ABSENT --picture OUT",
        "ssd calibrate ABSENT -o fine.toml --report OUT",
        "place whatif dump --state ABSENT --profile oltp --picture OUT",
        "study drift -t ABSENT --figure OUT",
        "study shapes -t ABSENT --figure OUT",
    ],
)
def test_pictures_are_svg_by_name_too(linnet, tmp_path: Path, command: str) -> None:
    done = linnet(*(tmp_path / "x.png" if word == "OUT" else word for word in command.split()))
    assert done.returncode == 2 and "unknown ending; write .svg" in " ".join(done.stderr.replace("│", " ").split())
    assert not list(tmp_path.iterdir())


def test_a_check_of_a_target_changes_nothing(tmp_path: Path) -> None:
    """Neither a file nor its directory, and it does not wait for the reader of a pipe."""
    target, pipe, link = tmp_path / "a", tmp_path / "pipe", tmp_path / "link"
    target.write_text("old")
    os.mkfifo(pipe)
    link.symlink_to("none-yet")
    there, before = sorted(tmp_path.iterdir()), target.stat()
    for path in (target, pipe, link, tmp_path / "new", Path("-"), Path("/dev/null")):
        check_target(path)
    assert sorted(tmp_path.iterdir()) == there and target.read_text() == "old"
    assert (target.stat().st_mtime_ns, target.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def test_the_endings_of_traces_are_those_of_the_writer(tmp_path: Path) -> None:
    made = device_trace(reads=10)
    for ending in ENDINGS:
        made.write(tmp_path / f"a{ending}")
        assert trace_destination(tmp_path / f"a{ending}") == tmp_path / f"a{ending}"
    for name in ("a", "a.txt", ".csv", "a.CSV"):
        with pytest.raises(typer.BadParameter) as ours:
            trace_destination(tmp_path / name)
        with pytest.raises(TraceError) as writers:
            made.write(tmp_path / name)
        assert str(ours.value) == str(writers.value)
