# SPDX-License-Identifier: MIT OR Apache-2.0
# Tables that are refused, and what the kernel log says about each. A refused table must leave nothing behind.
# vm: timeout=240
. tests/vm/lib.sh
. tests/vm/legs.sh

load_module
make_legs
three="linnet 3 $(leg 0) 0 $(leg 1) 0 $(leg 2) 0"
# says PATTERN TABLE [OPTION...]: the table must be refused, with a log line that matches PATTERN.
says() {
	local pattern=$1 table=$2
	shift 2
	log_mark table
	refuses dmsetup create x "$@" --table "$table" >/run/said
	expect_like "the log on '$table'" "$(log_since)" "$pattern"
	expect "devices that are left" "$(dmsetup ls | grep -c '^x' || true)" 0
}
outer=$LOG_MARK
all="0 $LEG_SECTORS"
says "linnet: The number of replicas is 1 to 8" "$all linnet 9"
says "linnet: A replica is <device> <offset in sectors>" "$all linnet 2 $(leg 0) 0 $(leg 1)"
says "linnet: Cannot open a replica" "$all linnet 2 $(leg 0) 0 /dev/mapper/absent 0 0"
says "too small" "0 $((LEG_SECTORS + 8)) $three 0" --readonly
says "too small" "$all linnet 2 $(leg 0) 0 $(leg 1) 8 0" --readonly
says "linnet: Replicas do not change: load the table with --readonly; .*linnet dm create --md" "$all $three 0"
says "linnet: Unknown policy: give one of baseline shortest-queue" "$all $three 2 policy fastest" --readonly
says "linnet: Unknown argument" "$all $three 1 fast" --readonly
says "linnet: An argument is given twice" "$all $three 4 policy linnos policy linnos" --readonly
says "linnet: The number of arguments is not what follows" "$all $three 1 policy linnos" --readonly
says "linnet: Invalid number of arguments" "$all $three 3 policy linnos" --readonly
says "linnet: A model's name has" "$all $three 2 model ../x" --readonly
says "linnet: No replica of that number" "$all $three 1 out:3" --readonly
says "linnet: No replica is in service" "$all $three 3 out:0 out:1 out:2" --readonly
says "linnet: ioprio takes 0x and up to four" "$all $three 2 ioprio 7" --readonly
says "linnet: revoke needs the tag" "$all $three 1 revoke" --readonly
for tag in 0x0 0x4000 0x4007 0x6007 0x1004; do
	says "linnet: This ioprio is no tag" "$all $three 3 revoke ioprio $tag" --readonly
done
says "linnet: The mirror of .log. is gone: .*linnet dm create --md" "$all $three 4 log core 1 128"
says "linnet: The mirror of .log. is gone: .*linnet dm create --md" "$all linnet 1 $(leg 0) 0 1 log"
LOG_MARK=$outer

# With other targets in one table, and with gaps: each target has its own part.
dmsetup create x --readonly <<T
0 1024 linnet 1 $(leg 0) 0 0
1024 1024 linnet 2 $(leg 1) 1024 $(leg 2) 1024 2 policy shortest-queue
T
for k in 0 1 2; do fill "$(leg $k)" 16; done
expect "data of two targets in one table" "$(sum_of /dev/mapper/x 1)" "$(sum_of "$(leg 0)" 1)"
