// SPDX-License-Identifier: GPL-2.0-only
/*
 * Chooses the leg of a read. The rules are in core/decide.c; this file fills in what they need: the state of every leg
 * that may serve the read, under the lock, or else its digest (digest.c), and what the models say. The digest may be
 * renewed while it is read. If that has happened several times in a row, the numbers are used as they are.
 *
 * What only one read may do at a time, to probe a leg or to run its network, is decided under the lock.
 */
#define CREATE_TRACE_POINTS
#include <linux/log2.h>
#include <linux/moduleparam.h>

#include "choose.h"
#include "linnet-dm.h"
#include "policy.h"
#include "trace.h"

#define DESCRIBE_TRIES 4

static uint age_ms = LINNET_AGE_NS / NSEC_PER_MSEC;
module_param(age_ms, uint, 0644);
MODULE_PARM_DESC(age_ms, "age in ms at which what is known of a replica has expired, so that a read goes there as a probe; 0: never");

static uint revoke_percent = 100;
module_param(revoke_percent, uint, 0644);
MODULE_PARM_DESC(revoke_percent, "of the reads that may be revoked, the most that are, in percent and in the long run");

/*
 * Parameters are valid for all targets at once. The line that all submitters read is written only if one has changed.
 */
static void take_parameters(struct linnet_settings *settings, bool revocable)
{
	uint ms = READ_ONCE(age_ms);
	u64 age_ns = ms ? (u64)ms * NSEC_PER_MSEC : U64_MAX;
	u32 per_million;

	if (unlikely(READ_ONCE(settings->age_ns) != age_ns))
		WRITE_ONCE(settings->age_ns, age_ns);
	if (!revocable)
		return;
	per_million = min(READ_ONCE(revoke_percent), 100U) * (LINNET_BUDGET_UNIT / 100);
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
	struct linnet_cpu *cpu = get_cpu_ptr(dm->cpus);
	u64 id = (u64)smp_processor_id() << 48 | (++cpu->ids & (BIT_ULL(48) - 1));

	put_cpu_ptr(dm->cpus);
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
 * Reads the leg's candidate, `seen` and `own`, and with a model's schema the read's features too. If the digest was
 * renewed during each attempt, numbers of two digests are mixed, which is good enough to choose by, but not to repeat
 * the decision from. Inline, because most calls are without features, three to a read.
 */
static __always_inline void read_digest(const struct linnet_leg *leg, struct linnet_routing *routing, u32 schema, u8 *features)
{
	struct linnet_decision *decision = &routing->decision;
	const struct linnet_digest *digest = &leg->dm->digest;
	const struct linnet_cpu *cpu = this_cpu_ptr(leg->dm->cpus);
	struct linnet_candidate *candidate = &decision->candidates[leg->index];
	u64 seen = routing->seen[leg->index], events;
	bool stale = !schema;
	u32 try, seq;
	s32 own;

	for (try = 0; try < DESCRIBE_TRIES; try++) {
		/* In the middle of a renewal the number is made even, so that the retry is refused after the read. */
		seq = raw_seqcount_begin(&digest->seq);
		events = leg->digest.events;
		own = READ_ONCE(cpu->queued[leg->index]) - READ_ONCE(cpu->applied[leg->index]);
		stale |= events != seen;
		if (stale) {
			linnet_describe(&leg->digest, decision->now_ns, candidate);
			own = max(own, -(s32)candidate->in_flight);
			candidate->in_flight += own;
			routing->own[leg->index] = own;
		}
		if (schema)
			linnet_replica_features(&leg->digest, schema, decision->now_ns,
						(leg->start + routing->sector) << SECTOR_SHIFT, routing->size_bytes, features);
		routing->seen[leg->index] = events;
		if (likely(!read_seqcount_retry(&digest->seq, seq)))
			return;
		stale = true;
		cpu_relax();
	}
	routing->seen[leg->index] = LINNET_ANY_EVENT;
}

/* The score of the leg's trees for the read, of the same events as the candidate. Under RCU. */
static void ask_trees(const struct linnet_leg *leg, struct linnet_routing *routing)
{
	struct linnet_candidate *candidate = &routing->decision.candidates[leg->index];
	struct linnet_leg_model *leg_model = rcu_dereference(leg->leg_model);
	u8 features[LINNET_INFLIGHT_FEATURES], eligible = candidate->eligible;
	u32 schema;

	candidate->score = LINNET_SCORE_LEAST;
	if (!leg_model || !leg_model->loaded->has_trees)
		return;
	schema = leg_model->loaded->bitsliced.schema;
	if (likely(routing->locked))
		linnet_replica_features(&leg->state, schema, routing->decision.now_ns,
					(leg->start + routing->sector) << SECTOR_SHIFT, routing->size_bytes, features);
	else
		read_digest(leg, routing, schema, features);
	candidate->eligible = eligible;
	linnet_candidate_scored(candidate, linnet_bitsliced_score(&leg_model->loaded->bitsliced, features),
				leg_model->loaded->bitsliced.slow_score);
}

/* The prediction of the leg's network for the read. Under RCU and the lock. */
static void ask_network(struct linnet_leg *leg, struct linnet_routing *routing)
{
	struct linnet_candidate *candidate = &routing->decision.candidates[leg->index];
	struct linnet_leg_model *leg_model = rcu_dereference(leg->leg_model);
	struct linnet_incremental *net = leg_model ? leg_model->net : NULL;
	struct linnet_noted noted;

	candidate->known = 0;
	candidate->slow = 0;
	if (!net || !routing->locked)
		return;
	if (linnet_incremental_behind(net)) {
		linnet_incremental_noted(net, &noted);
		linnet_incremental_process(net, &noted, linnet_incremental_snapshot(net, routing->size_bytes));
		routing->caught_up = true;
	}
	linnet_incremental_describe(net, routing->size_bytes,
				    leg_model->loaded->scratch ? this_cpu_ptr(leg_model->loaded->scratch) : NULL, candidate);
}

static void see_none(struct linnet_routing *routing, u32 k)
{
	memset(&routing->decision.candidates[k], 0, sizeof(routing->decision.candidates[k]));
	routing->seen[k] = 0;
	routing->own[k] = 0;
}

static void see_digests(struct linnet_dm *dm, struct linnet_routing *routing)
{
	u32 k;

	for (k = 0; k < routing->decision.count; k++) {
		if (routing->decision.usable & BIT(k))
			read_digest(&dm->legs[k], routing, 0, NULL);
		else
			see_none(routing, k);
	}
}

/* Under the lock. The legs are visited by pointer: they are large, and this loop is part of each decision. */
static void see_states(struct linnet_dm *dm, struct linnet_routing *routing)
{
	struct linnet_decision *decision = &routing->decision;
	struct linnet_candidate *candidate = decision->candidates;
	const struct linnet_leg *leg = dm->legs;
	u32 k, count = decision->count, usable = decision->usable;
	u64 now_ns = decision->now_ns;

	for (k = 0; k < count; k++, leg++, candidate++) {
		if (unlikely(!(usable & BIT(k)))) {
			see_none(routing, k);
			continue;
		}
		linnet_describe(&leg->state, now_ns, candidate);
		routing->seen[k] = leg->state.events;
	}
}

/* What is known of the usable legs. */
static void see(struct linnet_dm *dm, struct linnet_routing *routing)
{
	if (likely(routing->locked))
		see_states(dm, routing);
	else
		see_digests(dm, routing);
}

static void begin(struct linnet_dm *dm, struct linnet_routing *routing)
{
	routing->described = true;
	linnet_decision_begin(&routing->decision, &dm->settings);
	see(dm, routing);
}

void linnet_decide_copy(struct linnet_dm *dm, struct linnet_routing *routing)
{
	u32 k;

	linnet_copy_begin(&routing->decision, &dm->settings);
	see(dm, routing);
	while ((k = linnet_copy_next(&routing->decision)) != LINNET_NO_REPLICA)
		ask_trees(&dm->legs[k], routing);
}

static void decide(struct linnet_dm *dm, struct linnet_routing *routing)
{
	struct linnet_decision *decision = &routing->decision;
	u32 k;

	routing->described = false;
	routing->caught_up = false;
	/* A record has what the decision was based on. */
	if (unlikely(trace_linnet_decision_enabled()))
		begin(dm, routing);
	if (likely(routing->locked) && linnet_decide_at_once(decision, &dm->settings, &dm->legs->state, sizeof(*dm->legs)))
		return;
	if (likely(!routing->described))
		begin(dm, routing);
	while ((k = linnet_decision_next(decision, &dm->settings, &this_cpu_ptr(dm->cpus)->revokes)) !=
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
	io->record = linnet_leg_arrive(&dm->legs[chosen], now_ns, true, false, sector, bio->bi_iter.bi_size);
	io->leg = chosen;
	if (READ_ONCE(dm->settings.on) && READ_ONCE(dm->settings.policy) != LINNET_BASELINE)
		this_cpu_inc(dm->counts->forced);
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

/* Whether the read would be a probe of the leg that is chosen. */
static bool would_probe(const struct linnet_dm *dm, const struct linnet_decision *decision)
{
	return decision->choice.probe || wants_to_return(&dm->legs[decision->choice.replica], decision->now_ns);
}

/* Tracing may have begun after the decision, when nothing was filled in for it. */
static void record(struct linnet_dm *dm, const struct linnet_routing *routing)
{
	if (likely(routing->described))
		trace_linnet_decision(dm, routing);
}

/*
 * The read would be a probe. If another leg is in service, the chosen one gets a probe of our own, and is not usable
 * for this read. Returns true then: the read has to be decided on again. Under the lock.
 */
static bool probe_instead(struct linnet_dm *dm, struct linnet_routing *routing, struct linnet_io *io)
{
	struct linnet_decision *decision = &routing->decision;
	struct linnet_leg *leg = &dm->legs[decision->choice.replica];

	if (!(decision->in_service & ~BIT(leg->index)))
		return false;
	if (linnet_probe_start(leg, routing->id, routing->sector, routing->size_bytes)) {
		record(dm, routing);
		routing->id = io->id = linnet_next_id(dm);
	}
	decision->usable &= ~BIT(leg->index);
	return true;
}

/* Every event must be in what the decision is based on: its networks take their history from there. */
static bool needs_lock(const struct linnet_dm *dm, bool revocable)
{
	return READ_ONCE(dm->networks) && (revocable || READ_ONCE(dm->settings.policy) == LINNET_LINNOS);
}

static __always_inline bool route_by_policy(struct linnet_dm *dm, struct bio *bio, struct linnet_io *io, u32 usable,
					    bool revocable)
{
	struct linnet_routing routing;
	struct linnet_decision *decision = &routing.decision;
	bool probed = false, again = false;

	routing.id = io->id;
	routing.sector = dm_target_offset(dm->ti, bio->bi_iter.bi_sector);
	routing.size_bytes = bio->bi_iter.bi_size;
	decision->count = dm->leg_count;
	decision->usable = usable;
	decision->may_revoke = revocable;
	take_parameters(&dm->settings, revocable);
	local_bh_disable();
	rcu_read_lock();
	io->record = linnet_record_take(dm);
	if (revocable)
		linnet_budget_earn(&this_cpu_ptr(dm->cpus)->revokes, &dm->settings.revokes);
	decision->now_ns = ktime_get_ns();
	routing.locked = linnet_digest_enter(dm, decision->now_ns, needs_lock(dm, revocable));
	for (;;) {
		decision->trees = READ_ONCE(dm->trees);
		decision->networks = READ_ONCE(dm->networks);
		decide(dm, &routing);
		if (likely(decision->verdict != LINNET_REVOKE)) {
			/* The time in which a network caught up is not part of the read's latency. */
			if (unlikely(routing.caught_up && !again)) {
				again = true;
				decision->now_ns = ktime_get_ns();
				continue;
			}
			if (unlikely(would_probe(dm, decision))) {
				if (!routing.locked) {
					routing.locked = linnet_digest_enter(dm, decision->now_ns, true);
					continue;
				}
				if (probe_instead(dm, &routing, io)) {
					probed = true;
					continue;
				}
			}
		}
		break;
	}
	if (decision->verdict != LINNET_REVOKE) {
		io->leg = decision->choice.replica;
		linnet_digest_arrive(&dm->legs[io->leg], io->record, routing.locked, decision->now_ns, true, decision->choice.probe,
				     routing.sector, routing.size_bytes);
	} else {
		linnet_record_drop(dm, io->record);
	}
	record(dm, &routing);
	if (routing.locked)
		linnet_digest_leave(dm);
	rcu_read_unlock();
	local_bh_enable();
	count(dm, decision, probed);
	return decision->verdict != LINNET_REVOKE;
}

bool linnet_route(struct linnet_dm *dm, struct bio *bio, struct linnet_io *io, bool may_revoke)
{
	u32 usable = linnet_usable_legs(dm, io->tried);
	bool revocable = may_revoke && is_revocable(dm, bio);

	if (unlikely(!usable && io->hasty)) {
		/* Without the target those drivers would have tried again, and might have succeeded. */
		io->tried &= ~io->hasty;
		io->hasty = 0;
		io->patient = true;
		usable = linnet_usable_legs(dm, io->tried);
	}
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
	io->failfast = (is_power_of_2(usable) && !dm->volume) || io->patient ? 0 : LINNET_FAILFAST & ~bio->bi_opf;
	/* The block layer does so by itself, with every flag, and warns when a merged bio has only some of them. */
	if (bio->bi_opf & REQ_RAHEAD)
		io->failfast = 0;
	bio->bi_opf |= io->failfast;
	return true;
}
