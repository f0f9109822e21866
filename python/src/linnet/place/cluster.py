# SPDX-License-Identifier: MIT OR Apache-2.0
"""Drives and the tenants on them, as arrays: what placement looks at for every drive is one element of a column.

A tenant has a row from the time it is added, placed or not, so that a newcomer is asked about like those already there.
Sums over a drive's tenants are computed again whenever its set changes, in the order of its slots: no error builds up.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left, insort
from collections.abc import Container, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from linnet.mixing import mixed
from linnet.place import moments
from linnet.place.moments import Floats
from linnet.place.slo import Tenant
from linnet.place.words import Drive, Profile

NONE = -1
"""No drive, or no tenant in a slot."""
USED_MAX = 2**62
"""Bytes to which a drive's books count. Tenants say what they have, and a column does not hold any sum of that."""
T = TypeVar("T")


def copied(one: T) -> T:
    """A copy of an object that has arrays, lists and tables of its own; what these hold is shared."""
    made = copy(one)
    for name, value in vars(one).items():
        if isinstance(value, np.ndarray | list | dict):
            setattr(made, name, value.copy())
    return made


@dataclass(frozen=True)
class DriveSpec:
    """A drive of the cluster. A staging drive takes tenants whose workload is unknown, and no others."""

    drive: Drive
    capacity_bytes: int
    staging: bool = False

    def __post_init__(self) -> None:
        if not self.drive.name:
            raise ValueError("drive: the name is empty")
        if self.capacity_bytes <= 0:
            raise ValueError(f"drive {self.drive.name}: capacity_bytes is {self.capacity_bytes}; give more than zero")


