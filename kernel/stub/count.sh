#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Instructions of map and of end_io for each read, by policy: count.sh PROGRAM MODEL [READS]
set -eu
program=$1 model=$2 reads=${3:-4000}
command -v valgrind >/dev/null || { echo "skipped: valgrind is not installed"; exit 0; }
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# Instructions inside a function, its callees included.
inside() {
	valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect="$1" "$program" "$2" "$model" "$reads" \
		2>"$out" >/dev/null
	awk '/Collected/ { print $NF }' "$out"
}
# Whatever the instructions of a read are, the calls that measure them are part: about ten.
echo "policy            decide and book   end"
for policy in baseline shortest-queue ewma-inflight linnos linnet-best; do
	map=$(inside measured_map $policy)
	end=$(inside measured_end $policy)
	printf '%-16s %16s %5s\n' "$policy" $((map / reads)) $((end / reads))
done
"$program" baseline "$model" 1 | {
	read -r device io place
	echo "bytes: $device per device of three replicas, $io per bio, and $place for each of 1024 places of a replica"
}
