/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Decides on one read (spec/decision.md): one procedure for the kernel's target and for crates/array.
 *
 * 1. Policy. If Linnet is off, every read follows baseline, as under linnos if no replica has a network.
 * 2. Candidates. Replicas that are out of service because of errors are excluded, unless no other is left.
 * 3. Choice (choose.c). linnos runs networks in order until one does not predict slow. It never runs the last one.
 *    linnet-best asks trees only as far as the choice depends on their scores: see next_to_score. If a candidate has no
 *    trees it asks none, and the wait by the averages decides.
 * 4. Verdict. A read that may be revoked is revoked if the model of the chosen replica predicts slow, the replica's
 *    state has not expired, and the budget has a revoke left. If the state has expired, the read is submitted as a
 *    probe.
 *
 * If a model is missing or cannot predict, the read is submitted.
 *
 * linnet_copy_next applies the same rules to the second copy of a late read (hedge.c), which is no probe, has no verdict, and
 * goes to no replica that is out of service.
 */
#include "choose.h"

#define NAME(number, constant, name) [constant] = name,
const char *const linnet_policy_names[LINNET_POLICIES] = { LINNET_POLICY_TABLE(NAME) };

void linnet_settings_init(struct linnet_settings *settings)
{
	settings->on = 1;
	settings->policy = LINNET_BEST;
	settings->age_ns = LINNET_AGE_NS;
	settings->out_ns = 10000000;
	settings->out_ns_max = 1000000000;
	settings->errors_max = 3;
	settings->probe_ages = 100;
	settings->revoke_ages = 5;
	settings->revokes_in_row_max = 1024;
	settings->revokes = (struct linnet_rate){ LINNET_BUDGET_UNIT, 1024 };
	settings->hedges = (struct linnet_rate){ LINNET_BUDGET_UNIT / 50, 256 };
}

static int is_rate(const struct linnet_rate *rate)
{
	return rate->per_million <= 8 * LINNET_BUDGET_UNIT && rate->burst <= 1000000000;
}

int linnet_settings_check(const struct linnet_settings *settings)
{
	if (settings->on > 1 || settings->policy >= LINNET_POLICIES || !settings->age_ns || !settings->out_ns ||
	    !settings->errors_max || !settings->revokes_in_row_max || settings->out_ns_max < settings->out_ns ||
	    settings->out_ns_max > (uint64_t)1 << 62)
		return LINNET_E_FIELD;
	return is_rate(&settings->revokes) && is_rate(&settings->hedges) ? 0 : LINNET_E_FIELD;
}

void linnet_decision_begin(struct linnet_decision *decision, const struct linnet_settings *settings)
{
	uint32_t policy = policy_in_use(decision, settings);

	decision->policy = (uint8_t)policy;
	decision->by_wait = (uint8_t)is_by_wait(decision, policy, decision->usable);
	decision->by_trees = policy == LINNET_BEST || (decision->may_revoke && policy != LINNET_LINNOS);
	decision->asked = 0;
	decision->scored = 0;
	decision->asks_trees = 0;
	decision->choice.replica = 0;
	decision->in_service = 0;
	decision->chosen = 0;
	decision->denied = 0;
}

/* `fallback`: the candidates if none of the usable replicas is in service. */
static void set_eligible(struct linnet_decision *decision, uint32_t fallback)
{
	uint32_t in_service = 0;

	for (uint32_t k = 0; k < decision->count; k++)
		in_service |= (uint32_t)decision->candidates[k].eligible << k;
	in_service &= decision->usable;
	/* If all of them are eligible, the candidates say so already. */
	if (in_service != (1U << decision->count) - 1) {
		in_service = in_service ? in_service : fallback;
		for (uint32_t k = 0; k < decision->count; k++)
			decision->candidates[k].eligible = in_service >> k & 1;
		decision->by_wait = (uint8_t)is_by_wait(decision, decision->policy, in_service);
	}
	decision->in_service = (uint8_t)in_service;
}

/*
 * linnet-best: the next replica whose trees to ask. Those that were not asked have the least score that counts. So if
 * the preferred one has been asked, or has no trees, no further score can change that it is preferred.
 */
