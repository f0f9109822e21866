#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Instructions of map and of end_io for each read, by policy, and how many reads end before as many come:
# count.sh PROGRAM MODEL [READS]
set -eu
program=$1 model=$2 reads=${3:-4000}
command -v valgrind >/dev/null || { echo "skipped: valgrind is not installed"; exit 0; }
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# inside FUNCTION POLICY BATCH: instructions, its callees' included.
inside() {
	valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect="$1" "$program" "$2" "$model" "$reads" "$3" \
		2>"$out" >/dev/null
	awk '/Collected/ { print $NF }' "$out"
}
# Whatever the instructions of a read are, the calls that measure them are part: about ten.
echo "policy            decide and record   end   of eight together: decide and record   end"
for policy in baseline shortest-queue ewma-inflight linnos linnet-best; do
	printf '%-16s %16s %5s %35s %5s\n' "$policy" $(for batch in 1 8; do
		for function in measured_map measured_end; do echo $(($(inside $function $policy $batch) / reads)); done
	done)
done
"$program" baseline "$model" 1 1 | {
	read -r device io place
	echo "bytes: $device per device of three replicas, $io per bio, and $place for each of 1024 places of a replica"
}
