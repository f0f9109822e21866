/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The public header of the core. The contracts behind it are in spec/: features.md, decision.md, model-file.md.
 *
 * Functions that can fail return 0 or a negative LINNET_E_*, and leave every output untouched when they fail.
 * Nothing here allocates, locks, logs or keeps state of its own: the caller brings memory and serialises access
 * to each object that is not const.
 */
#ifndef LINNET_H
#define LINNET_H

#include "port.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- features: schema linnos-31 (spec/features.md) ---- */

#define LINNET_DIGITS 31        /* features of one read */
#define LINNET_HISTORY 4        /* completed reads remembered */
#define LINNET_PAGE_BYTES 4096  /* unit of pending work */
#define LINNET_PAGES_MAX 999    /* cap of a page count in the digits */
#define LINNET_LATENCY_US_MAX 9999 /* cap of a latency in the digits */

/*
 * What one device is doing: work outstanding and the last four reads that completed. The history is kept as the
 * digits that it contributes, so a read costs one copy and three divisions. Starts as all zeros.
 */
struct linnet_tracker {
	uint32_t pending_pages;        /* 4 KiB pages outstanding, reads and writes; saturates */
	uint32_t history_len;          /* completed reads in the history, 0..4 */
	uint8_t digits[LINNET_DIGITS]; /* history part filled in, digits 12..14 zero; each 0..9 */
	uint8_t spare;                 /* zero */
};

/* An idle device without history. */
void linnet_tracker_init(struct linnet_tracker *tracker);

/* An I/O arrives: returns its snapshot, the pages outstanding including its own. Keep it until the I/O ends. */
uint32_t linnet_tracker_arrive(struct linnet_tracker *tracker, uint32_t size_bytes);

/* A write completes. */
void linnet_tracker_complete_write(struct linnet_tracker *tracker, uint32_t size_bytes);

/* A read completes: enters the history with the snapshot that its arrival returned. */
void linnet_tracker_complete_read(struct linnet_tracker *tracker, uint32_t size_bytes, uint64_t latency_ns,
				  uint32_t snapshot);

/* An I/O leaves without completing (revoked, failed, cancelled): its pages go, the history stays. */
void linnet_tracker_withdraw(struct linnet_tracker *tracker, uint32_t size_bytes);

/* The features of an I/O whose arrival returned `snapshot`. */
void linnet_tracker_digits(const struct linnet_tracker *tracker, uint32_t snapshot, uint8_t digits[LINNET_DIGITS]);

#ifdef __cplusplus
}
#endif

#endif
