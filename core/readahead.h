/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Readahead of one file: from counts (reads.h) to features, from features to a verdict, from verdicts to changes. A
 * public header of the core with the rules of linnet.h; integers only. `linnet tune` and the kernel module linnet_tune
 * call the same functions, so they decide alike.
 *
 * Shares and other numbers with a fraction are multiples of 1/65,536 (names end in _q16); times are nanoseconds of a
 * clock that does not go back; sizes of the knob are KiB.
 */
#ifndef LINNET_READAHEAD_H
#define LINNET_READAHEAD_H

#include "port.h"
#include "reads.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LINNET_Q16 65536u

/* ---- features: what a window of reads looks like (pattern.c) ---- */

#define LINNET_READAHEAD_INPUTS 8 /* of the schema readahead-1 */

/*
 * A window in numbers that do not grow with the file, with the machine's speed or with the value that was set. The last
 * five follow that value: they are the reward, and no sign of the workload.
 */
struct linnet_pattern {
	uint64_t accesses;         /* demands that the numbers rest on */
	uint64_t jumps;            /* places between which the demands jumped */
	uint64_t run_pages_q16;    /* pages demanded between two jumps */
	uint32_t local_q16;        /* share of demands that continue a sequence, upwards or downwards */
	uint32_t reverse_q16;      /* of those, the share that goes downwards */
	uint32_t near_q16;         /* share of distances below 2^5 pages */
	uint32_t far_q16;          /* share of distances of 2^10 pages and more */
	uint32_t spread_q16;       /* entropy of the distances' sizes, 0 to 1 */
	uint32_t request_pages;    /* of a read(), the middle one, a power of two; 1 for faults */
	uint32_t mapped_q16;       /* share of demands through mappings */
	uint32_t used_q16;         /* share of the pages brought that were demanded soon */
	uint64_t added_each_q16;   /* pages brought for each one demanded */
	uint64_t batches_each_q16; /* times that something was brought, for each page demanded */
	uint64_t added;            /* pages brought */
};

/* Adds counts of the same file: of another thread, or of a later time. Saturates at 2^44, which no window reaches. */
void linnet_counts_add(struct linnet_counts *to, const struct linnet_counts *from);

/*
 * The numbers of a window. Without `demands` the kernel tells only which pages are brought: these stand for the
 * demands, since a scan's batches join and each random read begins one.
 */
void linnet_pattern_of(const struct linnet_counts *counts, int demands, struct linnet_pattern *pattern);

/* The inputs of a model of schema readahead-1, as bits of f32, each of the order of 1. All are exact in f32. */
void linnet_pattern_row(const struct linnet_pattern *pattern, uint32_t row[LINNET_READAHEAD_INPUTS]);

/* ---- verdicts (verdict.c) ---- */

enum linnet_reading {
	LINNET_READING_RANDOM,     /* single pages or small blocks, anywhere */
	LINNET_READING_RUNS,       /* runs between jumps */
	LINNET_READING_SEQUENTIAL, /* in order */
	LINNET_READING_REVERSE,    /* backwards */
	LINNET_READINGS
};

#define LINNET_READAHEAD_LEVELS 9
#define LINNET_READAHEAD_DEFAULT_KIB 128 /* the kernel's default, which suits scans */

/* Values that are set: 8 KiB to 2 MiB, each twice the one before. */
extern const uint32_t linnet_readahead_ladder[LINNET_READAHEAD_LEVELS];

struct linnet_readahead_verdict {
	uint32_t reading; /* enum linnet_reading */
	uint32_t kib;     /* the value for it; 0: the file's own, or the kernel's default where that is smaller */
	uint32_t confidence_ppm;
};

/* The rule: the length of a run decides. */
struct linnet_rule {
	uint32_t random_pages;     /* up to so many pages between jumps reads are random */
	uint32_t sequential_pages; /* from so many on they are in order */
	uint32_t random_kib;       /* the value for random reads */
	uint32_t page_kib;         /* KiB of a page; no value is smaller, because the kernel would make 0 of it */
};

/* 6 and 48 pages, and 8 KiB or one page. `page_kib`: KiB of the machine's pages, 4, 16 or 64. */
void linnet_rule_init(struct linnet_rule *rule, uint32_t page_kib);

/* Certainty that grows with what was seen, in millionths: 4 observations give 600,000, 16 give 800,000. */
uint32_t linnet_certainty_ppm(uint64_t observations);

