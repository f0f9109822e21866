#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests kernel clients of a modelled drive: its ublk block device, and the kernel's nbd client with the NBD server. Run
# it as root in a disposable machine with a kernel of 6.0 or later (ublk_drv, nbd), fio and nbd-client:
#     cargo build --release --examples --manifest-path crates/ublk/Cargo.toml
#     cargo build --release --examples -p linnet-nbd
#     crates/ublk/tests/vm.sh BLOCK_FIXED SERVE_FIXED      (paths of the two examples)
# Exits with 77 if the kernel lacks a module. The latency is 20 ms, so that the test also works on a slow machine.
set -eu
block_fixed=$1
serve_fixed=$2
latency_ns=20000000
work=$(mktemp -d)

fail() { echo "FAILED: $*" >&2; exit 1; }

# Writes, verifies and trims; no request may be faster than the model.
exercise() {
    common="--filename=$1 --direct=1 --ioengine=libaio --output-format=terse --terse-version=3"
    fio --name=verify $common --rw=randwrite --bs=4k-64k --size=8m --iodepth=16 \
        --verify=crc32c --do_verify=1 --verify_fatal=1 >"$work/verify" || fail "$1: data differ"
    fio --name=reads $common --rw=randread --bs=4k --size=64m --iodepth=4 --runtime=3 --time_based >"$work/reads"
    # Field 14 of fio's terse form is the minimum completion latency of reads, in microseconds.
    least_us=$(cut -d';' -f14 "$work/reads" | cut -d. -f1)
    [ "$least_us" -ge $((latency_ns / 1000)) ] || fail "$1: a read took $least_us us"
    blkdiscard -o 0 -l 4194304 "$1"
    cmp -n 4194304 "$1" /dev/zero || fail "$1: a trimmed range is not zero"
    echo "$1: verified; least read latency $least_us us"
}

modprobe ublk_drv 2>/dev/null || { echo "skipped: no ublk_drv in this kernel"; exit 77; }
mkfifo "$work/block" "$work/nbd"
"$block_fixed" $latency_ns <"$work/block" >"$work/device" &
server=$!
exec 9>"$work/block"
for _ in $(seq 100); do grep -q ublkb "$work/device" && break; sleep 0.1; done
device=$(head -1 "$work/device")
exercise "$device"
blkdiscard -z -o 4194304 -l 4194304 "$device"
mkfs.ext4 -q "$device"
mkdir "$work/mount"
mount "$device" "$work/mount"
dd if=/dev/urandom of="$work/mount/file" bs=64k count=32 conv=fsync 2>/dev/null
before=$(md5sum <"$work/mount/file")
umount "$work/mount"
mount "$device" "$work/mount"
[ "$before" = "$(md5sum <"$work/mount/file")" ] || fail "$device: a file changed over a mount"
umount "$work/mount"
echo >&9
wait $server || fail "the ublk server ended badly"
[ ! -e "$device" ] || fail "$device is still there"
tail -1 "$work/device"

modprobe nbd 2>/dev/null && command -v nbd-client >/dev/null || { echo "skipped: no nbd module or no nbd-client"; exit 77; }
"$serve_fixed" "$work/socket" $latency_ns 1073741824 <"$work/nbd" >"$work/stats" &
server=$!
exec 8>"$work/nbd"
for _ in $(seq 100); do [ -S "$work/socket" ] && break; sleep 0.1; done
nbd-client -unix "$work/socket" /dev/nbd0 -N fixed -C 2
exercise /dev/nbd0
nbd-client -d /dev/nbd0
exec 8>&-
wait $server || fail "the NBD server ended badly"
cat "$work/stats"
