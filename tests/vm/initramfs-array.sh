#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# In the machine, for the case boot-initramfs: a plain array of both drives that holds IMAGE. initramfs-array.sh UUID IMAGE
set -euo pipefail
. tests/vm/lib.sh
modprobe raid1
# The drives are equal: nothing was ever written to them.
mdadm --quiet --create /dev/md0 --run --level 1 --metadata 1.2 --uuid "$1" --bitmap internal --assume-clean \
	--raid-devices 2 "$(drive 0)" "$(drive 1)"
dd if="$2" of=/dev/md0 bs=1M oflag=direct conv=fsync status=none
mdadm --quiet --stop /dev/md0
