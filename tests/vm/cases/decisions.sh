# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests the target's glue with recorded runs on two CPUs: each decision is repeated in user space, from each replica's
# arrivals and ends, and must be the same. Covers each policy, revokes, and reads that fail over from target to target.
# vm: nvme=3:256M timeout=900
. tests/vm/lib.sh

TRACE=/sys/kernel/tracing
ls $TRACE/trace >/dev/null
LOAD=build/lib/linnet-load

# load: reads from two jobs, in three phases of load.
load() {
	local fio="fio --filename=/dev/mapper/d --readonly --direct=1 --ioengine=libaio --norandommap --randrepeat=1 --size=200M" bursts
	$fio --name=bursts --rw=randread --bsrange=4k-64k --iodepth=24 --thinktime=20ms --thinktime_blocks=64 --number_ios=900 \
		>/dev/null 2>&1 & bursts=$!
	$TAGGED $fio --name=single --rw=randread --bs=4k --iodepth=1 --thinktime=300 --number_ios=900 $FIO >/dev/null 2>&1 || true
	wait $bursts || true
	sleep 0.2
}

# again NAME RECORD MODEL: repeats the decisions in user space; at least 1,000 of them, unless NAME begins with `at `.
again() {
	local said n
	said=$("$TOOLS/decisions" "$2" "$3") || fail "$1: $said"
	echo "$1: $said"
	expect_like "$1" "$said" ', 0 differences$'
	case $1 in at\ *) return ;; esac
	n=$(grep -oE '[0-9]+ decisions' <<<"$said")
	expect_some "$1: decisions" "$(("${n% *}" - 800))"
	case $1 in revoke*) if grep -q ' 0 revokes' <<<"$said"; then fail "$1: nothing was revoked"; fi ;; esac
}

# record NAME MODEL DEVICE-ARGUMENTS...: records a load, then repeats its decisions.
record() {
	local name=$1 model=$2
	shift 2
	device d "$@"
	echo >$TRACE/trace
	echo 1 >$TRACE/events/linnet/enable
	load
	echo 0 >$TRACE/events/linnet/enable
	cat $TRACE/trace >/run/record
	dmsetup remove d
	again "$name" /run/record "$model"
}

# fail_over NAME MODEL DEVICE-ARGUMENTS...: one target for each of three drives, and two applications that send a read
# to the next target if one revokes it.
fail_over() {
	local name=$1 model=$2 k loads=()
	shift 2
	for k in 0 1 2; do dmsetup create f$k --table "0 $(sectors "$(drive $k)") linnet 1 $(drive $k) 0 $# $*"; done
	echo >$TRACE/trace
	echo 1 >$TRACE/events/linnet/enable
	for k in 1 2; do
		$LOAD --mode failover --rate 800 --reads 1200 --seed $k --span $((200 << 20)) /dev/mapper/f{0,1,2} >/run/load$k &
		loads+=($!)
	done
	wait "${loads[@]}" || fail "$name: $(cat /run/load1 /run/load2)"
	sleep 0.2
	echo 0 >$TRACE/events/linnet/enable
	cat $TRACE/trace >/run/record
	for k in 0 1 2; do
		grep -F "dev=$(dmsetup info -c --noheadings --separator : -o major,minor f$k) " /run/record >/run/record$k || continue
		again "at target $k, $name" /run/record$k "$model"
		if [ $k = 0 ] && ! grep -q 'verdict=1' /run/record0; then fail "$name: nothing was revoked"; fi
	done
	for k in 0 1 2; do dmsetup remove f$k; done
}

load_module
echo 32768 >$TRACE/buffer_size_kb
FIO= TAGGED=
for kind in random:7 linnos:3 busy:12 busy:2; do
	python3 tests/vm/make_model.py $kind /run/$kind.model
	model "${kind/:/-}" /run/$kind.model
done
record shortest-queue "" 3 policy shortest-queue
record ewma-inflight "" 3 policy ewma-inflight
record "linnet-best, random trees" /run/random:7.model 3 policy linnet-best model random-7
record "linnos, a network of its size" /run/linnos:3.model 3 policy linnos model linnos-3
record "linnos, busy" /run/busy:12.model 3 policy linnos model busy-12
# The recording that the operator's command exports.
linnet=$(readlink -m "${LINNET:-.venv/bin/linnet}")
if [ -x "$linnet" ]; then
	device d 3 policy linnet-best model random-7
	"$linnet" dm export-trace d --seconds 40 -o /run/traces --decisions /run/exported >/run/export.log 2>&1 &
	export=$!
	for ((i = 0; i < 600; i++)); do
		! grep -qx 1 $TRACE/instances/linnet-export/events/linnet/linnet_decision/enable 2>/dev/null || break
		sleep 0.2
	done
	load
	wait $export || fail "export-trace: $(cat /run/export.log)"
	dmsetup remove d
	again exported /run/exported /run/random:7.model
	expect "a trace for each replica" "$(cd /run/traces && echo *)" "d.0.parquet d.1.parquet d.2.parquet"
	sed 's/ ewma_ns={0x[0-9a-f]*,/ ewma_ns={0x77,/' /run/exported >/run/altered # all lines, because one may be a read that is not compared
	if "$TOOLS/decisions" /run/altered /run/random:7.model >/dev/null; then fail "an altered record was taken for right"; fi
else
	say "no $linnet (make build): nothing exported"
fi

FIO="--ioengine=psync --numjobs=8" TAGGED="$TOOLS/tagged 0x5004"
record "revoke by trees" /run/busy:2.model 2 policy linnet-best model busy-2 revoke ioprio 0x5004
record "revoke by network" /run/busy:2.model 2 policy linnos model busy-2 revoke ioprio 0x5004

fail_over "revoke and fail over, by network" /run/busy:2.model policy linnos model busy-2 revoke ioprio 0x5004
fail_over "revoke and fail over, by trees" /run/busy:2.model policy linnet-best model busy-2 revoke ioprio 0x5004
# A canary: alters a value of a replica that revoked a read.
sed '0,/\(.* verdict=1 .* ewma_ns={0x\)/s//\17/' /run/record0 >/run/altered
if "$TOOLS/decisions" /run/altered /run/busy:2.model >/dev/null; then fail "an altered revoke was taken for right"; fi

# A canary: a recording with one altered choice must differ.
sed '0,/replica=\([0-9]\) verdict=0/s//replica=7 verdict=0/' /run/record0 >/run/altered
if "$TOOLS/decisions" /run/altered /run/busy:2.model >/dev/null; then fail "an altered record was taken for right"; fi
