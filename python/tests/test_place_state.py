# SPDX-License-Identifier: MIT OR Apache-2.0
"""The state file of placement: files of others, files that are absent, and rows that do not fit together."""

import contextlib
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from linnet.place.allocate import Settings
from linnet.place.check import Checker
from linnet.place.cluster import DriveSpec
from linnet.place.service import operations
from linnet.place.service import state as storing
from linnet.place.service.operations import Operations
from linnet.place.service.state import State
from linnet.place.service.state_file import StateError, StateFull
from linnet.place.service.writer import Answer, Refused, Undo, Writer
from linnet.place.sheet import SheetModel
from linnet.place.slo import Asked, Slo, Tenant
from linnet.place.words import Drive, Prediction, Profile
from place_made import GB, SHEET, Line, drive, profile, tenant


def _change(path: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        for one in statements:
            db.execute(one)


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _made(path: Path) -> Path:
    state = State(path)
    with state.transaction():
        state.add_drive(DriveSpec(Drive("d0", "made", SHEET), 10 * GB))
        promises = (Slo("read_latency_mean_us", bound=900.0),)
        state.add_tenant(Tenant("a", GB, profile("p", 100.0), promises, Asked("p")), "d0")
        state.put_profile(profile("p", 100.0))
        state.keep_settings({"load_max": 0.5})
        state.answer("k", "digest", 201, {})
    state.close()
    return path


def _opened(path: Path) -> None:
    state = State(path, create=False)
    try:
        Operations(state, SheetModel(), Settings(**state.settings()))
    finally:
        state.close()


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize("more", ["", "PRAGMA application_id = 7"])
@pytest.mark.parametrize("create", [True, False])
def test_a_file_of_others_is_refused_and_left_as_it_is(tmp_path: Path, mode: str, more: str, create: bool) -> None:
    path = tmp_path / "songs ? # %.db"
    _change(path, f"PRAGMA journal_mode = {mode}", "CREATE TABLE songs (name)", more)
    before = _files(tmp_path)
    with pytest.raises(StateError, match="not the state of a placement"):
        State(path, create)
    assert _files(tmp_path) == before


def test_a_newer_state_is_left_as_it_is(tmp_path: Path) -> None:
    path = _made(tmp_path / "s.db")
    _change(path, "PRAGMA user_version = 99")
    before = _files(tmp_path)
    with pytest.raises(StateError, match="state version 99"):
        State(path)
    assert _files(tmp_path) == before


def _named(path: Path, linked: bool) -> Path:
    """Another name of a file, which a state may be given by, or its own."""
    if not linked:
        return path
    link = path.with_name("link.db")
    link.unlink(missing_ok=True)
    link.symlink_to(path.name)
    return link


@pytest.mark.parametrize("linked", [False, True])
def test_a_state_that_was_killed_when_it_was_new_is_opened(tmp_path: Path, linked: bool) -> None:
    path = tmp_path / "s.db"
    code = "import os, sys; from pathlib import Path; from linnet.place.service.state import State\n"
    code += "State.checkpoint = lambda state: os.kill(os.getpid(), 9)\nState(Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert path.with_name("s.db-wal").stat().st_size
    State(_named(path, linked), create=False).close()


ANSWERS = 60
"""Answers of a page each that a log has."""


def _answer(state: State) -> None:
    with state.transaction():
        for number in range(ANSWERS):
            state.answer(f"k{number}", "digest", 201, "x" * 3000)


def _has_answers(path: Path) -> bool:
    with contextlib.closing(State(path, create=False)) as state:
        return all(state.answered(f"k{number}") is not None for number in range(ANSWERS))


@pytest.mark.parametrize("linked", [False, True])
def test_a_checkpoint_that_was_cut_after_any_page_is_made_again(tmp_path: Path, linked: bool) -> None:
    path, cut, size = tmp_path / "s.db", tmp_path / "cut.db", storing.PAGE_BYTES
    State(path).close()
    state = State(path)
    _answer(state)
    before, log = path.read_bytes(), path.with_name("s.db-wal").read_bytes()
    state.close()
    after = path.read_bytes()
    assert len(before) < len(after)
    for pages in range(len(after) // size + 1):
        # A checkpoint writes in the order of the pages.
        cut.write_bytes(after[: pages * size] + before[pages * size :])
        cut.with_name("cut.db-wal").write_bytes(log)
        assert _has_answers(_named(cut, linked)), f"{pages} pages"


@contextlib.contextmanager
def _full_disk(size: int) -> Iterator[None]:
    """No file of this process may grow beyond this size."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def test_a_checkpoint_on_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """Nor does kill -9 after it, nor a start on the full disk."""
    path, full = tmp_path / "s.db", 20 * storing.PAGE_BYTES
    State(path).close()
    if not (child := os.fork()):
        state = State(path)
        _answer(state)
        with _full_disk(full):
            assert not state.checkpoint()
        os.kill(os.getpid(), 9)
    assert os.waitpid(child, 0)[1] == 9
    assert path.stat().st_size <= full < path.with_name("s.db-wal").stat().st_size
    with _full_disk(full):
        assert _has_answers(path)
        with contextlib.closing(State(path)) as state, pytest.raises(StateFull), state.transaction():
            state.answer("more", "digest", 201, {})
    assert _has_answers(path)
    assert path.stat().st_size > full and not path.with_name("s.db-wal").exists()


def test_the_file_alone_has_everything_after_a_checkpoint(tmp_path: Path) -> None:
    path, alone = tmp_path / "s.db", tmp_path / "alone.db"
    with contextlib.closing(State(path)) as state:
        alone.write_bytes(path.read_bytes())
        State(alone, create=False).close()
        _answer(state)
        assert state.checkpoint() and not path.with_name("s.db-wal").stat().st_size
        alone.write_bytes(path.read_bytes())
        assert _has_answers(alone)


def test_a_copy_has_what_only_the_log_has(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with contextlib.closing(State(tmp_path / "s.db")) as state:
        _answer(state)
        content = state.copy()
        content.done()
        copy.write_bytes(content.part(0, content.size))
        assert _has_answers(copy)
        with state.transaction():
            state.answer("more", "digest", 201, {})


@pytest.mark.parametrize("full", [False, True])
def test_a_copy_in_pieces_is_of_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool) -> None:
    """Commits wait in the log meanwhile. Only where the log cannot be taken into the file is all of it in memory."""
    path, copy, length = tmp_path / "s.db", tmp_path / "copy.db", 5000
    with contextlib.closing(State(path)) as state:
        _answer(state)
        with monkeypatch.context() as patched:
            if full:
                patched.setattr(state, "checkpoint", lambda: False)
            content = state.copy()
        before = path.read_bytes() if not full else b""
        pieces = []
        for at in range(0, content.size, length):
            pieces.append(content.part(at, length))
            with state.transaction():
                state.answer(f"more{at}", "digest", 201, {"text": "x" * 10_000})
            assert state.checkpoint() == full
        assert max(map(len, pieces)) == length and sum(map(len, pieces)) == content.size
        copy.write_bytes(b"".join(pieces))
        assert full or copy.read_bytes() == before == path.read_bytes()
        content.done()
        assert state.checkpoint()
        with contextlib.closing(State(copy, create=False)) as other:
            assert other.answered("more0") is None
        assert _has_answers(copy)


@pytest.mark.parametrize(
    ("file", "folder", "said"),
    [
        (0o444, 0o755, "no permission to write it"),
        (0o244, 0o755, "no permission to read it"),
        (0o644, 0o555, "no permission to write in {folder}; a log is kept"),
        (None, 0o555, "no permission to write in {folder}; a log is kept"),
    ],
)
def test_a_permission_that_lacks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: int | None, folder: int, said: str
) -> None:
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "s.db"
    if file is not None:
        _made(path).chmod(file)
    path.parent.chmod(folder)
    # Root may do everything: what the owner may do counts.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).stat().st_mode >> 6 & mode == mode)
    with pytest.raises(StateError) as refused:
        State(path)
    path.parent.chmod(0o755)
    assert str(refused.value).startswith(f"{path}: {said.format(folder=path.parent)}")


def test_an_absent_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="there is no folder"):
        State(tmp_path / "absent" / "s.db")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_what_is_no_file_is_named(tmp_path: Path, make) -> None:
    make(tmp_path / "s.db")
    with pytest.raises(StateError, match="not a regular file"):
        State(tmp_path / "s.db")


def test_a_limit_of_file_sizes_is_named(tmp_path: Path) -> None:
    """SQLite calls it an error of the disk."""
    with _full_disk(8192), pytest.raises(StateError, match=r"files of 8192 bytes at most \(`ulimit -f`"):
        State(tmp_path / "s.db")


def test_a_state_is_locked_against_a_second_one(tmp_path: Path) -> None:
    state = State(tmp_path / "s.db")
    for _ in range(2):
        with pytest.raises(StateError, match="in use by another process"):
            State(tmp_path / "s.db")
    state.close()


def test_only_what_fills_a_state_makes_its_file(linnet, tmp_path: Path) -> None:
    path = tmp_path / "absent.db"
    profile = ["--profile", "oltp"]
    for words in (["remove", "a"], ["whatif", "a", *profile], ["admit", "a", *profile], ["rebalance"], ["drives"]):
        done = linnet("place", *words, "--state", path)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"{path}: no such file" in done.stderr
        assert not path.exists()
    drives = tmp_path / "d.toml"
    drives.write_text('[[drives]]\nname = "d"\nmodel = "m"\ncapacity_bytes = 1\n')
    model = ["--model", tmp_path / "absent.linnet"]
    done = linnet("place", "drives", "--add", drives, "--update", drives, *model, "--state", path)
    assert done.returncode == 1 and not path.exists(), "what fails makes none"
    drives.write_text(2 * drives.read_text())
    for words in (["drives", "--add"], ["serve", "--listen", "127.0.0.1:0", "--drives"]):
        done = linnet("place", *words, drives, "--state", path)
        assert done.returncode == 1 and "stands in the request twice" in done.stderr
        assert [one.name for one in tmp_path.iterdir()] == ["d.toml"]
    path.touch()
    with pytest.raises(StateError, match="empty"):
        State(path, create=False)
    assert not path.stat().st_size


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE tenants SET drive = 'gone'", "table tenants, row a: drive 'gone' is not in table drives"),
        ("DELETE FROM drives", "table tenants, row a: drive 'd0' is not"),
        ("UPDATE tenants SET drive = x'00'", "table tenants, row a: drive "),
        ("UPDATE tenants SET capacity_bytes = 20000000000", "table drives, row d0: its tenants have 20000000000 bytes"),
        ("UPDATE tenants SET capacity_bytes = 9000000000000000000", "table tenants, row a: capacity_bytes is 9"),
        ("UPDATE tenants SET capacity_bytes = 'much'", "table tenants, row a: capacity_bytes is 'much', a str"),
        ("UPDATE tenants SET id = NULL", "table tenants, row None: id is None"),
        ("UPDATE tenants SET windows = x'00'", "table tenants, row a: windows"),
        ("UPDATE tenants SET profile = '[]'", "table tenants, row a: profile"),
        ("UPDATE tenants SET profile = '{}'", "table tenants, row a: profile: name or features is missing"),
        ("""UPDATE tenants SET profile = '{"name": "p", "features": []}'""", "table tenants, row a: profile"),
        (
            """UPDATE tenants SET profile = '{"name": "p", "features": {"depth": "x"}}'""",
            "row a: profile: depth is 'x'",
        ),
        ("UPDATE tenants SET slos = '{}'", "table tenants, row a: slos"),
        ("UPDATE tenants SET slos = '[3]'", "table tenants, row a: slos"),
        ("UPDATE tenants SET slos = '[[3, 4, 5, 6]]'", "table tenants, row a: "),
        ("""UPDATE tenants SET slos = '[["read_latency_mean_us", "x", null, 50]]'""", "table tenants, row a: "),
        ("UPDATE asked SET profile_name = x'00'", "table asked, row a: profile_name is b"),
        ("UPDATE asked SET features = x'00'", "table asked, row a: features is b"),
        ("UPDATE drives SET position = 'first'", "table drives, row d0: position is 'first'"),
        ("UPDATE tenants SET position = 9223372036854775807", "table tenants, row a: position is 9"),
        ("UPDATE requests SET position = x'00'", "table requests, row k: position is b"),
        ("UPDATE drives SET sheet = '[]'", "table drives, row d0: sheet is [], a list"),
        ("UPDATE drives SET sheet = 3", "table drives, row d0: sheet is 3"),
        ("""UPDATE drives SET sheet = '{"seq_read_mbs": "fast"}'""", "row d0: sheet: seq_read_mbs is 'fast'"),
        (f"""UPDATE drives SET sheet = '{{"seq_read_mbs": 1{"0" * 400}}}'""", "row d0: sheet: seq_read_mbs is 1"),
        (f"""UPDATE tenants SET slos = '[["read_latency_mean_us", 1{"0" * 400}, null, 50]]'""", "tenants, row a: "),
        ("UPDATE drives SET capacity_bytes = 'much'", "table drives, row d0: capacity_bytes is 'much'"),
        ("UPDATE drives SET model = x'00'", "table drives, row d0: model"),
        ("UPDATE drives SET staging = 'no'", "table drives, row d0: staging"),
        (
            "UPDATE settings SET value = 'much'",
            "table settings, row load_max: value is 'much', a str; float is expected",
        ),
        ("UPDATE settings SET value = -1.0", "table settings, row load_max: settings: load_max, "),
        ("UPDATE settings SET name = 'speed'", "table settings, row speed: no setting of this name"),
        ("UPDATE profiles SET features = '[]'", "table profiles, row p: features is [], a list"),
        ("""UPDATE profiles SET features = '{"depth": -1}'""", "table profiles, row p: features: depth is -1"),
        ("UPDATE profiles SET features = '" + "[" * 9999 + "'", "table profiles, row p: features: not JSON"),
    ],
)
def test_rows_that_cannot_be_are_named(tmp_path: Path, change: str, said: str) -> None:
    path = _made(tmp_path / "s.db")
    _opened(path)
    _change(path, "PRAGMA foreign_keys = OFF", change)
    with pytest.raises(StateError) as failed:
        _opened(path)
    text = str(failed.value)
    assert text.startswith(f"{path}: ") and said in text and "restore the file from a backup" in text


def test_a_kept_answer_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = _made(tmp_path / "s.db")
    _change(path, "UPDATE requests SET body = '{'")
    with contextlib.closing(State(path)) as state, pytest.raises(StateError, match="table requests, row k"):
        state.answered("k")


def test_a_state_without_settings_is_opened(tmp_path: Path) -> None:
    """As versions before this one made it."""
    path = _made(tmp_path / "s.db")
    _change(path, "DROP TABLE settings")
    with contextlib.closing(State(path, create=False)) as state:
        assert state.settings() == {}
        with state.transaction():
            state.keep_settings({})
            state.keep_settings({"policy": "best-fit", "tenants_max": 3})
        assert state.settings() == {"policy": "best-fit", "tenants_max": 3}
        with pytest.raises(ValueError, match="value is 3, a int"), state.transaction():
            state.keep_settings({"load_max": 3})


def test_what_older_states_do_not_say_is_told_by_the_profile(tmp_path: Path) -> None:
    """A tenant's own profile and a measured one have its name; others have the name by which it asked."""
    path = _made(tmp_path / "s.db")
    _change(path, "DROP TABLE asked")
    one = profile("p", 100.0)
    with contextlib.closing(State(path, create=False)) as state:
        do = Operations(state, SheetModel(), Settings())
        there = do.cluster.tenant(do.cluster.row_of("a"))
        assert there.asked is None
        for changed, status in (
            (replace(there, asked=Asked("p")), 200),
            (replace(there, profile=profile("p", 200.0), asked=Asked("p")), 200),
            (replace(there, profile=profile("q", 200.0), asked=Asked("q")), 409),
            (replace(there, profile=None, asked=Asked()), 200),
        ):
            with contextlib.suppress(Refused), state.transaction():
                assert do.admit([], changed).status == status == 200
                continue
            assert status == 409
        with pytest.raises(Refused, match="1 tenants were placed by it"):
            do.remove_profile([], "p")
        with state.transaction():
            do.admit([], Tenant("b", GB, one, (), Asked("p")), "d0")
            do.admit([], Tenant("p", GB, one, (), Asked.by(one, named=False)), "d0")
        assert [tenant.asked for tenant, _, _ in state.tenants()] == [None, Asked("p"), Asked.by(one, named=False)]
    # As earlier versions, which do not know the table, take a tenant away.
    _change(path, "PRAGMA foreign_keys = ON", "DELETE FROM tenants WHERE id = 'b'")
    with contextlib.closing(State(path, create=False)) as state:
        assert [tenant.id for tenant, _, _ in state.tenants()] == ["a", "p"]
        with state.transaction():
            state.add_tenant(Tenant("b", GB, one, (), Asked("p")), "d0")


def test_the_oldest_answers_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "REQUESTS_MAX", 50)
    monkeypatch.setattr(storing, "TRIM_EVERY", 10)
    state, trims = State(tmp_path / "s.db"), []
    state._db.set_trace_callback(lambda said: trims.append(said) if said.startswith("DELETE") else None)
    with state.transaction():
        for number in range(101):
            state.answer(f"k{number}", "digest", 201, {})
    kept = [number for number in range(101) if state.answered(f"k{number}") is not None]
    assert kept == [*range(51, 101)] and len(trims) == 11, "trimmed at the last one, and not at each"
    state.close()
    again = State(tmp_path / "s.db")
    with again.transaction():
        again.answer("new", "digest", 201, {})
    assert again.answered("k51") is None and again.answered("k52") is not None
    again.close()


class Failing(Line):
    """Fails at the question after ``left`` more."""

    left = -1

    def predict(
        self, drives: Sequence[Drive], tenants: Sequence[Profile], neighbours: Sequence[Sequence[Profile]]
    ) -> list[dict[str, Prediction]]:
        self.left -= 1
        if self.left == -1:
            raise RuntimeError("out of order")
        return super().predict(drives, tenants, neighbours)


def _books(do: Operations) -> tuple[object, ...]:
    """What the service has in memory, which is what is on disk."""
    cluster = do.cluster
    placed = {one.id: (one, cluster.specs[cluster.drive_of[row]].drive.name, do.windows.get(one.id, []))
              for row, one in enumerate(cluster.tenants) if one is not None and cluster.drive_of[row] >= 0}  # fmt: skip
    assert len(placed) == sum(one is not None for one in cluster.tenants), "one has a row and no drive"
    assert placed == {one.id: (one, drive, windows) for one, drive, windows in do.state.tenants()}
    return placed, [do.allocator.load(drive) for drive in range(len(cluster.specs))]


@pytest.mark.parametrize("what", ["admit", "move", "reprofile", "stage", "correct", "what_if", "may_take", "advice"])
def test_a_model_that_fails_changes_nothing(tmp_path: Path, what: str) -> None:
    model, state = Failing(), State(tmp_path / "s.db")
    do = Operations(state, model, Settings(policy="best-fit"))
    writer = Writer(state, lambda: pytest.fail("an undo failed"), lambda *_: None)
    specs = [DriveSpec(drive(f"d{k}"), 100 * GB) for k in range(3)] + [DriveSpec(drive("s"), 100 * GB, True)]

    def change(work: Callable[[list[Undo]], Answer]) -> Answer:
        return writer.change(work, None, "").result(60)

    change(lambda undo: do.register(undo, specs))
    for one, where in ((tenant("a", 9_000, 200), "d0"), (tenant("b", 5_000, 200), "d1"), (Tenant("c", GB), "s")):
        change(lambda undo, one=one, where=where: do.admit(undo, one, where))
    for _ in range(3):
        change(lambda undo: do.observe(undo, "a", {"read_latency_mean_us": 300.0}, None))
    works: dict[str, Callable[[list[Undo]], object]] = {
        "admit": lambda undo: do.admit(undo, tenant("new", 7_000, 300)),
        "move": lambda undo: do.move(undo, "a", "d2"),
        "reprofile": lambda undo: do.reprofile(undo, "a", profile("a", 8_000)),
        "stage": lambda undo: do.reprofile(undo, "c", profile("c", 6_000)),
        "correct": lambda undo: do.correct_one(undo, DriveSpec(drive("d0", rnd_read_iops=9_000.0), 200 * GB)),
        "what_if": lambda undo: do.ask(tenant("new", 7_000, 300), None),
        "may_take": lambda undo: do.allocator.may_take(tenant("new", 7_000, 300), np.arange(4)),
        "advice": lambda undo: do.advice(5),
    }
    before, failed = _books(do), 0
    for left in range(30):
        model.left = left
        do.allocator.checker = Checker(do.cluster, model)
        do.allocator.checker.learn(np.flatnonzero([one is not None for one in do.cluster.tenants]))
        try:
            if what in ("what_if", "may_take", "advice"):
                writer.read(lambda: works[what]([])).result(60)
            else:
                change(works[what])  # type: ignore[arg-type]
            break
        except RuntimeError:
            failed += 1
            model.left = -1
            assert _books(do) == before
    assert failed
    _books(do)
    writer.stop()
    state.close()


def _kind(name: str, kind: int) -> DriveSpec:
    return DriveSpec(drive(name, f"m{kind}"), 100 * GB)


def test_kinds_of_drives_that_are_gone_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "KINDS_MAX", 4)
    state = State(tmp_path / "s.db")
    do = Operations(state, SheetModel(), Settings())
    with state.transaction():
        do.register([], [_kind("home", 0)])
        do.admit([], tenant("a", 100.0, 900.0))
        do.observe([], "a", {"read_latency_mean_us": 1000.0}, None)
        for kind in range(1, 20):
            do.register([], [_kind("x", kind), _kind("y", kind + 100)])
            assert len(do.cluster.kinds) <= 4
            do.unregister([], "x")
            do.unregister([], "y")
        do.register([], [_kind(f"k{kind}", kind) for kind in range(4)])
        for refused in (lambda: do.register([], [_kind("z", 4)]), lambda: do.correct([], [_kind("k0", 4)])):
            with pytest.raises(Refused, match="more than 4 kinds"):
                refused()
        do.correct([], [_kind("k1", 5)])
        do.correct([], [_kind("k1", 6), _kind("k2", 7)])
    assert do.windows == {"a": [True]}
    _books(do)
    state.close()


