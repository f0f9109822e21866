// SPDX-License-Identifier: GPL-2.0-only
/*
 * Chooses the leg of a read. The rules are in core/decide.c; this file reads the legs' state while it changes.
 *
 * The state of every leg that may serve the read is read without its lock: the sequence count shows whether an arrival
 * or end came in between. If every attempt was disturbed, the numbers are used as they are. The core decides, and the
 * read is recorded at the chosen leg under its lock, if the leg has had no event since. Otherwise the decision is
 * repeated, a few times: without that, reads that arrive together would all choose by the same state, and so the same
 * leg.
 */
#define CREATE_TRACE_POINTS
#include <linux/log2.h>
#include <linux/moduleparam.h>

#include "linnet-dm.h"
#include "policy.h"
#include "trace.h"

#define DESCRIBE_TRIES 4
#define DECIDE_TRIES 3

static uint age_ms = LINNET_AGE_NS / NSEC_PER_MSEC;
module_param(age_ms, uint, 0644);
MODULE_PARM_DESC(age_ms, "age in ms at which what is known of a replica has expired, so that a read goes there as a probe; 0: never");

static uint revoke_percent = 100;
module_param(revoke_percent, uint, 0644);
MODULE_PARM_DESC(revoke_percent, "of the reads that may be revoked, the most that are, in percent and in the long run");

/*
 * Parameters are valid for all targets at once. The line that all submitters read is written only if one has changed.
 */
static void take_parameters(struct linnet_settings *settings)
{
	uint ms = READ_ONCE(age_ms);
	u64 age_ns = ms ? (u64)ms * NSEC_PER_MSEC : U64_MAX;
	u32 per_million = min(READ_ONCE(revoke_percent), 100U) * (LINNET_BUDGET_UNIT / 100);

	if (unlikely(READ_ONCE(settings->age_ns) != age_ns))
		WRITE_ONCE(settings->age_ns, age_ns);
	if (unlikely(READ_ONCE(settings->revokes.per_million) != per_million))
		WRITE_ONCE(settings->revokes.per_million, per_million);
}

int linnet_policy_of(const char *name)
{
	return match_string(linnet_policy_names, LINNET_POLICIES, name);
}

/*
 * The id combines the CPU's number and its own count. Preemption between the two is harmless: the count is the CPU's.
 */
u64 linnet_next_id(struct linnet_dm *dm)
{
	struct linnet_cpu_state *cpu_state = get_cpu_ptr(dm->cpu_states);
	u64 id = (u64)smp_processor_id() << 48 | (++cpu_state->ids & (BIT_ULL(48) - 1));

	put_cpu_ptr(dm->cpu_states);
	return id;
}

/* Reads that may be revoked: the application has tagged them, and no other caller waits for them. */
static bool is_revocable(const struct linnet_dm *dm, const struct bio *bio)
{
	const blk_opf_t never = REQ_META | REQ_PRIO | REQ_RAHEAD | REQ_SWAP | REQ_POLLED;

	return READ_ONCE(dm->revoke) && READ_ONCE(dm->settings.on) && bio->bi_ioprio == READ_ONCE(dm->ioprio) &&
	       !(bio->bi_opf & never);
}

u32 linnet_usable_legs(const struct linnet_dm *dm, u8 tried)
{
	u32 legs = (BIT(dm->leg_count) - 1) & ~tried & ~READ_ONCE(dm->failed);

	return dm->volume ? legs & READ_ONCE(dm->volume->trusted) : legs;
}

/*
 * Reads the leg's candidate and `seen` without its lock, and with a model's schema the read's features too. If every
 * attempt was disturbed, numbers of two neighbouring events are mixed, which is good enough to choose by, but not to
 * repeat the decision from. Under RCU, on one CPU. Inline, because most calls are without features, three to a read.
 */
static __always_inline void read_state(const struct linnet_leg *leg, struct linnet_routing *routing, u32 schema, u8 *features)
{
	struct linnet_decision *decision = &routing->decision;
	u64 seen = routing->seen[leg->index], events;
	bool stale = !schema;
	u32 try, seq;

	for (try = 0; try < DESCRIBE_TRIES; try++) {
		seq = raw_read_seqcount(&leg->seq);
		events = leg->state.events;
		stale |= events != seen;
		if (stale)
			linnet_replica_describe(&leg->state, decision->now_ns, &decision->candidates[leg->index]);
		if (schema)
			linnet_replica_features(&leg->state, schema, decision->now_ns,
						(leg->start + routing->sector) << SECTOR_SHIFT, routing->size_bytes, features);
		routing->seen[leg->index] = events;
		if (likely(!(seq & 1) && !read_seqcount_retry(&leg->seq, seq)))
			return;
		stale = true;
		cpu_relax();
	}
	routing->seen[leg->index] = LINNET_ANY_EVENT;
}

/* Fills in the leg's candidate and `seen`. */
static void describe(const struct linnet_leg *leg, struct linnet_routing *routing)
{
	read_state(leg, routing, 0, NULL);
}

