# SPDX-License-Identifier: MIT OR Apache-2.0
"""The one thread that owns the cluster and its state: requests are carried out one after the other.

Requests that wait are taken in groups, and a group shares a commit, so that the disk's sync is paid once for all of
them. A request is answered after the commit. If the commit fails, the group is undone in memory too and each of its
requests is told so; the state in memory and on disk are the same at any time at which somebody can look.

Between groups the state's log is taken into its file, so that the file alone is never much older than the state. After
a commit that failed, something is written each second until that succeeds: nobody may ask for a change meanwhile.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from linnet.place.service.state import State
from linnet.place.service.state_file import StateFull, StateMoved

GROUP_MAX = 64
"""Requests that share a commit."""
CHECKPOINT_S = 1.0
"""Seconds after a commit until it is taken from the log into the file, or until that is tried again; so long too after
one that failed until it is tried whether the state can be written."""
STOP_S = 10.0
"""Seconds that what waits may take when the service ends."""


class Refused(Exception):
    """A request that cannot be carried out: status, a code for programs, and a message for people."""

    def __init__(self, status: int, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.more = status, code, message, more


def not_written(error: StateFull) -> Refused:
    """What is answered where the state could not be written."""
    if isinstance(error, StateMoved):
        said = f"{error.filename}: {error.strerror}; nothing was changed. Put it back, or start the service again"
        return Refused(503, "state_moved", said)
    said = f"the state cannot be written ({error.strerror}); nothing was changed. Free space and ask again"
    return Refused(503, "state_not_written", said)


@dataclass(frozen=True)
class Answer:
    """Status and body of a request that was carried out."""

    status: int
    body: Any


Undo = Callable[[], None]


@dataclass
class _Job:
    work: Callable[[list[Undo]], Answer]
    changes: bool
    key: str | None
    digest: str
    done: Future[Answer] = field(default_factory=Future)


class Writer:
    """Runs requests one by one and commits them in groups."""

    def __init__(
        self,
        state: State,
        broken: Callable[[], None],
        committed: Callable[[int, float], None],
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """``broken`` is called if an undo or a commit fails in a way that is not foreseen: memory and disk may then
        differ, and the process must end.

        ``committed`` is told the size of each group that wrote something and the seconds that it took, ``failed`` that
        one could not be written.
        """
        self._state = state
        self._failed = failed
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._broken = broken
        self._committed = committed
        # A log may be there from a process that was killed.
        self._checkpoint_at: float | None = time.monotonic() + CHECKPOINT_S
        self._unwritten: StateFull | None = None
        self._thread = threading.Thread(target=self._run, name="linnet-place-writer", daemon=True)
        self._thread.start()

    def read(self, work: Callable[[], Any]) -> Future[Answer]:
        """Run something that changes nothing."""
        job = _Job(lambda undo: Answer(200, work()), False, None, "")
        self._jobs.put(job)
        return job.done

    def change(self, work: Callable[[list[Undo]], Answer], key: str | None, digest: str) -> Future[Answer]:
        """Run something that changes the state. ``work`` appends to its argument what undoes each step in memory.

        A request with a ``key`` that was carried out before gets the stored answer; ``digest`` tells whether it is the
        same request.
        """
        job = _Job(work, True, key, digest)
        self._jobs.put(job)
        return job.done

    def unwritten(self) -> StateFull | None:
        """Why the state cannot be written: its file is gone, or a commit failed and nothing was written since.

        For work that is read.
        """
        try:
            self._state.where_it_was()
        except StateMoved as error:
            return error
        return self._unwritten

    def stop(self) -> bool:
        """Carry out what waits, then end. False if that takes longer than `STOP_S`: it then goes on."""
        self._jobs.put(None)
        self._thread.join(STOP_S)
        return not self._thread.is_alive()

    def _run(self) -> None:
        going = True
        while going:
            group: list[_Job] = []
            try:
                job = self._jobs.get(timeout=self._spare_s())
                while job is not None:
                    group.append(job)
                    if len(group) == GROUP_MAX:
                        break
                    job = self._jobs.get_nowait()
                going = job is not None
            except queue.Empty:
                pass
            if group:
                self._carry_out(group)
            if self._spare_s() == 0.0:
                written = self._try_again()
                self._checkpoint_at = None if self._state.checkpoint() and written else time.monotonic() + CHECKPOINT_S

    def _try_again(self) -> bool:
        """Whether the state can be written, as far as is known. After a commit that failed, try."""
        if self._unwritten is not None:
            try:
                with self._state.transaction():
                    self._state.write_again()
                self._unwritten = None
            except StateFull as error:
                self._unwritten = error
        return self._unwritten is None

    def _spare_s(self) -> float | None:
        """Seconds until a checkpoint is due; None where no commit was tried since the last one."""
        return None if self._checkpoint_at is None else max(0.0, self._checkpoint_at - time.monotonic())

    def _spare_soon(self) -> None:
        if self._checkpoint_at is None:
            self._checkpoint_at = time.monotonic() + CHECKPOINT_S

    def _carry_out(self, group: list[_Job]) -> None:
        changes = [job for job in group if job.changes]
        if changes:
            try:
                self._commit(changes)
            except Exception as error:
                self._broken()
                for job in changes:
                    if not job.done.done():
                        job.done.set_exception(error)
        for job in group:
            if not job.changes:
                try:
                    job.done.set_result(job.work([]))
                except Exception as error:
                    job.done.set_exception(error)

    def _commit(self, group: list[_Job]) -> None:
        undo: list[Undo] = []
        answers: list[Answer | Exception] = []
        began, rows = time.monotonic(), self._state.rows_written()
        try:
            with self._state.transaction():
                for job in group:
                    answers.append(self._one(job, undo))
        except StateFull as error:
            self._take_back(undo)
            self._unwritten = error
            self._spare_soon()
            self._failed()
            for job in group:
                job.done.set_exception(not_written(error))
            return
        # Without a row SQLite writes nothing, and waits for no disk.
        if self._state.rows_written() > rows:
            self._unwritten = None
            self._spare_soon()
            self._committed(len(group), time.monotonic() - began)
        for job, answer in zip(group, answers, strict=True):
            if isinstance(answer, Exception):
                job.done.set_exception(answer)
            else:
                job.done.set_result(answer)

    def _one(self, job: _Job, undo: list[Undo]) -> Answer | Exception:
        """Carry out one request inside the group's transaction. A refusal undoes this request alone."""
        mine: list[Undo] = []
        self._state.savepoint()
        try:
            answer = self._before(job)
            if answer is None:
                answer = job.work(mine)
                if job.key is not None:
                    self._state.answer(job.key, job.digest, answer.status, answer.body)
            self._state.release(keep=True)
        except Exception as error:
            self._take_back(mine)
            if isinstance(error, sqlite3.Error):
                raise  # the disk, not the request: the whole group is undone
            self._state.release(keep=False)
            return error
        undo += mine
        return answer

    def _before(self, job: _Job) -> Answer | None:
        """The stored answer to a request that was carried out before."""
        before = None if job.key is None else self._state.answered(job.key)
        if before is None:
            return None
        if before.digest != job.digest:
            said = f"request id {job.key} was used for another request; take a new one"
            raise Refused(409, "request_id_reused", said)
        return Answer(before.status, before.body)

    def _take_back(self, undo: list[Undo]) -> None:
        try:
            for step in reversed(undo):
                step()
        except Exception:
            self._broken()
            raise
