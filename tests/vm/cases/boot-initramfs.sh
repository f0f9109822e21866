# SPDX-License-Identifier: MIT OR Apache-2.0
# The root file system is on a volume above md: Debian's initramfs puts it together, with our hook, and mounts it from
# there. Nothing is steered until trust is given. Without the module in the initramfs, and with one drive, the same root
# file system is mounted from the array; with an old description in the initramfs from an untrusted volume.
# WITHOUT=FILE takes a file out of the initramfs again, which must be noticed: WITHOUT=63-md-raid-linnet.rules in the
# first boot, WITHOUT=local-premount/linnet in the second.
# vm: host timeout=3600
set -euo pipefail
. tests/vm/lib.sh
for tool in mkinitramfs unmkinitramfs mke2fs cpio; do
	command -v $tool >/dev/null || skip "no $tool (apt-get install initramfs-tools-core e2fsprogs cpio)"
done
for tool in /lib/systemd/systemd-udevd /sbin/mdadm /sbin/dmsetup; do [ -x $tool ] || skip "no $tool"; done
[ -e "$MODULES/dm-linnet.ko" ] || skip "no $MODULES/dm-linnet.ko"
unshare -m true 2>/dev/null || skip "no mount namespaces here"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root_uuid=4b1d0c9e-0000-4000-8000-000000000042
array_uuid=11112222:33334444:55556666:77778888
kernel=$(readlink -f "$("$VMLAB" kdir "$KERNEL")")
kernel=${kernel%/usr/src/*}
release=$(ls "$kernel/lib/modules")

mkdir "$work/volumes.d"
printf 'uuid=%s\narguments=policy linnet-best model m.linnet hedge 2\n' "$array_uuid" >"$work/volumes.d/vol.conf"
# An array that is not there: created again, for instance.
printf 'uuid=%s\narguments=policy shortest-queue model:1 gone.linnet\n' "${array_uuid//1/2}" >"$work/volumes.d/other.conf"
python3 tests/vm/make_model.py busy:4 "$work/m.linnet"
# build [MODULE]: the initramfs.
build() { unshare -m bash tests/vm/initramfs-build.sh "$work" "$release" "$kernel" "$@"; }
# holds FILE: is it in the initramfs?
holds() { [ -n "$(find "$work/tree" -path "$work/tree/$1*")" ]; }
unpack() { rm -rf "$work/tree"; unmkinitramfs "$work/initrd" "$work/tree"; }
# pack OUT: the unpacked initramfs again.
pack() { (cd "$work/tree" && find . | cpio -o -H newc --quiet) >"$1"; }

# A kernel without the module.
build
unpack
expect_like "what is said without the module" "$(cat "$work/said")" "no module dm-linnet for this kernel"
! holds usr/lib/udev/rules.d/63-md-raid-linnet.rules || fail "the rule is in an initramfs without the module"
# No busybox: its programs come from the root file system.
BUSYBOX=n build "$MODULES/dm-linnet.ko"
unpack
for file in usr/bin/sed usr/bin/tr usr/bin/cat; do holds $file || fail "$file is not in an initramfs without busybox"; done
for one in 'echo a=b | sed -n s/^a=//p' 'echo A | tr A-F a-f' 'dmsetup --version' 'mdadm --version'; do
	chroot "$work/tree" /bin/sh -c "$one" >/dev/null 2>&1 || fail "does not run in an initramfs without busybox: $one"
done

build "$MODULES/dm-linnet.ko"
expect_like "what is said of a missing model" "$(cat "$work/said")" "other.conf names the model gone.linnet"
unpack
mv "$work/initrd" "$work/initrd.volume"
if [ -n "${WITHOUT:-}" ]; then
	find "$work/tree" -path "*/$WITHOUT" -print -delete
	pack "$work/initrd.volume"
fi

# The root file system has the same programs as the initramfs, and files to check.
cp -a "$work/tree" "$work/root"
rm -rf "$work/root/"{init,scripts,conf,etc/linnet/initramfs,usr/lib/modules}
mkdir -p "$work/root/"{dev,proc,sys,run,tmp,root,data,etc/linnet/volumes.d,sbin}
install -m 755 tests/vm/initramfs-init.sh "$work/root/sbin/init"
for k in {1..40}; do head -c $((20000 + k * 3001)) /dev/urandom >"$work/root/data/$k"; done
(cd "$work/root/data" && sha256sum [0-9]* >SUMS)
echo $root_uuid >"$work/root/uuid"
echo "$LOG_BAD" >"$work/root/log_bad"
mke2fs -q -t ext4 -U $root_uuid -d "$work/root" "$work/image" 56M
for k in 0 1; do truncate -s 64M "$work/drive$k"; done
"$VMLAB" run --kernel "$KERNEL" --smp 2 --timeout 900 --nbd "$work/drive0" --nbd "$work/drive1" -- \
	tests/vm/initramfs-array.sh "$array_uuid" "$work/image" || fail "no array"

# boot INITRD DRIVES WORD...: boots with these words on the kernel's command line.
boot() {
	local initrd=$1 k drives=() rc=0
	for ((k = 0; k < $2; k++)); do drives+=(--nbd "$work/drive$k"); done
	shift 2
	"$VMLAB" run --kernel "$KERNEL" --smp 2 --mem 1024 --timeout 900 "${drives[@]}" --console "$work/console" \
		--qemu -initrd --qemu "$initrd" --append "ro $*" -- /bin/true 2>"$work/err" || rc=$?
	tr -d '\r' <"$work/console" >"$work/said"
	# No status comes from a machine without the host's files.
	[ "$rc" = 125 ] && grep -q '^@found end' "$work/said" || { tail -n 60 "$work/said"; fail "the boot with '$*' ended with $rc"; }
	! grep '^@found bad' -B 20 "$work/said" || fail "the kernel's log"
}
found() { sed -n "s/^@found $1 //p" "$work/said" | sed 's/ *$//'; }
# shows KEY WANT...
shows() { for_key=$1; shift; expect "$for_key" "$(found "$for_key")" "$*"; }

boot "$work/initrd.volume" 2 "root=UUID=$root_uuid boot.trust"
shows root /dev/mapper/vol
for key in files files.late files.trusted; do shows $key right; done
for when in early late trusted; do
	expect_like "arrays" "$(found $when.arrays)" '^md[0-9]+:dm- dm-$'
	shows $when.devices vol vol-leg0 vol-leg1
	expect "link" "$(found $when.link)" "$(found $when.volume)"
done
for when in early late; do shows $when.trust untrusted untrusted; shows $when.steered 0; done
shows early.policy linnet-best
shows early.model loaded
shows work idle none
shows trusted.trust trusted trusted
expect_some "steered after trust" "$(found trusted.steered)"
array=$(found early.arrays)

# The description in the initramfs is of a volume that was released since, and its model is gone. root= names the array.
sed -i 's/^arguments=.*/arguments=policy linnet-best model older.linnet/' "$work/tree/etc/linnet/volumes.d/vol.conf"
pack "$work/initrd.old"
boot "$work/initrd.old" 2 "root=/dev/${array%%:*} boot.stranger"
shows root /dev/mapper/vol
for key in files files.late; do shows $key right; done
shows early.model model-error
for when in early late; do
	shows $when.devices vol vol-leg0 vol-leg1
	shows $when.trust untrusted untrusted
	expect "link" "$(found $when.link)" "$(found $when.volume)"
	expect_like "arrays" "$(found $when.arrays)" '^md[0-9]+:dm- dm-$'
done

find "$work/tree" -name 'dm-linnet.ko*' -delete
pack "$work/initrd.plain"
boot "$work/initrd.plain" 2 "root=UUID=$root_uuid"
expect_like "root" "$(found root)" '^/dev/md[0-9]+$'
for key in files files.late; do shows $key right; done
for when in early late; do
	expect_like "arrays" "$(found $when.arrays)" '^md[0-9]+:nvme nvme$'
	expect_like "devices" "$(found $when.devices)" '^(No devices found)?$'
done
expect_like "the log" "$(found log)" "no module dm-linnet"

boot "$work/initrd.volume" 1 "root=UUID=$root_uuid"
expect_like "root" "$(found root)" '^/dev/md[0-9]+$'
for key in files files.late; do shows $key right; done
for when in early late; do
	expect_like "arrays" "$(found $when.arrays)" '^md[0-9]+:dm-$'
	shows $when.devices vol-leg0
done
expect_like "the log" "$(found log)" "has one member"
