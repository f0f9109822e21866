# SPDX-License-Identifier: MIT OR Apache-2.0
# A drive that was removed from the bus comes back under another name, and is put back into service as docs/guide/dm.md
# says: by a table that names it; above md by a table of its leg, and mdadm. A controller that is reset under load needs no action.
# vm: nvme=4:256M timeout=900 alone
. tests/vm/lib.sh
. tests/vm/md.sh

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
# A read that is out when its controller is reset may end with an error, as it is sent fail-fast while another replica is left,
# which then answers it. Three in a row take the replica out of service, and it comes back by itself.
comes_to "state" A status s state 1
read_before=$(status s reads 1)
is_read() { if [ "$(status s reads 1)" -gt "$read_before" ]; then echo yes; fi; }
comes_to "reads after the resets" yes is_read
stop_fio $reader /run/fio.txt
errors=$(status s errors 1)
[ "$errors" -le 24 ] || fail "$errors errors at the replica, of 3 times 8 reads in flight"
expect "data" "$(sum_of /dev/mapper/s 16)" "$want"
dmsetup remove s

say "a volume above md that is written"
for k in 0 1 2; do md_leg $k; done
md_array 3
md_volume vol 3 policy shortest-queue
trust_all vol 3
uuid=$(mdadm --detail --export $ARRAY | sed -n 's/^MD_UUID=//p')
mkdir -p /etc/linnet/volumes.d
echo "uuid=$uuid" >/etc/linnet/volumes.d/vol.conf
for k in 2 0; do
	"$TOOLS/cutwriter" /dev/mapper/vol /dev/null 7 $((k + 1)) 8 4096 plain & writer=$!
	sleep 1
	pull $k
	comes_to "trust of the leg that is gone" untrusted status vol trust $k
	plug $k
	# Under udev: the drive gets no second leg, and md leaves it alone.
	dmsetup rename leg$k vol-leg$k
	left=$(dmsetup ls | wc -l)
	expect "what udev is told" "$(sh kernel/package/boot/volume leg "$(drive $k)" "$uuid" 2>/run/said)" LINNET_HELD=1
	expect_like "why" "$(cat /run/said)" "the drive of vol-leg$k has gone"
	expect "device-mapper devices" "$(dmsetup ls | wc -l)" "$left"
	dmsetup rename vol-leg$k leg$k
	mdadm --fail $ARRAY /dev/mapper/leg$k 2>/dev/null || true
	mdadm --remove $ARRAY /dev/mapper/leg$k
	dmsetup suspend leg$k
	dmsetup load leg$k --table "0 $LEG_SECTORS linnet-leg $(drive $k) 0"
	dmsetup resume leg$k
	# md refuses a drive whose last superblock is older than what the bitmap has forgotten: then it copies everything.
	mdadm --re-add $ARRAY /dev/mapper/leg$k || mdadm --add $ARRAY /dev/mapper/leg$k
	md_idle
	kill -0 $writer || fail "a write has failed"
	for j in 0 1 2; do [ "$(status vol trust $j)" = trusted ] || trust vol $j || fail "leg $j cannot be trusted"; done
	comes_to "trust" "trusted trusted trusted " trusted vol 3
	kill $writer
	wait $writer || true
done
want=$(sum_of /dev/mapper/vol 32)
dmsetup remove vol
echo check >$MD/sync_action; md_idle
expect "mismatches" "$(cat $MD/mismatch_cnt)" 0
expect "data" "$(sum_of $ARRAY 32)" "$want"
