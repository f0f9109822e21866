# SPDX-License-Identifier: MIT OR Apache-2.0
# linnet_tune on btrfs: a snapshot's file is not its origin, although it has the same number, generation and device.
# vm: nvme=2:256M timeout=400
. tests/vm/lib.sh
. tests/vm/tune.sh

modprobe btrfs
mkfs.btrfs -q -f "$(drive 0)"
mkdir -p "$MNT"
mount "$(drive 0)" "$MNT"
btrfs -q subvolume create "$MNT/origin"
tune_file origin/data 32
btrfs -q subvolume snapshot "$MNT/origin" "$MNT/snapshot"
expect "the snapshot's number" "$(stat -c %i "$MNT/snapshot/data")" "$(stat -c %i "$MNT/origin/data")"
rm -f /run/go.* /run/paused.*

# The file system has a device of its own, which the mount shows.
tune_module devices="$(awk -v at="$MNT" '$5 == at {print $3}' /proc/self/mountinfo)"
reads origin/data until:/run/go.data:touch:60:1 done:/run/paused.data >/dev/null &
decided data 8
wait
expect "pages of a fault in the origin" "$(reads origin/data cold fault:4000)" 2
pages=$(reads snapshot/data cold fault:4000)
expect "whether a fault in the snapshot brings more ($pages)" "$((pages > 2))" 1
expect "files that are observed" "$(counter files)" 2
rmmod linnet_tune
