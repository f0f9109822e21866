/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Decides when a read is overdue, and whether the budget pays for a second copy of it.
 *
 * With a budget of one hedge in N reads the delay is the (1 - 1/N) quantile of the array's read latency. A read that is
 * late lengthens it by (N - 1)/1000, a read that completes in time shortens it by 1/1000, so it settles where one read
 * in N is late. N need not be whole. With a budget of more than half of the reads N is 2: the delay for N = 1 would be 0,
 * and every read would be sent twice at once. Nothing else changes the delay. A copy that is cancelled because its hedge
 * won was late and has been counted; a delay computed from the latencies of completed copies would miss it, and would
 * feed back on itself.
 *
 * A read is late by the delay of the time when that is asked, not by the delay when it was sent. When many reads wait at
 * once, the first that is late lengthens the delay for the others. If each were late by the delay that all of them
 * found, a burst of N reads would lengthen it 1.049^N times, and it shortens by only a thousandth with each answer.
 *
 * When all replicas are overloaded, a second copy waits as long as the first and makes every queue longer. So no copy
 * is sent while every replica that could take it has a long queue and answers slowly: LONG_QUEUE I/Os in flight or
 * more, and an average latency of a LONG_SHARE of the delay or more. A deep queue on a drive that answers fast is not
 * overload.
 */
#include "inflight.h"

#define STEP 1000 /* one step is the delay divided by this */
#define MOST_LATE (LINNET_BUDGET_UNIT / 2)
#define LONG_QUEUE 16
#define LONG_SHARE 8 /* an eighth */

/* A timer for a time that no clock reaches may run at once, for ever. A model file may give any delay. */
static uint64_t at_most(uint64_t delay_ns)
{
	return delay_ns < LINNET_LATENCY_NS_MAX ? delay_ns : LINNET_LATENCY_NS_MAX;
}

void linnet_hedge_init(struct linnet_hedge *hedge, const struct linnet_settings *settings, uint64_t delay_ns)
{
	hedge->delay_ns = settings->hedges.per_million ? at_most(delay_ns) : 0;
	linnet_budget_empty(&hedge->budget, &settings->hedges);
}

/*
 * delay x (N - 1)/1000, rounded up, where N is LINNET_BUDGET_UNIT / per_million. The product is at most 2^60, because a
 * delay is at most 2^40 and the unit is below 2^20; the divisor, which is added to it, is below 2^29.
 */
static uint64_t lengthening_ns(uint64_t delay_ns, uint32_t per_million)
{
	uint64_t late = per_million && per_million < MOST_LATE ? per_million : MOST_LATE, part = late * STEP;

	return (delay_ns * (LINNET_BUDGET_UNIT - late) + part - 1) / part;
}

/* Whether every eligible candidate is overloaded; 0 if there is none. */
static int is_overload(uint64_t delay_ns, const struct linnet_candidate *candidates, uint32_t count)
{
	int found = 0;

	for (uint32_t k = 0; k < count; k++) {
		if (!candidates[k].eligible)
			continue;
		if (candidates[k].in_flight < LONG_QUEUE || candidates[k].ewma_ns < delay_ns / LONG_SHARE)
			return 0;
		found = 1;
	}
	return found;
}

int linnet_hedge_ask(struct linnet_hedge *hedge, const struct linnet_settings *settings,
		     const struct linnet_candidate *candidates, uint32_t count)
{
	int overload = is_overload(hedge->delay_ns, candidates, count);

	hedge->delay_ns = at_most(hedge->delay_ns + lengthening_ns(hedge->delay_ns, settings->hedges.per_million));
	return !overload && linnet_budget_take(&hedge->budget, &settings->hedges);
}

void linnet_hedge_answered(struct linnet_hedge *hedge, uint64_t latency_ns)
{
	if (latency_ns <= hedge->delay_ns)
		hedge->delay_ns -= hedge->delay_ns / STEP;
}

/* Bindings in other languages mirror this. */
_Static_assert(sizeof(struct linnet_hedge) == 16, "struct linnet_hedge");
