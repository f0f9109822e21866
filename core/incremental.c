/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The incremental network decides exactly as the plain network does, and leaves little work to the submit path.
 *
 * Of the 31 digits 28 change only when a read completes; an arriving read adds three, its pending pages. So the first
 * layer's sums of the history are computed once, when a read completes. In a network with two layers the ReLU outputs
 * are also pruned (prune.c). For one digit of hundreds an output of the first layer is
 *
 *   dead      if it is at most zero for all tens and units: it contributes nothing;
 *   positive  if it is at least zero for all of them: its contribution to the score is linear in tens and units, and
 *             the contributions of all such outputs are added up;
 *   not settled otherwise: it is put on a list.
 *
 * A submit adds two products to each number of the list, clips it at zero, and sums it times its gap, the difference of
 * the two logits' weights. If the hundreds differ from the expected ones, the sums of all outputs are used instead.
 * Deeper networks keep the first layer's sums only, and networks whose first layer is wide or small keep nothing
 * (incremental_tables.c).
 *
 * For callers that decide less often than reads complete, completions are only noted. The history is computed at the
 * next decision, once for all reads that have completed since. This takes thousands of instructions, so it works on a
 * copy of the history (linnet_incremental_noted), while further reads complete.
 *
 * A decision is cached per pending count until the next read completes. For the ten counts around the expected one,
 * bounds of the score often give the decision before it is requested.
 *
 * Several CPUs. process writes the precomputed history that is not in use, then publishes it by its version. A
 * reader checks after its computation whether the history still has the version that it began with, and otherwise
 * starts again; that takes two completions during one decision. Words of `decided` carry the version for which they are
 * valid, and are stored atomically: if two CPUs store at once, a cached decision is lost, but none is wrong. Each
 * completion clears one word, so none survives until its 44 bits of version repeat.
 */
#include "incremental.h"

#define FIRST_VERSION 2
#define KNOWN_SHIFT 10
#define TAG_SHIFT 20
#define TAG_MASK ((UINT64_C(1) << (64 - TAG_SHIFT)) - 1)
#define ALL_UNITS 0x3ff

/* ---- the state of a device ---- */

static struct linnet_precomputed *precomputed_of(const struct linnet_incremental *net, uint64_t version)
{
	return (struct linnet_precomputed *)((uintptr_t)(net + 1) + (size_t)(version & 1) * net->precomputed_size);
}

static void split(uint32_t pages, uint8_t *now)
{
	now[0] = (uint8_t)(pages / 100);
	now[1] = (uint8_t)(pages / 10 % 10);
	now[2] = (uint8_t)(pages % 10);
}

static uint32_t capped(uint32_t pages)
{
	return pages < LINNET_PAGES_MAX ? pages : LINNET_PAGES_MAX;
}

static uint64_t tag_of(uint64_t version)
{
	return (version & TAG_MASK) << TAG_SHIFT;
}

/* Decisions for the ten counts around `pages`, if the bounds of the score settle all of them; otherwise none. */
static uint64_t decide_ten(const struct linnet_tables *tables, const struct linnet_precomputed *pre, uint32_t pages)
{
	int64_t low, high;

	tables->loops->bounds(tables, pre, pages / 10 % 10, &low, &high);
	if (high <= 0)
		return (uint64_t)ALL_UNITS << KNOWN_SHIFT;
	if (low > 0)
		return (uint64_t)ALL_UNITS << KNOWN_SHIFT | ALL_UNITS;
	return 0;
}

/* Computes this history, for arrivals that are expected to find `pages` outstanding. */
static void settle(struct linnet_incremental *net, const struct linnet_noted *noted, uint32_t pages)
{
	const struct linnet_tables *tables = net->tables;
	const struct linnet_tracker *history = &noted->history;
	uint64_t version = net->version + 1, known = 0;
	struct linnet_precomputed *pre = precomputed_of(net, version);

	linnet_store_relaxed(&pre->version, 0);
	linnet_fence_release();
	pre->history_len = (uint8_t)history->history_len;
	linnet_copy(pre->reads, history->reads, sizeof(pre->reads));
	linnet_tracker_digits(history, 0, pre->digits);
	pre->hundreds = pages / 100;
	if (tables->packed) {
		tables->loops->pack(tables, pre);
	} else if (tables->precompute >= LINNET_PRECOMPUTE_FIRST) {
		int16_t inputs[LINNET_DIGITS + 1];
		uint16_t used[(LINNET_DIGITS + 1) / 2];

		for (uint32_t i = 0; i < LINNET_DIGITS; i++)
			inputs[i] = pre->digits[i];
		inputs[LINNET_DIGITS] = 0;
		tables->network->dense->pairs(&tables->network->layers[0], inputs, used, linnet_precomputed_sums(pre));
	}
	if (tables->precompute == LINNET_PRECOMPUTE_PRUNED) {
		tables->loops->prune(tables, pre);
		known = decide_ten(tables, pre, pages);
	}
	linnet_store(&pre->version, version);
	linnet_store_relaxed(&net->decided[version % LINNET_DECADES], 0);
	if (known)
		linnet_store_relaxed(&net->decided[pages / 10], tag_of(version) | known);
	linnet_store(&net->version, version);
	linnet_store(&net->settled, noted->count); /* last: a reader that sees it also sees that version */
}

