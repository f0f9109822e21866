// SPDX-License-Identifier: GPL-2.0-only
/*
 * A filter between the region hash and the kernel's dirty log.
 *
 * The log keeps two bits for each region. "In sync" is in memory: every leg in service holds the region. "Clean" is
 * also on the log's disk: every leg of the table holds it, on the medium; a region that is not clean is resynced after
 * a crash. The filter keeps the second bit correct and cheap:
 *
 * - A region is marked clean only while no leg is out of service. A leg that left service has missed writes, and may
 *   have lost the content of its cache; all of these are in regions that were not yet clean when it left.
 * - Before that the legs are flushed, because a write that ended may still be in a volatile cache.
 * - A region is marked clean only after a second, so that a region which is written repeatedly costs the log nothing.
 * - Work for the resync is returned only while there is a leg to copy from and one to copy to.
 *
 * The log's first regions do not belong to the volume. Each leg has two of them. The first is clean while regions of
 * the volume that are clean or in sync are so at this leg: it is cleared when the leg leaves service, before the write
 * that it missed ends, and set when the leg is back and all regions are dirty. The second is clean while the leg's data
 * is not known to be old: it is cleared until the leg is whole again. So after a crash the log still knows which legs
 * may be copied from, and which may be copied to.
 */
#include "mirror-private.h"

#include <linux/bitmap.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#define DM_MSG_PREFIX "linnet"
#define NO_REGION ((region_t)-1)
#define LEG_REGIONS (2 * LINNET_MIRROR_LEGS)

struct linnet_log {
	struct dm_dirty_log log; /* first: the region hash frees it with kfree() */
	struct linnet_mirror *mirror;
	struct dm_dirty_log *real;
	struct dm_target ti;     /* what the real log sees as its target: longer by LEG_REGIONS */
	region_t next;           /* the search for work continues here */
	region_t handed;         /* the region in recovery, if any */
	unsigned long *quiet;    /* by region: written on all legs, to be marked clean after the next flush */
	bool any_quiet;
};

/* The number of this region of the volume in the real log. */
static region_t at(region_t region)
{
	return LEG_REGIONS + region;
}

static bool real_in_sync(struct linnet_log *f, region_t region)
{
	return f->real->type->in_sync(f->real, at(region), 1) == 1;
}

static void make_quiet(struct linnet_log *f, region_t region)
{
	__set_bit(region, f->quiet);
	f->any_quiet = true;
}

/* ---- called by the region hash ---- */

static void filter_dtr(struct dm_dirty_log *log)
{
	struct linnet_log *f = log->context;

	dm_dirty_log_destroy(f->real);
	kvfree(f->quiet);
}

static int filter_in_sync(struct dm_dirty_log *log, region_t region, int can_block)
{
	struct linnet_log *f = log->context;

	return f->real->type->in_sync(f->real, at(region), can_block);
}

static int filter_flush(struct dm_dirty_log *log)
{
	struct linnet_log *f = log->context;

	return f->real->type->flush(f->real);
}

/* The first write to a quiet region. Marking it twice would cost a write of the whole log. */
static void filter_mark_region(struct dm_dirty_log *log, region_t region)
{
	struct linnet_log *f = log->context;

	__clear_bit(region, f->quiet);
	if (f->real->type->is_clean(f->real, at(region)))
		f->real->type->mark_region(f->real, at(region));
}

/* The last write has ended. If the region has lost its sync since the first, the resync will mark it clean. */
static void filter_clear_region(struct dm_dirty_log *log, region_t region)
{
	struct linnet_log *f = log->context;

	if (real_in_sync(f, region))
		make_quiet(f, region);
}

static void filter_set_region_sync(struct dm_dirty_log *log, region_t region, int in_sync)
{
	struct linnet_log *f = log->context;

	if (region == f->handed)
		f->handed = NO_REGION;
	if (!in_sync) {
		__clear_bit(region, f->quiet);
		f->real->type->set_region_sync(f->real, at(region), 0);
		return;
	}
	if (!real_in_sync(f, region)) /* the log does not check before it counts */
		f->real->type->set_region_sync(f->real, at(region), 1);
	make_quiet(f, region);
}

