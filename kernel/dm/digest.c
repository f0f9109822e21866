// SPDX-License-Identifier: GPL-2.0-only
/*
 * How CPUs share the state of the legs (spec/dm-target.md, Several CPUs).
 *
 * The state is changed under one lock of the target. A CPU that has been alone for a while takes it for each decision
 * and each end, so its decisions see every event before them, and the lock stays in its cache.
 *
 * As soon as another CPU has events too, every CPU queues its own, and decides from the digest: a copy of the state.
 * When the digest is digest_us old, a submitter that gets the lock applies the queued events of all CPUs in the order
 * of their times, and renews it. A CPU adds to the digest the I/Os in flight that it has queued itself; without them,
 * its next reads would all go to the leg of the last one. So no memory is written by all CPUs for each read, and only
 * decisions that need every event wait for the lock: probes, and those by networks.
 *
 * An end in interrupt context never waits: it gets the lock or is queued. Its record outlives the bio, until the end
 * has been applied.
 */
#include <linux/moduleparam.h>
#include <linux/prefetch.h>
#include <linux/slab.h>

#include "linnet-dm.h"
#include "replica.h"
#include "trace.h"

#define RECORDS 128       /* of each CPU; for more, memory is asked for */
#define NO_CPU U32_MAX
#define LEVELS 14         /* 2^13 CPUs */
#define OWNED_NS 1000000  /* the owner of the digest comes first for this long */
#define SHARED_NS 1000000 /* a CPU is alone when no other has had an event for this long */

static uint digest_us = 20;
module_param(digest_us, uint, 0644);
MODULE_PARM_DESC(digest_us, "where several CPUs submit: age in us at which the common view of the replicas is renewed, at most 1000; 0: for each read");

static struct linnet_event *event_of(struct llist_node *node)
{
	return llist_entry(node, struct linnet_event, node);
}

static struct linnet_inflight_record *record_of(struct linnet_event *event)
{
	return event->is_end ? container_of(event, struct linnet_inflight_record, end) :
			       container_of(event, struct linnet_inflight_record, arrival);
}

/* What is left to do after the lock is released and interrupts are as they were before. */
struct rest {
	struct llist_node *unused;
	u32 turned;
};

/* ---- records ---- */

static struct linnet_inflight_record *record_in(struct llist_node *node)
{
	return llist_entry(node, struct linnet_inflight_record, arrival.node);
}

struct linnet_inflight_record *linnet_record_take(struct linnet_dm *dm)
{
	struct linnet_cpu *cpu = this_cpu_ptr(dm->cpus);
	struct linnet_inflight_record *record;

	if (unlikely(!cpu->free))
		cpu->free = llist_del_all(&cpu->returned);
	if (likely(cpu->free)) {
		record = record_in(cpu->free);
		cpu->free = cpu->free->next;
		/* Another CPU may have written it last. This fetches its cache line before the next read needs it. */
		prefetchw(cpu->free);
		return record;
	}
	record = kmalloc(sizeof(*record), GFP_NOWAIT | __GFP_NOWARN);
	if (record) {
		record->home = NO_CPU;
		record->flight.event = 0;
	}
	return record;
}

static void free_records(struct llist_node *node)
{
	struct llist_node *next;

	for (; node; node = next) {
		next = node->next;
		kfree(record_in(node));
	}
}

/* Its I/O has ended. Memory is not freed under the lock. */
static void return_record(struct linnet_dm *dm, struct linnet_inflight_record *record)
{
	if (likely(record->home != NO_CPU)) {
		record->flight.event = 0;
		llist_add(&record->arrival.node, &per_cpu_ptr(dm->cpus, record->home)->returned);
		return;
	}
	record->arrival.node.next = dm->digest.unused;
	dm->digest.unused = &record->arrival.node;
}

void linnet_record_drop(struct linnet_dm *dm, struct linnet_inflight_record *record)
{
	if (record && record->home == NO_CPU)
		kfree(record);
	else if (record)
		llist_add(&record->arrival.node, &per_cpu_ptr(dm->cpus, record->home)->returned);
}

/* ---- queued events ---- */

static void queue_event(struct linnet_leg *leg, struct linnet_event *event)
{
	struct linnet_dm *dm = leg->dm;

	this_cpu_add(dm->cpus->queued[leg->index], event->is_end ? -1 : 1);
	llist_add(&event->node, &this_cpu_ptr(dm->cpus)->events);
}

