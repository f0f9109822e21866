# SPDX-License-Identifier: MIT OR Apache-2.0
# What a mirror's log records about its legs when the machine crashes: a leg that was out of service must not be read or
# copied from, although the next table is the original one. The crash is simulated: the state of drives and log at one
# moment is saved while the mirror runs, and restored after it has ended.
# vm: timeout=900
. tests/vm/lib.sh
. tests/vm/mirror.sh

load_module
make_legs
line=$(mirror 3 log disk 2 /dev/mapper/log0 $REGION)
names=(leg0 leg1 leg2 log0)
keep() { local n; for n in "${names[@]}"; do dd if="/dev/mapper/$n" of="/run/kept.$n" bs=1M iflag=direct status=none; done; }
put_back() { local n; for n in "${names[@]}"; do dd if="/run/kept.$n" of="/dev/mapper/$n" bs=1M oflag=direct conv=nocreat status=none; done; }
write() { dd if="$1" of=/dev/mapper/m bs=64k count=16 seek="$2" oflag=direct status=none; }
read_back() { dd if=/dev/mapper/m bs=64k count=16 skip="$1" iflag=direct status=none; }
head -c 1M /dev/urandom >/run/old
head -c 1M /dev/urandom >/run/new

say "a new log knows nothing, and trusts the first leg alone until all are in sync"
echo 1 >/sys/module/dm_linnet/parameters/resync_throttle
dmsetup create m --table "$line"
expect_like "legs" "$(log_legs)" "^11 10 10 00"
echo 100 >/sys/module/dm_linnet/parameters/resync_throttle
wait_sync m
for try in {1..50}; do [[ $(log_legs) != "11 11 11 00"* ]] || break; sleep 0.2; done
expect_like "legs" "$(log_legs)" "^11 11 11 00"

say "the first leg fails, writes go on, and everything goes down"
write /run/old 32
message m fail 0
write /run/new 32
expect_like "legs" "$(log_legs)" "^00 11 11 00"
keep
dmsetup remove m
put_back

say "the same table again: the first leg stays out, and what was acknowledged is there"
dmsetup create m --table "$line"
expect_like "states" "$(states m)" "^D"
expect_like "table" "$(dmsetup table m)" "out:0 log"
wait_sync m
expect "states" "$(states m)" DAA
expect "data" "$(read_back 32 | sha256sum)" "$(sha256sum </run/new)"
cmp -s <(dd if=/dev/mapper/leg0 bs=64k count=16 skip=32 iflag=direct status=none) /run/old || fail "leg 0 was written to"

say "it goes down once more while the leg is resynced: the resync goes on, from the others"
echo 1 >/sys/module/dm_linnet/parameters/resync_throttle
message m revive 0
expect_like "legs" "$(log_legs)" "^10 11 11 00"
keep
echo 100 >/sys/module/dm_linnet/parameters/resync_throttle
dmsetup remove m
put_back
dmsetup create m --table "$line"
wait_sync m
expect "states" "$(states m)" AAA
expect "data" "$(read_back 32 | sha256sum)" "$(sha256sum </run/new)"
same 0 1 2

say "a table loaded again in the middle of a resync goes on with it"
message m fail 0
echo 1 >/sys/module/dm_linnet/parameters/resync_throttle
message m revive 0
dmsetup load m --table "$(dmsetup table m)"
dmsetup suspend m
dmsetup resume m
expect_like "states" "$(states m)" "^R"
echo 100 >/sys/module/dm_linnet/parameters/resync_throttle
wait_sync m
same 0 1 2

say "a leg that another table left out is out until it is revived"
dmsetup remove m
dmsetup create m --table "$(mirror 2 log disk 2 /dev/mapper/log0 $REGION)"
write /run/old 64
dmsetup remove m
dmsetup create m --table "$line"
wait_sync m
expect "states" "$(states m)" AAD
message m revive 2
wait_sync m
same 0 1 2
dmsetup remove m
