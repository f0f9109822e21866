/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The parts of a choice (choose.c) that every decision of ewma-inflight and linnet-best needs, inline (decide.c). Not part
 * of the public interface.
 */
#ifndef LINNET_CHOOSE_H
#define LINNET_CHOOSE_H

#include "linnet.h"

static inline uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static inline uint64_t expected_ns(const struct linnet_candidate *replica)
{
	if (!replica->ewma_ns)
		return replica->in_flight * (uint64_t)LINNET_UNTRIED_NS;
	return times(replica->ewma_ns, (uint64_t)replica->in_flight + 1);
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

#endif
