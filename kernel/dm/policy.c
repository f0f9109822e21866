// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which leg a read goes to.
 *
 * Every leg that may serve the read is described without its lock: the sequence count says whether an arrival or end came
 * between. After a few attempts that were all disturbed, what this CPU saw of the leg the last time must do. Then core/choose.c
 * chooses, and the read is booked at that leg under its lock, if the leg's events are still those that the choice rests on. If
 * not, the decision is taken anew, a few times: reads that arrive together would else all choose by the same state, and all the
 * same leg.
 *
 * A model that is missing or cannot answer never stops a read: the policy falls back to one that needs no model.
 */
#define CREATE_TRACE_POINTS
#include <linux/moduleparam.h>

#include "linnet-dm.h"
#include "policy.h"
#include "trace.h"

#define DESCRIBE_TRIES 4
#define DECIDE_TRIES 3
#define HISTORY LINNET_HISTORY /* reads that the digits' history must hold before they mean anything */

static uint age_ms = LINNET_AGE_NS / NSEC_PER_MSEC;
module_param(age_ms, uint, 0644);
MODULE_PARM_DESC(age_ms, "age in ms at which what is known of a replica has expired, so that a read goes there as a probe; 0: never");

#define REVOKES_IN_ROW_MAX 1024 /* on a CPU, beyond what revoke_percent allows: a stall of several drives at once */

static uint revoke_percent = 100;
module_param(revoke_percent, uint, 0644);
MODULE_PARM_DESC(revoke_percent, "of the reads that may be revoked, the most that are, in percent and in the long run");

static u64 age_ns(void)
{
	uint ms = READ_ONCE(age_ms);

	return ms ? (u64)ms * NSEC_PER_MSEC : U64_MAX;
}

const char *const linnet_policy_names[] = {
	[LINNET_BASELINE] = "baseline",
	[LINNET_SHORTEST_QUEUE] = "shortest-queue",
	[LINNET_EWMA_INFLIGHT] = "ewma-inflight",
	[LINNET_LINNOS] = "linnos",
	[LINNET_BEST] = "linnet-best",
};

int linnet_policy_of(const char *name)
{
	return match_string(linnet_policy_names, ARRAY_SIZE(linnet_policy_names), name);
}

/* The CPU's number stands above its own count. Preemption between the two does no harm: the count is the CPU's. */
u64 linnet_next_id(struct linnet_dm *dm)
{
	struct linnet_desk *desk = get_cpu_ptr(dm->desks);
	u64 id = (u64)smp_processor_id() << 48 | (++desk->ids & (BIT_ULL(48) - 1));

	put_cpu_ptr(dm->desks);
	return id;
}

/* Reads that may be told to go elsewhere: the application has tagged them, and nobody else waits for them. */
static bool is_revocable(const struct linnet_dm *dm, const struct bio *bio)
{
	const blk_opf_t never = REQ_META | REQ_PRIO | REQ_RAHEAD | REQ_SWAP | REQ_POLLED;

	return READ_ONCE(dm->revoke) && READ_ONCE(dm->on) && bio->bi_ioprio == READ_ONCE(dm->ioprio) &&
	       !(bio->bi_opf & never);
}

/* A bit for each leg that could serve the read, errors in a row aside. */
static u32 usable_legs(const struct linnet_dm *dm, const struct bio *bio, u8 tried)
{
	u32 legs = 0, k;

	for (k = 0; k < dm->leg_count; k++) {
		if (tried & BIT(k) || test_bit(LINNET_LEG_FAILED, &dm->legs[k].flags))
			continue;
		if (dm->mirror && !linnet_mirror_readable(dm->mirror, k, bio))
			continue;
		legs |= BIT(k);
	}
	return legs;
}

/* Fills decision->legs[k] and seen[k]. Under RCU, on one CPU. */
static void describe(struct linnet_leg *leg, struct linnet_decision *decision, bool by_trees)
{
	struct linnet_candidate *candidate = &decision->legs[leg->index];
	struct linnet_desk *desk = this_cpu_ptr(leg->dm->desks);
	struct linnet_mind *mind = rcu_dereference(leg->mind);
	u64 offset_bytes = (leg->start + decision->sector) << SECTOR_SHIFT;
	u8 features[LINNET_WATCH_FEATURES];
	u32 try;

	by_trees = by_trees && mind && mind->loaded->has_trees;
	for (try = 0; try < DESCRIBE_TRIES; try++) {
		u32 seq = raw_read_seqcount(&leg->seq);

		if (seq & 1) {
			cpu_relax();
			continue;
		}
		decision->seen[leg->index] = leg->state.events;
		linnet_replica_describe(&leg->state, NULL, decision->now_ns, offset_bytes, decision->size_bytes,
					candidate);
		if (by_trees)
			linnet_replica_features(&leg->state, decision->now_ns, offset_bytes, decision->size_bytes,
						features);
		if (read_seqcount_retry(&leg->seq, seq))
			continue;
		candidate->known = by_trees;
		if (by_trees)
			candidate->score = linnet_grove_score(&mind->loaded->grove, features);
		desk->last[leg->index] = *candidate;
		return;
	}
	*candidate = desk->last[leg->index];
	decision->seen[leg->index] = LINNET_ANY_EVENT;
}