/* The same for scattered reads, sooner where each brings many megabytes of which next to nothing is used. */
uint32_t linnet_scattered_ppm(const struct linnet_pattern *pattern);

/* The verdict of the rule. Returns 0 where the window says nothing, otherwise 1. */
int linnet_rule_decide(const struct linnet_rule *rule, const struct linnet_pattern *pattern,
		       struct linnet_readahead_verdict *verdict);

/*
 * The verdict of a model that gives the window this value with this confidence: trusted no more than the rule would be.
 */
void linnet_model_verdict(const struct linnet_rule *rule, const struct linnet_pattern *pattern, uint32_t kib,
			  uint32_t confidence_ppm, struct linnet_readahead_verdict *verdict);

/* ---- changes of one file's value (govern.c) ---- */

#define LINNET_WINDOW_NS 1000000000ull     /* length of a window */
#define LINNET_ADDED_MIN 32                /* fewer pages read in a window are not worth a change */
#define LINNET_COST_PART 4                 /* a change that costs one part in so many more is taken back */
#define LINNET_HOLD_NS 30000000000ull      /* for so long a file is left alone then; twice as long each time */
#define LINNET_HOLD_NS_MAX 480000000000ull /* and no longer */

enum linnet_change {
	LINNET_CHANGE_NONE,
	LINNET_CHANGE_DECISION,
	LINNET_CHANGE_ROLLBACK, /* the change before was for the worse */
};

struct linnet_proposal {
	uint32_t change; /* enum linnet_change */
	uint32_t to_kib;
	uint32_t confidence_ppm;
	uint32_t spare;
	uint64_t cost_before_q16; /* of a rollback: pages for each one demanded */
	uint64_t cost_after_q16;
	uint64_t hold_ns;         /* of a rollback: for so long the file is left alone */
};

struct linnet_governor {
	uint64_t began_ns;
	uint64_t changed_at_ns;
	uint64_t hold_until_ns;
	uint64_t hold_ns;
	uint64_t cost_before_q16;
	struct linnet_counts window;
	uint32_t original_kib;  /* the value from before us */
	uint32_t current_kib;
	uint32_t previous_kib;
	uint32_t pending_kib;   /* a value that the next window must confirm */
	uint32_t reading;       /* of the last trusted window, or LINNET_READINGS */
	uint32_t cost_reading;  /* of the window that led to the last change */
	uint32_t jump_pages_q16; /* see linnet_pattern_cost_q16; the caller may set it at any time */
	uint32_t cost_jump_pages_q16; /* what it was when the last change was proposed */
	uint8_t has_pending;
	uint8_t has_changed;
	uint8_t has_cost;       /* the last change is still to be judged */
	uint8_t has_rollback;   /* it was for the worse, and still stands */
	uint8_t spare[4];
};

/* A file that has this value when it is first seen. */
void linnet_governor_init(struct linnet_governor *governor, uint64_t now_ns, uint32_t kib);

/* The file's true value, known later. Ignored after the first change. */
void linnet_governor_correct(struct linnet_governor *governor, uint32_t kib);

/*
 * What to do about the window, whose counts the caller added to governor->window and described by `pattern`; `verdict`
 * is NULL where the decider says nothing. Ends the window where it is full or the verdict is certain. Proposes at most
 * one change; the caller makes it and says `changed`, or `refused`.
 */
void linnet_governor_step(struct linnet_governor *governor, uint64_t now_ns, const struct linnet_pattern *pattern,
			  const struct linnet_readahead_verdict *verdict, struct linnet_proposal *proposal);

void linnet_governor_changed(struct linnet_governor *governor, uint64_t now_ns, uint32_t kib);

/* Ask again only after this time. A rollback is asked for again then, unless the change is no longer for the worse. */
void linnet_governor_refused(struct linnet_governor *governor, uint64_t now_ns, uint64_t wait_ns);

#define LINNET_JUMP_PAGES 8 /* of a disk, latency against throughput */

/*
 * What reading costs at the value in force, in pages for each page demanded: the pages brought, and `jump_pages_q16`
 * for each time that something is brought from elsewhere.
 */
uint64_t linnet_pattern_cost_q16(const struct linnet_pattern *pattern, uint32_t jump_pages_q16);

#ifdef __cplusplus
}
#endif

#endif
