// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks reads through the target against an independent account of the same bios, and of the target's own probes:
 * replicas that get each arrival and end, and networks that are computed in full each time. The core's decision on that
 * account must equal the target's. A probe must follow from a decision, be sent once, and end once. Two CPUs take turns;
 * each sees every event (digest_us 0), while record.c has decisions from digests.
 */
#include "check.h"
#include "choose.h"
#include "probe.h"

extern uint *const stub_param_digest_us;

#define LEGS 3
#define PLACES 1024
#define FLIGHTS 64

/* A model as user space uses it: without incremental network and tables. */
struct plain {
	struct file file;
	struct linnet_model model;
	struct linnet_network network;
	struct linnet_trees trees;
	void *memory, *scratch;
};

/* One read of the application, or a probe. */
struct flight {
	struct stub_bio *b; /* NULL: a probe */
	struct linnet_flight flight;
	u64 sector;
	u32 size, tried, leg;
	u32 hasty;  /* of `tried`, where the target had asked for no second try */
	u32 usable; /* in the next decision */
	bool in_flight;
};

struct account {
	struct linnet_replica replica;
	struct linnet_inflight_io *ios;
	struct plain *plain; /* NULL: no model */
	u64 start;
	struct flight probe;
	bool probed; /* a probe must be sent, or is in flight */
};

static struct account accounts[LEGS];
static struct flight flights[FLIGHTS], *current;
static struct linnet_settings settings;
static bool watching;
u32 policy_traced;
static unsigned long decisions, others, probes, own_probes, returned;

static struct plain *plain_of(const char *name)
{
	struct plain *p = calloc(1, sizeof(*p));
	size_t offset, size;
	void *work;

	p->file = load_file(name);
	CHECK(linnet_model_read(p->file.bytes, p->file.size, &p->model, &offset) == 0, "%s", name);
	size = linnet_network_work_size(p->model.layers, p->model.layer_count);
	work = stub_alloc(size, GFP_KERNEL);
	linnet_network_plan(&p->network, p->model.layers, p->model.layer_count, p->model.input_max, work, size);
	free(work);
	p->memory = stub_alloc(p->network.memory_size, GFP_KERNEL);
	p->scratch = stub_alloc(p->network.scratch_size, GFP_KERNEL);
	linnet_network_place(&p->network, p->model.layers, p->memory, p->network.memory_size);
	p->trees = p->model.trees;
	return p;
}

static void plain_free(struct plain *p)
{
	free(p->file.bytes);
	free(p->memory);
	free(p->scratch);
	free(p);
}

/* The network's prediction for a read, by plain sums on the tracker's digits. */
static void ask(struct account *own, struct linnet_candidate *c, u32 size)
{
	const struct linnet_tracker *tracker = &own->replica.tracker;
	u8 digits[LINNET_DIGITS];
	s64 score;

	c->known = c->slow = 0;
	if (!own->plain || tracker->history_len < LINNET_HISTORY)
		return;
	linnet_tracker_digits(tracker, tracker->pending_pages + linnet_pages(size), digits);
	linnet_network_score(&own->plain->network, digits, own->plain->scratch, &score);
	c->known = 1;
	c->slow = score > 0;
}

/* The score of the plain trees for a read. */
static void score(struct account *own, u64 now_ns, struct linnet_candidate *c)
{
	u8 features[LINNET_INFLIGHT_FEATURES];

	if (!own->plain)
		return;
	linnet_replica_features(&own->replica, own->plain->trees.schema, now_ns, 512 * (own->start + current->sector), current->size,
				features);
	linnet_candidate_scored(c, linnet_trees_score(&own->plain->trees, features), own->plain->trees.slow_score);
}

/* Computes the expected decision on the current read at this time. */
static void expect(struct linnet_decision *d, u64 now_ns)
{
	struct linnet_budget none = { 0 };
	u32 k;

	memset(d, 0, sizeof(*d));
	d->now_ns = now_ns;
	d->count = LEGS;
	d->usable = (u8)current->usable;
	for (k = 0; k < LEGS; k++)
		d->trees |= (accounts[k].plain != NULL) << k;
	d->networks = d->trees;
	linnet_decision_begin(d, &settings);
	for (k = 0; k < LEGS; k++)
		if (d->usable >> k & 1)
			linnet_replica_describe(&accounts[k].replica, now_ns, &d->candidates[k]);
	while ((k = linnet_decision_next(d, &settings, &none)) != LINNET_NO_REPLICA) {
		if (d->asks_trees)
			score(&accounts[k], now_ns, &d->candidates[k]);
		else
			ask(&accounts[k], &d->candidates[k], current->size);
	}
}

