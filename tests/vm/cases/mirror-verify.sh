# SPDX-License-Identifier: MIT OR Apache-2.0
# fio writes blocks with checksums through a mirror, on the raw device, ext4 and xfs, while a leg fails and comes back,
# and then the leg fails that it is resynced from. Afterwards every block is verified through the mirror and on each
# leg.
# vm: timeout=900
LEG_MIB=48
. tests/vm/lib.sh
. tests/vm/mirror.sh

load_module
modprobe -a ext4 xfs
make_legs
# verified_io FILE ARGUMENT...: 1,024 blocks of 16 KiB, each written once.
verified_io() {
	local file=$1
	shift
	fio --name=v --filename="$file" --size=16m --bs=16k --ioengine=libaio --iodepth=8 --direct=1 --verify=crc32c --verify_fatal=1 \
		--randseed=7 --output=/run/fio.txt "$@" >/dev/null 2>&1 || { cat /run/fio.txt; return 1; }
}
verify() { verified_io "$1" --rw=randread --verify_only=1 || fail "$2"; }

# write_with_trouble FILE: at a rate that takes about 20 s, during which the faults happen.
write_with_trouble() {
	verified_io "$1" --rw=randwrite --do_verify=0 --rate_iops=50 --fsync=64 & writer=$!
	sleep 1
	break_leg 1
	comes_to legs ADA states m
	mend_leg 1
	message m revive 1
	break_leg 0
	for try in {1..300}; do [ "$(states m | head -c 1)" != D ] || break; sleep 0.1; done
	kill -0 $writer || fail "the writes were over before all this"
	mend_leg 0
	message m revive 0
	wait $writer || fail "a write has failed"
	wait_sync m
	expect "states" "$(states m)" AAA
}

say "raw"
line=$(mirror 3 log disk 2 /dev/mapper/log0 $REGION)
dmsetup create m --table "$line"
wait_sync m
write_with_trouble /dev/mapper/m
verify /dev/mapper/m "through the mirror"
dmsetup remove m
same 0 1 2
for k in 0 1 2; do verify "$(leg $k)" "leg $k"; done
# A canary: a damaged block on one leg must be found.
dd if=/dev/urandom of="$(leg 2)" bs=16k count=1 seek=100 oflag=direct status=none
if verified_io "$(leg 2)" --rw=randread --verify_only=1 >/dev/null; then fail "a spoilt block was verified"; fi

for fs in "ext4 -q -F" "xfs -q -f --unsupported"; do
	set -- $fs
	say "$1"
	type=$1
	shift
	# A leg is damaged without the log knowing.
	dmsetup create m --table "$(mirror 3 log disk 3 /dev/mapper/log0 $REGION sync)"
	wait_sync m
	mkfs."$type" "$@" /dev/mapper/m >/run/mkfs.txt 2>&1 || { cat /run/mkfs.txt; fail "mkfs.$type"; }
	mount -t "$type" /dev/mapper/m "$MNT"
	write_with_trouble "$MNT/file"
	echo 3 >/proc/sys/vm/drop_caches
	verify "$MNT/file" "$type, through the mirror"
	umount "$MNT"
	dmsetup remove m
	same 0 1 2
	for k in 0 1 2; do
		mount -t "$type" -o ro "$(leg $k)" "$MNT"
		verify "$MNT/file" "$type, leg $k"
		umount "$MNT"
	done
done