/* Takes the events of a CPU, in their order. */
static struct llist_node *take_events(struct linnet_cpu *cpu)
{
	struct llist_node *events = llist_reverse_order(llist_del_all(&cpu->events)), *node;

	for (node = events; node; node = node->next)
		cpu->taken[record_of(event_of(node))->leg->index] += event_of(node)->is_end ? -1 : 1;
	return events;
}

static void count_taken(struct linnet_dm *dm, struct linnet_cpu *cpu)
{
	u32 k;

	for (k = 0; k < dm->leg_count; k++) {
		WRITE_ONCE(cpu->applied[k], cpu->applied[k] + cpu->taken[k]);
		cpu->taken[k] = 0;
	}
}

static __always_inline void apply_arrival(struct linnet_inflight_record *record)
{
	struct linnet_flight *flight = &record->flight;
	struct linnet_leg *leg = record->leg;
	struct linnet_dm *dm = leg->dm;

	linnet_replica_arrived(&leg->state, &dm->settings, flight, record->arrival.at_ns, record->is_read, record->probe,
			       record->offset_bytes, record->size_bytes);
	if (flight->place == LINNET_UNTRACKED)
		this_cpu_inc(dm->counts->untracked);
	if (flight->probe)
		this_cpu_inc(dm->counts->probes);
}

static __always_inline void apply_end(struct linnet_inflight_record *record)
{
	const struct linnet_flight *flight = &record->flight;
	struct linnet_leg *leg = record->leg;
	struct linnet_dm *dm = leg->dm;
	u64 now_ns = record->end.at_ns;
	bool out;

	if (likely(record->status == BLK_STS_OK))
		linnet_replica_completed(&leg->state, flight, now_ns);
	else if (linnet_is_error(record->status))
		linnet_replica_fail(&leg->state, &dm->settings, flight, now_ns);
	else
		linnet_replica_withdraw(&leg->state, flight, now_ns);
	trace_linnet_io(leg, record, leg->state.events, leg->state.latest_ns - flight->arrived_ns);
	out = leg->state.errors_in_row >= dm->settings.errors_max;
	if (unlikely(out != test_bit(LINNET_LEG_OUT, &leg->flags)))
		dm->digest.turned |= BIT(leg->index);
}

/* In the order of time; of equal times, the first list's come first. */
static struct llist_node *merge(struct llist_node *a, struct llist_node *b)
{
	struct llist_node *first = NULL, **end = &first;

	while (a && b) {
		struct llist_node **earlier = event_of(b)->at_ns < event_of(a)->at_ns ? &b : &a;

		*end = *earlier;
		end = &(*end)->next;
		*earlier = *end;
	}
	*end = a ?: b;
	return first;
}

/* Applies events, and returns the ends of I/Os whose arrival has not been applied. */
static struct llist_node *apply_once(struct linnet_dm *dm, struct llist_node *events, bool *arrivals)
{
	struct llist_node *late = NULL, **late_end = &late, *next;

	for (*arrivals = false; events; events = next) {
		struct linnet_event *event = event_of(events);
		struct linnet_inflight_record *record = record_of(event);

		next = events->next;
		if (!event->is_end) {
			apply_arrival(record);
			*arrivals = true;
		} else if (record->flight.event) {
			apply_end(record);
			return_record(dm, record);
		} else {
			*late_end = events;
			late_end = &events->next;
		}
	}
	*late_end = NULL;
	return late;
}

/*
 * Another CPU may queue an arrival just after its queue was taken, and a third CPU the end of the same I/O just before
 * that of its own. Then the end is taken without the arrival, and waits for it.
 */
static void apply(struct linnet_dm *dm, struct llist_node *events)
{
	bool arrivals;

	do
		events = apply_once(dm, events, &arrivals);
	while (events && arrivals);
	dm->digest.late = events;
}

static void copy_state(struct linnet_leg *leg)
{
	leg->digest = leg->state;
}