static int filter_get_resync_work(struct dm_dirty_log *log, region_t *region)
{
	struct linnet_log *f = log->context;

	if (f->handed != NO_REGION || !f->mirror->stale)
		return 0;
	for (; f->next < f->mirror->regions; f->next++) {
		if (!real_in_sync(f, f->next)) {
			*region = f->handed = f->next++;
			return 1;
		}
		if (!(f->next & 0xffff))
			cond_resched();
	}
	return 0;
}

/* Never registered: only the region hash of its mirror uses it. */
static struct dm_dirty_log_type filter_type = {
	.name = "linnet-filter",
	.module = THIS_MODULE,
	.dtr = filter_dtr,
	.in_sync = filter_in_sync,
	.flush = filter_flush,
	.mark_region = filter_mark_region,
	.clear_region = filter_clear_region,
	.get_resync_work = filter_get_resync_work,
	.set_region_sync = filter_set_region_sync,
};

/* ---- called by the mirror ---- */

struct dm_dirty_log *linnet_log_filter(struct linnet_mirror *m)
{
	return &m->filter->log;
}

bool linnet_log_in_sync(struct linnet_mirror *m, region_t region)
{
	return m->log->type->in_sync(m->log, at(region), 0) == 1;
}

void linnet_log_again(struct linnet_mirror *m, region_t region)
{
	m->filter->next = min(m->filter->next, region);
}

int linnet_log_forget(struct linnet_mirror *m)
{
	struct linnet_log *f = m->filter;
	region_t region;

	for (region = 0; region < m->regions; region++) {
		f->real->type->mark_region(f->real, at(region));
		f->real->type->set_region_sync(f->real, at(region), 0);
		if (!(region & 0xffff))
			cond_resched();
	}
	bitmap_zero(f->quiet, m->regions);
	f->any_quiet = false;
	f->next = 0;
	return f->real->type->flush(f->real);
}

int linnet_log_resume(struct linnet_mirror *m)
{
	struct dm_dirty_log *real = m->log;
	int error = real->type->resume ? real->type->resume(real) : 0;
	unsigned int k;

	/*
	 * Sync has no meaning for the legs' own regions: all are in sync, so that they can be subtracted from the
	 * count.
	 */
	for (k = 0; k < LEG_REGIONS; k++)
		if (real->type->in_sync(real, k, 1) != 1)
			real->type->set_region_sync(real, k, 1);
	return error;
}

region_t linnet_log_sync_count(struct linnet_mirror *m)
{
	region_t count = m->log->type->get_sync_count(m->log);

	return count > LEG_REGIONS ? count - LEG_REGIONS : 0;
}

static bool leg_bit(struct linnet_mirror *m, unsigned int leg, bool second)
{
	return m->log->type->is_clean(m->log, 2 * leg + second);
}

/* True if the bit has changed. */
static bool set_leg_bit(struct linnet_mirror *m, unsigned int leg, bool second, bool clean)
{
	if (leg_bit(m, leg, second) == clean)
		return false;
	if (clean)
		m->log->type->clear_region(m->log, 2 * leg + second);
	else
		m->log->type->mark_region(m->log, 2 * leg + second);
	return true;
}

struct linnet_log_legs linnet_log_legs(struct linnet_mirror *m)
{
	struct linnet_log_legs legs = { 0, 0 };
	unsigned int k;

	for (k = 0; k < m->legs_len; k++) {
		legs.covered |= (unsigned long)leg_bit(m, k, false) << k;
		legs.trusted |= (unsigned long)leg_bit(m, k, true) << k;
	}
	return legs;
}

int linnet_log_set_legs(struct linnet_mirror *m, struct linnet_log_legs legs)
{
	bool changed = false;
	unsigned int k;

	for (k = 0; k < LINNET_MIRROR_LEGS; k++) {
		changed |= set_leg_bit(m, k, false, legs.covered >> k & 1);
		changed |= set_leg_bit(m, k, true, legs.trusted >> k & 1);
	}
	return changed ? m->log->type->flush(m->log) : 0;
}

