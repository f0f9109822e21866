# SPDX-License-Identifier: MIT OR Apache-2.0
# A debug kernel reports the faults that it watches for, and a report fails a case: each fault is caused once, on
# purpose.
# vm: kernel=6.1-debug timeout=60 alone
. tests/vm/lib.sh

outer=$LOG_MARK
found sleep 'BUG: sleeping function called from invalid context'
found cpu 'BUG: using smp_processor_id\(\) in preemptible'
found rcu 'WARNING: suspicious RCU usage'
# lockdep stops after its first report, and after one of KASAN's.
found locks 'WARNING: possible circular locking dependency'
found list 'list_del corruption'
found shift 'UBSAN: shift-out-of-bounds'
found use-after-free 'KASAN: [a-z-]*use-after-free'
found out-of-bounds 'KASAN: [a-z-]*out-of-bounds'
dmesg -C
echo "$outer" >/dev/kmsg
