# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests the harness: the drives exist, and a bad line in the kernel log is found.
# vm: nvme=3:256M timeout=120
. tests/vm/lib.sh

for k in 0 1 2; do
	expect "sectors of drive $k" "$(sectors "$(drive $k)")" 524288
done
fill "$(drive 0)" 4
fill "$(drive 1)" 4
expect "two drives filled alike" "$(sum_of "$(drive 0)" 4)" "$(sum_of "$(drive 1)" 4)"

# Marks separate this log from the case's own log.
outer=$LOG_MARK
log_mark canary
log_check
echo "WARNING: canary of the harness" >/dev/kmsg
if (log_check) >/dev/null; then fail "a warning in the log was not found"; fi
# The mark may be the first line of the log, and the text after the warning may be longer than a pipe holds.
dmesg -C
log_mark first
echo on >/proc/sys/kernel/printk_devkmsg
echo "WARNING: canary of the harness" >/dev/kmsg
if (log_check) >/dev/null; then fail "a warning behind the first line was not found"; fi
line=$(printf '%0900d' 0)
for ((n = 0; n < 100; n++)); do echo "$line" >/dev/kmsg; done
if (log_check) >/dev/null; then fail "a warning in a long log was not found"; fi
dmesg -C
if (log_check) >/dev/null; then fail "a log that has lost its beginning was taken for clean"; fi
echo "$outer" >/dev/kmsg

# Of a machine that hung, the kernel's report is shown.
shown() {
	python3 -c 'import sys; sys.path.insert(0, "tests/vm"); import run; print(*map(run.stalled, sys.argv[1:]))' "$@"
}
stall="[ 21.0] rcu: INFO: rcu_preempt self-detected stall on CPU"
expect "the report of a stall" "$(shown "[ 1.0] nfsd: started
$stall" "[ 1.0] nfsd: started")" "['the kernel logged:', '$stall'] []"

# A breakpoint that the emulator ran at a place that has none is told from one that was there, and from a null pointer.
stale() {
	python3 -c 'import sys; sys.path.insert(0, "tests/vm"); import run; print(*map(run.has_stale_breakpoint, sys.argv[1:]))' "$@"
}
first="[ 1.0] int3: 0000 [#1] PREEMPT SMP
[ 1.0] RIP: 0010:filemap_fault+0x6/0x910
[ 1.0] Code: 90 90 e8 <1b> a5 87"
null="[ 1.0] BUG: kernel NULL pointer dereference, address: 0000000000000000
[ 1.0] RIP: 0010:0x0
[ 1.0] Code: Unable to access opcode bytes at 0xffffffffffffffd6.
[ 1.0] RIP: 0033:0x7f165e9492ad
[ 1.0] Code: 31 c0 0f 05 <48> 3d 00"
second="$null
[ 1.1] Unrecoverable kprobe detected.
[ 1.1] RIP: 0010:reenter_kprobe.cold+0x14/0x16
[ 1.1] Code: e8 e5 d1 00 00 <0f> 0b
[ 1.1]  asm_exc_int3+0x35/0x40
[ 1.1] RIP: 0010:filemap_read+0x1/0x340
[ 1.1] Code: 00 00 e8 <db> 28 0a
[ 1.1] RIP: 0033:0x7f165e9492ad
[ 1.1] Code: 31 c0 0f 05 <48> 3d 00"
# At a kprobe, seen at its first report: the fault called a function, and the kernel went on at 0 with interrupts off.
third="[ 1.0] BUG: kernel NULL pointer dereference, address: 0000000000000000
[ 1.0] RIP: 0010:0x0
[ 1.0] Code: Unable to access opcode bytes at 0xffffffffffffffd6.
[ 1.0] RSP: 0000:ffffc900004f3db0 EFLAGS: 00000082
[ 1.0] RAX: ffffffff81282fe0 RBX: ffffc900004f3e00 RCX: ffff88807ffa5000
[ 1.0] CR2: ffffffffffffffd6 CR3: 0000000008016000 CR4: 00000000001506e0
[ 1.0] Call Trace:
[ 1.0]  <TASK>
[ 1.0]  ? exc_page_fault+0x70/0x170
[ 1.0]  do_fault+0x1a4/0x410
[ 1.0]  __handle_mm_fault+0x660/0xfa0
[ 1.0]  </TASK>
[ 1.0] Modules linked in: linnet_tune(OE+) ext4 crc16"
expect "stale breakpoints" "$(stale "$first" "${first/e8/cc}" "$null" "$second" "${second/00 e8/00 cc}")" "True False False True False"
later="[ 0.9] RIP: 0010:bio_endio+0x1/0x9
$third"
expect "breakpoints at a kprobe" "$(stale "$third" "${third/ do_fault/ __do_fault}")" "True True"
expect "null pointers that look alike" "$(stale "${third/00000082/00000282}" "${third/ffffffff81282fe0/0000000000000000}" \
	"${third/ do_fault/ bio_endio}" "${third/ do_fault/ enter_fault}" "${third/linnet_tune/linnet}" "$later")" \
	"False False False False False False"
