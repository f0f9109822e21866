#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Breaks kernel/dm in one place at a time, each by a line of sed below, and requires the check to notice:
# canaries.sh DIRECTORY, in kernel/stub.
set -eu
out=$1 count=0
mkdir -p "$out"
rm -rf "$out/dm"
cp -R ../dm "$out/dm"
while IFS='|' read -r what file edit; do
	sed "$edit" "../dm/$file" >"$out/dm/$file"
	if cmp -s "../dm/$file" "$out/dm/$file"; then
		echo "canary '$what': \`$edit\` changes nothing in kernel/dm/$file; adapt it"
		exit 1
	fi
	if make -s check "DM=$out/dm" "OUT=$out/stub" INPUTS=0 >"$out/log" 2>&1; then
		echo "canary '$what' was not noticed"
		exit 1
	fi
	grep -q 'Error 1$\|Error 134$' "$out/log" && [ -x "$out/stub/debug/check" ] || { cat "$out/log"; exit 1; }
	if grep -q 'error:' "$out/log"; then
		echo "canary '$what' does not compile:"
		cat "$out/log"
		exit 1
	fi
	cp "../dm/$file" "$out/dm/$file"
	count=$((count + 1))
done <<'END'
trust from before a leg has another drive|member.c|/^static void member_resume/,/^}/s/\tdistrust(passage->member);/\t;/
a drive is there before the trust has gone|member.c|/^static void member_resume/,/^}/{/distrust(/d;s/^\(\tsmp_store_release.*\)/\1\n\tdistrust(passage->member);/}
trust stays while a leg is suspended|member.c|/^static void shut/,/^}/s/\tdistrust(member);/\t;/
reads use the drive of a leg that is suspended|member.c|/^static void shut/,/^}/s/WRITE_ONCE(member->bdev, NULL);/;/
trust from while the volume was suspended|volume.c|/doubt_legs(volume, LINNET_DOUBT_NEW);/d
a suspended volume keeps its trust|volume.c|/doubt_legs(volume, LINNET_DOUBT_SUSPENDED);/d
REQ_FAILFAST for the last leg|policy.c|s/is_power_of_2(usable) \&\& !dm->volume ? 0 : //
REQ_FAILFAST stays|target.c|s/REQ_NOWAIT | io->failfast/REQ_NOWAIT/
a worker's read may not wait|target.c|s/REQ_POLLED | REQ_NOWAIT/REQ_POLLED/
a worker's write may not wait|volume.c|/bi_opf &= ~REQ_NOWAIT;/d
a second copy that would have to wait answers|hedge.c|s/ else if (copy == read->copies .*) {/ else {/
reads that end wait while the history is processed|leg.c|/^void linnet_leg_catch_up/,/^}/{/raw_spin_unlock_irqrestore/d;s/^\(\t\tlinnet_incremental_process.*\)/\1\n\t\traw_spin_unlock_irqrestore(\&leg->lock, flags);/}
uevents on the queue on which reads wait|linnet-dm.h|s/schedule_work(&dm->event)/queue_work(dm->queue, \&dm->event)/
END
echo "kernel/dm: $count broken copies, all noticed"
