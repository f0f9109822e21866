#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs cases inside the machine, one after the other: guest.sh MODULES [NAME=VALUE...] CASE:SECONDS... Called by run.py.
# A case fails by its exit status, by messages in the kernel log, or by leftovers that cannot be removed. After a case
# with such leftovers the machine ends, and run.py boots another one for the rest; the same happens if lockdep has
# stopped.
. tests/vm/lib.sh
trap - ERR
export MODULES=$1
shift
mkdir -p "$MNT"
# Lockdep is silent after its first report, and after one of KASAN's.
lockdep_ended() { grep -qsE 'debug_locks: *0$' /proc/lockdep_stats; }

for item; do
	if [[ $item == *=* ]]; then
		export "${item?}"
		continue
	fi
	case_file=${item%:*} limit=${item##*:}
	name=$(basename "$case_file" .sh)
	echo "@@ start $name"
	log_mark "$name"
	unwatched=
	! lockdep_ended || unwatched=1
	timeout -k 10 "$limit" bash -euo pipefail "$case_file"
	rc=$?
	[ $rc != 124 ] && [ $rc != 137 ] || { echo "timeout after $limit s"; show_stuck; }
	dirty=
	clean_up || { dirty=1 rc=1; }
	log_check || rc=1
	[ -z "$unwatched" ] || { echo "failed: lockdep had ended before this case began"; rc=1; }
	! lockdep_ended || dirty=1
	echo "@@ end $name $rc"
	[ -z "$dirty" ] || exit 0
done
