#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests linnet-load with the stand-in: counts, not times. Every fourth block of the primary is slow or revoked.
set -eu
out=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
head -c 4194304 /dev/urandom >"$dir/a"
cp "$dir/a" "$dir/b"
fail() { echo "test-load: $*" >&2; exit 1; }
load() { "$out/test-load" --rate 50000 --reads 4000 --seed 7 --json "$@" "$dir/a" "$dir/b"; }
field() { printf '%s' "$1" | sed -E "s/.*\"$2\": ([^,}]*).*/\1/"; }

# The log shows which blocks were drawn; every fourth block must be revoked, the others not.
failover=$(load --mode failover --log "$dir/log")
expected=$(awk -F, 'NR > 1 && $4 / 4096 % 4 == 0' "$dir/log" | wc -l)
[ "$expected" -gt 800 ] || fail "only $expected reads of the slow blocks"
[ "$(field "$failover" revokes)" = "$expected" ] || fail "revokes: $failover, expected $expected"
[ "$(awk -F, 'NR > 1 && ($6 != $7 || $7 != ($4 / 4096 % 4 == 0))' "$dir/log" | wc -l)" = 0 ] || fail "a read from the wrong replica"
[ "$(field "$failover" failed)" = 0 ] || fail "failed reads: $failover"
# A revoke costs a drive nothing.
[ "$(field "$failover" extra_io)" = 0.000000 ] || fail "extra I/O: $failover"

primary=$(load --mode primary --log "$dir/primary")
[ "$(field "$primary" revokes)" = 0 ] && [ "$(field "$primary" extra_io)" = 0.000000 ] || fail "primary: $primary"
# The arrivals and offsets are the same in each mode.
cut -d, -f1,4 "$dir/log" >"$dir/log.plan"
cut -d, -f1,4 "$dir/primary" | cmp - "$dir/log.plan" || fail "modes differ in what they read"

# Half of the hedges are of reads that are not measured.
hedge=$(STAND_IN_SLOW_US=200000 load --mode hedge --hedge-us 1000 --rate 400 --warmup 60 --reads 60 --log "$dir/hedge")
hedged=$(awk -F, 'NR > 1 && $9' "$dir/hedge" | wc -l)
[ "$hedged" -gt 0 ] && [ "$(field "$hedge" hedges)" = "$hedged" ] || fail "hedges: $hedge"
[ "$(field "$hedge" extra_io)" = "$(awk -v n="$hedged" 'BEGIN { printf "%.6f", n / 60 }')" ] || fail "extra I/O of hedges: $hedge"
[ "$(awk -F, 'NR > 1 && $6 == 1 && !$9' "$dir/hedge" | wc -l)" = 0 ] || fail "the second replica answered without a hedge"

# A wrong option is refused with status 2 and named.
refused() {
	status=0
	"$out/linnet-load" "$@" "$dir/a" "$dir/b" >"$dir/stdout" 2>"$dir/stderr" || status=$?
	[ "$status" = 2 ] || fail "$*: status $status"
	[ ! -s "$dir/stdout" ] && grep -qe "$1" "$dir/stderr" || fail "$*: no clear error"
}
refused --rate 0
refused --rate x
refused --size 100
refused --mode best
refused --span 1g
refused --reads 5 --seconds 1
# More reads, a longer run or a later hedge than its number holds.
refused --seconds 1e18
refused --seconds 1e9 --rate 1000
refused --rate 1e300
refused --rate 1e-3 --reads 1000001
refused --hedge-us 1e300 --mode hedge
refused --hedge-us nan --mode hedge
refused --no-such
# Buffered reads are not tagged, and one that waits keeps its hedge from being sent.
refused --mode hedge --cached
refused --mode failover --cached
grep -qe --cached "$dir/stderr" || fail "--cached is not named"
# Memory that is not there is that of an option.
for options in "--depth 200 --size 1048576" "--reads 4000000000"; do
	status=0
	# shellcheck disable=SC2086,SC3045 # options; dash and bash have it
	(ulimit -v 200000 && "$out/linnet-load" --cached $options "$dir/a") >"$dir/stdout" 2>"$dir/stderr" || status=$?
	[ $status = 1 ] && grep -qe '--depth.*--size.*--reads.*--seconds' "$dir/stderr" || fail "$options: $(cat "$dir/stderr")"
