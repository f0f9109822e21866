// SPDX-License-Identifier: GPL-2.0-only
/*
 * The writable mirror: the states of its legs, its worker, its hooks. Writes are in mirror-write.c, the resync in
 * mirror-sync.c, updates of the dirty log in mirror-log.c.
 */
#include "mirror-private.h"

#include <linux/module.h>
#include <linux/slab.h>

#define DM_MSG_PREFIX "linnet"
#define MAX_RECOVERY 1 /* regions in recovery at a time: there is one place for a copy */

static unsigned int clean_delay_ms = 1000;
module_param(clean_delay_ms, uint, 0644);
MODULE_PARM_DESC(clean_delay_ms, "How long after its last write a mirror's region is called clean");

/* ---- legs ---- */

bool linnet_mirror_readable(struct linnet_mirror *m, unsigned int k, const struct bio *bio)
{
	sector_t offset = dm_target_offset(m->ti, bio->bi_iter.bi_sector);

	/* Acquire before the log is queried: it forgets a leg's regions before the leg becomes stale. */
	if (smp_load_acquire(&m->stale) & 1UL << k)
		return linnet_log_in_sync(m, offset >> m->region_shift);
	return READ_ONCE(m->whole) & 1UL << k;
}

char linnet_mirror_state(struct linnet_mirror *m, unsigned int k)
{
	if (READ_ONCE(m->stale) & 1UL << k)
		return 'R';
	return READ_ONCE(m->whole) & 1UL << k ? 'A' : 'D';
}

int linnet_mirror_take_out(struct linnet_mirror *m, unsigned long legs, const char *why)
{
	struct linnet_log_legs logged;
	unsigned int k;
	int error;

	if (!(m->whole & ~legs))
		legs &= ~(1UL << __ffs(m->whole));
	legs &= linnet_mirror_in_service(m);
	if (!legs)
		return 0;
	WRITE_ONCE(m->whole, m->whole & ~legs);
	WRITE_ONCE(m->stale, m->stale & ~legs);
	for_each_set_bit(k, &legs, LINNET_MIRROR_LEGS)
		DMERR("%s: replica %u is out of service: %s", dm_table_device_name(m->ti->table), k, why);
	logged = linnet_log_legs(m);
	logged.covered &= ~legs;
	logged.trusted &= ~legs;
	error = linnet_log_set_legs(m, logged);
	if (error)
		DMERR("%s: the dirty log cannot be told so", dm_table_device_name(m->ti->table));
	m->ops->changed(m->ti);
	return error;
}

/* Once every region is in sync, stale legs hold everything. */
static void promote(struct linnet_mirror *m)
{
	struct linnet_log_legs logged;

	if (!m->stale || linnet_log_sync_count(m) < m->regions)
		return;
	WRITE_ONCE(m->whole, m->whole | m->stale); /* first: a leg in neither set would not be read */
	smp_store_release(&m->stale, 0);
	logged = linnet_log_legs(m);
	logged.trusted |= m->whole;
	linnet_log_set_legs(m, logged);
	m->ops->changed(m->ti);
}

/* ---- messages ---- */

/* Handles the waiting message, if possible now. */
static void serve(struct linnet_mirror *m)
{
	struct linnet_mirror_request *request;
	struct linnet_log_legs logged;
	unsigned long leg;

	spin_lock_irq(&m->lock);
	request = m->request;
	spin_unlock_irq(&m->lock);
	if (!request)
		return;
	leg = 1UL << request->leg;
	if (!request->revive) {
		linnet_mirror_take_out(m, leg, "by request");
		request->result = linnet_mirror_in_service(m) & leg ? -EBUSY : 0;
	} else if (!(linnet_mirror_in_service(m) & leg)) {
		/* A copy in progress does not write to this leg, but would still mark its region as in sync. */
		m->hold = true;
		if (dm_rh_recovery_in_flight(m->hash))
			return;
		request->result = linnet_log_forget(m);
		if (!request->result) {
			logged = linnet_log_legs(m);
			logged.covered |= leg;
			request->result = linnet_log_set_legs(m, logged);
		}
		m->unreadable_at = 0;
		if (!request->result) {
			smp_store_release(&m->stale, m->stale | leg);
			m->ops->changed(m->ti);
		}
	}
	m->hold = false;
	spin_lock_irq(&m->lock);
	m->request = NULL;
	spin_unlock_irq(&m->lock);
	linnet_mirror_wake(m); /* to look for work again */
	complete(&request->done);
}

static int ask(struct linnet_mirror *m, unsigned int k, bool revive)
{
	struct linnet_mirror_request request = { .leg = k, .revive = revive };

	if (k >= m->legs_len)
		return -EINVAL;
	init_completion(&request.done);
	mutex_lock(&m->admin);
	if (!m->running) {
		mutex_unlock(&m->admin);
		return -EBUSY;
	}
	spin_lock_irq(&m->lock);
	m->request = &request;
	spin_unlock_irq(&m->lock);
	linnet_mirror_wake(m);
	wait_for_completion(&request.done);
	mutex_unlock(&m->admin);
	return request.result;
}

