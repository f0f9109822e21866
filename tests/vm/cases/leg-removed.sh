# SPDX-License-Identifier: MIT OR Apache-2.0
# A drive is pulled out under load: reads go on at the others.
# vm: nvme=3:256M timeout=120 alone
. tests/vm/lib.sh

load_module
for k in 0 1 2; do fill "$(drive $k)" 16; done
want=$(sum_of "$(drive 1)" 16)
device s 3 policy shortest-queue
fio --name=l --filename=/dev/mapper/s --readonly --rw=randread --bs=4k --ioengine=libaio --iodepth=8 --direct=1 \
	--time_based --runtime=6 --size=16M --output=/run/fio.txt &
sleep 2
name=$(basename "$(drive 0)")
echo 1 >"/sys/block/$name/device/device/remove"
wait $! || { cat /run/fio.txt; fail "a read has failed"; }
expect "data" "$(sum_of /dev/mapper/s 16)" "$want"
expect_some "failovers or errors" "$(($(status s failovers) + $(status s errors 0)))"
expect "state of the replica that is gone" "$(status s state 0)" D
echo "$(status s failovers) failovers, $(status s errors 0) errors"
