/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Part of layouts.c: the state of a device begins the same in any memory, and its decisions are those of the sums. */
#ifndef LINNET_DEVICES_H
#define LINNET_DEVICES_H

#include "chains.h"

static struct linnet_incremental *device_of(const struct linnet_tables *tables, const struct linnet_tracker *tracker)
{
	struct linnet_incremental *net = memory_of(tables->incremental_size), *other = memory_of(tables->incremental_size);

	memset(other, 0x5a, tables->incremental_size);
	check(linnet_incremental_init(net, tables->incremental_size, tables, tracker) == 0, "memory of a device is refused");
	check(linnet_incremental_init(other, tables->incremental_size, tables, tracker) == 0, "memory of another is refused");
	check(memcmp(net, other, tables->incremental_size) == 0, "what was in memory is in the state of a device");
	check(net->version == 2, "version of the first history");
	free(other);
	return net;
}

/* A device without a network counts, and scores nothing. */
static void no_network(void)
{
	struct linnet_tracker tracker = { 5, 2, { 0, 0, 1 << 16 | 7, 999 << 16 | 9999 } }, found;
	struct linnet_incremental *net;
	struct linnet_tables tables;
	int64_t score = 77;

	memset(&tables, 0xa5, sizeof(tables));
	check(linnet_tables_plan(&tables, NULL, &linnet_prune_portable) == 0, "no network is refused");
	check(tables.precompute == LINNET_PRECOMPUTE_NONE && !tables.memory_size && !tables.scratch_size && !tables.lanes,
	      "tables of no network");
	check(tables.incremental_size == sizeof(struct linnet_incremental) + 2 * 128, "device of no network");
	check(linnet_tables_place(&tables, NULL, 0) == 0, "no tables are refused");
	net = device_of(&tables, NULL);
	check(linnet_incremental_history_len(net) == 0 && linnet_incremental_pending_pages(net) == 0, "an idle device");
	free(net);
	net = device_of(&tables, &tracker);
	memset(&found, 0xa5, sizeof(found));
	linnet_incremental_tracker(net, &found);
	check(memcmp(&found, &tracker, sizeof(found)) == 0, "a device that goes on");
	check(net->history.pending_pages == 0, "pages are counted twice");
	check(linnet_incremental_score(net, 5, NULL, &score) == LINNET_E_SHAPE && score == 77, "score of no network");
	check(linnet_incremental_decide(net, 5, NULL) == LINNET_E_SHAPE, "decision of no network");
	free(net);
}

/* Loops of which prune looks at what it is called with, and bounds gives what it was told to. */
static struct {
	const struct linnet_incremental *net;
	uint32_t hundreds;
	int64_t low, high;
	int pruned;
} told;

static void watched_prune(const struct linnet_tables *tables, struct linnet_precomputed *pre)
{
	if (told.net) {
		check(pre->version == 0, "a history that is being written is not marked");
		check(pre->hundreds == told.hundreds, "hundreds of what is expected");
		told.pruned++;
	}
	linnet_prune_portable.prune(tables, pre);
}

static void told_bounds(const struct linnet_tables *tables, const struct linnet_precomputed *pre, uint32_t tens,
			int64_t *low, int64_t *high)
{
	(void)tables, (void)pre, (void)tens;
	*low = told.low;
	*high = told.high;
}

/* Bounds that are above zero, or not, decide about the ten counts around the expected one, and about no others. */
static void foreseen(struct linnet_tables tables)
{
	static const int64_t bounds[][2] = { { 0, 1 }, { 1, 1 }, { -1, 0 }, { -1, 1 }, { 0, 0 }, { 1, 2 } };
	struct linnet_prune loops = *tables.loops;
	struct linnet_incremental *net;

	loops.prune = watched_prune;
	loops.bounds = told_bounds;
	tables.loops = &loops;
	told.net = NULL;
	net = device_of(&tables, NULL);
	told.net = net;
	for (uint32_t b = 0; b < 6; b++) {
		uint32_t expected = below(4) ? below(1000) : 990 + below(20), counted = expected < 999 ? expected : 999;
		int settled = bounds[b][0] > 0 || bounds[b][1] <= 0;

		told.pruned = 0;
		told.low = bounds[b][0];
		told.high = bounds[b][1];
		told.hundreds = counted / 100;
		linnet_incremental_note_read(net, 0, 1000 * b, b);
		linnet_incremental_catch_up(net, expected);
		check(told.pruned == 1 && net->version == 3 + b, "version of the next history");
		for (uint32_t pages = counted / 10 * 10; pages < counted / 10 * 10 + 30 && pages < 1000; pages++) {
			int64_t score = 0;
			int expects = settled && pages / 10 == counted / 10 ? bounds[b][0] > 0 : -1;

			check(linnet_incremental_score(net, pages, NULL, &score) == 0, "score");
			check(linnet_incremental_decide(net, pages, NULL) == (expects < 0 ? score > 0 : expects),
			      "decision by bounds");
		}
	}
	told.net = NULL;
	free(net);
}

/* The decisions of a device with some history are those of the network. */
static void follows(const struct chain *chain, const struct linnet_tables *tables)
{
	struct linnet_incremental *net = device_of(tables, NULL);
	void *scratch = memory_of(tables->scratch_size);
	uint32_t expected = below(5) ? below(1000) : 990 + below(20);
	uint8_t digits[LINNET_DIGITS] = { 0 };
	linnet_int128 out[SIZE];

	for (int entry = 0; entry < LINNET_HISTORY; entry++) {
		uint32_t pages = below(3) ? below(1000) : 999, us = below(3) ? below(10000) : 9999;

		for (uint32_t d = 0, n = pages; d < 3; d++, n /= 10)
			digits[3 * entry + 2 - (int)d] = (uint8_t)(n % 10);
		for (uint32_t d = 0, n = us; d < 4; d++, n /= 10)
			digits[15 + 4 * entry + 3 - (int)d] = (uint8_t)(n % 10);
		linnet_incremental_note_read(net, 0, 1000 * (uint64_t)us, pages);
	}
	linnet_incremental_catch_up(net, expected);
	for (int read = 0; read < 20; read++) {
		/* As expected, in its hundred, or any. */
		uint32_t pages = read == 0 ? expected : read < 10 ? expected / 100 * 100 + below(100) : below(1000);
		uint32_t seen = pages < 999 ? pages : 999;
		int64_t score = 0;

		for (uint32_t d = 0, n = seen; d < 3; d++, n /= 10)
			digits[14 - d] = (uint8_t)(n % 10);
		sums(chain, chain->count, digits, out);
		check(linnet_incremental_decide(net, pages, scratch) == (out[1] > out[0]), "decision before a read");
		check(linnet_incremental_score(net, pages, scratch, &score) == 0 && score == score_of(out), "score of a device");
		check(linnet_incremental_decide(net, pages, scratch) == (out[1] > out[0]), "decision that is kept");
	}
	free(scratch);
	free(net);
}

#endif
