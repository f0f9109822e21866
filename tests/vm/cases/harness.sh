# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests the harness: the drives exist, and a bad line in the kernel log is found.
# vm: nvme=3:256M timeout=60
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
