# SPDX-License-Identifier: MIT OR Apache-2.0
# A drive is removed from the bus under load: reads continue on the other drives, and so do the writes of a volume above md.
# vm: nvme=4:256M timeout=400 alone
. tests/vm/lib.sh
. tests/vm/md.sh

load_module
say "replicas that are read"
for k in 0 1 2; do fill "$(drive $k)" 16; done
want=$(sum_of "$(drive 1)" 16)
device s 3 policy shortest-queue
fio --name=l --filename=/dev/mapper/s --readonly --rw=randread --bs=4k --ioengine=libaio --iodepth=8 --direct=1 \
	--time_based --runtime=6 --size=16M --output=/run/fio.txt &
sleep 2
pull 0
wait $! || { cat /run/fio.txt; fail "a read has failed"; }
expect "data" "$(sum_of /dev/mapper/s 16)" "$want"
expect_some "failovers or errors" "$(($(status s failovers) + $(status s errors 0)))"
expect "state of the replica that is gone" "$(status s state 0)" D
echo "$(status s failovers) failovers, $(status s errors 0) errors"
dmsetup remove s

say "a volume above md that is written"
md_leg 0 "$(drive 1)"; md_leg 1 "$(drive 2)"
md_array 2
md_volume vol 2 policy shortest-queue
trust_all vol 2
"$TOOLS/cutwriter" /dev/mapper/vol /dev/null 7 1 8 4096 plain & writer=$!
sleep 1
pull 2
comes_to "trust of the leg that is gone" untrusted status vol trust 1
expect "why" "$(status vol why 1)" error
sleep 1
kill -0 $writer || fail "a write has failed"
kill $writer
wait $writer || true
refuses trust vol 1
expect "the other leg" "$(status vol trust 0)" trusted

say "another device gets the number of the leg that is gone"
number() { dmsetup info -c --noheadings -o major,minor "$1"; }
of_leg=$(number leg1)
take_out 1
dmsetup remove leg1
dmsetup create other --table "0 $LEG_SECTORS linnet-leg $(drive 3) 0"
expect "its number" "$(number other)" "$of_leg"
dd if=/dev/zero of=/dev/mapper/other bs=4k count=64 oflag=direct status=none
expect "the other leg" "$(status vol trust 0)" trusted
expect_like "the other device" "$(dmsetup status other)" "attached 0"
dmsetup remove other
want=$(sum_of /dev/mapper/vol 16)
dmsetup remove vol; mdadm --stop $ARRAY
expect "data" "$(dd if="$(drive 1)" bs=1M skip=1 count=16 iflag=direct status=none | sha256sum | cut -d' ' -f1)" "$want"
