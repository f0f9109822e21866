/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Open-loop load on one thread: reads arrive at absolute times that are drawn beforehand, independent of the devices.
 * Latency is measured from the time when a read was due. So a stalled device delays no arrival, and a generator that
 * falls behind increases the latencies instead of reducing the load.
 *
 * A hedge is a second copy of a read that has no answer after a fixed delay. It goes to the next replica, and the first
 * answer wins. The other copy keeps its slot and its buffer until it is answered.
 */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

/* A read in flight, with up to two copies. */
struct slot {
	struct linnet_request copies[2];
	struct outcome *outcome;
	unsigned out; /* copies in flight */
	int answered;
	struct slot *next_hedge; /* in order of deadline */
	uint64_t hedge_at_ns;
	int waiting_hedge;
};

struct state {
	const struct options *options;
	const struct linnet_reader_replica *replicas;
	struct run *run;
	struct linnet_reader *reader;
	struct slot **idle;
	unsigned idle_count;
	struct slot *hedge_first, *hedge_last;
	uint64_t start_ns, chance;
};

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

/* splitmix64 (Steele, Lea, Flood 2014): 64 good bits per step from any seed. */
static uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

/* Draws arrivals and offsets of the whole run: the same for every mode with the same seed. */
static void plan(const struct options *options, struct run *run)
{
	uint64_t chance = options->seed, places = options->span_bytes / options->size_bytes;
	double at = 0;

	for (uint64_t i = 0; i < run->count; i++) {
		double unit = (double)(draw(&chance) >> 11) * 0x1p-53;

		at += (options->even ? 1.0 : -log1p(-unit)) * 1e9 / options->rate;
		run->outcomes[i].arrive_ns = (uint64_t)at;
		run->outcomes[i].offset = draw(&chance) % places * options->size_bytes;
	}
}

static void queue_hedge(struct state *state, struct slot *slot, uint64_t now)
{
	slot->hedge_at_ns = now + state->options->hedge_ns;
	slot->waiting_hedge = 1;
	slot->next_hedge = NULL;
	if (state->hedge_last)
		state->hedge_last->next_hedge = slot;
	else
		state->hedge_first = slot;
	state->hedge_last = slot;
}

/* Sends a copy to up to `count` replicas, starting with `first`. */
static void send_copy(struct state *state, struct slot *slot, unsigned copy, unsigned first, unsigned count)
{
	struct linnet_request *request = &slot->copies[copy];

	request->replicas = state->replicas + first;
	request->count = count;
	request->offset = (off_t)slot->outcome->offset;
	request->user = slot;
	slot->out++;
	linnet_submit(state->reader, request);
}

static void start_read(struct state *state, struct outcome *outcome, uint64_t now)
{
	struct slot *slot = state->idle[--state->idle_count];

	slot->outcome = outcome;
	slot->answered = 0;
	slot->out = 0;
	outcome->submit_ns = now;
	send_copy(state, slot, 0, 0, state->options->mode == FAILOVER ? state->options->count : 1);
	if (state->options->mode == HEDGE && state->options->count > 1)
		queue_hedge(state, slot, now);
}

static void send_hedge(struct state *state, struct slot *slot)
{
	slot->outcome->hedged = 1;
	send_copy(state, slot, 1, 1, 1);
}

static void release(struct state *state, struct slot *slot)
{
	if (slot->answered && !slot->out && !slot->waiting_hedge)
		state->idle[state->idle_count++] = slot;
}

static void answer(struct state *state, struct linnet_request *request, uint64_t now)
{
	struct slot *slot = request->user;
	unsigned copy = request == &slot->copies[1];
	struct outcome *outcome = slot->outcome;

	slot->out--;
	outcome->copies = (uint8_t)(outcome->copies + request->errors + (request->result >= 0));
	if (!slot->answered) {
		outcome->revokes = (uint8_t)(outcome->revokes + request->revokes);
		outcome->errors = (uint8_t)(outcome->errors + request->errors);
		if (request->result < 0 && slot->waiting_hedge && !outcome->hedged)
			send_hedge(state, slot); /* the first copy failed, so do not wait */
		if (request->result >= 0 || !slot->out) {
			slot->answered = 1;
			outcome->latency_ns = now - outcome->arrive_ns;
			outcome->result = (int32_t)request->result;
			outcome->replica = (uint8_t)(request->replica + copy);
		}
	}
	release(state, slot);
}

