// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hedged reads (spec/dm-target.md): a read that has waited for the delay of core/hedge.c is sent a second time, to the
 * best of the other legs, and the first answer wins.
 *
 * The application's bio ends with the first answer, while the other device may still write into its pages. So a read
 * goes through copies: bios of our own, with pages of our own, and the answer is copied. All memory is taken without
 * waiting, from pools with a reserve; where there is none, the read is sent as it is. So nothing here can wait for
 * memory that only a completed I/O would free.
 *
 * One delay serves all reads, so those of one CPU become late in the order of their arrival: a list and a timer per CPU
 * are enough. The timer runs at most once per delay, whatever the number of reads. Bios cannot be submitted where it
 * runs, so a work queue sends the second copies. The list, the delay and the budget of a CPU have one lock, which its
 * reads take when they are sent and when they end.
 *
 * `left` of a read counts its copies in flight, and the worker while it looks at the read. Who brings it to zero frees
 * the read; if no copy has answered it, it goes on as a read that has failed at their legs.
 */
#include <linux/blk-cgroup.h>
#include <linux/blk-crypto.h>
#include <linux/blk-integrity.h>
#include <linux/blkdev.h>
#include <linux/cgroup.h>
#include <linux/moduleparam.h>

#include "hedge.h"
#include "policy.h"

#define NO_WAIT (GFP_NOWAIT | __GFP_NOWARN)

static uint hedge_kib = LINNET_HEDGE_KIB;
module_param(hedge_kib, uint, 0644);
MODULE_PARM_DESC(hedge_kib, "the largest read that is hedged, in KiB, 4 to 64");

/* ---- copies ---- */

static void free_copy(struct linnet_hedges *hedges, struct linnet_copy *copy)
{
	u32 i;

	for (i = 0; i < copy->bio.bi_vcnt; i++)
		mempool_free(copy->vecs[i].bv_page, hedges->pages);
	bio_uninit(&copy->bio);
}

static void copy_ended(struct bio *bio);

/*
 * What the copies have of the application's bio. It is taken at the start, since the first answer may end that bio
 * while the second copy is being made.
 */
static void remember(struct linnet_hedged *read, struct bio *bio, const struct linnet_io *io)
{
	read->opf = bio->bi_opf;
	read->failfast = io->failfast;
	read->ioprio = bio->bi_ioprio;
	read->css = NULL;
#ifdef CONFIG_BLK_CGROUP
	read->css = bio_blkcg_css(bio);
	if (read->css)
		css_get(read->css);
#endif
}

static void forget(struct linnet_hedged *read)
{
#ifdef CONFIG_BLK_CGROUP
	if (read->css)
		css_put(read->css);
#endif
	mempool_free(read, read->hedges->reads);
}

/* A copy of the read for this place of a device, like the application's bio. Returns false if there is no memory. */
static bool make_copy(struct linnet_hedged *read, struct linnet_copy *copy, struct block_device *bdev, sector_t sector)
{
	u32 left = read->size_bytes;

	bio_init(&copy->bio, bdev, copy->vecs, LINNET_HEDGE_PAGES, read->opf);
	copy->read = read;
	copy->sector = sector;
	while (left) {
		struct page *page = mempool_alloc(read->hedges->pages, NO_WAIT);
		u32 part = min_t(u32, left, PAGE_SIZE);

		if (!page) {
			free_copy(read->hedges, copy);
			return false;
		}
		__bio_add_page(&copy->bio, page, part, 0);
		left -= part;
	}
	copy->bio.bi_iter.bi_sector = sector;
	copy->bio.bi_ioprio = read->ioprio;
	copy->bio.bi_end_io = copy_ended;
	copy->bio.bi_private = copy;
#ifdef CONFIG_BLK_CGROUP
	if (read->css)
		bio_associate_blkg_from_css(&copy->bio, read->css);
#endif
	return true;
}

