# SPDX-License-Identifier: MIT OR Apache-2.0
"""One self-contained HTML file for a set of experiments."""

from linnet.report.page import render
from linnet.report.section import Section

__all__ = ["Section", "render"]
