# SPDX-License-Identifier: MIT OR Apache-2.0
# From a stock Debian to a steered device: the package installs, DKMS builds the module, three commands run; removal
# leaves no files. `make kernel-install` gives the same module without a package, for a given kernel, and also over an
# earlier install. The package is installed in a copy of this Debian (an overlay, deleted afterwards) with the machine's
# kernel and headers, so that the build is not emulated; the machine then loads this module.
# vm: host timeout=1800
. tests/vm/lib.sh
for tool in dkms dh_dkms dh; do
	command -v $tool >/dev/null || skip "no $tool (apt-get install dkms dh-dkms debhelper)"
done
[ -x .venv/bin/linnet ] || skip "no .venv/bin/linnet (make build)"
unshare -m true 2>/dev/null || skip "no mount namespaces here"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
make -s kernel-deb
headers=$(readlink -f "$("$VMLAB" kdir "$KERNEL")")
release=$(basename "$headers" | sed s/linux-headers-//)
cp build/linnet-dkms_*_all.deb "$work"

cat >"$work/debian.sh" <<'D'
set -eu
work=$1 headers=$2 release=$3
mount -t tmpfs none "$work/over"
mkdir "$work/over/upper" "$work/over/work" "$work/over/root"
mount -t overlay none -o "lowerdir=/,upperdir=$work/over/upper,workdir=$work/over/work" "$work/over/root"
root=$work/over/root
mount --rbind /dev "$root/dev"
mount -t proc none "$root/proc"
# Only the kernel whose headers are installed: DKMS builds for all that it finds, and the host may have others.
rm -rf "$root"/lib/modules/*
mkdir -p "$root/lib/modules/$release"
cp "${headers%/usr/src/*}/lib/modules/$release"/modules.* "$root/lib/modules/$release/"
ln -sfn "$headers" "$root/lib/modules/$release/build"
echo 'autoinstall_all_kernels="yes"' >>"$root/etc/dkms/framework.conf"
export DEBIAN_FRONTEND=noninteractive
inside() { chroot "$root" "$@"; }
# Another install may be in progress on this host; the copy then completes it for itself.
inside dpkg --configure -a >/dev/null 2>&1 || true
echo "\$ apt install ./linnet-dkms_*.deb"
inside apt-get install -qq -y --no-install-recommends "$(echo "$work"/linnet-dkms_*_all.deb)" 2>&1 | grep -v '^(Reading database' ||
	{ cat "$root"/var/lib/dkms/linnet/*/build/make.log; exit 1; }
# Postinst builds for the running kernel if that has headers; in this copy, the running kernel is the host's.
inside dkms autoinstall -k "$release"
inside dkms status linnet | tee "$work/status"
for module in dm-linnet linnet-tune; do
	for field in srcversion vermagic; do inside modinfo -k "$release" -F $field $module; done
done >"$work/info"
cp "$root/lib/modules/$release/updates/dkms/"{dm-linnet,linnet-tune}.ko* "$work/"
inside modinfo -k "$release" -n dm-linnet linnet-tune
for file in boot/volume:usr/lib/linnet/volume boot/63-md-raid-linnet.rules:usr/lib/udev/rules.d/63-md-raid-linnet.rules \
	boot/initramfs/{hooks,scripts/local-premount}/linnet; do
	[ "$file" != "${file#*:}" ] || file+=:usr/share/initramfs-tools/${file#boot/initramfs/}
	cmp "kernel/package/${file%:*}" "$root/${file#*:}"
	[ "${file%.rules}" != "$file" ] || [ -x "$root/${file#*:}" ]
done
echo "\$ apt purge linnet-dkms"
inside apt-get purge -qq -y linnet-dkms 2>&1 | grep -v '^(Reading database'
inside dkms status linnet >"$work/after"
for path in "$root"/usr/src/linnet-* "$root"/var/lib/dkms/linnet "$root/lib/modules/$release"/updates/dkms/{dm-linnet,linnet-tune}* \
	"$root/usr/lib/linnet/volume" "$root"/usr/lib/udev/rules.d/*linnet* "$root"/usr/share/initramfs-tools/{hooks,scripts/local-premount}/linnet; do
	[ ! -e "$path" ] || { echo "failed: ${path#"$root"} stays after removal"; exit 1; }
done
rm "$root/lib/modules/$release/build" # KDIR= gives the path of the headers
for attempt in 1 2; do
	echo "\$ make kernel-install RELEASE=$release KDIR=... ($attempt)"
	inside make -s -C "$PWD" kernel-install "RELEASE=$release" "KDIR=$headers" >"$work/install" 2>&1 ||
		{ cat "$work/install" "$root"/var/lib/dkms/linnet/*/build/make.log; exit 1; }
	tail -n 1 "$work/install"
done
inside dkms status linnet >"$work/again"
for module in dm-linnet linnet-tune; do
	for field in srcversion vermagic; do inside modinfo -k "$release" -F $field $module; done
done >"$work/again.info"
D
mkdir "$work/over"
unshare -m bash "$work/debian.sh" "$work" "$headers" "$release"
expect_like "dkms status" "$(cat "$work/status")" "linnet/[0-9.]+, ${release//+/[+]}, x86_64: installed"
expect "dkms after removal" "$(cat "$work/after")" ""
expect "dkms status after make kernel-install" "$(cat "$work/again")" "$(cat "$work/status")"
expect "the modules of make kernel-install" "$(cat "$work/again.info")" "$(cat "$work/info")"
for module in dm-linnet linnet-tune; do
	[ -n "$(ls "$work" | grep $module.ko)" ] || fail "DKMS left no $module.ko"
done

# The three commands as the dry run prints them, which an operator would type.
python3 tests/vm/make_model.py busy:4 "$work/m.linnet"
.venv/bin/linnet dm create vol "${NVME}0" "${NVME}1" "${NVME}2" --model "$work/m.linnet" --dry-run 2>/dev/null >"$work/lines"
expect "commands to a steered device" "$(wc -l <"$work/lines")" 3
"$VMLAB" run --kernel "$KERNEL" --smp 1 --nvme 3:64M --timeout 400 -- tests/vm/package.sh "$work"
