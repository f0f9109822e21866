/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Admission: the decision on one read, its settings, its budgets, the delay of hedges, and the state of each replica.
 * The contract is spec/decision.md.
 */
#ifndef LINNET_DECIDE_H
#define LINNET_DECIDE_H

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LINNET_REPLICAS_MAX 8
#define LINNET_NO_REPLICA UINT32_MAX
#define LINNET_AGE_NS 10000000 /* default of age_ns: 10 ms */
/* What an I/O in flight counts before a read has completed: longer than flash takes, shorter than a stall. */
#define LINNET_UNTRIED_NS 1000000

/* The policies: number, name in C, other name. Bindings, the target's messages and checks are made from this list. */
#define LINNET_POLICY_TABLE(POLICY)                        \
	POLICY(0, LINNET_BASELINE, "baseline")             \
	POLICY(1, LINNET_SHORTEST_QUEUE, "shortest-queue") \
	POLICY(2, LINNET_EWMA_INFLIGHT, "ewma-inflight")   \
	POLICY(3, LINNET_LINNOS, "linnos")                 \
	POLICY(4, LINNET_BEST, "linnet-best")

#define LINNET_POLICY_NUMBER(number, constant, name) constant = number,
enum linnet_policy { LINNET_POLICY_TABLE(LINNET_POLICY_NUMBER) LINNET_POLICIES };

extern const char *const linnet_policy_names[LINNET_POLICIES];

enum linnet_verdict {
	LINNET_SUBMIT = 0,
	LINNET_REVOKE = 1,
	LINNET_FORCED_SUBMIT = 2, /* no choice: one replica left, or no model to run */
};

/* ---- settings: all thresholds of the decision, for the kernel, the array and configuration files alike ---- */

/* A limit on use: the number of uses per million reads, and the number of uses in a row after a rest. */
struct linnet_rate {
	uint32_t per_million; /* 0..8,000,000 */
	uint32_t burst;       /* 0..1,000,000,000 */
};

struct linnet_settings {
	uint32_t on;     /* 0 or 1; 0: every read goes to the first replica that can serve it */
	uint32_t policy; /* enum linnet_policy, as configured */
	uint64_t age_ns; /* age at which the state of a replica expires; UINT64_MAX: never */
	uint64_t out_ns; /* first time out of service after errors; it doubles with each probe that fails */
	uint64_t out_ns_max;
	uint32_t errors_max;         /* consecutive errors that take a replica out of service */
	uint32_t probe_ages;         /* averages or trees: a replica that is silent for more age_ns than these is probed */
	uint32_t revoke_ages;        /* a prediction of slow by trees allows revokes for this many age_ns */
	uint32_t revokes_in_row_max; /* revokes of a replica without a read completing there; then one probes */
	struct linnet_rate revokes;  /* of the reads that may be revoked */
	struct linnet_rate hedges;   /* of all reads */
};

void linnet_settings_init(struct linnet_settings *settings);

/* Returns 0, or LINNET_E_FIELD if a setting is out of range. */
int linnet_settings_check(const struct linnet_settings *settings);

/* ---- budgets ---- */

#define LINNET_BUDGET_UNIT 1000000 /* one use */

/* All zeros: the budget is full. */
struct linnet_budget {
	uint64_t spent; /* and not yet earned back, in millionths of a use */
};

/* Empties the budget: reads must earn it before it can be used. */
static inline void linnet_budget_empty(struct linnet_budget *budget, const struct linnet_rate *rate)
{
	budget->spent = (uint64_t)rate->burst * LINNET_BUDGET_UNIT;
}

/* A read has arrived. */
static inline void linnet_budget_earn(struct linnet_budget *budget, const struct linnet_rate *rate)
{
	budget->spent -= budget->spent < rate->per_million ? budget->spent : rate->per_million;
}

/* Takes one use, or returns 0 if none is left. */
static inline int linnet_budget_take(struct linnet_budget *budget, const struct linnet_rate *rate)
{
	if (budget->spent + LINNET_BUDGET_UNIT > (uint64_t)rate->burst * LINNET_BUDGET_UNIT)
		return 0;
	budget->spent += LINNET_BUDGET_UNIT;
	return 1;
}

/* ---- candidates, and the choice of a policy among them (choose.c) ---- */

/* Odds below one in seven are treated alike: a lower score counts as this one. */
#define LINNET_SCORE_LEAST (-2 * LINNET_TREE_ONE)