/* The score of the leg's trees for the read, of the same events as the candidate. */
static void ask_trees(const struct linnet_leg *leg, struct linnet_routing *routing)
{
	struct linnet_candidate *candidate = &routing->decision.candidates[leg->index];
	struct linnet_leg_model *leg_model = rcu_dereference(leg->leg_model);
	u8 features[LINNET_INFLIGHT_FEATURES], eligible = candidate->eligible;

	candidate->score = 0;
	if (!leg_model || !leg_model->loaded->has_trees)
		return;
	read_state(leg, routing, leg_model->loaded->bitsliced.schema, features);
	candidate->eligible = eligible;
	candidate->known = 1;
	candidate->score = linnet_bitsliced_score(&leg_model->loaded->bitsliced, features);
}

/* The prediction of the leg's network for the read. Under RCU, on one CPU. */
static void ask_once(struct linnet_leg *leg, struct linnet_routing *routing)
{
	struct linnet_candidate *candidate = &routing->decision.candidates[leg->index];
	struct linnet_leg_model *leg_model = rcu_dereference(leg->leg_model);

	candidate->known = 0;
	candidate->slow = 0;
	if (!leg_model || !leg_model->net)
		return;
	if (linnet_incremental_behind(leg_model->net)) {
		linnet_leg_catch_up(leg, leg_model->net, routing->size_bytes);
		routing->caught_up = true;
	}
	linnet_incremental_describe(leg_model->net, routing->size_bytes,
				    leg_model->loaded->scratch ? this_cpu_ptr(leg_model->loaded->scratch) : NULL, candidate);
}

/* The prediction must belong to the same events as the leg's state. If others came in between, both are read again. */
static void ask_network(struct linnet_leg *leg, struct linnet_routing *routing)
{
	struct linnet_candidate *candidate = &routing->decision.candidates[leg->index];
	u8 eligible = candidate->eligible;
	u32 try;

	for (try = 1;; try++) {
		ask_once(leg, routing);
		smp_rmb(); /* events are counted before the incremental network gets them */
		if (READ_ONCE(leg->state.events) == routing->seen[leg->index] || try == DESCRIBE_TRIES)
			return;
		describe(leg, routing);
		candidate->eligible = eligible;
	}
}

void linnet_see(struct linnet_dm *dm, struct linnet_routing *routing)
{
	struct linnet_decision *decision = &routing->decision;
	u32 k;

	decision->now_ns = ktime_get_ns();
	routing->caught_up = false;
	linnet_decision_begin(decision, &dm->settings);
	for (k = 0; k < decision->count; k++) {
		if (decision->usable & BIT(k)) {
			describe(&dm->legs[k], routing);
			continue;
		}
		memset(&decision->candidates[k], 0, sizeof(decision->candidates[k]));
		routing->seen[k] = 0;
	}
}

void linnet_score_all(struct linnet_dm *dm, struct linnet_routing *routing)
{
	u32 left = routing->decision.usable & routing->decision.trees;

	for (; left; left &= left - 1)
		ask_trees(&dm->legs[__ffs(left)], routing);
}

/* Under RCU, on one CPU. */
static void decide(struct linnet_dm *dm, struct linnet_routing *routing)
{
	struct linnet_decision *decision = &routing->decision;
	u32 k;

	linnet_see(dm, routing);
	while ((k = linnet_decision_next(decision, &dm->settings, &this_cpu_ptr(dm->cpu_states)->revokes)) !=
	       LINNET_NO_REPLICA) {
		if (decision->asks_trees)
			ask_trees(&dm->legs[k], routing);
		else
			ask_network(&dm->legs[k], routing);
	}
}

static bool is_out(const struct linnet_leg *leg, u64 now_ns)
{
	return now_ns < READ_ONCE(leg->state.out_until_ns);
}

/* Its time out of service is over: the next read there is the probe by which it comes back. */
static bool wants_to_return(const struct linnet_leg *leg, u64 now_ns)
{
	return unlikely(READ_ONCE(leg->state.errors_in_row) >= leg->dm->settings.errors_max) && !is_out(leg, now_ns);
}

/* The first leg that is in service, or else the first. */
static u32 first_leg(const struct linnet_dm *dm, u32 usable, u64 now_ns)
{
	u32 out = 0, chosen = linnet_first_of(usable, 0);

	while (usable & ~out && is_out(&dm->legs[chosen], now_ns)) {
		out |= BIT(chosen);
		chosen = linnet_first_of(usable, out);
	}
	return chosen;
}

/* Routes a read without a decision. */
static void route_plainly(struct linnet_dm *dm, struct bio *bio, struct linnet_io *io, u32 usable)
{
	u64 now_ns = ktime_get_ns(), sector = dm_target_offset(dm->ti, bio->bi_iter.bi_sector);
	u32 chosen = first_leg(dm, usable, now_ns), other;

	while (wants_to_return(&dm->legs[chosen], now_ns) && (usable &= ~BIT(chosen))) {
		other = first_leg(dm, usable, now_ns);
		if (is_out(&dm->legs[other], now_ns))
			break;
		linnet_probe_start(&dm->legs[chosen], linnet_next_id(dm), sector, bio->bi_iter.bi_size);
		chosen = other;
	}
	linnet_leg_arrive(&dm->legs[chosen], &io->record, LINNET_ANY_EVENT, now_ns, true, false, sector,
			  bio->bi_iter.bi_size);
	io->leg = chosen;
	if (READ_ONCE(dm->settings.on) && READ_ONCE(dm->settings.policy) != LINNET_BASELINE)
		this_cpu_inc(dm->counts->forced);
}

