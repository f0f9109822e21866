#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# One boot of the case `boot`, in the machine: boot.sh made|again|plain|lone WORK. The host's udevd runs with the host's rules
# and ours, as at a boot. Ends without a clean shutdown where the power is cut.
set -euo pipefail
. tests/vm/lib.sh
which=$1 work=$2
linnet() { .venv/bin/linnet dm "$@"; }
log_mark "boot $which"
unset DM_DISABLE_UDEV
modprobe -a ext4 raid1 dm-mod
# Stock: the kernel would load raid1 itself, but its helper does not see the host's files here.
mkdir -p "$MNT" /usr/lib/linnet /etc/linnet/volumes.d
cp kernel/package/boot/volume /usr/lib/linnet/
cp "$work"/volumes.d/*.conf /etc/linnet/volumes.d/ 2>/dev/null || [ "$which" = made ]
[ -n "${NO_RULE:-}" ] || cp kernel/package/boot/63-md-raid-linnet.rules /lib/udev/rules.d/
[ "$which" = plain ] || install_module "$MODULES/dm-linnet.ko"
/lib/systemd/systemd-udevd --daemon
udevadm trigger --action=add --subsystem-match=block
udevadm settle

array() { for one in /sys/block/md*; do echo "${one##*/}"; done; }
members() { for one in /sys/block/"$1"/md/dev-*; do echo "${one##*/dev-}" | sed 's/[0-9].*//'; done | sort | tr '\n' ' '; }
# load: files with a sync each; what was acknowledged is noted outside of the machine.
load() {
	local k
	for ((k = 0; ; k++)); do
		head -c $((4096 * (1 + RANDOM % 40))) /dev/urandom >"$MNT/$1.$k"
		sync "$MNT/$1.$k" "$MNT"
		(cd "$MNT" && sha256sum "$1.$k") >>"$VMLAB_OUT/acknowledged"
	done
}
cut_under_load() {
	touch "$VMLAB_OUT/acknowledged"
	load "$1" &
	until [ "$(grep -c " $1\." "$VMLAB_OUT/acknowledged" 2>/dev/null)" -ge 25 ]; do sleep 0.1; done
	sleep "0.$((RANDOM % 10))"
	log_check
	echo "$1: power cut"
	echo b >/proc/sysrq-trigger
	sleep 100
}
check_files() { (cd "$MNT" && sha256sum --quiet -c "$VMLAB_OUT/acknowledged") || fail "acknowledged files are not there"; }
# found_at DEVICE: the file system's link leads there, and in udev's database no other device has it.
found_at() {
	local link=disk/by-uuid/4b1d0c9e-0000-4000-8000-000000000016 one
	expect "uuid link" "$(readlink -f "/dev/$link")" "$(readlink -f "$1")"
	for one in "/dev/$md" /dev/mapper/vol; do
		[ -e "$one" ] || continue
		[ "$one" = "$1" ] || case " $(udevadm info --query=symlink "$one") " in *" $link "*) fail "$one has the link, too" ;; esac
	done
}
# refuses_with PATTERN COMMAND...: the command must fail, and an extended regular expression finds why in what it says.
refuses_with() {
	local said
	if said=$("${@:2}" 2>&1); then fail "should have been refused: ${*:2}"; fi
	said=$(tr -s '[:space:]' ' ' <<<"$said") # lines are wrapped
	echo "$said"
	expect_like "the refusal of ${*:2}" "$said" "$1"
}
there() { [ ! -e "$1" ] || echo "$1"; }
idle() { md=$(array); comes_to "md's work" idle cat "/sys/block/$md/md/sync_action"; comes_to "resync" none cat "/sys/block/$md/md/resync_start"; }

case $which in
made)
	linnet create vol --md "$(drive 0)" "$(drive 1)" --policy shortest-queue
	udevadm settle
	expect "members" "$(members md0)" "dm- dm- "
	linnet policy vol ewma-inflight --hedge 3
	cat /etc/linnet/volumes.d/vol.conf
	cp -r /etc/linnet/volumes.d "$VMLAB_OUT/"
	idle
	linnet trust vol
	mkfs.ext4 -q -U 4b1d0c9e-0000-4000-8000-000000000016 /dev/mapper/vol
	mount /dev/mapper/vol "$MNT"
	cut_under_load first
	;;
again)
	comes_to "the volume" /dev/mapper/vol there /dev/mapper/vol
	md=$(array)
	expect "members" "$(members "$md")" "dm- dm- "
	udevadm settle
	found_at /dev/mapper/vol
	expect "policy" "$(status vol policy)" ewma-inflight
	expect "hedge" "$(status vol hedge)" 3
	for k in 0 1; do expect "trust of leg $k" "$(status vol trust $k)" untrusted; done
	mount UUID=4b1d0c9e-0000-4000-8000-000000000016 "$MNT"
	expect "what is mounted" "$(awk -v at="$MNT" '$2 == at {print $1}' /proc/mounts)" /dev/mapper/vol
	check_files
	echo 3 >/proc/sys/vm/drop_caches
	check_files
	expect "steered before trust" "$(status vol steered)" 0
	expect_like "a second start" "$(linnet start vol 2>&1)" "vol is started"
	idle
	linnet trust vol
	echo now >"$MNT/now"; sync "$MNT/now"
	for k in 0 1; do expect "trust of leg $k" "$(status vol trust $k)" trusted; done
	echo 3 >/proc/sys/vm/drop_caches
	check_files
	expect_some "steered after trust" "$(status vol steered)"
	cut_under_load second
	;;
