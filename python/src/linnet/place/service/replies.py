# SPDX-License-Identifier: MIT OR Apache-2.0
"""Answers of the HTTP interface. Its OpenAPI document is made from these classes and those of schema.py."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field


class Problem(BaseModel):
    """Why a request was not carried out."""

    code: str
    """For programs: no_room, tenant_exists, no_tenant, no_drive, and so on."""
    message: str
    """For people."""
    reasons: list[str] = []


class Fault(BaseModel):
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


class Where(BaseModel):
    """A tenant's drive."""

    id: str
    drive: str
    staged: bool
    """On a staging drive, to be measured."""


class Admitted(Where):
    """A tenant that was placed."""

    asked: int = 0
    """Drives in different states that the model was asked about."""


class Moved(Where):
    """A tenant that may have moved."""

    from_: Annotated[str, Field(alias="from")]
    broken: list[str] = []
    """Promises that the model sees broken where the tenant is."""
    reasons: list[str] = []
    """Why a staged tenant is still staged."""


class Removed(BaseModel):
    """A tenant that left."""

    id: str
    drive: str


class Value(BaseModel):
    """A predicted value and the bounds between which nine of ten outcomes are expected."""

    value: float
    low90: float
    high90: float


class TenantOut(Where):
    """A tenant and what the model predicts for it."""

    capacity_bytes: int
    slos: list[str]
    predictions: dict[str, Value]


class Tenants(BaseModel):
    """A page of tenants."""

    tenants: list[Where]
    total: int
    offset: int


class DriveOut(BaseModel):
    """A drive and how full it is."""

    name: str
    model: str
    capacity_bytes: int
    used_bytes: int
    tenants: int
    load: float
    """Share of its time that its tenants ask for, by its data sheet."""
    staging: bool


class DriveDetail(DriveOut):
    """A drive with its tenants."""

    tenant_ids: list[str]
    broken: list[str]


class Drives(BaseModel):
    """A page of drives."""

    drives: list[DriveOut]
    total: int
    offset: int


class Registered(BaseModel):
    """How many drives are new, and how many were known."""

    registered: int
    known: int


class Corrected(BaseModel):
    """How many drives have other figures now."""

    changed: int
    broken: dict[str, list[str]]
    """Promises that the model sees broken on them, by the drives' names."""


class Named(BaseModel):
    """A name that was stored or removed."""

    name: str


class Profiles(BaseModel):
    """Names of stored profiles."""

    names: list[str]


class ProfileOut(BaseModel):
    """A stored profile."""

    name: str
    features: dict[str, float]
    """As in a request: spec/profile.md. What is absent is zero."""


class Effect(BaseModel):
    """What one tenant would see."""

    tenant: str
    newcomer: bool
    metric: str
    before: Value
    after: Value
    change_percent: float
    limit: float | None
    confidence_percent: int | None
    compared: float | None
    broken: bool
    cause: str | None
    cause_share: float | None


class WhatIfOut(BaseModel):
    """May this tenant go there, and who suffers."""

    allowed: bool
    drive: str | None
    effects: list[Effect]
    reasons: list[str]
    text: str


class Observed(BaseModel):
    """What follows from a measurement."""

    id: str
    broken: list[str]
    windows: int
    broken_windows: int
    drift: float | None = None
    feature: str | None = None
    factor: float | None = None
    advice: Literal["none", "reprofile", "rebalance"]


class MoveOut(BaseModel):
    """One move."""

    tenant: str
    from_: Annotated[str, Field(alias="from")]
    to: str
    capacity_bytes: int
    reason: str


class RebalanceOut(BaseModel):
    """Advice; nothing is moved."""

    moves: list[MoveOut]
    bytes_moved: int
    broken_before: int
    broken_after: int
    drives_before: int
    drives_after: int
    complete: bool
    """False if the time was over before every drive was looked at: these are the moves that were found by then."""
