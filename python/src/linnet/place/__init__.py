# SPDX-License-Identifier: MIT OR Apache-2.0
"""Placement: which drive takes a tenant without breaking an SLO of those that it would share the drive with."""
