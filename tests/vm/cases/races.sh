# SPDX-License-Identifier: MIT OR Apache-2.0
# Data races, which KCSAN reports and the search of the log after every case finds: two CPUs read, write and steer while
# policies, models, hedges, legs and trust change.
# vm: kernel=6.1-kcsan nvme=3:128M timeout=300 alone
. tests/vm/lib.sh
. tests/vm/md.sh

TAGGED=
[ -e /sys/kernel/debug/kcsan ] || mount -t debugfs none /sys/kernel/debug
counter() { sed -n "s/^$1: //p" /sys/kernel/debug/kcsan; }
# both DEVICE FIO-OPTION...: load from a job on each CPU, until fio is stopped.
both() {
	local file=$1
	shift
	$TAGGED fio --name=both --filename="$file" --bsrange=4k-32k --ioengine=libaio --iodepth=8 --direct=1 --numjobs=2 --cpus_allowed=0,1 \
		--cpus_allowed_policy=split --time_based --runtime=3600 --size=32M --output=/run/fio.txt "$@" &
	fio=$!
}
# seen: how many accesses were watched, and races reported, since the last time.
seen() {
	local watched=$(($(counter setup_watchpoints) - ${last:-0}))
	last=$(counter setup_watchpoints)
	echo "$1: $watched accesses watched"
	expect_some "accesses watched" "$watched"
}

say "a race on purpose is reported, and found"
outer=$LOG_MARK
found race 'BUG: KCSAN: data-race in count'
say "one of others is not"
sed 's/\[linnet_faults\]/[raid1]/' <<<"$(log_since)" >/run/others
expect "reports that count" "$(without_races_of_others </run/others | grep -c KCSAN || true)" 0
dmesg -C
echo "$outer" >/dev/kmsg

load_module
for kind in busy:4 linnos:1 random:1; do
	python3 tests/vm/make_model.py $kind /run/m
	model "${kind%:*}.linnet" /run/m
done

say "replicas"
for k in 0 1 2; do fill "$(drive $k)" 32; done
device s 3 policy linnet-best model busy.linnet hedge 20
both /dev/mapper/s --readonly --rw=randread
for round in {1..6}; do
	for policy in linnet-best linnos ewma-inflight shortest-queue; do
		message s policy $policy
		message s load "$([ $((round % 2)) = 1 ] && echo random || echo linnos).linnet"
		message s hedge $((round * 5))
		message s off
		message s on
		message s revive $((round % 3))
		dmsetup status s >/dev/null
		dmsetup table s >/dev/null
		sleep 0.5
	done
	dmsetup suspend s
	dmsetup resume s
done
stop_fio $fio /run/fio.txt
seen "replicas, $(status s reads) reads"
expect_some "hedges" "$(status s hedges)"
dmsetup remove s

say "reads that are revoked"
dmsetup create r --table "0 $(sectors "$(drive 0)") linnet 1 $(drive 0) 0 7 policy linnos model busy.linnet revoke ioprio 0x5004"
TAGGED="$TOOLS/tagged 0x5004"
both /dev/mapper/r --readonly --rw=randread --ioengine=psync --numjobs=8 --ignore_error=EAGAIN
sleep 10
kill -INT $fio || true
wait $fio || true
TAGGED=
expect_some "revokes" "$(status r revokes)"
seen "revokes, $(status r reads) reads"
dmsetup remove r

say "above md"
md_legs 2
md_array 2
md_volume vol 2 policy linnet-best model busy.linnet hedge 20
trust_all vol 2
both /dev/mapper/vol --rw=randrw --fsync=50
for round in 1 2 3; do
	sleep 3
	k=$((round % 2))
	mdadm --fail $ARRAY /dev/mapper/leg$k
	sleep 1
	mdadm --remove $ARRAY /dev/mapper/leg$k
	mdadm --re-add $ARRAY /dev/mapper/leg$k
	md_idle
	for k in 0 1; do trust vol $k || true; done
	dmsetup suspend leg0
	dmsetup resume leg0
	sleep 1
	for k in 0 1; do trust vol $k || true; done
	dmsetup suspend vol
	dmsetup resume vol
	sleep 1
	for k in 0 1; do trust vol $k || true; done
done
sleep 3
stop_fio $fio /run/fio.txt
seen "above md, $(status vol steered) reads past md"
expect_some "steered reads" "$(status vol steered)"
echo "races of others: $(log_since | grep -c 'BUG: KCSAN' || true)"
