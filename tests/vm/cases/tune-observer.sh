# SPDX-License-Identifier: MIT OR Apache-2.0
# What the BPF observer counts on stock kernels, which allow its programs on functions.
# vm: timeout=900 mem=2048
. tests/vm/lib.sh
[ -x .venv/bin/linnet ] || skip "no .venv/bin/linnet (make build)"

modprobe loop
modprobe ext4
# Not among the files of the host, whose processes are not seen here.
export TMPDIR=/run/observer
mkdir $TMPDIR
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup
cases="nothing_is_demanded_past_the_end sees_whole_reads_that_wait sees_splice counts_reads_that_are_tried_again_once
	counts_on_where_another_takes_the_place"
for case in $cases; do
	said=$(.venv/bin/python tests/tune/run.py $case 2>&1) || fail "$said"
	expect "what the observer saw ($said)" "${said%% (*}" "ok $case"
done
