# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet study``: the experiments behind the published results; and ``linnet bench``."""
