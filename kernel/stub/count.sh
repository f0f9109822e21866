#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Prints instructions of map and of end_io per read, by policy and by the reads that end before as many arrive:
# count.sh PROGRAM MODEL [READS]
set -eu
program=$1 model=$2 reads=${3:-4000}
command -v valgrind >/dev/null || { echo "skipped: valgrind is not installed"; exit 0; }
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# inside FUNCTION POLICY BATCH: instructions, including those of its callees.
inside() {
	valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect="$1" "$program" "$2" "$model" "$reads" "$3" \
		2>"$out" >/dev/null
	awk '/Collected/ { print $NF }' "$out"
}
# The calls that do the measurement are included: about ten instructions.
echo "policy            decide and record   end   of eight together: decide and record   end"
for policy in baseline shortest-queue ewma-inflight linnos linnet-best; do
	printf '%-16s %16s %5s %35s %5s\n' "$policy" $(for batch in 1 8; do
		for function in measured_map measured_end; do echo $(($(inside $function $policy $batch) / reads)); done
	done)
done
# spread POLICY BATCH: median and 90th percentile of the instructions of map. A profile is dumped at the end of each call.
spread() {
	dumps=$(mktemp -d)
	valgrind --tool=callgrind --callgrind-out-file="$dumps/of" --combine-dumps=yes --dump-after=measured_map \
		--toggle-collect=measured_map "$program" "$1" "$model" "$reads" "$2" >/dev/null 2>&1
	sed -n 's/^summary: *//p' "$dumps"/of* | sort -n | awk '{ n[NR] = $1 } END { print n[int(NR / 2)], n[int(NR * 0.9)] }'
	rm -r "$dumps"
}
for policy in ewma-inflight linnet-best; do
	set -- $(spread $policy 1) $(spread $policy 8)
	echo "$policy, decide and record: median $1, 90th percentile $2; of eight together: median $3, 90th percentile $4"
done
# of FUNCTION OP [DEPTH]: instructions for each I/O of a volume above md, its legs' included.
of() {
	valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=$1 "$program" "$2" "$reads" $3 2>"$out" >/dev/null
	awk '/Collected/ { print $NF }' "$out"
}
for op in "read 1" "write 1" "write 32"; do
	printf 'above md, shortest-queue, two legs, %-8s in flight %6s %5s\n' "$op" $(for function in measured_map measured_end; do
		echo $(($(of $function $op) / reads)); done)
done
# Not inside the kernel's pools, from which memory is taken.
printf 'hedgeable, shortest-queue, two replicas %8s %5s\n' $(($(of "measured_map --toggle-collect=mempool_alloc" hedge "") / reads)) \
	$(($(of measured_copy hedge "") / reads))
"$program" baseline "$model" 1 1 | {
	read -r device io place
	echo "bytes: $device per device of three replicas, $io per bio, and $place for each of 1024 places of a replica"
}