static inline __attribute__((always_inline)) uint32_t next_to_score(struct linnet_decision *decision, uint32_t *preferred)
{
	uint32_t last = decision->choice.replica, unknown = decision->trees & ~(uint32_t)decision->scored, policy = LINNET_BEST;
	struct linnet_candidate *own = &decision->candidates[last];

	/* The replica asked last has the least score and waits no longer than when it was preferred. */
	if (decision->scored && own->score <= LINNET_SCORE_LEAST && expected_ns(own) <= decision->expected_ns) {
		*preferred = last;
		return LINNET_NO_REPLICA;
	}
	/* All scores are equal: the order is that of the wait. */
	if (!(decision->in_service & ~unknown))
		policy = LINNET_EWMA_INFLIGHT;
	else /* one has been asked, the last of them here: it is still eligible, whatever the caller has made of it */
		own->eligible = 1;
	*preferred = linnet_preferred(policy, decision->candidates, decision->count);
	if (!(unknown >> *preferred & 1))
		return LINNET_NO_REPLICA;
	own = &decision->candidates[*preferred];
	decision->expected_ns = expected_ns(own);
	decision->choice.replica = *preferred;
	return *preferred;
}

/* linnos: the next replica whose network to run, or none if the last one did not predict slow. */
static uint32_t next_in_order(struct linnet_decision *decision)
{
	uint32_t last = 31 - (uint32_t)__builtin_clz(decision->in_service);

	for (uint32_t k = 0; k < last; k++) {
		if (!(decision->in_service >> k & 1))
			continue;
		if (!(decision->asked >> k & 1))
			return k;
		if (!decision->candidates[k].slow)
			break;
	}
	/* Still, whatever the caller has made of it: the choice has a candidate. */
	decision->candidates[last].eligible = 1;
	return LINNET_NO_REPLICA;
}

static int is_single(uint32_t bits)
{
	return (bits & (bits - 1)) == 0;
}

static void choose(struct linnet_decision *decision, const struct linnet_settings *settings, uint32_t preferred)
{
	int lacks_model = decision->policy == LINNET_BASELINE && linnet_load32(&settings->policy) != LINNET_BASELINE;

	decision->verdict = lacks_model ? LINNET_FORCED_SUBMIT : LINNET_SUBMIT;
	if (is_single(decision->in_service)) {
		decision->choice = (struct linnet_choice){ (uint32_t)__builtin_ctz(decision->in_service), 0, 0 };
		decision->verdict = LINNET_FORCED_SUBMIT;
	} else if (decision->policy == LINNET_EWMA_INFLIGHT) {
		/* A call for each policy: inline, the branches on a constant are left out. */
		decision->choice = choose_from(settings, LINNET_EWMA_INFLIGHT, decision->candidates, decision->count,
					       decision->now_ns, preferred);
	} else if (decision->policy == LINNET_BEST) {
		decision->choice = choose_from(settings, LINNET_BEST, decision->candidates, decision->count,
					       decision->now_ns, preferred);
	} else {
		decision->choice = linnet_choose(settings, decision->policy, decision->candidates, decision->count,
						 decision->now_ns);
	}
	decision->chosen = 1;
}

/* By the wait, in one pass over the candidates. Returns 0, with nothing changed, if it needs the steps below. */
static int choose_at_once(struct linnet_decision *decision, const struct linnet_settings *settings)
{
	struct least least = least_begin(decision, settings);
	const struct linnet_candidate *own = decision->candidates;

	if (!is_for_one_pass(decision))
		return 0;
	for (uint32_t k = 0; k < decision->count; k++, own++) {
		if (!least_add(&least, k, own->eligible, own->learnt_ns, own->ewma_ns, own->in_flight))
			return 0;
	}
	least_is_chosen(&least, decision);
	return 1;
}

