# SPDX-License-Identifier: MIT OR Apache-2.0
# A mirror is suspended, reloaded, and gets fail and revive messages while it is written and resynced.
# vm: timeout=3600
. tests/vm/lib.sh
. tests/vm/mirror.sh

load_module resync_throttle=20
make_legs
line=$(mirror 3 log disk 2 /dev/mapper/log0 $REGION)
dmsetup create m --table "$line"

say "suspended and resumed while it resyncs"
for try in 1 2 3; do
	dmsetup suspend m
	refuses message m revive 1
	dmsetup resume m
	sleep 0.2
done
echo 100 >/sys/module/dm_linnet/parameters/resync_throttle
wait_sync m
same 0 1 2

say "and under load"
load m 8 & loader=$!
sleep 1
for try in 1 2 3 4; do
	sleep 1
	dmsetup suspend m
	dmsetup resume m
done
wait $loader
same 0 1 2

# Each writer waits for its own write, and has its own blocks. RELOADS=n for more reloads.
say "the table is loaded again under load"
for ((try = 1; try <= ${RELOADS:-4}; try++)); do
	"$TOOLS/cutwriter" /dev/mapper/m /dev/null 7 $try 8 4096 plain & writer=$!
	sleep 0.5
	dmsetup load m --table "$line"
	dmsetup suspend m
	dmsetup resume m
	sleep 0.2
	kill -0 $writer || fail "a write has failed"
	kill $writer
	wait $writer || true
	wait_sync m
	same 0 1 2
done

say "legs leave and come back under load"
load m 10 3 & loader=$!
sleep 1
for k in 0 1 2 0 1 2; do
	message m fail $k
	sleep 0.3
	message m revive $k
	sleep 0.5
	[ $k != 1 ] || { dmsetup suspend m; dmsetup resume m; }
	wait_sync m
done
wait $loader
wait_sync m
same 0 1 2

dmsetup remove m
