/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A ring of records from one producer to one consumer, and a sampler that selects the events to record.
 *
 * `head` counts records put and `tail` records taken; each is written by one side only. The producer writes a record,
 * then stores `head` with release; the consumer loads `head` with acquire, then reads the record. `tail` returns slots
 * in the same way. Each side loads the other's counter only when its last value no longer suffices: the producer once per
 * lap, the consumer when it has taken all that it knew of. What both sides read in every call nobody writes, and it has a
 * cache line of its own, as each side has.
 */
#include "tune.h"

#define CAPACITY_MAX (1u << 24)
#define RECORD_WORDS_MAX 64

int linnet_ring_init(struct linnet_ring *ring, uint32_t capacity, uint32_t record_words, uint64_t *words,
		     size_t word_count)
{
	if (capacity < 1 || capacity > CAPACITY_MAX || (capacity & (capacity - 1)) != 0)
		return LINNET_E_SHAPE;
	if (record_words < 1 || record_words > RECORD_WORDS_MAX)
		return LINNET_E_SHAPE;
	if (word_count < (size_t)capacity * record_words)
		return LINNET_E_MEMORY;
	linnet_zero(ring, sizeof(*ring));
	ring->words = words;
	ring->capacity = capacity;
	ring->record_words = record_words;
	return 0;
}

static uint64_t *slot(const struct linnet_ring *ring, uint64_t number)
{
	return ring->words + (size_t)(number & (ring->capacity - 1)) * ring->record_words;
}

/* Copies word by word; the barrier keeps the compiler from calling memcpy. */
static void copy(uint64_t *to, const uint64_t *from, uint32_t words)
{
	for (uint32_t i = 0; i < words; i++) {
		to[i] = from[i];
		__asm__ volatile("");
	}
}

int linnet_ring_put(struct linnet_ring *ring, const uint64_t *record)
{
	uint64_t head = ring->head;

	if (head - ring->tail_seen == ring->capacity) {
		ring->tail_seen = linnet_load(&ring->tail);
		if (head - ring->tail_seen == ring->capacity) {
			linnet_store_relaxed(&ring->lost, ring->lost + 1);
			return 0;
		}
	}
	copy(slot(ring, head), record, ring->record_words);
	linnet_store(&ring->head, head + 1);
	return 1;
}

int linnet_ring_take(struct linnet_ring *ring, uint64_t *record)
{
	uint64_t tail = ring->tail;

	if (tail == ring->head_seen) {
		ring->head_seen = linnet_load(&ring->head);
		if (tail == ring->head_seen)
			return 0;
	}
	copy(record, slot(ring, tail), ring->record_words);
	linnet_store(&ring->tail, tail + 1);
	return 1;
}

uint64_t linnet_ring_lost(const struct linnet_ring *ring)
{
	return linnet_load_relaxed(&ring->lost);
}

uint64_t linnet_ring_waiting(const struct linnet_ring *ring)
{
	/* Load the tail first: it never passes the head, so the difference is never negative. */
	uint64_t tail = linnet_load(&ring->tail), waiting = linnet_load(&ring->head) - tail;

	return waiting < ring->capacity ? waiting : ring->capacity;
}

int linnet_sampler_init(struct linnet_sampler *sampler, uint32_t share_ppm, uint64_t seed)
{
	if (share_ppm > LINNET_SAMPLE_ALL)
		return LINNET_E_RANGE;
	linnet_zero(sampler, sizeof(*sampler));
	sampler->share_ppm = share_ppm;
	sampler->seed = seed;
	return 0;
}

int linnet_sampler_keep(struct linnet_sampler *sampler)
{
	/* The seen-th number of splitmix64, also the generator of crates/sim. */
	uint64_t z = sampler->seed + 0x9e3779b97f4a7c15 * ++sampler->seen;
	int keep;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	z ^= z >> 31;
	keep = (z >> 32) * LINNET_SAMPLE_ALL >> 32 < sampler->share_ppm;
	sampler->kept += (uint64_t)keep;
	return keep;
}

/* Bindings in other languages mirror these. */
_Static_assert(sizeof(struct linnet_ring) == 192, "struct linnet_ring");
_Static_assert(offsetof(struct linnet_ring, tail) == 64 && offsetof(struct linnet_ring, words) == 128,
	       "cache lines of struct linnet_ring");
_Static_assert(sizeof(struct linnet_sampler) == 32, "struct linnet_sampler");
