# SPDX-License-Identifier: MIT OR Apache-2.0
# Measures what a read through the target costs, in time and in instructions, on null_blk. Prints the figures, asserts
# none.
# vm: host slow prints timeout=1800
. tests/vm/lib.sh
[ -e "$MODULES/dm-linnet.ko" ] || skip "no $MODULES/dm-linnet.ko"
run() { MODULES=$MODULES "$VMLAB" run --kernel "$KERNEL" --timeout 600 "$@"; }
export MODULES
cat >"$BUILD/vm/overhead-guest.sh" <<G
export MODULES=$MODULES
exec bash tests/vm/overhead.sh "\$@"
G
chmod +x "$BUILD/vm/overhead-guest.sh"
run -- "$BUILD/vm/overhead-guest.sh" cost 2000 5 "ns in an emulated machine"
# One CPU and a clock that counts instructions: the figure does not depend on the load of the host.
run --smp 1 --virtual-time -- "$BUILD/vm/overhead-guest.sh" cost 1000 2 instructions
run --smp 1 --virtual-time -- "$BUILD/vm/overhead-guest.sh" md 1000
# fio's latencies, compared with the noise between rounds.
run --out "$BUILD/vm/overhead" -- "$BUILD/vm/overhead-guest.sh" time "${ROUNDS:-15}" 2000
python3 tests/vm/overhead_time.py "$BUILD/vm/overhead"
