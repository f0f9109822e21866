# SPDX-License-Identifier: MIT OR Apache-2.0
# The model is swapped 1,000 times under load. No read may fail, get lost or return other data. Damaged and missing
# files leave the old model in place.
# vm: nvme=3:256M timeout=900
. tests/vm/lib.sh

load_module
for kind in fast busy:4 random:1 linnos:1; do
	python3 tests/vm/make_model.py $kind /run/m
	model "${kind%:*}.linnet" /run/m
done
for k in 0 1 2; do fill "$(drive $k)" 32; done
device s 3 policy linnet-best model busy.linnet
want=$(sum_of "$(drive 0)")

# fio checks its own counters; a second reader compares the data.
nice -n 19 fio --name=load --filename=/dev/mapper/s --readonly --rw=randread --bs=4k --ioengine=libaio --iodepth=8 --direct=1 \
	--time_based --runtime=3000 --size=32M --output=/run/fio.json --output-format=json &
load=$!
( while [ ! -e /run/stop ]; do [ "$(sum_of /dev/mapper/s)" = "$want" ] || { echo "data differ" >/run/differ; break; }; done ) &
reader=$!
renice -n 19 $reader >/dev/null
kind=(fast busy random linnos) policy=(linnos linnet-best)
for ((n = 0; n < 1000; n++)); do
	[ $((n % 50)) != 0 ] || echo "s policy ${policy[n / 50 % 2]}"
	echo "s load ${kind[n % 4]}.linnet"
done >/run/swaps
before=$(status s reads)
"$TOOLS/dmctl" messages </run/swaps
swapped_under=$(($(status s reads) - before))
expect "model" "$(status s model)" loaded
expect_some "reads while the model was swapped" "$swapped_under"

# All kinds of damage.
cp "$FIRMWARE/busy.linnet" /run/good
head -c 500 /run/good >"$FIRMWARE/short.linnet"
: >"$FIRMWARE/empty.linnet"
(cat /run/good; echo) >"$FIRMWARE/long.linnet"
head -c 5000 /dev/urandom >"$FIRMWARE/noise.linnet"
cp /run/good "$FIRMWARE/flip.linnet"
printf '\x55' | dd of="$FIRMWARE/flip.linnet" bs=1 seek=700 conv=notrunc status=none
table=$(dmsetup table s)
for bad in short empty long noise flip absent; do refuses message s load $bad.linnet; done
refuses message s load ../good
expect "the table after what was refused" "$(dmsetup table s)" "$table"
expect "model after what was refused" "$(status s model)" loaded

kill -INT $load
wait $load || true
sed -i -n '/^{/,$p' /run/fio.json # before the JSON it prints what ended it
touch /run/stop
wait $reader
[ ! -e /run/differ ] || fail "data differ"
total=$(python3 -c "
import json
j = json.load(open('/run/fio.json'))['jobs'][0]
assert j['error'] in (0, 4), j['error']
print(j['read']['total_ios'])")
echo "1000 swaps during $swapped_under reads; reads of the replicas: $(status s reads 0) $(status s reads 1) $(status s reads 2)"
expect "errors" "$(status s errors 0)$(status s errors 1)$(status s errors 2)" 000
expect_some "decisions" "$(status s decisions)"
sum=$(($(status s reads 0) + $(status s reads 1) + $(status s reads 2)))
expect "reads of the replicas, together" "$sum" "$(($(status s reads) + $(status s own_probes)))"
[ "$sum" -ge "$total" ] || fail "fio has read $total times, the replicas $sum times"
dmsetup remove s

# Loading a table with a damaged model works, and is reported.
device s 3 model flip.linnet
expect "model" "$(status s model)" model-error
expect "data" "$(sum_of /dev/mapper/s)" "$want"
