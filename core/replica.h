/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Part of linnet.h: what is known of one device that serves the same data as others (replica.c).
 */
#ifndef LINNET_REPLICA_H
#define LINNET_REPLICA_H

#include "decide.h"
#include "feature.h"
#include "judge.h"

#define LINNET_UNTRACKED UINT32_MAX  /* the place of an I/O that the watch had no room for */

/* Events change it one at a time. Whoever describes beside them looks afterwards whether one came between. */
struct linnet_replica {
	struct linnet_watch watch;
	struct linnet_tracker tracker; /* of the digits, while there is no judge */
	struct linnet_judge *judge;    /* the caller's memory; NULL while no network is asked */
	struct linnet_watched *ios;    /* the caller's memory, so many places */
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

/* One I/O under way at a replica, from its arrival to its end. */
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
void linnet_replica_init(struct linnet_replica *replica, uint64_t inflection_ns, struct linnet_watched *ios,
			 uint32_t places);

/* More places: `ios` holds what the old memory held in its first `from` places. Only while none is free. */
void linnet_replica_grow(struct linnet_replica *replica, struct linnet_watched *ios, uint32_t from, uint32_t places);

/*
 * A network's judge keeps the digits from now on (memory for linnet_judge_init), or none does: NULL. The new one goes on from
 * the history of the old one, whose memory is free afterwards.
 */
int linnet_replica_set_judge(struct linnet_replica *replica, struct linnet_judge *judge, size_t size,
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
			     uint32_t size_bytes, uint8_t features[LINNET_WATCH_FEATURES]);

/* What a judge that has caught up says of a read of this size: `known` and `slow`. Before four reads have completed: nothing. */
void linnet_judge_describe(struct linnet_judge *judge, uint32_t size_bytes, void *scratch,
			   struct linnet_candidate *candidate);

#endif
