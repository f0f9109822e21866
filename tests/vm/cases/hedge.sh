# SPDX-License-Identifier: MIT OR Apache-2.0
# Reads that wait for a slow drive get a second copy at another, on replicas and above md. The slow drive's answer comes
# later by construction (three seconds), so which copy has answered is counted and not timed.
# vm: nvme=3:128M timeout=600 alone
. tests/vm/lib.sh
. tests/vm/md.sh

SLOW=3000
modprobe dm-delay
load_module
for k in 0 1 2; do fill "$(drive $k)" 64; done
want=$(sum_of "$(drive 0)" 64)
# below K READ_DELAY: the device under leg K, whose reads take so many ms more; `error` fails all.
line_of() { [ "$2" = error ] && echo "0 $LEG_SECTORS error" || echo "0 $LEG_SECTORS delay $(drive "$1") 0 $2 $(drive "$1") 0 0"; }
below() {
	dmsetup suspend --noflush "below$1"
	dmsetup load "below$1" --table "$(line_of "$1" "$2")"
	dmsetup resume "below$1"
}
for k in 0 1 2; do dmsetup create below$k --table "$(line_of $k 0)"; done
# warm NAME: quick reads on each CPU, which earn its hedges.
warm() {
	fio --name=w --filename="/dev/mapper/$1" --readonly --rw=randread --bs=4k --ioengine=libaio --iodepth=1 --direct=1 --numjobs=2 \
		--cpus_allowed=0,1 --cpus_allowed_policy=split --number_ios=150 --size=32M \
		--output=/run/fio.txt || { cat /run/fio.txt; fail "a read has failed"; }
}
read_block() { dd if="/dev/mapper/$1" bs=16k skip="$2" count=1 iflag=direct status=none | sha256sum; }
block_of() { dd if="$1" bs=16k skip="$2" count=1 iflag=direct status=none | sha256sum; }
idle() { comes_to "reads in flight at leg 0" 0 status "$1" inflight 0; }

say "replicas: the first leg is slow"
three="0 $LEG_SECTORS linnet 3 /dev/mapper/below0 0 /dev/mapper/below1 0 /dev/mapper/below2 0"
three+=" 4 policy shortest-queue"
dmsetup create s --readonly --table "$three hedge 20"
expect_like "table" "$(dmsetup table s)" " 4 policy shortest-queue hedge 20$"
warm s
below 0 $SLOW
for i in 1 2 3; do
	wins=$(status s hedge_wins) discarded=$(status s discarded)
	expect "block $i" "$(read_block s $i)" "$(block_of "$(drive 1)" $i)"
	expect "copies that answered" "$(status s hedge_wins)" $((wins + 1))
	idle s
	expect "answers that came too late" "$(status s discarded)" $((discarded + 1))
done
say "the second leg fails: the slow one answers"
below 1 error; below 2 error
discarded=$(status s discarded) wins=$(status s hedge_wins) hedges=$(status s hedges)
expect "block 4" "$(read_block s 4)" "$(block_of "$(drive 0)" 4)"
expect_some "copies" "$(($(status s hedges) - hedges))"
expect "discarded, won" "$(status s discarded) $(status s hedge_wins)" "$discarded $wins"
below 1 0; below 2 0
for k in 0 1 2; do message s revive $k; done
say "suspended while an answered read has a copy in flight"
discarded=$(status s discarded)
expect "block 5" "$(read_block s 5)" "$(block_of "$(drive 1)" 5)"
dmsetup suspend s
expect "in flight" "$(status s inflight 0)" 0
expect "discarded" "$(status s discarded)" $((discarded + 1))
dmsetup resume s
say "removed in that state"
warm s
read_block s 6 >/run/out
dmsetup remove s
below 0 0

say "under load, with one leg that stalls now and then: right data, and no more copies than are allowed"
dmsetup create s --readonly --table "$three hedge 2"
fio --name=l --filename=/dev/mapper/s --readonly --rw=randread --bsrange=4k-128k --ioengine=libaio --iodepth=8 --direct=1 \
	--time_based --runtime=3600 --size=32M --output=/run/fio.txt & reader=$!
while [ "$(status s reads)" -lt 2000 ]; do sleep 0.2; done
for round in 1 2 3; do
	below $((round % 3)) 100; sleep 1
	message s hedge $((round * 2)); below $((round % 3)) 0
done
message s hedge 0
stop_fio $reader /run/fio.txt
expect_some "copies" "$(status s hedges)"
[ "$(status s hedges)" -le $(($(status s reads) * 6 / 100)) ] || fail "$(status s hedges) copies of $(status s reads) reads"
echo "$(status s hedges) copies of $(status s reads) reads: $(status s hedge_wins) won, $(status s discarded) discarded"
expect "data" "$(sum_of /dev/mapper/s 64)" "$want"
for k in 0 1 2; do expect "errors" "$(status s errors $k)" 0; done
dmsetup remove s

say "above md"
for k in 0 1; do md_leg $k /dev/mapper/below$k; done
md_array 2
md_volume vol 2 policy shortest-queue hedge 20
trust_all vol 2
warm vol
seven=$(block_of $ARRAY 7)
below 0 $SLOW
wins=$(status vol hedge_wins)
expect "block 7" "$(read_block vol 7)" "$seven"
expect "copies that answered" "$(status vol hedge_wins)" $((wins + 1))
say "its leg is suspended with the copy in flight"
discarded=$(status vol discarded)
dmsetup suspend leg0
expect "discarded" "$(status vol discarded)" $((discarded + 1))
dmsetup resume leg0
expect "the legs" "$(trusted vol 2)" "untrusted trusted "
below 0 30
trust_all vol 2
say "acknowledged writes are seen"
"$TOOLS/mdcheck" vol 7 16 $(places 2) >/run/check 2>&1 &
check=$!
fio --name=l --filename=/dev/mapper/vol --readonly --rw=randread --bs=4k --ioengine=libaio --iodepth=4 --direct=1 \
	--time_based --runtime=8 --size=32M --output=/run/fio.txt
mdadm --fail $ARRAY /dev/mapper/leg1
comes_to "trust of leg 1" untrusted status vol trust 1
mdadm --remove $ARRAY /dev/mapper/leg1; mdadm --re-add $ARRAY /dev/mapper/leg1
md_idle
trust vol 0 || true; trust vol 1 || true
sleep 3
kill -TERM $check
wait $check || { cat /run/check; fail "mdcheck found a fault"; }
cat /run/check
echo "$(status vol hedges) copies of $(status vol steered) steered reads, $(status vol hedge_wins) won"
expect_some "copies" "$(status vol hedges)"
