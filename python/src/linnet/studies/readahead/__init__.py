# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet study tune``: how well the tuner's features and KML's tell workloads apart, and what each is worth."""
