/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The ledger of a volume above md: which legs hold every write that was acknowledged. The contract, and the invariant,
 * are spec/md-volume.md.
 *
 * The volume enters each write before md gets it. A leg reports what is written to it. When the write ends at the
 * volume, each leg must have reported exactly its sectors; a leg that has not is not trusted any more when the write is
 * acknowledged. A report counts only for the very write whose data it carries, never for its range alone.
 *
 * All sectors are those of the volume. The caller serialises all calls for one ledger and owns the memory. No call passes
 * through all writes in flight: each follows one path, in as many trees as it asks (ledger.c).
 */
#ifndef LINNET_LEDGER_H
#define LINNET_LEDGER_H

#include "port.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LINNET_LEDGER_LEGS_MAX 8
#define LINNET_LEDGER_BUCKETS 64
#define LINNET_LEDGER_REGION_SHIFT 11 /* sectors of a region: 1 MiB */

/* Why a leg is not trusted: number, name in C, word in the status. */
#define LINNET_DOUBT_TABLE(DOUBT)                                                                      \
	DOUBT(0, LINNET_DOUBT_NEW, "new")             /* it was attached to the volume */              \
	DOUBT(1, LINNET_DOUBT_SHORT, "short")         /* a write ended, but not as a whole there */    \
	DOUBT(2, LINNET_DOUBT_ERROR, "error")         /* a write, discard or flush failed there */     \
	DOUBT(3, LINNET_DOUBT_UNKNOWN, "unknown")     /* some leg got data that are not the volume's */ \
	DOUBT(4, LINNET_DOUBT_SUSPENDED, "suspended") /* it was suspended, reloaded or removed */      \
	DOUBT(5, LINNET_DOUBT_TOLD, "told")           /* the operator or udev said so */

#define LINNET_DOUBT_NUMBER(number, constant, name) constant = number,
enum linnet_doubt { LINNET_DOUBT_TABLE(LINNET_DOUBT_NUMBER) LINNET_DOUBTS };

extern const char *const linnet_doubt_names[LINNET_DOUBTS];

enum linnet_trust {
	LINNET_UNTRUSTED = 0,
	LINNET_PENDING = 1, /* trusted as soon as a write has shown that the leg is where the volume says */
	LINNET_TRUSTED = 2,
};

/* What is written, by the volume or to a leg. */
struct linnet_extent {
	uint64_t start;       /* first sector */
	uint64_t end;         /* first sector after it; above start */
	const void *identity; /* of the data, the same on every leg; NULL where there is none, as for a discard */
	uint32_t op;          /* kind of operation; the same on every leg */
};

/* A write of the volume, from linnet_ledger_begin to linnet_ledger_end. */
struct linnet_write {
	struct linnet_extent extent; /* the caller's; not changed meanwhile */
	uint64_t serial; /* unique; above 0 */
	uint32_t tree; /* that it is in */
	uint32_t reached; /* a leg was asked to write a part of it */
	uint32_t sectors[LINNET_LEDGER_LEGS_MAX]; /* that each leg has reported */
	struct linnet_write *below[2]; /* in its tree: writes of lower sectors, and of higher ones */
};

struct linnet_ledger_leg {
	uint64_t generation; /* changes with every doubt, and never back */
	uint64_t identified; /* reports that counted for a write */
	uint64_t doubts[LINNET_DOUBTS]; /* by reason */
	uint8_t trust;  /* enum linnet_trust */
	uint8_t doubt;  /* enum linnet_doubt: why it lost its trust */
	uint8_t proven; /* since it was attached or suspended, a write of the volume was on it as a whole */
};

struct linnet_ledger {
	uint32_t count; /* legs */
	uint8_t trusted; /* bit per leg whose trust is LINNET_TRUSTED */
	uint64_t generations;
	uint64_t serials;
	struct linnet_ledger_leg legs[LINNET_LEDGER_LEGS_MAX];
	struct linnet_write *trees[LINNET_LEDGER_BUCKETS + 1]; /* by region; the last of writes that lie in several */
};

/*
 * `first` is above 0 and above every generation and serial of an earlier ledger of the same legs, so that those are
 * never taken for this one's. It should be hard to guess: who knew the serials could choose an order of writes that makes
 * the trees deep.
 */
void linnet_ledger_init(struct linnet_ledger *ledger, uint32_t count, uint64_t first);

/*
 * The write, whose extent is set, is about to be sent to md. Returns 0, or -1 if a write in flight has a sector in common
 * with it. Then it must wait: two legs could carry out the two in different orders, and two discards could not be told
 * apart.
 */
int linnet_ledger_begin(struct linnet_ledger *ledger, struct linnet_write *write);

/* It ended, with or without an error, and will be acknowledged. Legs that do not hold all of it lose their trust. */
void linnet_ledger_end(struct linnet_ledger *ledger, struct linnet_write *write);

/*
 * It ended without having been carried out. If no leg was asked to write any of it, every leg holds what it held; else
 * this is linnet_ledger_end.
 */
void linnet_ledger_withdraw(struct linnet_ledger *ledger, struct linnet_write *write);

/*
 * Data is about to be written to a leg. Returns the serial of the write in flight that it is part of. Without one,
 * returns 0, and every leg loses its trust.
 */
uint64_t linnet_ledger_arrive(struct linnet_ledger *ledger, const struct linnet_extent *extent);

/* That ended there; `serial` is what linnet_ledger_arrive returned, or 0. */
void linnet_ledger_report(struct linnet_ledger *ledger, uint32_t leg, const struct linnet_extent *extent,
			  uint64_t serial, int failed);

/* The leg may have missed a write, for this reason. */
void linnet_ledger_doubt(struct linnet_ledger *ledger, uint32_t leg, enum linnet_doubt doubt);

/*
 * Trusts a leg of which md was found to hold all data, after this generation was read. Returns 0, or -1 if the
 * generation has changed since: then the caller must look at md again.
 */
int linnet_ledger_trust(struct linnet_ledger *ledger, uint32_t leg, uint64_t generation);

#ifdef __cplusplus
}
#endif

#endif
