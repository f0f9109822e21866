/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Admission: the decision on one read, its settings, its budgets, when to hedge, and what is known of each replica. The contract
 * is spec/decision.md.
 */
#ifndef LINNET_DECIDE_H
#define LINNET_DECIDE_H

#include "model.h"

#define LINNET_REPLICAS_MAX 8
#define LINNET_NO_REPLICA UINT32_MAX
#define LINNET_AGE_NS 10000000 /* default of age_ns: 10 ms */

/* The policies: number, name in C, name everywhere else. Bindings, the target's messages and checks are made from this list. */
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
	LINNET_FORCED_SUBMIT = 2, /* without a choice: one replica left, or no model to ask */
};

/* ---- settings: every threshold of the decision, for the kernel, the array and configuration files alike ---- */

/* How often something may be used: so many times in a million reads, and so many times in a row after a rest. */
struct linnet_rate {
	uint32_t per_million; /* 0..8,000,000 */
	uint32_t burst;       /* 0..1,000,000,000 */
};

struct linnet_settings {
	uint32_t on;     /* 0: every read goes to the first replica that can serve it */
	uint32_t policy; /* enum linnet_policy: the one asked for */
	uint64_t age_ns; /* age at which what is known of a replica has expired; UINT64_MAX: never */
	uint64_t out_ns; /* first absence of a replica after errors; it doubles with each probe that fails */
	uint64_t out_ns_max;
	uint32_t errors_max;         /* errors in a row that take a replica out of service */
	uint32_t probe_ages;         /* linnet-best: a replica silent for so many age_ns is probed */
	uint32_t revoke_ages;        /* and trees that call it slow are believed for so many before a revoke */
	uint32_t revokes_in_row_max; /* of one replica without a read completing there; then one is a probe */
	struct linnet_rate revokes;  /* of the reads that may be revoked */
	struct linnet_rate hedges;   /* of all reads */
};

void linnet_settings_init(struct linnet_settings *settings);

/* 0, or LINNET_E_FIELD when one is out of range. */
int linnet_settings_check(const struct linnet_settings *settings);

/* ---- budgets ---- */

#define LINNET_BUDGET_UNIT 1000000 /* one use */

/* All zeros: a full budget. */
struct linnet_budget {
	uint64_t spent; /* and not earned back yet, in millionths of a use */
};

/* Nothing may be used before reads have earned it. */
static inline void linnet_budget_empty(struct linnet_budget *budget, const struct linnet_rate *rate)
{
	budget->spent = (uint64_t)rate->burst * LINNET_BUDGET_UNIT;
}

/* A read has come. */
static inline void linnet_budget_earn(struct linnet_budget *budget, const struct linnet_rate *rate)
{
	budget->spent -= budget->spent < rate->per_million ? budget->spent : rate->per_million;
}

/* Takes one use, or says 0. */
static inline int linnet_budget_take(struct linnet_budget *budget, const struct linnet_rate *rate)
{
	if (budget->spent + LINNET_BUDGET_UNIT > (uint64_t)rate->burst * LINNET_BUDGET_UNIT)
		return 0;
	budget->spent += LINNET_BUDGET_UNIT;
	return 1;
}

/* ---- candidates, and which of them a policy prefers (choose.c) ---- */

/* What a decision needs to know of one replica. */
struct linnet_candidate {
	uint64_t ewma_ns;
	uint64_t learnt_ns;
	int32_t score;     /* of its trees, for this read; 0 without */
	uint32_t in_flight;
	uint8_t eligible;  /* 0 or 1, as all below: it may be chosen */
	uint8_t known;     /* a model speaks for it */
	uint8_t slow;      /* its network calls the read slow */
	uint8_t probing;
	uint32_t revokes_in_row;
};

struct linnet_choice {
	uint32_t replica;       /* LINNET_NO_REPLICA when none is eligible */
	uint8_t probe;          /* the policy would rather not, but wants to learn how the replica is now */
	uint8_t predicted_fast; /* a model was asked, and expects the read to be fast */
};

/* What a read would wait by the averages: EWMA latency x (in flight + 1); saturates. */
uint64_t linnet_expected_ns(uint64_t ewma_ns, uint32_t in_flight);

/* The eligible candidate that the policy prefers, probes aside: a hedge's target. LINNET_NO_REPLICA without one. */
uint32_t linnet_preferred(uint32_t policy, const struct linnet_candidate *candidates, uint32_t count);

