# SPDX-License-Identifier: MIT OR Apache-2.0
# What a read costs through the target, in time and in instructions, on null_blk. Prints the figures and asserts none.
# vm: host slow timeout=900
. tests/vm/lib.sh
[ -e "$MODULES/dm-linnet.ko" ] || skip "no $MODULES/dm-linnet.ko"
run() { MODULES=$MODULES "$VMLAB" run --kernel "$KERNEL" --timeout 420 "$@"; }
export MODULES
cat >"$BUILD/vm/overhead-guest.sh" <<G
export MODULES=$MODULES
exec bash tests/vm/overhead.sh "\$@"
G
chmod +x "$BUILD/vm/overhead-guest.sh"
run -- "$BUILD/vm/overhead-guest.sh" 2000 5 "ns in an emulated machine"
# One CPU and a clock that counts instructions: the same figure on a busy host.
run --smp 1 --virtual-time -- "$BUILD/vm/overhead-guest.sh" 1000 2 instructions
