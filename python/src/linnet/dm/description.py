# SPDX-License-Identifier: MIT OR Apache-2.0
"""The description of a volume above md (``spec/md-volume.md``), changed along with the running volume."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from linnet.dm import DmError, md
from linnet.dm.host import Host
from linnet.dm.plan import Plan, Redescribe, tolerated
from linnet.dm.table import grouped
from linnet.dm.volume import Volume, above_md

LINE = re.compile(r"^arguments=(.*)$", re.MULTILINE)


def parse(text: str) -> list[list[str]]:
    """The arguments of a description, each with its value.

    Raises ``DmError`` if there is no line ``arguments=``, or if it ends before a value.
    """
    if (line := LINE.search(text)) is None:
        raise DmError("it has no line `arguments=`")
    try:
        return grouped(line[1].split())
    except ValueError as error:
        raise DmError(f"its line `arguments=` ends behind {error}") from error


@dataclass
class Description:
    """What is recorded of changes to a volume. A device without a description, or that is not above md, keeps none.

    With ``dry_run``, a device that cannot be asked gives a warning.
    """

    host: Host
    plan: Plan
    name: str
    dry_run: bool = False
    arguments: list[list[str]] | None = field(init=False, default=None)
    running: Volume | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        path = self.host.description(self.name)
        try:
            self.arguments = parse(path.read_text())
        except FileNotFoundError:
            pass
        except (DmError, OSError, UnicodeError) as error:
            # The running volume can be changed all the same, and may have to be, at once.
            why = error.strerror if isinstance(error, OSError) else error
            self.plan.warnings.append(f"{path}: {why}; the change lasts until the volume is started again")
        if self.arguments is not None:
            with tolerated(self.plan, self.dry_run):
                self.running = above_md(self.host, self.name)
                if self.running is None:
                    self.arguments = None  # another device has the name of the volume that is described

    def record_model(self, replica: int | None, model: str) -> None:
        """Add the step that gives a replica another model, or all of them if it is ``None``.

        A table counts the members that were there when the volume was started, a description those of the array.
        Raises ``DmError`` if there is no such replica.
        """
        slot = replica
        if replica is not None and self.running is not None:
            if replica >= len(self.running.legs):
                raise DmError(f"replica {replica}: {self.name} has replicas 0 to {len(self.running.legs) - 1}")
            number, _ = self.running.legs[replica]
            of = md.array(self.host, self.running.array)
            slot = next((member.slot for member in of.members if member.number == number), None)
            if slot is None:
                self.plan.warnings.append(
                    f"replica {replica} has no place in {of.name} now; the model lasts until {self.name} starts again"
                )
                return
        self.record("model" if slot is None else f"model:{slot}", model)

    def record(self, key: str, value: str | None) -> None:
        """Add the step that gives an argument a new value, or removes it. ``model`` takes the place of every model."""
        if self.arguments is None:
            return
        gone = re.compile(r"model(:\d+)?" if key == "model" else re.escape(key))
        at = next((k for k, one in enumerate(self.arguments) if gone.fullmatch(one[0])), len(self.arguments))
        rest = [one for one in self.arguments if not gone.fullmatch(one[0])]
        self.arguments = [*rest[:at], *([[key, value]] if value is not None else []), *rest[at:]]
        words = [word for one in self.arguments for word in one]
        self.plan.steps.append(Redescribe(self.host.description(self.name), words))
