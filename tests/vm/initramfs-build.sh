#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes an initramfs with Debian's mkinitramfs, for the case boot-initramfs: initramfs-build.sh WORK RELEASE KERNEL-ROOT
# [MODULE]. Needs a mount namespace of its own: the kernel's modules, our files and WORK/volumes.d are put into a copy of
# this Debian (an overlay), and nothing of it stays. The result is WORK/initrd, what was said is in WORK/said.
set -euo pipefail
work=$1 release=$2 kernel=$3 module=${4:-}
# layer NAME LOWER: LOWER with changes that are kept in memory, at WORK/over/NAME/root.
layer() {
	mkdir -p "$work/over/$1/"{upper,work,root}
	mount -t overlay none -o "lowerdir=$2,upperdir=$work/over/$1/upper,workdir=$work/over/$1/work" "$work/over/$1/root"
}
mkdir -p "$work/over"
mount -t tmpfs none "$work/over"
layer debian /
root=$work/over/debian/root
mount --rbind /dev "$root/dev"
mount -t proc none "$root/proc"
layer modules "$kernel/lib/modules/$release"
mkdir -p "$root/lib/modules/$release"
mount --bind "$work/over/modules/root" "$root/lib/modules/$release"
if [ -n "$module" ]; then
	install -D -m 644 -t "$root/lib/modules/$release/updates/dkms" "$module"
	chroot "$root" depmod "$release"
fi
cp "$kernel/boot/config-$release" "$root/boot/"

files=$PWD/kernel/package/boot
install -D -m 755 -t "$root/usr/lib/linnet" "$files/volume"
install -D -m 644 -t "$root/usr/lib/udev/rules.d" "$files/63-md-raid-linnet.rules"
cp -r "$files"/initramfs/* "$root/usr/share/initramfs-tools/"
install -D -m 644 -t "$root/etc/linnet/volumes.d" "$work"/volumes.d/*
install -D -m 644 -t "$root/lib/firmware/linnet" "$work/m.linnet"
# Only what these machines need, and no configuration of this host.
find "$root/usr/share/initramfs-tools/hooks" -type f -regextype posix-extended \
	! -regex '.*/(dmsetup|klibc-utils|kmod|linnet|mdadm|udev|zz-busybox)' -delete
printf 'MODULES=list\nBUSYBOX=%s\nCOMPRESS=gzip\n' "${BUSYBOX:-auto}" >"$root/etc/initramfs-tools/initramfs.conf"
rm -rf "$root"/etc/initramfs-tools/{conf.d,hooks,scripts}/*
printf 'nvme\next4\n' >"$root/etc/initramfs-tools/modules"
chroot "$root" mkinitramfs -o /run/initrd "$release" >"$work/said" 2>&1 || { cat "$work/said"; exit 1; }
cp "$root/run/initrd" "$work/initrd"
