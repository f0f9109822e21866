#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Helpers of the semantics cases, which check what reaches the target and what the application sees. The device
# /dev/mapper/s has one replica and revokes. Its model predicts every read as slow, so each read that may be revoked is
# revoked.
#
# A bio is printed as the kernel's probe sees it enter the device: `N` if REQ_NOWAIT is set, else `-`, then its I/O
# priority in hex. Two bios mean that the read was tried twice.
. tests/vm/lib.sh

TAG=0x5004 # best effort, level 4, with a hint: that of linnet dm create --revoke
PROBE=$(dirname "$(ls -d /sys/kernel/tracing/trace)")

# semantics_device: creates the device, without revoking.
semantics_device() {
	load_module age_ms=0 # otherwise a rare read would be a probe
	python3 tests/vm/make_model.py slow /run/slow.linnet
	model slow.linnet /run/slow.linnet
	device s 1 policy linnet-best model slow.linnet ioprio $TAG
	expect "model" "$(status s model)" loaded
	dd if=/dev/mapper/s of=/dev/null bs=4k count=4 iflag=direct status=none # the history that a network needs
	# Offsets of bi_opf, bi_ioprio and bi_iter.bi_size in struct bio, which are the same in both kernels.
	grep -q vm/bio "$PROBE/kprobe_events" 2>/dev/null ||
		echo 'p:vm/bio dm_submit_bio opf=+16(%di):x32 prio=+22(%di):x16 bytes=+40(%di):u32 who=$comm' >>"$PROBE/kprobe_events"
	# Enabled once for all rows, and without task names: switching tracepoints on and off patches code of the scheduler
	# while it runs, and qemu's emulation of several CPUs does not always survive that.
	echo 0 >"$PROBE/options/record-cmd"
	echo 1 >"$PROBE/events/vm/bio/enable"
}
# Prints only the reads of ioread and of its io_uring workers.
seen() {
	awk '/who="(ioread|iou-wrk)/ {
		opf = prio = ""
		for (i = 1; i <= NF; i++) {
			if (sub("^opf=0x", "", $i)) opf = "0000000" $i
			if (sub("^prio=0x", "", $i)) prio = $i
		}
		n = length(opf)
		if (substr(opf, n - 1) != "00") next # not a read
		# REQ_NOWAIT is bit 21: the second bit of the sixth hex digit
		nowait = index("2367abef", substr(opf, n - 5, 1)) > 0
		printf "%s%s%s", sep, nowait ? "N" : "-", prio
		sep = " "
	}' "$PROBE/trace"
}
# A device without recent reads is read once as a probe, whatever the model predicts, so each row first does another
# read.
#
# row WHAT SEEN APPLICATION REVOKES ARGUMENT...: checks one line of the table. SEEN and REVOKES may be `*` for any
# value.
row() {
	local what=$1 want_seen=$2 want_app=$3 want_revokes=$4 app before got_seen revokes
	shift 4
	message s revoke on
	before=$(status s revokes)
	echo >"$PROBE/trace"
	app=$(nice -n "${NICE:-0}" "$TOOLS/ioread" --warm /dev/mapper/s "$@" 2>&1) || true
	message s revoke off
	revokes=$(($(status s revokes) - before))
	got_seen=$(seen)
	printf '%-36s sees %-14s application %-10s revokes %s\n' "$what" "${got_seen:-nothing}" "$app" "$revokes"
	[ "$want_seen" = '*' ] || [ "$got_seen" = "$want_seen" ] || wrong "$what: the target saw '$got_seen', not '$want_seen'"
	[ "$app" = "$want_app" ] || wrong "$what: the application saw '$app', not '$want_app'"
	[ "$want_revokes" = '*' ] || [ "$revokes" = "$want_revokes" ] || wrong "$what: $revokes revokes, not $want_revokes"
}
WRONG=0
wrong() { echo "failed: $*"; WRONG=$((WRONG + 1)); }
rows_done() { expect "rows that differ" "$WRONG" 0; }

# Reads that must never be revoked, on any file system: $1 is the file or device. Page-cache reads inherit the task's
# tag, but are not revoked, because they arrive as readahead. The offset changes because earlier reads stay in the
# cache.
never_revoked() {
	row "buffered read, tagged task" '*' 4096 0 --task-ioprio $TAG --offset 1048576 "$1"
	row "buffered io_uring, tagged request" '*' 4096 0 --api uring --ioprio $TAG --offset 1114112 "$1"
	row "mmap, tagged task" '*' 4096 0 --api mmap --task-ioprio $TAG --offset 2097152 "$1"
	row "untagged preadv2" -4004 4096 0 --direct "$1"
	row "untagged libaio" -4004 4096 0 --api aio --direct "$1"
	row "another tag" -500c 4096 0 --api aio --direct --ioprio 0x500c "$1"
	# What ionice and nice values give.
	row "ionice -c2 -n7" -4007 4096 0 --direct --task-ioprio 0x4007 "$1"
	row "ionice -c3" -6007 4096 0 --direct --task-ioprio 0x6007 "$1"
	NICE=19 row "nice 19" -4007 4096 0 --direct "$1"
	row "direct write, tagged" '' 4096 0 --write --direct --task-ioprio $TAG "$1"
	row "libaio write, tagged" '' 4096 0 --api aio --write --direct --ioprio $TAG "$1"
}
# fs_rows FILE DENIED: the rows for a file on a file system where a revoked direct read ends with DENIED.
fs_rows() {
	row "preadv2 RWF_NOWAIT, untagged" -4004 4096 0 --direct --nowait "$1"
	row "libaio RWF_NOWAIT, untagged" -4004 4096 0 --api aio --direct --nowait "$1"
	row "io_uring RWF_NOWAIT, untagged" -4004 4096 0 --api uring --direct --nowait "$1"
	row "preadv2, tagged task" -5004 "$2" '*' --direct --task-ioprio $TAG "$1"
	row "libaio, tagged" -5004 "$2" '*' --api aio --direct --ioprio $TAG "$1"
	row "io_uring, tagged, RWF_NOWAIT" -5004 "$2" '*' --api uring --direct --nowait --ioprio $TAG "$1"
}
# fs_case TYPE DENIED MKFS...: the complete case for a file system.
fs_case() {
	local type=$1 denied=$2
	shift 2
	modprobe "$type" || skip "no $type here"
	semantics_device
	"$@" /dev/mapper/s >/run/mkfs.log 2>&1 || { cat /run/mkfs.log; fail "$*"; }
	mount -t "$type" /dev/mapper/s "$MNT"
	dd if=/dev/urandom of="$MNT/file" bs=1M count=4 status=none
	sync
	sum=$(sha256sum <"$MNT/file")
	umount "$MNT"
	mount -t "$type" /dev/mapper/s "$MNT"
	"$TOOLS/ioread" --direct "$MNT/file" >/run/warm.log # now the metadata is in the cache
	never_revoked "$MNT/file"
	fs_rows "$MNT/file" "$denied"
	if [ "$denied" = EAGAIN ]; then
		# io_uring retries from a worker; the application gets the result of that.
		row "io_uring, tagged" "-5004 -5004" EAGAIN 2 --api uring --direct --ioprio $TAG "$MNT/file"
	fi
	rows_done
	# The file system is intact: it is opened, read and written while everything that may be revoked is.
	message s revoke on
	cp "$MNT/file" "$MNT/copy"
	sync
	umount "$MNT"
	mount -t "$type" /dev/mapper/s "$MNT"
	expect "the copy" "$(sha256sum <"$MNT/copy" | head -c 16)" "$(sha256sum <"$MNT/file" | head -c 16)"
}