/* Applies the events of all CPUs, and renews the digest. Under the lock. */
static void renew(struct linnet_dm *dm, u64 now_ns)
{
	struct linnet_digest *digest = &dm->digest;
	struct llist_node *lists[LEVELS] = { NULL }, *list = digest->late;
	struct linnet_cpu *active = NULL, *cpu;
	u32 k, level;
	int n;

	for_each_possible_cpu(n) {
		struct llist_node *events;

		cpu = per_cpu_ptr(dm->cpus, n);
		if (llist_empty(&cpu->events))
			continue;
		events = take_events(cpu);
		cpu->active = active;
		active = cpu;
		for (level = 0; level < LEVELS - 1 && lists[level]; level++) {
			events = merge(lists[level], events);
			lists[level] = NULL;
		}
		lists[level] = merge(lists[level], events);
	}
	for (level = 0; level < LEVELS; level++)
		list = merge(list, lists[level]);
	apply(dm, list);
	/*
	 * raw_: lockdep must not take this for a lock. An interrupt may write too, but only if it gets the lock; and no
	 * reader waits for a writer.
	 */
	raw_write_seqcount_begin(&digest->seq);
	for (k = 0; k < dm->leg_count; k++)
		copy_state(&dm->legs[k]);
	for (cpu = active; cpu; cpu = cpu->active)
		count_taken(dm, cpu);
	raw_write_seqcount_end(&digest->seq);
	digest->followed = true;
	WRITE_ONCE(digest->renewed_ns, now_ns);
	if (digest->owner != smp_processor_id()) {
		WRITE_ONCE(digest->owned_ns, now_ns);
		WRITE_ONCE(digest->owner, smp_processor_id());
	}
}

static void apply_own(struct linnet_dm *dm, u64 now_ns)
{
	struct linnet_cpu *cpu = this_cpu_ptr(dm->cpus);

	apply(dm, merge(dm->digest.late, take_events(cpu)));
	count_taken(dm, cpu);
	if (dm->digest.late)
		renew(dm, now_ns);
}

/* This CPU, which was alone, has the lock: applies what others, or its own interrupts, have queued meanwhile. */
static __always_inline void settle(struct linnet_dm *dm, u64 now_ns)
{
	dm->digest.followed = false;
	if (unlikely(dm->digest.owner != smp_processor_id()))
		renew(dm, now_ns);
	else if (unlikely(!llist_empty(&this_cpu_ptr(dm->cpus)->events)))
		apply_own(dm, now_ns);
}

/* ---- who decides from what ---- */

/*
 * Whether no other CPU has had events lately, and all of theirs have been applied. others_ns is up to half of SHARED_NS
 * behind the last of them.
 */
static bool is_alone(const struct linnet_digest *digest, u64 now_ns)
{
	u64 others_ns = READ_ONCE(digest->others_ns);

	return READ_ONCE(digest->owner) == smp_processor_id() && now_ns > others_ns + SHARED_NS &&
	       READ_ONCE(digest->renewed_ns) > others_ns + SHARED_NS / 2;
}

static void note_other(struct linnet_digest *digest, u64 now_ns)
{
	u32 owner = READ_ONCE(digest->owner);

	if (owner != smp_processor_id() && owner != NO_CPU && now_ns > READ_ONCE(digest->others_ns) + SHARED_NS / 2)
		WRITE_ONCE(digest->others_ns, now_ns);
}

/*
 * The owner has the state in its cache, so for a millisecond the others leave renewals to it. After that another CPU may
 * become the owner, so that one CPU does not do all the work.
 */
static bool leaves_to_owner(const struct linnet_digest *digest, u64 now_ns)
{
	return READ_ONCE(digest->owner) != smp_processor_id() && now_ns < READ_ONCE(digest->owned_ns) + OWNED_NS;
}

static __always_inline struct rest unlock(struct linnet_digest *digest)
{
	struct rest rest = { NULL, 0 };

	if (unlikely(digest->unused || digest->turned)) {
		rest = (struct rest){ digest->unused, digest->turned };
		digest->unused = NULL;
		digest->turned = 0;
	}
	raw_spin_unlock(&digest->lock);
	return rest;
}

static void finish(struct linnet_dm *dm, struct rest rest)
{
	if (unlikely(rest.unused))
		free_records(rest.unused);
	if (unlikely(rest.turned))
		linnet_legs_turned(dm, rest.turned);
}

bool linnet_digest_enter(struct linnet_dm *dm, u64 now_ns, bool exact)
{
	struct linnet_digest *digest = &dm->digest;
	u32 most_us;
	s64 age_ns;

	if (likely(is_alone(digest, now_ns))) {
		raw_spin_lock(&digest->lock);
		settle(dm, now_ns);
		return true;
	}
	note_other(digest, now_ns);
	most_us = min(READ_ONCE(digest_us), 1000U);
	exact |= !most_us;
	age_ns = (s64)(now_ns - READ_ONCE(digest->renewed_ns));
	if (leaves_to_owner(digest, now_ns))
		most_us *= 2;
	if (!exact && age_ns < (s64)most_us * NSEC_PER_USEC)
		return false;
	if (!raw_spin_trylock(&digest->lock)) {
		if (!exact && age_ns < SHARED_NS)
			return false;
		raw_spin_lock(&digest->lock);
	}
	renew(dm, now_ns);
	if (exact)
		return true;
	linnet_digest_leave(dm);
	return false;
}

