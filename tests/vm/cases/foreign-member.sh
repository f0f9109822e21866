# SPDX-License-Identifier: MIT OR Apache-2.0
# A drive without a leg becomes a member of the array, and md gives up all legs: what is then written around the volume passes
# none of them. udev has seen the member come, and the volume's legs have lost their trust before.
# vm: nvme=3:128M timeout=600 alone
. tests/vm/lib.sh
. tests/vm/md.sh
[ -x /lib/systemd/systemd-udevd ] || skip "no udev"
load_module
md_legs 2
md_array 2
md_volume vol 2 policy shortest-queue
unset DM_DISABLE_UDEV MDADM_NO_UDEV
mkdir -p /usr/lib/linnet
cp kernel/package/boot/volume /usr/lib/linnet/
cp kernel/package/boot/63-md-raid-linnet.rules /lib/udev/rules.d/
/lib/systemd/systemd-udevd --daemon
udevadm trigger --action=add --subsystem-match=block
udevadm settle
for word in A B; do head -c 4096 /dev/zero | tr '\0' "$word" >"/run/$word"; done
dd if=/run/A of=/dev/mapper/vol bs=4k count=1 seek=100 oflag=direct status=none
trust_all vol 2
udevadm settle
say "events of the array alone take no trust"
: >>$ARRAY
udevadm settle
expect "trust" "$(trusted vol 2)" "trusted trusted "

say "a member that is no leg"
mdadm --add $ARRAY "$(drive 2)"
udevadm settle
expect "trust" "$(trusted vol 2)" "untrusted untrusted "
expect "why" "$(status vol why 0)" told
grep -q 'and is no leg of it; reads go through md' <(dmesg) || fail "the log says nothing"
mdadm --grow $ARRAY --raid-devices=3
md_idle
mdadm $ARRAY --fail /dev/mapper/leg0
mdadm $ARRAY --fail /dev/mapper/leg1
dd if=/run/B of=$ARRAY bs=4k count=1 seek=100 oflag=direct status=none
dd if=/dev/mapper/vol of=/run/got bs=4k count=1 skip=100 iflag=direct status=none
cmp /run/got /run/B || fail "the volume has what md no longer has"
dmsetup remove vol
log_check