/* Whether the policy wants a read to probe this candidate although another is preferred. */
int linnet_wants_probe(const struct linnet_settings *settings, uint32_t policy, const struct linnet_candidate *candidate,
		       uint64_t now_ns);

/*
 * Whether a read that the candidate's trees (or else its network) call slow may be turned away: 0 when no model speaks, or when
 * what is known of it has expired and the read should go there as a probe.
 */
int linnet_may_revoke(const struct linnet_settings *settings, const struct linnet_candidate *candidate, int by_trees,
		      uint64_t now_ns);

/* The choice among the candidates, 0 being the primary; by a policy that the models allow. */
struct linnet_choice linnet_choose(const struct linnet_settings *settings, uint32_t policy,
				   const struct linnet_candidate *candidates, uint32_t count, uint64_t now_ns);

/* ---- the decision (decide.c) ---- */

/*
 * In three steps, because looking at a replica may need its lock, and asking a network is too dear to do it for all:
 *
 *   linnet_decision_begin       says by which policy, and whether trees' scores are needed
 *   the caller                  describes each usable replica in candidates[k] (linnet_replica_describe), its score included
 *   linnet_decision_next        names a replica whose network must be asked (linnet_replica_ask), again and again, until
 *                               the decision is complete: LINNET_NO_REPLICA
 */
struct linnet_decision {
	/* From the caller, before the first step: */
	uint64_t now_ns;
	uint8_t count;      /* replicas */
	uint8_t usable;     /* a bit for each that could serve the read, errors in a row aside; at least one */
	uint8_t trees;      /* a bit for each that has trees */
	uint8_t networks;   /* and a network */
	uint8_t may_revoke; /* the caller takes LINNET_REVOKE for an answer */

	/* From linnet_decision_begin: */
	uint8_t policy;     /* that is followed: the one asked for may lack its models */
	uint8_t by_trees;   /* scores are needed */

	/* The answer: */
	uint8_t verdict;    /* enum linnet_verdict */
	uint8_t denied;     /* a revoke was wanted that the budget did not allow */
	uint8_t asked;      /* a bit for each replica whose network was asked */
	uint8_t in_service; /* a bit for each that was eligible; 0 until candidates have been looked at */
	uint8_t chosen;     /* the choice has been made */
	struct linnet_choice choice;
	struct linnet_candidate candidates[LINNET_REPLICAS_MAX];
};

void linnet_decision_begin(struct linnet_decision *decision, const struct linnet_settings *settings);

/* `revokes` pays for a revoke; the caller has let the read earn its share. */
uint32_t linnet_decision_next(struct linnet_decision *decision, const struct linnet_settings *settings,
			      struct linnet_budget *revokes);

/* Whether there is nothing to decide: one replica is left, or the first serves all. Then linnet_first_of says where to. */
static inline int linnet_decides_nothing(const struct linnet_settings *settings, uint32_t usable, int may_revoke)
{
	return !may_revoke && (linnet_load32(&settings->policy) == LINNET_BASELINE || (usable & (usable - 1)) == 0 ||
			       !linnet_load32(&settings->on));
}

/* The first usable replica that is not known to be out of service, or else the first. `usable` has at least one bit. */
static inline uint32_t linnet_first_of(uint32_t usable, uint32_t out)
{
	return (uint32_t)__builtin_ctz(usable & ~out ? usable & ~out : usable);
}

/* ---- when to hedge (hedge.c) ---- */

/*
 * One delay serves all replicas: what counts is which reads of the array are late. It stands where as many of the array's
 * reads take longer as the budget can pay for.
 */
struct linnet_hedge {
	uint64_t delay_ns; /* 0: no hedging */
	struct linnet_budget budget;
};

/* Starts at a delay such as the 95th percentile of read latency, or 0. Reads have to earn the first hedge. */
void linnet_hedge_init(struct linnet_hedge *hedge, const struct linnet_settings *settings, uint64_t delay_ns);

/* A read has come. */
static inline void linnet_hedge_earn(struct linnet_hedge *hedge, const struct linnet_settings *settings)
{
	linnet_budget_earn(&hedge->budget, &settings->hedges);
}

/* A read has waited for the delay. 1 when a second copy may be sent: it is paid for. */
int linnet_hedge_ask(struct linnet_hedge *hedge, const struct linnet_settings *settings);

/* A copy of a read completed. */
void linnet_hedge_answered(struct linnet_hedge *hedge, uint64_t latency_ns);

