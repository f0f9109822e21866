# SPDX-License-Identifier: MIT OR Apache-2.0
# Legs for cases: `. tests/vm/legs.sh` after lib.sh. Three devices /dev/mapper/leg0..2 of 16 MiB, one on each drive.

LEG_SECTORS=$((16 * 2048))

leg() { echo "/dev/mapper/leg$1"; }
make_legs() {
	local k
	for k in 0 1 2; do dmsetup create "leg$k" --table "0 $LEG_SECTORS linear $(drive "$k") 0"; done
}
