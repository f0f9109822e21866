/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Chooses the replica that a policy prefers, by pure rules on the state of each replica. The candidates are the
 * eligible replicas, in order from the primary. Among equals the one nearest to the primary is chosen.
 *
 *   baseline         the first candidate
 *   shortest-queue   the fewest I/Os in flight
 *   ewma-inflight    the lowest EWMA latency x (in flight + 1)
 *   linnos           the first whose network does not predict slow; the network of the last candidate is not run
 *   linnet-best      the lowest wait by the averages, times the odds of a slow read that its trees predict
 *
 * A replica without history has no average. Its wait is LINNET_UNTRIED_NS for each I/O in flight there: nothing while it is
 * idle, so it is tried, and more with each read that it has not answered, so a drive that hangs from the start does not
 * get all reads.
 *
 * A replica that receives no reads cannot show that it has recovered. So the last three policies send it a read as a
 * probe when its state has expired: after age_ns if a network decides, after probe_ages times that if averages or trees
 * do. Each probe of a replica that is still slow costs a slow read, and averages do not shut a replica out: as the queues
 * of the others grow, it gets reads again.
 *
 * Revokes need a shorter limit. linnet-best compares replicas and may still prefer one that its trees call slow. But a
 * caller that asks replicas in order skips a replica as long as its score is above 0, and trees that have seen a stall
 * call a silent replica slow long after the stall has ended. For revokes their predictions are valid for revoke_ages
 * times age_ns.
 */
#include "choose.h"

#define LN2_1024 710              /* ln 2, times 1,024 */
#define LN_SHIFT 10

uint64_t linnet_expected_ns(uint64_t ewma_ns, uint32_t in_flight)
{
	struct linnet_candidate replica = { .ewma_ns = ewma_ns, .in_flight = in_flight };

	return expected_ns(&replica);
}

/*
 * Logarithm to base two, times 1,024, linear between the powers of two: at most 0.09 too low, and monotonic. 0 for 0.
 * Range: 0..65,535.
 */
static uint32_t log2_1024(uint64_t value)
{
	uint32_t octave;

	if (value < 2)
		return 0;
	octave = 63 - (uint32_t)__builtin_clzll(value);
	value <<= 63 - octave;
	return octave << LN_SHIFT | (uint32_t)(value >> (63 - LN_SHIFT) & ((1 << LN_SHIFT) - 1));
}

/*
 * The measure that linnet-best minimises: the logarithm of the wait times the odds of a slow read (`score`, in units of
 * 1 / LINNET_TREE_ONE), in the same units. Odds below e^-2 count as e^-2: a difference between good odds means little,
 * and would send all reads of a burst to one replica.
 */
static int64_t preference(int32_t score, uint64_t wait_ns)
{
	return (score > LINNET_SCORE_LEAST ? score : LINNET_SCORE_LEAST) + (int64_t)((uint64_t)LN2_1024 * log2_1024(wait_ns) >> LN_SHIFT);
}

static uint64_t age_of(const struct linnet_candidate *replica, uint64_t now_ns)
{
	return now_ns > replica->learnt_ns ? now_ns - replica->learnt_ns : 0;
}

/* Whether the replica has not been read for this many times age_ns. */
static int is_silent(const struct linnet_settings *settings, const struct linnet_candidate *replica, uint64_t now_ns,
		     uint32_t ages)
{
	return replica->in_flight == 0 && age_of(replica, now_ns) > times(settings->age_ns, ages);
}

static uint32_t fewest_in_flight(const struct linnet_candidate *replicas, uint32_t count)
{
	uint32_t best = LINNET_NO_REPLICA;

	for (uint32_t k = 0; k < count; k++)
		if (replicas[k].eligible && (best == LINNET_NO_REPLICA || replicas[k].in_flight < replicas[best].in_flight))
			best = k;
	return best;
}

/* Of replicas with equal preference, the one with the least expected wait. */
static uint32_t least_preference(const struct linnet_candidate *replicas, uint32_t count)
{
	uint32_t best = LINNET_NO_REPLICA;
	uint64_t least_ns = 0;
	int64_t least = 0;

	for (uint32_t k = 0; k < count; k++) {
		uint64_t own_ns;
		int64_t own;

		if (!replicas[k].eligible)
			continue;
		own_ns = expected_ns(&replicas[k]);
		own = preference(replicas[k].score, own_ns);
		if (best != LINNET_NO_REPLICA && (own > least || (own == least && own_ns >= least_ns)))
			continue;
		best = k;
		least = own;
		least_ns = own_ns;
	}
	return best;
}

static uint32_t first_eligible(const struct linnet_candidate *replicas, uint32_t count)
{
	for (uint32_t k = 0; k < count; k++)
		if (replicas[k].eligible)
			return k;
	return LINNET_NO_REPLICA;
}

uint32_t linnet_preferred(uint32_t policy, const struct linnet_candidate *replicas, uint32_t count)
{
	switch (policy) {
	case LINNET_BEST: return least_preference(replicas, count);
	case LINNET_EWMA_INFLIGHT: return least_expected(replicas, count);
	case LINNET_SHORTEST_QUEUE: return fewest_in_flight(replicas, count);
	}
	return first_eligible(replicas, count);
}

int linnet_may_revoke(const struct linnet_settings *settings, const struct linnet_candidate *replica, int by_trees,
		      uint64_t now_ns)
{
	if (!replica->known || replica->probing)
		return replica->known;
	if (by_trees)
		return !is_silent(settings, replica, now_ns, settings->revoke_ages);
	return age_of(replica, now_ns) < settings->age_ns && replica->revokes_in_row < settings->revokes_in_row_max;
}

/* linnos: a prediction of slow that has expired is ignored, and the replica gets the read as a probe. */
static struct linnet_choice ask_in_order(const struct linnet_settings *settings, const struct linnet_candidate *replicas,
					 uint32_t count, uint32_t last, uint64_t now_ns)
{
	struct linnet_choice choice = { last, 0, 0 };

	for (uint32_t k = 0; k < count && k != last; k++) {
		const struct linnet_candidate *own = &replicas[k];

		if (!own->eligible)
			continue;
		if (own->slow && linnet_may_revoke(settings, own, 0, now_ns))
			continue;
		choice.replica = k;
		choice.probe = own->slow;
		choice.predicted_fast = own->known && !own->slow;
		return choice;
	}
	return choice;
}

int linnet_wants_probe(const struct linnet_settings *settings, uint32_t policy, const struct linnet_candidate *replica,
		       uint64_t now_ns)
{
	return policy >= LINNET_EWMA_INFLIGHT && wants_probe(policy, replica, silent_since_ns(settings, now_ns));
}

struct linnet_choice linnet_choose(const struct linnet_settings *settings, uint32_t policy,
				   const struct linnet_candidate *replicas, uint32_t count, uint64_t now_ns)
{
	struct linnet_choice choice = { LINNET_NO_REPLICA, 0, 0 };
	uint32_t candidates = 0, last = LINNET_NO_REPLICA;

	if (policy < LINNET_EWMA_INFLIGHT) { /* these neither predict nor probe */
		choice.replica = linnet_preferred(policy, replicas, count);
		return choice;
	}
	for (uint32_t k = 0; k < count; k++) {
		candidates += replicas[k].eligible;
		last = replicas[k].eligible ? k : last;
	}
	if (candidates < 2) {
		choice.replica = last;
		return choice;
	}
	if (policy == LINNET_LINNOS)
		return ask_in_order(settings, replicas, count, last, now_ns);
	return choose_from(settings, policy, replicas, count, now_ns, linnet_preferred(policy, replicas, count));
}
