/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Incremental networks in several threads, as model.h allows: each thread asks for scores and decisions of its network
 * while another lets it catch up with a history that goes back and forth between two. Every answer must be that of one
 * of the two histories, under ThreadSanitizer without a report: races MODEL...
 */
#include "linnet.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { ASKING = 2, ROUNDS = 3000, SNAPSHOTS = 40, BYTES_MAX = 1 << 20 };

static struct linnet_network network;
static struct linnet_tables tables;
static struct linnet_incremental *net;
static struct linnet_tracker histories[2];
static int64_t expected[2][SNAPSHOTS];
static uint64_t done;
static unsigned long wrong;

static void *memory(size_t size)
{
	void *at = aligned_alloc(LINNET_ALIGN, (size + LINNET_ALIGN) / LINNET_ALIGN * LINNET_ALIGN);

	if (!at)
		abort();
	linnet_zero(at, size);
	return at;
}

static uint32_t snapshot_of(uint32_t i)
{
	return i * 23; /* with all hundreds, so that near and far are asked */
}

static void *ask(void *unused)
{
	uint8_t *scratch = memory(tables.scratch_size);
	unsigned long bad = 0;

	(void)unused;
	for (uint32_t i = 0; !linnet_load(&done); i = (i + 1) % SNAPSHOTS) {
		struct linnet_tracker seen;
		int64_t score = 0;
		int answer;

		bad += linnet_incremental_score(net, snapshot_of(i), scratch, &score) != 0;
		bad += score != expected[0][i] && score != expected[1][i];
		answer = linnet_incremental_decide(net, snapshot_of(i), scratch);
		bad += answer != (expected[0][i] > 0) && answer != (expected[1][i] > 0);
		linnet_incremental_tracker(net, &seen);
		bad += seen.reads[0] != histories[0].reads[0] && seen.reads[0] != histories[1].reads[0];
		bad += linnet_incremental_history_len(net) != LINNET_HISTORY;
		linnet_incremental_withdraw(net, linnet_incremental_arrive(net, 4096) * 4096);
	}
	__atomic_fetch_add(&wrong, bad, __ATOMIC_RELAXED);
	free(scratch);
	return NULL;
}

static int run(const char *path)
{
	static uint8_t bytes[BYTES_MAX];
	static struct linnet_model model;
	FILE *file = fopen(path, "rb");
	size_t size = file ? fread(bytes, 1, sizeof(bytes), file) : 0, at = 0, work_size;
	pthread_t threads[ASKING];
	void *work, *weights, *tabled, *scratch;

	if (file)
		fclose(file);
	if (linnet_model_read(bytes, size, &model, &at) < 0)
		return fprintf(stderr, "races: %s is no model file\n", path), 1;
	work_size = linnet_network_work_size(model.layers, model.layer_count);
	work = memory(work_size);
	if (linnet_network_plan(&network, model.layers, model.layer_count, model.input_max, work, work_size) < 0)
		return fprintf(stderr, "races: no network in %s\n", path), 1;
	weights = memory(network.memory_size);
	linnet_network_place(&network, model.layers, weights, network.memory_size);
	linnet_tables_plan(&tables, &network, &linnet_prune_portable);
	tabled = memory(tables.memory_size);
	linnet_tables_place(&tables, tabled, tables.memory_size);
	scratch = memory(tables.scratch_size);
	net = memory(tables.incremental_size);
	for (uint32_t h = 2; h-- > 0;) {
		for (uint32_t i = 0; i < LINNET_HISTORY; i++)
			linnet_tracker_complete_read(&histories[h], 0, h ? 9000000 : 90000 * (i + 1), h ? 900 - i : i);
		linnet_incremental_init(net, tables.incremental_size, &tables, &histories[h]);
		for (uint32_t i = 0; i < SNAPSHOTS; i++)
			linnet_incremental_score(net, snapshot_of(i), scratch, &expected[h][i]);
	}
	done = 0;
	for (uint32_t i = 0; i < ASKING; i++)
		pthread_create(&threads[i], NULL, ask, NULL);
	for (uint32_t i = 1; i < ROUNDS; i++) {
		linnet_incremental_adopt(net, &histories[i & 1]);
		linnet_incremental_catch_up(net, i % 1000);
	}
	linnet_store(&done, 1);
	for (uint32_t i = 0; i < ASKING; i++)
		pthread_join(threads[i], NULL);
	printf("races: %d histories under %d threads that ask; computed ahead %u of 3: %lu wrong answers\n", ROUNDS, ASKING,
	       tables.precompute, wrong);
	free(work), free(weights), free(tabled), free(scratch), free(net);
	return wrong != 0;
}

int main(int argc, char **argv)
{
	int failed = 0;

	for (int i = 1; i < argc; i++)
		failed |= run(argv[i]);
	return failed;
}
