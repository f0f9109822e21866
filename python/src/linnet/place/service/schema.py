# SPDX-License-Identifier: MIT OR Apache-2.0
"""Requests of the HTTP interface. Its OpenAPI document is made from these classes and those of replies.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    create_model,
    model_validator,
)

from linnet.place.cluster import DriveSpec
from linnet.place.service.rows import BYTES_MAX
from linnet.place.sheet import SHEET
from linnet.place.slo import SLOS_MAX, Asked, Slo, Tenant, contradiction, idle
from linnet.place.words import FEATURES, METRICS, Drive, Profile

NAME = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"
"""Ids and names: they stand in paths of URLs and in tables."""
NAME_FORM = "1 to 128 of A-Z a-z 0-9 . _ : - are allowed, the first of them a letter or a digit"
"""NAME in words."""
RATE_MAX = 1e15
"""Above any rate, bandwidth or size of one tenant or drive; so that sums stay finite."""
AMOUNT_MIN = 1e-9
"""Below any rate, bandwidth or size above zero; so that quotients stay finite."""
SPREAD_MAX = 1e6
"""A deviation is at most so many means: the square root of the windows that are measured bounds it."""
FIGURE_MIN, FIGURE_MAX = 1e-3, 1e12
"""Figures of a data sheet: below and above those of any drive."""
UNKNOWN_MAX = 20
"""Fields beyond those that there are until a request is refused as a whole: each of fewer is told."""
SLOWER_MAX = 10_000.0
"""Percent by which a latency may be promised to grow at most."""
DRIVES_MAX = 10_000
"""Drives of one request."""


def _whole(value: Any) -> Any:
    """JSON has one kind of number: 5.0 is the integer 5."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _bounded(value: Any, known: int) -> Any:
    if isinstance(value, dict) and len(value) > known + UNKNOWN_MAX:
        raise ValueError(f"{len(value)} fields; there are {known}")
    return value


def _some(value: float) -> float:
    if 0 < value < AMOUNT_MIN:
        raise ValueError(f"{value:g} is neither 0 nor {AMOUNT_MIN:g} or more")
    return value


Confidence = Annotated[Literal[50, 60, 70, 80, 90, 95], BeforeValidator(_whole)]
Name = Annotated[str, Field(pattern=NAME, examples=["db-7"])]
Figure = Annotated[float, Field(ge=FIGURE_MIN, le=FIGURE_MAX)]
Bytes = Annotated[int, Field(ge=0, le=BYTES_MAX, examples=[200_000_000_000]), BeforeValidator(_whole)]


class Strict(BaseModel):
    """Unknown fields and values of another type are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _few(cls, value: Any) -> Any:
        # An error of each of a million fields would take seconds and a gigabyte to put together.
        return _bounded(value, len(cls.model_fields))


class Consistent(Strict):
    """Features that describe a workload: what contradicts itself would be taken as idle."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        features = self.model_dump()
        if said := contradiction(features):
            raise ValueError(said)
        for name, deviation in features.items():
            if name.endswith("_std") and deviation > SPREAD_MAX * (mean := features[name.replace("_std", "_mean")]):
                raise ValueError(f"{name}: {deviation:g} is more than {SPREAD_MAX:g} times the mean, {mean:g}")
        return self


SAID = {
    "size_bytes_mean": "mean size in bytes",
    "rate_mean": "I/Os per second",
    "rate_std": "standard deviation of the I/Os per second in windows",
    "bandwidth_mean": "bytes per second",
    "bandwidth_std": "standard deviation of the bytes per second in windows",
    "unaligned_ratio": "share of those whose offset is no multiple of 4 KiB",
    "random_ratio": "share of those that continue no earlier one",
    "depth": "I/Os outstanding, on average",
}
"""Features in words: spec/profile.md."""


