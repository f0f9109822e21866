# SPDX-License-Identifier: MIT OR Apache-2.0
"""A small cluster from shipped profiles: where tenants go, who would suffer, and a page with the pictures."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np

from linnet.place.allocate import Allocator, Settings
from linnet.place.catalogue import drives, profiles
from linnet.place.cluster import Cluster, DriveSpec
from linnet.place.rebalance import Advice, rebalance
from linnet.place.sheet import SheetModel
from linnet.place.slo import Slo, Tenant
from linnet.place.whatif import WhatIf, what_if
from linnet.place.words import Drive, Profile
from linnet.report.page import CSS

EACH = 2
"""Drives of each shipped data sheet."""
SLOS = {
    "oltp": Slo("read_latency_p99_us", bound=600.0),
    "key-value": Slo("read_latency_p99_us", bound=700.0),
    "web": Slo("read_latency_p95_us", degradation_percent=120.0),
    "log-writer": Slo("write_latency_p99_us", bound=500.0),
    "analytics": Slo("read_bandwidth_mean", degradation_percent=10.0),
    "video": Slo("read_bandwidth_mean", degradation_percent=5.0),
}
"""What tenants of a profile are promised; the others take what is left."""
LOUD = 1.2
"""How much busier than the shipped profile the newcomer is."""
NOTE = """Profiles are declared and drives are their data sheets: round figures, not measurements. The interference
model is the queue that a data sheet describes, with wide intervals. What comes next: docs/guide/place-service.md."""


@dataclass(frozen=True)
class Demo:
    """What the demo did."""

    allocator: Allocator
    refused: list[str]
    crowded: WhatIf
    """A loud newcomer, asked about the drive where it would harm most."""
    chosen: WhatIf
    """The same newcomer where placement would put it."""
    advice: Advice


def run(tenants: int, seed: int) -> Demo:
    """Place tenants with shipped profiles on six drives, then ask about a loud one."""
    chance = np.random.default_rng(seed)
    allocator = Allocator(Cluster(), SheetModel(), Settings(policy="best-fit"))
    specs = []
    for drive, capacity in drives():
        short = drive.model.split()[0].lower()
        specs += [DriveSpec(Drive(f"{short}-{i}", drive.model, drive.sheet), capacity) for i in range(EACH)]
    allocator.add_drives(specs)
    known = profiles()
    refused = []
    for index in range(tenants):
        profile = known[index % len(known)]
        slo = SLOS.get(profile.name)
        size = int(chance.integers(20, 160)) * 10**9
        tenant = Tenant(f"{profile.name}-{index // len(known)}", size, profile, () if slo is None else (slo,))
        if allocator.place(tenant).drive is None:
            refused.append(tenant.id)
    loud = next(profile for profile in known if profile.name == "backup")
    scaled = {k: v * LOUD if "rate" in k or "bandwidth" in k else v for k, v in loud.features.items()}
    newcomer = Tenant("backup-all", 0, Profile("backup-all", scaled))
    asked = [what_if(allocator, newcomer, spec.drive.name) for spec in specs]
    # A drive that could do the work, if there is one: that it harms its tenants is then the only objection.
    crowded = max(asked, key=lambda one: (not one.reasons, sum(e.broken for e in one.effects), _worst(one)))
    return Demo(allocator, refused, crowded, what_if(allocator, newcomer), rebalance(allocator))


def _worst(answer: WhatIf) -> float:
    return max((one.change_percent for one in answer.effects), default=0.0)


def page(demo: Demo) -> str:
    """The demo as one HTML file."""
    from linnet.place.whatif_figure import draw, draw_cluster  # noqa: PLC0415

    cluster = demo.allocator.cluster
    used = cluster.drives_used
    moves = "".join(
        f"<tr><td>{escape(m.tenant)}</td><td>{escape(m.source)}</td><td>{escape(m.target)}</td>"
        f"<td>{escape(m.reason)}</td></tr>"
        for m in demo.advice.moves
    )
    advice = (
        f"<table><tr><th>tenant</th><th>from</th><th>to</th><th>why</th></tr>{moves}</table>"
        if moves
        else "<p>No move would mend a promise or empty a drive.</p>"
    )
    refused = f"<p>No drive could take {escape(', '.join(demo.refused))}.</p>" if demo.refused else ""
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Linnet place: demo</title><style>{CSS}</style></head><body>
<h1>Who may share a drive with whom?</h1>
<p class="lead">{cluster.placed} tenants were placed on {used} of {len(cluster)} drives so that, as the model predicts,
no promise to any of them is broken.</p>
<p class="quiet">{escape(NOTE)}</p>{refused}
<h2>Where the tenants are</h2><figure>{draw_cluster(demo.allocator)}</figure>
<h2>Who would suffer</h2>
<p>A backup of everything, {LOUD:g} times as busy as the others, asks for room.
The dot moves from white to coloured; the band is the 90 % interval, the black mark what was promised.</p>
<figure>{draw(demo.crowded)}</figure><pre>{escape(demo.crowded.text())}</pre>
<h2>Where it would go instead</h2>
<figure>{draw(demo.chosen)}</figure><pre>{escape(demo.chosen.text())}</pre>
<h2>Who should move</h2>{advice}
</body></html>
"""
