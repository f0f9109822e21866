# SPDX-License-Identifier: MIT OR Apache-2.0
# Sends random messages and table lines to replicas that are read and to a mirror that is written at the same time.
# Refused ones must change nothing, printed ones must be accepted, and the data must stay right. SEED=n for another
# round.
# vm: timeout=600
. tests/vm/lib.sh
. tests/vm/mirror.sh

seed=${SEED:-1}
load_module
make_legs
for kind in busy:4 random:1 linnos:1; do
	python3 tests/vm/make_model.py $kind /run/m
	model "${kind%:*}.linnet" /run/m
done
head -c 700 /run/m >"$FIRMWARE/damaged.linnet"
for k in 0 1 2; do fill "$(leg $k)" 16; done
want=$(sum_of "$(leg 0)" 16)
legs="$(leg 0) 0 $(leg 1) 0 $(leg 2) 0"
log="log disk 2 /dev/mapper/log0 $REGION"
read_lines=(
	"1 $(leg 0) 0 0" "1 $(leg 0) 64 1 revoke" "3 $legs 0" "3 $legs 2 policy linnos" "3 $legs 5 off model:0 linnos.linnet model:2 busy.linnet"
	"2 $(leg 0) 0 $(leg 1) 0 7 policy shortest-queue model busy.linnet revoke ioprio 0x402f" "3 $legs 3 out:1 model absent.linnet"
)
# Activating a table writes the header of its log, so these have their own.
dmsetup create log1 --table "0 2048 linear $(drive 2) $((LEG_SECTORS * 2 + 2048))"
write_lines=(
	"3 $legs 4 log core 1 128" "3 $legs 5 log core 2 1024 nosync" "2 $(leg 0) 0 $(leg 1) 0 6 out:1 log disk 2 /dev/mapper/log1 128"
	"3 $legs 10 policy linnos model linnos.linnet log disk 3 /dev/mapper/log1 64 nosync"
)

say "replicas that are read"
dmsetup create s --readonly --table "0 $LEG_SECTORS linnet 3 $legs 2 model busy.linnet"
nice -n 19 fio --name=load --filename=/dev/mapper/s --readonly --rw=randread --bs=4k --ioengine=libaio --iodepth=4 --direct=1 \
	--time_based --runtime=3000 --size=16M --output=/run/fio.txt & load=$!
"$TOOLS/dmfuzz" "$seed" 3000 300 s $LEG_SECTORS "${read_lines[@]}"
stop_fio $load /run/fio.txt
for k in 0 1 2; do message s revive $k; done
expect "errors" "$(status s errors 0)$(status s errors 1)$(status s errors 2)" 000
expect "data" "$(sum_of /dev/mapper/s 16)" "$want"
expect "in flight at the end" "$(status s inflight 0)$(status s inflight 1)$(status s inflight 2)" 000
dmsetup remove s

say "a mirror that is written"
dmsetup create m --table "0 $LEG_SECTORS linnet 3 $legs 7 model busy.linnet $log"
load m 3000 & # writes, in a separate process
"$TOOLS/dmfuzz" "$seed" 1000 0 m $LEG_SECTORS "${write_lines[@]}"
pkill -INT -o -x fio # only the parent, which stops its jobs; signals to all of them can hang one
for ((i = 0; i < 120; i++)); do pgrep -x fio >/dev/null || break; sleep 0.5; done
if pgrep -x fio >/dev/null; then
	for pid in $(pgrep -x fio); do echo "fio $pid: $(grep State "/proc/$pid/status") in $(cat "/proc/$pid/wchan")"; done
	dmsetup status m
	show_stuck
	fail "fio has not ended a minute after it was told to"
fi
wait || true
expect_like "what fio says" "$(cat /run/load)" "err= 0"
for k in 0 1 2; do message m revive $k; done
wait_sync m
same 0 1 2
dmsetup remove m

say "tables of mirrors"
dmsetup create s --readonly --table "0 $LEG_SECTORS linnet 3 $legs 0"
"$TOOLS/dmfuzz" "$seed" 0 300 s $LEG_SECTORS "${write_lines[@]}"
