/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * State that an incremental network keeps of one device, shared by incremental.c, incremental_tables.c and the loops of
 * prune.c. Not part of the public interface.
 */
#ifndef LINNET_INCREMENTAL_H
#define LINNET_INCREMENTAL_H

#include "linnet.h"

#define LINNET_LINE 64
#define LINNET_DECADES ((LINNET_PAGES_MAX + 1) / 10)
#define LINNET_REST_PAD 16 /* numbers after a list, so that it can be read by whole vectors */
#define LINNET_NOW_AT 12   /* the three digits of the pages outstanding now */
#define LINNET_PACK_TOP (1 + LINNET_DIGITS) /* rows of the packed tables: biases, digits, top */
#define LINNET_PACK_ROWS (LINNET_PACK_TOP + 1)

/*
 * A function that reads a history which another CPU may be writing. Its loads are not atomic, so that the compiler may use
 * vectors, and its result is discarded if the version of the history has changed. ThreadSanitizer sees the loads, and not
 * what becomes of the result.
 */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LINNET_SANITIZED
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(LINNET_SANITIZED)
#define LINNET_MAY_TEAR __attribute__((no_sanitize("thread")))
#else
#define LINNET_MAY_TEAR
#endif

/*
 * One precomputed history. There are two, so that a CPU may still read one while the other is written. It is followed,
 * for `lanes` outputs of the first layer, by:
 *
 *   int32 sums[lanes]    bias and history; where the tables are packed, uint64 words[words] as described there
 *   int32 rest[lanes+]   the sums of the outputs that are not settled, including those of the digit `hundreds`
 *   int32 near[lanes+]   their weights, as in the tables
 *   int32 gap[lanes+]    and gaps; all three end in zeros up to a whole vector
 */
struct linnet_precomputed {
	uint64_t version;   /* of this history; 0 during a write */
	int64_t base;       /* score of the outputs that are positive for all tens and units, at 0 and 0, with the bias
	                     */
	int64_t tens;       /* what one ten adds to it */
	int64_t units;
	uint32_t count;     /* outputs not settled */
	uint32_t hundreds;  /* the digit for which base and rest are valid */
	uint32_t reads[LINNET_HISTORY]; /* as in a tracker */
	uint8_t history_len;
	uint8_t digits[LINNET_DIGITS]; /* of this history; 12..14 are zero */
	uint8_t spare[40];
};

struct linnet_incremental {
	const struct linnet_tables *tables;
	uint64_t version; /* of the newest history, from 2 */
	size_t precomputed_size;
	struct linnet_tracker history; /* with all noted reads; its pending pages stay 0 */
	uint32_t pending_pages __attribute__((aligned(LINNET_LINE))); /* on its own line: every arrival writes it */
	uint64_t noted;   /* changes of `history`; on this line because decisions read it anyway */
	uint64_t settled; /* how many of them the newest precomputed history has */
	/*
	 * Cached decisions, by pages / 10. From the top bit: 44 bits of the version for which they are valid, a bit per
	 * unit that is known, a bit per unit that is revoked.
	 */
	uint64_t decided[LINNET_DECADES] __attribute__((aligned(LINNET_LINE)));
} __attribute__((aligned(LINNET_LINE)));

/*
 * Loops for one instruction set. `now` is digits 12..14. Sums on the submit path wrap, so torn values do no harm before
 * they are discarded.
 */
struct linnet_prune {
	/* Packs the sums of the history, for loops without vectors; otherwise NULL. */
	void (*pack)(const struct linnet_tables *tables, struct linnet_precomputed *pre);
	/* Sorts outputs by the effect of tens and units: fills rest, near, gap, count, base, tens, units. */
	void (*prune)(const struct linnet_tables *tables, struct linnet_precomputed *pre);
	/* Score, for the hundreds of the precomputed history. */
	int64_t (*near)(const struct linnet_tables *tables, const struct linnet_precomputed *pre, const uint8_t *now);
	/* Score, for any hundreds. */
	int64_t (*far)(const struct linnet_tables *tables, const struct linnet_precomputed *pre, const uint8_t *now);
	/* The first layer's sums. */
	void (*add)(const struct linnet_tables *tables, const struct linnet_precomputed *pre, const uint8_t *now,
		    int32_t *sums);
	/* Bounds of the score over all units, for the hundreds of the precomputed history and these tens. */
	void (*bounds)(const struct linnet_tables *tables, const struct linnet_precomputed *pre, uint32_t tens,
		       int64_t *low, int64_t *high);
};

/*
 * linnet_network_score in two steps (infer.c), for a caller that has the sums of the first layer, an I16 layer. The
 * caller writes them, by its stride, to linnet_network_first_sums, then scores the other layers. LINNET_E_SHAPE if the
 * network does not have two outputs.
 */
int32_t *linnet_network_first_sums(const struct linnet_network *network, void *scratch);
int linnet_network_score_rest(const struct linnet_network *network, void *scratch, int64_t *score);

static inline int linnet_is_aligned(const void *p)
{
	return ((uintptr_t)p & (LINNET_ALIGN - 1)) == 0;
}

static inline int32_t *linnet_precomputed_sums(const struct linnet_precomputed *pre)
{
	return (int32_t *)(uintptr_t)(pre + 1);
}

static inline uint64_t *linnet_precomputed_words(const struct linnet_precomputed *pre)
{
	return (uint64_t *)(uintptr_t)(pre + 1);
}

static inline int32_t *linnet_precomputed_rest(const struct linnet_precomputed *pre, uint32_t lanes)
{
	return linnet_precomputed_sums(pre) + lanes;
}

static inline int32_t *linnet_precomputed_near(const struct linnet_precomputed *pre, uint32_t lanes)
{
	return linnet_precomputed_rest(pre, lanes) + lanes + LINNET_REST_PAD;
}

static inline int32_t *linnet_precomputed_gap(const struct linnet_precomputed *pre, uint32_t lanes)
{
	return linnet_precomputed_near(pre, lanes) + lanes + LINNET_REST_PAD;
}

#endif
