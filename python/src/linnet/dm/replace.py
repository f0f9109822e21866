# SPDX-License-Identifier: MIT OR Apache-2.0
"""Replace the drive of a replica, or follow a drive to its new name: the target gets a table with the new device.

The table line is the one that the target prints, with its current settings and the new device of the replica. Nothing
is written, so the drive must already hold the content of the volume.
"""

from __future__ import annotations

from linnet.dm import DmError, guard
from linnet.dm.host import SECTOR, Host
from linnet.dm.md import number_of
from linnet.dm.plan import Plan, Run
from linnet.dm.status import per_device
from linnet.dm.table import check_device_name, check_device_path, parse

DEVICES_AT = 4
"""Position of the first device in a table line; an offset follows each device."""


def replace(host: Host, name: str, replica: int, path: str, trust_identical: bool = False) -> Plan:
    """The plan that puts a device in a replica's place."""
    lines = per_device(host.run(["dmsetup", "table", "--target", "linnet", check_device_name(name)]), name)
    if name not in lines:
        raise DmError(f"{name}: no device of the target linnet; `dmsetup ls --target linnet` lists them")
    if lines[name].split()[2:4] == ["linnet", "md"]:
        raise DmError(f"{name} is above md, and md replaces its drives: docs/guide/dm.md shows how")
    table, words = parse(lines[name]), lines[name].split()
    check_device_path(path)
    if not 0 <= replica < len(table.devices):
        raise DmError(f"replica {replica}: {name} has replicas 0 to {len(table.devices) - 1}")
    if len(table.devices) == 1:
        raise DmError(f"{name} has one replica: remove it, and create it with the new device")
    new, volume = guard.device(host, path), guard.device(host, f"/dev/mapper/{name}")
    plan = Plan(refusals=guard.in_use(host, new))
    for k, word in enumerate(table.devices):
        number = number_of(word)
        # The drive that the new one replaces may be this one, under its old name.
        if k != replica and host.sysfs(number).exists():
            other = guard.device_of(host, number)
            same = guard.same_twice(host, [other, new])
            plan.refusals += same
            plan.warnings += guard.shared_disks(host, [other, new]) if not same else []
    place = DEVICES_AT + 2 * replica
    begin = int(words[place + 1]) * SECTOR
    needed = begin + volume.size_bytes
    if new.size_bytes < needed:
        plan.refusals.append(f"{path} has {new.size_bytes:,} bytes, and the replica takes {needed:,}")
    if trust_identical:
        plan.warnings.append(f"that {path} holds what {name} holds was not checked")
    elif not plan.refusals and (differ := guard.difference(host, [volume, new], volume.size_bytes, [0, begin])):
        where = f"oflag=direct,seek_bytes seek={begin}" if begin else "oflag=direct"
        plan.refusals.append(f"{differ}: copy it first: dd if={volume.path} of={path} bs=1M {where}")
    if replica in table.out:
        plan.notes.append(
            f"replica {replica} stays out of service, as it is now, until `dmsetup message {name} 0 revive {replica}`"
        )
    words[place] = new.word
    plan.steps = [
        Run(["dmsetup", "load", name, "--readonly", "--table", " ".join(words)]),
        # This suspends the old table, too. Between two commands a device could stay suspended.
        Run(["dmsetup", "resume", name]),
    ]
    plan.recovery = (
        f"`dmsetup resume {name}` goes on, with the new table if it is loaded; to keep the old one, "
        f"`dmsetup clear {name}` before that"
    )
    return plan
