#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Helpers for cases. A case runs in the repository's root with `set -euo pipefail`; `. tests/vm/lib.sh` comes first.
# $MODULES has the modules for this kernel, $TOOLS the helpers; $MNT is an empty directory.

MNT=/run/vm
TOOLS=$PWD/build/vm
FIRMWARE=/lib/firmware/linnet
NVME=/dev/vmlab/nvme

# Patterns that must never occur in the kernel log.
LOG_BAD='WARNING:|BUG:|BUG |Oops|general protection|hung_task|blocked for more than|rcu.*stall|suspicious RCU|possible (recursive|circular|irq)|inconsistent lock state|KASAN|UBSAN|KCSAN|refcount_t|list_(add|del) corruption|double free|use-after-free|page allocation failure|Call Trace'

set -E
trap 'echo "failed: ${BASH_SOURCE[0]##*/} line $LINENO: $BASH_COMMAND"' ERR

say() { echo "$*"; }
fail() { echo "failed: $*"; exit 1; }
skip() { echo "skipped: $*"; exit 77; }

# expect WHAT GOT WANT: GOT must equal WANT.
expect() { [ "$2" = "$3" ] || fail "$1: got '$2', want '$3'"; }
# expect_some WHAT GOT: GOT must be above zero.
expect_some() { [ "$2" -gt 0 ] || fail "$1: got '$2', want more than 0"; }
# expect_like WHAT GOT PATTERN: GOT must match an extended regular expression.
expect_like() { [[ $2 =~ $3 ]] || fail "$1: got '$2', want something like '$3'"; }
# comes_to WHAT WANT COMMAND...: waits until the command prints WANT.
comes_to() {
	local what=$1 want=$2 try got
	shift 2
	for try in {1..300}; do
		got=$("$@")
		[ "$got" != "$want" ] || return 0
		sleep 0.1
	done
	fail "$what: $got, not $want"
}
# refuses COMMAND...: the command must fail. Prints its output.
refuses() { if "$@" 2>&1; then fail "should have been refused: $*"; fi; }