/* Input to a decision: the state of one replica. */
struct linnet_candidate {
	uint64_t ewma_ns;
	uint64_t learnt_ns;
	int32_t score;     /* from its trees, for this read; LINNET_SCORE_LEAST if they were not asked, or it has none */
	uint32_t in_flight;
	uint8_t eligible;  /* 0 or 1, like all fields below: it may be chosen */
	uint8_t known;     /* it has a model's prediction */
	uint8_t slow;      /* the model that was asked predicts slow */
	uint8_t probing;
	uint32_t revokes_in_row;
};

/* The answer of a replica's trees, with the score above which a read is slow to them. */
static inline void linnet_candidate_scored(struct linnet_candidate *candidate, int32_t score, int32_t slow_score)
{
	candidate->known = 1;
	candidate->score = score;
	candidate->slow = score > slow_score;
}

struct linnet_choice {
	uint32_t replica;       /* LINNET_NO_REPLICA if none is eligible */
	uint8_t probe;          /* the policy prefers another replica, but sends a read to learn this one's state */
	uint8_t predicted_fast; /* a model predicts that the read is fast */
};

/* Expected wait of a read: EWMA latency x (in flight + 1), or LINNET_UNTRIED_NS x in flight if ewma_ns is 0. Saturates. */
uint64_t linnet_expected_ns(uint64_t ewma_ns, uint32_t in_flight);

/* The eligible candidate that the policy prefers, ignoring probes. LINNET_NO_REPLICA if none. */
uint32_t linnet_preferred(uint32_t policy, const struct linnet_candidate *candidates, uint32_t count);

/* Whether the policy sends a read as a probe to this candidate although it prefers another. */
int linnet_wants_probe(const struct linnet_settings *settings, uint32_t policy, const struct linnet_candidate *candidate,
		       uint64_t now_ns);

/* ---- the decision (decide.c) ---- */

/*
 * In three steps, because reading a replica's state may need its lock, and asking every model is too expensive:
 *
 *   linnet_decision_begin       sets the policy
 *   the caller                  fills in candidates[k] of each usable replica (linnet_replica_describe); of the others,
 *                               up to `count`, `eligible` is 0 or 1
 *   linnet_decision_next        returns a replica whose model must be asked: if `asks_trees`, the trees, for `known` and
 *                               `score` of its candidate; else the network, for `known` and `slow`. Call it until the
 *                               decision is complete: LINNET_NO_REPLICA
 *
 * Trees are asked only as far as the choice depends on their scores. It is the choice that all scores would give. What
 * each step finds in `eligible` counts, so between the steps the caller leaves it as it is. A caller that does not still
 * gets the number of a replica, perhaps of one that is not in service.
 */
struct linnet_decision {
	/* From the caller, before the first step: */
	uint64_t now_ns;
	uint8_t count;      /* replicas */
	uint8_t usable;     /* bit per replica that could serve the read, in service or not; at least one */
	uint8_t trees;      /* bit per replica that has trees */
	uint8_t networks;   /* bit per replica that has a network */
	uint8_t may_revoke; /* the caller accepts LINNET_REVOKE */

	/* From linnet_decision_begin: */
	uint8_t policy;     /* the policy in use; the configured one may lack its models */
	uint8_t by_trees;   /* trees are asked before networks */
	uint8_t by_wait;    /* the wait by the averages alone orders the candidates */

	/* The answer: */
	uint8_t verdict;    /* enum linnet_verdict */
	uint8_t denied;     /* the decision was to revoke, but the budget did not allow it */
	uint8_t asked;      /* bit per replica whose network was run */
	uint8_t scored;     /* bit per replica whose trees were asked; the scores of others do not matter */
	uint8_t asks_trees; /* the replica returned last is to be asked for its trees' score */
	uint8_t in_service; /* bit per replica that was eligible; 0 until candidates have been checked */
	uint8_t chosen;     /* the choice has been made */
	struct linnet_choice choice;
	uint64_t expected_ns; /* of the replica whose trees were asked last: its expected wait at that time */
	struct linnet_candidate candidates[LINNET_REPLICAS_MAX]; /* `count` of them; in range also of one that is not usable */
};

void linnet_decision_begin(struct linnet_decision *decision, const struct linnet_settings *settings);

/* `revokes` pays for a revoke. The caller has already credited the read to it. */
uint32_t linnet_decision_next(struct linnet_decision *decision, const struct linnet_settings *settings,
			      struct linnet_budget *revokes);

