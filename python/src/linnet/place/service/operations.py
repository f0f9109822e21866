# SPDX-License-Identifier: MIT OR Apache-2.0
"""What can be asked of the service, on the cluster in memory and the state on disk together.

Each change appends to ``undo`` what takes its step back in memory; the caller undoes what it wrote to the state. Where
the model is asked between two steps, that is appended before the first: the model may fail.
All of it runs on the writer's thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from linnet.place.allocate import Allocator, Settings
from linnet.place.batch import VALUE
from linnet.place.cluster import NONE, Cluster, DriveSpec
from linnet.place.drift import WINDOWS, Advice, advise, broken, drift, suffers
from linnet.place.rebalance import rebalance
from linnet.place.service.forms import advised, asked
from linnet.place.service.named import Named, asked_so, check_measured
from linnet.place.service.state import State
from linnet.place.service.writer import Answer, Refused, Undo
from linnet.place.sheet import dropped
from linnet.place.slo import Tenant, unusable
from linnet.place.whatif import WhatIf, what_if
from linnet.place.words import Interference, Prediction, Profile

KINDS_MAX = 1024
"""Kinds of drives: the model is asked about a newcomer on each of them at once."""


class Operations:
    """A cluster with its stored state."""

    def __init__(self, state: State, model: Interference, settings: Settings) -> None:
        self.state, self._model, self._settings = state, model, settings
        self.named = Named(state)
        self._load()

    def _load(self) -> None:
        """Take in what the state says."""
        # A fitted model names the drives that it was fitted to.
        allocator = Allocator(Cluster(measured=getattr(self._model, "drives", ())), self._model, self._settings)
        drives, stored = self.state.drives(), self.state.tenants()
        placed = [(tenant, drive) for tenant, drive, _ in stored]
        self.state.check(drives, placed)
        allocator.add_drives(drives)
        try:
            allocator.restore(placed)
        except ValueError as error:
            said = "if a model of `linnet place fit` placed it, give that as --model"
            raise ValueError(f"{self.state.path}: {error}; {said}") from error
        self.allocator = allocator
        self.windows: dict[str, list[bool]] = {}
        for tenant, _, windows in stored:
            if windows:
                self._observed(tenant.id, windows)

    @property
    def cluster(self) -> Cluster:
        """The cluster in memory."""
        return self.allocator.cluster

    def register(self, undo: list[Undo], specs: list[DriveSpec]) -> Answer:
        """Add drives: all of them, or none where a name is taken by a different one."""
        fresh = []
        for spec in specs:
            name = spec.drive.name
            if not self.cluster.has_drive(name):
                fresh.append(spec)
            elif self.cluster.specs[self.cluster.drive_index(name)] != spec:
                said = (
                    f"drive {name}: registered already, with other figures; `PUT /v1/drives/{name}`, or "
                    "`linnet place drives --update FILE` while no service runs, gives it these"
                )
                raise Refused(409, "drive_exists", said)
        kinds = self._kinds_with(fresh)
        gone = len(self.cluster.kinds) - self.cluster.kinds_with([])
        if kinds + gone > KINDS_MAX:
            self._reload(undo)
        self.allocator.add_drives(fresh)
        undo.append(lambda: self._unregistered(fresh))
        for spec in fresh:
            self.state.add_drive(spec)
        return Answer(201, {"registered": len(fresh), "known": len(specs) - len(fresh)})

    def correct(self, undo: list[Undo], specs: list[DriveSpec]) -> Answer:
        """Give drives other figures: all of them, or none. Their tenants stay.

        The answer has the promises that the model then sees broken, by the drives' names, and warnings of figures that
        are not known any more.
        """
        changed: list[DriveSpec] = []
        warnings: list[str] = []
        for spec in specs:
            index, name = self._drive(spec.drive.name), spec.drive.name
            old, used = self.cluster.specs[index], int(self.cluster.used[index])
            if spec.staging != old.staging and self.cluster.count[index]:
                said = f"drive {name}: only one without tenants can become a staging drive, or an ordinary one"
                raise Refused(409, "drive_in_use", said)
            if spec.capacity_bytes < min(used, old.capacity_bytes):
                said = f"drive {name}: its tenants have {used} bytes, more than {spec.capacity_bytes}"
                raise Refused(409, "drive_in_use", said)
            if spec != old:
                changed.append(spec)
                warnings += filter(None, [dropped(old.drive, spec.drive)])
        self._kinds_with(specs)
        for spec in changed:
            self.state.change_drive(spec)
        if changed:
            self._reload(undo)
        found = {name: self.allocator.breaches(self._drive(name)) for name in (spec.drive.name for spec in specs)}
        broken = {name: [one.text() for one in said] for name, said in found.items() if said}
        return Answer(200, {"changed": len(changed), "broken": broken, "warnings": warnings})

    def correct_one(self, undo: list[Undo], spec: DriveSpec) -> Answer:
        """The same for one drive."""
        warnings = self.correct(undo, [spec]).body["warnings"]
        return Answer(200, {**self.show_drive(spec.drive.name), "warnings": warnings})

    def _kinds_with(self, specs: list[DriveSpec]) -> int:
        """Kinds of drives with these, in the place of those of their names."""
        if len({spec.drive.name for spec in specs}) < len(specs):
            raise Refused(409, "drive_twice", "a drive's name stands in the request twice")
        kinds = self.cluster.kinds_with(specs)
        if kinds > KINDS_MAX:
            said = f"more than {KINDS_MAX} kinds of drives; drives with one model and data sheet are one kind"
            raise Refused(409, "too_many_kinds", said)
        return kinds

    def _reload(self, undo: list[Undo]) -> None:
        """Take the state in again as it is now: with changed drives, and without the kinds of drives that are gone.

        What was in memory stays as it is until this is committed, so that nobody is asked to take it back.
        """
        before = self.allocator
        undo.append(lambda: setattr(self, "allocator", before))
        self._load()
        self.allocator.settle()

    def unregister(self, undo: list[Undo], name: str) -> Answer:
        """Forget an empty drive."""
        index = self._drive(name)
        if self.cluster.count[index]:
            said = f"drive {name}: it has {self.cluster.count[index]} tenants; move or remove them first"
            raise Refused(409, "drive_in_use", said)
        self.cluster.remove_drive(name)
        undo.append(lambda: self.cluster.restore_drive(index))
        self.state.remove_drive(name)
        return Answer(200, {"name": name})

    def admit(self, undo: list[Undo], tenant: Tenant, drive: str | None = None) -> Answer:
        """Place a tenant. The same tenant again is told where it is."""
        if self.cluster.has_tenant(tenant.id):
            found = self._where(self.cluster.row_of(tenant.id))
            if not asked_so(self.cluster.tenant(self.cluster.row_of(tenant.id)), tenant):
                said = f"tenant {tenant.id}: there is one of this id that asked for something else"
                raise Refused(409, "tenant_exists", said)
            if drive not in (None, found["drive"]):
                said = (
                    f"tenant {tenant.id}: it is on drive {found['drive']}; POST /v1/tenants/{tenant.id}/move moves it"
                )
                raise Refused(409, "tenant_exists", said)
            return Answer(200, found)
        if drive is not None:
            self._drive(drive)
        self._check_promises(tenant)
        decision = self.allocator.place(tenant, drive)
        if decision.drive is None:
            said = "no drive can take the tenant" if drive is None else f"drive {drive} cannot take the tenant"
            raise Refused(409, "no_room", said, reasons=decision.reasons)
        undo.append(lambda: self._forget(tenant.id))
        self.state.add_tenant(tenant, decision.drive)
        return Answer(201, {**self._where(self.cluster.row_of(tenant.id)), "asked": decision.asked})

    def record(self, undo: list[Undo], tenant: Tenant, drive: int) -> None:
        """Note a tenant that is on a drive already, whatever the model says of it there.

        It has what it declares, even where the drive then has less than its tenants: who leaves gives no more room back
        than is there.
        """
        self.allocator.put(self.allocator.add(tenant), drive)
        undo.append(lambda: self._forget(tenant.id))
        self.state.add_tenant(tenant, self.cluster.specs[drive].drive.name)

    def remove(self, undo: list[Undo], tenant_id: str) -> Answer:
        """Take a tenant away."""
        row = self._tenant(tenant_id)
        tenant, drive, windows = self.cluster.tenant(row), int(self.cluster.drive_of[row]), self.windows.get(tenant_id)
        self._forget(tenant_id)
        undo.append(lambda: self._bring_back(tenant, drive, windows))
        self.state.remove_tenant(tenant_id)
        return Answer(200, {"id": tenant_id, "drive": self.cluster.specs[drive].drive.name})

    def move(self, undo: list[Undo], tenant_id: str, drive: str) -> Answer:
        """Move a tenant to a drive, if the model allows it there."""
        row, target = self._tenant(tenant_id), self._drive(drive)
        source = int(self.cluster.drive_of[row])
        if source != target:
            there = [self.cluster.tenant(int(one)).id for one in self.cluster.tenants_on(source)]
            windows = {one: self.windows[one] for one in there if one in self.windows}
            undo.append(lambda: self._back_to(tenant_id, source, windows))
            self.allocator.take(row)
            decision = self.allocator.place_row(row, only=target)
            if decision.drive is None:
                self.allocator.put(row, source)
                said = f"drive {drive} cannot take the tenant"
                raise Refused(409, "no_room", said, reasons=decision.reasons)
            self.state.change_tenant(self.cluster.tenant(row), drive)
            # What was seen on the drive that it left says nothing of this one, nor of those that it left there.
            for one in windows:
                self._observed(one, [])
                self.state.observe(one, [])
        return Answer(200, {**self._where(row), "from": self.cluster.specs[source].drive.name})

    def reprofile(self, undo: list[Undo], tenant_id: str, profile: Profile) -> Answer:
        """Replace a tenant's profile by a measured one. A staged tenant leaves its staging drive if one takes it.

        A tenant that is placed stays where it is: the answer says which promises no longer hold there.
        """
        row = self._tenant(tenant_id)
        old, source, windows = self.cluster.tenant(row), int(self.cluster.drive_of[row]), self.windows.get(tenant_id)
        new = replace(old, profile=profile)
        check_measured(profile)
        self._check_profile(new)
        undo.append(lambda: self._swap_back(old, source, windows))
        self._forget(tenant_id)
        row = self.allocator.add(new)
        staged = bool(self.cluster.staging[source])
        decision = self.allocator.place_row(row) if staged else None
        if decision is None or decision.drive is None:
            self.allocator.put(row, source)
        home = self.cluster.specs[int(self.cluster.drive_of[row])].drive.name
        self.state.change_tenant(new, home)
        self.state.observe(tenant_id, [])
        found = [] if staged else [breach.text() for breach in self.allocator.breaches(source)]
        reasons = decision.reasons if decision is not None else []
        came_from = self.cluster.specs[source].drive.name
        return Answer(200, {**self._where(row), "from": came_from, "broken": found, "reasons": reasons})

    def observe(self, undo: list[Undo], tenant_id: str, metrics: Mapping[str, float], seen: Profile | None) -> Answer:
        """Take in what was measured of a tenant in one window, and say what to do."""
        row = self._tenant(tenant_id)
        tenant = self.cluster.tenant(row)
        kind = int(self.cluster.kind[self.cluster.drive_of[row]])
        values = self.allocator.checker.alone(np.array([row], np.intp), kind)[0, :, VALUE]
        alone = dict(zip(self.allocator.checker.model.metrics, values.tolist(), strict=True))
        said = broken(tenant, metrics, alone)
        before = self.windows.get(tenant_id, [])
        windows = [*before, bool(said)][-WINDOWS:] if metrics else before
        change = None if seen is None or tenant.profile is None else drift(tenant.profile, seen)
        advice: Advice = "reprofile" if tenant.profile is None else advise(windows, change)
        self._observed(tenant_id, windows)
        undo.append(lambda: self._observed(tenant_id, before))
        self.state.observe(tenant_id, windows)
        body = {"id": tenant_id, "broken": said, "windows": len(windows), "broken_windows": sum(windows)}
        if change is not None:
            body |= {"drift": change.distance, "feature": change.feature, "factor": change.factor}
        return Answer(200, {**body, "advice": advice})

    def name_profile(self, undo: list[Undo], profile: Profile) -> Answer:
        """Keep a profile under its name. Tenants that were placed by an older one of this name keep theirs."""
        return self.named.keep(undo, profile)

    def remove_profile(self, undo: list[Undo], name: str) -> Answer:
        """Forget a profile by whose name no tenant was placed."""
        return self.named.remove(undo, name, self.cluster.tenants)

    @property
    def profiles(self) -> dict[str, Profile]:
        """Profiles by their names."""
        return self.named.profiles

    def profile(self, name: str) -> Profile:
        """A profile by its name."""
        return self.named.get(name)

    def ask(self, tenant: Tenant, drive: str | None) -> WhatIf:
        """May this tenant go there, and who suffers."""
        if self.cluster.has_tenant(tenant.id):
            raise Refused(409, "tenant_exists", f"tenant {tenant.id}: placed already; ask under another id")
        if drive is not None:
            self._drive(drive)
        self._check_promises(tenant)
        return what_if(self.allocator, tenant, drive)

    def what_if(self, tenant: Tenant, drive: str | None) -> dict[str, Any]:
        """The same as JSON."""
        return asked(self.ask(tenant, drive))

    def list_drives(self, offset: int, limit: int) -> dict[str, Any]:
        """Drives in the order in which they were registered."""
        there = np.flatnonzero(self.cluster.open)
        rows = [self._drive_row(int(index)) for index in there[offset : offset + limit]]
        return {"drives": rows, "total": len(there), "offset": offset}

    def show_drive(self, name: str) -> dict[str, Any]:
        """A drive, its tenants, and the promises to them that the model sees broken."""
        index = self._drive(name)
        tenants = [self.cluster.tenant(int(row)).id for row in self.cluster.tenants_on(index)]
        said = [breach.text() for breach in self.allocator.breaches(index)]
        return {**self._drive_row(index), "tenant_ids": sorted(tenants), "broken": said}

    def show_tenant(self, tenant_id: str) -> dict[str, Any]:
        """A tenant, where it is, and what the model predicts for it there."""
        row = self._tenant(tenant_id)
        drive = int(self.cluster.drive_of[row])
        one = self.allocator.checker.predict(np.array([row], np.intp), np.array([drive], np.intp))[0]
        unknown = self.cluster.unknown[self.cluster.tenants_on(drive)].any()
        metrics = self.allocator.checker.model.metrics
        predictions = {
            name: Prediction(*map(float, one[i])).shown()
            for i, name in enumerate(metrics)
            if not np.isnan(one[i, VALUE]) and not unknown
        }
        tenant = self.cluster.tenant(row)
        slos, windows = [slo.text() for slo in tenant.slos], self.windows.get(tenant_id, [])
        promised = {"capacity_bytes": tenant.capacity_bytes, "slos": slos}
        seen = {"windows": len(windows), "broken_windows": sum(windows)}
        return {**self._where(row), **promised, **seen, "predictions": predictions}

    def list_tenants(self, offset: int, limit: int) -> dict[str, Any]:
        """Tenants, by id."""
        ids = self.cluster.ids
        rows = [self._where(self.cluster.row_of(one)) for one in ids[offset : offset + limit]]
        return {"tenants": rows, "total": len(ids), "offset": offset}

    def aside(self) -> Allocator:
        """A copy of the cluster that another thread may ask about."""
        return self.allocator.copied()

    def advice(self, moves_max: int) -> dict[str, Any]:
        """Which tenants should move."""
        return advised(rebalance(self.allocator, moves_max))

    def _check_profile(self, tenant: Tenant) -> None:
        if said := unusable(tenant):
            raise Refused(409, "bad_profile", f"tenant {tenant.id}: {said}")

    def _check_promises(self, tenant: Tenant) -> None:
        self._check_profile(tenant)
        if said := self.allocator.checker.unpromisable(tenant.slos):
            raise Refused(409, "not_predicted", f"tenant {tenant.id}: {said}")

    def _unregistered(self, specs: list[DriveSpec]) -> None:
        for spec in specs:
            self.cluster.remove_drive(spec.drive.name)

    def _drive_row(self, index: int) -> dict[str, Any]:
        spec = self.cluster.specs[index]
        return {
            "name": spec.drive.name,
            "model": spec.drive.model,
            "capacity_bytes": spec.capacity_bytes,
            "used_bytes": int(self.cluster.used[index]),
            "tenants": int(self.cluster.count[index]),
            "load": self.allocator.load(index),
            "staging": spec.staging,
        }

    def _where(self, row: int) -> dict[str, Any]:
        drive = int(self.cluster.drive_of[row])
        spec = self.cluster.specs[drive]
        return {"id": self.cluster.tenant(row).id, "drive": spec.drive.name, "staged": spec.staging}

    def _drive(self, name: str) -> int:
        if not self.cluster.has_drive(name):
            raise Refused(404, "no_drive", f"drive {name}: there is none of this name")
        return self.cluster.drive_index(name)

    def _tenant(self, tenant_id: str) -> int:
        if not self.cluster.has_tenant(tenant_id):
            raise Refused(404, "no_tenant", f"tenant {tenant_id}: there is none of this id")
        return self.cluster.row_of(tenant_id)

    def _forget(self, tenant_id: str) -> None:
        self.allocator.remove(tenant_id)
        self.windows.pop(tenant_id, None)

    def _bring_back(self, tenant: Tenant, drive: int, windows: list[bool] | None) -> None:
        self.allocator.put(self.allocator.add(tenant), drive)
        self._observed(tenant.id, windows or [])

    def _back_to(self, tenant_id: str, drive: int, windows: Mapping[str, list[bool]]) -> None:
        row = self.cluster.row_of(tenant_id)
        if self.cluster.drive_of[row] != NONE:
            self.allocator.take(row)
        self.allocator.put(row, drive)
        for one, seen in windows.items():
            self._observed(one, seen)

    def _swap_back(self, old: Tenant, drive: int, windows: list[bool] | None) -> None:
        if self.cluster.has_tenant(old.id):
            row = self.cluster.row_of(old.id)
            if self.cluster.drive_of[row] != NONE:
                self.allocator.take(row)
            self.cluster.drop_tenant(row)
        self._bring_back(old, drive, windows)

    def _observed(self, tenant_id: str, windows: list[bool]) -> None:
        if windows:
            self.windows[tenant_id] = windows
        else:
            self.windows.pop(tenant_id, None)
        self.cluster.suffers[self.cluster.row_of(tenant_id)] = suffers(windows)