/* Nothing is in flight for the read any more, or the worker has left it alone. */
static void put(struct linnet_hedged *read)
{
	struct linnet_hedges *hedges = read->hedges;
	struct linnet_dm *dm = hedges->dm;

	if (!atomic_dec_and_test(&read->left))
		return;
	if (!atomic_read(&read->answered)) {
		read->io->tried |= read->failed;
		read->io->hasty |= read->hasty;
		if (linnet_is_answer(dm, read->opf, read->status)) {
			read->bio->bi_status = read->status;
			bio_endio(read->bio);
		} else {
			linnet_send_again(dm, read->bio, read->io, read->status);
		}
	}
	forget(read);
	smp_wmb(); /* with linnet_hedge_drain: the last use of the pools */
	this_cpu_inc(hedges->cpus->ended);
}

/* Ends the application's read with what the copy has read. */
static void answer(struct linnet_hedged *read, struct linnet_copy *copy)
{
	/* The driver has used the position up. */
	copy->bio.bi_iter = (struct bvec_iter){ .bi_sector = copy->sector, .bi_size = read->size_bytes };
	bio_copy_data(read->bio, &copy->bio);
	bio_endio(read->bio);
}

static void copy_ended(struct bio *bio)
{
	struct linnet_copy *copy = bio->bi_private;
	struct linnet_hedged *read = copy->read;
	struct linnet_hedge_cpu *cpu = read->cpu;
	struct linnet_hedges *hedges = read->hedges;
	struct linnet_dm *dm = hedges->dm;
	blk_status_t status = bio->bi_status;
	u64 now_ns = ktime_get_ns();
	unsigned long flags;
	bool won;

	linnet_leg_end(&dm->legs[copy->leg], copy->record, true, copy->id, status);
	if (dm->volume) {
		linnet_volume_steered(dm->volume, copy->leg);
		/* Its data may not be the volume's. That is no error of the leg, but no answer either, where one is wanted. */
		if (!linnet_volume_trusted_since(dm->volume, copy->leg, copy->generation) && status == BLK_STS_OK &&
		    !atomic_read(&read->answered))
			status = BLK_STS_IOERR;
	}
	won = status == BLK_STS_OK && atomic_cmpxchg(&read->answered, 0, 1) == 0;
	raw_spin_lock_irqsave(&cpu->lock, flags);
	if (!list_empty(&read->waiting)) { /* it was not found late, and this is its only copy */
		list_del_init(&read->waiting);
		if (won)
			/* Another CPU's clock may be ahead of this one's. */
			linnet_hedge_answered(&cpu->hedge, now_ns > copy->sent_ns ? now_ns - copy->sent_ns : 0);
	}
	raw_spin_unlock_irqrestore(&cpu->lock, flags);
	if (won) {
		if (copy != read->copies)
			this_cpu_inc(dm->counts->hedge_wins);
		answer(read, copy);
	} else if (status == BLK_STS_OK) {
		this_cpu_inc(dm->counts->discarded);
	} else if (copy == read->copies || status != BLK_STS_AGAIN) {
		/* A second copy that would have to wait says nothing: neither of its leg nor to the application. */
		set_bit(copy->leg, &read->failed);
		if (bio->bi_opf & read->failfast)
			set_bit(copy->leg, &read->hasty);
		WRITE_ONCE(read->status, status);
	}
	free_copy(hedges, copy);
	put(read);
}

/* ---- the first copy ---- */

static u64 deadline_ns(const struct linnet_hedge_cpu *cpu, const struct linnet_hedged *read)
{
	return linnet_hedge_due(&cpu->hedge, read->copies[0].sent_ns);
}

/* The timer will run when the read becomes late. Under the lock. */
static void arm(struct linnet_hedge_cpu *cpu, const struct linnet_hedged *read)
{
	cpu->armed = true;
	hrtimer_start(&cpu->timer, ns_to_ktime(deadline_ns(cpu, read)), HRTIMER_MODE_ABS);
}

static bool is_hedgeable(const struct linnet_dm *dm, struct bio *bio, const struct linnet_io *io)
{
	return READ_ONCE(dm->hedge_percent) && READ_ONCE(dm->settings.on) &&
	       READ_ONCE(dm->settings.policy) != LINNET_BASELINE && bio_sectors(bio) &&
	       bio->bi_iter.bi_size <= clamp(READ_ONCE(hedge_kib), 4U, (uint)LINNET_HEDGE_KIB) << 10 &&
	       !(bio->bi_opf & REQ_POLLED) && !bio_integrity(bio) && !bio_has_crypt_ctx(bio) &&
	       linnet_usable_legs(dm, io->tried | BIT(io->leg));
}

