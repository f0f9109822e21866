# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests files on btrfs over a revoking device: what reaches the target and what the application sees.
# Its own bio layer turns a revoked read into EIO: reads of its files must not be tagged.
# vm: nvme=3:512M timeout=400
. tests/vm/semantics.sh

fs_case btrfs EIO mkfs.btrfs -q -f
