#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# What the target adds to a read of null_blk, beside what device-mapper itself adds (dm-linear), inside the machine:
# overhead.sh READS REPEATS UNIT. Prints a table; asserts that the reads went where they should, and no time.
set -euo pipefail
. tests/vm/lib.sh
reads=$1 repeats=$2 unit=$3
modprobe null_blk nr_devices=3 gb=1 queue_mode=2 irqmode=0 submit_queues=2
load_module
python3 tests/vm/make_model.py busy:60 /run/m.linnet
python3 tests/vm/make_model.py linnos:1 /run/n.linnet
model m.linnet /run/m.linnet
model n.linnet /run/n.linnet
size=$(sectors /dev/nullb0)
three="linnet 3 /dev/nullb0 0 /dev/nullb1 0 /dev/nullb2 0"
dmsetup create linear --table "0 $size linear /dev/nullb0 0"
dmsetup create one --table "0 $size linnet 1 /dev/nullb0 0 2 policy baseline"
dmsetup create ewma --readonly --table "0 $size $three 2 policy ewma-inflight"
dmsetup create best --readonly --table "0 $size $three 4 policy linnet-best model m.linnet"
dmsetup create linnos --readonly --table "0 $size $three 4 policy linnos model n.linnet"
expect "model of best" "$(status best model)" loaded
expect "model of linnos" "$(status linnos model)" loaded
devices="/dev/nullb0 /dev/mapper/linear /dev/mapper/one /dev/mapper/ewma /dev/mapper/best /dev/mapper/linnos"
echo "kernel $(uname -r), $reads reads of 4 KiB at a time, $unit; median (least) of each repeat"
for ((i = 0; i < repeats; i++)); do
	"$TOOLS/readcost" "$reads" $devices | awk -v i=$i '{ sub(".*/", "", $1); printf "%s%s %d (%d)", (NR > 1 ? "  " : "repeat " i ": "), $1, $2, $3 } END { print "" }'
done
for name in one ewma best linnos; do expect_some "reads through $name" "$(status $name reads)"; done
expect_some "decisions of best" "$(status best decisions)"
