# SPDX-License-Identifier: MIT OR Apache-2.0
# linnet_tune: random reads through a mapping get a small readahead, scans keep theirs, each file has its own, advice is
# respected, everything is put back, and a read counts whole although the kernel waits for a part of it.
# vm: nvme=2:256M timeout=600
. tests/vm/lib.sh
. tests/vm/tune.sh

tune_disk
for name in random scan advised sequential both; do tune_file $name 32; done
tune_file spliced 16
rm -f /run/go.* /run/paused.*

expect "pages that a fault brings without the module" "$(reads random cold fault:4000)" 32
# It does not load where ftrace is off, and keeps it on: else open files could end unseen.
echo 0 >/proc/sys/kernel/ftrace_enabled
refuses tune_module
echo 1 >/proc/sys/kernel/ftrace_enabled
refuses tune_module interval_ms=1
refuses tune_module files_max=65537
tune_module
refuses bash -c "echo 0 >$PARAMETERS/files_max"
refuses bash -c "echo 0 >/proc/sys/kernel/ftrace_enabled"
expect "whether ftrace is on" "$(cat /proc/sys/kernel/ftrace_enabled)" 1
cat $DEBUG/status
expect "pages that the first fault brings" "$(reads random cold fault:4000)" 32

# Two files at the same time, and a third one whose owner has given advice.
background random until:/run/go.random:touch:60:1 done:/run/paused.random wait:/run/go.decided cold fault:5000 wait:/run/go.other cold fault:5200 wait:/run/go.device cold fault:5300 wait:/run/go.unloaded cold fault:6000
background scan until:/run/go.scan:scan:8000 done:/run/paused.scan wait:/run/go.decided cold fault:5000
background spliced until:/run/go.spliced:sendfile:4000
background advised advise:random cold touch:60:2 touch:60:3 done:/run/go.advised
background sequential until:/run/go.sequential:touch:60:4 done:/run/paused.sequential wait:/run/go.decided advise:sequential cold fault:5000 advise:normal cold fault:5000
decided random 8
decided sequential 8
comes_to "how the scan is read" sequential reading scan
comes_to "how the file is read that is sent" sequential reading spliced
touch /run/go.spliced
decided scan 0
comes_to "the end of the advised reads" yes exists /run/go.advised
# A reader that opens the file with advice is left alone, whatever the file's other readers do.
# What it brings is not counted: a second and more after the decision, when nobody else reads, it would be taken back.
many="fault:3000 fault:3500 fault:4000 fault:4500 fault:5000 fault:5500"
expect "pages of faults beside advice SEQUENTIAL" "$(echo $(reads random advise:sequential cold $many))" "64 64 64 64 64 64"
expect "pages of faults in a mapping with MADV_SEQUENTIAL" "$(echo $(reads random cold madvise:sequential fault:5500 fault:6500))" "32 32"
expect "pages of a fault by another reader of the file" "$(reads random cold fault:5500)" 2
expect "pages of a fault in a new file" "$(reads both cold fault:5000)" 32
touch /run/go.decided
comes_to "pages that a fault of the random reader brings" 2 answer random
comes_to "pages that a fault of the scanner brings" 32 answer scan
comes_to "pages after the owner's advice" "64 32" eval 'tr "\n" " " </run/out.sequential | sed "s/ $//"'
expect_some "open files that their owner changed" "$(counter left)"
expect_some "times that advice kept us away" "$(counter advised)"
cat $DEBUG/decisions $DEBUG/files

# Its owner reads the file differently: the value follows, down and up.
background both until:/run/go.both:touch:60:5 done:/run/paused.both wait:/run/go.turn until:/run/go.turned:scan:8000 wait:/run/go.unloaded cold fault:7000
decided both 8
touch /run/go.turn
comes_to "the value while it is read in order" 0 target both
touch /run/go.turned

# A dry run decides and sets nothing; what was set returns with the next read.
echo Y >$PARAMETERS/dry_run
expect "pages of a fault in a dry run" "$(reads random cold fault:5600)" 32
echo N >$PARAMETERS/dry_run
expect "pages of a fault after it" "$(reads random cold fault:5700)" 2
# Other devices are left alone.
echo "$(drive 1)" >$PARAMETERS/devices
expect "pages of a fault on a device that is not tuned" "$(reads random cold fault:5600)" 32
# What was set there before returns.
touch /run/go.other
comes_to "pages that a fault of the random reader brings there" 32 answer random
drive 0 >$PARAMETERS/devices
touch /run/go.device
comes_to "pages that it brings when its device is tuned again" 2 answer random
refuses bash -c "echo /dev/nothing >$PARAMETERS/devices"
expect_like "the devices" "$(cat $PARAMETERS/devices)" '^[0-9]+:[0-9]+$'

expect_some "open files with a value of ours" "$(counter open_files)"
# With all kprobes turned off nothing is set, but the end of an open file is still seen.
reads random touch:20:6 done:/run/go.more wait:/run/go.off >/dev/null &
short=$!
comes_to "another reader" yes exists /run/go.more
more=$(counter open_files)
echo 0 >/sys/kernel/debug/kprobes/enabled
touch /run/go.off
wait $short
expect "open files with a value of ours after one has ended" "$(counter open_files)" $((more - 1))
echo 1 >/sys/kernel/debug/kprobes/enabled
expect "events without room" "$(counter lost)" 0
rmmod linnet_tune
touch /run/go.unloaded
comes_to "pages that a fault of the random reader brings without the module" 32 answer random
comes_to "pages that a fault of the other one brings" 32 answer both
wait

# A reader that catches up with its readahead: the last 12 pages of each 32 are on their way when it asks for all.
modprobe dm-delay
dmsetup create late --table "0 $(sectors "$(drive 1)") delay $(drive 1) 0 100 $(drive 1) 0 0"
umount "$MNT"
tune_disk /dev/mapper/late
tune_file late 32
tune_module devices=/dev/mapper/late
background late until:/run/go.late:late:40
comes_to "the value for runs of 32 pages" 64 target late
expect_like "what the module says of them" "$(cat $DEBUG/decisions)" ' late 128 -> 64 KiB: runs, 32\.0 pages between jumps'
touch /run/go.late
wait
expect_some "reads of which pages were on their way" "$(awk '{n += $1} END {print n + 0}' /run/out.late)"
cat /run/out.late $DEBUG/decisions
