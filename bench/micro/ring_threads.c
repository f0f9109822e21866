// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * What a producer pays to put a record into the ring of knobs while a consumer on another CPU takes them: one that looks
 * for the next record at once, and one that lets 20 us pass when it has taken all, as a thread that is woken does.
 * docs/design/tune-library.md has the result.
 *
 *   cd bench/micro && gcc -O3 -pthread -I../../core ring_threads.c ../../core/ring.c -o /tmp/r && /tmp/r
 *
 * Needs two CPUs, 0 and 1. A block in which the ring was full is left out: there the producer waited.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tune.h"

#define CAPACITY (1u << 16)
#define WORDS 4
#define PUTS 8192
#define BLOCKS 801
#define AWAY_NS 20000

static _Alignas(64) struct linnet_ring ring;
static _Alignas(64) uint64_t memory[CAPACITY * WORDS];
static uint64_t finished;
static uint64_t away_ns;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Without a CPU of its own a thread would measure the scheduler. */
static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0) {
		fprintf(stderr, "there is no CPU %d for this program\n", cpu);
		exit(77);
	}
}

static void *consume(void *unused)
{
	uint64_t record[WORDS];

	pin(1);
	while (!linnet_load(&finished)) {
		uint64_t until;

		while (linnet_ring_take(&ring, record))
			;
		if (away_ns == 0)
			continue;
		until = now_ns() + away_ns;
		while (now_ns() < until)
			;
	}
	return unused;
}

static int measure(const char *consumer_is)
{
	static double times[BLOCKS];
	uint64_t record[WORDS] = { 0 };
	pthread_t consumer;
	int whole = 0;

	linnet_store(&finished, 0);
	if (linnet_ring_init(&ring, CAPACITY, WORDS, memory, CAPACITY * WORDS) < 0)
		return 1;
	if (pthread_create(&consumer, NULL, consume, NULL) != 0)
		return 1;
	for (int b = 0; b < BLOCKS; b++) {
		uint64_t lost = linnet_ring_lost(&ring), begun = now_ns();

		for (int i = 0; i < PUTS; i++)
			while (!linnet_ring_put(&ring, record))
				sched_yield();
		times[whole] = (double)(now_ns() - begun) / PUTS;
		whole += linnet_ring_lost(&ring) == lost;
	}
	linnet_store(&finished, 1);
	pthread_join(consumer, NULL);
	qsort(times, (size_t)whole, sizeof(*times), by_size);
	printf("a record put, the consumer %s: %.1f ns, quartiles %.1f and %.1f, %d of %d blocks\n", consumer_is,
	       times[whole / 2], times[whole / 4], times[whole * 3 / 4], whole, BLOCKS);
	return 0;
}

int main(void)
{
	pin(0);
	if (measure("looks at once") > 0)
		return 1;
	away_ns = AWAY_NS;
	return measure("looks after 20 us");
}
