# SPDX-License-Identifier: MIT OR Apache-2.0
# A drive is removed from the bus under load: reads continue on the other drives, and so do the writes of a mirror.
# vm: nvme=4:256M timeout=240 alone
. tests/vm/lib.sh
. tests/vm/mirror.sh

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

say "a mirror that is written"
table="0 $LEG_SECTORS linnet 3 $(drive 1) 0 $(drive 2) 0 $(drive 3) 0"
log="log core 2 $REGION nosync"
for k in 2 3; do fill "$(drive $k)" 16; done
dmsetup create m --table "$table 5 $log"
"$TOOLS/cutwriter" /dev/mapper/m /dev/null 7 1 8 4096 plain & writer=$!
sleep 1
pull 2
comes_to legs ADA states m
sleep 1
kill -0 $writer || fail "a write has failed"
kill $writer
wait $writer || true
write_all m 1
message m revive 1 # no effect: the drive is gone
poke m
comes_to legs ADA states m
same 1 3
dmsetup remove m