log_mark() { export LOG_MARK="vm-case $1 $RANDOM$RANDOM"; echo "$LOG_MARK" >/dev/kmsg; }
# What the kernel logged since the mark, which may be the first line of the log.
log_since() { dmesg | sed "0,/${LOG_MARK:?}/d"; }
# A log without KCSAN's reports of which neither access is in a module of ours: drivers/md has races of its own.
without_races_of_others() {
	awk '
		/BUG: KCSAN: / { report = 1; kept = 0; text = "" }
		!report { print; next }
		{ text = text $0 "\n" }
		accessed { kept = kept || /\[(dm_linnet|linnet_)/; accessed = 0 }
		/ (read|write|access|read-write|assert).* (to|of) 0x.* by (task|interrupt)/ { accessed = 1 }
		/=====/ { if (kept) printf "%s", text; report = 0 }
		END { if (report && kept) printf "%s", text }'
}
log_check() {
	# No pipes: with `pipefail`, a long log would break one, and a bad log would pass as clean.
	local log
	log=$(dmesg)
	if ! grep -q "${LOG_MARK:?}" <<<"$log"; then
		echo "failed: the kernel logged so much that the beginning of this case is lost"
		return 1
	fi
	log=$(sed "0,/$LOG_MARK/d" <<<"$log" | without_races_of_others)
	if grep -qE "$LOG_BAD" <<<"$log"; then
		echo "failed: the kernel logged:"
		tail -n 60 <<<"$log"
		return 1
	fi
}
# found FAULT PATTERN: causes a fault of a debug kernel; the report must match PATTERN, and the search after every case must
# find it.
found() {
	local faults=$MODULES/kunit/linnet-faults.ko
	[ -e "$faults" ] || skip "no $faults"
	log_mark "$1"
	log_check || fail "there is something in the log before $1"
	insmod "$faults" fault="$1"
	rmmod linnet_faults
	expect_like "the report of $1" "$(log_since)" "$2"
	if (log_check) >/dev/null; then fail "the report of $1 was not found"; fi
	echo "$1: $(log_since | grep -m 1 -oE "$2")"
}
# Shows blocked tasks, and the requests that the drives' queues and the devices above still hold.
show_stuck() {
	local queue
	echo w >/proc/sysrq-trigger
	dmesg | tail -n 120
	timeout 10 dmsetup status
	mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
	for queue in /sys/kernel/debug/block/nvme*; do
		echo "${queue##*/}, in flight $(tr -s ' ' <"/sys/block/${queue##*/}/inflight"): $(cat "$queue/state")"
		timeout 10 grep -H . "$queue"/{requeue_list,hctx*/{busy,dispatch,state}} | sed "s|$queue/|  |"
	done
}

# load_module [PARAMETER=VALUE...]: loads the module under test; skips the case if it was not built.
load_module() {
	[ -e "$MODULES/dm-linnet.ko" ] || skip "no $MODULES/dm-linnet.ko"
	modprobe dm-mod
	insmod "$MODULES/dm-linnet.ko" "$@"
}
unload_module() { rmmod dm_linnet; }

# install_module FILE: makes modprobe find it. depmod over all of the kernel's modules takes minutes in an emulated
# machine, so the machine gets a tree with only this module and those of drivers/md.
install_module() {
	local release tree
	release=$(uname -r)
	tree=/run/modules/lib/modules/$release
	mkdir -p "$tree/kernel/drivers/md" "$tree/updates/dkms"
	find "/lib/modules/$release/kernel/drivers/md" -regex '.*/\(dm-mod\|md-mod\|raid1\)\.ko.*' -exec cp -t "$tree/kernel/drivers/md" {} +
	cp "/lib/modules/$release"/modules.{order,builtin}* "$tree/"
	cp "$1" "$tree/updates/dkms/"
	depmod -b /run/modules "$release"
	mount --bind "$tree" "/lib/modules/$release"
}

# drive K: the path of drive K. sectors DEVICE: its size in sectors.
drive() { readlink -f "$NVME$1"; }
sectors() { blockdev --getsz "$1"; }

# table REPLICAS [ARGUMENT...]: the table line over the first REPLICAS drives.
table() {
	local n=$1 k line
	shift
	line="0 $(sectors "$(drive 0)") linnet $n"
	for ((k = 0; k < n; k++)); do line+=" $(drive "$k") 0"; done
	echo "$line $# $*"
}
# device NAME REPLICAS [ARGUMENT...]: creates /dev/mapper/NAME; read-only if the target requires it.
device() {
	local name=$1 n=$2 ro=--readonly
	shift
	[ "$n" != 1 ] || ro=
	dmsetup create "$name" $ro --table "$(table "$@")"
}
# message NAME WORD...
message() { "$TOOLS/dmctl" message "$@"; }
# status NAME KEY: a value of the status line. status NAME KEY K: that of replica K.
status() { "$TOOLS/dmctl" value "$@"; }

# stop_fio PID REPORT: ends fio early; none of its I/Os may have failed.
stop_fio() {
	kill -INT "$1"
	wait "$1" || true # it exits with a failure when stopped
	expect_like "what fio says" "$(cat "$2")" "err= 0"
}

# model NAME FILE: installs FILE as firmware linnet/NAME.
model() { mkdir -p "$FIRMWARE"; cp "$2" "$FIRMWARE/$1"; }
# pull K: removes a drive from the bus.
pull() { echo 1 >"/sys/block/$(basename "$(drive "$1")")/device/device/remove"; }
# fill DEVICE [MEBIBYTES]: writes fixed data that differs in every block and is the same on each drive.
fill() {
	head -c "${2:-32}M" /dev/zero | openssl enc -aes-128-ctr -K 00 -iv 00 -nosalt 2>/dev/null |
		dd of="$1" bs=1M iflag=fullblock oflag=direct status=none
}
sum_of() { dd if="$1" bs=1M count="${2:-32}" iflag=direct status=none | sha256sum | cut -d' ' -f1; }

# Removes what a case may have left: mounts, devices, modules. Fails if something remains.
clean_up() {
	local m try
	jobs -p | xargs -r kill 2>/dev/null
	# A process that waits for a suspended device cannot be killed.
	dmsetup info -c --noheadings --separator ' ' -o name,suspended 2>/dev/null |
		while read -r m try; do [ "$try" != Suspended ] || dmsetup resume "$m"; done
	pkill -KILL -x 'fio|ioread|filereads|mdcheck|linnet-load' 2>/dev/null
	[ ! -d /sys/module/linnet_tune ] || rmmod linnet_tune 2>/dev/null
	for try in 1 2 3 4 5; do
		exportfs -ua 2>/dev/null
		for m in $(awk -v at="$MNT" 'index($2, at) == 1 {print $2}' /proc/mounts | sort -r); do umount "$m" 2>/dev/null; done
		# Volumes before the arrays that they hold, and arrays before their legs.
		dmsetup remove $(dmsetup ls --target linnet 2>/dev/null | grep -v 'No devices' | cut -f1) 2>/dev/null
		[ ! -e /proc/mdstat ] || mdadm --stop --scan 2>/dev/null
		[ -z "$(dmsetup ls 2>/dev/null | grep -v 'No devices')" ] || dmsetup remove_all 2>/dev/null
		[ ! -d /sys/module/dm_linnet ] || rmmod dm_linnet 2>/dev/null
		[ -d /sys/module/dm_linnet ] || [ -d /sys/module/linnet_tune ] || [ -n "$(dmsetup ls 2>/dev/null | grep -v 'No devices')" ] || { rm -rf "${FIRMWARE:?}"; return 0; }
		sleep 1
	done
	echo "failed: cannot be removed:"
	grep "$MNT" /proc/mounts; dmsetup ls; dmsetup info; lsmod | grep -wE 'dm_linnet|linnet_tune'
	return 1
}
