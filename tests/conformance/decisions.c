/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Repeats the kernel's decisions in user space, from a recording of its tracepoints (spec/dm-target.md), and compares:
 *
 *   decisions RECORD [MODEL] [PLACES]
 *
 * RECORD is the text of tracefs' `trace`, started before the first I/O of the device and ended after the last. The
 * decision is the same code; the test covers the target's glue: which events it counts, and what it reads of a replica
 * while that changes. The arrivals and ends of each replica are replayed in the order of their numbers. A decision
 * states how many events of a replica it knew, and how many I/Os in flight of its own CPU it added to them; at that point
 * the replica is described, with its network in full.
 *
 * A recording of several devices is first split by `dev=`.
 *
 * Prints how much was compared. Exits with 1 if anything differs, with 2 if the recording cannot be used.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "choose.h"
#include "recording.h"

#define DIFFERENCES_MAX 10
#define LEFT_OUT_MAX 64 /* most decisions after an I/O that was still in flight at the end */

struct model {
	struct linnet_model file;
	struct linnet_network network;
	void *scratch;
	int has_trees, has_network;
};

static struct linnet_settings settings;
static unsigned long long start[LINNET_REPLICAS_MAX]; /* first byte of the replica on its device */
static struct model model;

/* ---- the model ---- */

static void read_model(const char *path)
{
	static uint8_t bytes[4 << 20];
	FILE *file = fopen(path, "rb");
	size_t size, at = 0, work_size;
	void *work;

	if (!file)
		bad("cannot open", path);
	size = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	if (linnet_model_read(bytes, size, &model.file, &at) < 0)
		bad("refused", path);
	model.has_trees = (model.file.parts & LINNET_PART_TREES) != 0;
	model.has_network = (model.file.parts & LINNET_PART_NETWORK) != 0;
	if (!model.has_network)
		return;
	work_size = linnet_network_work_size(model.file.layers, model.file.layer_count);
	work = must(aligned_alloc(LINNET_ALIGN, work_size));
	if (linnet_network_plan(&model.network, model.file.layers, model.file.layer_count, model.file.input_max, work,
				work_size) < 0)
		bad("its network is refused", path);
	free(work);
	work = must(aligned_alloc(LINNET_ALIGN, model.network.memory_size));
	if (linnet_network_place(&model.network, model.file.layers, work, model.network.memory_size) < 0)
		bad("its network has no place", path);
	model.scratch = must(aligned_alloc(LINNET_ALIGN, (model.network.scratch_size + 63) / 64 * 64));
}

/* Returns 1 for slow, 0 for fast, -1 for not known yet. */
static int ask_network(const struct linnet_tracker *tracker, uint32_t size)
{
	uint8_t digits[LINNET_DIGITS];
	int64_t score;

	if (!model.has_network || tracker->history_len < LINNET_HISTORY)
		return -1;
	linnet_tracker_digits(tracker, tracker->pending_pages + linnet_pages(size), digits);
	if (linnet_network_score(&model.network, digits, model.scratch, &score) < 0)
		return -1;
	return score > 0;
}

/* ---- replay of one replica ---- */

static unsigned long long differences, left_out;

static void differ(const struct decision *d, const char *what, unsigned k, long long theirs, long long ours)
{
	if (differences++ < DIFFERENCES_MAX)
		printf("decision 0x%llx: %s of replica %u is %lld in the kernel, %lld here\n", d->id, what, k, theirs,
		       ours);
}

struct event {
	unsigned long long number;
	struct io *io;
	int is_end;
};

