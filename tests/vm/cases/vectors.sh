# SPDX-License-Identifier: MIT OR Apache-2.0
# The golden vectors hold for the core as this kernel compiled it; a damaged vector is detected.
# vm: nvme=3:256M timeout=240
. tests/vm/lib.sh

selftest=$MODULES/kunit/linnet-selftest.ko
[ -e "$selftest" ] || skip "no $selftest"
insmod "$selftest" || { log_since; fail "a vector does not hold"; }
log_since | grep -E 'linnet-selftest: (1\.\.|ok|not ok)'
expect_some "files checked" "$(log_since | grep -c 'linnet-selftest: ok')"
expect "files that fail" "$(log_since | grep -c 'linnet-selftest: not ok' || true)" 0
rmmod linnet_selftest

refuses insmod "$selftest" canary=features.txt
refuses insmod "$selftest" canary=no-such-file
refuses insmod "$selftest" only=no-such-file

# The same checks as a KUnit suite with its own canary, if the kernel has KUnit: its KTAP is read from the log.
kunit=$MODULES/kunit/linnet-kunit.ko
[ -e "$kunit" ] || exit 0
modprobe kunit
log_mark kunit
insmod "$kunit"
rmmod linnet_kunit
log_since | sed 's/^\[[^]]*\] *//' | grep -E '^(not )?ok [0-9]+ (vectors/|golden_holds|spoilt_|knob_runs|linnet-vectors)' >/run/ktap
grep -v vectors/ /run/ktap
files=$(ls spec/vectors/*.txt spec/vectors/*/*.txt spec/vectors/knobs/*/*.txt | wc -l)
expect "files that hold" "$(grep -c '^ok [0-9]* vectors/' /run/ktap)" "$files"
expect "what fails" "$(grep '^not ok' /run/ktap || true)" ""
expect "the suite" "$(sed -n 's/^ok [0-9]* //p' /run/ktap | grep -v / | tr '\n' ' ')" "golden_holds spoilt_vector_fails knob_runs_hold linnet-vectors "
