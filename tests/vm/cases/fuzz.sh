# SPDX-License-Identifier: MIT OR Apache-2.0
# Sends random messages and table lines to replicas that are read, and to a volume above md that is written, at the same time.
# Refused ones must change nothing, printed ones must be accepted, and the data must stay right. SEED=n for another
# round.
# vm: timeout=900
. tests/vm/lib.sh
. tests/vm/legs.sh

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
read_lines=(
	"1 $(leg 0) 0 0" "1 $(leg 0) 64 3 revoke ioprio 0x5004" "3 $legs 0" "3 $legs 2 policy linnos" "3 $legs 5 off model:0 linnos.linnet model:2 busy.linnet"
	"2 $(leg 0) 0 $(leg 1) 0 7 policy shortest-queue model busy.linnet revoke ioprio 0x402f" "3 $legs 3 out:1 model absent.linnet"
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

for k in 0 1 2; do dmsetup remove leg$k; done

say "a volume above md that is written"
. tests/vm/md.sh
md_legs 2
md_array 2
md_volume vol 2 policy shortest-queue
trust_all vol 2
"$TOOLS/mdcheck" vol "$seed" 24 $(places 2) >/run/check 2>&1 &
check=$!
line="md $ARRAY 2 /dev/mapper/leg0 $(member_offset 0) /dev/mapper/leg1 $(member_offset 1)"
# A leg belongs to one volume: these tables are taken, and are refused when they are to be resumed.
"$TOOLS/dmfuzz" "$seed" 1000 200 vol "$(sectors $ARRAY)" "$line 0" "$line 2 policy linnos" "$line 3 off model:0 linnos.linnet"
kill -0 $check || { cat /run/check; fail "mdcheck has ended"; }
kill -TERM $check
wait $check || { cat /run/check; fail "mdcheck found a fault"; }
cat /run/check