def _ratio_or_amount(name: str) -> Any:
    word = next(part for part in SAID if name.endswith(part))
    group = name.removesuffix(word).rstrip("_").split("_")
    of = {"": "", "read": "Reads: ", "write": "Writes: "}[group[0]]
    if len(group) > 1:
        of = f"{group[0].capitalize()}s whose size is {'a' if group[1] == 'aligned' else 'no'} multiple of 4 KiB: "
    said = (of + SAID[word])[:1].upper() + (of + SAID[word])[1:] + "."
    if name.endswith("_ratio"):
        return (Annotated[float, Field(ge=0, le=1, description=said)], 0.0)
    return (Annotated[float, Field(ge=0, le=RATE_MAX, description=said), AfterValidator(_some)], 0.0)


FIGURES = {
    "seq_read_mbs": "Sequential reads, MB/s.",
    "seq_write_mbs": "Sequential writes, MB/s.",
    "rnd_read_iops": "Random reads of 4 KiB per second.",
    "rnd_write_iops": "Random writes of 4 KiB per second, sustained.",
    "read_latency_us": "Latency of a read in microseconds.",
    "write_latency_us": "Latency of a write in microseconds.",
}
"""Figures of a data sheet in words."""


if TYPE_CHECKING:
    Latency: TypeAlias = str
    Bandwidth: TypeAlias = str
    Metric: TypeAlias = str
    Features: TypeAlias = Strict
    Sheet: TypeAlias = Strict
else:
    Latency = Literal[tuple(name for name in METRICS if "_latency_" in name)]
    Bandwidth = Literal[tuple(name for name in METRICS if "_bandwidth_" in name)]
    Metric = Literal[METRICS]
    Features = create_model(
        "Features",
        __base__=Consistent,
        __doc__="A workload as numbers: spec/profile.md. What is absent is zero. A group with a bandwidth or a "
        "deviation has a rate, one with a rate a size.",
        **{name: _ratio_or_amount(name) for name in FEATURES},
    )
    Sheet = create_model(
        "Sheet",
        __base__=Strict,
        __doc__="Figures of a data sheet: MB/s, 4 KiB I/Os per second, microseconds. Any may be absent.",
        **{name: (Figure | None, Field(default=None, description=FIGURES[name])) for name in SHEET},
    )


class Bound(Strict):
    """An SLO in the metric's unit, microseconds or bytes per second: a latency at most, a bandwidth at least."""

    metric: Metric
    """Which latency or bandwidth."""
    bound: Annotated[float, Field(ge=0, le=RATE_MAX)]
    """Microseconds, or bytes per second."""
    confidence_percent: Confidence = 50
    """How sure the promise is; above 50 as far as the model knows the level."""

    def slo(self) -> Slo:
        """As placement has it."""
        return Slo(self.metric, bound=self.bound, confidence_percent=self.confidence_percent)


class Slower(Strict):
    """An SLO relative to the tenant alone on the same drive: so much longer may a latency be."""

    metric: Latency
    """Which latency."""
    degradation_percent: Annotated[float, Field(ge=0, le=SLOWER_MAX)]
    """How much longer than alone."""
    confidence_percent: Confidence = 50
    """How sure the promise is; above 50 as far as the model knows the level."""

    def slo(self) -> Slo:
        """As placement has it."""
        return _relative(self.metric, self.degradation_percent, self.confidence_percent)


class Less(Strict):
    """An SLO relative to the tenant alone on the same drive: so much lower may a bandwidth be."""

    metric: Bandwidth
    """Which bandwidth."""
    degradation_percent: Annotated[float, Field(ge=0, le=100)]
    """How much lower than alone."""
    confidence_percent: Confidence = 50
    """How sure the promise is; above 50 as far as the model knows the level."""

    def slo(self) -> Slo:
        """As placement has it."""
        return _relative(self.metric, self.degradation_percent, self.confidence_percent)


def _relative(metric: str, percent: float, confidence: int) -> Slo:
    return Slo(metric, degradation_percent=percent, confidence_percent=confidence)