class Cluster:
    """The state that placement reads and changes. Not thread-safe: one thread owns it."""

    def __init__(self, measured: Container[str] = ()) -> None:
        """``measured`` has the names of drives that the model knows by name; each of these is a kind of its own."""
        self._measured = measured
        self.specs: list[DriveSpec] = []
        self.kinds: list[Drive] = []
        """One drive of each kind: the same model and data sheet, and not measured by itself."""
        self.kind: NDArray[np.intp] = np.zeros(0, np.intp)
        self.capacity: NDArray[np.int64] = np.zeros(0, np.int64)
        self.used: NDArray[np.int64] = np.zeros(0, np.int64)
        """What tenants have, up to `USED_MAX`. Above the capacity where tenants came without asking for room."""
        self.count: NDArray[np.intp] = np.zeros(0, np.intp)
        self.staging: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.open: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """Drives that exist and take tenants; a removed drive keeps its element."""
        self.moments: Floats = np.zeros((0, moments.WIDTH))
        self.state: NDArray[np.uint64] = np.zeros(0, np.uint64)
        """Equal for drives of one kind with the same multiset of profiles and SLOs."""
        self.slots: NDArray[np.intp] = np.full((0, 4), NONE, np.intp)
        self.tenants: list[Tenant | None] = []
        self.features: Floats = np.zeros((0, moments.WIDTH))
        self.own: Floats = np.zeros((0, moments.WIDTH))
        self.drive_of: NDArray[np.intp] = np.zeros(0, np.intp)
        self.signature: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self.unknown: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """Tenants of unknown workload: beside one of these nothing can be predicted."""
        self.suffers: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """Tenants to which promises were observed to be broken where they are, as :func:`linnet.place.drift.suffers`
        says. The model does not see it."""
        self._rows: dict[str, int] = {}
        self._ids: list[str] | None = None
        self._drives: dict[str, int] = {}
        self._kinds: dict[str, int] = {}
        self._free: list[int] = []
        self._log: list[tuple[int, int]] | None = None

    def __len__(self) -> int:
        return len(self._drives)

    @property
    def placed(self) -> int:
        """Tenants that have a drive."""
        return int(self.count.sum())

    @property
    def ids(self) -> list[str]:
        """Ids of all tenants, sorted once and kept so: a page of them costs no more in a large cluster."""
        if self._ids is None:
            self._ids = sorted(self._rows)
        return self._ids

    @property
    def drives_used(self) -> int:
        """Drives that have a tenant."""
        return int(np.count_nonzero(self.count))

    def add_drives(self, specs: list[DriveSpec]) -> None:
        """Add empty drives. A name that is there already is an error, and then none is added."""
        names = [spec.drive.name for spec in specs]
        for name in names:
            if name in self._drives:
                raise ValueError(f"drive {name}: it is registered already")
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"drive {twice}: it is given twice")
        more = len(specs)
        kinds = np.array([self._kind(spec.drive) for spec in specs], np.intp)
        for offset, name in enumerate(names):
            self._drives[name] = len(self.specs) + offset
        self.specs += specs
        self.kind = np.append(self.kind, kinds)
        self.capacity = np.append(self.capacity, np.array([s.capacity_bytes for s in specs], np.int64))
        self.used = np.append(self.used, np.zeros(more, np.int64))
        self.count = np.append(self.count, np.zeros(more, np.intp))
        self.staging = np.append(self.staging, np.array([s.staging for s in specs], np.bool_))
        self.open = np.append(self.open, np.ones(more, np.bool_))
        self.moments = np.vstack([self.moments, np.zeros((more, moments.WIDTH))])
        # Small numbers spread over 64 bits, so that sums of them do not collide.
        self.state = np.append(self.state, mixed(kinds.astype(np.uint64)))
        self.slots = np.vstack([self.slots, np.full((more, self.slots.shape[1]), NONE, np.intp)])

    def remove_drive(self, name: str) -> None:
        """Forget an empty drive."""
        drive = self.drive_index(name)
        if self.count[drive]:
            raise ValueError(f"drive {name}: it has {self.count[drive]} tenants; move them first")
        self.open[drive] = False
        del self._drives[name]

    def restore_drive(self, drive: int) -> None:
        """Take a removal back."""
        self.open[drive] = True
        self._drives[self.specs[drive].drive.name] = drive

    def drive_index(self, name: str) -> int:
        """Index of a drive by its name."""
        if name not in self._drives:
            raise KeyError(f"drive {name}: there is none of this name")
        return self._drives[name]

    def has_drive(self, name: str) -> bool:
        """Whether there is a drive of this name."""
        return name in self._drives

    def row_of(self, tenant: str) -> int:
        """Row of a tenant by its id."""
        if tenant not in self._rows:
            raise KeyError(f"tenant {tenant}: there is none of this id")
        return self._rows[tenant]

    def has_tenant(self, tenant: str) -> bool:
        """Whether there is a tenant of this id."""
        return tenant in self._rows

    def tenant(self, row: int) -> Tenant:
        """The tenant of a row."""
        found = self.tenants[row]
        assert found is not None
        return found

    def profile(self, row: int) -> Profile:
        """The profile of a row's tenant; an empty one where it is unknown."""
        tenant = self.tenant(row)
        return tenant.profile or Profile(tenant.id, {})

    def tenants_on(self, drive: int) -> NDArray[np.intp]:
        """Rows of a drive's tenants."""
        return self.slots[drive, : self.count[drive]]

    def homes_of(self, some: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Drives that have one of these tenants, as an array over all drives; ``some`` is one over rows."""
        homes, found = self.drive_of[np.flatnonzero(some)], np.zeros(len(self.specs), np.bool_)
        found[homes[homes != NONE]] = True
        return found

    def add_tenant(self, tenant: Tenant) -> int:
        """Give a tenant a row. It has no drive yet."""
        if tenant.id in self._rows:
            raise ValueError(f"tenant {tenant.id}: it is there already")
        if not self._free:
            self._grow()
        row = self._free.pop()
        self.tenants[row] = tenant
        self._rows[tenant.id] = row
        if self._ids is not None:
            insort(self._ids, tenant.id)
        self.drive_of[row] = NONE
        self.features[row] = 0.0 if tenant.profile is None else moments.row(tenant.profile)
        self.own[row] = moments.to_moments(self.features[row])
        self.signature[row] = signature(tenant, self.features[row])
        self.unknown[row] = tenant.profile is None
        self.suffers[row] = False
        return row

    def drop_tenant(self, row: int) -> None:
        """Forget a tenant that has no drive."""
        assert self.drive_of[row] == NONE
        name = self.tenant(row).id
        del self._rows[name]
        if self._ids is not None:
            del self._ids[bisect_left(self._ids, name)]
        self.tenants[row] = None
        self._free.append(row)

    def put(self, row: int, drive: int) -> None:
        """Place a tenant. The caller has checked that it may be there, or knows that it is there already."""
        assert self.drive_of[row] == NONE and self.open[drive]
        if self.count[drive] == self.slots.shape[1]:
            wider = np.full((len(self.slots), 2 * self.slots.shape[1]), NONE, np.intp)
            wider[:, : self.slots.shape[1]] = self.slots
            self.slots = wider
        self.slots[drive, self.count[drive]] = row
        self.count[drive] += 1
        self.drive_of[row] = drive
        self._sum(drive)
        if self._log is not None:
            self._log.append((row, NONE))

    def fill(self, rows: NDArray[np.intp], drives: NDArray[np.intp]) -> None:
        """Put many tenants at once, as a stored state says."""
        rows, drives = rows[np.argsort(drives, kind="stable")], np.sort(drives)
        used: list[int] = self.used.tolist()
        for row, drive in zip(rows.tolist(), drives.tolist(), strict=True):
            used[drive] += self.tenant(row).capacity_bytes
        more = np.bincount(drives, minlength=len(self.specs))
        width = int((self.count + more).max(initial=0))
        if width > self.slots.shape[1]:
            wider = np.full((len(self.slots), width), NONE, np.intp)
            wider[:, : self.slots.shape[1]] = self.slots
            self.slots = wider
        first = np.cumsum(more) - more
        self.slots[drives, self.count[drives] + np.arange(len(drives)) - first[drives]] = rows
        self.count += more
        self.used = np.array([min(USED_MAX, size) for size in used], np.int64)
        self.drive_of[rows] = drives
        np.add.at(self.moments, drives, self.own[rows])
        with np.errstate(over="ignore"):
            np.add.at(self.state, drives, self.signature[rows])

    def take(self, row: int) -> int:
        """Take a tenant off its drive, which is returned."""
        drive = int(self.drive_of[row])
        assert drive != NONE
        last = int(self.count[drive]) - 1
        at = int(np.flatnonzero(self.slots[drive] == row)[0])
        self.slots[drive, at] = self.slots[drive, last]
        self.slots[drive, last] = NONE
        self.count[drive] = last
        self.drive_of[row] = NONE
        self._sum(drive)
        if self._log is not None:
            self._log.append((row, drive))
        return drive

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Puts and takes inside the block are undone at its end."""
        assert self._log is None
        self._log = []
        try:
            yield
        finally:
            done, self._log = self._log, None
            for row, drive in reversed(done):
                if drive == NONE:
                    self.take(row)
                else:
                    self.put(row, drive)

    def _sum(self, drive: int) -> None:
        rows = np.sort(self.tenants_on(drive))
        self.used[drive] = min(USED_MAX, sum(self.tenant(row).capacity_bytes for row in rows.tolist()))
        self.moments[drive] = self.own[rows].sum(axis=0)
        kind = mixed(self.kind[drive : drive + 1].astype(np.uint64))[0]
        with np.errstate(over="ignore"):
            self.state[drive] = kind + self.signature[rows].sum(dtype=np.uint64)

    def kinds_with(self, specs: list[DriveSpec]) -> int:
        """How many kinds there would be with these drives, in the place of those of their names; without kinds of which
        no drive is left."""
        stay = self.open.copy()
        stay[[self._drives[spec.drive.name] for spec in specs if spec.drive.name in self._drives]] = False
        left = set(self.kind[stay].tolist())
        kept = {key for key, kind in self._kinds.items() if kind in left}
        return len(kept | {self._key(spec.drive) for spec in specs})

    def _key(self, drive: Drive) -> str:
        name = drive.name if drive.name in self._measured else ""
        return json.dumps([name, drive.model, sorted(drive.sheet.items())])

    def _kind(self, drive: Drive) -> int:
        key = self._key(drive)
        if key not in self._kinds:
            self._kinds[key] = len(self.kinds)
            self.kinds.append(drive)
        return self._kinds[key]

    def _grow(self) -> None:
        old, new = len(self.tenants), max(64, 2 * len(self.tenants))
        self.tenants += [None] * (new - old)
        self.features = np.vstack([self.features, np.zeros((new - old, moments.WIDTH))])
        self.own = np.vstack([self.own, np.zeros((new - old, moments.WIDTH))])
        self.drive_of = np.append(self.drive_of, np.full(new - old, NONE, np.intp))
        self.signature = np.append(self.signature, np.zeros(new - old, np.uint64))
        self.unknown = np.append(self.unknown, np.zeros(new - old, np.bool_))
        self.suffers = np.append(self.suffers, np.zeros(new - old, np.bool_))
        self._free = list(range(new - 1, old - 1, -1))


def signature(tenant: Tenant, features: Floats) -> np.uint64:
    """64 bits that are equal for tenants with the same features and SLOs, whatever their names.

    A tenant of unknown workload differs from one that is known to be idle.
    """
    known = b"" if tenant.profile is None else features.tobytes()
    said = hashlib.blake2b(known + repr(tenant.slos).encode(), digest_size=8)
    return np.uint64(int.from_bytes(said.digest(), "little"))
