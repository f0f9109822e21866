#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Measures what a volume above md does to read latency, beside what operators have: plain md raid1, dm-multipath with
# service-time over the same drives (Debian's kernels lack historical-service-time), and btrfs raid1c3. Three modelled
# drives inside a machine whose clock counts instructions, so that the load of the host has no influence. A model is
# trained on a run through the target at the first load. Then every peer reads the same offsets at the same times, in
# rounds, and effect_md_table.py prints the ratios.
#   tests/vm/effect-md.sh [-k KERNEL] [-r ROUNDS] [-n READS to learn from] [-o DIR] [-t TIME_SCALE] [-p PRESET] [LOAD...]
#
# LOAD is NAME:KIND:RATE:WRITES:READS: kind raw, mixed (the writes go to the device that is read) or files; reads and
# writes of 64 KiB to each drive per second of the drives' time; reads of each peer in a round.
# Needs the lab (vmlab-setup), `make build` and cargo. A round of one peer takes some 20 s of CPU time. Drives are slowed
# TIME_SCALE times, which reduces the influence of the machine's own work by the same factor.
set -euo pipefail
cd "$(dirname "$0")/../.."

kernel=6.12 rounds=5 learn=13400 out=build/vm/effect-md scale=10 preset=consumer-deep
while getopts k:r:n:o:t:p: option; do
	case $option in
	k) kernel=$OPTARG ;;
	r) rounds=$OPTARG ;;
	n) learn=$OPTARG ;;
	o) out=$OPTARG ;;
	t) scale=$OPTARG ;;
	p) preset=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- published:raw:3000:80:6700 light:raw:1000:40:4500 heavy:raw:6000:120:10000 mixed:mixed:3000:80:6700 \
	files:files:3000:80:6700
. tests/vm/effect-host.sh
build_for "$kernel"
out=$(empty "$out")
fit_when_recorded "$out" &
fitter=$!
tests/vm/vmlab run --kernel "$kernel" --virtual-time --smp 1 --mem 4096 --timeout 14400 --out "$out" --console "$out/console" -- \
	tests/vm/effect-md-guest.sh "$modules" "$rounds" "$learn" "$scale" "$preset" "$@" || status=$?
kill $fitter 2>/dev/null || true
"$(dirname "$linnet")/python" tests/vm/effect_md_table.py "$out" --kernel "$kernel" --scale "$scale"
exit "${status:-0}"
