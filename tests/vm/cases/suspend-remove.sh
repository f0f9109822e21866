# SPDX-License-Identifier: MIT OR Apache-2.0
# Suspend, resume, reload and remove while reads are in flight.
# vm: nvme=3:256M timeout=600
. tests/vm/lib.sh

load_module
python3 tests/vm/make_model.py busy:8 /run/m
model busy.linnet /run/m
for k in 0 1 2; do fill "$(drive $k)" 16; done
want=$(sum_of "$(drive 0)" 16)
device s 3 model busy.linnet
nice -n 19 fio --name=l --filename=/dev/mapper/s --readonly --rw=randread --bs=4k --ioengine=psync --numjobs=4 --direct=1 \
	--time_based --runtime=3000 --size=16M --output=/run/fio.txt &
load=$!
sleep 1
line=$(dmsetup table s)
for ((n = 0; n < 12; n++)); do
	case $((n % 3)) in
	0) dmsetup suspend s ;;
	1) dmsetup suspend --noflush s ;;
	2) dmsetup load s --readonly --table "$line"; dmsetup suspend s ;;
	esac
	# Messages and status must work while it is suspended, too, but for one that reads a file, which may lie on this device.
	message s policy linnos
	refuses message s load busy.linnet
	status s reads >/run/reads
	dmsetup resume s
	message s load busy.linnet
	message s policy linnet-best
done
expect "the table line after reloads" "$(dmsetup table s)" "$line"
# A table that is loaded while the device is suspended reads no model, whose file may lie there.
dmsetup suspend s
dmsetup load s --readonly --table "$line"
dmsetup resume s
expect "a table that was loaded while the device was suspended" "$(status s model)" model-error
message s load busy.linnet
expect "the model" "$(status s model)" loaded
refuses dmsetup remove s
expect "data" "$(sum_of /dev/mapper/s 16)" "$want"
# Removed while processes have it open: their reads fail, and nothing else does.
dmsetup remove --force s 2>&1 || true
wait $load || true
expect_like "fio" "$(cat /run/fio.txt)" "err=( 0| 5|.*Input/output)"
udevadm settle 2>/dev/null || true
for try in 1 2 3 4 5; do ! dmsetup remove s 2>/run/err || break; sleep 1; done
dmsetup info s >/run/info 2>&1 && fail "it is still there: $(cat /run/info)"
rmmod dm_linnet
load_module
device s 3
expect "data, loaded again" "$(sum_of /dev/mapper/s 16)" "$want"