/* What the leg's network says of the read: candidate->slow and known. Under RCU, on one CPU. */
static void ask_once(struct linnet_leg *leg, struct linnet_decision *decision)
{
	struct linnet_candidate *candidate = &decision->legs[leg->index];
	struct linnet_mind *mind = rcu_dereference(leg->mind);
	u32 pages = linnet_pages(decision->size_bytes), pending, snapshot;
	void *scratch;

	candidate->known = 0;
	if (!mind || !mind->judge)
		return;
	pending = linnet_judge_pending_pages(mind->judge);
	snapshot = pending + min(pages, U32_MAX - pending);
	if (linnet_judge_behind(mind->judge)) {
		linnet_leg_catch_up(leg, mind->judge, snapshot);
		decision->caught_up = true;
	}
	if (linnet_judge_history_len(mind->judge) < HISTORY)
		return;
	scratch = mind->loaded->scratch ? this_cpu_ptr(mind->loaded->scratch) : NULL;
	candidate->known = 1;
	candidate->slow = linnet_judge_decide(mind->judge, snapshot, scratch);
}

/* The answer belongs to the events that the leg was described by, or else both are had anew, a few times. */
static void ask_network(struct linnet_leg *leg, struct linnet_decision *decision)
{
	struct linnet_candidate *candidate = &decision->legs[leg->index];
	u32 eligible = candidate->eligible, try;

	for (try = 1;; try++) {
		ask_once(leg, decision);
		smp_rmb(); /* events are counted before the judge is told of them */
		if (READ_ONCE(leg->state.events) == decision->seen[leg->index] || try == DESCRIBE_TRIES)
			return;
		describe(leg, decision, false);
		candidate->eligible = eligible;
	}
}

/* linnos: in order, until one is fast; the last candidate is not asked. */
static void ask_in_order(struct linnet_dm *dm, struct linnet_decision *decision)
{
	u32 last = LINNET_NO_REPLICA, k;

	for (k = 0; k < decision->count; k++)
		if (decision->legs[k].eligible)
			last = k;
	for (k = 0; k < decision->count && k != last; k++) {
		if (!decision->legs[k].eligible)
			continue;
		ask_network(&dm->legs[k], decision);
		if (!decision->legs[k].slow)
			return;
	}
}

static bool have_model(const struct linnet_dm *dm, bool trees)
{
	u32 k;

	for (k = 0; k < dm->leg_count; k++) {
		struct linnet_mind *mind = rcu_dereference(dm->legs[k].mind);

		if (mind && (trees ? mind->loaded->has_trees : mind->loaded->has_network))
			return true;
	}
	return false;
}

/* The policy that can be followed with the models that there are. Under RCU. */
static u32 effective_policy(const struct linnet_dm *dm)
{
	u32 policy = READ_ONCE(dm->policy);

	if (!READ_ONCE(dm->on))
		return LINNET_BASELINE;
	if (policy == LINNET_BEST && !have_model(dm, true))
		return LINNET_EWMA_INFLIGHT;
	if (policy == LINNET_LINNOS && !have_model(dm, false))
		return LINNET_BASELINE;
	return policy;
}

/* Legs out of service because of errors stand back while another can serve the read. */
static u32 set_eligible(struct linnet_decision *decision, u32 usable)
{
	u32 k, in_service = 0;

	for (k = 0; k < decision->count; k++)
		in_service |= decision->legs[k].eligible << k;
	in_service &= usable;
	if (!in_service)
		in_service = usable;
	for (k = 0; k < decision->count; k++)
		decision->legs[k].eligible = in_service >> k & 1;
	return in_service;
}

/* A read that may be revoked has come: it earns its share of a revoke. On one CPU. */
static void earn_revoke(struct linnet_dm *dm)
{
	struct linnet_desk *desk = this_cpu_ptr(dm->desks);

	desk->spent -= min(desk->spent, min(READ_ONCE(revoke_percent), 100U));
}

/* Whether the budget has a revoke left; takes it. */
static bool spend_revoke(struct linnet_dm *dm)
{
	struct linnet_desk *desk = this_cpu_ptr(dm->desks);

	if (desk->spent > 100 * (REVOKES_IN_ROW_MAX - 1))
		return false;
	desk->spent += 100;
	return true;
}

/* Whether the chosen leg will be slow for a read that may be revoked; else it may become a probe. */
static bool judge_chosen(struct linnet_dm *dm, struct linnet_decision *decision)
{
	u32 k = decision->choice.replica;
	struct linnet_candidate *chosen = &decision->legs[k];
	bool by_trees = chosen->known && decision->policy != LINNET_LINNOS, slow;

	if (decision->choice.probe)
		return false;
	if (!by_trees && !chosen->known)
		ask_network(&dm->legs[k], decision);
	slow = by_trees ? chosen->score > 0 : chosen->slow;
	if (slow && linnet_may_revoke(chosen, by_trees, decision->now_ns, age_ns()))
		return spend_revoke(dm);
	decision->choice.probe = slow;
	return false;
}

