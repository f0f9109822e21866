# SPDX-License-Identifier: MIT OR Apache-2.0
"""Threads of this process, for work that runs outside Python's lock."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

P = TypeVar("P")
R = TypeVar("R")


class Threads:
    """Threads of this process, for work that runs outside Python's lock.

    A signal may end the caller anywhere. The executors of the standard library take locks in Python, and one that was
    taken then stays so: workers wait for it for ever. Here the caller has only queues, whose locks are those of C, and
    no thread keeps the process from ending.
    """

    def __init__(self, count: int | None = None, stop: Callable[[], None] = lambda: None) -> None:
        """``stop`` is called before what runs is waited for, where a piece has failed or the caller is ended."""
        self.count = count or os.cpu_count() or 1
        self._stop = stop

    def map(self, work: Callable[[Any, Any], Any], shared: Any, pieces: Iterable[Any]) -> Generator[tuple[int, Any]]:
        """Call ``work(shared, piece)`` for all pieces; yields the index of each and its result, as they are finished.

        A piece is taken from ``pieces`` when it is begun. When one fails, no further piece is begun, and its error is
        raised after the results of those that were.
        """
        begun: SimpleQueue[tuple[int, Any] | None] = SimpleQueue()
        ended: SimpleQueue[tuple[int, Any, BaseException | None]] = SimpleQueue()

        def run() -> None:
            for index, piece in iter(begun.get, None):
                try:
                    ended.put((index, work(shared, piece), None))
                except BaseException as error:
                    ended.put((index, None, error))

        threads = [Thread(target=run, daemon=True) for _ in range(self.count)]
        waiting, todo, failed = 0, iter(enumerate(pieces)), None
        try:
            with _signals_held():
                for one in threads:
                    one.start()
            while True:
                while not failed and waiting < 2 * self.count and (piece := next(todo, None)) is not None:
                    begun.put(piece)
                    waiting += 1
                if not waiting:
                    break
                index, result, error = ended.get()
                waiting -= 1
                if error is None:
                    yield index, result
                else:
                    # What others have finished, or are about to, is not lost with the piece that failed.
                    failed = failed or error
                    waiting -= _drained(begun)
                    self._stop()
        finally:
            # A second signal may come anywhere in here; what it leaves is the interpreter's to end.
            _drained(begun)
            for _ in threads:
                begun.put(None)
            if waiting:
                self._stop()
            for one in threads:
                if one.ident is not None:
                    one.join()
        if failed:
            raise failed

    def in_order(
        self, work: Callable[[P], R], pieces: Sequence[P], progress: Callable[[int], None] = lambda done: None
    ) -> list[R]:
        """``work(piece)`` for all pieces, in their order. ``progress`` is told how many are done."""
        found: dict[int, R] = {}
        with closing(self.map(lambda _, piece: work(piece), None, pieces)) as made:
            for index, result in made:
                found[index] = result
                progress(len(found))
        return [found[index] for index in range(len(pieces))]


@contextmanager
def _signals_held() -> Iterator[None]:
    """Signals that end a command wait for the end of the block; threads that it starts leave them to the caller."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _drained(queue: SimpleQueue[Any]) -> int:
    """Empties a queue; returns how much was in it."""
    count = 0
    with suppress(Empty):
        while True:
            queue.get_nowait()
            count += 1
    return count
