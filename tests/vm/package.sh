#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests the module that DKMS built, in the machine: package.sh DIRECTORY. Runs the commands that `linnet dm create`
# printed, unchanged. Called by cases/package.sh.
set -euo pipefail
. tests/vm/lib.sh
work=$1
log_mark package
install_module "$(echo "$work"/dm-linnet.ko*)" # compressed if the kernel's own modules are
for k in 0 1 2; do fill "$(drive $k)" 8; done
want=$(sum_of "$(drive 0)" 8)
while read -r line; do
	say "$ $line"
	bash -euc "$line"
done <"$work/lines"
expect "what the device holds" "$(sum_of /dev/mapper/vol 8)" "$want"
expect "policy" "$(status vol policy)" linnet-best
expect "model" "$(status vol model)" loaded
expect_some "decisions" "$(status vol decisions)"
dmsetup remove vol
rmmod dm_linnet
# The other module: decompressed as modprobe would.
tune=$(echo "$work"/linnet-tune.ko*)
case $tune in *.xz) xz -dc "$tune" >/run/linnet-tune.ko ;; *.zst) zstd -qdc "$tune" >/run/linnet-tune.ko ;; *) cp "$tune" /run/linnet-tune.ko ;; esac
insmod /run/linnet-tune.ko
grep -q '^kprobe page_cache_sync_ra' /sys/kernel/debug/linnet_tune/status
rmmod linnet_tune
log_check
