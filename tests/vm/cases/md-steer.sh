# SPDX-License-Identifier: MIT OR Apache-2.0
# A volume above md: writes through md, reads past it, trust given and taken away.
# vm: nvme=3:128M timeout=900 alone
. tests/vm/lib.sh
. tests/vm/md.sh

load_module
md_legs 2
md_array 2
say "an array that is in use by md cannot be given twice"
md_volume vol 2 policy shortest-queue
dmsetup table vol
dmsetup status vol
expect "nothing is trusted at first" "$(trusted vol 2)" "untrusted untrusted "
expect "why" "$(status vol why 0)" new
trust vol 0; trust vol 1
expect "trust waits for a write" "$(trusted vol 2)" "pending pending "
dd if=/dev/urandom of=/dev/mapper/vol bs=4k count=1 oflag=direct status=none
expect "a write has proven the legs" "$(trusted vol 2)" "trusted trusted "
dd if=/dev/mapper/vol of=/dev/null bs=4k count=200 iflag=direct status=none
expect_some "steered" "$(status vol steered)"
dmsetup status vol
mkfs.ext4 -q /dev/mapper/vol
mount /dev/mapper/vol "$MNT"
cp -r core "$MNT"
fstrim "$MNT" || true
(cd "$MNT" && find . -type f -print0 | sort -z | xargs -0 sha256sum) >/run/sums
umount "$MNT"
dmsetup status vol
expect "ext4 leaves the legs trusted" "$(trusted vol 2)" "trusted trusted "
fsck.ext4 -fn /dev/mapper/vol >/dev/null

$TOOLS/mdcheck vol 1 32 $(places 2) &
check=$!
sleep 20
kill -TERM $check
wait $check
dmsetup status vol
dmsetup remove vol
mdadm --stop $ARRAY
