# SPDX-License-Identifier: MIT OR Apache-2.0
"""The report page: text, tables and figures in one self-contained HTML file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from linnet._native import __commit__, __version__
from linnet.experiment import borrowings
from linnet.extras import advice
from linnet.report import figures
from linnet.report.section import Section
from linnet.verdict import false_share

CSS = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; max-width: 1180px; margin: 2rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; }
h2 { font-size: 1.2rem; margin-top: 2.6rem; border-top: 1px solid #ddd; padding-top: 1.2rem; }
h3 { font-size: .95rem; margin: 1rem 0 .3rem; }
nav a { margin-right: 1rem; }
figure { margin: 0; }
svg { width: 100%; height: auto; }
pre { background: #f6f6f6; padding: .7rem; overflow-x: auto; font-size: .8rem; }
.lead { font-size: 1.02rem; max-width: 60em; }
.quiet { color: #666; font-size: .88rem; }
.pair { display: flex; flex-wrap: wrap; gap: 1.2rem; }
.pair > figure { flex: 1 1 480px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; }
th, td { padding: .22rem .6rem; text-align: right; border-bottom: 1px solid #eee; white-space: nowrap; }
th { color: #555; font-weight: 600; }
th:first-child, td:first-child { text-align: left; }
tr.limit td { color: #777; font-style: italic; }
tr.best td { background: #fdf1ec; }
"""

NOTE = """Latencies come from the SSD model in virtual time, not from a drive. Models are trained on one period of each
trace; models and policies are tested on another. The row of the lowest mean, the oracle aside, is shaded. The oracle
knows what every replica would answer and takes the one that answers first. It ignores the effect on later reads, so it
is a practical limit and not a bound: policies that send reads twice (clone, hedges) may beat it."""

NO_FIGURES = f"matplotlib is not installed; {advice('report')}"
"""Why a page has only tables."""


def render(sections: Sequence[Section], title: str, lead: str | None = None, pictures: bool = True) -> str:
    """The page as HTML text: for each experiment the tail, the averages, policies, models and parameters.

    Without ``pictures`` it has only the tables and says why; then it does not need ``linnet[report]``.
    """
    links = "".join(f'<a href="#s{i}">{escape(s.title)}</a>' for i, s in enumerate(sections))
    body = "\n".join(_section(i, s, pictures) for i, s in enumerate(sections))
    lacking = "" if pictures else f'<p class="quiet">Without figures: {escape(NO_FIGURES)}</p>'
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(title)}</title><style>{CSS}</style></head><body>
<h1>{escape(title)}</h1>
{f'<p class="lead">{escape(lead)}</p>' if lead else ""}
<p class="quiet">linnet {escape(__version__)}, engine commit {escape(__commit__)}. {NOTE}</p>
{lacking}<nav>{links}</nav>
{body}
</body></html>
"""


def _section(index: int, section: Section, pictures: bool) -> str:
    parts = [f'<h2 id="s{index}">{escape(section.title)}</h2>']
    if pictures:
        parts += [
            '<div class="pair">',
            f"<figure><h3>Read latency from p80 up</h3>{figures.tail(section)}</figure>",
            f"<figure><h3>Mean read latency</h3>{figures.averages(section)}</figure>",
            "</div>",
        ]
    parts += ["<h3>Policies</h3>", _policies(section.rows)]
    if section.models:
        parts += ["<h3>Accuracy on the held-out part</h3>", _accuracy(section.own)]
        parts += [f"<p>Note: {sentence}.</p>" for sentence in borrowings(section.models)]
    if section.models and pictures:
        parts += ["<h3>Inflection points</h3>", f"<figure>{figures.inflections(section)}</figure>"]
    parameters = escape(json.dumps(section.parameters, indent=2))
    parts.append(f"<details><summary>Parameters and seed</summary><pre>{parameters}</pre></details>")
    return "\n".join(parts)


def _table(columns: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    head = "".join(f"<th>{escape(c)}</th>" for c in columns)
    lines = (
        f'<tr class="{kind}">' + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>" for kind, cells in rows
    )
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def _policies(rows: Sequence[dict[str, Any]]) -> str:
    columns = [
        "policy",
        "mean µs",
        "p50",
        "p95",
        "p99",
        "p99.9",
        "p99.99",
        "extra I/O",
        "revokes a read",
        "forced",
        "false submit",
        "of revokes false",
    ]
    real = [row["mean_us"] for row in rows if row["policy"] != "oracle"]
    lines = []
    for row in rows:
        reads = max(1, row["reads"])
        kind = "limit" if row["policy"] == "oracle" else "best" if row["mean_us"] == min(real) else ""
        latencies = [f"{row[k]:,.0f}" for k in ("mean_us", "p50_us", "p95_us", "p99_us", "p999_us", "p9999_us")]
        counted = [
            _percent(row["extra_io_share"]),
            f"{row['revokes'] / reads:.3f}",
            _percent(row["forced_submits"] / reads),
            _percent(row["false_submit"]),
            _percent(false_share(row)),
        ]
        lines.append((kind, [row["policy"], *latencies, *counted]))
    return _table(columns, lines)


def _accuracy(models: Mapping[int, dict[str, Any]]) -> str:
    columns = [
        "device",
        "model",
        "rows",
        "always fast",
        "accuracy",
        "balanced",
        "ROC-AUC",
        "false submit",
        "false revoke",
    ]
    lines = []
    for device, model in models.items():
        for name, part in (("linnos, biased", "biased"), ("linnos, unbiased", "unbiased"), ("linnet", "linnet")):
            result = model.get(part)
            if result:
                auc = "-" if result["roc_auc"] is None else f"{result['roc_auc']:.3f}"
                rates = [_percent(result[k]) for k in ("base_rate", "accuracy", "balanced_accuracy")]
                errors = [_percent(result[k]) for k in ("false_submit", "false_revoke")]
                lines.append(("", [f"{device}", name, f"{result['rows']:,}", *rates, auc, *errors]))
    return _table(columns, lines)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"
