# SPDX-License-Identifier: MIT OR Apache-2.0
"""KML's readahead tuner (Akgun et al., "Improving Storage Systems Using Machine Learning"), re-implemented as a rival.

Its features, its network (5-15-5-4) and its values (8, 8, 320 and 480 KiB). Ours are the places where theirs cannot be
used today: events come from tracepoints of a stock kernel instead of hooks in 4.19, z-scores are those of training
instead of moments that drift, and open files are set from outside their process instead of by a patched fault path.
"""
