/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * From verdicts to changes, for one file: when a window is full, when a verdict is trusted, and when a change is taken
 * back.
 *
 * A window ends after a second. It ends sooner if the verdict has changed and is certain: another way of reading, or
 * another value for sequential reads, which comes from a model or a measurement and not from the features. Below the
 * floor of confidence a window grows, up to some seconds. After a change the next full window is compared with the one
 * that led to it. If the new value costs more, the old one returns, and the file is left alone for a while, longer each
 * time. Both costs use the price that a jump had when the change was proposed: on a path to a server that price depends
 * on what others read there.
 */
#include "readahead.h"

#define SECOND 1000000000ull
#define WINDOW_MAX (4 * SECOND) /* how long an uncertain window may grow */
#define FLOOR_PPM 600000        /* verdicts below are not acted on */
#define CERTAIN_PPM 850000      /* from here on at once; between, the next window must agree */
#define FLAP (4 * SECOND)       /* two opposite changes within this time are a mixture, not a new phase */

void linnet_governor_init(struct linnet_governor *governor, uint64_t now_ns, uint32_t kib)
{
	linnet_zero(governor, sizeof(*governor));
	governor->began_ns = now_ns;
	governor->hold_until_ns = now_ns;
	governor->hold_ns = LINNET_HOLD_NS;
	governor->original_kib = governor->current_kib = governor->previous_kib = kib;
	governor->reading = LINNET_READINGS;
	governor->jump_pages_q16 = LINNET_JUMP_PAGES << 16;
}

void linnet_governor_correct(struct linnet_governor *governor, uint32_t kib)
{
	if (!governor->has_changed)
		governor->original_kib = governor->current_kib = governor->previous_kib = kib;
}

/* The value for sequential reads does not come from the window's features, so a longer window would not change it. */
static int is_new(const struct linnet_governor *governor, const struct linnet_readahead_verdict *verdict)
{
	if (verdict->reading != governor->reading)
		return 1;
	return verdict->reading >= LINNET_READING_SEQUENTIAL && verdict->kib != 0 && verdict->kib != governor->current_kib;
}

static void close_window(struct linnet_governor *governor, uint64_t now_ns)
{
	governor->began_ns = now_ns;
	linnet_zero(&governor->window, sizeof(governor->window));
}

static uint64_t since(uint64_t then, uint64_t now)
{
	return now > then ? now - then : 0;
}

/* After a change: does it cost more than it may? */
static int judge(struct linnet_governor *governor, uint64_t now_ns, const struct linnet_pattern *pattern,
		 const struct linnet_readahead_verdict *verdict, struct linnet_proposal *proposal)
{
	uint64_t before = governor->cost_before_q16;
	uint64_t after = linnet_pattern_cost_q16(pattern, governor->cost_jump_pages_q16);

	if (!governor->has_cost || !governor->has_changed || since(governor->changed_at_ns, now_ns) < LINNET_WINDOW_NS)
		return 0;
	if (governor->has_rollback && now_ns < governor->hold_until_ns)
		return 0;
	governor->has_rollback = governor->cost_reading == verdict->reading && after > before + before / LINNET_COST_PART;
	governor->has_cost = governor->has_rollback;
	if (!governor->has_rollback)
		return 0;
	proposal->change = LINNET_CHANGE_ROLLBACK;
	proposal->to_kib = governor->previous_kib;
	proposal->confidence_ppm = verdict->confidence_ppm;
	proposal->cost_before_q16 = before;
	proposal->cost_after_q16 = after;
	proposal->hold_ns = governor->hold_ns;
	return 1;
}

static void propose(struct linnet_governor *governor, uint64_t now_ns, const struct linnet_pattern *pattern,
		    const struct linnet_readahead_verdict *verdict, struct linnet_proposal *proposal)
{
	uint32_t to = verdict->kib;
	int agreed, flaps;

	governor->reading = verdict->reading;
	/* For sequential reads the file's own value is right, unless it is below the kernel's default. */
	if (to == 0)
		to = governor->original_kib > LINNET_READAHEAD_DEFAULT_KIB ? governor->original_kib :
									      LINNET_READAHEAD_DEFAULT_KIB;
	if (to == governor->current_kib || pattern->added < LINNET_ADDED_MIN || now_ns < governor->hold_until_ns) {
		governor->has_pending = 0;
		return;
	}
	agreed = governor->has_pending && governor->pending_kib == to;
	governor->has_pending = 1;
	governor->pending_kib = to;
	flaps = to == governor->previous_kib && governor->has_changed && since(governor->changed_at_ns, now_ns) < FLAP;
	if ((verdict->confidence_ppm < CERTAIN_PPM || flaps) && !agreed)
		return;
	governor->has_pending = 0;
	governor->has_cost = 1;
	governor->cost_reading = verdict->reading;
	governor->cost_jump_pages_q16 = governor->jump_pages_q16;
	governor->cost_before_q16 = linnet_pattern_cost_q16(pattern, governor->cost_jump_pages_q16);
	proposal->change = LINNET_CHANGE_DECISION;
	proposal->to_kib = to;
	proposal->confidence_ppm = verdict->confidence_ppm;
}

void linnet_governor_step(struct linnet_governor *governor, uint64_t now_ns, const struct linnet_pattern *pattern,
			  const struct linnet_readahead_verdict *verdict, struct linnet_proposal *proposal)
{
	uint64_t age = since(governor->began_ns, now_ns);
	int trusted = verdict && verdict->confidence_ppm >= FLOOR_PPM;
	int early = verdict && verdict->confidence_ppm >= CERTAIN_PPM && is_new(governor, verdict);

	linnet_zero(proposal, sizeof(*proposal));
	if (age < LINNET_WINDOW_NS && !early)
		return;
	if (!trusted) {
		if (age >= WINDOW_MAX)
			close_window(governor, now_ns);
		return;
	}
	close_window(governor, now_ns);
	if (!judge(governor, now_ns, pattern, verdict, proposal))
		propose(governor, now_ns, pattern, verdict, proposal);
}

void linnet_governor_changed(struct linnet_governor *governor, uint64_t now_ns, uint32_t kib)
{
	/* The rollback is made; another change stands in its place. */
	if (governor->has_rollback && kib == governor->previous_kib) {
		governor->hold_until_ns = now_ns + governor->hold_ns;
		governor->hold_ns = 2 * governor->hold_ns < LINNET_HOLD_NS_MAX ? 2 * governor->hold_ns : LINNET_HOLD_NS_MAX;
	}
	if (governor->has_rollback)
		governor->has_rollback = governor->has_cost = 0;
	governor->previous_kib = governor->current_kib;
	governor->current_kib = kib;
	governor->changed_at_ns = now_ns;
	governor->has_changed = 1;
	close_window(governor, now_ns);
}

void linnet_governor_refused(struct linnet_governor *governor, uint64_t now_ns, uint64_t wait_ns)
{
	if (!governor->has_rollback)
		governor->has_cost = 0;
	governor->hold_until_ns = now_ns + wait_ns;
}

/* Bindings in other languages mirror these. */
_Static_assert(sizeof(struct linnet_proposal) == 40, "struct linnet_proposal");
_Static_assert(sizeof(struct linnet_governor) == 80 + sizeof(struct linnet_counts), "struct linnet_governor");
