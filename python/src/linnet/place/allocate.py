# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which drive takes a tenant: first fit of the gray-box paper (Algorithm 1), and best fit.

A tenant may join a drive when neither it nor any tenant there would break an SLO. As printed, Algorithm 1 never sets
`assigned`, so it opens a drive for every workload, and it does not reset `slo_violation`, so the first drive that
refuses makes all later ones refuse. Here each drive is judged by itself, and a drive is opened when no other takes
the tenant.

The model is the costly part, so columns of the cluster decide whom it is asked about:

1. Drives without the capacity, of the wrong role, or whose load with the tenant would pass ``load_max`` are left out.
   On an empty drive ``alone_max`` counts: the model would not object there, as interference is relative to the tenant
   alone.
2. Drives of one kind that hold the same profiles and SLOs give the same answer, so one of them is asked.
   All empty drives of a kind are one such group.
3. A drive whose own tenants refused a load keeps it as its *room*. Until its tenants change, it is asked about that
   load or a larger one after the drives with more room.
4. At most ``asked_max`` groups are asked in the order of the policy. Empty drives are asked in any case.
5. A drive on which promises were observed to be broken is asked about when all others, empty ones too, have refused,
   and at most ``asked_max`` groups of them: the model does not see what is wrong there.

Rules 1 and 2 do not change the answer. Rules 3 and 5 may take a later drive than the first that fits, and rule 4 may
miss room in a large cluster that is nearly full. None of them breaks an SLO, because a tenant is placed only where the
model has accepted it. ``exact`` switches rules 3 and 4 off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from linnet.place import moments
from linnet.place.check import Breach, Checker
from linnet.place.cluster import NONE, Cluster, DriveSpec, copied
from linnet.place.moments import Floats
from linnet.place.sheet import SheetModel, lacks_rates, offered
from linnet.place.slo import Tenant
from linnet.place.words import Drive, Interference, Profile

Policy = Literal["first-fit", "best-fit"]
POLICIES: tuple[Policy, ...] = ("first-fit", "best-fit")
CHUNK = 8
"""Groups in the first batch that the model is asked about; each later batch is four times as large."""
LOAD_TOP = 1e12
"""Load of one tenant that is not told from any above it, so that sums stay finite."""
REASONS_MAX = 8
"""Drives whose refusal is explained."""


@dataclass(frozen=True)
class Settings:
    """How placement chooses.

    ``load_max`` is the share of a drive's time, by its data sheet, that tenants may ask for together; above 1 a
    drive is oversubscribed. One tenant may ask an empty drive for ``alone_max`` if that is more. ``tenants_max`` bounds
    the tenants of one drive, ``asked_max`` the groups of drives in equal states about which the model is asked for one
    tenant.
    """

    policy: Policy = "first-fit"
    load_max: float = 1.0
    alone_max: float = 1.0
    tenants_max: int = 64
    asked_max: int = 256
    exact: bool = False

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"policy {self.policy!r}: known are {', '.join(POLICIES)}")
        if not self.load_max > 0 or not self.alone_max > 0 or self.tenants_max < 1 or self.asked_max < 1:
            raise ValueError("settings: load_max, alone_max, tenants_max and asked_max are above zero")

    @property
    def empty_max(self) -> float:
        """Share of an empty drive's time that a tenant may ask for."""
        return max(self.alone_max, self.load_max)


@dataclass(frozen=True)
class Decision:
    """Where a tenant went, or why nowhere."""

    tenant: str
    drive: str | None
    staged: bool = False
    asked: int = 0
    """Groups of drives that the model was asked about."""
    reasons: list[str] = field(default_factory=list)
    """For a refusal: what stands in the way."""


