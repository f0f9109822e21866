#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Helpers of the cases of linnet_tune, after lib.sh.

DEBUG=/sys/kernel/debug/linnet_tune
PARAMETERS=/sys/module/linnet_tune/parameters

# tune_disk [DEVICE]: a file system on a device, the first drive without one, at $MNT, with the kernel's default readahead.
tune_disk() {
	local device=${1:-$(drive 0)}
	modprobe ext4
	mkfs.ext4 -q -F "$device"
	mkdir -p "$MNT"
	mount "$device" "$MNT"
	blockdev --setra 256 "$device"
}
# tune_module [PARAMETER=VALUE...]: loads the module; without devices= it tunes the first drive alone.
tune_module() {
	[ -e "$MODULES/tune/linnet-tune.ko" ] || skip "no $MODULES/tune/linnet-tune.ko"
	case " $* " in *" devices="*) ;; *) set -- "$@" "devices=$(drive 0)" ;; esac
	insmod "$MODULES/tune/linnet-tune.ko" "$@"
}
# tune_file NAME MEBIBYTES: a file on the drive, not in memory.
tune_file() {
	head -c "$2M" /dev/urandom >"$MNT/$1"
	sync
	echo 1 >/proc/sys/vm/drop_caches
}
# reads NAME STEP...: filereads on a file of the drive.
reads() { local name=$1; shift; "$TOOLS/filereads" "$MNT/$name" "$@"; }
# counter NAME: a counter of the module. target NAME: the value in KiB that a file has been given, 0 without one.
counter() { awk -v n="$1" '$1 == n {print $2}' $DEBUG/status; }
target() { awk -v n="$1" '$NF == n {print $6; there = 1} END {if (!there) print "unseen"}' $DEBUG/files; }
reading() { awk -v n="$1" '$NF == n {print $4}' $DEBUG/files; }
# background NAME STEP...: reads in the background; its output goes to /run/out.NAME. answer NAME: the last line of it.
# $! is the reader itself.
background() { "$TOOLS/filereads" "$MNT/$1" "${@:2}" >"/run/out.$1" & }
answer() { tail -n 1 "/run/out.$1"; }
# decided NAME KIB: waits until the file has been given this value, and until the reader that repeats reads until
# /run/go.NAME and then does done:/run/paused.NAME has paused. A reader that read once might leave too little in one
# window where the machine is slow.
decided() {
	comes_to "the value of $1" "$2" target "$1"
	touch "/run/go.$1"
	comes_to "the pause of the reader of $1" yes exists "/run/paused.$1"
}
# exists PATH: yes or no.
exists() { if [ -e "$1" ]; then echo yes; else echo no; fi; }