bool linnet_log_may_clean(struct linnet_mirror *m)
{
	return m->filter->any_quiet && !linnet_mirror_degraded(m);
}

/* Flushes every leg in service. Legs that fail are out of service afterwards. */
static bool flush_legs(struct linnet_mirror *m)
{
	struct dm_io_region where[LINNET_MIRROR_LEGS];
	unsigned int leg[LINNET_MIRROR_LEGS], n = 0, k, bad = 0;
	unsigned long errors = 0;
	struct dm_io_request request = {
		.bi_opf = REQ_OP_WRITE | REQ_PREFLUSH,
		.mem.type = DM_IO_KMEM,
		.client = m->flusher,
	};

	for (k = 0; k < m->legs_len; k++) {
		if (!(linnet_mirror_in_service(m) & 1UL << k))
			continue;
		leg[n] = k;
		where[n++] = (struct dm_io_region){ .bdev = m->legs[k].bdev };
	}
	if (!dm_io(&request, n, where, &errors, IOPRIO_DEFAULT))
		return true;
	for (k = 0; k < n; k++)
		if (test_bit(k, &errors))
			bad |= 1UL << leg[k];
	linnet_mirror_take_out(m, bad, "it failed a flush");
	return false;
}

void linnet_log_clean(struct linnet_mirror *m)
{
	struct linnet_log *f = m->filter;
	unsigned long region;

	if (!linnet_log_may_clean(m) || !flush_legs(m))
		return;
	for_each_set_bit(region, f->quiet, m->regions)
		f->real->type->clear_region(f->real, at(region));
	bitmap_zero(f->quiet, m->regions);
	f->any_quiet = false;
	f->real->type->flush(f->real);
}

int linnet_log_create(struct linnet_mirror *m, unsigned int argc, char **argv, unsigned int *used)
{
	struct dm_target *ti = m->ti;
	unsigned int params, size_at;
	struct linnet_log *f;
	u32 size;

	if (argc < 2 || kstrtouint(argv[1], 10, &params) || params > argc - 2) {
		ti->error = "log: expected <type> <#params> <params>...";
		return -EINVAL;
	}
	if (strcmp(argv[0], "core") && strcmp(argv[0], "disk")) {
		ti->error = "log: the type is core or disk";
		return -EINVAL;
	}
	f = kzalloc(sizeof(*f), GFP_KERNEL);
	if (!f) {
		ti->error = "out of memory";
		return -ENOMEM;
	}
	f->ti = *ti;
	size_at = strcmp(argv[0], "disk") ? 2 : 3; /* an invalid size is refused by the log */
	if (size_at < 2 + params && !kstrtou32(argv[size_at], 10, &size) && size <= ti->len)
		f->ti.len += LEG_REGIONS * (sector_t)size;
	f->real = dm_dirty_log_create(argv[0], &f->ti, NULL, params, argv + 2);
	if (!f->real) {
		ti->error = "log: the kernel's dirty log refused its parameters";
		kfree(f);
		return -EINVAL;
	}
	m->forgets = !strcmp(argv[0], "core");
	m->nosync = params && !strcmp(argv[1 + params], "nosync");
	m->region_size = f->real->type->get_region_size(f->real);
	m->region_shift = ilog2(m->region_size);
	m->regions = dm_sector_div_up(ti->len, m->region_size);
	f->quiet = kvcalloc(BITS_TO_LONGS(m->regions), sizeof(long), GFP_KERNEL);
	if (!f->quiet) {
		ti->error = "out of memory";
		dm_dirty_log_destroy(f->real);
		kfree(f);
		return -ENOMEM;
	}
	f->log.type = &filter_type;
	f->log.context = f;
	f->mirror = m;
	f->handed = NO_REGION;
	m->log = f->real;
	m->filter = f;
	*used = 2 + params;
	return 0;
}

void linnet_log_destroy(struct linnet_mirror *m)
{
	dm_dirty_log_destroy(&m->filter->log);
}
