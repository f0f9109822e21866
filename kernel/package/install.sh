#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Adds, builds and installs with dkms, without a package: install.sh [KERNEL-RELEASE [KDIR]]. Replaces an earlier
# install, and builds again for each other kernel that had the modules.
set -eu
release=${1:-$(uname -r)}
command -v dkms >/dev/null || { echo "missing: dkms; install it with: apt-get install dkms linux-headers-$release" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { echo "needs root: installs below /usr/src and /lib/modules" >&2; exit 1; }
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
version=$(sh "$(dirname "$0")/source.sh" "$stage")
others=$(dkms status "linnet/$version" | sed -n 's/^[^,]*, \([^,]*\), .*/\1/p' | sort -u)
dkms status "linnet/$version" | grep -q . && dkms remove "linnet/$version" --all
rm -rf "/usr/src/linnet-$version"
mkdir -p "/usr/src/linnet-$version"
cp -R "$stage/." "/usr/src/linnet-$version"
dkms add "linnet/$version"
dkms build "linnet/$version" -k "$release" ${2:+--kernelsourcedir "$2"}
dkms install "linnet/$version" -k "$release" --force
for other in $others; do
	[ "$other" = "$release" ] || dkms install "linnet/$version" -k "$other" --force ||
		echo "not built for $other; afterwards: dkms install linnet/$version -k $other" >&2
done
# Starts volumes above md at boot, in the initramfs too.
install -D -m 755 "$(dirname "$0")/boot/volume" /usr/lib/linnet/volume
install -D -m 644 -t /usr/lib/udev/rules.d "$(dirname "$0")"/boot/*.rules
for script in hooks/linnet scripts/local-premount/linnet; do
	install -D -m 755 "$(dirname "$0")/boot/initramfs/$script" "/usr/share/initramfs-tools/$script"
done
set -- /etc/linnet/volumes.d/*.conf
[ ! -e "$1" ] || echo "for the volumes in /etc/linnet/volumes.d: update-initramfs -u -k $release"
echo "installed; load them with: modprobe dm-linnet, modprobe linnet-tune"