bool linnet_hedge_read(struct linnet_dm *dm, struct bio *bio, struct linnet_io *io)
{
	struct linnet_hedges *hedges = smp_load_acquire(&dm->hedges);
	struct linnet_hedge_cpu *cpu;
	struct linnet_hedged *read;
	unsigned long flags;

	if (!hedges || !is_hedgeable(dm, bio, io))
		return false;
	read = mempool_alloc(hedges->reads, NO_WAIT);
	if (!read)
		goto unhedged;
	read->hedges = hedges;
	read->bio = bio;
	read->io = io;
	read->sector = dm_target_offset(dm->ti, io->iter.bi_sector);
	read->size_bytes = bio->bi_iter.bi_size;
	read->failed = 0;
	read->hasty = 0;
	atomic_set(&read->left, 1);
	atomic_set(&read->answered, 0);
	remember(read, bio, io);
	if (!make_copy(read, &read->copies[0], bio->bi_bdev, bio->bi_iter.bi_sector)) {
		forget(read);
		goto unhedged;
	}
	if (dm->volume) {
		read->copies[0].generation = io->generation;
		/* When it ends, the leg may have been suspended, and its drive gone. */
		bio_set_dev(bio, dm->volume->md->bdev);
	}
	read->copies[0].record = io->record;
	read->copies[0].sent_ns = io->record ? io->record->arrival.at_ns : ktime_get_ns();
	read->copies[0].id = io->id;
	read->copies[0].leg = io->leg;
	io->leg = LINNET_NO_LEG;
	this_cpu_inc(hedges->cpus->started);
	cpu = raw_cpu_ptr(hedges->cpus); /* any CPU's would do */
	read->cpu = cpu;
	raw_spin_lock_irqsave(&cpu->lock, flags);
	linnet_hedge_earn(&cpu->hedge, &dm->settings);
	list_add_tail(&read->waiting, &cpu->waiting);
	if (!cpu->armed)
		arm(cpu, read);
	raw_spin_unlock_irqrestore(&cpu->lock, flags);
	submit_bio_noacct(&read->copies[0].bio);
	return true;
unhedged:
	this_cpu_inc(dm->counts->unhedged);
	return false;
}

/* ---- the second ---- */

/* The leg for a second copy, or LINNET_NO_REPLICA: none is in service, the budget is spent, or all are overloaded. */
static u32 choose(struct linnet_hedged *read)
{
	struct linnet_dm *dm = read->hedges->dm;
	struct linnet_hedge_cpu *cpu = read->cpu;
	struct linnet_routing routing;
	struct linnet_decision *decision = &routing.decision;
	unsigned long flags;
	bool may_send;

	decision->usable = linnet_usable_legs(dm, READ_ONCE(read->failed) | BIT(read->copies[0].leg));
	if (!decision->usable)
		return LINNET_NO_REPLICA;
	routing.sector = read->sector;
	routing.size_bytes = read->size_bytes;
	decision->count = dm->leg_count;
	decision->may_revoke = false;
	local_bh_disable();
	rcu_read_lock();
	decision->now_ns = ktime_get_ns();
	routing.locked = linnet_digest_enter(dm, decision->now_ns, false);
	decision->trees = READ_ONCE(dm->trees);
	decision->networks = READ_ONCE(dm->networks);
	linnet_decide_copy(dm, &routing);
	if (routing.locked)
		linnet_digest_leave(dm);
	rcu_read_unlock();
	local_bh_enable();
	if (decision->choice.replica == LINNET_NO_REPLICA)
		return LINNET_NO_REPLICA;
	raw_spin_lock_irqsave(&cpu->lock, flags);
	may_send = linnet_hedge_ask(&cpu->hedge, &dm->settings, decision->candidates, decision->count);
	raw_spin_unlock_irqrestore(&cpu->lock, flags);
	return may_send ? decision->choice.replica : LINNET_NO_REPLICA;
}