static int by_number(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

static unsigned replaying;

static int by_seen(const void *a, const void *b)
{
	const struct decision *x = *(const struct decision *const *)a, *y = *(const struct decision *const *)b;

	return x->seen[replaying] < y->seen[replaying] ? -1 : x->seen[replaying] > y->seen[replaying];
}

static void describe(struct decision *d, unsigned k, const struct linnet_replica *replica)
{
	struct linnet_candidate *own = &d->ours.candidates[k];
	uint8_t features[LINNET_INFLIGHT_FEATURES];
	int slow = ask_network(&replica->tracker, d->size);

	linnet_replica_describe(replica, d->ours.now_ns, own);
	own->in_flight += (uint32_t)d->own[k]; /* what the deciding CPU had queued itself */
	if (d->ours.by_trees && model.has_trees) {
		linnet_replica_features(replica, model.file.trees.schema, d->ours.now_ns, start[k] + 512 * d->sector, d->size,
					features);
		d->scores[k] = linnet_trees_score(&model.file.trees, features);
	}
	d->described |= 1u << k;
	d->known |= (unsigned)(slow >= 0) << k;
	d->calls_slow |= (unsigned)(slow == 1) << k;
	if (d->scored >> k & 1 && d->scores[k] != (int32_t)d->score[k])
		differ(d, "score", k, (int32_t)d->score[k], d->scores[k]);
	if (own->ewma_ns != d->ewma_ns[k])
		differ(d, "EWMA", k, (long long)d->ewma_ns[k], (long long)own->ewma_ns);
	if (own->in_flight != d->in_flight[k])
		differ(d, "in flight", k, (long long)d->in_flight[k], own->in_flight);
}

static void happen(struct linnet_replica *replica, struct event *event)
{
	struct io *io = event->io;
	uint64_t end_ns = io->arrived_ns + io->latency_ns;

	if (!event->is_end) /* probes of a decision and of a readmission are treated alike from here on */
		linnet_replica_arrive(replica, &settings, &io->flight, io->arrived_ns, (int)io->is_read, (int)io->probe,
				      io->offset, io->size);
	else if (io->error == 0)
		linnet_replica_complete(replica, &io->flight, end_ns);
	else if (io->error == -11 || io->error == -22 || io->error == -62 || io->error == -95)
		/* EAGAIN, EINVAL, ETIME, EOPNOTSUPP: no failures */
		linnet_replica_withdraw(replica, &io->flight, end_ns);
	else
		linnet_replica_fail(replica, &settings, &io->flight, end_ns);
}

/* An I/O in flight at the end of the recording has no events in it. Decisions that depend on them are left out. */
static void cut_short(unsigned k, unsigned long long missing, size_t rest)
{
	if (rest > LEFT_OUT_MAX) {
		printf("replica %u: event %llu is missing from the record, and %zu decisions rest on it\n", k, missing, rest);
		exit(2);
	}
	left_out += rest;
}

static void replay(unsigned k, uint32_t places)
{
	struct decision **asked = must(calloc(decision_count + 1, sizeof(struct decision *)));
	struct event *events = must(calloc(2 * io_count + 1, sizeof(*events)));
	struct linnet_inflight_io *inflight_ios = must(calloc(places, sizeof(*inflight_ios)));
	uint64_t inflection_ns = model.file.inflection_ns ? model.file.inflection_ns : UINT64_MAX;
	size_t event_count = 0, ask_count = 0, next = 0;
	struct linnet_replica replica;

	for (size_t i = 0; i < io_count; i++) {
		if (ios[i].replica != k)
			continue;
		events[event_count++] = (struct event){ ios[i].arrive, &ios[i], 0 };
		events[event_count++] = (struct event){ ios[i].end, &ios[i], 1 };
	}
	qsort(events, event_count, sizeof(*events), by_number);
	for (size_t i = 0; i < decision_count; i++)
		if (decisions[i].ours.usable >> k & 1 && decisions[i].seen[k] != UINT64_MAX)
			asked[ask_count++] = &decisions[i];
	replaying = k;
	qsort(asked, ask_count, sizeof(struct decision *), by_seen);
	linnet_replica_init(&replica, inflection_ns, inflight_ios, places);
	for (size_t i = 0;; i++) {
		for (; next < ask_count && asked[next]->seen[k] == replica.events; next++)
			describe(asked[next], k, &replica);
		if (i == event_count)
			break;
		if (events[i].number != replica.events + 1) {
			cut_short(k, replica.events + 1, ask_count - next);
			break;
		}
		happen(&replica, &events[i]);
	}
	free(asked);
	free(events);
	free(inflight_ios);
}

/* ---- the decisions ---- */

/* Uses the policy that the kernel followed; the configured one may have lacked its models. */
static void begin(struct decision *d)
{
	settings.policy = d->policy;
	d->ours.trees = model.has_trees ? d->ours.usable : 0;
	d->ours.networks = model.has_network ? d->ours.usable : 0;
	linnet_decision_begin(&d->ours, &settings);
	if (d->ours.policy != d->policy)
		differ(d, "policy", 0, d->policy, d->ours.policy);
}

/* The same choice must follow from the scores of all replicas. */
static void choose_by_all(const struct decision *d)
{
	struct linnet_candidate all[LINNET_REPLICAS_MAX];
	struct linnet_choice choice;

	memcpy(all, d->ours.candidates, sizeof(all));
	for (unsigned k = 0; k < d->ours.count; k++)
		all[k].score = d->scores[k];
	choice = linnet_choose(&settings, d->ours.policy, all, d->ours.count, d->ours.now_ns);
	if (choice.replica != d->replica)
		differ(d, "choice by all scores", d->replica, d->replica, choice.replica);
}

/*
 * Whether the replica is slow to the model that the kernel asked. Which trees it asks may differ from those that are asked
 * here: what is known of the replicas may have been renewed in the middle of the decision.
 */
static int is_slow(const struct decision *d, unsigned k)
{
	if (d->scored >> k & 1)
		return d->scores[k] > model.file.trees.slow_score;
	return d->ours.candidates[k].slow && !(d->ours.scored >> k & 1);
}

static void compare(struct decision *d)
{
	struct linnet_budget full = { 0 };
	unsigned slow = 0;
	uint32_t k;

	settings.policy = d->policy;
	while ((k = linnet_decision_next(&d->ours, &settings, &full)) != LINNET_NO_REPLICA) {
		if (d->ours.asks_trees) {
			linnet_candidate_scored(&d->ours.candidates[k], d->scores[k], model.file.trees.slow_score);
			continue;
		}
		d->ours.candidates[k].known = d->known >> k & 1;
		d->ours.candidates[k].slow = d->calls_slow >> k & 1;
	}
	if (d->ours.policy == LINNET_BEST && !d->ours.by_wait)
		choose_by_all(d);
	for (k = 0; k < d->ours.count; k++)
		slow |= (unsigned)is_slow(d, k) << k;
	if (d->ours.choice.replica != d->replica)
		differ(d, "choice", d->replica, d->replica, d->ours.choice.replica);
	if (d->ours.choice.probe != d->probe)
		differ(d, "probe", d->replica, d->probe, d->ours.choice.probe);
	if ((d->ours.verdict == LINNET_REVOKE) != (d->verdict == LINNET_REVOKE))
		differ(d, "verdict", d->replica, d->verdict, d->ours.verdict);
	if (slow != d->slow)
		differ(d, "slow", d->replica, d->slow, slow);
}

int main(int argc, char **argv)
{
	unsigned long long compared = 0, torn = 0, probes = 0, revokes = 0, elsewhere = 0;
	uint32_t places = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 0) : 1024;

	if (argc < 2 || argc > 4 || places == 0) {
		fprintf(stderr, "usage: decisions RECORD [MODEL] [PLACES]\n");
		return 2;
	}
	linnet_settings_init(&settings);
	read_record(argv[1]);
	if (argc > 2 && argv[2][0])
		read_model(argv[2]);
	for (size_t i = 0; i < decision_count; i++)
		begin(&decisions[i]);
	for (unsigned k = 0; k < LINNET_REPLICAS_MAX; k++)
		replay(k, places);
	for (size_t i = 0; i < decision_count; i++) {
		struct decision *d = &decisions[i];

		if (d->described != d->ours.usable) {
			torn++; /* the description changed while it was read, so the kernel used an older one */
			continue;
		}
		compare(d);
		compared++;
		probes += d->probe;
		revokes += d->verdict == LINNET_REVOKE;
		elsewhere += d->replica != 0;
	}
	printf("%zu I/Os, %llu decisions taken again (%llu for another replica than the primary, %llu probes, %llu revokes), %llu not described (%llu of them at the end), %llu differences\n",
	       io_count, compared, elsewhere, probes, revokes, torn, left_out, differences);
	return differences != 0;
}
