// SPDX-License-Identifier: GPL-2.0-only
/* Hedging is switched on and off: its memory, its timers, and the end of all copies before a device is suspended. */
#include <linux/delay.h>
#include <linux/slab.h>

#include "hedge.h"

#define RESERVED_READS 16
#define RESERVED_PAGES 64

static void destroy(struct linnet_hedges *hedges)
{
	int cpu;

	/* No read is left, so neither the timers nor the workers start each other again. */
	if (hedges->cpus)
		for_each_possible_cpu(cpu)
			hrtimer_cancel(&per_cpu_ptr(hedges->cpus, cpu)->timer);
	if (hedges->queue)
		destroy_workqueue(hedges->queue);
	mempool_destroy(hedges->pages);
	mempool_destroy(hedges->reads);
	free_percpu(hedges->cpus);
	kfree(hedges);
}

static void init_cpu(struct linnet_hedges *hedges, struct linnet_hedge_cpu *cpu)
{
	raw_spin_lock_init(&cpu->lock);
	INIT_LIST_HEAD(&cpu->waiting);
	INIT_WORK(&cpu->work, linnet_hedge_late);
	cpu->hedges = hedges;
#ifdef LINNET_HRTIMER_SETUP
	hrtimer_setup(&cpu->timer, linnet_hedge_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
#else
	hrtimer_init(&cpu->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	cpu->timer.function = linnet_hedge_timer;
#endif
}

static struct linnet_hedges *create(struct linnet_dm *dm)
{
	struct linnet_hedges *hedges = kzalloc(sizeof(*hedges), GFP_KERNEL);
	int cpu;

	if (!hedges)
		return NULL;
	hedges->dm = dm;
	hedges->cpus = alloc_percpu(struct linnet_hedge_cpu);
	if (!hedges->cpus)
		goto bad;
	for_each_possible_cpu(cpu)
		init_cpu(hedges, per_cpu_ptr(hedges->cpus, cpu));
	hedges->queue = alloc_workqueue("dm-linnet-hedge", WQ_MEM_RECLAIM | WQ_HIGHPRI, 0);
	hedges->reads = mempool_create_kmalloc_pool(RESERVED_READS, sizeof(struct linnet_hedged));
	hedges->pages = mempool_create_page_pool(RESERVED_PAGES, 0);
	if (hedges->queue && hedges->reads && hedges->pages)
		return hedges;
bad:
	destroy(hedges);
	return NULL;
}

/* The lowest 95th percentile that a model gives, or a guess before any read has shown a better one. */
static u64 first_delay_ns(struct linnet_dm *dm)
{
	u64 delay_ns = U64_MAX;
	u32 k;

	rcu_read_lock();
	for (k = 0; k < dm->leg_count; k++) {
		struct linnet_leg_model *leg_model = rcu_dereference(dm->legs[k].leg_model);

		if (leg_model && leg_model->loaded->latency_ns_p95)
			delay_ns = min(delay_ns, leg_model->loaded->latency_ns_p95);
	}
	rcu_read_unlock();
	return delay_ns == U64_MAX ? LINNET_HEDGE_START_NS : delay_ns;
}

int linnet_hedge_set(struct linnet_dm *dm, u32 percent)
{
	u64 delay_ns = first_delay_ns(dm);
	struct linnet_hedges *hedges = dm->hedges;
	int cpu;

	if (percent && !hedges) {
		hedges = create(dm);
		if (!hedges)
			return -ENOMEM;
	}
	if (percent) {
		WRITE_ONCE(dm->settings.hedges.per_million, percent * (LINNET_BUDGET_UNIT / 100));
		for_each_possible_cpu(cpu) {
			struct linnet_hedge_cpu *one = per_cpu_ptr(hedges->cpus, cpu);

			raw_spin_lock_irq(&one->lock);
			linnet_hedge_init(&one->hedge, &dm->settings, dm->hedge_percent && one->hedge.delay_ns ? one->hedge.delay_ns : delay_ns);
			if (one->armed) /* for a delay that may have been longer */
				hrtimer_start(&one->timer, ns_to_ktime(ktime_get_ns()), HRTIMER_MODE_ABS);
			raw_spin_unlock_irq(&one->lock);
		}
		smp_store_release(&dm->hedges, hedges);
	}
	WRITE_ONCE(dm->hedge_percent, percent);
	return 0;
}

u64 linnet_hedge_delay_ns(struct linnet_dm *dm)
{
	struct linnet_hedges *hedges = smp_load_acquire(&dm->hedges);
	u64 delay_ns = 0, most = 0;
	int cpu;

	if (!hedges)
		return 0;
	for_each_possible_cpu(cpu) {
		struct linnet_hedge_cpu *one = per_cpu_ptr(hedges->cpus, cpu);

		if (!delay_ns || READ_ONCE(one->started) > most) {
			delay_ns = READ_ONCE(one->hedge.delay_ns);
			most = READ_ONCE(one->started);
		}
	}
	return delay_ns;
}

void linnet_hedge_drain(struct linnet_dm *dm)
{
	u64 left;
	int cpu;

	if (!dm->hedges)
		return;
	/* None starts any more. Copies whose read was answered are seldom in flight, so this is not worth a wake-up. */
	for (;;) {
		left = 0;
		for_each_possible_cpu(cpu) {
			struct linnet_hedge_cpu *one = per_cpu_ptr(dm->hedges->cpus, cpu);

			left += READ_ONCE(one->started) - READ_ONCE(one->ended);
		}
		if (!left)
			break;
		msleep(1);
	}
	smp_rmb();
}

void linnet_hedge_destroy(struct linnet_dm *dm)
{
	if (!dm->hedges)
		return;
	linnet_hedge_drain(dm);
	destroy(dm->hedges);
	dm->hedges = NULL;
}
