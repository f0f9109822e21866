# SPDX-License-Identifier: MIT OR Apache-2.0
# A mirror of three legs: written data is read back, on the raw device and under ext4, and the legs are equal.
# vm: timeout=3600
. tests/vm/lib.sh
. tests/vm/mirror.sh

load_module
make_legs
for k in 0 1 2; do fill "$(leg $k)" $((k * 4 + 4)); done

say "the first resync copies leg 0"
before=$(sum_of "$(leg 0)" 16)
dmsetup create m --table "$(mirror 3 log core 1 $REGION)"
wait_sync m
expect "states" "$(states m)" AAA
expect "sync" "$(status m sync)" $REGIONS/$REGIONS
same 0 1 2
expect "leg 0" "$(sum_of "$(leg 0)" 16)" "$before"
expect "pages do not change while they are written" "$(cat "/sys/block/$(dmsetup info -c --noheadings -o blkdevname m)/queue/stable_writes")" 1

say "the table is printed as it was given"
line=$(dmsetup table m)
expect_like "table" "$line" "log core 1 $REGION"
dmsetup suspend m; dmsetup load m --table "$line"; dmsetup resume m
expect "table" "$(dmsetup table m)" "$line"
wait_sync m

say "raw: written, read, the same on each leg"
write_all m 1
same 0 1 2
for k in 0 1 2; do expect_some "writes at leg $k" "$(status m writes $k)"; done
expect "errors" "$(status m errors 0)$(status m errors 1)$(status m errors 2)" 000

say "discards go to every leg"
blkdiscard -o $((3 << 20)) -l $((5 << 20)) /dev/mapper/m
same 0 1 2

say "ext4"
mkfs.ext4 -q /dev/mapper/m
mount /dev/mapper/m "$MNT"
cp -r core crates/array/src "$MNT"
(cd "$MNT" && find . -type f -print0 | sort -z | xargs -0 sha256sum) >/run/sums
sync -f "$MNT"
umount "$MNT"
fsck.ext4 -fn /dev/mapper/m >/dev/null
same 0 1 2
dmsetup remove m
say "each leg alone holds the file system"
for k in 0 1 2; do
	mount -o ro,noload "$(leg $k)" "$MNT"
	(cd "$MNT" && sha256sum --quiet -c /run/sums)
	umount "$MNT"
done