/* Sends the hedges that are due, and drops those of answered reads. */
static void hedge(struct state *state, uint64_t now)
{
	for (struct slot *slot; (slot = state->hedge_first) && (slot->answered || slot->hedge_at_ns <= now);) {
		state->hedge_first = slot->next_hedge;
		if (!state->hedge_first)
			state->hedge_last = NULL;
		slot->waiting_hedge = 0;
		if (!slot->answered && !slot->outcome->hedged)
			send_hedge(state, slot);
		release(state, slot);
	}
}

static int drive(struct state *state)
{
	struct linnet_request *done[64];
	struct run *run = state->run;

	for (uint64_t next = 0; next < run->count || linnet_inflight(state->reader);) {
		uint64_t now = clock_ns() - state->start_ns, until = UINT64_MAX;
		struct timespec wait;
		int got;

		hedge(state, now);
		while (next < run->count && state->idle_count && run->outcomes[next].arrive_ns <= now)
			start_read(state, &run->outcomes[next++], now);
		if (next < run->count && state->idle_count)
			until = run->outcomes[next].arrive_ns;
		if (state->hedge_first && state->hedge_first->hedge_at_ns < until)
			until = state->hedge_first->hedge_at_ns;
		if (!linnet_inflight(state->reader)) {
			if (until != UINT64_MAX && until > now) {
				until += state->start_ns;
				wait.tv_sec = (time_t)(until / 1000000000ULL);
				wait.tv_nsec = (long)(until % 1000000000ULL);
				clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wait, NULL);
			}
			continue;
		}
		until = until == UINT64_MAX ? 1000000000ULL : until > now ? until - now : 0;
		wait.tv_sec = (time_t)(until / 1000000000ULL);
		wait.tv_nsec = (long)(until % 1000000000ULL);
		got = linnet_reap(state->reader, done, 64, &wait);
		if (got == -EINTR)
			continue;
		if (got < 0)
			return got;
		now = clock_ns() - state->start_ns;
		for (int i = 0; i < got; i++)
			answer(state, done[i], now);
	}
	return 0;
}

/* Buffers of one read. */
static unsigned copies_of(const struct options *options)
{
	return options->mode == HEDGE ? 2 : 1;
}

uint64_t load_buffer_bytes(const struct options *options)
{
	return (uint64_t)options->depth * copies_of(options) * options->size_bytes;
}

uint64_t load_outcome_bytes(const struct options *options)
{
	return (options->warmup + options->reads) * sizeof(struct outcome);
}

int load_run(const struct options *options, const struct linnet_reader_replica *replicas, struct run *run)
{
	struct state state = {.options = options, .replicas = replicas, .run = run};
	size_t buffers = load_buffer_bytes(options);
	unsigned copies = copies_of(options);
	struct slot *slots;
	char *memory;
	int error;

	run->count = options->warmup + options->reads;
	run->outcomes = calloc(run->count, sizeof(*run->outcomes));
	slots = calloc(options->depth, sizeof(*slots));
	state.idle = calloc(options->depth, sizeof(struct slot *));
	memory = mmap(NULL, buffers, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	error = run->outcomes && slots && state.idle && memory != MAP_FAILED ? 0 : -ENOMEM;
	if (!error)
		error = linnet_reader_open(&state.reader, options->mode == FAILOVER ? options->tag : LINNET_TAG_NONE,
					   options->depth * copies);
	if (!error) {
		plan(options, run);
		for (unsigned i = 0; i < options->depth; i++) {
			for (unsigned copy = 0; copy < copies; copy++) {
				slots[i].copies[copy].buffer = memory + (i * copies + copy) * options->size_bytes;
				slots[i].copies[copy].size = options->size_bytes;
			}
			state.idle[state.idle_count++] = &slots[i];
		}
		/* Wake up at the deadline, not up to 50 us later. */
		prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
		state.start_ns = clock_ns();
		error = drive(&state);
		run->elapsed_ns = clock_ns() - state.start_ns;
		linnet_reader_close(state.reader);
	}
	if (memory != MAP_FAILED)
		munmap(memory, buffers);
	free(state.idle);
	free(slots);
	return error;
}
