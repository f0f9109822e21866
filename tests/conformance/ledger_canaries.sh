#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Breaks core/ledger.c in one place at a time, each by a line of sed below, and requires the check of tests/conformance to
# notice: ledger_canaries.sh DIRECTORY, in core/.
set -eu
out=$1 count=0
trap 'rm -f "$out/canary.c" "$out/canary" "$out/canary-model.o" "$out/canary-flight.o"' EXIT
${CC:-gcc} -w -O1 -I. -c ../tests/conformance/ledger.c -o "$out/canary-model.o"
${CC:-gcc} -w -O1 -I. -c ../tests/conformance/ledger_flight.c -o "$out/canary-flight.o"
while IFS='|' read -r what edit; do
	sed "$edit" ledger.c >"$out/canary.c"
	if cmp -s ledger.c "$out/canary.c"; then
		echo "canary '$what': \`$edit\` changes nothing in core/ledger.c; adapt it"
		exit 1
	fi
	${CC:-gcc} -w -O1 -I. "$out/canary-model.o" "$out/canary-flight.o" "$out/canary.c" -o "$out/canary"
	if "$out/canary" 1 400000 >/dev/null; then
		echo "canary '$what' was not noticed: tests/conformance/ledger.c is too weak"
		exit 1
	fi
	count=$((count + 1))
done <<'END'
a range counts, not the identity|s/part->identity == write->extent.identity \&\& //
a write that a leg missed is not doubted|s/^\t\t\tlinnet_ledger_doubt(ledger, i, LINNET_DOUBT_SHORT);/\t\t\t;/
a report is not added|/write->sectors\[leg\] +=/d
sectors of an earlier write remain|/write->sectors\[i\] = 0;/d
any generation is accepted|s/l->generation != generation/0/
a doubt leaves the generation|s/l->generation = ++ledger->generations;/;/
a doubt leaves the trust|/l->trust = LINNET_UNTRUSTED;/d
an error counts as a success|s/^\tif (failed)/\tif (0)/
a late report counts for the next write|s/ || write->serial != serial//
unknown data may arrive|s/^\tdoubt_all(ledger);/\t;/
unknown data may end|s/^\t\tdoubt_all(ledger);/\t\t;/
unknown data may fail|s/if (!write || write->serial != serial) {/if (!failed \&\& (!write || write->serial != serial)) {/
a discard proves where a leg is|s/write->extent.identity \&\& !ledger/!ledger/
trust needs no proof|s/ || !l->proven//
a write that was turned away was nowhere|s/write->reached != 0);/0);/
a leg that is asked to write leaves no trace|/write->reached = 1;/d
every write that is turned away is missed|s/write->reached != 0);/1);/
overlapping writes are not seen|s/^\t\t\treturn 1;/\t\t\treturn 0;/
overlapping wide writes are not seen|s/if (overlaps(ledger->trees\[WIDE\], extent))/if (0)/
a wide write overlaps in its first region alone|s/i <= last - region/i < 1/
a write asks the trees of all regions|s/i <= last - region \&\& //
a part that begins before its write|s/part->start < tree->extent.start/part->end <= tree->extent.start/
a part that ends behind its write|s/part->end > tree->extent.end/part->start >= tree->extent.end/
any kind of operation|s/ \&\& part->op == write->extent.op / /
wide writes are not found|s/whole_of(ledger->trees\[WIDE\], part)/NULL/
a write goes in at the bottom|s/rank_of(\*link) > rank_of(write)/1/
a write goes in at the top|s/rank_of(\*link) > rank_of(write)/0/
the lower ones always take the place of a write that ends|s/rank_of(lower) > rank_of(higher)/1/
ranks in the order of the writes|s/return (z ^ z >> 32) \* .*;/return write->serial;/
some of what was below a write goes|s/\*link = lower ? lower : higher;/*link = lower;/
END
echo "ledger: $count broken copies, all noticed"
