# SPDX-License-Identifier: MIT OR Apache-2.0
"""Placement as a service: state in SQLite, one writer, an HTTP interface. Needs the extra ``linnet[serve]``."""
