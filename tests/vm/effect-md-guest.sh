#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The part of effect-md.sh that runs in the machine: effect-md-guest.sh MODULES ROUNDS LEARN SCALE PRESET LOAD...
# LOAD is NAME:KIND:RATE:WRITES:READS, rates per second of the drives' time. Kinds: `raw`, reads of the device; `mixed`,
# the same beside writes to the device itself; `files`, reads of a file on ext4 or btrfs.
#
# Every peer has the same place on each drive as size, in its own window: 0 the volume, 1 plain md, 2 multipath, 3 btrfs.
# Unless the load is mixed, each drive is written outside the windows, so that it has garbage to collect.
set -euo pipefail
export MODULES=$1
rounds=$2 learn=$3 scale=$4 preset=$5
shift 5
. tests/vm/lib.sh
. tests/vm/md.sh
. tests/vm/effect-drives.sh
LEG_SECTORS=$window
log_mark effect-md
# The state of a replica expires in the drives' time, not in the machine's.
load_module age_ms=$((10 * scale))
mkdir -p "$MNT" "$FIRMWARE" "$VMLAB_OUT/reads"

# The peers above windows of the drives. What they hold is never compared, so no array is copied first.
volume() {
	md_legs 3
	md_array 3 --assume-clean
	md_volume volume 3 model m.linnet policy baseline
	trust_all volume 3
}
plain() {
	local k
	for k in 0 1 2; do dmsetup create "plain$k" --table "0 $window linear $(drive $k) $(at 1)"; done
	mdadm --create /dev/md1 --run --level=1 --metadata=1.2 --bitmap=internal --assume-clean --raid-devices=3 /dev/mapper/plain[012]
}
multipath() {
	local k line="0 $window multipath 2 queue_mode bio 0 1 1 service-time 0 3 0"
	for k in 0 1 2; do
		dmsetup create "path$k" --table "0 $window linear $(drive $k) $(at 2)"
		line+=" /dev/mapper/path$k"
	done
	modprobe -a dm-multipath dm-service-time && dmsetup create --readonly multipath --table "$line"
}
# device_of PEER: what it reads. set_policy PEER: of the volume, `POLICY` or `POLICY+hedge`.
device_of() {
	case $1 in
	md) echo /dev/md1 ;;
	multipath) echo /dev/mapper/multipath ;;
	*) echo /dev/mapper/volume ;;
	esac
}
set_policy() {
	case $1 in md | multipath | btrfs) return ;; esac
	message volume policy "${1%+hedge}"
	case $1 in *+hedge) message volume hedge 2 ;; *) message volume hedge 0 ;; esac
}
# measure NAME RATE READS PEER PATH: appends a row, and keeps every read.
measure() {
	local name=$1 rate=$2 count=$3 peer=$4 path=$5 before steered
	before=$(status volume hedges) steered=$(status volume steered)
	read_places --mode primary --rate $((rate / scale)) --reads "$count" --warmup 500 "$path"
	keep "$name" "$peer" "\"copies\": $(($(status volume hedges) - before)), \"steered\": $(($(status volume steered) - steered))"
}
# in_turn COMMAND...: runs it with each of $peers, beginning with another one in each round: the drives go on, and their
# collections meet whoever reads.
in_turn() {
	local at all
	read -ra all <<<"$peers"
	for ((round = 1; round <= rounds; round++)); do
		for ((at = 0; at < ${#all[@]}; at++)); do "$@" "${all[(at + round - 1) % ${#all[@]}]}"; done
	done
}
raw() { set_policy "$4"; measure "$@" "$(device_of "$4")"; }
# The writes are as many and as large as those that the drives get otherwise, and go beyond what is read.
mixed() {
	local writer
	set_policy "$4"
	fio --name=w --filename="$(device_of "$4")" --offset=128M --size=128M --rw=randwrite --bs=64k --ioengine=libaio --iodepth=64 \
		--direct=1 --rate_iops=$writes --rate_process=poisson --time_based --runtime=360000 --randseed=9 --output=/run/mixed 9>&- &
	writer=$!
	measure "$@" "$(device_of "$4")"
	stop_fio $writer /run/mixed
}
files() { set_policy "$4"; measure "$@" "$MNT/$(case $4 in md | btrfs) echo "$4" ;; *) echo volume ;; esac)/file"; }
mount_files() {
	local k name
	modprobe -a ext4 btrfs
	for k in 0 1 2; do dmsetup create "btrfs$k" --table "0 $window linear $(drive $k) $(at 3)"; done
	mkfs.ext4 -q -F -b 4096 /dev/mapper/volume
	mkfs.ext4 -q -F -b 4096 /dev/md1
	mkfs.btrfs -q -f -m raid1c3 -d raid1c3 /dev/mapper/btrfs[012]
	mkdir -p "$MNT"/{volume,md,btrfs}
	mount -o noatime /dev/mapper/volume "$MNT/volume"
	mount -o noatime /dev/md1 "$MNT/md"
	mount -t btrfs -o noatime,device=/dev/mapper/btrfs1,device=/dev/mapper/btrfs2 /dev/mapper/btrfs0 "$MNT/btrfs"
	set_policy baseline
	for name in volume md btrfs; do dd if=/dev/urandom of="$MNT/$name/file" bs=1M count=97 oflag=direct conv=fsync status=none; done
}
stop_writers() {
	pkill -x fio || true
	wait "${writers[@]}" 2>/dev/null || true
}

drives
IFS=: read -r _ _ rate writes _ <<<"$1"
rate=$((rate / scale)) writes=$((writes / scale))
writers
sleep 10
learn_model 0
volume
plain
with_multipath=multipath
multipath || { with_multipath=; echo "no multipath device: left out"; }
# md counts pending reads only where no member is rotational, and otherwise reads what is nearest.
for one in md0 md1; do expect "$one is rotational" "$(cat "/sys/block/$one/queue/rotational")" 0; done
ours="ewma-inflight+hedge linnet-best linnet-best+hedge"
for one in "$@"; do
	IFS=: read -r name kind rate writes reads <<<"$one"
	writes=$((writes / scale))
	pkill -x fio || true
	sleep 1
	[ "$kind" = mixed ] || writers
	[ "$kind" != files ] || mount_files
	# Trust lost meanwhile would send every read through md.
	trusts=$(trusted volume 3)
	expect "trust" "$trusts" "trusted trusted trusted "
	case $kind in
	raw) peers="md $with_multipath $ours" ;;
	mixed) peers="md $ours" ;;
	files) peers="md btrfs $ours" ;;
	*) fail "$one: no such kind" ;;
	esac
	sleep 20
	in_turn "$kind" "$name" "$rate" "$reads"
	expect "trust after $name" "$(trusted volume 3)" "$trusts"
	[ "$kind" != files ] || umount "$MNT"/*
done
dmsetup status volume
log_check
dmsetup remove volume
mdadm --stop /dev/md0 /dev/md1
dmsetup remove_all
stop_drives
