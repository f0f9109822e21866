#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The part of effect.sh inside the machine: effect-guest.sh MODULES SECONDS SCALE FILESYSTEMS PRESET
#
# The first 2 GiB of each drive hold the replicas: a window for the raw device and one for each file system. The third
# GiB is written to all the time, straight to the drive, so that it has garbage to collect.
set -euo pipefail
export MODULES=$1
seconds=$2 scale=$3 filesystems=$4 preset=$5
. tests/vm/lib.sh
load=$PWD/build/lib/linnet-load
results=$VMLAB_OUT/results.jsonl
window=$((320 << 11)) # sectors
rate=$((750 / scale)) writes=$((75 / scale))
log_mark effect
load_module
mkdir -p "$MNT" "$FIRMWARE"

# Three modelled drives, as /dev/vmlab/nvme0 to 2 for the helpers.
drives() {
	local k i
	sleep infinity | target/release/examples/serve_ssd /run/drives.sock "$preset" 3 "$scale" >"$VMLAB_OUT/served.json" &
	for ((i = 0; i < 3000; i++)); do [ ! -S /run/drives.sock ] || break; sleep 0.1; done
	modprobe nbd
	mkdir -p /dev/vmlab
	for k in 0 1 2; do
		nbd-client -unix /run/drives.sock -N "ssd$k" "/dev/nbd$k" >/run/nbd.log 2>&1 || { cat /run/nbd.log; exit 1; }
		echo none >"/sys/block/nbd$k/queue/scheduler"
		ln -sfn "../nbd$k" "/dev/vmlab/nvme$k"
	done
}
writers() {
	local k
	for k in 0 1 2; do
		fio --name=w$k --filename="$(drive $k)" --offset=2G --size=1G --rw=randwrite --bs=64k --ioengine=libaio --iodepth=64 \
			--direct=1 --rate_iops=$writes --rate_process=poisson --time_based --runtime=36000 --randseed=$((k + 1)) \
			--output=/run/writer$k &
	done
}
# at INDEX: the windows' place.
at() { echo $(($1 * window)); }
# steered NAME INDEX ARGUMENT...: the three replicas of a window.
steered() {
	local name=$1 at
	at=$(at "$2")
	shift 2
	dmsetup create "$name" --readonly --table \
		"0 $window linnet 3 $(drive 0) $at $(drive 1) $at $(drive 2) $at $# $*"
}
# one NAME DRIVE INDEX ARGUMENT...: one replica of a window.
one() {
	local name=$1 k=$2 at
	at=$(at "$3")
	shift 3
	dmsetup create "$name" --readonly --table "0 $window linnet 1 $(drive "$k") $at $# $*"
}
# measure WHERE POLICY LINNET-LOAD'S ARGUMENTS...
measure() {
	local where=$1 policy=$2
	shift 2
	"$load" --rate "$rate" --seconds "$seconds" --warmup 200 --seed 7 --depth 512 --span $((96 << 20)) --json "$@" >/run/result ||
		{ cat /run/result; echo "$where $policy: reads have failed"; }
	sed "s/^{/{\"where\": \"$where\", \"policy\": \"$policy\", /" /run/result >>"$results"
	tail -n 1 "$results" | cut -c1-230
}

drives
writers
sleep 10

# ---- record: each replica by itself, as the baseline would have it ----
for k in 0 1 2; do one "t$k" $k 0; done
tracing=$(dirname "$(ls -d /sys/kernel/tracing/trace)")
echo 16384 >"$tracing/buffer_size_kb"
echo 1 >"$tracing/events/linnet/linnet_io/enable"
for k in 0 1 2; do
	"$load" --mode primary --rate "$rate" --seconds $seconds --seed $((k + 1)) --depth 512 --span $((96 << 20)) --json \
		"/dev/mapper/t$k" >"$VMLAB_OUT/record$k.json" &
	loads[k]=$!
done
wait "${loads[@]}"
echo 0 >"$tracing/events/linnet/linnet_io/enable"
for k in 0 1 2; do
	minor=$(dmsetup info -c --noheadings -o minor "t$k")
	grep -a "linnet_io: dev=[0-9]*:$minor " "$tracing/trace" >"$VMLAB_OUT/leg$k.txt"
	dmsetup remove "t$k"
done
wc -l "$VMLAB_OUT"/leg?.txt
touch "$VMLAB_OUT/recorded"
pkill -STOP -x fio # or the drives would be written for hours: waiting costs no time here
while [ ! -e "$VMLAB_OUT/fitted" ]; do sleep 2; done
pkill -CONT -x fio
sleep 5
[ ! -e "$VMLAB_OUT/fit.failed" ] || fail "no model: $(cat "$VMLAB_OUT/fit.log")"
cp "$VMLAB_OUT/m.linnet" "$FIRMWARE/m.linnet"

# ---- the raw device ----
steered s 0 model m.linnet
for k in 0 1 2; do one "p$k" $k 0 policy baseline; done
measure raw primary --mode primary /dev/mapper/p0
p95=$(python3 -c "import json; print(int(json.loads(open('$results').readlines()[-1])['p95_us']))")
for policy in linnet-best linnos shortest-queue ewma-inflight; do
	message s policy $policy
	measure raw $policy --mode primary /dev/mapper/s
done
measure raw hedge-p95 --mode hedge --hedge-us "$p95" /dev/mapper/p0 /dev/mapper/p1 /dev/mapper/p2
for k in 0 1 2; do
	dmsetup remove "p$k"
	one "p$k" $k 0 model m.linnet revoke policy linnos
done
measure raw revoke-linnos --mode failover /dev/mapper/p0 /dev/mapper/p1 /dev/mapper/p2
for k in 0 1 2; do message "p$k" policy linnet-best; done
measure raw revoke-linnet --mode failover /dev/mapper/p0 /dev/mapper/p1 /dev/mapper/p2
# Once more the first one: whatever has changed meanwhile shows here.
for k in 0 1 2; do dmsetup remove "p$k"; done
one p0 0 0 policy baseline
measure raw primary-again --mode primary /dev/mapper/p0
dmsetup status s
dmsetup remove p0
dmsetup remove s

# ---- files ----
index=0 seconds=$((seconds / 2))
for type in $filesystems; do
	index=$((index + 1))
	modprobe "$type"
	dmsetup create rw --table "0 $window linear $(drive 0) $(at $index)"
	force=-F
	case $type in xfs | btrfs | f2fs) force=-f ;; esac
	mkfs."$type" -q $force /dev/mapper/rw >/run/mkfs.log 2>&1 || { cat /run/mkfs.log; continue; }
	mount -t "$type" /dev/mapper/rw "$MNT"
	dd if=/dev/urandom of="$MNT/file" bs=1M count=97 status=none
	umount "$MNT"
	for k in 1 2; do
		dd if=/dev/mapper/rw of="$(drive $k)" bs=1M seek=$(($(at $index) >> 11)) iflag=direct conv=sparse status=none
	done
	sync
	dmsetup remove rw
	steered s $index model m.linnet policy baseline
	options=ro
	[ "$type" != ext4 ] || options=ro,noload
	[ "$type" != xfs ] || options=ro,norecovery,nouuid
	mount -t "$type" -o $options /dev/mapper/s "$MNT"
	measure "$type" primary --mode primary "$MNT/file"
	for policy in linnos linnet-best; do
		message s policy $policy
		measure "$type" $policy --mode primary "$MNT/file"
	done
	umount "$MNT"
	dmsetup remove s
done
log_check
pkill -x fio || true
pkill -x sleep || true
sleep 3
