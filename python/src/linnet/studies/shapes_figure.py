# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figure: the accuracy of networks against their cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from linnet.report.figures import blank, svg

BUILDS = {"avx512": "AVX-512", "avx2": "AVX2", "portable": "no vectors", "kernel-flags": "kernel flags"}


def shapes_svg(mean: dict[str, dict[str, float]], costs: Sequence[dict[str, Any]]) -> str:
    """Mean ROC-AUC over nanoseconds of a submit, one panel for the fastest build and one without vectors."""
    known = {cost["shape"]: cost["ns"] for cost in costs}
    shown = [build for build in ("avx512", "avx2", "portable") if any(build in ns for ns in known.values())]
    shown = [shown[0], *(["portable"] if "portable" in shown[1:] else [])]
    figure = blank(8.2, 3.8)
    panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axes, build in zip(panels, shown, strict=True):
        for name, figures in mean.items():
            ns = known.get(name, {}).get(build)
            if ns is None:
                continue
            colour = "#b10026" if name == "linnet" else "#d95f02" if name == "linnos" else "#1f78b4"
            axes.plot(ns["submit"], figures["roc_auc"], "o", color=colour, markersize=6)
            place = (5, -11) if name.startswith("31-") else (5, 4)
            axes.annotate(name, (ns["submit"], figures["roc_auc"]), place, textcoords="offset points", fontsize=8)
            if abs(ns.get("network", ns["submit"]) / ns["submit"] - 1) > 0.3:
                axes.plot(ns["network"], figures["roc_auc"], "o", color=colour, markersize=5, fillstyle="none")
                ends = [ns["submit"], ns["network"]]
                axes.plot(ends, [figures["roc_auc"]] * 2, color=colour, linewidth=0.8, linestyle=":")
        axes.set_xscale("log")
        axes.set_title(BUILDS[build], fontsize=9)
        axes.set_xlabel("ns of a submit (hollow: the whole network)")
    panels[0].set_ylabel("ROC-AUC, mean of the traces")
    return svg(figure)