static void decide(struct linnet_dm *dm, struct linnet_decision *decision, u32 usable)
{
	bool by_trees, forced;
	u32 k, in_service;

	decision->policy = effective_policy(dm);
	by_trees = decision->policy == LINNET_BEST || (decision->revocable && decision->policy != LINNET_LINNOS);
	for (k = 0; k < dm->leg_count; k++) {
		if (usable & BIT(k))
			describe(&dm->legs[k], decision, by_trees);
		else
			memset(&decision->legs[k], 0, sizeof(decision->legs[k]));
	}
	in_service = set_eligible(decision, usable);
	if (decision->policy == LINNET_LINNOS)
		ask_in_order(dm, decision);
	decision->choice = linnet_choose(decision->policy, decision->legs, decision->count, decision->now_ns,
					 age_ns());
	forced = hweight32(in_service) < 2 || (decision->policy == LINNET_BASELINE && READ_ONCE(dm->policy));
	decision->verdict = forced ? LINNET_FORCED_SUBMIT : LINNET_SUBMIT;
	if (!decision->revocable)
		return;
	if (judge_chosen(dm, decision))
		decision->verdict = LINNET_REVOKE;
	else if (decision->legs[decision->choice.replica].known)
		decision->verdict = LINNET_SUBMIT;
}

/* Without a choice to take: the first leg that is in service, or else the first. */
static void route_plainly(struct linnet_dm *dm, struct bio *bio, struct linnet_io *io, u32 usable)
{
	u64 now_ns = ktime_get_ns();
	u32 chosen = __ffs(usable), k;

	for (k = chosen; k < dm->leg_count; k++) {
		if (usable & BIT(k) && now_ns >= READ_ONCE(dm->legs[k].state.out_until_ns)) {
			chosen = k;
			break;
		}
	}
	linnet_leg_arrive(&dm->legs[chosen], &io->booking, LINNET_ANY_EVENT, now_ns, true, false,
			  dm_target_offset(dm->ti, bio->bi_iter.bi_sector), bio->bi_iter.bi_size);
	io->leg = chosen;
	if (READ_ONCE(dm->on) && READ_ONCE(dm->policy) != LINNET_BASELINE)
		this_cpu_inc(dm->counts->forced);
}

static bool route_by_policy(struct linnet_dm *dm, struct bio *bio, struct linnet_io *io, u32 usable, bool revocable)
{
	struct linnet_decision decision;
	struct linnet_leg *leg;
	u64 seen;
	u32 try;

	decision.id = io->id;
	decision.sector = dm_target_offset(dm->ti, bio->bi_iter.bi_sector);
	decision.size_bytes = bio->bi_iter.bi_size;
	decision.count = dm->leg_count;
	decision.revocable = revocable;
	memset(decision.seen, 0, sizeof(decision.seen));
	preempt_disable();
	rcu_read_lock();
	if (revocable)
		earn_revoke(dm);
	for (try = 1;; try++) {
		decision.now_ns = ktime_get_ns();
		decision.caught_up = false;
		decide(dm, &decision, usable);
		if (decision.verdict == LINNET_REVOKE)
			break;
		/* The read arrives when it is decided about. What a judge has caught up with is no part of its latency. */
		if (decision.caught_up && try < DECIDE_TRIES)
			continue;
		leg = &dm->legs[decision.choice.replica];
		seen = try < DECIDE_TRIES ? decision.seen[leg->index] : LINNET_ANY_EVENT;
		if (linnet_leg_arrive(leg, &io->booking, seen, decision.now_ns, true, decision.choice.probe,
				      decision.sector, decision.size_bytes)) {
			io->leg = leg->index;
			break;
		}
	}
	trace_linnet_decision(dm, &decision);
	rcu_read_unlock();
	preempt_enable();

	if (decision.verdict == LINNET_REVOKE)
		this_cpu_inc(dm->counts->revokes);
	else if (decision.verdict == LINNET_FORCED_SUBMIT)
		this_cpu_inc(dm->counts->forced);
	else if (decision.policy != LINNET_BASELINE)
		this_cpu_inc(dm->counts->decisions);
	return decision.verdict != LINNET_REVOKE;
}

bool linnet_route(struct linnet_dm *dm, struct bio *bio, struct linnet_io *io, bool may_revoke)
{
	u32 usable = usable_legs(dm, bio, io->tried);
	bool revocable = may_revoke && is_revocable(dm, bio);

	if (!usable) {
		if (io->status == BLK_STS_OK)
			io->status = BLK_STS_IOERR;
		return false;
	}
	io->id = linnet_next_id(dm);
	if (!revocable && (hweight32(usable) < 2 || !READ_ONCE(dm->on) || READ_ONCE(dm->policy) == LINNET_BASELINE)) {
		route_plainly(dm, bio, io, usable);
	} else if (!route_by_policy(dm, bio, io, usable, revocable)) {
		io->status = BLK_STS_AGAIN;
		return false;
	}
	/* The last leg must not turn the read away either, because its queue is full, say. */
	if (hweight32(usable) < 2)
		bio->bi_opf &= ~REQ_NOWAIT;
	return true;
}