/*
 * Records the read at its chosen leg. Returns false, and records nothing, if the leg has changed since its state was
 * read.
 */
static bool record_read(struct linnet_dm *dm, const struct linnet_routing *routing, struct linnet_io *io, bool last_try)
{
	const struct linnet_decision *decision = &routing->decision;
	struct linnet_leg *leg = &dm->legs[decision->choice.replica];
	u64 seen = last_try ? LINNET_ANY_EVENT : routing->seen[leg->index];

	if (!linnet_leg_arrive(leg, &io->record, seen, decision->now_ns, true, decision->choice.probe, routing->sector,
			       routing->size_bytes))
		return false;
	io->leg = leg->index;
	return true;
}

/* `probed`: another leg was chosen first, and is probed. So the policy had a choice. */
static void count(struct linnet_dm *dm, const struct linnet_decision *decision, bool probed)
{
	if (decision->verdict == LINNET_REVOKE)
		this_cpu_inc(dm->counts->revokes);
	else if (decision->verdict == LINNET_FORCED_SUBMIT && !(probed && decision->policy != LINNET_BASELINE))
		this_cpu_inc(dm->counts->forced);
	else if (decision->policy != LINNET_BASELINE)
		this_cpu_inc(dm->counts->decisions);
}

/*
 * If the read would be a probe of the chosen leg, and another leg is in service, the leg gets a probe of our own, and
 * is not usable for this read. Returns true then: the read has to be decided on again.
 */
static bool probe_instead(struct linnet_dm *dm, struct linnet_routing *routing, struct linnet_io *io)
{
	struct linnet_decision *decision = &routing->decision;
	struct linnet_leg *leg = &dm->legs[decision->choice.replica];

	if (likely(!decision->choice.probe && !wants_to_return(leg, decision->now_ns)))
		return false;
	if (!(decision->in_service & ~BIT(leg->index)))
		return false;
	if (linnet_probe_start(leg, routing->id, routing->sector, routing->size_bytes)) {
		trace_linnet_decision(dm, routing);
		routing->id = io->id = linnet_next_id(dm);
	}
	decision->usable &= ~BIT(leg->index);
	return true;
}

static bool route_by_policy(struct linnet_dm *dm, struct bio *bio, struct linnet_io *io, u32 usable, bool revocable)
{
	struct linnet_routing routing;
	struct linnet_decision *decision = &routing.decision;
	bool probed = false;
	u32 try;

	routing.id = io->id;
	routing.sector = dm_target_offset(dm->ti, bio->bi_iter.bi_sector);
	routing.size_bytes = bio->bi_iter.bi_size;
	decision->count = dm->leg_count;
	decision->usable = usable;
	decision->may_revoke = revocable;
	take_parameters(&dm->settings);
	preempt_disable();
	rcu_read_lock();
	decision->trees = READ_ONCE(dm->trees);
	decision->networks = READ_ONCE(dm->networks);
	if (revocable)
		linnet_budget_earn(&this_cpu_ptr(dm->cpu_states)->revokes, &dm->settings.revokes);
	for (try = 1;; try++) {
		decide(dm, &routing);
		/*
		 * The read arrives at the time of its decision. The time in which an incremental network caught up is
		 * not part of its latency.
		 */
		if (decision->verdict != LINNET_REVOKE && routing.caught_up && try < DECIDE_TRIES)
			continue;
		if (unlikely(decision->verdict != LINNET_REVOKE && probe_instead(dm, &routing, io))) {
			probed = true;
			try = 0;
			continue;
		}
		if (decision->verdict == LINNET_REVOKE || record_read(dm, &routing, io, try == DECIDE_TRIES))
			break;
	}
	trace_linnet_decision(dm, &routing);
	rcu_read_unlock();
	preempt_enable();
	count(dm, decision, probed);
	return decision->verdict != LINNET_REVOKE;
}

bool linnet_route(struct linnet_dm *dm, struct bio *bio, struct linnet_io *io, bool may_revoke)
{
	u32 usable = linnet_usable_legs(dm, io->tried);
	bool revocable = may_revoke && is_revocable(dm, bio);

	if (!usable) {
		if (io->status == BLK_STS_OK)
			io->status = BLK_STS_IOERR;
		return false;
	}
	io->id = linnet_next_id(dm);
	if (linnet_decides_nothing(&dm->settings, usable, revocable)) {
		route_plainly(dm, bio, io, usable);
	} else if (!route_by_policy(dm, bio, io, usable, revocable)) {
		io->status = BLK_STS_AGAIN;
		return false;
	}
	/* Above md, md is left when no leg is. */
	io->failfast = is_power_of_2(usable) && !dm->volume ? 0 : LINNET_FAILFAST & ~bio->bi_opf;
	bio->bi_opf |= io->failfast;
	return true;
}