def test_corrections_are_taken_back_with_what_was_done_around_them(tmp_path: Path) -> None:
    state = State(tmp_path / "s.db")
    do = Operations(state, SheetModel(), Settings())
    with state.transaction():
        do.register([], [_kind(f"d{kind}", kind) for kind in range(3)])
        do.admit([], tenant("a", 100.0, 900.0), "d1")
    before, undo = _books(do), list[Undo]()
    with pytest.raises(RuntimeError), state.transaction():
        do.unregister(undo, "d0")
        do.observe(undo, "a", {"read_latency_mean_us": 1000.0}, None)
        do.correct(undo, [_kind("d1", 7)])
        do.admit(undo, tenant("b", 100.0, 900.0), "d1")
        do.move(undo, "a", "d2")
        raise RuntimeError
    for step in reversed(undo):
        step()
    assert _books(do) == before and do.cluster.has_drive("d0")
    state.close()


def test_a_corrected_figure_tells_which_promises_it_breaks(tmp_path: Path) -> None:
    path, slow = tmp_path / "s.db", DriveSpec(drive("d0", read_latency_us=800.0), 50 * GB)
    with contextlib.closing(State(path)) as state:
        do = Operations(state, SheetModel(), Settings())
        with state.transaction():
            do.register([], [DriveSpec(drive("d0"), 100 * GB), DriveSpec(drive("d1"), 100 * GB)])
            do.admit([], tenant("a", 100.0, 500.0, 20 * GB), "d0")
        for spec, said in (
            (DriveSpec(drive("d0"), 19 * GB), "its tenants have 20000000000 bytes, more than 19000000000"),
            (DriveSpec(drive("d0"), 100 * GB, staging=True), "only one without tenants can become a staging drive"),
            (DriveSpec(drive("d7"), 100 * GB), "there is none of this name"),
        ):
            with pytest.raises(Refused, match=said), state.transaction():
                do.correct([], [DriveSpec(drive("d1"), 5 * GB), spec])
        assert do.state.drives() == do.cluster.specs and do.cluster.specs[1].capacity_bytes == 100 * GB
        with state.transaction():
            found = do.correct_one([], slow).body
        assert found.pop("warnings") == []
        assert len(found["broken"]) == 1 and found["broken"][0].startswith("a: read_latency_mean_us 80")
        with state.transaction(), pytest.raises(Refused, match="cannot take"):
            do.admit([], tenant("b", 100.0, 500.0), "d0")
    with contextlib.closing(State(path)) as state:
        do = Operations(state, SheetModel(), Settings())
        assert do.show_drive("d0") == found
        with state.transaction():
            again = [DriveSpec(drive(name), 50 * GB) for name in ("d0", "d1")]
            assert do.correct([], again).body == {"changed": 2, "broken": {}, "warnings": []}