/* The same choice must follow from the scores of all replicas. */
static void choose_by_all(const struct linnet_decision *d)
{
	struct linnet_candidate all[LINNET_REPLICAS_MAX];
	struct linnet_choice choice;

	memcpy(all, d->candidates, sizeof(all));
	for (u32 k = 0; k < LEGS; k++)
		score(&accounts[k], d->now_ns, &all[k]);
	choice = linnet_choose(&settings, d->policy, all, d->count, d->now_ns);
	CHECK(choice.replica == d->choice.replica && choice.probe == d->choice.probe, "%u is chosen, by all scores %u",
	      d->choice.replica, choice.replica);
}

/* Whether the next read there would be the probe by which the replica comes back. */
static bool returns(u32 k, u64 now_ns)
{
	return accounts[k].replica.errors_in_row >= settings.errors_max && !linnet_replica_is_out(&accounts[k].replica, now_ns);
}

/* The replica is to get a probe for the current read. Returns false if it has one. */
static bool must_probe(u32 k)
{
	struct account *own = &accounts[k];

	if (own->probed)
		return false;
	returned += returns(k, stub_now);
	own->probe = (struct flight){ .sector = current->sector, .size = min(current->size, (u32)PAGE_SIZE), .leg = k };
	own->probed = true;
	return true;
}

/* Records the probes that have been sent since. */
static void find_probes(void)
{
	for (u32 i = 0; i < stub_own_count; i++) {
		const struct bio *bio = stub_own[i];
		u32 k = (u32)(bio->bi_bdev->bd_dev / 16 - 1);
		struct flight *probe = &accounts[k].probe;

		CHECK(k < LEGS && accounts[k].probed, "a probe of %u that nobody wants", k);
		if (probe->in_flight)
			continue;
		CHECK(bio->bi_iter.bi_sector == accounts[k].start + probe->sector && bio->bi_iter.bi_size == probe->size, "its place");
		linnet_replica_arrive(&accounts[k].replica, &settings, &probe->flight, stub_now, 1, 1,
				      512 * (accounts[k].start + probe->sector), probe->size);
		probe->in_flight = true;
		own_probes++;
	}
}

/* All workers run, and what they have sent is recorded. */
static void run_works(void)
{
	stub_run_works();
	find_probes();
}

void trace_linnet_decision(const struct linnet_dm *dm, const struct linnet_routing *routing)
{
	const struct linnet_decision *d = &routing->decision;
	struct linnet_decision own;
	bool probed = false;

	policy_traced = d->policy;
	if (!watching)
		return;
	find_probes();
	for (;;) {
		u32 k;

		expect(&own, d->now_ns);
		k = own.choice.replica;
		if (!(own.choice.probe || returns(k, d->now_ns)) || !(own.in_service & ~(1u << k)))
			break;
		current->usable &= ~(1u << k);
		probed = must_probe(k);
		if (probed)
			break;
	}
	decisions++;
	others += own.choice.replica != 0;
	probes += own.choice.probe;
	CHECK(d->policy == own.policy && d->verdict == own.verdict, "policy %u, verdict %u", d->policy, d->verdict);
	CHECK(d->choice.replica == own.choice.replica, "policy %u chose %u, not %u", d->policy, d->choice.replica,
	      own.choice.replica);
	CHECK(d->choice.probe == own.choice.probe, "probe");
	CHECK(d->scored == own.scored, "scored 0x%x, not 0x%x", d->scored, own.scored);
	if (d->policy == LINNET_BEST && !d->by_wait)
		choose_by_all(d);
	for (u32 k = 0; k < LEGS; k++) {
		const struct linnet_candidate *theirs = &d->candidates[k], *ours = &own.candidates[k];

		CHECK(theirs->eligible == ours->eligible, "eligible %u", k);
		CHECK(theirs->score == ours->score, "score %u: %d, not %d", k, theirs->score, ours->score);
		CHECK(theirs->slow == ours->slow, "slow %u", k);
	}
	if (probed)
		return; /* and another decision follows */
	current->flight.probe = own.choice.probe;
	current->leg = own.choice.replica;
}

void trace_linnet_io(const struct linnet_leg *leg, const struct linnet_inflight_record *record, u64 event, u64 latency_ns)
{
	struct account *own;
	struct flight *f;

	if (!watching)
		return;
	own = &accounts[leg->index];
	f = record->id == leg->probe->id ? &own->probe : current;
	CHECK(f->in_flight && f->leg == leg->index, "an I/O ends at a leg where it was not");
	CHECK(record->flight.size_bytes == f->size && record->offset_bytes == 512 * (own->start + f->sector), "place");
	f->in_flight = false;
	own->probed &= f != &own->probe;
	if (record->status == BLK_STS_OK) {
		u64 own_ns = linnet_replica_complete(&own->replica, &f->flight, stub_now);

		CHECK(latency_ns == own_ns, "latency");
	} else {
		linnet_replica_fail(&own->replica, &settings, &f->flight, stub_now);
	}
	CHECK(event == own->replica.events, "number of the event");
	CHECK(!memcmp(&leg->state.inflight, &own->replica.inflight, sizeof(own->replica.inflight)), "the in-flight tracker of %u", leg->index);
	CHECK(leg->state.ewma_ns == own->replica.ewma_ns && leg->state.out_until_ns == own->replica.out_until_ns, "averages");
}

