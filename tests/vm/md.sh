#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Volumes above md, for cases: `. tests/vm/md.sh` after lib.sh. Leg K is /dev/mapper/legK, the array /dev/md0.
ARRAY=/dev/md0
MD=/sys/block/md0/md
LEG_SECTORS=$((64 << 11))
export MDADM_NO_UDEV=1

# md_legs N: legs over the first drives. md_array N [OPTION...]: a new array of them, in sync.
md_legs() { for ((k = 0; k < $1; k++)); do md_leg "$k"; done; }
# md_leg K [DEVICE]: leg K, over a drive or what is given in its place.
md_leg() { dmsetup create "leg$1" --table "0 $LEG_SECTORS linnet-leg ${2:-$(drive "$1")} 0"; }
leg_name() { dmsetup info -c --noheadings -o blkdevname "leg$1"; }
# md_array N [OPTION...]: stops nothing; the drives' first sectors must hold no superblock.
md_array() {
	local n=$1 k
	shift
	modprobe raid1
	for ((k = 0; k < n; k++)); do mdadm --zero-superblock "/dev/mapper/leg$k" 2>/dev/null || true; done
	mdadm --create "$ARRAY" --run --level=1 --metadata=1.2 --bitmap=internal --raid-devices="$n" "$@" \
		$(for ((k = 0; k < n; k++)); do echo "/dev/mapper/leg$k"; done)
	md_idle
}
md_idle() { comes_to "md's work" idle cat "$MD/sync_action"; comes_to "the resync" none cat "$MD/resync_start"; }
# take_out K: removes leg K from the array. md lets go of a member that has failed a moment later: until then it is busy, for
# longer on a slow machine.
take_out() {
	local try
	for try in {1..300}; do
		if mdadm --remove "$ARRAY" "/dev/mapper/leg$1" || [ ! -e "$MD/dev-$(leg_name "$1")" ]; then return; fi
		sleep 0.1
	done
	fail "leg $1 stays in the array"
}
member_offset() { cat "$MD/dev-$(leg_name "$1")/offset"; }
member_state() { cat "$MD/dev-$(leg_name "$1")/state"; }
# md_volume NAME N [ARGUMENT...]: the volume above the array.
md_volume() {
	local name=$1 n=$2 k line
	shift 2
	line="0 $(sectors $ARRAY) linnet md $ARRAY $n"
	for ((k = 0; k < n; k++)); do line+=" /dev/mapper/leg$k $(member_offset "$k")"; done
	dmsetup create "$name" --table "$line $# $*"
}
# trust NAME K: as `linnet dm trust` does. Fails if md does not call the leg in sync, or the generation has passed.
trust() {
	local generation
	generation=$(status "$1" generation "$2")
	[ "$(member_state "$2")" = in_sync ] && [ "$(cat "$MD/sync_action")" = idle ] &&
		[ "$(cat "$MD/resync_start")" = none ] && [ -z "$(cat "$MD/dev-$(leg_name "$2")/bad_blocks")" ] &&
		[ -z "$(cat "$MD/dev-$(leg_name "$2")/unacknowledged_bad_blocks")" ] &&
		message "$1" trust "$2" "$generation" 2>/dev/null
}
# trust_all NAME N: every leg, with the write that it takes.
trust_all() {
	for ((k = 0; k < $2; k++)); do trust "$1" "$k" || fail "leg $k cannot be trusted"; done
	dd if=/dev/zero of="/dev/mapper/$1" bs=4k count=1 seek=8000 oflag=direct status=none
	for ((k = 0; k < $2; k++)); do expect "trust of leg $k" "$(status "$1" trust "$k")" trusted; done
}
# trusted NAME N: the trust of each leg, in one word.
trusted() { for ((k = 0; k < $2; k++)); do printf '%s ' "$(status "$1" trust "$k")"; done; }
# places N: what mdcheck needs of each leg.
places() { for ((k = 0; k < $1; k++)); do echo "$(drive "$k"):$(member_offset "$k")"; done; }