/* Applies the prediction of the chosen replica's model to a read that may be revoked. */
static void follow_network(struct linnet_decision *decision, const struct linnet_settings *settings, struct linnet_budget *revokes)
{
	struct linnet_candidate *chosen = &decision->candidates[decision->choice.replica];
	int by_trees = chosen->known && !(decision->asked >> decision->choice.replica & 1);

	if (!chosen->known)
		return;
	decision->verdict = LINNET_SUBMIT;
	decision->choice.predicted_fast = !chosen->slow;
	if (!chosen->slow)
		return;
	if (!linnet_may_revoke(settings, chosen, by_trees, decision->now_ns))
		decision->choice.probe = 1;
	else if (linnet_budget_take(revokes, &settings->revokes))
		decision->verdict = LINNET_REVOKE;
	else
		decision->denied = 1;
}

/* Notes that the replica's trees, or else its network, are asked. */
static uint32_t ask(struct linnet_decision *decision, uint32_t k, int trees)
{
	if (trees)
		decision->scored |= (uint8_t)(1U << k);
	else
		decision->asked |= (uint8_t)(1U << k);
	decision->asks_trees = (uint8_t)trees;
	return k;
}

/* Not inline: choose_at_once needs few registers. */
__attribute__((__noinline__)) static uint32_t next(struct linnet_decision *decision, const struct linnet_settings *settings,
						   struct linnet_budget *revokes)
{
	uint32_t k = LINNET_NO_REPLICA, preferred = LINNET_NO_REPLICA;

	if (!decision->in_service)
		set_eligible(decision, decision->usable);
	if (!decision->chosen) {
		if (!is_single(decision->in_service)) {
			if (decision->by_wait)
				preferred = least_expected(decision->candidates, decision->count);
			else if (decision->policy == LINNET_BEST)
				k = next_to_score(decision, &preferred);
			else if (decision->policy == LINNET_LINNOS)
				k = next_in_order(decision);
		}
		if (k != LINNET_NO_REPLICA)
			return ask(decision, k, decision->policy == LINNET_BEST);
		choose(decision, settings, preferred);
	}
	if (!decision->may_revoke || decision->choice.probe)
		return LINNET_NO_REPLICA;
	k = decision->choice.replica;
	if (!decision->candidates[k].known) {
		if (decision->by_trees && (decision->trees & ~decision->scored) >> k & 1)
			return ask(decision, k, 1);
		if (!(decision->asked >> k & 1))
			return ask(decision, k, 0);
	}
	follow_network(decision, settings, revokes);
	return LINNET_NO_REPLICA;
}

uint32_t linnet_decision_next(struct linnet_decision *decision, const struct linnet_settings *settings,
			      struct linnet_budget *revokes)
{
	if (decision->by_wait && choose_at_once(decision, settings))
		return LINNET_NO_REPLICA;
	return next(decision, settings, revokes);
}

void linnet_copy_begin(struct linnet_decision *decision, const struct linnet_settings *settings)
{
	linnet_decision_begin(decision, settings);
	if (decision->policy == LINNET_LINNOS || decision->policy == LINNET_BASELINE)
		decision->policy = LINNET_EWMA_INFLIGHT;
}

uint32_t linnet_copy_next(struct linnet_decision *decision)
{
	uint32_t preferred, k;

	if (decision->chosen)
		return LINNET_NO_REPLICA;
	/* A replica that is out of service is tested by probes, not by copies. */
	if (!decision->in_service)
		set_eligible(decision, 0);
	if (decision->policy == LINNET_BEST && !decision->by_wait && !is_single(decision->in_service)) {
		k = next_to_score(decision, &preferred);
		if (k != LINNET_NO_REPLICA)
			return ask(decision, k, 1);
	} else {
		preferred = linnet_preferred(decision->policy, decision->candidates, decision->count);
	}
	decision->choice = (struct linnet_choice){ preferred, 0, 0 };
	decision->chosen = 1;
	return LINNET_NO_REPLICA;
}

/* Bindings in other languages mirror this. */
_Static_assert(sizeof(struct linnet_rate) == 8 && sizeof(struct linnet_settings) == 64, "struct linnet_settings");
_Static_assert(sizeof(struct linnet_budget) == 8, "struct linnet_budget");
_Static_assert(sizeof(struct linnet_candidate) == 32 && sizeof(struct linnet_choice) == 8, "struct linnet_candidate");
_Static_assert(sizeof(struct linnet_decision) == 40 + 32 * LINNET_REPLICAS_MAX, "struct linnet_decision");
