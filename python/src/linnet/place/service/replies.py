# SPDX-License-Identifier: MIT OR Apache-2.0
"""Answers of the HTTP interface. Its OpenAPI document is made from these classes and those of schema.py."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Reply(BaseModel):
    """Docstrings of fields are their descriptions."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Problem(Reply):
    """Why a request was not carried out."""

    code: str
    """For programs: no_room, tenant_exists, no_tenant, no_drive, and so on."""
    message: str
    """For people."""
    reasons: list[str] = []
    """What stands in the way, one by one; empty where ``message`` says it all."""


class Fault(Reply):
    """What is wrong with a part of a request."""

    type: str
    """For programs: the kind of the error."""
    loc: list[str | int]
    """Where it is: `body`, and then names of fields and numbers of entries."""
    msg: str
    """For people."""


class Invalid(Problem):
    """A request that does not have the form that is described here."""

    detail: list[Fault]
    """The first errors, 20 at most; ``reasons`` has the same as texts, and ``message`` how many there are."""


class Where(Reply):
    """A tenant's drive."""

    id: str
    """The tenant's id."""
    drive: str
    """The drive that it is on."""
    staged: bool
    """On a staging drive, to be measured."""


class Admitted(Where):
    """A tenant that was placed."""

    asked: int = 0
    """Drives in different states that the model was asked about."""


class Moved(Where):
    """A tenant that may have moved."""

    from_: Annotated[str, Field(alias="from")]
    """The drive that it was on before."""
    broken: list[str] = []
    """Promises that the model sees broken where the tenant is."""
    reasons: list[str] = []
    """Why a staged tenant is still staged."""


class Removed(Reply):
    """A tenant that left."""

    id: str
    """The tenant's id."""
    drive: str
    """The drive that it was on."""


class Value(Reply):
    """A predicted value and the bounds between which nine of ten outcomes are expected."""

    value: float
    """Microseconds, or bytes per second."""
    low90: float | None
    """The lower bound: one of twenty outcomes is expected below it; null where too few drives were measured."""
    high90: float | None
    """The upper bound: one of twenty outcomes is expected above it; null as the lower one."""


class TenantOut(Where):
    """A tenant and what the model predicts for it."""

    capacity_bytes: int
    """What it stores."""
    slos: list[str]
    """What it is promised, in words."""
    windows: int
    """Measurements of it on its drive that are kept, 12 at most."""
    broken_windows: int
    """How many of them broke a promise. From 3 on its move is due, if its profile still holds."""
    predictions: dict[str, Value]
    """What it sees on its drive, by metric; empty where its workload is unknown, or that of another tenant there."""


class Tenants(Reply):
    """A page of tenants."""

    tenants: list[Where]
    """Those of this page."""
    total: int
    """How many there are."""
    offset: int
    """How many come before this page."""


class DriveOut(Reply):
    """A drive and how full it is."""

    name: str
    """The drive's name."""
    model: str
    """Its model."""
    capacity_bytes: int
    """What its tenants may store together."""
    used_bytes: int
    """What its tenants store together."""
    tenants: int
    """How many tenants it has."""
    load: float
    """Share of its time that its tenants ask for, by its data sheet."""
    staging: bool
    """Whether it is for tenants that are to be measured."""


class DriveDetail(DriveOut):
    """A drive with its tenants."""

    tenant_ids: list[str]
    """Ids of its tenants, in order."""
    broken: list[str]
    """Promises to them that the model sees broken."""


class DriveCorrected(DriveDetail):
    """A drive with its new figures."""

    warnings: list[str]
    """Figures that were known and are not any more."""


class Drives(Reply):
    """A page of drives."""

    drives: list[DriveOut]
    """Those of this page."""
    total: int
    """How many there are."""
    offset: int
    """How many come before this page."""


class Registered(Reply):
    """How many drives are new, and how many were known."""

    registered: int
    """Drives that are new."""
    known: int
    """Drives that were registered before, with the same figures."""


class Corrected(Reply):
    """How many drives have other figures now."""

    changed: int
    """Drives whose figures are others now."""
    broken: dict[str, list[str]]
    """Promises that the model sees broken on them, by the drives' names."""
    warnings: list[str]
    """Figures that were known and are not any more, a drive each."""


class Named(Reply):
    """A name that was stored or removed."""

    name: str
    """The name."""


class Profiles(Reply):
    """Names of stored profiles."""

    names: list[str]
    """The names, in order."""


class ProfileOut(Reply):
    """A stored profile."""

    name: str
    """The profile's name."""
    features: dict[str, float]
    """As in a request: spec/profile.md. What is absent is zero."""


class Effect(Reply):
    """What one tenant would see."""

    tenant: str
    """The tenant's id."""
    newcomer: bool
    """Whether it is the tenant that was asked about."""
    metric: str
    """Which latency or bandwidth."""
    before: Value
    """What it sees now; a newcomer alone on this drive."""
    after: Value
    """What it would see."""
    change_percent: float
    """How much worse it gets: a latency longer, a bandwidth lower; negative where it gets better."""
    limit: float | None
    """What the tenant was promised; null for a tenant without this SLO."""
    confidence_percent: int | None
    """How sure the promise is."""
    compared: float | None
    """What is predicted at that confidence, which the limit is compared with; null where the model has no interval."""
    broken: bool
    """Whether the promise would be broken."""
    cause: str | None
    """The property of the newcomer that does most of the harm; null where there is none."""
    cause_share: float | None
    """Share of the change that disappears without this property, 0 to 1."""


class WhatIfOut(Reply):
    """May this tenant go there, and who suffers."""

    allowed: bool
    """Whether the tenant may go there."""
    drive: str | None
    """The drive; null where none can take it."""
    effects: list[Effect]
    """What every tenant of the drive would see, the worst first."""
    reasons: list[str]
    """Why not."""
    text: str
    """The same in sentences."""


class Observed(Reply):
    """What follows from a measurement."""

    id: str
    """The tenant's id."""
    broken: list[str]
    """Promises that this measurement breaks."""
    windows: int
    """Measurements that are kept, 12 at most."""
    broken_windows: int
    """How many of them broke a promise."""
    drift: float | None = None
    """How far it is from its profile, in doublings; null where nothing was compared."""
    feature: str | None = None
    """The feature that changed most."""
    factor: float | None = None
    """By which factor it changed."""
    advice: Literal["none", "reprofile", "rebalance"]
    """What to do: nothing, measure the tenant again, or move it."""


class MoveOut(Reply):
    """One move."""

    tenant: str
    """The tenant's id."""
    from_: Annotated[str, Field(alias="from")]
    """The drive that it is on."""
    to: str
    """The drive that it shall go to."""
    capacity_bytes: int
    """What is copied."""
    reason: str
    """What the move is good for."""


class RebalanceOut(Reply):
    """Advice; nothing is moved."""

    moves: list[MoveOut]
    """The moves, in the order in which they are to be made."""
    bytes_moved: int
    """What they copy."""
    broken_before: int
    """Promises that the model sees broken now."""
    broken_after: int
    """Promises that it would see broken after the moves."""
    drives_observed_broken: int
    """Drives on which promises were observed to be broken; the moves that relieve them come first."""
    drives_before: int
    """Drives that have tenants."""
    drives_after: int
    """Drives that would have tenants."""
    complete: bool
    """False if the time was over, or the service ended, before every drive was looked at: the moves are those that were
    found by then."""
