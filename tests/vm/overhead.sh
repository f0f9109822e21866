#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Measures what the target adds to a read of null_blk, compared with device-mapper itself (dm-linear), inside the
# machine. Both commands assert where the reads went, but no times.
#
#   overhead.sh cost READS REPEATS UNIT   one read at a time, 100 per device in turn (src/readcost.c); prints a table
#   overhead.sh time ROUNDS READS         fio's clat, devices in a new random order in each round, on null_blk that
#                                         answers at once and after 10 and 100 us. Writes $VMLAB_OUT/<drive>.json for
#                                         overhead_time.py
set -euo pipefail
. tests/vm/lib.sh
load_module
python3 tests/vm/make_model.py busy:60 /run/m.linnet
python3 tests/vm/make_model.py linnos:1 /run/n.linnet
model m.linnet /run/m.linnet
model n.linnet /run/n.linnet

# devices_on [PARAMETER=VALUE...]: creates null_blk with these parameters, and the target on it with each policy.
# `again` is a second dm-linear; its difference from the first one is noise.
devices_on() {
	local size three name
	modprobe null_blk nr_devices=3 gb=1 queue_mode=2 submit_queues=2 "$@"
	size=$(sectors /dev/nullb0)
	three="linnet 3 /dev/nullb0 0 /dev/nullb1 0 /dev/nullb2 0"
	for name in linear again; do dmsetup create $name --table "0 $size linear /dev/nullb0 0"; done
	dmsetup create one --table "0 $size linnet 1 /dev/nullb0 0 2 policy baseline"
	dmsetup create queue --readonly --table "0 $size $three 2 policy shortest-queue"
	dmsetup create ewma --readonly --table "0 $size $three 2 policy ewma-inflight"
	dmsetup create best --readonly --table "0 $size $three 4 policy linnet-best model m.linnet"
	dmsetup create linnos --readonly --table "0 $size $three 4 policy linnos model n.linnet"
	expect "model of best" "$(status best model)" loaded
	expect "model of linnos" "$(status linnos model)" loaded
}
# devices_off: removes them, and checks that each was read.
devices_off() {
	local name
	for name in one queue ewma best linnos; do expect_some "reads through $name" "$(status $name reads)"; done
	expect_some "decisions of best" "$(status best decisions)"
	for name in linear again one queue ewma best linnos; do dmsetup remove $name; done
	modprobe -r null_blk
}

cost() {
	local reads=$1 repeats=$2 unit=$3 devices i
	devices_on irqmode=0
	devices="/dev/nullb0 /dev/mapper/linear /dev/mapper/one /dev/mapper/ewma /dev/mapper/best /dev/mapper/linnos"
	echo "kernel $(uname -r), $reads reads of 4 KiB at a time, $unit; median (least) of each repeat"
	for ((i = 0; i < repeats; i++)); do
		"$TOOLS/readcost" "$reads" $devices | awk -v i=$i '{ sub(".*/", "", $1); printf "%s%s %d (%d)", (NR > 1 ? "  " : "repeat " i ": "), $1, $2, $3 } END { print "" }'
	done
	dd if=/dev/mapper/queue of=/dev/null bs=4k count=1 iflag=direct status=none
	devices_off
}

# rounds DRIVE ROUNDS READS: one fio run whose jobs, named `round.device`, run one after the other. The first round is a
# warm-up.
rounds() {
	local drive=$1 rounds=$2 reads=$3 round name path order jobs=()
	for ((round = 0; round <= rounds; round++)); do
		RANDOM=$((${SEED:-1} * 1009 + round * 31 + ${#drive}))
		order=()
		for name in nullb0 linear again one queue ewma best linnos; do order+=("$RANDOM $name"); done
		for name in $(printf '%s\n' "${order[@]}" | sort -n | cut -d' ' -f2); do
			path=/dev/mapper/$name
			[ "$name" != nullb0 ] || path=/dev/nullb0
			jobs+=(--name="$round.$name" --filename="$path" --stonewall)
		done
	done
	fio --ioengine=psync --direct=1 --rw=randread --bs=4k --thread --number_ios="$reads" --norandommap --clocksource=clock_gettime \
		--cpus_allowed=0 --group_reporting=0 --output-format=json --output="$VMLAB_OUT/$drive.json" "${jobs[@]}"
}

measure_time() {
	rm -f "$VMLAB_OUT"/*.json
	devices_on irqmode=0
	rounds at-once "$@"
	devices_off
	local ns
	for ns in 10000 100000; do
		devices_on irqmode=2 completion_nsec=$ns
		rounds $((ns / 1000))us "$@"
		devices_off
	done
}

what=$1
shift
case $what in
cost) cost "$@" ;;
time) measure_time "$@" ;;
*) fail "overhead.sh cost or time, not $what" ;;
esac
