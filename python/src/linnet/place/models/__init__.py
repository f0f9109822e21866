# SPDX-License-Identifier: MIT OR Apache-2.0
"""Interference models: published ones, a queueing formula, and ours."""
