# SPDX-License-Identifier: MIT OR Apache-2.0
"""The laboratory: studies, published models to compare with, and their figures.

The product does not import this package, except for the command groups ``study`` and ``bench``, which are loaded when
they are called. Most of it needs ``linnet[study]``.
"""