int linnet_incremental_init(struct linnet_incremental *net, size_t size, const struct linnet_tables *tables,
			    const struct linnet_tracker *tracker)
{
	struct linnet_noted noted;

	if (!linnet_is_aligned(net) || size < tables->incremental_size)
		return LINNET_E_MEMORY;
	linnet_zero(net, tables->incremental_size);
	net->tables = tables;
	net->precomputed_size = (tables->incremental_size - sizeof(*net)) / 2;
	net->version = FIRST_VERSION - 1;
	if (tracker)
		linnet_incremental_adopt(net, tracker);
	linnet_incremental_noted(net, &noted);
	settle(net, &noted, capped(net->pending_pages));
	return 0;
}

void linnet_incremental_adopt(struct linnet_incremental *net, const struct linnet_tracker *tracker)
{
	linnet_copy(&net->history, tracker, sizeof(*tracker));
	net->history.pending_pages = 0;
	linnet_store32(&net->pending_pages, tracker->pending_pages);
	linnet_store(&net->noted, net->noted + 1);
}

uint32_t linnet_incremental_arrive(struct linnet_incremental *net, uint32_t size_bytes)
{
	uint32_t pages = linnet_pages(size_bytes), seen = linnet_load32(&net->pending_pages), next;

	do {
		uint32_t room = UINT32_MAX - seen;

		next = seen + (pages < room ? pages : room);
	} while (!linnet_swap32(&net->pending_pages, &seen, next));
	return next;
}

void linnet_incremental_withdraw(struct linnet_incremental *net, uint32_t size_bytes)
{
	uint32_t pages = linnet_pages(size_bytes), seen = linnet_load32(&net->pending_pages);

	while (!linnet_swap32(&net->pending_pages, &seen, seen - (pages < seen ? pages : seen)))
		;
}

void linnet_incremental_note_read(struct linnet_incremental *net, uint32_t size_bytes, uint64_t latency_ns, uint32_t snapshot)
{
	linnet_incremental_withdraw(net, size_bytes);
	linnet_tracker_complete_read(&net->history, 0, latency_ns, snapshot);
	linnet_store(&net->noted, net->noted + 1);
}

int linnet_incremental_behind(const struct linnet_incremental *net)
{
	return linnet_load(&net->settled) != linnet_load(&net->noted);
}

void linnet_incremental_noted(const struct linnet_incremental *net, struct linnet_noted *noted)
{
	linnet_copy(&noted->history, &net->history, sizeof(noted->history));
	noted->count = net->noted;
}

void linnet_incremental_process(struct linnet_incremental *net, const struct linnet_noted *noted, uint32_t snapshot)
{
	settle(net, noted, capped(snapshot));
}

void linnet_incremental_catch_up(struct linnet_incremental *net, uint32_t snapshot)
{
	struct linnet_noted noted;

	if (!linnet_incremental_behind(net))
		return;
	linnet_incremental_noted(net, &noted);
	linnet_incremental_process(net, &noted, snapshot);
}

uint32_t linnet_incremental_pending_pages(const struct linnet_incremental *net)
{
	return linnet_load32(&net->pending_pages);
}

uint32_t linnet_incremental_snapshot(const struct linnet_incremental *net, uint32_t size_bytes)
{
	uint32_t pending = linnet_incremental_pending_pages(net), pages = linnet_pages(size_bytes);

	return pending + (pages < UINT32_MAX - pending ? pages : UINT32_MAX - pending);
}

