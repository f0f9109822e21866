#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The guest's part of cases/tune-cost.sh: tune-cost-guest.sh MODULES ROUNDS [OBSERVER...]
# OBSERVER is a command that watches through BPF and prints events as `linnet tune readahead --json` does.
set -euo pipefail
export MODULES=$1
rounds=$2
shift 2
. tests/vm/lib.sh
. tests/vm/tune.sh
mkdir -p "$MNT"
modprobe brd rd_nr=1 rd_size=65536 max_part=0
modprobe ext4
mkfs.ext4 -q -F /dev/ram0
mount /dev/ram0 "$MNT"
head -c 16M /dev/urandom >"$MNT/data"
sync

# saw: whether the observer has told of a file, be it that no process has it open any more.
saw() { grep -qE '"kind":"(decision|skip)"' /run/tuner.log; }
# costs NAME: a line for each kind of read, with the setting's name before it.
costs() { "$TOOLS/eventcost" "$MNT/data" "$rounds" | sed "s/^/$1 /"; }
{
	costs nobody
	costs again
	insmod "$MODULES/kunit/linnet-empty.ko"
	costs empty
	rmmod linnet_empty
	tune_module devices=/dev/ram0
	before=$(counter events)
	costs module
	[ "$(counter events)" -gt "$((before + rounds))" ] || fail "the module saw no events"
	expect "events lost" "$(counter lost)" 0
	cp $DEBUG/status "$VMLAB_OUT/status"
	rmmod linnet_tune
	if [ $# -gt 0 ]; then
		"$@" >/run/tuner.log 2>/run/tuner.err &
		tuner=$!
		for ((i = 0; i < 600; i++)); do
			kill -0 $tuner || { cat /run/tuner.err; fail "the observer ended"; }
			! saw || break
			"$TOOLS/filereads" "$MNT/data" cold touch:100 >/dev/null
			sleep 0.1
		done
		saw || { cat /run/tuner.log; fail "the observer saw nothing"; }
		costs bpf
		kill $tuner
		wait $tuner || true
	fi
} | tee /run/costs >&2

# Events of one read: a demand, or that and the pages of a batch. `open` has one demand; its end is a hook of its own.
awk '{ cost[$1, $2] = $3; events[$2] = $2 == "bring" ? $6 + 1 : 1 }
function each(who, name) { return (who, name) in cost ? sprintf("%.0f", (cost[who, name] - cost["nobody", name]) / events[name]) : "-" }
END {
	print "| read | events | nobody watches | noise | an empty handler, per event | module, per event | BPF observer, per event |"
	print "|---|---|---|---|---|---|---|"
	n = split("read fault open bring", kinds)
	for (k = 1; k <= n; k++) {
		name = kinds[k]
		printf "| %s | %d | %d | %d | %s | %s | %s |\n", name, events[name], cost["nobody", name],
			cost["again", name] - cost["nobody", name], each("empty", name), each("module", name), each("bpf", name)
	}
}' /run/costs
