#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The init of the root file system of the case boot-initramfs. Prints what it finds to the console, a line
# `@found KEY VALUE` each, and powers off. Words of the kernel's command line say what it does besides:
#   boot.trust     gives the legs trust, and writes
#   boot.stranger  this root file system describes no volume
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
exec </dev/console >/dev/console 2>&1
say() { printf '\n@found %s\n' "$*"; }
is() { grep -qw "$1" /proc/cmdline; }
files() {
	echo 3 >/proc/sys/vm/drop_caches
	if (cd /data && sha256sum -c SUMS >/run/sums 2>&1); then say "$1 right"; else cat /run/sums; say "$1 WRONG"; fi
}
# status KEY: a value of the volume's status, for each leg if it is a leg's.
status() { dmsetup status vol 2>/dev/null | tr ' ' '\n' | sed -n "/^$1\$/{n;p}" | tr '\n' ' '; }
arrays() {
	for md in /sys/block/md*; do
		[ -e "$md" ] || continue
		echo "${md##*/}:$(for one in "$md"/md/dev-*; do echo "${one##*/dev-}" | sed 's/[0-9].*//'; done | tr '\n' ' ')"
	done
}
look() {
	say "$1.arrays $(arrays)"
	say "$1.devices $(dmsetup ls | cut -f 1 | sort | tr '\n' ' ')"
	say "$1.link $(readlink -f /dev/disk/by-uuid/"$uuid")"
	say "$1.volume $(readlink -f /dev/mapper/vol)"
	say "$1.trust $(status trust)"
	say "$1.steered $(status steered)"
}

read -r uuid </uuid
say "root $(sed -n 's/ \/ ext4 .*//p' /proc/mounts)"
files files
look early
say "early.policy $(status policy)"
say "early.model $(status model)"
# The root file system's own udev sees everything once more.
mount -t tmpfs none /tmp
! is boot.stranger || mount -t tmpfs none /etc/linnet/volumes.d
/lib/systemd/systemd-udevd --daemon
udevadm trigger --action=add --subsystem-match=block
udevadm settle --timeout=120
look late
files files.late
if is boot.trust; then
	say "work $(cat /sys/block/md*/md/sync_action) $(cat /sys/block/md*/md/resync_start)"
	k=0
	for generation in $(status generation); do
		dmsetup message vol 0 trust $k "$generation"
		k=$((k + 1))
	done
	mount -o remount,rw /
	head -c 300000 /dev/urandom >/data/later
	(cd /data && sha256sum later >>SUMS)
	sync
	files files.trusted
	look trusted
fi
dmesg | sed -n 's/.*\(linnet: .*\)/@found log \1/p'
dmesg | grep -E "$(cat /log_bad)" && say "bad kernel log"
udevadm control --exit
mount -o remount,ro /
sync
sleep 1 # md writes that it is clean
say "end ."
echo o >/proc/sysrq-trigger
sleep 600
