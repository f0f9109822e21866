// SPDX-License-Identifier: GPL-2.0-only
/*
 * The resync copies one region at a time from a whole leg to every stale one, by kcopyd. The region hash first waits
 * for the writes in the region, and delays new ones until the copy has ended.
 */
#include "mirror-private.h"

#include <linux/module.h>

#define DM_MSG_PREFIX "linnet"

DECLARE_DM_KCOPYD_THROTTLE_WITH_MODULE_PARM(resync_throttle, "Share of the time that a resync may copy, in percent");

static struct dm_io_region place(const struct linnet_mirror *m, unsigned int leg, region_t region)
{
	sector_t offset = dm_rh_region_to_sector(m->hash, region);

	return (struct dm_io_region){
		.bdev = m->legs[leg].bdev,
		.sector = m->legs[leg].start + offset,
		.count = min(m->region_size, m->ti->len - offset),
	};
}

/* Legs that this region may be copied from: whole legs, except those where it is known to be unreadable. */
static unsigned long sources(const struct linnet_mirror *m, region_t region)
{
	return m->unreadable == region ? m->whole & ~m->unreadable_at : m->whole;
}

/* Called by kcopyd's thread; the region hash notifies the worker. */
static void copied(int read_error, unsigned long write_error, void *context)
{
	struct dm_region *region = context;
	struct linnet_mirror *m = dm_rh_region_context(region);

	m->copy_read_error = read_error;
	m->copy_write_error = write_error;
	spin_lock_irq(&m->lock);
	m->copied = region;
	spin_unlock_irq(&m->lock);
	linnet_mirror_wake(m);
}

/* The copy has ended: updates the states of its legs. True if every remaining stale leg holds the region. */
static bool settle_copy(struct linnet_mirror *m, region_t region)
{
	unsigned long bad = 0;
	unsigned int k, n = 0;

	if (m->copy_read_error) {
		if (m->unreadable != region) {
			m->unreadable = region;
			m->unreadable_at = 0;
		}
		__set_bit(m->copy_from, &m->unreadable_at);
		if (sources(m, region))
			linnet_log_again(m, region);
		DMERR("%s: replica %u cannot be read in region %llu: not resynced from there",
		      dm_table_device_name(m->ti->table), m->copy_from, (unsigned long long)region);
		return false;
	}
	if (!m->copy_write_error)
		return true;
	for_each_set_bit(k, &m->copy_to, LINNET_MIRROR_LEGS)
		if (test_bit(n++, &m->copy_write_error))
			__set_bit(k, &bad);
	linnet_mirror_take_out(m, bad, "it failed a resync");
	/* kcopyd stops at the first error, so another leg may lack a part. */
	if (m->stale)
		linnet_log_again(m, region);
	return !m->stale;
}

static void copy(struct linnet_mirror *m, struct dm_region *reg)
{
	region_t region = dm_rh_get_region_key(reg);
	unsigned long from = sources(m, region);
	struct dm_io_region source, to[LINNET_MIRROR_LEGS];
	unsigned int k, n = 0;

	if (!m->stale || !from) { /* nothing to do, or no leg to copy from: found again after the next resume */
		dm_rh_recovery_end(reg, !m->stale);
		return;
	}
	m->copy_from = __ffs(from);
	m->copy_to = m->stale;
	source = place(m, m->copy_from, region);
	for_each_set_bit(k, &m->copy_to, LINNET_MIRROR_LEGS)
		to[n++] = place(m, k, region);
	dm_kcopyd_copy(m->copier, &source, n, to, 0, copied, reg);
}

void linnet_mirror_recover(struct linnet_mirror *m)
{
	struct dm_region *region;

	spin_lock_irq(&m->lock);
	region = m->copied;
	m->copied = NULL;
	spin_unlock_irq(&m->lock);
	if (region) {
		dm_rh_recovery_end(region, settle_copy(m, dm_rh_get_region_key(region)));
		dm_rh_update_states(m->hash, 1);
	}
	if (!m->hold)
		dm_rh_recovery_prepare(m->hash);
	while ((region = dm_rh_recovery_start(m->hash)))
		copy(m, region);
}

int linnet_mirror_copier_init(struct linnet_mirror *m)
{
	m->copier = dm_kcopyd_client_create(&dm_kcopyd_throttle);
	return PTR_ERR_OR_ZERO(m->copier);
}