/*
 * Where a second copy of a late read goes, if linnet_hedge_ask allows one: `choice`, with the same steps. The usable replicas
 * are those that could take a copy. linnet_copy_next, not linnet_decision_next, returns a replica whose trees must be asked.
 * There is no verdict and no probe; without a usable replica in service the choice is LINNET_NO_REPLICA. Networks are not
 * run for a copy: linnos, and baseline, choose as ewma-inflight does.
 */
void linnet_copy_begin(struct linnet_decision *decision, const struct linnet_settings *settings);
uint32_t linnet_copy_next(struct linnet_decision *decision);

/* Whether there is nothing to decide: one replica is left, or the first serves all. The target is linnet_first_of. */
static inline int linnet_decides_nothing(const struct linnet_settings *settings, uint32_t usable, int may_revoke)
{
	return !may_revoke && (linnet_load32(&settings->policy) == LINNET_BASELINE || (usable & (usable - 1)) == 0 ||
			       !linnet_load32(&settings->on));
}

/* The first usable replica not in `out` (out of service), or else the first. `usable` has at least one bit. */
static inline uint32_t linnet_first_of(uint32_t usable, uint32_t out)
{
	return (uint32_t)__builtin_ctz(usable & ~out ? usable & ~out : usable);
}

/* ---- delay of hedges (hedge.c) ---- */

/*
 * One delay serves all replicas, because a read is late relative to all reads of the array. The delay is set so that
 * the budget can pay for the share of reads that take longer.
 */
struct linnet_hedge {
	uint64_t delay_ns; /* 0: no hedging; at most LINNET_LATENCY_NS_MAX */
	struct linnet_budget budget;
};

#define LINNET_HEDGE_START_NS 10000000 /* a delay to start at where no 95th percentile is known */

/* Starts at a delay such as the 95th percentile of read latency, or 0. The first hedge must be earned by reads. */
void linnet_hedge_init(struct linnet_hedge *hedge, const struct linnet_settings *settings, uint64_t delay_ns);

/* A read has arrived. */
static inline void linnet_hedge_earn(struct linnet_hedge *hedge, const struct linnet_settings *settings)
{
	linnet_budget_earn(&hedge->budget, &settings->hedges);
}

/*
 * When a read that was sent then is late. A caller that sets a timer for it asks again when the timer expires, because
 * other reads may have changed the delay. Reads become late in the order in which they were sent.
 */
static inline uint64_t linnet_hedge_due(const struct linnet_hedge *hedge, uint64_t sent_ns)
{
	return sent_ns < UINT64_MAX - hedge->delay_ns ? sent_ns + hedge->delay_ns : UINT64_MAX;
}

/*
 * A read is late; the eligible candidates could take a second copy of it. Returns 1 if it may be sent,
 * which is then charged to the budget. 0 if the budget is spent, or if all these candidates are overloaded.
 */
int linnet_hedge_ask(struct linnet_hedge *hedge, const struct linnet_settings *settings,
		     const struct linnet_candidate *candidates, uint32_t count);

/* A read that was not found late is answered, this long after it was sent. */
void linnet_hedge_answered(struct linnet_hedge *hedge, uint64_t latency_ns);

/* ---- the state of one device that serves the same data as others (replica.c) ---- */

#define LINNET_UNTRACKED UINT32_MAX  /* place of an I/O for which the in-flight tracker had no room */

/* Events change it one at a time. A concurrent reader must check afterwards whether an event came in between. */
struct linnet_replica {
	struct linnet_inflight inflight;
	struct linnet_tracker tracker;  /* of the digits, if there is no incremental network */
	struct linnet_incremental *net; /* the caller's memory; NULL if no network is used */
	struct linnet_inflight_io *ios; /* the caller's memory, `places` entries */
	uint64_t events;       /* arrivals and ends so far */
	uint64_t latest_ns;    /* time of the last one */
	uint64_t ewma_ns;      /* moving average of read latency; 0 before the first read */
	uint64_t learnt_ns;    /* when a read last completed or a probe was last sent */
	uint64_t out_until_ns; /* out of service until then */
	uint64_t backoff_ns;   /* how long it will next be out of service; 0 for the first time */
	uint32_t free;         /* first free place of `ios`, linked by `newer` */
	uint32_t in_flight;
	uint32_t errors_in_row;
	uint32_t revokes_in_row; /* since a read last completed; the caller counts them */
	uint16_t probing;      /* a probe is in flight */
	uint16_t reads_failed; /* some of errors_in_row are of reads */
	uint32_t return_event; /* low half of the number of the arrival of the probe that ends its absence; 0: not yet sent */
};

