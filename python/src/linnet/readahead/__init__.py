# SPDX-License-Identifier: MIT OR Apache-2.0
"""Learns which readahead suits which way of reading, on the operator's own device: ``linnet tune calibrate``."""