/* The first replica in service, or else the first. */
static u32 first_of(u32 usable)
{
	for (u32 k = 0; k < LEGS; k++)
		if (usable >> k & 1 && !linnet_replica_is_out(&accounts[k].replica, stub_now))
			return k;
	return (u32)__builtin_ctz(usable);
}

/* The current read has been submitted to a device: records it in our account. */
static void record_read(bool decided)
{
	u32 leg = (u32)(current->b->bio.bi_bdev->bd_dev / 16 - 1), usable = ~current->tried & ((1u << LEGS) - 1);
	struct account *own = &accounts[leg];

	CHECK(current->b->below && leg < LEGS && usable >> leg & 1, "leg %u", leg);
	if (!decided) {
		u32 first = first_of(usable), rest = usable & ~(1u << first);

		while (returns(first, stub_now) && rest &&
		       !linnet_replica_is_out(&accounts[first_of(rest)].replica, stub_now)) {
			must_probe(first);
			first = first_of(rest);
			rest &= ~(1u << first);
		}
		CHECK(leg == first, "without a choice the read went to %u, not %u", leg, first);
		current->flight.probe = 0;
	}
	CHECK(!decided || leg == current->leg, "the read went to %u, not %u", leg, current->leg);
	CHECK(current->b->bio.bi_iter.bi_sector == own->start + current->sector, "sector");
	CHECK(current->b->bio.bi_iter.bi_size == current->size, "size");
	current->leg = leg;
	linnet_replica_arrive(&own->replica, &settings, &current->flight, stub_now, 1, current->flight.probe,
			      512 * (own->start + current->sector), current->size);
	current->in_flight = true;
}

static void send(struct dm_target *ti, struct flight *f)
{
	unsigned long before = decisions;

	f->size = 512u << below(9);
	f->sector = below(1 << 18);
	f->tried = f->hasty = 0;
	f->usable = (1u << LEGS) - 1;
	f->b = new_bio(REQ_OP_READ | (below(4) ? 0 : REQ_NOWAIT), 0, ti->begin + f->sector, f->size);
	current = f;
	stub_cpu = below(STUB_CPUS);
	stub_submit(ti, f->b);
	record_read(decisions != before);
}

static void end(struct flight *f, blk_status_t status)
{
	bool hasty = f->b->bio.bi_opf & LINNET_FAILFAST;
	unsigned long before = decisions;

	current = f;
	stub_complete(f->b, status);
	if (status == BLK_STS_OK) {
		CHECK(f->b->ended == 1 && f->b->bio.bi_status == BLK_STS_OK, "a read that went well");
	} else {
		f->tried |= 1u << f->leg;
		f->hasty |= (u32)hasty << f->leg;
		if (f->tried == (1u << LEGS) - 1) {
			f->tried &= ~f->hasty;
			f->hasty = 0;
		}
		f->usable = ~f->tried & ((1u << LEGS) - 1);
		CHECK(!f->b->ended, "a read has failed though replicas are left");
		stub_run_works(); /* the read's worker comes before that of probes */
		if (f->tried != (1u << LEGS) - 1) {
			record_read(decisions != before);
			find_probes();
			return;
		}
		find_probes();
		CHECK(f->b->ended == 1 && f->b->bio.bi_status == status, "every replica failed the read");
	}
	free(f->b);
	f->b = NULL;
}

static const char *const kinds[] = { "slow", "fast", "busy", "random", "pages" };

/* A device answers. If there is trouble, one replica at a time fails all that it gets. */
static blk_status_t answer(u32 leg, u32 trouble)
{
	return below(1000) < trouble || (trouble && (stub_now >> 24) % (LEGS + 1) == leg) ? BLK_STS_IOERR : BLK_STS_OK;
}

static void end_probe(u32 i, u32 trouble)
{
	stub_complete_own(i, answer((u32)(stub_own[i]->bi_bdev->bd_dev / 16 - 1), trouble), 9);
}

static void step(struct dm_target *ti, u32 trouble)
{
	struct flight *f = &flights[below(FLIGHTS)];
	char words[32];

	stub_now += below(20) ? below(200000) : below(4) ? 0 : below(2000000000);
	if (below(50) == 0) {
		settings.policy = below(LINNET_POLICIES);
		snprintf(words, sizeof(words), "policy %s", linnet_policy_names[settings.policy]);
		CHECK(tell(ti, words) == 0, "%s", words);
	}
	if (below(500) == 0) {
		settings.on = below(4) != 0;
		CHECK(tell(ti, settings.on ? "on" : "off") == 0, "switch");
	}
	if (stub_own_count && below(3) == 0)
		end_probe(below(stub_own_count), trouble);
	else if (!f->b)
		send(ti, f);
	else
		end(f, answer(f->leg, trouble));
	if (below(4) == 0)
		run_works(); /* probes and events */
}