int linnet_mirror_fail(struct linnet_mirror *m, unsigned int k)
{
	return ask(m, k, false);
}

int linnet_mirror_revive(struct linnet_mirror *m, unsigned int k)
{
	return ask(m, k, true);
}

/* ---- the worker ---- */

void linnet_mirror_wake(struct linnet_mirror *m)
{
	queue_work(m->queue, &m->work);
}

static void work(struct work_struct *work)
{
	struct linnet_mirror *m = container_of(work, struct linnet_mirror, work);
	struct bio_list writes, failed;

	spin_lock_irq(&m->lock);
	writes = m->writes;
	failed = m->failed;
	bio_list_init(&m->writes);
	bio_list_init(&m->failed);
	spin_unlock_irq(&m->lock);

	linnet_mirror_settle_all(m, &failed);
	dm_rh_update_states(m->hash, 1);
	linnet_mirror_recover(m);
	promote(m);
	serve(m);
	linnet_mirror_submit_all(m, &writes);
	if (READ_ONCE(m->clean_due)) {
		WRITE_ONCE(m->clean_due, false);
		linnet_log_clean(m);
	}
	if (linnet_log_may_clean(m)) /* no effect if it is already set */
		schedule_delayed_work(&m->clean_timer, msecs_to_jiffies(READ_ONCE(clean_delay_ms)));
}

static void clean_time(struct work_struct *work)
{
	struct linnet_mirror *m = container_of(to_delayed_work(work), struct linnet_mirror, clean_timer);

	WRITE_ONCE(m->clean_due, true);
	linnet_mirror_wake(m);
}

/* Called by the region hash. */
static void dispatch(void *context, struct bio_list *bios)
{
	struct linnet_mirror *m = context;

	spin_lock_irq(&m->lock);
	bio_list_merge(&m->writes, bios);
	spin_unlock_irq(&m->lock);
	bio_list_init(bios);
	linnet_mirror_wake(m);
}

static void wake_worker(void *context)
{
	linnet_mirror_wake(context);
}

/*
 * No recovery is in progress any more. The worker's own calls invoke it each time they find no work. Only `serve` waits
 * for that, and it runs after them.
 */
static void recovery_ended(void *context)
{
}

/* ---- hooks ---- */

/*
 * The log is read only once. Later its content would be the same or wrong: with `nosync` every region is in sync, with
 * `sync` none is. Regions that are not in sync are copied from the first leg that the log trusts; legs that it does not
 * cover are out of service. A new log covers no leg: then all legs in service count as covered, the first as trusted.
 */
static void start(struct linnet_mirror *m)
{
	const char *name = dm_table_device_name(m->ti->table);
	unsigned long in = linnet_mirror_in_service(m), old;
	struct linnet_log_legs logged;
	unsigned int k;

	if (linnet_log_resume(m))
		DMERR("%s: the dirty log cannot be read or written", name);
	logged = linnet_log_legs(m);
	if (!logged.covered)
		logged = (struct linnet_log_legs){ in, 1UL << __ffs(in) };
	old = in & ~logged.covered;
	for_each_set_bit(k, &old, LINNET_MIRROR_LEGS)
		DMERR("%s: replica %u was out of service when the dirty log was last written: revive it", name, k);
	in = in & logged.covered ?: 1UL << __ffs(in);
	if (!(in & logged.trusted))
		DMERR("%s: acknowledged writes may be missing: no replica in service is known to hold all", name);
	m->whole = 1UL << __ffs(in & logged.trusted ?: in);
	m->stale = in & ~m->whole;
	logged.covered = in;
	logged.trusted = (logged.trusted & in) | m->whole;
	if (linnet_log_set_legs(m, logged))
		DMERR("%s: the dirty log cannot be told which replicas are in service", name);
	m->started = true;
}

void linnet_mirror_resume(struct linnet_mirror *m)
{
	if (!m->started)
		start(m);
	linnet_log_again(m, 0);
	m->unreadable_at = 0;
	mutex_lock(&m->admin);
	m->running = true;
	mutex_unlock(&m->admin);
	dm_rh_start_recovery(m->hash);
}

void linnet_mirror_presuspend(struct linnet_mirror *m)
{
	mutex_lock(&m->admin); /* a message in progress ends first */
	if (m->running) {
		m->running = false;
		dm_rh_stop_recovery(m->hash);
	}
	mutex_unlock(&m->admin);
	if (m->log->type->presuspend)
		m->log->type->presuspend(m->log);
}

void linnet_mirror_presuspend_undo(struct linnet_mirror *m)
{
	mutex_lock(&m->admin);
	m->running = true;
	mutex_unlock(&m->admin);
	dm_rh_start_recovery(m->hash);
}