/* The read is late. The caller holds it. */
static void send_second(struct linnet_hedged *read)
{
	struct linnet_dm *dm = read->hedges->dm;
	struct linnet_copy *copy = &read->copies[1];
	struct block_device *bdev;
	struct linnet_leg *leg;
	sector_t sector;
	u32 chosen;

	if (!READ_ONCE(dm->hedge_percent) || !READ_ONCE(dm->settings.on))
		return;
	chosen = choose(read);
	if (chosen == LINNET_NO_REPLICA || atomic_read(&read->answered))
		return;
	leg = &dm->legs[chosen];
	bdev = dm->volume ? linnet_volume_enter(dm->volume, leg, &copy->generation) : leg->dev->bdev;
	if (!bdev)
		return;
	if (dm->volume && !linnet_leg_reaches(leg, read->sector + (read->size_bytes >> SECTOR_SHIFT))) {
		linnet_member_leave(leg->member);
		return;
	}
	sector = (dm->volume ? leg->member->start : 0) + leg->start + read->sector;
	if (!make_copy(read, copy, bdev, sector)) {
		this_cpu_inc(dm->counts->unhedged);
		if (dm->volume)
			linnet_member_leave(leg->member);
		return;
	}
	/* No leg is left if this one fails, too. */
	if (!dm->volume && !linnet_usable_legs(dm, READ_ONCE(read->failed) | BIT(read->copies[0].leg) | BIT(chosen)))
		copy->bio.bi_opf &= ~read->failfast;
#ifdef LINNET_BDEV_NOWAIT
	/* This worker sends the copies of all reads: none is worth waiting for a place in a drive's queue. */
	if (bdev_nowait(bdev))
		copy->bio.bi_opf |= REQ_NOWAIT;
#endif
	copy->leg = chosen;
	copy->id = linnet_next_id(dm);
	copy->sent_ns = ktime_get_ns();
	copy->record = linnet_leg_arrive(leg, copy->sent_ns, true, false, read->sector, read->size_bytes);
	this_cpu_inc(dm->counts->hedges);
	atomic_inc(&read->left);
	submit_bio_noacct(&copy->bio);
}

/* Takes the first read of the list if it is late, and holds it. Otherwise the timer is set for it. */
static struct linnet_hedged *take_late(struct linnet_hedge_cpu *cpu)
{
	struct linnet_hedged *read;

	raw_spin_lock_irq(&cpu->lock);
	read = list_first_entry_or_null(&cpu->waiting, struct linnet_hedged, waiting);
	if (!read) {
		cpu->armed = false;
	} else if (deadline_ns(cpu, read) > ktime_get_ns()) {
		arm(cpu, read);
		read = NULL;
	} else {
		list_del_init(&read->waiting);
		atomic_inc(&read->left);
	}
	raw_spin_unlock_irq(&cpu->lock);
	return read;
}

void linnet_hedge_late(struct work_struct *work)
{
	struct linnet_hedge_cpu *cpu = container_of(work, struct linnet_hedge_cpu, work);
	struct linnet_hedged *read;

	while ((read = take_late(cpu))) {
		send_second(read);
		put(read);
	}
}

enum hrtimer_restart linnet_hedge_timer(struct hrtimer *timer)
{
	struct linnet_hedge_cpu *cpu = container_of(timer, struct linnet_hedge_cpu, timer);
	enum hrtimer_restart restart = HRTIMER_NORESTART;
	struct linnet_hedged *read;
	unsigned long flags;

	raw_spin_lock_irqsave(&cpu->lock, flags);
	read = list_first_entry_or_null(&cpu->waiting, struct linnet_hedged, waiting);
	if (!read) {
		cpu->armed = false;
	} else if (deadline_ns(cpu, read) > ktime_get_ns()) {
		/* linnet_hedge_set may have started it again while this waited for the lock. Then it is in its place already. */
		if (!hrtimer_is_queued(timer)) {
			hrtimer_set_expires(timer, ns_to_ktime(deadline_ns(cpu, read)));
			restart = HRTIMER_RESTART;
		}
	} else {
		queue_work(cpu->hedges->queue, &cpu->work);
	}
	raw_spin_unlock_irqrestore(&cpu->lock, flags);
	return restart;
}
