/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Features of LinnOS (section 4.3), schema linnos-31 of spec/features.md.
 *
 * A read is described by 31 decimal digits, most significant first:
 *
 *   0..11   pages outstanding when each of the last four completed reads arrived, oldest first, 3 digits each
 *   12..14  pages outstanding now, this I/O included
 *   15..30  latency of those four reads in us, oldest first, 4 digits each
 *
 * Pages are 4 KiB, rounded up per I/O, reads and writes alike. Counts above 999 and latencies above 9999 are
 * capped; nanoseconds are cut to microseconds, not rounded. Until four reads have completed the missing ones,
 * which would be the oldest, are zeros.
 *
 * The history shifts by one entry per completed read, which moves 21 bytes: cheaper than the indirection of a
 * ring when every arriving read wants the digits in order.
 */
#include "linnet.h"

#define PAGE_DIGITS 3
#define LATENCY_DIGITS 4
#define NOW_AT (LINNET_HISTORY * PAGE_DIGITS)
#define LATENCY_AT (NOW_AT + PAGE_DIGITS)
_Static_assert(NOW_AT - PAGE_DIGITS == 8 + 1 && LINNET_DIGITS - LATENCY_AT - LATENCY_DIGITS == 8 + 4, "moved as words");

/* Words at any address. */
typedef struct {
	uint64_t word;
} __attribute__((packed, may_alias)) eight_bytes;
typedef struct {
	uint32_t word;
} __attribute__((packed, may_alias)) four_bytes;

static void put_pages(uint8_t *digits, uint32_t pages)
{
	uint32_t n = pages < LINNET_PAGES_MAX ? pages : LINNET_PAGES_MAX;

	digits[0] = (uint8_t)(n / 100);
	digits[1] = (uint8_t)(n / 10 % 10);
	digits[2] = (uint8_t)(n % 10);
}

static void put_latency(uint8_t *digits, uint64_t latency_ns)
{
	uint32_t n = LINNET_LATENCY_US_MAX;

	if (latency_ns / 1000 < LINNET_LATENCY_US_MAX)
		n = (uint32_t)(latency_ns / 1000);
	digits[0] = (uint8_t)(n / 1000);
	digits[1] = (uint8_t)(n / 100 % 10);
	digits[2] = (uint8_t)(n / 10 % 10);
	digits[3] = (uint8_t)(n % 10);
}

void linnet_tracker_init(struct linnet_tracker *tracker)
{
	linnet_zero(tracker, sizeof(*tracker));
}

uint32_t linnet_tracker_arrive(struct linnet_tracker *tracker, uint32_t size_bytes)
{
	return linnet_tracker_add(tracker, linnet_pages(size_bytes));
}

void linnet_tracker_withdraw(struct linnet_tracker *tracker, uint32_t size_bytes)
{
	uint32_t pages = linnet_pages(size_bytes);

	tracker->pending_pages -= pages < tracker->pending_pages ? pages : tracker->pending_pages;
}

void linnet_tracker_complete_write(struct linnet_tracker *tracker, uint32_t size_bytes)
{
	linnet_tracker_withdraw(tracker, size_bytes);
}

void linnet_tracker_complete_read(struct linnet_tracker *tracker, uint32_t size_bytes, uint64_t latency_ns,
				  uint32_t snapshot)
{
	uint8_t *digits = tracker->digits;

	linnet_tracker_withdraw(tracker, size_bytes);
	/* The oldest entry leaves: nine digits of pages and twelve of latencies move up, as words. */
	*(eight_bytes *)digits = *(const eight_bytes *)(digits + PAGE_DIGITS);
	digits[8] = digits[8 + PAGE_DIGITS];
	*(eight_bytes *)(digits + LATENCY_AT) = *(const eight_bytes *)(digits + LATENCY_AT + LATENCY_DIGITS);
	*(four_bytes *)(digits + LATENCY_AT + 8) = *(const four_bytes *)(digits + LATENCY_AT + 8 + LATENCY_DIGITS);
	put_pages(digits + NOW_AT - PAGE_DIGITS, snapshot);
	put_latency(digits + LINNET_DIGITS - LATENCY_DIGITS, latency_ns);
	if (tracker->history_len < LINNET_HISTORY)
		tracker->history_len++;
}

void linnet_tracker_digits(const struct linnet_tracker *tracker, uint32_t snapshot, uint8_t digits[LINNET_DIGITS])
{
	for (int i = 0; i < LINNET_DIGITS; i++)
		digits[i] = tracker->digits[i];
	put_pages(digits + NOW_AT, snapshot);
}
