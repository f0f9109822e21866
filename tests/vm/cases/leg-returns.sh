# SPDX-License-Identifier: MIT OR Apache-2.0
# A drive that was removed from the bus comes back under another name, and is put back into service as docs/guide/dm.md
# says: by a table that names it, and on a mirror by `revive`. A controller that is reset under load needs no action.
# vm: nvme=4:256M timeout=900 alone
. tests/vm/lib.sh
. tests/vm/mirror.sh

# plug K: rescans the bus, and finds the drive by its serial number, whatever its name is now.
plug() {
	local try block
	echo 1 >/sys/bus/pci/rescan
	for try in {1..150}; do
		for block in /sys/block/nvme*n*; do
			[ "$(tr -d ' ' <"$block/device/serial" 2>/dev/null)" = "vmlab$1" ] && [ "$(cat "$block/size")" -gt 0 ] || continue
			[ "$(cat "$block/device/state")" = live ] || continue
			ln -sfn "../${block##*/}" "$NVME$1"
			return
		done
		sleep 0.2
	done
	fail "drive $1 does not come back"
}
# replace NAME K DRIVE [--readonly]: what an operator does: reloads the device's table with the drive's new name for
# replica K.
replace() {
	local words
	read -ra words <<<"$(dmsetup table "$1")"
	words[4 + 2 * $2]=$3
	dmsetup load "$1" ${4:+"$4"} --table "${words[*]}"
	dmsetup suspend "$1"
	dmsetup resume "$1"
}

load_module
say "replicas that are read"
for k in 0 1 2; do fill "$(drive $k)" 16; done
want=$(sum_of "$(drive 1)" 16)
device s 3 policy shortest-queue
fio --name=l --filename=/dev/mapper/s --readonly --rw=randread --bs=4k --ioengine=libaio --iodepth=8 --direct=1 \
	--time_based --runtime=3600 --size=16M --output=/run/fio.txt & reader=$!
while [ "$(status s reads 1)" -lt 100 ]; do sleep 0.2; done
was=$(drive 0)
pull 0
comes_to "state of the replica that is gone" D status s state 0
plug 0
say "drive 0 was $was and is $(drive 0)"
[ "$(drive 0)" != "$was" ] || fail "the name is free although the target holds the drive"
message s revive 0 # no effect: the drive in the table is gone
comes_to "state before the table names it" D status s state 0
expect "the drive that came back" "$(sum_of "$(drive 0)" 16)" "$want"
replace s 0 "$(drive 0)" --readonly
while [ "$(status s reads 1)" -lt 100 ]; do sleep 0.2; done
expect "state" "$(for k in 0 1 2; do status s state $k; done | tr -d '\n')" AAA
expect_some "reads at the drive that came back" "$(status s reads 0)"
expect "errors there" "$(status s errors 0)" 0
expect "failovers since" "$(status s failovers)" 0

if [[ $(uname -r) == 6.1.* ]]; then
	say "no controller is reset: on this kernel an emulated drive that is reset under load may never answer again, with no target above it"
else
	say "a controller that is reset"
	for n in 1 2 3; do
		echo 1 >"/sys/block/$(basename "$(drive 1)")/device/reset_controller"
		sleep 0.5
	done
fi
stop_fio $reader /run/fio.txt
expect "errors" "$(status s errors 1)" 0
expect "state" "$(status s state 1)" A
expect "data" "$(sum_of /dev/mapper/s 16)" "$want"
dmsetup remove s

# come_back LEG LOG: during writes a leg is removed, comes back, is put into the table and revived.
come_back() {
	local k=$1 out=AAA
	out=${out:0:k}D${out:k+1}
	"$TOOLS/cutwriter" /dev/mapper/m /dev/null 7 $((k + 1)) 8 4096 plain & writer=$!
	sleep 1
	pull "$k"
	comes_to legs "$out" states m
	plug "$k"
	expect_like "the table keeps it out" "$(dmsetup table m)" " out:$k log "
	replace m "$k" "$(drive "$k")"
	expect "it waits for its operator" "$(status m state "$k")" D
	writes=$(status m writes "$k")
	message m revive "$k"
	wait_sync m
	expect "states" "$(states m)" AAA
	sleep 1
	expect_some "writes at leg $k" "$(($(status m writes "$k") - writes))"
	expect "errors there" "$(status m errors "$k")" 0
	kill -0 $writer || fail "a write has failed"
	kill $writer
	wait $writer || true
	write_all m 1
	same 0 1 2
}
for log in "disk 2 $(drive 3) $REGION" "core 1 $REGION"; do
	say "a mirror that is written, log ${log%% *}"
	dd if=/dev/zero of="$(drive 3)" bs=1M count=1 oflag=direct status=none
	for k in 0 1 2; do dd if=/dev/urandom of="$(drive $k)" bs=1M count=16 oflag=direct status=none; done
	dmsetup create m --table "0 $LEG_SECTORS linnet 3 $(drive 0) 0 $(drive 1) 0 $(drive 2) 0 $((3 + $(wc -w <<<"$log"))) policy shortest-queue log $log"
	wait_sync m
	come_back 2
	come_back 0
	verify_all m
	dmsetup remove m
done