plain)
	comes_to "the array" /dev/disk/by-uuid/4b1d0c9e-0000-4000-8000-000000000016 there /dev/disk/by-uuid/4b1d0c9e-0000-4000-8000-000000000016
	md=$(array)
	expect "members" "$(members "$md")" "nvme nvme "
	expect "devices" "$(dmsetup ls)" "No devices found"
	expect_like "the log" "$(dmesg)" "no module dm-linnet"
	mount UUID=4b1d0c9e-0000-4000-8000-000000000016 "$MNT"
	check_files
	install_module "$MODULES/dm-linnet.ko"
	refuses_with 'exclusive access' linnet start vol # mounted
	umount "$MNT"
	idle
	linnet start --all --json
	udevadm settle
	md=$(array)
	expect "members" "$(members "$md")" "dm- dm- "
	found_at /dev/mapper/vol
	mount /dev/mapper/vol "$MNT"
	check_files
	umount "$MNT"
	idle
	say "a start that fails leaves the array as it was"
	mkdir -p /run/linnet
	echo $$ >/run/linnet/vol.hold # udev looks on
	dmsetup remove vol
	mdadm --stop "/dev/$md"
	dmsetup remove vol-leg0 vol-leg1
	mdadm --assemble "/dev/$md" "$(drive 0)" "$(drive 1)"
	cp /etc/linnet/volumes.d/vol.conf /run/vol.conf
	sed -i 's/^arguments=.*/arguments=policy unheard-of/' /etc/linnet/volumes.d/vol.conf
	udevadm settle
	rm /run/linnet/vol.hold
	refuses_with 'the array /dev/md[0-9]* cannot have vol' linnet start vol
	udevadm settle
	expect "members" "$(members "$md")" "nvme nvme "
	expect "devices" "$(dmsetup ls)" "No devices found"
	say "an array that lacks a member which was in sync is not started unasked"
	echo $$ >/run/linnet/vol.hold
	cp /run/vol.conf /etc/linnet/volumes.d/vol.conf
	mdadm --stop "/dev/$md"
	dd if="$(drive 1)" of=/run/superblock bs=1M count=1 status=none
	dd if=/dev/zero of="$(drive 1)" bs=1M count=1 oflag=direct status=none
	udevadm settle
	rm /run/linnet/vol.hold
	refuses_with 'is not started. If what is missing will not come: linnet dm start --degraded vol' linnet start vol
	udevadm settle
	[ ! -e /dev/mapper/vol ] || fail "a volume of half an array"
	for one in /sys/block/md*/md/array_state; do expect_like "array" "$(cat "$one" 2>/dev/null || echo clear)" '^(inactive|clear)$'; done
	dd if=/run/superblock of="$(drive 1)" bs=1M oflag=direct status=none
	udevadm settle # The second drive has its leg now, and its array waits for the first.
	linnet start vol
	udevadm settle
	md=$(array)
	expect "members" "$(members "$md")" "dm- dm- "
	idle
	linnet release vol
	udevadm settle
	md=$(array)
	expect "members" "$(members "$md")" "nvme nvme "
	[ ! -e /etc/linnet/volumes.d/vol.conf ] || fail "the description stays"
	found_at "/dev/$md"
	# Around the array again, while udev looks on.
	linnet adopt "/dev/$md" --name vol
	udevadm settle
	expect "members" "$(members "$md")" "dm- dm- "
	found_at /dev/mapper/vol
	mount /dev/mapper/vol "$MNT"
	check_files
	umount "$MNT"
	log_check
	;;
lone)
	# One drive is missing. md waits for it, until systemd's timer mdadm-last-resort runs this command.
	comes_to "the leg" /dev/mapper/vol-leg0 there /dev/mapper/vol-leg0
	udevadm settle
	refuses_with 'is not started. If what is missing will not come: linnet dm start --degraded vol' linnet start vol
	md=$(array)
	expect "state of the array" "$(cat "/sys/block/$md/md/array_state")" inactive
	mdadm --run "/dev/$md"
	udevadm settle
	expect "members" "$(members "$md")" "dm- "
	[ ! -e /dev/mapper/vol ] || fail "a volume of one leg"
	expect_like "the log" "$(dmesg)" "vol: $md has one member"
	mount UUID=4b1d0c9e-0000-4000-8000-000000000016 "$MNT"
	check_files
	umount "$MNT"
	log_check
	;;
esac