LINNET_MAY_TEAR
uint32_t linnet_incremental_history_len(const struct linnet_incremental *net)
{
	return precomputed_of(net, linnet_load(&net->version))->history_len;
}

/* Whether the precomputed history has not changed since it was found by `version`. */
static int unchanged(const struct linnet_precomputed *pre, uint64_t version)
{
	linnet_fence_acquire();
	return linnet_load_relaxed(&pre->version) == version;
}

LINNET_MAY_TEAR
void linnet_incremental_tracker(const struct linnet_incremental *net, struct linnet_tracker *tracker)
{
	const struct linnet_precomputed *pre;
	uint64_t version;

	do {
		version = linnet_load(&net->version);
		pre = precomputed_of(net, version);
		tracker->history_len = pre->history_len;
		for (uint32_t i = 0; i < LINNET_HISTORY; i++)
			tracker->reads[i] = pre->reads[i];
	} while (!unchanged(pre, version));
	tracker->pending_pages = linnet_load32(&net->pending_pages);
}

/* ---- decisions ---- */

/*
 * The score of `pages` from the history in `pre`. If *torn is set, the precomputed history changed meanwhile and the
 * other results are invalid. Values that may be torn pass through wrapping sums only, never into the layers after the
 * first.
 */
LINNET_MAY_TEAR
static int score_in(const struct linnet_tables *tables, const struct linnet_precomputed *pre, uint64_t version,
		    uint32_t pages, void *scratch, int64_t *score, int *torn)
{
	uint8_t digits[LINNET_DIGITS], now[3];

	split(pages, now);
	if (tables->precompute == LINNET_PRECOMPUTE_PRUNED) {
		if (now[0] == pre->hundreds)
			*score = tables->loops->near(tables, pre, now);
		else
			*score = tables->loops->far(tables, pre, now);
		*torn = !unchanged(pre, version);
		return 0;
	}
	if (tables->precompute == LINNET_PRECOMPUTE_FIRST) {
		tables->loops->add(tables, pre, now, linnet_network_first_sums(tables->network, scratch));
		*torn = !unchanged(pre, version);
		return *torn ? 0 : linnet_network_score_rest(tables->network, scratch, score);
	}
	*torn = 0;
	if (tables->precompute == LINNET_PRECOMPUTE_NONE)
		return LINNET_E_SHAPE;
	for (uint32_t i = 0; i < LINNET_DIGITS; i++)
		digits[i] = pre->digits[i];
	for (uint32_t i = 0; i < 3; i++)
		digits[LINNET_NOW_AT + i] = now[i];
	*torn = !unchanged(pre, version);
	return *torn ? 0 : linnet_network_score(tables->network, digits, scratch, score);
}

int linnet_incremental_score(const struct linnet_incremental *net, uint32_t snapshot, void *scratch, int64_t *score)
{
	int64_t found = 0;
	int error, torn;

	do {
		uint64_t version = linnet_load(&net->version);

		error = score_in(net->tables, precomputed_of(net, version), version, capped(snapshot), scratch, &found,
				 &torn);
	} while (torn);
	if (error < 0)
		return error;
	*score = found;
	return 0;
}

/* The decision from the history of `version`, cached or computed. */
static int decide_in(struct linnet_incremental *net, uint64_t version, uint32_t pages, void *scratch, int *torn)
{
	uint64_t *at = &net->decided[pages / 10], word = linnet_load_relaxed(at), tag = tag_of(version);
	uint32_t unit = pages % 10;
	int64_t score = 0;
	int error;

	*torn = 0;
	if ((word >> TAG_SHIFT) << TAG_SHIFT != tag)
		word = tag;
	if (word >> (KNOWN_SHIFT + unit) & 1)
		return (int)(word >> unit & 1);
	error = score_in(net->tables, precomputed_of(net, version), version, pages, scratch, &score, torn);
	if (*torn || error < 0)
		return error;
	linnet_store_relaxed(at, word | UINT64_C(1) << (KNOWN_SHIFT + unit) | (uint64_t)(score > 0) << unit);
	return score > 0;
}

int linnet_incremental_decide(struct linnet_incremental *net, uint32_t snapshot, void *scratch)
{
	int answer, torn;

	do
		answer = decide_in(net, linnet_load(&net->version), capped(snapshot), scratch, &torn);
	while (torn);
	return answer;
}

_Static_assert(sizeof(struct linnet_precomputed) == 128, "struct linnet_precomputed");