/* ---- what is known of one device that serves the same data as others (replica.c) ---- */

#define LINNET_UNTRACKED UINT32_MAX  /* the place of an I/O that the in-flight tracker had no room for */

/* Events change it one at a time. Whoever describes beside them looks afterwards whether one came between. */
struct linnet_replica {
	struct linnet_inflight inflight;
	struct linnet_tracker tracker;  /* of the digits, while there is no incremental network */
	struct linnet_incremental *net; /* the caller's memory; NULL while no network is asked */
	struct linnet_inflight_io *ios; /* the caller's memory, so many places */
	uint64_t events;       /* arrivals and ends so far */
	uint64_t latest_ns;    /* time of the last one */
	uint64_t ewma_ns;      /* moving average of read latency; 0 before the first read */
	uint64_t learnt_ns;    /* when a read last completed or a probe was last sent */
	uint64_t out_until_ns; /* out of service until then */
	uint64_t backoff_ns;   /* how long the next absence lasts; 0 for the first */
	uint32_t free;         /* first free place of `ios`, linked by `newer` */
	uint32_t in_flight;
	uint32_t errors_in_row;
	uint32_t revokes_in_row; /* since a read last completed, as far as the caller counts them */
	uint32_t probing;      /* a probe is in flight */
	uint32_t spare;
};

/* One I/O in flight at a replica, from its arrival to its end. */
struct linnet_flight {
	uint64_t arrived_ns;
	uint64_t event;   /* number of its arrival, from 1 */
	uint32_t place;   /* in `ios`, or LINNET_UNTRACKED */
	uint32_t snapshot; /* 4 KiB pages in flight when it arrived, its own included */
	uint32_t size_bytes;
	uint8_t is_read;
	uint8_t probe;    /* sent to learn how the replica is now */
	uint16_t spare;
};

/* An idle replica without history, with so many places for I/Os in flight; 0: nothing wants the features of linnet-1. */
void linnet_replica_init(struct linnet_replica *replica, uint64_t inflection_ns, struct linnet_inflight_io *ios,
			 uint32_t places);

/* More places: `ios` holds what the old memory held in its first `from` places. Only while none is free. */
void linnet_replica_grow(struct linnet_replica *replica, struct linnet_inflight_io *ios, uint32_t from, uint32_t places);

/*
 * An incremental network keeps the digits from now on (memory for linnet_incremental_init), or none does: NULL. The new one
 * goes on from the history of the old one, whose memory is free afterwards.
 */
int linnet_replica_set_incremental(struct linnet_replica *replica, struct linnet_incremental *net, size_t size,
				   const struct linnet_tables *tables);

/* An I/O is handed to it. Fills `flight`. */
void linnet_replica_arrive(struct linnet_replica *replica, const struct linnet_settings *settings,
			   struct linnet_flight *flight, uint64_t now_ns, int is_read, int probe, uint64_t offset_bytes,
			   uint32_t size_bytes);

/* It completes; returns its latency. Or it ends with an error of the replica, or leaves without having been tried. */
uint64_t linnet_replica_complete(struct linnet_replica *replica, const struct linnet_flight *flight, uint64_t now_ns);
void linnet_replica_fail(struct linnet_replica *replica, const struct linnet_settings *settings,
			 const struct linnet_flight *flight, uint64_t now_ns);
void linnet_replica_withdraw(struct linnet_replica *replica, const struct linnet_flight *flight, uint64_t now_ns);

/* Its errors are forgotten. */
void linnet_replica_pardon(struct linnet_replica *replica);

/* Whether errors keep it out of service at this time. */
int linnet_replica_is_out(const struct linnet_replica *replica, uint64_t now_ns);

/* What a read that arrives now is to be told of this replica, models aside: `score`, `known` and `slow` are 0. */
void linnet_replica_describe(const struct linnet_replica *replica, uint64_t now_ns, struct linnet_candidate *candidate);

/* The features by which trees score the read. */
void linnet_replica_features(const struct linnet_replica *replica, uint64_t now_ns, uint64_t offset_bytes,
			     uint32_t size_bytes, uint8_t features[LINNET_INFLIGHT_FEATURES]);

/*
 * What an incremental network that has caught up says of a read of this size: `known` and `slow`. Before four reads have
 * completed: nothing.
 */
void linnet_incremental_describe(struct linnet_incremental *net, uint32_t size_bytes, void *scratch,
				 struct linnet_candidate *candidate);

#endif
