# SPDX-License-Identifier: MIT OR Apache-2.0
# The golden vectors hold for the core as this kernel compiled it; a spoilt one is noticed.
# vm: nvme=3:256M timeout=120
. tests/vm/lib.sh

selftest=$MODULES/kunit/linnet-selftest.ko
[ -e "$selftest" ] || skip "no $selftest"
insmod "$selftest" || { log_since; fail "a vector does not hold"; }
log_since | grep -E 'linnet-selftest: (1\.\.|ok|not ok)'
expect_some "files checked" "$(log_since | grep -c 'linnet-selftest: ok')"
expect "files that fail" "$(log_since | grep -c 'linnet-selftest: not ok' || true)" 0
rmmod linnet_selftest

refuses insmod "$selftest" canary=1
