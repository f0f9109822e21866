/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The parts of a choice (choose.c) that every decision of ewma-inflight and linnet-best needs, inline, for decide.c and
 * for kernel/dm; and what decide.c takes from choose.c. Not part of the public interface.
 */
#ifndef LINNET_CHOOSE_H
#define LINNET_CHOOSE_H

#include "linnet.h"

/*
 * Whether a read that the candidate's trees (or else its network) predict slow may be revoked. Returns 0 if there is no
 * prediction, or if the candidate's state has expired and the read should be a probe.
 */
int linnet_may_revoke(const struct linnet_settings *settings, const struct linnet_candidate *candidate, int by_trees,
		      uint64_t now_ns);

/* The choice among the candidates, of which 0 is the primary, by a policy whose models are present. */
struct linnet_choice linnet_choose(const struct linnet_settings *settings, uint32_t policy,
				   const struct linnet_candidate *candidates, uint32_t count, uint64_t now_ns);

static inline uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static inline uint64_t expected_wait_ns(uint64_t ewma_ns, uint32_t in_flight)
{
	return ewma_ns ? times(ewma_ns, (uint64_t)in_flight + 1) : in_flight * (uint64_t)LINNET_UNTRIED_NS;
}

static inline uint64_t expected_ns(const struct linnet_candidate *replica)
{
	return expected_wait_ns(replica->ewma_ns, replica->in_flight);
}

static inline uint32_t least_expected(const struct linnet_candidate *replicas, uint32_t count)
{
	uint32_t best = LINNET_NO_REPLICA;
	uint64_t least = 0;

	for (uint32_t k = 0; k < count; k++) {
		uint64_t own;

		if (!replicas[k].eligible)
			continue;
		own = expected_ns(&replicas[k]);
		if (best != LINNET_NO_REPLICA && own >= least)
			continue;
		best = k;
		least = own;
	}
	return best;
}

/* A replica of which nothing has been learnt since then is probed. */
static inline uint64_t silent_since_ns(const struct linnet_settings *settings, uint64_t now_ns)
{
	uint64_t limit_ns = times(settings->age_ns, settings->probe_ages);

	return now_ns > limit_ns ? now_ns - limit_ns : 0;
}

static inline int wants_probe(uint32_t policy, const struct linnet_candidate *replica, uint64_t since_ns)
{
	if (replica->learnt_ns >= since_ns || !replica->eligible || replica->probing)
		return 0;
	return policy == LINNET_BEST ? replica->in_flight == 0 : replica->ewma_ns > 0;
}

/* The choice by ewma-inflight or linnet-best: at least two candidates are eligible, one of them is preferred. */
static inline struct linnet_choice choose_from(const struct linnet_settings *settings, uint32_t policy,
					       const struct linnet_candidate *replicas, uint32_t count, uint64_t now_ns,
					       uint32_t preferred)
{
	uint64_t since_ns = silent_since_ns(settings, now_ns);
	struct linnet_choice choice = { preferred, 0, 0 };

	for (uint32_t k = 0; k < count; k++) {
		if (!wants_probe(policy, &replicas[k], since_ns) || (policy == LINNET_EWMA_INFLIGHT && k == preferred))
			continue;
		choice.replica = k;
		choice.probe = 1;
		return choice;
	}
	choice.predicted_fast = policy == LINNET_BEST && replicas[preferred].known && replicas[preferred].score < 0;
	return choice;
}

/*
 * The parts of a decision by the wait as nearly every read finds it: all replicas are usable and in service, and none is
 * silent. Then one pass makes the choice that the steps of a decision would make.
 */
struct least {
	uint64_t since_ns, expected_ns;
	uint32_t replica;
};

static inline int is_for_one_pass(const struct linnet_decision *decision)
{
	uint32_t usable = decision->usable;

	return !decision->may_revoke && usable == (1U << decision->count) - 1 && (usable & (usable - 1)) != 0;
}

static inline struct least least_begin(const struct linnet_decision *decision, const struct linnet_settings *settings)
{
	return (struct least){ silent_since_ns(settings, decision->now_ns), UINT64_MAX, 0 };
}

/* Of the next replica. Returns 0 if the decision needs all its steps. */
static inline int least_add(struct least *least, uint32_t k, int eligible, uint64_t learnt_ns, uint64_t ewma_ns, uint32_t in_flight)
{
	uint64_t own_ns = expected_wait_ns(ewma_ns, in_flight);

	if (!eligible || learnt_ns < least->since_ns)
		return 0;
	if (own_ns < least->expected_ns) {
		least->expected_ns = own_ns;
		least->replica = k;
	}
	return 1;
}

static inline void least_is_chosen(const struct least *least, struct linnet_decision *decision)
{
	decision->in_service = decision->usable;
	decision->verdict = LINNET_SUBMIT;
	decision->choice = (struct linnet_choice){ least->replica, 0, 0 };
	decision->chosen = 1;
}

static inline uint32_t policy_in_use(const struct linnet_decision *decision, const struct linnet_settings *settings)
{
	uint32_t policy = linnet_load32(&settings->policy);

	if (!linnet_load32(&settings->on))
		return LINNET_BASELINE;
	if (policy == LINNET_LINNOS && !decision->networks)
		return LINNET_BASELINE;
	return policy;
}

/*
 * Whether the wait by the averages alone orders the candidates, a set of replicas: under linnet-best, if one of them has no
 * trees. The odds that one replica's trees give say nothing beside a replica of which none are known.
 */
static inline int is_by_wait(const struct linnet_decision *decision, uint32_t policy, uint32_t candidates)
{
	return policy == LINNET_EWMA_INFLIGHT || (policy == LINNET_BEST && (candidates & ~(uint32_t)decision->trees) != 0);
}

/*
 * The whole decision, without linnet_decision_begin and candidates, from the states of the replicas: `replica` is the
 * first, and each is `stride` bytes behind the one before. Returns 0, with nothing changed, if the decision needs all its
 * steps.
 */
static inline int linnet_decide_at_once(struct linnet_decision *decision, const struct linnet_settings *settings,
					const struct linnet_replica *replica, size_t stride)
{
	uint32_t policy = policy_in_use(decision, settings);
	struct least least;

	if (!is_for_one_pass(decision) || !is_by_wait(decision, policy, decision->usable))
		return 0;
	least = least_begin(decision, settings);
	for (uint32_t k = 0; k < decision->count; k++) {
		if (!least_add(&least, k, linnet_time_of(replica, decision->now_ns) >= replica->out_until_ns,
			       replica->learnt_ns, replica->ewma_ns, replica->in_flight))
			return 0;
		replica = (const struct linnet_replica *)((const char *)replica + stride);
	}
	decision->policy = (uint8_t)policy;
	decision->denied = 0;
	decision->asked = 0;
	decision->scored = 0;
	least_is_chosen(&least, decision);
	return 1;
}

#endif
