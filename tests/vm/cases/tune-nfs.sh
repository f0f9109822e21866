# SPDX-License-Identifier: MIT OR Apache-2.0
# `linnet tune nfs` on a kernel server in a namespace of its own: each value for its reason, others win, all is put back.
# vm: nvme=1:16M timeout=3000 mem=3072 alone
. tests/vm/lib.sh
. tests/vm/nfs.sh
[ -x .venv/bin/linnet ] || skip "no .venv/bin/linnet (make build)"

nfs_up 160
nfs_delay 5000
nfs_mount fast rsize=65536
.venv/bin/python tests/vm/nfs_check.py "$MNT/client" ${SHOW:-}
