# SPDX-License-Identifier: MIT OR Apache-2.0
# What the BPF observer counts on stock kernels, which allow its programs on functions.
# vm: timeout=900 mem=2048
. tests/vm/lib.sh
[ -x .venv/bin/linnet ] || skip "no .venv/bin/linnet (make build)"

modprobe loop
modprobe ext4
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup
for case in nothing_is_demanded_past_the_end sees_whole_reads_that_wait sees_splice counts_on_where_another_takes_the_place; do
	said=$(.venv/bin/python tests/tune/run.py $case 2>&1) || fail "$said"
	expect "what the observer saw ($said)" "${said%% (*}" "ok $case"
done
