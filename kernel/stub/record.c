// SPDX-License-Identifier: GPL-2.0-only
/*
 * A run of reads and what the target's tracepoints say of it, as tracefs prints it: record POLICY READS SEED [MODEL].
 * Three replicas, at places of their own; bursts, single reads and rests, one replica slow at a time. For who decides
 * them anew: crates/array/examples/kernel_replay.rs.
 */
#include "block.h"
#include "linnet-dm.h"
#include "policy.h"

#define LEGS 3
#define FLIGHTS 48

static struct flight {
	struct stub_bio *b;
	u64 due_ns;
} flights[FLIGHTS];
static u64 state;

static u32 below(u32 n)
{
	u64 z = (state += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (u32)((z ^ (z >> 31)) >> 32) % n;
}

static void array(const char *name, const struct linnet_decision *d, u64 (*of)(const struct linnet_decision *, u32))
{
	printf(" %s=", name);
	for (u32 k = 0; k < d->count; k++)
		printf("%c0x%llx", k ? ',' : '{', (unsigned long long)of(d, k));
	printf("}");
}

static u64 seen(const struct linnet_decision *d, u32 k) { return d->seen[k]; }
static u64 score(const struct linnet_decision *d, u32 k) { return (u32)d->legs[k].score; }
static u64 ewma_ns(const struct linnet_decision *d, u32 k) { return d->legs[k].ewma_ns; }
static u64 in_flight(const struct linnet_decision *d, u32 k) { return d->legs[k].in_flight; }

void trace_linnet_decision(const struct linnet_dm *dm, const struct linnet_decision *d)
{
	u32 eligible = 0, slow = 0;

	for (u32 k = 0; k < d->count; k++) {
		eligible |= d->legs[k].eligible << k;
		slow |= d->legs[k].slow << k;
	}
	printf(" stub-1 [000] ..... 0.0: linnet_decision: dev=253:0 id=0x%lx ns=%lu sector=%lu size=%u policy=%u replica=%u verdict=%u probe=%u tagged=%u eligible=0x%x slow=0x%x",
	       d->id, d->now_ns, (unsigned long)d->sector, d->size_bytes, d->policy, d->choice.replica, d->verdict,
	       d->choice.probe, d->revocable, eligible, slow);
	array("events", d, seen);
	array("score", d, score);
	array("ewma_ns", d, ewma_ns);
	array("inflight", d, in_flight);
	putchar('\n');
}

void trace_linnet_io(const struct linnet_leg *leg, const struct linnet_booking *booking, u64 id, u64 event, u64 latency_ns,
		     blk_status_t status)
{
	const struct linnet_flight *flight = &booking->flight;

	printf(" stub-1 [000] ..... 0.0: linnet_io: dev=253:0 id=0x%lx replica=%u leg=259:%u op=read offset=%lu size=%u arrived_ns=%lu latency_ns=%lu error=%d arrive=%lu end=%lu probe=%u tracked=%u\n",
	       id, leg->index, leg->index, booking->offset_bytes, booking->size_bytes, flight->arrived_ns, latency_ns,
	       status, (unsigned long)flight->event, event, flight->probe, flight->place != LINNET_UNTRACKED);
}

/* Ends what is due by this time, in order. */
static void end_until(u64 until_ns)
{
	for (;;) {
		struct flight *first = NULL;

		for (u32 i = 0; i < FLIGHTS; i++)
			if (flights[i].b && flights[i].due_ns <= until_ns && (!first || flights[i].due_ns < first->due_ns))
				first = &flights[i];
		if (!first)
			break;
		stub_now = first->due_ns;
		stub_complete(first->b, BLK_STS_OK);
		free(first->b);
		first->b = NULL;
	}
	if (until_ns != U64_MAX)
		stub_now = until_ns;
}

static void send(struct dm_target *ti, struct flight *f)
{
	u64 now_ns = stub_now, stalled;
	u32 leg;

	f->b = calloc(1, sizeof(*f->b));
	f->b->bio.bi_opf = REQ_OP_READ;
	f->b->bio.bi_iter.bi_sector = 8 * below(1 << 15);
	f->b->bio.bi_iter.bi_size = 4096u << below(5);
	stub_cpu = below(STUB_CPUS);
	stub_submit(ti, f->b);
	leg = (u32)(f->b->bio.bi_bdev->bd_dev / 16 - 1);
	/* One replica stalls for 4 ms of every 16; which one changes. */
	stalled = now_ns >> 24 & 3;
	f->due_ns = now_ns + 80000 + below(40000);
	if (stalled == leg && (now_ns & 0xffffff) < 4000000)
		f->due_ns += 4000000 - (now_ns & 0xffffff);
}

int main(int argc, char **argv)
{
	static char line[256] = "3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 0";
	static char words[64];
	struct dm_target *ti;
	char *error;
	u32 reads;

	if (argc < 4)
		return 2;
	reads = (u32)strtoul(argv[2], NULL, 10);
	state = strtoull(argv[3], NULL, 10);
	stub_init();
	ti = stub_create(line, true, &error);
	snprintf(words, sizeof(words), "policy %s", argv[1]);
	if (!ti || stub_message(ti, words))
		stub_die(ti ? "no such policy" : error);
	if (argc > 4) {
		stub_firmware_file(argv[4]);
		snprintf(words, sizeof(words), "load m.linnet");
		if (stub_message(ti, words))
			stub_die("the model is refused");
	}
	for (u32 n = 0; n < reads;) {
		u32 burst = below(3) ? 1 : 1 + below(16);

		/* Now and then a rest: what is known expires, after 10 ms or 1 s. */
		end_until(stub_now + (below(50) ? below(700000) : below(8) ? 20000000 : 1500000000));
		for (u32 i = 0; i < FLIGHTS && burst; i++) {
			if (flights[i].b)
				continue;
			send(ti, &flights[i]);
			stub_now += below(3000);
			n++;
			burst--;
		}
	}
	end_until(U64_MAX);
	stub_remove(ti);
	return 0;
}