done
# A tag without hint, without class, and of a class that is none: also in a mode that sends no tag.
for tag in 4 0x4000 0x1004 0x8004; do
	refused --tag "$tag" --mode failover
	refused --tag "$tag"
done
# A log must not take the place of a replica, by whatever name, or of a device.
ln -s b "$dir/link"
ln "$dir/b" "$dir/hard"
mkfifo "$dir/pipe"
cp "$dir/b" "$dir/kept"
for log in "$dir/b" "$dir/link" "$dir/hard"; do
	refused --log "$log" --reads 20
	cmp "$dir/b" "$dir/kept" || fail "--log $log wrote to a replica"
done
[ ! -c /dev/zero ] || refused --log /dev/zero --reads 20
# What cannot be written is said before the load.
for log in "$dir" "$dir/absent/log"; do
	"$out/linnet-load" --log "$log" --reads 20 "$dir/a" "$dir/b" >"$dir/stdout" 2>"$dir/stderr" && fail "--log $log was taken"
	[ ! -s "$dir/stdout" ] && grep -qF "$log" "$dir/stderr" || fail "--log $log: reported after the load"
done
# A pipe and /dev/null take a log, and a file has this run's alone.
wc -l <"$dir/pipe" >"$dir/lines" &
load --reads 20 --log "$dir/pipe" >"$dir/stdout"
wait $!
[ "$(cat "$dir/lines")" -eq 21 ] || fail "a log of $(cat "$dir/lines") lines in a pipe"
load --reads 20 --log /dev/null >"$dir/stdout"
load --reads 20 --log "$dir/log" >"$dir/stdout"
[ "$(wc -l <"$dir/log")" -eq 21 ] || fail "the log has lines of another run"
"$out/linnet-load" "$dir/absent" 2>"$dir/stderr" && fail "an absent file was taken"
grep -q absent "$dir/stderr" || fail "the absent file is not named"

# On real files: the output must equal the input.
if "$out/linnet-cat" "$dir/a" "$dir/b" >"$dir/copy" 2>"$dir/stderr"; then
	cmp "$dir/copy" "$dir/a"
	# A buffer for each read that may be out at a time: one without hedges, and none for reads that are not asked for.
	for options in "--depth 100 --reads 100" "--depth 16384 --reads 20"; do
		# shellcheck disable=SC2086,SC3045 # options; dash and bash have it
		(ulimit -v 200000 && "$out/linnet-load" --cached --size 1048576 --rate 1e6 $options "$dir/a") >"$dir/stdout" ||
			fail "$options: more memory than it needs"
	done
	# The file ends amid a block.
	for file in a b; do head -c 100001 "$dir/$file" >"$dir/odd-$file"; done
	"$out/linnet-cat" "$dir/odd-a" "$dir/odd-b" >"$dir/copy" 2>"$dir/stderr" || fail "linnet-cat: $(cat "$dir/stderr")"
	cmp "$dir/copy" "$dir/odd-a"
	grep -q '^2 reads,' "$dir/stderr" || fail "linnet-cat reads from amid a block: $(cat "$dir/stderr")"
	# No byte may be lost without an error.
	if LC_ALL=C "$out/linnet-cat" "$dir/a" "$dir/b" >/dev/full 2>"$dir/stderr"; then
		fail "linnet-cat wrote to a full device"
	fi
	grep -q 'standard output: No space left on device' "$dir/stderr" || fail "linnet-cat: $(cat "$dir/stderr")"
else
	echo "skipped: linnet-cat on files ($(tail -1 "$dir/stderr"))"
fi
echo "linnet-load: $expected of 4000 reads revoked and served by the second replica; $hedged hedged"