/* One I/O in flight at a replica, from its arrival to its end. */
struct linnet_flight {
	uint64_t arrived_ns;
	uint64_t event;   /* number of its arrival, from 1 */
	uint32_t place;   /* in `ios`, or LINNET_UNTRACKED */
	uint32_t snapshot; /* 4 KiB pages in flight when it arrived, itself included */
	uint32_t size_bytes;
	uint8_t is_read;
	uint8_t probe;    /* sent to learn the replica's current state */
	uint16_t spare;
};

/* An idle replica without history, with `places` for I/Os in flight; 0 if trees are not used. */
void linnet_replica_init(struct linnet_replica *replica, uint64_t inflection_ns, struct linnet_inflight_io *ios,
			 uint32_t places);

/* Adds places: the first `from` entries of `ios` are a copy of the old memory. Call it only if no place is free. */
void linnet_replica_grow(struct linnet_replica *replica, struct linnet_inflight_io *ios, uint32_t from, uint32_t places);

/*
 * Sets the incremental network that keeps the digits from now on, or none: NULL. The new one, which
 * linnet_incremental_init has made, continues from the history of the old one, whose memory the caller may then free.
 * It is behind then, so that this takes few instructions.
 */
void linnet_replica_set_incremental(struct linnet_replica *replica, struct linnet_incremental *net);

/* An I/O is submitted to the replica. Fills `flight`. */
void linnet_replica_arrive(struct linnet_replica *replica, const struct linnet_settings *settings,
			   struct linnet_flight *flight, uint64_t now_ns, int is_read, int probe, uint64_t offset_bytes,
			   uint32_t size_bytes);

/* The I/O completes (returns its latency), fails with an error of the replica, or leaves without having been tried. */
uint64_t linnet_replica_complete(struct linnet_replica *replica, const struct linnet_flight *flight, uint64_t now_ns);
void linnet_replica_fail(struct linnet_replica *replica, const struct linnet_settings *settings,
			 const struct linnet_flight *flight, uint64_t now_ns);
void linnet_replica_withdraw(struct linnet_replica *replica, const struct linnet_flight *flight, uint64_t now_ns);

/* Clears its errors. */
void linnet_replica_pardon(struct linnet_replica *replica);

/* Whether errors keep it out of service at this time. */
int linnet_replica_is_out(const struct linnet_replica *replica, uint64_t now_ns);

/* The time of what happens at the replica now: the caller's clock, but never before its last event. */
static inline uint64_t linnet_time_of(const struct linnet_replica *replica, uint64_t now_ns)
{
	return now_ns > replica->latest_ns ? now_ns : replica->latest_ns;
}

/*
 * The replica's state for a read that arrives now, without models: `known` and `slow` are 0, `score` is the least. This
 * and linnet_replica_features take nothing but the struct, so a copy of it is described as the original was; it may not
 * get events.
 */
void linnet_replica_describe(const struct linnet_replica *replica, uint64_t now_ns, struct linnet_candidate *candidate);

/* The same, inline: a decision takes it of each replica. */
static inline void linnet_describe(const struct linnet_replica *replica, uint64_t now_ns, struct linnet_candidate *candidate)
{
	candidate->ewma_ns = replica->ewma_ns;
	candidate->learnt_ns = replica->learnt_ns;
	candidate->score = LINNET_SCORE_LEAST;
	candidate->in_flight = replica->in_flight;
	candidate->eligible = linnet_time_of(replica, now_ns) >= replica->out_until_ns;
	candidate->known = 0;
	candidate->slow = 0;
	candidate->probing = replica->probing != 0;
	candidate->revokes_in_row = replica->revokes_in_row;
}

/* The features, in a schema, from which trees score the read. */
void linnet_replica_features(const struct linnet_replica *replica, uint32_t schema, uint64_t now_ns, uint64_t offset_bytes,
			     uint32_t size_bytes, uint8_t features[LINNET_INFLIGHT_FEATURES]);

/*
 * The prediction of an incremental network that has caught up, for a read of this size: `known` and `slow`. None until
 * four reads have completed.
 */
void linnet_incremental_describe(struct linnet_incremental *net, uint32_t size_bytes, void *scratch,
				 struct linnet_candidate *candidate);

#ifdef __cplusplus
}
#endif

#endif
