/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Part of linnet.h: a tracker and a network together, most of the work done when reads complete (judge.c).
 */
#ifndef LINNET_JUDGE_H
#define LINNET_JUDGE_H

#include "feature.h"
#include "network.h"

/* How far ahead of the submit path a network can be worked out. */
enum linnet_way {
	LINNET_WAY_NONE = 0,  /* no network: a tracker only */
	LINNET_WAY_PLAIN = 1, /* not at all: the whole network runs on submit */
	LINNET_WAY_FIRST = 2, /* the first layer's sums of the history */
	LINNET_WAY_SIFTED = 3, /* and which of its outputs can still be on either side of zero; two layers only */
};

struct linnet_sift;

/* What the judges of one network share. Const after linnet_tables_place. */
struct linnet_tables {
	const struct linnet_network *network; /* NULL for LINNET_WAY_NONE */
	const struct linnet_sift *loops;
	const int32_t *near;  /* per output of the first layer: its weights for digits 13 (low half) and 14 (high) */
	const int32_t *top;   /* the most that those digits can add */
	const int32_t *gap;   /* logit 1's weight for the output, minus logit 0's */
	int64_t gap_bias;
	uint32_t lanes;       /* outputs of the first layer, padded; 0 when it is not kept */
	uint32_t way;         /* enum linnet_way */
	/*
	 * For loops without vectors, several outputs to a 64-bit word: a row of `words` for the biases, one for each of
	 * the 31 digits, and one for `top` less 1. NULL where the loops have vectors or the sums no room.
	 */
	const uint64_t *packed;
	uint32_t words;
	uint32_t pack_bits;   /* of an output in a word: 16 or 21; 0 for none */
	size_t memory_size;   /* bytes that linnet_tables_place needs */
	size_t judge_size;    /* bytes of each judge */
	size_t scratch_size;  /* bytes that each decision needs, 0 if none */
};

/* The loops that every build has. User-space builds add linnet_sift_avx2 and linnet_sift_avx512. */
extern const struct linnet_sift linnet_sift_portable;

/*
 * Sizes the tables of a network, which may be NULL, for these loops. LINNET_E_SHAPE unless it leads 31 digits to two
 * outputs.
 */
int linnet_tables_plan(struct linnet_tables *tables, const struct linnet_network *network,
		       const struct linnet_sift *loops);

/* Fills the tables in `memory` (aligned to LINNET_ALIGN), which lives as long as they do. LINNET_E_MEMORY. */
int linnet_tables_place(struct linnet_tables *tables, void *memory, size_t memory_size);

/*
 * One device. tables->judge_size bytes aligned to LINNET_ALIGN, all of them the judge's.
 *
 * Any number of CPUs may call arrive, withdraw, snapshot, decide and score at once. The caller makes sure that no two of
 * note_read and catch_up run at once on one judge; they may run beside all others.
 */
struct linnet_judge;

/* Begins with the history and the pending pages of `tracker`, or idle when that is NULL. LINNET_E_MEMORY. */
int linnet_judge_init(struct linnet_judge *judge, size_t size, const struct linnet_tables *tables,
		      const struct linnet_tracker *tracker);

/* An I/O arrives: returns its snapshot, as linnet_tracker_arrive. */
uint32_t linnet_judge_arrive(struct linnet_judge *judge, uint32_t size_bytes);

/* A write completes, or any I/O leaves without completing: its pages go. */
void linnet_judge_withdraw(struct linnet_judge *judge, uint32_t size_bytes);

/*
 * A read completes: it enters the history. What follows from it is worked out when the judge catches up. Until then it is behind:
 * decide, score and history_len answer by the history before. The `snapshot` of catch_up is that of the read that will be asked
 * about next.
 */
void linnet_judge_note_read(struct linnet_judge *judge, uint32_t size_bytes, uint64_t latency_ns, uint32_t snapshot);
int linnet_judge_behind(const struct linnet_judge *judge);
void linnet_judge_catch_up(struct linnet_judge *judge, uint32_t snapshot);

/* The snapshot of a read of this size, were it to arrive now. */
uint32_t linnet_judge_snapshot(const struct linnet_judge *judge, uint32_t size_bytes);

/* Pages outstanding, and completed reads in the history (0..4), now. */
uint32_t linnet_judge_pending_pages(const struct linnet_judge *judge);
uint32_t linnet_judge_history_len(const struct linnet_judge *judge);

/* The state as a tracker. The history is one that existed; the pending pages are those of now. */
void linnet_judge_tracker(const struct linnet_judge *judge, struct linnet_tracker *tracker);

/* The score that linnet_network_score gives these features. LINNET_E_SHAPE without a network. */
int linnet_judge_score(const struct linnet_judge *judge, uint32_t snapshot, void *scratch, int64_t *score);

/* 1 to revoke, 0 to submit: whether that score is above zero. Remembered until the next read completes. */
int linnet_judge_decide(struct linnet_judge *judge, uint32_t snapshot, void *scratch);

#endif
