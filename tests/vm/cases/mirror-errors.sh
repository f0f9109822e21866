# SPDX-License-Identifier: MIT OR Apache-2.0
# What a mirror's application sees if legs or a log fail, or legs stall: nothing, as long as another leg has the data;
# an error, if none has.
# vm: timeout=600
. tests/vm/lib.sh
. tests/vm/mirror.sh

load_module
modprobe -a dm-flakey dm-delay
make_legs
for k in 0 1 2; do fill "$(leg $k)" 16; done
line=$(mirror 3 policy baseline log disk 3 /dev/mapper/log0 $REGION nosync)
dmsetup create m --table "$line"
want=$(sum_of /dev/mapper/m 16)
# io_error COMMAND...: the command must fail with an I/O error.
io_error() { expect_like "$*" "$(refuses "$@")" "Input/output error"; }
read_at() { dd if=/dev/mapper/m of=/run/block bs=4k count=1 skip="$1" iflag=direct status=none; }
write_at() { dd if=/dev/urandom of=/dev/mapper/m bs=4k count=1 seek="$1" oflag=direct status=none; }
flush() { "$TOOLS/cutwriter" /dev/mapper/m flush; }

say "a sector that cannot be read at one leg is read at another, and the leg stays"
spoil_leg 0 8000
message m reset
expect "data" "$(sum_of /dev/mapper/m 16)" "$want"
expect_some "errors of leg 0" "$(status m errors 0)"
expect_some "failovers" "$(status m failovers)"
expect "states" "$(states m)" AAA
expect "errors elsewhere" "$(status m errors 1)$(status m errors 2)" 00

say "at no leg: the application hears of it, of that sector only"
spoil_leg 1 8000
spoil_leg 2 8000
io_error read_at 1000
read_at 999
read_at 1001
for k in 0 1 2; do mend_leg $k; done
read_at 1000
expect "data" "$(sum_of /dev/mapper/m 16)" "$want"

say "the last leg fails: reads, writes and flushes end with its error, and the leg stays"
message m fail 1
message m fail 2
flush
break_leg 0
io_error read_at 5
io_error write_at 5
swap_leg 0 "0 $LEG_SECTORS flakey $(drive 0) 0 0 3600 1 error_writes" # refuses flushes too, unlike `error`
io_error write_at 5
io_error flush
mend_leg 0
write_at 5
flush
expect "data that others do not have" "$(read_at 5; sha256sum </run/block)" \
	"$(dd if="$(leg 0)" bs=4k count=1 skip=5 iflag=direct status=none | sha256sum)"
message m revive 1
message m revive 2
for try in {1..50}; do [ "$(states m | head -c 1)" = D ] || break; read_at 7; sleep 0.1; done
wait_sync m
expect "states" "$(states m)" AAA
same 0 1 2

say "a stalled leg is steered around by reads, and holds up writes"
message m policy shortest-queue
dmsetup suspend --noflush leg1
write_at 9 & writer=$!
message m reset
fio --name=stall --filename=/dev/mapper/m --readonly --rw=randread --bs=4k --ioengine=libaio --iodepth=16 --direct=1 \
	--time_based --runtime=3000 --size=16M --output=/run/fio.txt & reader=$!
for try in {1..200}; do
	moved=$(($(status m reads 0) + $(status m reads 2))) stuck=$(status m inflight 1)
	[ "$moved" -le 100 ] || break
	sleep 0.2
done
kill -0 $writer || fail "a write has ended that has not reached every leg"
dmsetup resume leg1
stop_fio $reader /run/fio.txt
wait $writer
echo "stall: $stuck were stuck while $moved reads were served"
[ "$moved" -gt 100 ] || fail "reads stood still in the stall of one leg"
expect "states" "$(states m)" AAA

say "a slow leg is read less than the others"
swap_leg 1 "0 $LEG_SECTORS delay $(drive 1) 0 50"
message m policy ewma-inflight
message m reset
fio --name=slow --filename=/dev/mapper/m --readonly --rw=randread --bs=4k --ioengine=libaio --iodepth=4 --direct=1 \
	--number_ios=2000 --size=16M --output=/run/fio.txt || { cat /run/fio.txt; fail "a read has failed"; }
echo "reads: $(status m reads 0) $(status m reads 1) $(status m reads 2)"
[ "$(status m reads 1)" -lt $((($(status m reads 0) + $(status m reads 2)) / 4)) ] || fail "the slow leg is read like the others"
mend_leg 1
same 0 1 2

say "a log that cannot be written: writes fail before they reach a leg; reads go on"
comes_to "dirty regions" 0 dirty_regions
echo 60000 >/sys/module/dm_linnet/parameters/clean_delay_ms # so no region becomes clean during the test
before=$(sum_of /dev/mapper/m 16)
log_table=$(dmsetup table log0)
dmsetup suspend log0
dmsetup load log0 --table "0 2048 error"
dmsetup resume log0
io_error write_at 2000
expect "data" "$(sum_of /dev/mapper/m 16)" "$before"
same 0 1 2
expect_like "the kernel's log" "$(log_since)" "the dirty log cannot be written: writes fail"
dmsetup suspend log0
dmsetup load log0 --table "$log_table"
dmsetup resume log0
write_at 2000
expect_some "dirty regions after a write" "$(dirty_regions)"
same 0 1 2

say "who has it open keeps it"
exec 7</dev/mapper/m
expect_like "removal while busy" "$(refuses dmsetup remove m)" "busy"
expect "states" "$(states m)" AAA
exec 7<&-
dmsetup remove m
expect "dirty regions" "$(dirty_regions)" 0

say "and it may go in the middle of a resync, which is taken up again"
echo 5 >/sys/module/dm_linnet/parameters/resync_throttle
dmsetup create m --table "$(mirror 3 log disk 3 /dev/mapper/log0 $REGION sync)"
[ "$(status m sync)" != $REGIONS/$REGIONS ] || fail "there was nothing to resync"
dmsetup remove m
dd if=/dev/urandom of="$(leg 2)" bs=1M count=16 oflag=direct status=none
echo 100 >/sys/module/dm_linnet/parameters/resync_throttle
dmsetup create m --table "$(mirror 3 log disk 3 /dev/mapper/log0 $REGION sync)"
wait_sync m
same 0 1 2
dmsetup remove m
