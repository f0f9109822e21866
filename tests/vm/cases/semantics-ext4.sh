# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests files on ext4 over a revoking device: what reaches the target and what the application sees.
# vm: nvme=3:512M timeout=400
. tests/vm/semantics.sh

fs_case ext4 EAGAIN mkfs.ext4 -q -F