static void sequence(u32 steps)
{
	u32 trouble = below(3) ? 0 : below(300);
	unsigned long own_before;
	struct dm_target *ti;
	char line[256];

	for (u32 k = 0; k < LEGS; k++) {
		char name[32], path[40];
		const char *kind = kinds[below(2) ? 3 + below(2) : below(3)];

		accounts[k].start = 8 * below(1000);
		accounts[k].probed = false;
		accounts[k].probe = (struct flight){ 0 };
		accounts[k].plain = below(4) ? plain_of(kind) : NULL;
		accounts[k].ios = calloc(PLACES, sizeof(*accounts[k].ios));
		linnet_replica_init(&accounts[k].replica, accounts[k].plain ? accounts[k].plain->model.inflection_ns : U64_MAX,
				    accounts[k].ios, PLACES);
		snprintf(name, sizeof(name), "leg%u.linnet", k);
		snprintf(path, sizeof(path), "linnet/%s", name);
		stub_firmware(path, NULL, 0);
		if (accounts[k].plain)
			put_model(kind, name);
	}
	snprintf(line, sizeof(line), "3 /dev/leg0 %lu /dev/leg1 %lu /dev/leg2 %lu 0", accounts[0].start, accounts[1].start,
		 accounts[2].start);
	ti = must(line);
	ti->begin = below(2) ? 0 : 4096;
	for (u32 k = 0; k < LEGS; k++) {
		snprintf(line, sizeof(line), "load %u leg%u.linnet", k, k);
		if (accounts[k].plain)
			CHECK(tell(ti, line) == 0, "%s", line);
	}
	linnet_settings_init(&settings);
	own_before = own_probes;
	watching = true;
	for (u32 n = 0; n < steps; n++)
		step(ti, trouble);
	for (u32 i = 0; i < FLIGHTS; i++)
		while (flights[i].b)
			end(&flights[i], BLK_STS_OK);
	run_works();
	while (stub_own_count)
		stub_complete_own(0, BLK_STS_OK, 9);
	CHECK(count_of(ti, "own_probes", -1) == own_probes - own_before, "%lu probes sent", own_probes - own_before);
	for (u32 k = 0; k < LEGS; k++)
		CHECK(!accounts[k].probed, "the probe of %u is lost", k);
	for (int k = 0; k < LEGS; k++)
		CHECK(count_of(ti, "inflight", k) == 0, "I/Os in flight at %d at the end", k);
	watching = false;
	stub_remove(ti);
	for (u32 k = 0; k < LEGS; k++) {
		free(accounts[k].ios);
		if (accounts[k].plain)
			plain_free(accounts[k].plain);
	}
}

/* More reads at a leg than places in the in-flight tracker: all are counted, and none is lost. */
static void check_untracked(void)
{
	struct dm_target *ti = must("1 /dev/leg0 0 0");
	struct stub_bio *bios[PLACES + 100];

	for (u32 i = 0; i < ARRAY_SIZE(bios); i++) {
		bios[i] = new_bio(REQ_OP_READ, 0, 8 * i, 4096);
		stub_submit(ti, bios[i]);
	}
	CHECK(count_of(ti, "untracked", -1) == 100, "untracked");
	CHECK(count_of(ti, "inflight", 0) == ARRAY_SIZE(bios), "in flight");
	for (u32 i = 0; i < ARRAY_SIZE(bios); i++) {
		stub_now += 10;
		stub_complete(bios[i], BLK_STS_OK);
		CHECK(bios[i]->ended == 1, "lost");
		free(bios[i]);
	}
	CHECK(count_of(ti, "inflight", 0) == 0, "in flight");
	stub_remove(ti);
}

void check_reads(unsigned long inputs)
{
	uint usual_us = *stub_param_digest_us;

	*stub_param_digest_us = 0;
	for (unsigned long n = 0; n < inputs; n += 2000)
		sequence(2000);
	*stub_param_digest_us = usual_us;
	check_untracked();
	CHECK(others > decisions / 10 && probes > 0 && own_probes > 0 && (returned > 0 || inputs < 20000),
	      "decisions that say little: %lu, %lu others, %lu probes, %lu sent", decisions, others, probes, own_probes);
	printf("reads: %lu decisions as user space takes them (%lu for another than the first replica, %lu probes), "
	       "%lu probes of the target's own, %lu of them after errors\n", decisions, others, probes, own_probes, returned);
}
