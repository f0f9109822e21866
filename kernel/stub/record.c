// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs reads and prints the target's tracepoints in the format of tracefs: record HOW POLICY READS SEED [MODEL]. Three
 * replicas at different offsets; bursts, single reads and rests, one replica slow at a time. HOW is
 *
 *   steer      one target of three
 *   revoke     the same with half of the reads tagged; revoked ones are read elsewhere
 *
 * tests/conformance/decisions.c takes the decisions again from what is printed.
 */
#include "block.h"
#include "linnet-dm.h"
#include "policy.h"

#define LEGS 3
#define FLIGHTS 48

/* A read: in flight, or revoked and about to go to the next target. */
static struct flight {
	struct stub_bio *b;
	u64 due_ns, sector;
	u32 size, target;
	bool revoked;
} flights[FLIGHTS];
/* The target's own probes: one per replica. */
static struct probe {
	struct bio *bio; /* NULL: none is in flight */
	u64 due_ns;
} probes[LEGS];
static struct dm_target *targets[LEGS];
static u32 target_count = 1, tagged_percent;
static u64 state;

static u32 below(u32 n)
{
	u64 z = (state += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (u32)((z ^ (z >> 31)) >> 32) % n;
}

static void array(const char *name, const struct linnet_routing *r, u64 (*of)(const struct linnet_routing *, u32))
{
	printf(" %s=", name);
	for (u32 k = 0; k < r->decision.count; k++)
		printf("%c0x%llx", k ? ',' : '{', (unsigned long long)of(r, k));
	printf("}");
}

static u64 seen(const struct linnet_routing *r, u32 k) { return r->seen[k]; }
static u64 own(const struct linnet_routing *r, u32 k) { return r->locked ? 0 : (u32)r->own[k]; }
static u64 score(const struct linnet_routing *r, u32 k) { return (u32)r->decision.candidates[k].score; }
static u64 ewma_ns(const struct linnet_routing *r, u32 k) { return r->decision.candidates[k].ewma_ns; }
static u64 in_flight(const struct linnet_routing *r, u32 k) { return r->decision.candidates[k].in_flight; }

static u32 minor_of(const struct linnet_dm *dm)
{
	for (u32 i = 0; i < target_count; i++)
		if (targets[i] == dm->ti)
			return i;
	stub_die("an event of another target");
}

void trace_linnet_decision(const struct linnet_dm *dm, const struct linnet_routing *r)
{
	const struct linnet_decision *d = &r->decision;
	u32 eligible = 0, slow = 0;

	for (u32 k = 0; k < d->count; k++) {
		eligible |= d->candidates[k].eligible << k;
		slow |= d->candidates[k].slow << k;
	}
	printf(" stub-1 [000] ..... 0.0: linnet_decision: dev=253:%u id=0x%lx ns=%lu sector=%lu size=%u policy=%u replica=%u verdict=%u probe=%u tagged=%u eligible=0x%x slow=0x%x scored=0x%x",
	       minor_of(dm), r->id, d->now_ns, (unsigned long)r->sector, r->size_bytes, d->policy, d->choice.replica, d->verdict,
	       d->choice.probe, d->may_revoke, eligible, slow, d->scored);
	array("events", r, seen);
	array("own", r, own);
	array("score", r, score);
	array("ewma_ns", r, ewma_ns);
	array("inflight", r, in_flight);
	putchar('\n');
}

void trace_linnet_io(const struct linnet_leg *leg, const struct linnet_inflight_record *record, u64 event, u64 latency_ns)
{
	const struct linnet_flight *flight = &record->flight;

	printf(" stub-1 [000] ..... 0.0: linnet_io: dev=253:%u id=0x%lx replica=%u leg=259:%u op=read offset=%lu size=%u arrived_ns=%lu latency_ns=%lu error=%d arrive=%lu end=%lu probe=%u tracked=%u\n",
	       minor_of(leg->dm), record->id, leg->index, leg->index, record->offset_bytes, flight->size_bytes, flight->arrived_ns, latency_ns,
	       record->status, (unsigned long)flight->event, event, flight->probe, flight->place != LINNET_UNTRACKED);
}

/* When a read ends that is sent to the device now. */
static u64 due_ns(const struct bio *bio)
{
	u32 leg = (u32)(bio->bi_bdev->bd_dev / 16 - 1);
	u64 due_ns = stub_now + 80000 + below(40000);

	/* One replica stalls for 4 ms of every 16; which one changes. */
	if ((stub_now >> 24 & 3) == leg && (stub_now & 0xffffff) < 4000000)
		due_ns += 4000000 - (stub_now & 0xffffff);
	return due_ns;
}

/* The workers run. */
static void send_probes(void)
{
	stub_run_works();
	for (u32 i = 0; i < stub_own_count; i++) {
		struct probe *probe = &probes[stub_own[i]->bi_bdev->bd_dev / 16 - 1];

		if (probe->bio == stub_own[i])
			continue;
		if (probe->bio)
			stub_die("two probes of a replica");
		*probe = (struct probe){ stub_own[i], due_ns(stub_own[i]) };
	}
}

static void end_probe(struct probe *probe)
{
	for (u32 i = 0; i < stub_own_count; i++)
		if (stub_own[i] == probe->bio) {
			probe->bio = NULL;
			stub_complete_own(i, BLK_STS_OK, 9);
			return;
		}
	stub_die("a probe is lost");
}

static void submit(struct flight *f)
{
	bool last = target_count > 1 && f->target == LEGS - 1;

	f->b = calloc(1, sizeof(*f->b));
	f->b->bio.bi_opf = REQ_OP_READ;
	f->b->bio.bi_ioprio = !last && below(100) < tagged_percent ? STUB_TAG : 0;
	f->b->bio.bi_iter.bi_sector = f->sector;
	f->b->bio.bi_iter.bi_size = f->size;
	stub_cpu = below(STUB_CPUS);
	stub_submit(targets[f->target], f->b);
	f->revoked = f->b->ended;
	if (f->revoked) {
		if (f->b->bio.bi_status != BLK_STS_AGAIN || last)
			stub_die("a read has failed");
		f->due_ns = stub_now + 500 + below(20000);
		return;
	}
	f->due_ns = due_ns(&f->b->bio);
}

/* A read in flight ends; a revoked read is sent to the next target. */
static void go_on(struct flight *f)
{
	if (!f->revoked)
		stub_complete(f->b, BLK_STS_OK);
	free(f->b);
	f->b = NULL;
	if (f->revoked && ++f->target < target_count)
		submit(f);
}

/* Lets what is due by this time happen, in order. */
static void run_until(u64 until_ns)
{
	for (;;) {
		struct flight *first = NULL;
		struct probe *probe = NULL;

		if (below(2))
			send_probes();
		for (u32 i = 0; i < FLIGHTS; i++)
			if (flights[i].b && flights[i].due_ns <= until_ns && (!first || flights[i].due_ns < first->due_ns))
				first = &flights[i];
		for (u32 k = 0; k < LEGS; k++)
			if (probes[k].bio && probes[k].due_ns <= until_ns && (!probe || probes[k].due_ns < probe->due_ns))
				probe = &probes[k];
		if (!first && !probe)
			break;
		if (probe && (!first || probe->due_ns < first->due_ns)) {
			stub_now = max(stub_now, probe->due_ns);
			end_probe(probe);
		} else {
			stub_now = max(stub_now, first->due_ns);
			go_on(first);
		}
	}
	if (until_ns != U64_MAX)
		stub_now = until_ns;
}

static void send(struct flight *f)
{
	f->sector = 8 * below(1 << 15);
	f->size = 4096u << below(5);
	f->target = 0;
	submit(f);
}

static void make_target(u32 i, const char *policy, const char *model)
{
	char line[256], words[64], *error;

	if (target_count == 1)
		snprintf(line, sizeof(line), "3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 %s", tagged_percent ? "3 revoke ioprio 0x5004" : "0");
	else
		snprintf(line, sizeof(line), "1 /dev/leg%u 0 3 revoke ioprio 0x5004", i);
	targets[i] = stub_create(line, true, &error);
	snprintf(words, sizeof(words), "policy %s", policy);
	if (!targets[i] || stub_message(targets[i], words))
		stub_die(targets[i] ? "no such policy" : error);
	if (!model)
		return;
	stub_firmware_file(model);
	snprintf(words, sizeof(words), "load m.linnet");
	if (stub_message(targets[i], words))
		stub_die("the model is refused");
}

int main(int argc, char **argv)
{
	u32 reads;

	if (argc < 5)
		return 2;
	if (!strcmp(argv[1], "revoke"))
		tagged_percent = 50;
	if (!strcmp(argv[1], "failover")) {
		tagged_percent = 100;
		target_count = LEGS;
	}
	reads = (u32)strtoul(argv[3], NULL, 10);
	state = strtoull(argv[4], NULL, 10);
	stub_init();
	for (u32 i = 0; i < target_count; i++)
		make_target(i, argv[2], argc > 5 ? argv[5] : NULL);
	for (u32 n = 0; n < reads;) {
		u32 burst = below(3) ? 1 : 1 + below(16);

		/* Pauses at times, so that the state expires, after 10 ms or 1 s. */
		run_until(stub_now + (below(50) ? below(700000) : below(8) ? 20000000 : 1500000000));
		for (u32 i = 0; i < FLIGHTS && burst; i++) {
			if (flights[i].b)
				continue;
			send(&flights[i]);
			run_until(stub_now + below(3000));
			n++;
			burst--;
		}
	}
	run_until(U64_MAX);
	send_probes();
	run_until(U64_MAX);
	for (u32 i = 0; i < target_count; i++)
		stub_remove(targets[i]);
	return 0;
}
