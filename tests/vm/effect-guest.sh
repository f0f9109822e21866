#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The part of effect.sh that runs in the machine:
#   effect-guest.sh MODULES ROUNDS FILE_ROUNDS READS FILE_READS LEARN SCALE RATE WRITES FILESYSTEMS PRESET
#
# The first 2 GiB of each drive hold the replicas: a window for the raw device and one for each file system. The third
# GiB is written continuously, directly on the drive, so that it has garbage to collect.
set -euo pipefail
export MODULES=$1
rounds=$2 file_rounds=$3 reads=$4 file_reads=$5 learn=$6 scale=$7 rate=$8 writes=$9 filesystems=${10} preset=${11}
. tests/vm/lib.sh
. tests/vm/effect-drives.sh
log_mark effect
# The state of a replica expires in the drives' time, not in the machine's.
load_module age_ms=$((10 * scale))
mkdir -p "$MNT" "$FIRMWARE"

# steered NAME INDEX ARGUMENT...: one target on the three replicas of a window.
steered() {
	local name=$1 at
	at=$(at "$2")
	shift 2
	dmsetup create "$name" --readonly --table \
		"0 $window linnet 3 $(drive 0) $at $(drive 1) $at $(drive 2) $at $# $*"
}
# measure WHERE READS POLICY LINNET-LOAD'S ARGUMENTS... Prints a row of results, and logs every read. The counters of
# the steered target show how many reads were the file system's own.
measure() {
	local where=$1 count=$2 policy=$3 before
	shift 3
	before=$(status s reads)
	read_places --rate "$rate" --reads "$count" --warmup 200 "$@"
	keep "$where" "$policy" "\"target_reads\": $(($(status s reads) - before))"
}
# compare WHERE ROUNDS READS "STEERING-POLICY..." "REVOKING-POLICY..." PATH PATH PATH PATH: all policies in turn. The
# first path is steered; the others are its replicas, for an application that hedges, or that tags reads and fails over.
compare() {
	local where=$1 rounds=$2 count=$3 steering=$4 revoking=$5 s=$6 policy
	shift 6
	for ((round = 1; round <= rounds; round++)); do
		message s policy baseline
		measure "$where" "$count" primary --mode primary "$s"
		[ $round != 1 ] || hedge_us=$(grep -oE '"p95_us": [0-9]+' /run/result | grep -oE '[0-9]+$')
		for policy in $steering; do
			message s policy $policy
			measure "$where" "$count" $policy --mode primary "$s"
		done
		each message policy baseline
		each message revoke off
		measure "$where" "$count" hedge-p95 --mode hedge --hedge-us "$hedge_us" "$@"
		each message ioprio 0x5004
		each message revoke on
		for policy in $revoking; do
			each message policy "$policy"
			measure "$where" "$count" "revoke-$policy" --mode failover "$@"
		done
	done
	dmsetup status s
}

drives
writers
sleep 10

learn_model 0

# ---- the raw device ----
mkdir "$VMLAB_OUT/reads"
steered s 0 model m.linnet policy baseline
alone 0 model m.linnet policy baseline
compare raw "$rounds" "$reads" "shortest-queue ewma-inflight linnos linnet-best" "linnos linnet-best" \
	/dev/mapper/s /dev/mapper/p0 /dev/mapper/p1 /dev/mapper/p2
dmsetup remove s
each remove

# ---- files ----
# mounted DEVICE DIRECTORY TYPE: mounts without writing to the device.
mounted() {
	local options=ro
	[ "$3" != ext4 ] || options=ro,noload
	[ "$3" != xfs ] || options=ro,norecovery,nouuid
	mkdir -p "$2"
	mount -t "$3" -o $options "$1" "$2"
}
index=0
for type in $filesystems; do
	index=$((index + 1))
	modprobe "$type"
	dmsetup create rw --table "0 $window linear $(drive 0) $(at $index)"
	case $type in ext4) force="-F -b 4096" ;; xfs | btrfs | f2fs) force=-f ;; esac # otherwise ext4 uses 1 KiB on such a small device
	mkfs."$type" -q $force /dev/mapper/rw >/run/mkfs.log 2>&1 || { cat /run/mkfs.log; dmsetup remove rw; continue; }
	mount -t "$type" /dev/mapper/rw "$MNT"
	dd if=/dev/urandom of="$MNT/file" bs=1M count=97 status=none
	umount "$MNT"
	for k in 1 2; do
		dd if=/dev/mapper/rw of="$(drive $k)" bs=1M seek=$(($(at $index) >> 11)) iflag=direct conv=sparse status=none
	done
	sync
	dmsetup remove rw
	steered s $index model m.linnet policy baseline
	alone $index model m.linnet policy baseline
	for device in s p0 p1 p2; do mounted /dev/mapper/$device "$MNT/$device" "$type"; done
	revoking=linnos
	[ "$type" != btrfs ] || revoking= # its own layer turns a revoke into EIO
	compare "$type" "$file_rounds" "$file_reads" "shortest-queue linnos linnet-best" "$revoking" "$MNT/s/file" "$MNT/p0/file" "$MNT/p1/file" "$MNT/p2/file"
	umount "$MNT"/*
	dmsetup remove s
	each remove
done
log_check
stop_drives
