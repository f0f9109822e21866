#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The guest's part of cases/tune-nfs-figures.sh: nfs-figures-guest.sh [OPTION of nfs_figures.py...]
set -euo pipefail
. tests/vm/lib.sh
mkdir -p "$MNT"
. tests/vm/nfs.sh
nfs_up 160
.venv/bin/python tests/vm/nfs_figures.py "$VMLAB_OUT" "$@"
