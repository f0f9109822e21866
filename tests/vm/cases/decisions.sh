# SPDX-License-Identifier: MIT OR Apache-2.0
# Decisions in the kernel equal those of user space, bit for bit, on recorded runs with two CPUs: each policy, and revokes.
# vm: nvme=3:256M timeout=600
. tests/vm/lib.sh

TRACE=/sys/kernel/tracing
ls $TRACE/trace >/dev/null

# record NAME MODEL DEVICE-ARGUMENTS...: reads under way from two jobs, in three phases of load, then taken anew.
record() {
	local name=$1 model=$2 said n
	shift 2
	device d "$@"
	echo >$TRACE/trace
	echo 1 >$TRACE/events/linnet/enable
	fio --filename=/dev/mapper/d --readonly --direct=1 --ioengine=libaio --norandommap --randrepeat=1 --size=200M --group_reporting \
		--name=bursts --rw=randread --bsrange=4k-64k --iodepth=24 --thinktime=20ms --thinktime_blocks=64 --number_ios=900 \
		--name=single --rw=randread --bs=4k --iodepth=1 --thinktime=300 --number_ios=900 $FIO >/dev/null 2>&1 || true
	sleep 0.2
	echo 0 >$TRACE/events/linnet/enable
	cat $TRACE/trace >/run/record
	dmsetup remove d
	said=$("$TOOLS/decisions" /run/record "$model") || fail "$name: $said"
	echo "$name: $said"
	n=$(grep -oE '[0-9]+ decisions' <<<"$said")
	expect_some "$name: decisions" "$(("${n% *}" - 800))"
	case $name in *network) if grep -q ' 0 revokes' <<<"$said"; then fail "$name: nothing was revoked"; fi ;; esac
	expect_like "$name" "$said" ', 0 differences$'
}

load_module
echo 32768 >$TRACE/buffer_size_kb
FIO=
for kind in random:7 linnos:3 busy:12 busy:2; do
	python3 tests/vm/make_model.py $kind /run/$kind.model
	model "${kind/:/-}" /run/$kind.model
done
record shortest-queue "" 3 policy shortest-queue
record ewma-inflight "" 3 policy ewma-inflight
record "linnet-best, random trees" /run/random:7.model 3 policy linnet-best model random-7
record "linnos, a network of its size" /run/linnos:3.model 3 policy linnos model linnos-3
record "linnos, busy" /run/busy:12.model 3 policy linnos model busy-12
FIO="--prioclass=2 --prio=7 --ioengine=psync --numjobs=8"
record "revoke by trees" /run/busy:2.model 2 policy linnet-best model busy-2 revoke
record "revoke by network" /run/busy:2.model 2 policy linnos model busy-2 revoke

# A canary: a record with one choice altered must differ.
sed '0,/replica=\([0-9]\) verdict=0/s//replica=7 verdict=0/' /run/record >/run/altered
if "$TOOLS/decisions" /run/altered /run/busy:2.model >/dev/null; then fail "an altered record was taken for right"; fi
