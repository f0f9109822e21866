# SPDX-License-Identifier: MIT OR Apache-2.0
# The library of knobs computes the same bits in this kernel as in user space, in both of its modes: models that user space
# trained decide in the kernel (the golden files), and the kernel trains and decides by itself (the runs).
# vm: nvme=3:256M timeout=400
. tests/vm/lib.sh

selftest=$MODULES/kunit/linnet-selftest.ko
[ -e "$selftest" ] || skip "no $selftest"
insmod "$selftest" only=knobs/ || { log_since; fail "a vector does not hold"; }
rmmod linnet_selftest

log_since | sed 's/^\[[^]]*\] *//' >/run/log
here=$(cd spec && "$TOOLS/knobs" vectors/knobs/*/*.txt)
# Files with a model or a refusal, and the number of checks of each.
grep -E '^linnet-selftest: ok [0-9]+ vectors/knobs/' /run/log | sed -E 's/.* ok [0-9]+ (.*) # ([0-9]+) checks/knob-file \1 \2/' | sort >/run/kernel.files
grep '^knob-file ' <<<"$here" | sort >/run/user.files
expect_some "files" "$(wc -l </run/kernel.files)"
cmp /run/kernel.files /run/user.files || { diff /run/kernel.files /run/user.files; fail "files are not checked alike"; }
# Training, inference, normaliser, ring, trees, decisions: a hash of every bit.
grep '^knob-run ' /run/log >/run/kernel.runs
grep '^knob-run ' <<<"$here" >/run/user.runs
cat /run/kernel.runs
expect "runs" "$(wc -l </run/kernel.runs)" 13
cmp /run/kernel.runs /run/user.runs || { diff /run/kernel.runs /run/user.runs; fail "the kernel computes other bits"; }

refuses insmod "$selftest" only=knobs/ canary=readahead-both
# A hash that differs is found.
if sed '1s/.$/x/' /run/user.runs | cmp -s - /run/kernel.runs; then fail "a wrong hash was not found"; fi