/* All writes have ended. Their regions are marked clean, so that a mirror that is removed now needs no resync. */
void linnet_mirror_postsuspend(struct linnet_mirror *m)
{
	flush_workqueue(m->queue);
	cancel_delayed_work_sync(&m->clean_timer);
	WRITE_ONCE(m->clean_due, true);
	linnet_mirror_wake(m);
	flush_workqueue(m->queue);
	cancel_delayed_work_sync(&m->clean_timer);
	if (m->log->type->postsuspend)
		m->log->type->postsuspend(m->log);
}

/* ---- status ---- */

void linnet_mirror_sync(struct linnet_mirror *m, u64 *in_sync, u64 *regions)
{
	*in_sync = linnet_log_sync_count(m);
	*regions = m->regions;
}

int linnet_mirror_table(struct linnet_mirror *m, char *result, unsigned int maxlen)
{
	return m->log->type->status(m->log, STATUSTYPE_TABLE, result, maxlen);
}

unsigned int linnet_mirror_out(struct linnet_mirror *m)
{
	unsigned long whole = READ_ONCE(m->whole), stale = READ_ONCE(m->stale), below = (1UL << __ffs(whole)) - 1;
	unsigned long out = ~(whole | stale) & ((1UL << m->legs_len) - 1);

	/*
	 * The log tells the next table which regions a stale leg lacks, and which leg to copy from. But a log in memory
	 * is then new and copies from the first leg, and `nosync` makes all legs whole.
	 */
	if (m->nosync && m->started)
		return out | stale;
	return out | (m->forgets ? stale & below : 0);
}

/* ---- creation and removal ---- */

static int fail(struct dm_target *ti, int error, const char *why)
{
	ti->error = (char *)why;
	return error;
}

static int build(struct linnet_mirror *m, unsigned int argc, char **argv, unsigned int *used)
{
	struct dm_target *ti = m->ti;
	int error;

	error = linnet_log_create(m, argc, argv, used);
	if (error)
		return error;
	m->hash = dm_region_hash_create(m, dispatch, wake_worker, recovery_ended, ti->begin, MAX_RECOVERY,
					linnet_log_filter(m), m->region_size, m->regions);
	if (IS_ERR(m->hash)) {
		error = PTR_ERR(m->hash);
		m->hash = NULL;
		return fail(ti, error, "no memory for the region hash");
	}
	error = linnet_mirror_clones_init(m);
	if (error)
		return fail(ti, error, "no memory for clones");
	error = linnet_mirror_copier_init(m);
	if (error) {
		m->copier = NULL;
		return fail(ti, error, "no memory for kcopyd");
	}
	m->flusher = dm_io_client_create();
	if (IS_ERR(m->flusher)) {
		error = PTR_ERR(m->flusher);
		m->flusher = NULL;
		return fail(ti, error, "no memory for flushes");
	}
	m->queue = alloc_workqueue("linnet-mirror", WQ_MEM_RECLAIM, 0);
	if (!m->queue)
		return fail(ti, -ENOMEM, "no memory for a work queue");
	error = dm_set_target_max_io_len(ti, m->region_size);
	if (error)
		return fail(ti, error, "log: the region is too large");
	ti->num_flush_bios = 1;
	ti->num_discard_bios = 1;
	return 0;
}

struct linnet_mirror *linnet_mirror_create(struct dm_target *ti, const struct linnet_mirror_ops *ops,
					   const struct linnet_mirror_leg *legs, unsigned int legs_len,
					   unsigned int out, unsigned int argc, char **argv, unsigned int *used)
{
	unsigned long all = (1UL << legs_len) - 1, in = all & ~(unsigned long)out;
	struct linnet_mirror *m;
	int error;

	if (!in)
		return ERR_PTR(fail(ti, -EINVAL, "log: one replica at least must be in service"));
	m = kzalloc(sizeof(*m), GFP_KERNEL);
	if (!m)
		return ERR_PTR(fail(ti, -ENOMEM, "out of memory"));
	m->ti = ti;
	m->ops = ops;
	memcpy(m->legs, legs, legs_len * sizeof(*legs));
	m->legs_len = legs_len;
	/* Regions that the log does not have in sync are copied from the first leg. */
	m->whole = 1UL << __ffs(in);
	m->stale = in & ~m->whole;
	spin_lock_init(&m->lock);
	mutex_init(&m->admin);
	INIT_WORK(&m->work, work);
	INIT_DELAYED_WORK(&m->clean_timer, clean_time);
	error = build(m, argc, argv, used);
	if (error) {
		linnet_mirror_destroy(m);
		return ERR_PTR(error);
	}
	return m;
}

void linnet_mirror_destroy(struct linnet_mirror *m)
{
	if (m->queue) {
		cancel_delayed_work_sync(&m->clean_timer);
		destroy_workqueue(m->queue);
	}
	if (m->copier)
		dm_kcopyd_client_destroy(m->copier);
	if (m->flusher)
		dm_io_client_destroy(m->flusher);
	bioset_exit(&m->clones);
	if (m->hash)
		dm_region_hash_destroy(m->hash);
	else if (m->filter)
		linnet_log_destroy(m);
	mutex_destroy(&m->admin);
	kfree(m);
}
