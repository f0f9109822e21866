# SPDX-License-Identifier: MIT OR Apache-2.0
# Helpers for cases of the mirror; source it after lib.sh. There are three legs /dev/mapper/leg0..2 of 16 MiB (LEG_MIB)
# that can be made to fail, and /dev/mapper/log0 for the dirty log, all on the machine's drives.

LEG_SECTORS=$((${LEG_MIB:-16} * 2048))
REGION=128
REGIONS=$((LEG_SECTORS / REGION))

leg() { echo "/dev/mapper/leg$1"; }
linear() { echo "0 $LEG_SECTORS linear $(drive "$1") 0"; }
make_legs() {
	local k
	for k in 0 1 2; do dmsetup create "leg$k" --table "$(linear $k)"; done
	dmsetup create log0 --table "0 2048 linear $(drive 2) $((LEG_SECTORS * 2))"
	dd if=/dev/zero of=/dev/mapper/log0 bs=1M count=1 oflag=direct status=none
}
# swap_leg K TABLE: replaces the table of leg K while I/O is in flight.
swap_leg() { dmsetup suspend --noflush "leg$1"; dmsetup load "leg$1" <<<"$2"; dmsetup resume "leg$1"; }
break_leg() { swap_leg "$1" "0 $LEG_SECTORS error"; }
mend_leg() { swap_leg "$1" "$(linear "$1")"; }
# spoil_leg K SECTOR: only the 8 sectors from SECTOR on fail on the leg.
spoil_leg() {
	local drive after=$(($2 + 8))
	drive=$(drive "$1")
	swap_leg "$1" "0 $2 linear $drive 0
$2 8 error
$after $((LEG_SECTORS - after)) linear $drive $after"
}

# mirror LEGS ARGUMENT...: prints the table line.
mirror() {
	local n=$1 k line
	shift
	line="0 $LEG_SECTORS linnet $n"
	for ((k = 0; k < n; k++)); do line+=" $(leg $k) 0"; done
	echo "$line $# $*"
}
states() { local k; for k in 0 1 2; do status "$1" state $k; done | tr -d '\n'; }
# Waits until every region is in sync and no leg resyncs.
wait_sync() {
	local try sync
	for try in {1..600}; do
		sync=$(status "$1" sync)
		if [ "${sync%/*}" = "${sync#*/}" ] && [[ $(states "$1") != *R* ]]; then return; fi
		sleep 0.2
	done
	fail "no end of the resync: $(dmsetup status "$1")"
}
# poke NAME: one write, outside the range of the loads, so that a failed leg is detected.
poke() { dd if=/dev/urandom of="/dev/mapper/$1" bs=4k count=1 seek=4000 oflag=direct status=none; }
# same K...: these legs must be equal, byte for byte. Reads the drives, below all devices of a test.
same() {
	local k first=
	for k; do
		sum=$(dd if="$(drive "$k")" bs=1M count=$((LEG_SECTORS / 2048)) iflag=direct status=none | sha256sum)
		[ -n "$first" ] || first=$sum
		expect "leg $k" "$sum" "$first"
	done
}
# The number of regions that the log on its device marks as dirty. The kernel's format has a bit for each clean region;
# the first sixteen bits are the legs' states, two bits each.
dirty_regions() {
	dd if=/dev/mapper/log0 bs=512 skip=2 count=1 iflag=direct status=none | tail -c +3 | head -c $((REGIONS / 8)) | od -An -v -tu1 |
		awk '{ for (i = 1; i <= NF; i++) for (b = $i; b > 0; b = int(b / 2)) clean += b % 2 } END { print '$REGIONS' - clean }'
}
# load NAME SECONDS: random writes, never two at a time to the same block: if two writes overlap in flight, either may
# win on each leg, as on the kernel's other mirrors.
load() {
	fio --name=load --filename="/dev/mapper/$1" --rw=randwrite --bsrange=4k-64k --size=8m --ioengine=libaio --iodepth=8 \
		--direct=1 --verify=crc32c --do_verify=0 --time_based --runtime="$2" --norandommap --serialize_overlap=1 --randseed="${3:-1}" \
		--verify_fatal=1 --output="/run/load" >/dev/null 2>&1 || { cat /run/load; return 1; }
}
# Reads all blocks that `write_all` wrote, and checks their headers and checksums.
write_all() {
	fio --name=all --filename="/dev/mapper/$1" --rw=randwrite --bs=16k --size=8m --ioengine=libaio --iodepth=8 --direct=1 \
		--verify=crc32c --do_verify="${2:-0}" --verify_fatal=1 --output=/run/all >/dev/null 2>&1 || { cat /run/all; return 1; }
}
verify_all() {
	fio --name=all --filename="/dev/mapper/$1" --rw=randread --bs=16k --size=8m --ioengine=libaio --iodepth=8 --direct=1 \
		--verify=crc32c --verify_only=1 --verify_fatal=1 --output=/run/all >/dev/null 2>&1 || { cat /run/all; return 1; }
}
# The bits of the legs in the log, first leg first: 11 trusted, 10 covers it, 00 was out of service.
log_legs() {
	dd if=/dev/mapper/log0 bs=512 skip=2 count=1 iflag=direct status=none | head -c 2 | od -An -v -tu1 |
		awk '{ for (i = 1; i <= NF; i++) for (b = 0; b < 8; b += 2) { printf "%d%d ", $i % 2, int($i / 2) % 2; $i = int($i / 4) } }'
}
