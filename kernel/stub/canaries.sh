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
	grep -q 'Error 1$\|Error 134$\|Aborted$' "$out/log" && [ -x "$out/stub/debug/check" ] || { cat "$out/log"; exit 1; }
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
a read of what others have written, at its end|target.c|s/if (likely(linnet_volume_trusted_since(.*)))$/if (1)/
a copy of what others have written|hedge.c|s/if (!linnet_volume_trusted_since(.*) \&\& status/if (0 \&\& status/
an answer that comes second is none|hedge.c|s/^\t\t    !atomic_read(&read->answered))$/\t\t    1)/
trust that was regained is no loss|volume.h|s/READ_ONCE(volume->trusted_in\[leg\]) == generation/READ_ONCE(volume->trusted_in[leg]) != 0/
a read beyond a leg|volume.c|s/if (likely(linnet_leg_reaches(.*))) {/if (1) {/
a copy beyond a leg|hedge.c|s/if (dm->volume \&\& !linnet_leg_reaches(.*)) {/if (0) {/
a probe beyond a leg|probe.c|s/if (bdev \&\& dm->volume \&\& !linnet_leg_reaches(.*)) {/if (0) {/
a lock that a resume needs is held while memory is waited for|member.c|/^static struct linnet_member \*enlist/,/^}/{s/\*unused = kzalloc.*, \*member;/*unused, *member;/;/if (!unused)/,+1d;s/^\tmutex_lock.*/&\n\tunused = kzalloc(sizeof(*unused), GFP_KERNEL);/}
a leg beside other targets|member.c|s/DM_TARGET_SINGLETON | //
all held writes are compared|volume.c|s/if (volume->waiting >= HELD_WINDOW || /if (/
the worker compares all held writes|volume.c|s/n < HELD_WINDOW \&\& //
a held write waits behind a read that waits for a drive|volume.c|s/queue_work(volume->queue,/queue_work(volume->dm->queue,/
held writes change places|volume.c|s/bio_list_merge_head(&volume->held, &waiting);/while ((bio = bio_list_pop(\&waiting))) bio_list_add(\&volume->held, bio);/
trust from while the volume was suspended|volume.c|/doubt_legs(volume, LINNET_DOUBT_NEW);/d
a suspended volume keeps its trust|volume.c|/doubt_legs(volume, LINNET_DOUBT_SUSPENDED);/d
trust that was denied is kept|volume.c|/doubt_legs(volume, LINNET_DOUBT_TOLD);/d
REQ_FAILFAST for the last leg|policy.c|s/(is_power_of_2(usable) \&\& !dm->volume) || //
REQ_FAILFAST for a leg that is tried again|policy.c|s/ || io->patient ? 0/ ? 0/
a replica that had no time to try again|policy.c|s/if (unlikely(!usable \&\& io->hasty))/if (0)/
the same, of copies|hedge.c|/read->io->hasty |= read->hasty;/d
a replica that had time is tried again|target.c|s/\tif (io->failfast)$/\tif (1)/
REQ_FAILFAST at md|volume.c|/bio->bi_opf &= ~io->failfast;/d
some of the flags of REQ_FAILFAST on readahead|policy.c|/if (bio->bi_opf & REQ_RAHEAD)/,+1d
flags of a read's former leg|target.c|s/bio->bi_opf = io->opf \& ~/bio->bi_opf \&= ~/
REQ_FAILFAST stays|target.c|s/= io->opf \& ~/= (io->opf | io->failfast) \& ~/
a worker's read is polled|target.c|s/~(REQ_POLLED | REQ_NOWAIT/~(REQ_NOWAIT/
a poller looks at a read's former leg|target.c|/WRITE_ONCE(bio->bi_cookie, BLK_QC_T_NONE);/d
a worker's read may not wait|target.c|s/REQ_POLLED | REQ_NOWAIT/REQ_POLLED/
a worker's write may not wait|volume.c|/bi_opf &= ~REQ_NOWAIT;/d
the worker waits for a drive|hedge.c|s/if (bdev_nowait(bdev))/if (0)/
a second copy where no drive refuses|hedge.c|s/if (bdev_nowait(bdev))/if (1)/
the time of a timer that is queued|hedge.c|s/if (!hrtimer_is_queued(timer))/if (1)/
a late read is in time|hedge.c|s/if (!list_empty(&read->waiting)) {.*/if (1) {/
a read is late by the delay that it found|hedge.c|s/deadline_ns(cpu, read) > ktime_get_ns()/0/
a hedged read points at a drive|hedge.c|/bio_set_dev(bio, dm->volume->md->bdev);/d
a second copy that would have to wait answers|hedge.c|s/ else if (copy == read->copies .*) {/ else {/
reads that end wait for a decision|digest.c|s/if (likely(alone) && raw_spin_trylock(&dm->digest.lock))/if (likely(alone) \&\& (raw_spin_lock(\&dm->digest.lock), true))/
a CPU forgets its own reads|policy.c|s/candidate->in_flight += own;/;/
events CPU by CPU|digest.c|s/event_of(b)->at_ns < event_of(a)->at_ns ? &b : &a/\&a/
an end before its arrival is lost|digest.c|s/dm->digest.late = events;/dm->digest.late = NULL;/
an end that waits is lost when its CPU is alone|digest.c|s/merge(dm->digest.late, take_events(cpu))/take_events(cpu)/
the digest is never renewed|digest.c|s/age_ns < (s64)most_us \* NSEC_PER_USEC/most_us/
the digest is renewed for each read|digest.c|s/age_ns < (s64)most_us \* NSEC_PER_USEC/0/
all CPUs renew the digest by turns|digest.c|s/if (leaves_to_owner(digest, now_ns))/if (0 \&\& leaves_to_owner(digest, now_ns))/
one CPU renews the digest for ever|digest.c|s/ && now_ns < READ_ONCE(digest->owned_ns) + OWNED_NS;/;/
an error waits for the next read|digest.c|s/unlikely(failed || !READ_ONCE/unlikely((failed \&\& 0) || !READ_ONCE/
a probe by a digest|policy.c|s/if (!routing.locked) {/if (0) {/
the digest lacks reads decided under the lock|digest.c|s/if (unlikely(leg->dm->digest.followed)) {/if (0) {/
a removed target reports the last ends|target.c|/^static void destroy/,/^}/{/linnet_digest_destroy/d;s/^\tcancel_work_sync.*/&\n\tlinnet_digest_destroy(dm);/}
a CPU is alone because it was the last|digest.c|/^static bool is_alone/,/^}/{s/others_ns + SHARED_NS &&/others_ns \&\&/;s/others_ns + SHARED_NS \/ 2/others_ns - SHARED_NS/}
a CPU is alone though another had the lock|digest.c|s/if (unlikely(dm->digest.owner != smp_processor_id()))/if (0)/
a record is lost|digest.c|s/cpu->free = llist_del_all(&cpu->returned);/llist_del_all(\&cpu->returned);/
a target that is gone|target.c|/^void linnet_send_again/,/^}/{/queue_work/d;s/^\tspin_unlock.*/&\n\tqueue_work(dm->queue, \&dm->resend);/}
a model that is gone is asked|model.c|s/^\tWRITE_ONCE(dm->\(trees\|networks\), \(.*\));/\tif (leg_model) WRITE_ONCE(dm->\1, \2);/
a read that took longer than it may is an error|linnet-dm.h|/^static inline bool linnet_is_error/,/^}/s/\treturn false;/\treturn true;/
a read that took longer than it may is answered|linnet-dm.h|/^static inline bool linnet_is_refusal/,/^}/s/BLK_STS_INVAL)/BLK_STS_INVAL || status == BLK_STS_DURATION_LIMIT)/
a read without a record is a write|leg.c|s/if (is_read \&\& status == BLK_STS_OK)/if (0)/
uevents on the queue on which reads wait|linnet-dm.h|s/schedule_work(&dm->event)/queue_work(dm->queue, \&dm->event)/
an application's read is the probe|policy.c|s/if (!(decision->in_service & ~BIT(leg->index)))/if (1)/
an application's read is the probe, without a decision|policy.c|s/while (wants_to_return(&dm->legs\[chosen\], now_ns) /while (0 /
a leg in doubt gets the read while its probe hangs|policy.c|s/if (linnet_probe_start(\(leg, routing->id.*\))) {/if (!linnet_probe_start(\1)) return false; else {/
a probe's page is freed too early|probe.c|/^static void send/,/^}/s/^\tsubmit_bio_noacct.*/&\n\t__free_pages(probe->page, 0);\n\tprobe->page = NULL;/
a suspended device does not wait for its probes|probe.c|/wait_on_bit(/d
a suspended device waits for a worker|probe.c|s/if (cancel_work_sync(&leg->probe->work))/if (0)/
two probes of a leg|probe.c|s/if (test_and_set_bit(LINNET_LEG_PROBED, &leg->flags))/set_bit(LINNET_LEG_PROBED, \&leg->flags);\n\tif (0)/
a probe's end is lost|probe.c|/^static void probe_ended/,/^}/s/\tfinish(leg);/\t;/
a probe's error is no error|probe.c|s/probe->id, bio->bi_status/probe->id, BLK_STS_OK/
a probe's end is not recorded|probe.c|/\tlinnet_leg_end(leg, probe->record/d
the submitter of a read sends the probe|probe.c|s/\tschedule_work(&probe->work);/\tsend(\&probe->work);/
a probe keeps a drive from being suspended|probe.c|/linnet_volume_steered/s/linnet_volume_steered.*/(void)0;/
a table reads a model while I/O is held|target.c|s/bool held = dm_suspended(dm->ti);/bool held = false;/
a message waits for memory that held I/O would free|message.c|s/READ_ONCE(dm->suspending) ? obey_held/0 ? obey_held/
a thread is made while I/O is held|message.c|/if (percent \&\& !dm->hedges/,+1d
a model is read while I/O is held|message.c|/^static int load(/,/^}/s/if (READ_ONCE(dm->suspending))/if (0)/
a failed suspend leaves models unread|target.c|/^static void linnet_resume/,/^}/s/suspending, false/suspending, true/
a resume that is refused is taken for one|target.c|s/^\treturn dm->volume ? linnet_volume_resume/\tlinnet_resume(ti);\n&/
a table begins as if it were resumed|target.c|/dm->suspending = true;/d
a probe of a leg that is suspended|volume.c|/^struct block_device \*linnet_volume_enter/,/^}/s/linnet_member_enter(leg->member)/leg->member->bdev ?: volume->md->bdev/
a volume without stable pages, from Linux 6.11 on|target.c|/limits->features |= /d
a volume without stable pages, before|target.c|/needs_stable_writes = true;/d
END
echo "kernel/dm: $count broken copies, all noticed"
