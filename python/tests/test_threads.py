# SPDX-License-Identifier: MIT OR Apache-2.0
import signal
import threading
from collections.abc import Iterator

import pytest
from linnet.threads import Threads


def test_every_piece_is_worked_on_with_what_is_shared() -> None:
    before = threading.active_count()
    assert dict(Threads(3).map(lambda shared, piece: shared * piece, 7, range(50))) == {k: 7 * k for k in range(50)}
    assert not list(Threads(3).map(lambda _, piece: piece, None, []))
    assert threading.active_count() <= before, "none is left; one of an earlier test may end meanwhile"


def test_a_piece_that_fails_loses_nothing_that_was_begun() -> None:
    stopped, taken = threading.Event(), []

    def pieces() -> Iterator[int]:
        for piece in range(1000):
            taken.append(piece)
            yield piece

    def work(_: None, piece: int) -> int:
        if piece == 1:
            raise KeyError(piece)
        assert piece == 1 or stopped.wait(10)
        return piece

    found = []
    with pytest.raises(KeyError):
        found.extend(Threads(2, stopped.set).map(work, None, pieces()))
    assert (0, 0) in found and 1 not in dict(found) and stopped.is_set()
    assert len(taken) < 10, "what waited is not begun"


def test_a_caller_that_ends_stops_what_runs() -> None:
    before, stopped = threading.active_count(), threading.Event()

    def work(_: None, piece: int) -> int:
        assert piece == 0 or stopped.wait(10)
        return piece

    made = Threads(2, stopped.set).map(work, None, range(1000))
    assert next(made) == (0, 0) and not stopped.is_set()
    made.close()
    assert stopped.is_set() and threading.active_count() == before


@pytest.mark.parametrize("what", ["a thread that cannot start", "a signal while threads start"])
def test_threads_end_where_the_start_fails(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    start, started = threading.Thread.start, []

    def fails(thread: threading.Thread) -> None:
        started.append(thread)
        if len(started) == 2:
            if "cannot" in what:
                raise RuntimeError("can't start new thread")
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fails)
    with pytest.raises((RuntimeError, KeyboardInterrupt)):
        list(Threads(3).map(lambda _, piece: piece, None, range(4)))
    assert len(started) >= 2 and not any(thread.is_alive() for thread in started)
