# SPDX-License-Identifier: MIT OR Apache-2.0
# A steered read waits in the queue of a drive that md gives up, and somebody writes to the leg before the drive comes to the
# read. The answer is the volume's data all the same. A leg is the only target of its device.
# vm: nvme=3:128M timeout=600 alone
. tests/vm/lib.sh
. tests/vm/md.sh
modprobe dm-delay
load_module
say "a leg beside another target"
refuses dmsetup create bad --table "0 2048 linnet-leg $(drive 2) 0
2048 2048 linear $(drive 2) 2048"
refuses dmsetup create bad --table "0 2048 linear $(drive 2) 0
2048 2048 linnet-leg $(drive 2) 2048"

say "a write to the leg of a member that is gone, before the read"
# below K MS: what lies below leg K delays reads by this much, and writes not at all.
line() { echo "0 $LEG_SECTORS delay $(drive "$1") 0 $2 $(drive "$1") 0 0"; }
below() {
	dmsetup suspend --noflush "below$1"
	dmsetup load "below$1" --table "$(line "$1" "$2")"
	dmsetup resume "below$1"
}
for k in 0 1; do
	dmsetup create below$k --table "$(line $k 0)"
	md_leg $k /dev/mapper/below$k
done
md_array 2
md_volume vol 2 policy shortest-queue
dd if=/dev/urandom of=/run/want bs=16k count=64 status=none
dd if=/run/want of=/dev/mapper/vol bs=16k oflag=direct status=none
trust_all vol 2
for k in 0 1; do below $k 20000; done
dd if=/dev/mapper/vol of=/run/got bs=16k skip=5 count=1 iflag=direct status=none &
reader=$!
flying() { echo $(($(status vol inflight 0) + $(status vol inflight 1))); }
comes_to "reads at the drives" 1 flying
leg=0
[ "$(status vol inflight 0)" = 1 ] || leg=1
offset=$(member_offset $leg)
mdadm $ARRAY --fail /dev/mapper/leg$leg
removed() { mdadm $ARRAY --remove "/dev/mapper/leg$leg" >/dev/null 2>&1 && echo yes || echo no; }
comes_to "md lets the leg go" yes removed
dd if=/dev/urandom of=/dev/mapper/leg$leg bs=16k count=1 seek=$((offset / 32 + 5)) oflag=direct status=none
kill -0 $reader || fail "the read has ended before the write"
wait $reader
expect "the data" "$(sha256sum </run/got)" "$(dd if=/run/want bs=16k skip=5 count=1 status=none | sha256sum)"
expect "reads that were sent again" "$(status vol failovers)" 1
expect "errors" "$(status vol errors $leg)" 0
