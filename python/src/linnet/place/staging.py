# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where tenants run together: on a modelled drive, many runs at a time, or on a real one that is set aside, one by one.

On a real drive a run takes as long as it lasts, its outcome is not the same twice, and what tenants write is lost with
what was there before.
"""

from __future__ import annotations

from linnet._native import SharedDrive, StagingDrive
from linnet.threads import Threads

Stage = SharedDrive | StagingDrive

LATE_US = 1000.0
"""I/Os that are submitted later than this are a sign that the machine was measured, and not the drive."""


def threads_of(stage: Stage, count: int | None = None) -> Threads:
    """Threads that run tenants, by default one for each CPU. A real drive has one, whose run a signal ends."""
    return Threads(1, stage.stop) if isinstance(stage, StagingDrive) else Threads(count)
