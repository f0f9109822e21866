# SPDX-License-Identifier: MIT OR Apache-2.0
# Replicas that return errors, stall, or vanish: reads continue on the others, and return when the replica does.
# vm: nvme=3:256M timeout=300
. tests/vm/lib.sh

load_module
python3 tests/vm/make_model.py busy:8 /run/m
model busy.linnet /run/m
for k in 0 1 2; do fill "$(drive $k)" 32; done
want=$(sum_of "$(drive 0)")
n=$(sectors "$(drive 0)")
for k in 0 1 2; do dmsetup create "leg$k" --table "0 $n linear $(drive $k) 0"; done
dmsetup create s --readonly --table \
	"0 $n linnet 3 /dev/mapper/leg0 0 /dev/mapper/leg1 0 /dev/mapper/leg2 0 2 model busy.linnet"

# become LEG TARGET: replaces the device below a replica.
become() {
	local leg=$1
	shift
	dmsetup load "$leg" --table "0 $n $*"
	dmsetup suspend --noflush "$leg"
	dmsetup resume "$leg"
}
# Reads for some seconds with each policy; every read must succeed.
load() {
	fio --name=l --filename=/dev/mapper/s --readonly --rw=randread --bs=4k --ioengine=libaio --iodepth=8 --direct=1 \
		--time_based --runtime="$1" --size=32M --output=/run/fio.txt || { cat /run/fio.txt; fail "$2: a read has failed"; }
}
for policy in linnet-best linnos ewma-inflight shortest-queue baseline; do
	message s policy $policy
	message s reset
	become leg0 error
	load 2 "$policy, replica 0 fails"
	expect "$policy: data while replica 0 fails" "$(sum_of /dev/mapper/s)" "$want"
	# Whichever meets the errors first: reads, which go on elsewhere, or the target's own probes.
	expect_some "$policy: failovers and own probes" "$(($(status s failovers) + $(status s own_probes)))"
	expect_some "$policy: errors of replica 0" "$(status s errors 0)"
	expect "$policy: state of replica 0" "$(status s state 0)" D
	become leg0 linear "$(drive 0)" 0
	for try in 1 2 3 4 5 6 7 8; do
		[ "$(status s state 0)" != A ] || break
		load 1 "$policy, replica 0 is back"
	done
	expect "$policy: state of replica 0 when it is back" "$(status s state 0)" A
	echo "$policy: $(status s failovers) failovers, $(status s errors 0) errors"
done

# All replicas fail: the application gets an error, and none after they are back.
message s policy linnet-best
for k in 0 1 2; do become leg$k error; done
if dd if=/dev/mapper/s of=/run/out bs=4k count=1 iflag=direct status=none 2>/run/dd.txt; then fail "no replica, yet no error"; fi
expect_like "what dd says" "$(cat /run/dd.txt)" "Input/output error"
for k in 0 1 2; do become leg$k linear "$(drive $k)" 0; done
expect "data after all had failed" "$(sum_of /dev/mapper/s)" "$want"

# Stalled: reads in flight wait, later reads go to other replicas.
message s reset
dmsetup suspend --noflush --nolockfs leg1
fio --name=l --filename=/dev/mapper/s --readonly --rw=randread --bs=4k --ioengine=libaio --iodepth=16 --direct=1 \
	--number_ios=1000 --norandommap --size=32M --output=/run/fio.json --output-format=json &
for try in {1..300}; do # long enough for a slow machine
	moved=$(($(status s reads 0) + $(status s reads 2)))
	[ "$moved" -le 100 ] || break
	sleep 0.2
done
stuck=$(status s inflight 1)
dmsetup resume leg1
wait $! || fail "a read has failed in a stall"
echo "stall: $stuck reads were stuck while $moved were served"
[ "$stuck" -lt 16 ] || fail "every read ran into the stalled replica"
[ "$moved" -gt 100 ] || fail "reads stood still in the stall of one replica"

# Taken out and put back by messages.
message s fail 0
expect "state" "$(status s state 0)" D
message s reset
load 1 "replica 0 is out"
expect "reads of replica 0 while it is out" "$(status s reads 0)" 0
message s fail 1
refuses message s fail 2
message s revive 0
message s revive 1
expect "states" "$(status s state 0)$(status s state 1)$(status s state 2)" AAA
load 1 "all are back"
expect "data" "$(sum_of /dev/mapper/s)" "$want"
