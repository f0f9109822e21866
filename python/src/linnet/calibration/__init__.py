# SPDX-License-Identifier: MIT OR Apache-2.0
"""Calibration of the SSD model: read the measurements of a drive, fit the parameters, compare latency under load."""
