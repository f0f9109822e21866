# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests the dirty log of a mirror: which regions are resynced, and when.
# vm: timeout=3600
. tests/vm/lib.sh
. tests/vm/mirror.sh

load_module
make_legs
log="log disk 2 /dev/mapper/log0 $REGION"
for k in 0 1 2; do fill "$(leg $k)" 16; done

say "a new log: everything is dirty until it is copied, and clean a second after that"
dmsetup create m --table "$(mirror 3 "$log")" 2>/dev/null && fail "words in one" || true
dmsetup create m --table "$(mirror 3 $log)"
wait_sync m
comes_to "dirty regions" 0 dirty_regions

say "writes make regions dirty, before they end"
dd if=/dev/urandom of=/dev/mapper/m bs=$((REGION * 512)) count=5 seek=3 oflag=direct status=none
dirty=$(dirty_regions)
[ "$dirty" -le 5 ] || fail "$dirty dirty regions after writes in 5"
comes_to "dirty regions later" 0 dirty_regions

say "put away and taken up again: nothing to resync"
dd if=/dev/urandom of=/dev/mapper/m bs=$((REGION * 512)) count=5 seek=3 oflag=direct status=none
dmsetup remove m
expect "dirty regions" "$(dirty_regions)" 0

say "only dirty regions are resynced: 8 is dirty and mended, 16 is clean and not looked at"
bits=/run/bits
dd if=/dev/mapper/log0 of=$bits bs=512 count=4 iflag=direct status=none
printf '\xfe' | dd of=$bits bs=1 seek=$((1024 + 3)) conv=notrunc status=none
dd if=$bits of=/dev/mapper/log0 bs=512 count=4 oflag=direct status=none
expect "dirty regions" "$(dirty_regions)" 1
for region in 8 16; do
	dd if=/dev/urandom of="$(leg 1)" bs=$((REGION * 512)) count=1 seek=$region oflag=direct status=none
done
region_sum() { dd if="$(leg "$1")" bs=$((REGION * 512)) count=1 skip="$2" iflag=direct status=none | sha256sum; }
dmsetup create m --table "$(mirror 3 $log)"
wait_sync m
dmsetup remove m
expect "region 8" "$(region_sum 1 8)" "$(region_sum 0 8)"
[ "$(region_sum 1 16)" != "$(region_sum 0 16)" ] || fail "region 16 was clean but has been copied"
dd if="$(leg 0)" of="$(leg 1)" bs=$((REGION * 512)) count=1 skip=16 seek=16 oflag=direct status=none

say "a leg that is out is no source, and comes back whole"
dmsetup create m --table "$(mirror 3 out:0 $log)"
expect "states" "$(states m)" DAA
good=$(sum_of "$(leg 1)" 16)
dd if=/dev/urandom of="$(leg 0)" bs=1M count=16 oflag=direct status=none
message m revive 0
wait_sync m
same 0 1 2
expect "leg 1" "$(sum_of "$(leg 1)" 16)" "$good"

say "a leg that is being resynced is not printed as out: the log knows that it is no source"
message m fail 0
echo 1 >/sys/module/dm_linnet/parameters/resync_throttle
message m revive 0
[[ $(dmsetup table m) != *out:* ]] || fail "a leg that is being resynced is printed as out"
echo 100 >/sys/module/dm_linnet/parameters/resync_throttle
wait_sync m
[[ $(dmsetup table m) != *out:* ]] || fail "a leg that is whole is printed as out"
dmsetup remove m

say "a log in memory knows nothing of the sort: there it is"
dmsetup create m --table "$(mirror 3 log core 1 $REGION)"
wait_sync m
message m fail 0
echo 1 >/sys/module/dm_linnet/parameters/resync_throttle
message m revive 0
expect_like "table" "$(dmsetup table m)" "out:0 log"
echo 100 >/sys/module/dm_linnet/parameters/resync_throttle
wait_sync m
dmsetup remove m