void linnet_digest_leave(struct linnet_dm *dm)
{
	finish(dm, unlock(&dm->digest));
}

void linnet_digest_lock(struct linnet_dm *dm)
{
	local_bh_disable();
	raw_spin_lock(&dm->digest.lock);
	renew(dm, ktime_get_ns());
}

void linnet_digest_unlock(struct linnet_dm *dm)
{
	renew(dm, ktime_get_ns());
	linnet_digest_leave(dm);
	local_bh_enable();
}

/* ---- events ---- */

void linnet_digest_add(struct linnet_inflight_record *record, bool locked)
{
	struct linnet_leg *leg = record->leg;

	if (unlikely(!locked)) {
		queue_event(leg, &record->arrival);
		return;
	}
	apply_arrival(record);
	if (unlikely(leg->dm->digest.followed)) {
		raw_write_seqcount_begin(&leg->dm->digest.seq);
		copy_state(leg);
		raw_write_seqcount_end(&leg->dm->digest.seq);
	}
}

void linnet_digest_end(struct linnet_inflight_record *record)
{
	struct linnet_leg *leg = record->leg;
	struct linnet_dm *dm = leg->dm;
	bool failed = record->status != BLK_STS_OK;
	u64 now_ns = record->end.at_ns;
	struct rest rest = { NULL, 0 };
	unsigned long flags;
	bool alone;

	local_irq_save(flags);
	alone = is_alone(&dm->digest, now_ns);
	if (likely(alone) && raw_spin_trylock(&dm->digest.lock)) {
		settle(dm, now_ns);
		if (likely(record->flight.event)) {
			apply_end(record);
			return_record(dm, record);
		} else {
			queue_event(leg, &record->end);
			renew(dm, now_ns);
		}
		rest = unlock(&dm->digest);
	} else {
		if (!alone)
			note_other(&dm->digest, now_ns);
		queue_event(leg, &record->end); /* from here on another CPU may apply and free the record */
		/* An error may take the leg out of service, which should not have to wait for the next read. */
		if (unlikely(failed || !READ_ONCE(digest_us)) && raw_spin_trylock(&dm->digest.lock)) {
			renew(dm, now_ns);
			rest = unlock(&dm->digest);
		}
	}
	local_irq_restore(flags);
	finish(dm, rest);
}

/* ---- lifetime ---- */

int linnet_digest_create(struct linnet_dm *dm)
{
	int n;

	raw_spin_lock_init(&dm->digest.lock);
	seqcount_raw_spinlock_init(&dm->digest.seq, &dm->digest.lock);
	dm->digest.owner = NO_CPU;
	dm->cpus = alloc_percpu(struct linnet_cpu);
	if (!dm->cpus)
		return -ENOMEM;
	for_each_possible_cpu(n) {
		struct linnet_cpu *cpu = per_cpu_ptr(dm->cpus, n);
		u32 i;

		init_llist_head(&cpu->events);
		init_llist_head(&cpu->returned);
		cpu->records = kvcalloc(RECORDS, sizeof(*cpu->records), GFP_KERNEL);
		if (!cpu->records)
			return -ENOMEM;
		for (i = 0; i < RECORDS; i++) {
			cpu->records[i].home = n;
			cpu->records[i].arrival.node.next = cpu->free;
			cpu->free = &cpu->records[i].arrival.node;
		}
	}
	return 0;
}

void linnet_digest_destroy(struct linnet_dm *dm)
{
	bool queued = false;
	int n;

	if (!dm->cpus)
		return;
	for_each_possible_cpu(n)
		queued |= !llist_empty(&per_cpu_ptr(dm->cpus, n)->events);
	/* No I/O is in flight, but an end may be queued, in memory of its own. */
	if (queued) {
		linnet_digest_lock(dm);
		linnet_digest_unlock(dm);
	}
	for_each_possible_cpu(n)
		kvfree(per_cpu_ptr(dm->cpus, n)->records);
	free_percpu(dm->cpus);
}
