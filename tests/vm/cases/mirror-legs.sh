# SPDX-License-Identifier: MIT OR Apache-2.0
# Legs of a mirror fail, stall and come back while it is written.
# vm: timeout=3600
. tests/vm/lib.sh
. tests/vm/mirror.sh

load_module
modprobe -a dm-flakey dm-delay
make_legs
dmsetup create m --table "$(mirror 3 log disk 2 /dev/mapper/log0 $REGION)"
wait_sync m

say "leg 1 breaks in the middle of writes: they go on, and nobody reads from it"
events=$(dmsetup info -c --noheadings -o events m)
write_all m & writer=$!
sleep 1
break_leg 1
wait $writer
poke m
comes_to legs ADA states m
expect_some "events" $(($(dmsetup info -c --noheadings -o events m) - events))
reads=$(status m reads 1)
verify_all m
expect "reads at the broken leg" "$(status m reads 1)" "$reads"
expect_some "regions that stay dirty as long as a leg is out" "$(sleep 2; dirty_regions)"
expect_like "table" "$(dmsetup table m)" "out:1 log disk"

say "mended and revived it is resynced whole"
mend_leg 1
dd if=/dev/urandom of="$(leg 1)" bs=1M count=16 oflag=direct status=none
message m revive 1
expect "states" "$(states m | tr A R | head -c 2)" RR
wait_sync m
expect "states" "$(states m)" AAA
same 0 1 2
verify_all m

say "leg 0 breaks while leg 2 resyncs: another becomes the source"
message m fail 2
message m revive 2
break_leg 0
write_all m 1
comes_to legs DAA states m
mend_leg 0
message m revive 0
wait_sync m
same 0 1 2

say "only writes fail"
write_all m & writer=$!
sleep 1
swap_leg 2 "0 $LEG_SECTORS flakey $(drive 2) 0 0 3600 1 error_writes"
wait $writer
poke m
comes_to legs AAD states m
mend_leg 2
message m revive 2
wait_sync m
same 0 1 2

say "a leg that breaks again while it resyncs"
message m fail 1
swap_leg 1 "0 $LEG_SECTORS flakey $(drive 1) 0 0 3600 1 error_writes"
message m revive 1
comes_to legs ADA states m
mend_leg 1
message m revive 1
wait_sync m
same 0 1 2

dmsetup remove m