class Allocator:
    """Places, removes and moves tenants of one cluster."""

    def __init__(self, cluster: Cluster, model: Interference, settings: Settings | None = None) -> None:
        self.cluster = cluster
        self.settings = settings or Settings()
        self.checker = Checker(cluster, model)
        self._sheets = SheetModel()
        self._room: Floats = np.full(len(cluster.specs), np.inf)
        self._load: Floats = np.zeros(len(cluster.specs))
        for drive in np.flatnonzero(cluster.count):
            self._measure(int(drive))
        self.checker.learn(np.array([r for r, one in enumerate(cluster.tenants) if one is not None], np.intp))

    def copied(self) -> Allocator:
        """One with a copy of the cluster, for another thread. The model is the same."""
        made = copied(self)
        made.cluster = copied(self.cluster)
        made.checker = self.checker.copied(made.cluster)
        return made

    def add_drives(self, specs: list[DriveSpec]) -> None:
        """Add empty drives."""
        self.cluster.add_drives(specs)
        more = len(self.cluster.specs) - len(self._room)
        self._room = np.append(self._room, np.full(more, np.inf))
        self._load = np.append(self._load, np.zeros(more))

    def place(self, tenant: Tenant, drive: str | None = None) -> Decision:
        """Find a drive for a tenant and put it there; on ``drive`` only, if one is named. A refusal leaves no trace."""
        only = None if drive is None else self.cluster.drive_index(drive)
        row = self.add(tenant)
        try:
            return self.place_row(row, only)
        finally:
            # Refused, or the model failed.
            if self.cluster.drive_of[row] == NONE:
                self.cluster.drop_tenant(row)

    def add(self, tenant: Tenant) -> int:
        """Give a tenant a row without a drive."""
        row = self.cluster.add_tenant(tenant)
        try:
            self.checker.learn(np.array([row], np.intp))
        except BaseException:
            self.cluster.drop_tenant(row)
            raise
        return row

    def restore(self, tenants: list[tuple[Tenant, str]]) -> None:
        """Put tenants where they were, without asking the model: what a stored state says."""
        rows = np.array([self.cluster.add_tenant(tenant) for tenant, _ in tenants], np.intp)
        self.checker.learn(rows)
        self.cluster.fill(rows, np.array([self.cluster.drive_index(drive) for _, drive in tenants], np.intp))
        for index, kind in enumerate(self.cluster.kinds):
            mine = rows[self.cluster.kind[self.cluster.drive_of[rows]] == index]
            loads = self._shares(kind, self.cluster.features[mine])
            np.add.at(self._load, self.cluster.drive_of[mine], loads)

    def settle(self) -> None:
        """Ask the model what promises to the tenants that were restored come to, which the first question about many
        drives would do."""
        self.checker.settle()

    def place_row(
        self,
        row: int,
        only: int | None = None,
        but: Sequence[int] = (),
        explained: bool = True,
        policy: Policy | None = None,
    ) -> Decision:
        """Find a drive for a tenant that has a row: on ``only`` if given, and on none of ``but``.

        A refusal has reasons if it is to be ``explained``, which asks the model again. ``policy`` may be another than
        that of the settings.
        """
        tenant = self.cluster.tenant(row)
        loads = self.loads_of(row)
        may = self._may(tenant, loads)
        if only is not None:
            may = may & (np.arange(len(may)) == only)
        may[list(but)] = False
        if tenant.profile is None:
            return self._stage(row, may, only)
        asked = 0
        for chunk in self._candidates(loads, may, policy or self.settings.policy):
            fits, others = self.checker.fits(row, chunk)
            asked += len(chunk)
            refused = chunk[~others]
            self._room[refused] = np.minimum(self._room[refused], loads[self.cluster.kind[refused]])
            if fits.any():
                chosen = int(chunk[int(np.argmax(fits))])
                self.put(row, chosen)
                return Decision(tenant.id, self.cluster.specs[chosen].drive.name, asked=asked)
        reasons = self._reasons(row, may, only) if explained else []
        return Decision(tenant.id, None, asked=asked, reasons=reasons)

    def remove(self, tenant: str) -> str:
        """Take a tenant away; returns the drive that it was on."""
        row = self.cluster.row_of(tenant)
        drive = self.take(row)
        self.cluster.drop_tenant(row)
        return self.cluster.specs[drive].drive.name

    def may_take(self, tenant: Tenant, drives: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which of these drives may take a tenant that has no row, as an array over all drives. Changes nothing."""
        row = self.add(tenant)
        try:
            may = np.zeros(len(self.cluster.specs), np.bool_)
            allowed = drives[self._may(tenant, self.loads_of(row))[drives]]
            if tenant.profile is None:
                may[allowed] = True
            else:
                # Drives in equal states give one answer.
                _, first, group = np.unique(self.cluster.state[allowed], return_index=True, return_inverse=True)
                may[allowed] = self.checker.fits(row, allowed[first])[0][group]
            return may
        finally:
            self.cluster.drop_tenant(row)

    def put(self, row: int, drive: int) -> None:
        """Put a tenant on a drive without asking the model."""
        self.cluster.put(row, drive)
        self._measure(drive)

    def take(self, row: int) -> int:
        """Take a tenant off its drive, which is returned; it keeps its row."""
        drive = self.cluster.take(row)
        self._measure(drive)
        return drive

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Puts and takes inside the block are undone at its end."""
        room, load = self._room.copy(), self._load.copy()
        try:
            with self.cluster.trial():
                yield
        finally:
            self._room, self._load = room, load

    def loads_of(self, row: int) -> Floats:
        """Load that a tenant adds to each kind of drive; zero where the data sheet has no rates."""
        features = self.cluster.features[row]
        return np.array([self._shares(kind, features) for kind in self.cluster.kinds])

    def load(self, drive: int) -> float:
        """Share of a drive's time that its tenants ask for, by the data sheet."""
        return float(self._load[drive])

    def fullness(self, drive: int) -> float:
        """By which the fullest of drives that may take a tenant is chosen: the load, or -1 where promises were observed
        to be broken."""
        suffers = self.cluster.suffers[self.cluster.tenants_on(drive)].any()
        return -1.0 if suffers else self.load(drive)

    def load_with(self, profile: Profile, drive: int) -> float:
        """The same with one tenant more."""
        kind = self.cluster.kinds[self.cluster.kind[drive]]
        return self.load(drive) + float(self._shares(kind, moments.row(profile)))

    def too_much(self, tenant: Tenant, drive: int) -> str | None:
        """Why a drive could not do alone what a tenant offers, by its data sheet; nothing if it could."""
        features = moments.row(tenant.profile or Profile(tenant.id, {}))
        where = self.cluster.specs[drive].drive
        load = float(self._shares(where, features))
        if load <= self.settings.empty_max:
            return None
        most, said = self.settings.empty_max, offered(where, features)
        return (
            f"{tenant.id} alone asks for {load:.1%} of the time of {where.name}, more than {most:.0%}: it offers {said}"
        )

    def _shares(self, kind: Drive, features: Floats) -> Floats:
        """Loads by a data sheet: zero where it lacks the rates, and LOAD_TOP where no float holds them."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            loads = self._sheets.load(kind, features)
        return np.minimum(np.nan_to_num(loads, nan=0.0 if lacks_rates(kind) else LOAD_TOP), LOAD_TOP)

    def breaches(self, drive: int) -> list[Breach]:
        """Promises to a drive's tenants that the model sees broken."""
        return self.checker.breaches(drive)

    def _may(self, tenant: Tenant, loads: Floats) -> NDArray[np.bool_]:
        """Drives that have the capacity, the role, a free place and the load for a tenant."""
        cluster = self.cluster
        may = cluster.open & (cluster.staging == (tenant.profile is None))
        may &= cluster.capacity - cluster.used >= tenant.capacity_bytes
        may &= cluster.count < self.settings.tenants_max
        if len(cluster.kinds):
            most = np.where(cluster.count == 0, self.settings.empty_max, self.settings.load_max)
            may &= self._load + loads[cluster.kind] <= most
        return np.asarray(may)

    def _candidates(self, loads: Floats, may: NDArray[np.bool_], policy: Policy) -> Iterator[NDArray[np.intp]]:
        """Drives to ask about, one of each group, in batches: those with tenants in the order of a policy, then empty
        ones, then those on which promises were observed to be broken."""
        cluster = self.cluster
        empty, last = cluster.count == 0, cluster.homes_of(cluster.suffers)
        yield from self._groups(np.flatnonzero(may & ~empty & ~last), loads, policy)
        spare = np.flatnonzero(may & empty)
        _, first = np.unique(cluster.kind[spare], return_index=True)
        if len(first):
            yield spare[np.sort(first)]
        yield from self._groups(np.flatnonzero(may & last), loads, policy)

    def _groups(self, drives: NDArray[np.intp], loads: Floats, policy: Policy) -> Iterator[NDArray[np.intp]]:
        """One drive of each group of these, in batches in the order of a policy."""
        cluster, settings = self.cluster, self.settings
        if policy == "best-fit":
            after = self._load[drives] + loads[cluster.kind[drives]]
            drives = drives[np.argsort(-after, kind="stable")]
        if not settings.exact:
            refused = loads[cluster.kind[drives]] >= self._room[drives]
            drives = np.concatenate([drives[~refused], drives[refused]])
        limit = len(drives) if settings.exact else settings.asked_max
        at, size, given, seen = 0, CHUNK, 0, np.zeros(0, np.uint64)
        while at < len(drives) and given < limit:
            chunk = drives[at : at + size]
            at += size
            states, first = np.unique(cluster.state[chunk], return_index=True)
            fresh = ~np.isin(states, seen)
            chunk = chunk[np.sort(first[fresh])][: limit - given]
            seen = np.concatenate([seen, states[fresh]])
            given += len(chunk)
            size *= 4
            if len(chunk):
                yield chunk

    def _stage(self, row: int, may: NDArray[np.bool_], only: int | None) -> Decision:
        """Put a tenant of unknown workload on the staging drive with the fewest tenants."""
        tenant = self.cluster.tenant(row)
        drives = np.flatnonzero(may)
        if not len(drives):
            why = f"the workload is unknown, and {self._unstaged(tenant, only)}"
            return Decision(tenant.id, None, reasons=[why])
        chosen = int(drives[np.argmin(self.cluster.count[drives])])
        self.put(row, chosen)
        return Decision(tenant.id, self.cluster.specs[chosen].drive.name, staged=True)

    def _unstaged(self, tenant: Tenant, only: int | None) -> str:
        """Why a tenant of unknown workload was not staged, and what helps."""
        cluster = self.cluster
        staging = cluster.open & cluster.staging
        if only is not None:
            name = cluster.specs[only].drive.name
            if not cluster.staging[only]:
                return f"{name} is not a staging drive; name one or none, or give a profile"
            staging &= np.arange(len(staging)) == only
        if not staging.any():
            return "there is no staging drive; register one, or give a profile"
        small = np.count_nonzero(staging & (cluster.capacity - cluster.used < tenant.capacity_bytes))
        many = np.count_nonzero(staging & (cluster.count >= self.settings.tenants_max))
        found = [f"{small} have less than {tenant.capacity_bytes} bytes free"] if small else []
        found += [f"{many} have {self.settings.tenants_max} tenants (tenants_max)"] if many else []
        return f"no staging drive has room ({', '.join(found)}); register one, or give a profile"

    def _reasons(self, row: int, may: NDArray[np.bool_], only: int | None) -> list[str]:
        """Why no drive took a tenant, or this one did not; the drives with most room first."""
        tenant, cluster = self.cluster.tenant(row), self.cluster
        usable = cluster.open & ~cluster.staging
        if only is not None:
            usable &= np.arange(len(usable)) == only
            if cluster.staging[only]:
                return [f"{cluster.specs[only].drive.name} is a staging drive, for tenants of unknown workload"]
        if not usable.any():
            return ["there are no drives for tenants; register some"]
        full = usable & (cluster.capacity - cluster.used < tenant.capacity_bytes)
        loads = self.loads_of(row)[cluster.kind]
        slow = usable & ~full & (loads > self.settings.empty_max)
        loaded = int(np.count_nonzero(usable & ~full & ~slow & ~may))
        found = []
        if full.any():
            found.append(f"{np.count_nonzero(full)} drives have less than {tenant.capacity_bytes} bytes free")
        if slow.any():
            fastest = int(np.argmin(np.where(slow, loads, np.inf)))
            others = np.count_nonzero(slow) - 1
            found.append(f"{self.too_much(tenant, fastest)}{f'; {others} more drives are no faster' if others else ''}")
        if loaded:
            found.append(f"{loaded} drives would pass load_max or tenants_max")
        for drive in np.flatnonzero(may)[np.argsort(self._load[may], kind="stable")][:REASONS_MAX]:
            name = cluster.specs[drive].drive.name
            found += [f"{name}: {breach.text()}" for breach in self.checker.breaches(int(drive), row)[:1]]
        return found

    def _measure(self, drive: int) -> None:
        cluster = self.cluster
        kind = cluster.kinds[cluster.kind[drive]]
        features = cluster.features[cluster.tenants_on(drive)]
        self._load[drive] = self._shares(kind, features).sum()
        self._room[drive] = np.inf
