/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads read from three replicas, each time from the one that a model predicts to answer first: embed MODEL. */
#include <linnet/linnet.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { REPLICAS = 3, PLACES = 64, THREADS = 4, READS = 500 };

static struct linnet_model model;       /* 4 KB; const once it is read */
static struct linnet_settings settings; /* const once they are set */
static struct replica {
	pthread_mutex_t lock; /* of all that follows */
	struct linnet_replica state;
	struct linnet_inflight_io ios[PLACES]; /* reads in flight that its trees can see; more are served as well */
	unsigned long reads;
} replicas[REPLICAS];

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Stands for pread() of your replica; the first one is slow. Returns 0, or -1 if the replica failed. */
static int read_from(uint32_t k, uint64_t offset, uint32_t size)
{
	struct timespec wait = { 0, k == 0 ? 400000 : 50000 };

	(void)offset, (void)size;
	return nanosleep(&wait, NULL);
}

/* Chooses a replica, and counts the read as in flight there. */
static uint32_t arrive(uint64_t offset, uint32_t size, struct linnet_flight *flight)
{
	struct linnet_decision d = { .now_ns = now_ns(), .count = REPLICAS, .usable = 7, .trees = 7 };
	struct linnet_budget revokes = { 0 }; /* without may_revoke, none is asked for */
	uint8_t features[LINNET_INFLIGHT_FEATURES];
	uint32_t k;

	linnet_decision_begin(&d, &settings);
	for (k = 0; k < REPLICAS; k++) {
		pthread_mutex_lock(&replicas[k].lock);
		linnet_replica_describe(&replicas[k].state, d.now_ns, &d.candidates[k]);
		pthread_mutex_unlock(&replicas[k].lock);
	}
	while ((k = linnet_decision_next(&d, &settings, &revokes)) != LINNET_NO_REPLICA) {
		pthread_mutex_lock(&replicas[k].lock);
		linnet_replica_features(&replicas[k].state, model.trees.schema, d.now_ns, offset, size, features);
		pthread_mutex_unlock(&replicas[k].lock);
		linnet_candidate_scored(&d.candidates[k], linnet_trees_score(&model.trees, features), model.trees.slow_score);
	}
	k = d.choice.replica;
	pthread_mutex_lock(&replicas[k].lock);
	linnet_replica_arrive(&replicas[k].state, &settings, flight, now_ns(), 1, d.choice.probe, offset, size);
	replicas[k].reads++;
	pthread_mutex_unlock(&replicas[k].lock);
	return k;
}

static void *reader(void *first)
{
	for (uint64_t i = 0; i < READS; i++) {
		uint64_t offset = *(const uint64_t *)first + i * 131072;
		struct linnet_flight flight;
		uint32_t k = arrive(offset, 4096, &flight);
		int failed = read_from(k, offset, 4096); /* if so, you would read another replica */

		pthread_mutex_lock(&replicas[k].lock);
		if (failed)
			linnet_replica_fail(&replicas[k].state, &settings, &flight, now_ns());
		else
			linnet_replica_complete(&replicas[k].state, &flight, now_ns());
		pthread_mutex_unlock(&replicas[k].lock);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static uint8_t bytes[1 << 20]; /* a network's layers point into it; the trees are copied */
	FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
	size_t size = file ? fread(bytes, 1, sizeof(bytes), file) : 0, at = 0;
	int error = linnet_model_read(bytes, size, &model, &at);
	pthread_t threads[THREADS];
	uint64_t first[THREADS];

	if (error < 0 || !(model.parts & LINNET_PART_TREES))
		return fprintf(stderr, "no model with trees: error %d at byte %zu\n", error, at), 1;
	linnet_settings_init(&settings); /* policy linnet-best; check changed ones with linnet_settings_check */
	for (uint32_t k = 0; k < REPLICAS; k++) {
		pthread_mutex_init(&replicas[k].lock, NULL);
		linnet_replica_init(&replicas[k].state, model.inflection_ns, replicas[k].ios, PLACES);
	}
	for (uint64_t i = 0; i < THREADS; i++) {
		first[i] = i << 30;
		pthread_create(&threads[i], NULL, reader, &first[i]);
	}
	for (uint64_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (uint32_t k = 0; k < REPLICAS; k++)
		printf("replica %u: %lu reads\n", k, replicas[k].reads);
	return 0;
}
