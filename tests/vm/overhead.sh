#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Measures what the target adds to a read of null_blk, compared with device-mapper itself (dm-linear), inside the
# machine. Both commands assert where the reads went, but no times.
#
#   overhead.sh cost READS REPEATS UNIT   one read at a time, 100 per device in turn (src/readcost.c); prints a table
#   overhead.sh md COUNT                  the same of reads and writes of plain md, and of a volume above md (two legs)
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

# Arrays without superblock and bitmap, so that only the path of the write counts. `plain` is md on two drives; `top` the
# whole stack: the target, md, and its two legs. `linear` has dm-linear in the place of the target and of the legs.
above_md() {
	local count=$1 size k kind
	modprobe null_blk nr_devices=6 gb=1 queue_mode=2 submit_queues=2 irqmode=0
	modprobe raid1
	size=$(sectors /dev/nullb0)
	for k in 0 1; do
		dmsetup create leg$k --table "0 $size linnet-leg /dev/nullb$((k + 2)) 0"
		dmsetup create under$k --table "0 $size linear /dev/nullb$((k + 4)) 0"
	done
	mdadm --build /dev/md1 --level=1 --raid-devices=2 --assume-clean /dev/nullb0 /dev/nullb1
	mdadm --build /dev/md0 --level=1 --raid-devices=2 --assume-clean /dev/mapper/leg0 /dev/mapper/leg1
	mdadm --build /dev/md2 --level=1 --raid-devices=2 --assume-clean /dev/mapper/under0 /dev/mapper/under1
	dmsetup create linear --table "0 $(sectors /dev/md2) linear /dev/md2 0"
	dmsetup create top --table "0 $(sectors /dev/md0) linnet md /dev/md0 2 /dev/mapper/leg0 0 /dev/mapper/leg1 0 2 policy shortest-queue"
	for k in 0 1; do message top trust $k "$(status top generation $k)"; done
	dd if=/dev/zero of=/dev/mapper/top bs=4k count=1 oflag=direct status=none
	echo "kernel $(uname -r), $count of 4 KiB at a time, instructions; median (least)"
	for kind in "" -w; do
		"$TOOLS/readcost" $kind "$count" /dev/nullb0 /dev/md1 /dev/mapper/linear /dev/mapper/top |
			awk -v kind="${kind:+writes}" '{ sub(".*/", "", $1); printf "%s%s %d (%d)", (NR > 1 ? "  " : (kind ? "writes: " : "reads: ")), $1, $2, $3 } END { print "" }'
	done
	for k in 0 1; do expect "leg $k" "$(status top trust $k)" trusted; done
	expect_some "reads past md" "$(status top steered)"
	dmsetup remove top
	dmsetup remove linear
	for k in 0 1 2; do mdadm --stop /dev/md$k; done
	for k in 0 1; do dmsetup remove leg$k && dmsetup remove under$k; done
	modprobe -r null_blk
}

what=$1
shift
case $what in
cost) cost "$@" ;;
md) above_md "$@" ;;
time) measure_time "$@" ;;
*) fail "overhead.sh cost, md or time, not $what" ;;
esac
