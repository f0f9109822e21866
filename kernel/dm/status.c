// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counters and the status line. Counters are per CPU and never reset: a reset stores their values as a base. Those of a
 * volume above md and of its ledger have a lock, under which they are set to zero.
 */
#include "linnet-dm.h"

/* Adds up `words` counters of every CPU, minus the base of the last reset. */
static void add_up(u64 *sums, const u64 __percpu *counts, const u64 *base, size_t words)
{
	size_t i;
	int cpu;

	memset(sums, 0, words * sizeof(*sums));
	for_each_possible_cpu(cpu)
		for (i = 0; i < words; i++)
			sums[i] += READ_ONCE(per_cpu_ptr(counts, cpu)[i]);
	for (i = 0; base && i < words; i++)
		sums[i] -= base[i];
}

#define COUNT_WORDS (sizeof(struct linnet_counts) / sizeof(u64))
#define LEG_WORDS (sizeof(struct linnet_leg_counts) / sizeof(u64))

void linnet_status_reset(struct linnet_dm *dm)
{
	u32 k;

	add_up((u64 *)&dm->base, (const u64 __percpu *)dm->counts, NULL, COUNT_WORDS);
	for (k = 0; k < dm->leg_count; k++)
		add_up((u64 *)&dm->legs[k].base, (const u64 __percpu *)dm->legs[k].counts, NULL, LEG_WORDS);
	if (dm->volume)
		linnet_volume_reset(dm->volume);
}

char linnet_leg_state(const struct linnet_leg *leg)
{
	if (test_bit(leg->index, &leg->dm->failed) || test_bit(LINNET_LEG_OUT, &leg->flags))
		return 'D';
	if (leg->dm->volume && !(READ_ONCE(leg->dm->volume->trusted) & BIT(leg->index)))
		return 'U';
	return 'A';
}

static const char *model_state(struct linnet_dm *dm)
{
	u32 loaded = 0, bad = 0, k;

	for (k = 0; k < dm->leg_count; k++) {
		loaded += rcu_access_pointer(dm->legs[k].leg_model) != NULL;
		bad += test_bit(LINNET_LEG_BAD_MODEL, &dm->legs[k].flags);
	}
	if (bad)
		return "model-error";
	if (loaded == 0)
		return "none";
	return loaded == dm->leg_count ? "loaded" : "partial";
}

/* Of a leg above md. */
static void print_trust(struct linnet_leg *leg, char *result, unsigned int maxlen, unsigned int *at)
{
	static const char *const words[] = { "untrusted", "pending", "trusted" };
	struct linnet_volume *volume = leg->dm->volume;
	struct linnet_ledger_leg l;
	unsigned int sz = *at;

	spin_lock_irq(&volume->lock);
	l = volume->ledger.legs[leg->index];
	spin_unlock_irq(&volume->lock);
	DMEMIT(" trust %s why %s generation %llu identified %llu short %llu failed %llu unknown %llu", words[l.trust],
	       linnet_doubt_names[l.doubt], l.generation, l.identified, l.doubts[LINNET_DOUBT_SHORT],
	       l.doubts[LINNET_DOUBT_ERROR], l.doubts[LINNET_DOUBT_UNKNOWN]);
	*at = sz;
}

static void print_leg(struct linnet_leg *leg, char *result, unsigned int maxlen, unsigned int *at)
{
	struct linnet_leg_counts counts;
	unsigned int sz = *at;
	u32 b;

	add_up((u64 *)&counts, (const u64 __percpu *)leg->counts, (const u64 *)&leg->base, LEG_WORDS);
	DMEMIT(" dev %s state %c inflight %u reads %llu writes %llu errors %llu ewma_us %llu lat ", linnet_leg_name(leg),
	       linnet_leg_state(leg), READ_ONCE(leg->state.in_flight), counts.reads, counts.writes, counts.errors,
	       READ_ONCE(leg->state.ewma_ns) / 1000);
	for (b = 0; b < LINNET_BUCKETS; b++)
		DMEMIT("%s%llu", b ? "," : "", counts.latency[b]);
	if (leg->dm->volume)
		print_trust(leg, result, maxlen, &sz);
	*at = sz;
}

void linnet_status_print(struct linnet_dm *dm, char *result, unsigned int maxlen)
{
	struct linnet_counts counts;
	unsigned int sz = 0;
	u32 k;

	/* Every event so far is counted and traced. */
	linnet_digest_lock(dm);
	linnet_digest_unlock(dm);
	add_up((u64 *)&counts, (const u64 __percpu *)dm->counts, (const u64 *)&dm->base, COUNT_WORDS);
	DMEMIT("version 1 policy %s model %s on %u revoke %u", linnet_policy_names[READ_ONCE(dm->settings.policy)],
	       model_state(dm), READ_ONCE(dm->settings.on), READ_ONCE(dm->revoke));
	DMEMIT(" reads %llu writes %llu decisions %llu revokes %llu forced %llu failovers %llu probes %llu own_probes %llu unprobed %llu untracked %llu",
	       counts.reads, counts.writes, counts.decisions, counts.revokes, counts.forced, counts.failovers,
	       counts.probes, counts.own_probes, counts.unprobed, counts.untracked);
	DMEMIT(" hedge %u hedges %llu hedge_wins %llu discarded %llu unhedged %llu hedge_us %llu", READ_ONCE(dm->hedge_percent),
	       counts.hedges, counts.hedge_wins, counts.discarded, counts.unhedged,
	       (unsigned long long)(linnet_hedge_delay_ns(dm) / 1000));
	if (dm->volume)
		DMEMIT(" md %s steered %llu held %llu", dm->volume->md->name, counts.steered,
		       READ_ONCE(dm->volume->held_count));
	DMEMIT(" replicas %u", dm->leg_count);
	for (k = 0; k < dm->leg_count; k++)
		print_leg(&dm->legs[k], result, maxlen, &sz);
}
