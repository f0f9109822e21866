#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Measures what steering does to read latency: three modelled drives inside a machine whose clock counts instructions,
# so that the load of the host has no influence. A model is trained on a run through the target. Then every policy reads
# the same offsets at the same times, on the raw device and on files. The same drives, load and model also run in
# virtual time, without a machine (crates/study/examples/effect.rs).
#
#   tests/vm/effect.sh [-k KERNEL] [-r ROUNDS] [-R ROUNDS of files] [-n READS] [-m READS of files] [-f "ext4 xfs ..."]
#                      [-l READS to learn from] [-o DIR] [-t TIME_SCALE] [-p PRESET]
#
# Needs the lab (vmlab-setup), `make build` and cargo. Writes dm-effect.json to DIR, and prints the tables. A drive of
# consumer-deep under this load collects garbage every 2.2 s of its time, for 0.15 s: 6,700 reads cover one such cycle,
# fewer may miss it. In each round every policy has this many reads; -r 0 omits the raw device. Drives are slowed
# TIME_SCALE times, 1, 2, 5 or 10, which reduces the influence of the machine's own work by the same factor.
set -euo pipefail
cd "$(dirname "$0")/../.."

kernel=6.12 rounds=2 file_rounds=2 reads=6700 file_reads=6700 learn=13400
filesystems="ext4 xfs f2fs btrfs" out=build/vm/effect scale=10 preset=consumer-deep
rate=3000 writes=80 # per second of the drives' time: all reads, and the writes of each drive
while getopts k:r:R:n:m:l:f:o:t:p: option; do
	case $option in
	k) kernel=$OPTARG ;;
	r) rounds=$OPTARG ;;
	R) file_rounds=$OPTARG ;;
	n) reads=$OPTARG ;;
	m) file_reads=$OPTARG ;;
	l) learn=$OPTARG ;;
	f) filesystems=$OPTARG ;;
	o) out=$OPTARG ;;
	t) scale=$OPTARG ;;
	p) preset=$OPTARG ;;
	*) exit 2 ;;
	esac
done
. tests/vm/effect-host.sh
build_for "$kernel"
cargo build --release --locked --quiet -p linnet-study --example effect
out=$(empty "$out")
fit_when_recorded "$out" &
fitter=$!
tests/vm/vmlab run --kernel "$kernel" --virtual-time --smp 1 --mem 8192 --timeout 7200 --out "$out" --console "$out/console" -- \
	tests/vm/effect-guest.sh "$modules" "$rounds" "$file_rounds" "$reads" "$file_reads" "$learn" "$scale" \
	$((rate / scale)) $((writes / scale)) "$filesystems" "$preset" || status=$?
kill $fitter 2>/dev/null || true
# The target does not see the writes to the drives.
target/release/examples/effect "$preset" "$scale" "$rate" "$writes" 400000 "$out/m.linnet" beside >"$out/virtual.jsonl"
python3 tests/vm/effect_table.py "$out" --kernel "$kernel" --scale "$scale"
exit "${status:-0}"
