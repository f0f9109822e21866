/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Part of linnet.h: devices that serve the same data, and which of them a read goes to.
 */
#ifndef LINNET_REPLICA_H
#define LINNET_REPLICA_H

#include "feature.h"
#include "trees.h"

/* ---- replica: what is known of one device that serves the same data as others (replica.c) ---- */

#define LINNET_UNTRACKED UINT32_MAX  /* the place of an I/O that the watch had no room for */
#define LINNET_ERRORS_MAX 3          /* errors in a row that take a replica out of service */
#define LINNET_OUT_NS 10000000       /* how long at first: 10 ms */
#define LINNET_OUT_NS_MAX 1000000000 /* and at most, after it has doubled with each probe that failed */
#define LINNET_AGE_NS 10000000       /* age at which what is known of a replica has expired: 10 ms */

/* Events change it one at a time. Whoever describes beside them looks afterwards whether one came between. */
struct linnet_replica {
	struct linnet_watch watch;
	struct linnet_watched *ios; /* the caller's memory, a fixed number of places */
	uint64_t events;       /* arrivals and ends so far */
	uint64_t latest_ns;    /* time of the last one */
	uint64_t ewma_ns;      /* moving average of read latency; 0 before the first read */
	uint64_t learnt_ns;    /* when a read last completed or a probe was last sent */
	uint64_t out_until_ns; /* out of service until then */
	uint64_t backoff_ns;   /* how long the next absence lasts; 0 for LINNET_OUT_NS */
	uint32_t free;         /* first free place of `ios`, linked by `newer` */
	uint32_t in_flight;
	uint32_t errors_in_row;
	uint32_t probing;      /* a probe is under way */
};

/* One I/O under way at a replica, from its arrival to its end. */
struct linnet_flight {
	uint64_t arrived_ns;
	uint64_t event;   /* number of its arrival, from 1 */
	uint32_t place;   /* in `ios`, or LINNET_UNTRACKED */
	uint8_t is_read;
	uint8_t probe;    /* sent to learn how the replica is now */
	uint16_t spare;
};

/* An idle replica without history, with so many places for I/Os under way. */
void linnet_replica_init(struct linnet_replica *replica, uint64_t inflection_ns, struct linnet_watched *ios,
			 uint32_t places);

/* An I/O is handed to it. Fills `flight`. */
void linnet_replica_arrive(struct linnet_replica *replica, struct linnet_flight *flight, uint64_t now_ns, int is_read,
			   int probe, uint64_t offset_bytes, uint32_t size_bytes);

/* It completes; returns its latency. Or it ends with an error of the replica, or leaves without having been tried. */
uint64_t linnet_replica_complete(struct linnet_replica *replica, const struct linnet_flight *flight, uint64_t now_ns);
void linnet_replica_fail(struct linnet_replica *replica, const struct linnet_flight *flight, uint64_t now_ns);
void linnet_replica_withdraw(struct linnet_replica *replica, const struct linnet_flight *flight, uint64_t now_ns);

/* Its errors are forgotten. */
void linnet_replica_pardon(struct linnet_replica *replica);

/* Whether errors keep it out of service at this time. */
int linnet_replica_is_out(const struct linnet_replica *replica, uint64_t now_ns);

/* ---- choice: which replica a read goes to (choose.c) ---- */

#define LINNET_REPLICAS_MAX 8
#define LINNET_NO_REPLICA UINT32_MAX

enum linnet_policy {
	LINNET_BASELINE = 0,
	LINNET_SHORTEST_QUEUE = 1,
	LINNET_EWMA_INFLIGHT = 2,
	LINNET_LINNOS = 3,
	LINNET_BEST = 4,
};

/* What a choice needs to know of one replica. */
struct linnet_candidate {
	uint64_t ewma_ns;
	uint64_t learnt_ns;
	int32_t score;     /* of its trees, for this read; 0 without */
	uint32_t in_flight;
	uint8_t eligible;  /* 0 or 1, as all below: it may be chosen */
	uint8_t known;     /* a model speaks for it */
	uint8_t slow;      /* its network calls the read slow */
	uint8_t probing;
	uint32_t spare;
};

struct linnet_choice {
	uint32_t replica; /* LINNET_NO_REPLICA when none is eligible */
	uint8_t probe;    /* the policy would rather not, but wants to learn how the replica is now */
	uint8_t judged;   /* a model was asked, and expects the read to be fast */
};

/* What a read that arrives now is to be told of this replica. `trees` may be NULL. Leaves `slow` 0. */
void linnet_replica_describe(const struct linnet_replica *replica, const struct linnet_trees *trees, uint64_t now_ns,
			     uint64_t offset_bytes, uint32_t size_bytes, struct linnet_candidate *candidate);

/* The features alone, for who scores them otherwise. */
void linnet_replica_features(const struct linnet_replica *replica, uint64_t now_ns, uint64_t offset_bytes,
			     uint32_t size_bytes, uint8_t features[LINNET_WATCH_FEATURES]);

/* What a read would wait by the averages: EWMA latency x (in flight + 1); saturates. */
uint64_t linnet_expected_ns(uint64_t ewma_ns, uint32_t in_flight);

/*
 * What linnet-best prefers the least of: the logarithm of that wait times the odds of a slow read (`score`, in units of
 * 1 / LINNET_TREE_ONE; odds below e^-2 count as that), in the same units. A difference between good odds tells little, and
 * would send all reads of a burst to one replica. Of equals, the lesser wait.
 */
int64_t linnet_preference(int32_t score, uint64_t expected_ns);

/*
 * Whether a read that the replica's trees (or else its network) call slow may be turned away: 0 when what is known of it has expired
 * and the read should go there as a probe, or when no model speaks.
 */
int linnet_may_revoke(const struct linnet_candidate *replica, int by_trees, uint64_t now_ns, uint64_t age_ns);

/* The choice among these replicas, 0 being the primary. What is known of one expires after age_ns. */
struct linnet_choice linnet_choose(uint32_t policy, const struct linnet_candidate *replicas, uint32_t count,
				   uint64_t now_ns, uint64_t age_ns);

#endif
