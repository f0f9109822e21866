# SPDX-License-Identifier: MIT OR Apache-2.0
# A volume above md comes back after a power cut under load: udev puts the array on the legs, the volume above it,
# nothing is steered until trust is given, and what was acknowledged is there. Without the module the array starts on its
# drives, and with one drive without the volume. The host's systemd-udevd runs in the machine, with Debian's rules for md;
# the case boot-initramfs tests the initramfs. NO_RULE=1 leaves our rule out, and the second boot must then fail.
# vm: host timeout=3600
. tests/vm/lib.sh
[ -x /lib/systemd/systemd-udevd ] || skip "no systemd-udevd"
[ -x .venv/bin/linnet ] || skip "no .venv/bin/linnet (make build)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for k in 0 1; do truncate -s 96M "$work/drive$k"; done
# boot WHICH WANTED-STATUS: 125 is a machine that ended without one, as with a power cut.
boot() {
	local rc=0 drives=(--nbd "$work/drive0" --nbd "$work/drive1")
	[ "$1" != lone ] || drives=(--nbd "$work/drive0")
	"$VMLAB" run --kernel "$KERNEL" --smp 2 --timeout 900 --out "$work" "${drives[@]}" -- \
		/usr/bin/env "MODULES=$MODULES" "NO_RULE=${NO_RULE:-}" bash tests/vm/boot.sh "$1" "$work" 2>"$work/err" || rc=$?
	[ "$rc" = "$2" ] || { cat "$work/err"; fail "the boot '$1' ended with $rc, not $2"; }
}
boot made 125
boot again 125
boot plain 0
boot lone 0
expect_like "acknowledged files" "$(wc -l <"$work/acknowledged")" '^[0-9]{2,}'
