# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests the raw device: what reaches the target and what the application sees, for every way of reading.
# vm: nvme=3:512M timeout=400
. tests/vm/semantics.sh

semantics_device
dev=/dev/mapper/s
never_revoked $dev
# RWF_NOWAIT is no tag, although it does reach the target here; io_uring sets it on every first attempt.
row "preadv2 RWF_NOWAIT, untagged" N4004 4096 0 --direct --nowait $dev
row "libaio RWF_NOWAIT, untagged" N4004 4096 0 --api aio --direct --nowait $dev
row "io_uring RWF_NOWAIT, untagged" N4004 4096 0 --api uring --direct --nowait $dev
row "io_uring, untagged" N4004 4096 0 --api uring --direct $dev
row "preadv2, tagged task" -5004 EAGAIN 1 --direct --task-ioprio $TAG $dev
row "libaio, tagged" -5004 EAGAIN 1 --api aio --direct --ioprio $TAG $dev
row "libaio, tagged, RWF_NOWAIT" N5004 EAGAIN 1 --api aio --direct --nowait --ioprio $TAG $dev
row "io_uring, tagged" "N5004 -5004" EAGAIN 2 --api uring --direct --ioprio $TAG $dev
row "io_uring, tagged, RWF_NOWAIT" N5004 EAGAIN 1 --api uring --direct --nowait --ioprio $TAG $dev
# io_uring with polling, on drives without poll queues. 6.1 does not support it tagged without RWF_NOWAIT: io_uring then
# retries for ever after any refusal.
case $(uname -r) in
6.1.*) polled=4096 tagged=EAGAIN seen=N5004 ;;
*) polled=EOPNOTSUPP tagged=EOPNOTSUPP seen= ;;
esac
row "io_uring, polled" '*' $polled 0 --api uring --direct --hipri $dev
row "io_uring, polled, tagged, RWF_NOWAIT" "$seen" $tagged '*' --api uring --direct --hipri --nowait --ioprio $TAG $dev

for bad in 0x0 0x4000 0x4007 0x6007; do refuses message s ioprio $bad; done
message s ioprio 0x500c
row "the other tag now" -500c EAGAIN 1 --api aio --direct --ioprio 0x500c $dev
row "and no more this one" -5004 4096 0 --api aio --direct --ioprio $TAG $dev
message s ioprio $TAG
message s off
row "switched off" -5004 4096 0 --api aio --direct --ioprio $TAG $dev
message s on
message s unload
row "no model" -5004 4096 0 --api aio --direct --ioprio $TAG $dev
message s load slow.linnet
row "the model again" -5004 EAGAIN 1 --api aio --direct --ioprio $TAG $dev
rows_done
