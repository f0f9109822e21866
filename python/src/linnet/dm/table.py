# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table line of ``spec/dm-target.md``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from linnet._native import kernel_policies
from linnet.dm import DmError

POLICIES = tuple(kernel_policies())
REPLICAS_MAX = 8
HEDGE_MAX = 50
HEDGE_KIB_MAX = 64
"""The largest read that the target hedges: its parameter ``hedge_kib`` only lowers it."""
MODEL_NAME = re.compile(r"[A-Za-z0-9_+][A-Za-z0-9._+-]{0,62}")
ALONE = re.compile(r"off|revoke|out:\d+")
"""Arguments without a value."""
DEVICE_PATH = re.compile(r"/[A-Za-z0-9/._:+@=,#%~-]+")
MIRROR_GONE = (
    "the mirror of --log (`log` in a table) is gone, since it could lose acknowledged writes: use --md, a volume above "
    "md raid1; docs/guide/dm.md says how to move the data"
)
DEVICE_NAME = re.compile(r"[A-Za-z0-9#+.:=@_][A-Za-z0-9#+.:=@_-]{0,126}")

VOLUME_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,31}")
"""Of a volume above md. mdadm refuses others since 4.3, and at boot `*.conf` passes over names with a dot in front."""


def check_policy(name: str) -> str:
    """Refuse a policy that the kernel does not know."""
    if name not in POLICIES:
        raise DmError(f"unknown policy {name!r}; known: {', '.join(POLICIES)}")
    return name


def check_hedge(percent: int, least: int) -> int:
    """Refuse a percentage of extra reads that the kernel would refuse."""
    if not least <= percent <= HEDGE_MAX:
        raise DmError(f"--hedge {percent}: the percentage of extra reads is {least} to {HEDGE_MAX}")
    return percent


def check_model_name(name: str) -> str:
    """Refuse a model name that could leave the firmware directory or does not fit the kernel's field."""
    if not MODEL_NAME.fullmatch(name):
        raise DmError(
            f"{name!r} cannot be a model's name: letters, digits and any of ._+-, at most 63, the first one "
            "neither a dot nor a dash"
        )
    return name


def check_device_name(name: str) -> str:
    """Refuse a device name that dmsetup would have to quote."""
    if not DEVICE_NAME.fullmatch(name):
        raise DmError(f"{name!r} cannot be a device's name: letters, digits and any of #+.:=@_-, at most 127")
    return name


def check_device_path(path: str) -> str:
    """Refuse a path that would be several words of a table line, or more than a word to a shell."""
    if not DEVICE_PATH.fullmatch(path):
        if not path.startswith("/"):
            raise DmError(f"{path}: give the whole path of a device, such as /dev/{path.rpartition('/')[2]}")
        raise DmError(
            f"{path!r} cannot be a device's path: letters, digits and any of /._:+@=,#%~-; "
            "the links in /dev/disk/by-id have such names"
        )
    return path


TAG = 0x5004
"""I/O priority of revocable reads unless another is given: best effort, the usual level, and a hint, as
LINNET_TAG_DEFAULT of liblinnet.h."""


def is_tag(ioprio: int) -> bool:
    """Whether the target takes it: a class of 1 to 3, and a hint. Without a hint, other programs' reads carry it."""
    return 0 <= ioprio <= 0xFFFF and ioprio >> 13 in (1, 2, 3) and bool(ioprio & 0x1FF8)


@dataclass(frozen=True)
class Table:
    """What one table line says. ``length`` is in sectors, or text for a length that is not known here."""

    length: int | str
    devices: list[str]
    policy: str = "linnet-best"
    models: list[str | None] = field(default_factory=list)
    """One for all replicas, or one for each; ``None`` for a replica without."""
    revoke: bool = False
    ioprio: int | None = None
    off: bool = False
    hedge: int | None = None
    out: list[int] = field(default_factory=list)
    """Replicas that begin out of service."""

    def arguments(self) -> list[str]:
        """The words behind their count, in the order of the contract."""
        words = ["policy", self.policy]
        named = [name for name in self.models if name]
        if len(self.models) == 1 or (len(named) == len(self.devices) and len(set(named)) == 1):
            words += ["model", named[0]] if named else []
        else:
            for k, name in enumerate(self.models):
                words += [f"model:{k}", name] if name else []
        words += ["revoke"] if self.revoke else []
        words += ["ioprio", f"0x{self.ioprio:04x}"] if self.ioprio is not None else []
        words += ["off"] if self.off else []
        words += ["hedge", str(self.hedge)] if self.hedge else []
        words += [f"out:{k}" for k in self.out]
        return words

    def line(self) -> str:
        """The line."""
        places = [word for device in self.devices for word in (device, "0")]
        words = self.arguments()
        return " ".join(
            map(str, [0, self.length, "linnet", len(self.devices), *places, len(words), *words]),
        )


def parse(line: str) -> Table:
    """A table line of the target, as ``dmsetup table`` prints it."""
    words = iter(line.split())
    try:
        next(words)
        length = int(next(words))
        if next(words) != "linnet":
            raise DmError(f"not a table of the target linnet: {line}")
        devices = []
        for _ in range(int(next(words))):
            devices.append(next(words))
            next(words)
        return _arguments(Table(length, devices), [next(words) for _ in range(int(next(words)))])
    except (StopIteration, RuntimeError, ValueError, IndexError) as error:
        raise DmError(f"a table that ends early or has a word too many: {line}") from error


def grouped(words: list[str]) -> list[list[str]]:
    """The arguments of a table, each with its value if it has one.

    Raises ``ValueError``, which names the last argument, if that lacks its value.
    """
    found, at = [], 0
    while at < len(words):
        if words[at] == "log":
            raise DmError(MIRROR_GONE)
        count = 1 if ALONE.fullmatch(words[at]) else 2
        if at + count > len(words):
            raise ValueError(words[at])
        found.append(words[at : at + count])
        at += count
    return found


def _arguments(table: Table, words: list[str]) -> Table:
    models: list[str | None] = [None] * len(table.devices)
    values: dict[str, object] = {}
    out: list[int] = []
    for key, *rest in grouped(words):
        if key in ("revoke", "off"):
            values[key] = True
        elif key.startswith("out:"):
            out.append(int(key[4:]))
        else:
            (value,) = rest
            if key == "policy":
                values["policy"] = value
            elif key == "hedge":
                values["hedge"] = int(value)
            elif key == "ioprio":
                values["ioprio"] = int(value, 16)
            elif key == "model":
                models = [value] * len(table.devices)
            elif key.startswith("model:"):
                models[int(key[6:])] = value
            else:
                raise DmError(f"the table has a word that this version does not know: {key}")
    return Table(table.length, table.devices, models=models, out=out, **values)  # type: ignore[arg-type]