def _kind(value: Any) -> str | None:
    """Which of the SLOs it is, so that an error is told for that one alone."""
    if not isinstance(value, dict):
        return None
    if "degradation_percent" not in value:
        return "bound"
    return "less" if "bandwidth" in str(value.get("metric")) else "slower"


AnySlo = Annotated[
    Annotated[Bound, Tag("bound")] | Annotated[Slower, Tag("slower")] | Annotated[Less, Tag("less")],
    Discriminator(
        _kind,
        custom_error_type="slo",
        custom_error_message="an SLO is an object with a metric, and bound or degradation_percent",
    ),
]
Slos = Annotated[list[AnySlo], Field(max_length=SLOS_MAX)]


class TenantIn(Strict):
    """A tenant that asks for room. Without a profile and a profile's name it is staged, to be measured."""

    id: Name
    """Its id, chosen by you."""
    capacity_bytes: Bytes
    """What it stores."""
    profile: Features | None = None
    """What it does; not beside ``profile_name``."""
    profile_name: Name | None = None
    """A profile that the service knows; not beside ``profile``."""
    slos: Slos = []
    """What it is promised."""
    drive: Name | None = None
    """Place it on this drive or nowhere."""

    @model_validator(mode="after")
    def _promised_something(self) -> Self:
        if self.slos and self.profile is not None and idle(self.profile.model_dump()):
            raise ValueError("profile: no rate_mean is above 0, so nothing can be promised; leave out slos, or profile")
        return self

    def tenant(self, named: Profile | None) -> Tenant:
        """As placement has it."""
        profile = named if self.profile is None else profile_of(self.id, self.profile)
        asked = Asked.by(profile, named=self.profile is None)
        return Tenant(self.id, self.capacity_bytes, profile, tuple(one.slo() for one in self.slos), asked)


class FiguresIn(Strict):
    """What a drive is. What is absent is not known, or false."""

    model: Annotated[str, Field(min_length=1, max_length=128)]
    """Its model: drives of one model and data sheet are asked about once."""
    capacity_bytes: Annotated[int, Field(gt=0, le=BYTES_MAX), BeforeValidator(_whole)]
    """What its tenants may store together."""
    sheet: Sheet = Sheet()
    """Its data sheet."""
    staging: bool = False
    """Whether it is for tenants that are to be measured."""

    def spec_of(self, name: str) -> DriveSpec:
        """As placement has it."""
        figures = {figure: value for figure, value in self.sheet.model_dump().items() if value is not None}
        return DriveSpec(Drive(name, self.model, figures), self.capacity_bytes, self.staging)


class DriveIn(FiguresIn):
    """A drive to be registered."""

    name: Name
    """Its name, chosen by you; NODE:DEVICE for drives of Kubernetes nodes."""

    def spec(self) -> DriveSpec:
        """As placement has it."""
        return self.spec_of(self.name)


class DrivesIn(Strict):
    """Drives to be registered: all, or none."""

    drives: Annotated[list[DriveIn], Field(min_length=1, max_length=DRIVES_MAX, fail_fast=True)]
    """The drives."""


class MoveIn(Strict):
    """Where a tenant shall go."""

    drive: Name
    """The drive that it shall go to."""


class ProfileIn(Strict):
    """A measured profile."""

    features: Features
    """What was measured."""


class ObservationIn(Strict):
    """What was measured of a tenant in one window."""

    metrics: Annotated[
        dict[Metric, Annotated[float, Field(ge=0, le=RATE_MAX)]],
        BeforeValidator(lambda value: _bounded(value, len(METRICS))),
    ]
    """Without any, ``features`` are compared and no window is kept."""
    features: Features | None = None
    """What it did in the window, to be compared with its profile."""

    @model_validator(mode="after")
    def _measured_something(self) -> Self:
        if not self.metrics and self.features is None:
            raise ValueError("metrics: empty, and there are no features; give what was measured")
        return self


def profile_of(name: str, features: BaseModel) -> Profile:
    """Features as a profile."""
    return Profile(name, {key: value for key, value in features.model_dump().items() if value})
