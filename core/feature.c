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
 * The tracker keeps the numbers, and digits are made of them where a network is asked. So a read that completes costs few
 * instructions where no network is used.
 */
#include "linnet.h"

#define PAGE_DIGITS 3
#define LATENCY_DIGITS 4
#define NOW_AT (LINNET_HISTORY * PAGE_DIGITS)
#define LATENCY_AT (NOW_AT + PAGE_DIGITS)
#define LATENCY_MASK 0xffff

static void put_pages(uint8_t *digits, uint32_t n)
{
	digits[0] = (uint8_t)(n / 100);
	digits[1] = (uint8_t)(n / 10 % 10);
	digits[2] = (uint8_t)(n % 10);
}

static void put_latency(uint8_t *digits, uint32_t n)
{
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
	linnet_tracker_drop(tracker, size_bytes);
}

void linnet_tracker_complete_write(struct linnet_tracker *tracker, uint32_t size_bytes)
{
	linnet_tracker_withdraw(tracker, size_bytes);
}

void linnet_tracker_complete_read(struct linnet_tracker *tracker, uint32_t size_bytes, uint64_t latency_ns,
				  uint32_t snapshot)
{
	linnet_tracker_remember(tracker, size_bytes, latency_ns, snapshot);
}

void linnet_tracker_digits(const struct linnet_tracker *tracker, uint32_t snapshot, uint8_t digits[LINNET_DIGITS])
{
	for (int i = 0; i < LINNET_HISTORY; i++) {
		put_pages(digits + i * PAGE_DIGITS, tracker->reads[i] >> LINNET_READ_PAGES_SHIFT);
		put_latency(digits + LATENCY_AT + i * LATENCY_DIGITS, tracker->reads[i] & LATENCY_MASK);
	}
	put_pages(digits + NOW_AT, linnet_capped_pages(snapshot));
}
