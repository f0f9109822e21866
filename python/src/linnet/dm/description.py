# SPDX-License-Identifier: MIT OR Apache-2.0
"""The description of a volume above md (``spec/md-volume.md``), changed along with the running volume."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from linnet.dm import DmError
from linnet.dm.host import Host
from linnet.dm.plan import Plan, Redescribe

ALONE = re.compile(r"off|revoke|out:\d+")
"""Arguments without a value."""
LINE = re.compile(r"^arguments=(.*)$", re.MULTILINE)


def parse(text: str) -> list[list[str]]:
    """The arguments of a description, each with its value.

    Raises ``DmError`` if there is no line ``arguments=``, or if it ends before a value.
    """
    if (line := LINE.search(text)) is None:
        raise DmError("it has no line `arguments=`")
    words, found = line[1].split(), []
    while words:
        count = 1 if ALONE.fullmatch(words[0]) else 2
        if len(words) < count:
            raise DmError(f"its line `arguments=` ends behind {words[0]}")
        found.append(words[:count])
        words = words[count:]
    return found


@dataclass
class Description:
    """What is recorded of changes to a volume. A volume without a description keeps none."""

    host: Host
    plan: Plan
    name: str
    arguments: list[list[str]] | None = field(init=False, default=None)

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
