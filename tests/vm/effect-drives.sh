#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Modelled drives and their reader in a machine, for effect-guest.sh and effect-md-guest.sh, which set $preset, $scale,
# $rate, $writes (of the machine's time), $learn and $round: `. tests/vm/effect-drives.sh` after lib.sh.
load=$PWD/build/lib/linnet-load
window=$((320 << 11)) # sectors: the first 2 GiB of each drive are windows, the third GiB is written continuously

# Three modelled drives, as /dev/vmlab/nvme0 to 2 for the helpers. They print statistics when their input ends.
drives() {
	local k i
	mkfifo /run/end
	target/release/examples/serve_ssd /run/drives.sock "$preset" 3 "$scale" </run/end >"$VMLAB_OUT/served.json" &
	server=$!
	exec 9>/run/end
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
			--direct=1 --rate_iops=$writes --rate_process=poisson --time_based --runtime=360000 --randseed=$((k + 1)) \
			--output=/run/writer$k 9>&- &
	done
}
# at INDEX: the offset of a window.
at() { echo $(($1 * window)); }
# alone INDEX ARGUMENT...: the same three replicas, each as a device of its own: p0 to p2.
alone() {
	local at k
	at=$(at "$1")
	shift
	for k in 0 1 2; do dmsetup create "p$k" --readonly --table "0 $window linnet 1 $(drive $k) $at $# $*"; done
}
each() { local k; for k in 0 1 2; do "$1" "p$k" "${@:2}"; done; }
remove() { dmsetup remove "$1"; }
# learn_model WINDOW: records each replica alone, with the baseline, and installs the model that the host fits to that.
learn_model() {
	local k minor tracing loads=()
	alone "$1" policy baseline
	tracing=$(dirname "$(ls -d /sys/kernel/tracing/trace)")
	echo 32768 >"$tracing/buffer_size_kb"
	echo 1 >"$tracing/events/linnet/linnet_io/enable"
	for k in 0 1 2; do
		"$load" --mode primary --rate "$rate" --reads "$learn" --seed $((k + 1)) --depth 512 --span $((96 << 20)) --json \
			"/dev/mapper/p$k" >"$VMLAB_OUT/record$k.json" &
		loads[k]=$!
	done
	wait "${loads[@]}"
	echo 0 >"$tracing/events/linnet/linnet_io/enable"
	for k in 0 1 2; do
		minor=$(dmsetup info -c --noheadings -o minor "p$k")
		grep -a "linnet_io: dev=[0-9]*:$minor " "$tracing/trace" >"$VMLAB_OUT/leg$k.txt"
	done
	each remove
	wc -l "$VMLAB_OUT"/leg?.txt
	touch "$VMLAB_OUT/recorded"
	# The writers continue, so that the drives cannot finish their garbage collection before reading begins.
	while [ ! -e "$VMLAB_OUT/fitted" ]; do sleep 2; done
	[ ! -e "$VMLAB_OUT/fit.failed" ] || fail "no model: $(cat "$VMLAB_OUT/fit.log")"
	cp "$VMLAB_OUT/m.linnet" "$FIRMWARE/m.linnet"
}
# read_places ARGUMENT...: linnet-load with these arguments, at the places and times of the round; its summary and every
# read lie in /run. keep WHERE POLICY FIELDS: appends the summary, with these fields, to the results, and keeps the reads.
read_places() {
	"$load" --seed $((100 + round)) --depth 512 --span $((96 << 20)) --json --log /run/log "$@" >/run/result ||
		{ cat /run/result; echo "reads have failed"; }
}
keep() {
	sed "s/^{/{\"where\": \"$1\", \"policy\": \"$2\", \"round\": $round, $3, /" /run/result >>"$VMLAB_OUT/results.jsonl"
	cp /run/log "$VMLAB_OUT/reads/$1.$2.$round.csv"
	echo "$1 $2 $round: $(grep -oE '"(mean|p50|p99|p999)_us": [0-9]+' /run/result | tr -d '"' | tr '\n' ' ')"
}
# stop_drives: ends the writers, and waits for the statistics of the drives.
stop_drives() {
	pkill -x fio || true
	for k in 0 1 2; do nbd-client -d "/dev/nbd$k" >/dev/null; done
	exec 9>&-
	wait "$server"
}
