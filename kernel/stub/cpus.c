// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads through the target on several CPUs at once: cpus MODEL [--json] [--policy NAME] [--cpus N] [--rounds N] [--ms N]
 * [--work N] [--fifo]. A thread on each CPU keeps eight reads in flight on three replicas: one ends, the next is decided
 * on and recorded. No device is there and no kernel; this is the target's own code and its locks, with the kernel's flags. What
 * stands for the rest of a read's way through a kernel is N dependent multiplications, of three or four cycles each; 0 by
 * default. With --fifo, which needs root, the threads run before all other programs.
 *
 * For each policy and number of CPUs, by rounds: all threads on one target, and each on a target of its own, which is
 * what the machine could do if nothing were shared. Reads per second to those on one CPU in the same round: median,
 * least and most over the rounds; the same per second of the threads' CPU time, since other programs may run here. Then
 *
 *   on CPU     how much of the time the threads had a CPU: if it is far from 100, they did not run at the same time
 *   renewed    how often the digest was renewed, per ms; and of the reads after which another CPU was its owner than after
 *              the thread's read before, thousandths
 *   line       ns in which a cache line goes to the other CPU and back. A virtual machine's CPUs may be moved, and this
 *              may then be six times as long
 *
 * cpus MODEL lines POLICY: one thread, as CPU 0 and CPU 1 in turn, for lines.py: what each of them writes, as long as the
 * digest need not be renewed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "block.h"
#include "linnet-dm.h"

#define INFLIGHT 8
#define CPUS 64
#define ROUNDS 99

extern uint *const stub_param_age_ms;

struct submitter {
	struct stub_bio bios[INFLIGHT];
	struct dm_target *ti;
	u64 reads, cpu_ns, random, changes;
	u32 cpu, next, owner;
	pthread_t thread;
} __attribute__((aligned(128)));

static struct submitter submitters[CPUS];
static volatile int state; /* 0: wait, 1: run, 2: stop */
static u32 ready, work;
static bool fifo;

static u64 clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (u64)t.tv_sec * NSEC_PER_SEC + (u64)t.tv_nsec;
}

/* ---- the way of a cache line ---- */

#define PASSES 200

static volatile u32 line __attribute__((aligned(128)));

static void pin(u32 cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

/* With --fifo: before other programs. The main thread, which ends the others, has the higher priority. */
static void prefer(int priority)
{
	struct sched_param of = { .sched_priority = priority };

	if (fifo && pthread_setschedparam(pthread_self(), SCHED_FIFO, &of))
		stub_die("--fifo is not allowed");
}

static void *answer(void *unused)
{
	pin(1);
	while (line != 2 * PASSES)
		if (line & 1)
			line++;
	return NULL;
}

/* The least of ten: others may run meanwhile. */
static u64 line_ns(void)
{
	u64 least = U64_MAX;
	cpu_set_t was;

	pthread_getaffinity_np(pthread_self(), sizeof(was), &was);
	pin(0);
	for (u32 n = 0; n < 10; n++) {
		pthread_t thread;
		u64 from;

		line = 0;
		pthread_create(&thread, NULL, answer, NULL);
		line = 1;
		while (line & 1)
			sched_yield();
		from = clock_ns(CLOCK_MONOTONIC);
		while (line < 2 * PASSES) {
			line++;
			while (line & 1)
				cpu_relax();
		}
		from = (clock_ns(CLOCK_MONOTONIC) - from) / (PASSES - 1);
		least = min(least, from);
		pthread_join(thread, NULL);
	}
	pthread_setaffinity_np(pthread_self(), sizeof(was), &was);
	return least;
}

/* ---- reads ---- */

noinline static void one_read(struct submitter *s)
{
	struct stub_bio *b = &s->bios[s->next++ % INFLIGHT];
	const struct linnet_dm *dm = s->ti->private;
	blk_status_t status = BLK_STS_OK;
	u32 owner;

	if (b->below)
		s->ti->type->end_io(s->ti, &b->bio, &status);
	s->random = s->random * 6364136223846793005u + 1442695040888963407u;
	b->ti = s->ti;
	b->below = 1;
	b->bio = (struct bio){ .bi_opf = REQ_OP_READ, .bi_iter.bi_sector = 8 * (s->random >> 45), .bi_iter.bi_size = 4096 };
	if (s->ti->type->map(s->ti, &b->bio) != DM_MAPIO_REMAPPED)
		stub_die("a read was not sent on");
	owner = READ_ONCE(dm->digest.owner);
	s->changes += owner != s->owner;
	s->owner = owner;
	for (u32 i = 0; i < work; i++) {
		s->random *= 6364136223846793005u;
		__asm__ volatile("" : "+r"(s->random)); /* each needs the one before */
	}
}

static void *run(void *of)
{
	struct submitter *s = of;
	u64 from;

	pin(s->cpu);
	prefer(1);
	stub_cpu = s->cpu;
	__atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
	while (!state)
		sched_yield();
	from = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	for (s->reads = 0; state == 1; s->reads++)
		one_read(s);
	s->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - from;
	for (u32 i = 0; i < INFLIGHT; i++) {
		blk_status_t status = BLK_STS_OK;

		if (s->bios[i].below)
			s->ti->type->end_io(s->ti, &s->bios[i].bio, &status);
		s->bios[i].below = 0;
	}
	return NULL;
}

static struct dm_target *target(const char *policy)
{
	bool asks = !strcmp(policy, "linnet-best") || !strcmp(policy, "linnos");
	char line[160], *error;
	struct dm_target *ti;

	snprintf(line, sizeof(line), "3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 %u policy %s%s", asks ? 4 : 2, policy,
		 asks ? " model m.linnet" : "");
	ti = stub_create(line, true, &error);
	if (!ti)
		stub_die(error);
	return ti;
}

struct result { u64 per_s, per_cpu_s, on_cpu, renewed, changes, line; };

static struct result measure(struct dm_target **targets, u32 cpus, bool shared, u32 ms)
{
	struct timespec span = { ms / 1000, ms % 1000 * NSEC_PER_MSEC }, moment = { 0, 50 * NSEC_PER_USEC };
	u64 from, ns, reads = 0, cpu_ns = 0, changes = 0;
	const struct linnet_dm *dm = targets[0]->private;
	u32 seq = dm->digest.seq.n;

	ready = 0;
	state = 0;
	for (u32 i = 0; i < cpus; i++) {
		submitters[i].cpu = i;
		submitters[i].changes = 0;
		submitters[i].random = i + 1;
		submitters[i].ti = targets[shared ? 0 : i];
		pthread_create(&submitters[i].thread, NULL, run, &submitters[i]);
	}
	while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) < cpus)
		nanosleep(&moment, NULL);
	from = clock_ns(CLOCK_MONOTONIC);
	state = 1;
	nanosleep(&span, NULL);
	state = 2;
	ns = clock_ns(CLOCK_MONOTONIC) - from;
	for (u32 i = 0; i < cpus; i++) {
		pthread_join(submitters[i].thread, NULL);
		reads += submitters[i].reads;
		cpu_ns += submitters[i].cpu_ns;
		changes += submitters[i].changes;
	}
	return (struct result){ reads * 1000 / (ns / 1000000 ?: 1), reads * 1000000 / (cpu_ns / 1000 ?: 1) * cpus,
				100 * cpu_ns / (ns * cpus), (dm->digest.seq.n - seq) / 2 * 1000000 / ns,
				1000 * changes / (reads ?: 1), cpus > 1 ? line_ns() : 0 };
}

static int by_size(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

struct spread { u64 median, least, most; };

static struct spread spread_of(u64 *values, u32 count)
{
	qsort(values, count, sizeof(*values), by_size);
	return (struct spread){ values[count / 2], values[0], values[count - 1] };
}

/* Hundredths. */
#define SHOWN(s) (s).median / 100, (s).median % 100, (s).least / 100, (s).least % 100, (s).most / 100, (s).most % 100

static void compare(const char *policy, u32 cpus, u32 rounds, u32 ms, bool json)
{
	static u64 rate[ROUNDS], wall[2][ROUNDS], cpu[2][ROUNDS], on_cpu[2][ROUNDS], renewed[2][ROUNDS], changes[2][ROUNDS];
	static u64 lines[2][ROUNDS];
	struct dm_target *targets[CPUS];

	for (u32 i = 0; i < cpus; i++)
		targets[i] = target(policy);
	for (u32 n = 0; n < rounds; n++) {
		struct result one = measure(targets, 1, true, ms);

		rate[n] = one.per_cpu_s / 10000;
		for (u32 own = 0; own < 2; own++) {
			struct result all = measure(targets, cpus, !own, ms);

			wall[own][n] = 100 * all.per_s / (one.per_s ?: 1);
			cpu[own][n] = 100 * all.per_cpu_s / (one.per_cpu_s ?: 1);
			on_cpu[own][n] = all.on_cpu;
			renewed[own][n] = all.renewed;
			changes[own][n] = all.changes;
			lines[own][n] = all.line;
		}
	}
	for (u32 own = 0; own < 2; own++) {
		struct spread r = spread_of(rate, rounds), w = spread_of(wall[own], rounds), c = spread_of(cpu[own], rounds);
		u64 shared = spread_of(on_cpu[own], rounds).median, renewals = spread_of(renewed[own], rounds).median;
		u64 moved = spread_of(changes[own], rounds).median, way_ns = spread_of(lines[own], rounds).median;

		if (json)
			printf("{\"policy\": \"%s\", \"cpus\": %u, \"target\": \"%s\", \"rounds\": %u, "
			       "\"million_reads_per_cpu_s\": %lu.%02lu, "
			       "\"to_one_by_wall\": [%lu.%02lu, %lu.%02lu, %lu.%02lu], "
			       "\"to_one_by_cpu_time\": [%lu.%02lu, %lu.%02lu, %lu.%02lu], "
			       "\"on_cpu_percent\": %lu, \"renewals_per_ms\": %lu, \"owner_changes_per_1000\": %lu, \"line_ns\": %lu}\n",
			       policy, cpus, own ? "own" : "shared", rounds, r.median / 100, r.median % 100, SHOWN(w), SHOWN(c), shared,
			       renewals, moved, way_ns);
		else
			printf("%-16s %4u  %-7s %4lu.%02lu %8lu.%02lu (%lu.%02lu-%lu.%02lu) %8lu.%02lu (%lu.%02lu-%lu.%02lu) %6lu %5lu %4lu %6lu\n",
			       policy, cpus, own ? "own" : "shared", r.median / 100, r.median % 100, SHOWN(w), SHOWN(c), shared,
			       renewals, moved, way_ns);
	}
	fflush(stdout);
	for (u32 i = 0; i < cpus; i++)
		stub_remove(targets[i]);
}

/* lines.py finds these by their printed addresses: a store to marks[64 * n] says who writes from here on. */
static volatile char marks[64 * 3] __attribute__((aligned(64)));

static int lines(const char *policy)
{
	struct dm_target *ti = target(policy);

	/* What stands for the kernel: the preemption count of each CPU, which is one variable here. */
	printf("own %lx\nmarks %lx\n", (unsigned long)&stub_atomic, (unsigned long)marks);
	fflush(stdout);
	stub_clock = 1000000000;
	for (u32 n = 0; n < 128; n++) {
		struct submitter *s = &submitters[n % 2];
		bool watched = n >= 64;

		/* At first the digest is old each time. Then the clock stands still. */
		stub_clock += watched ? 0 : 1000000;
		s->ti = ti;
		s->random += n;
		stub_cpu = n % 2;
		marks[64 * (watched ? n % 2 : 2)] = 1;
		one_read(s);
		marks[64 * 2] = 1;
	}
	return 0;
}

static void measure_tick(void)
{
	struct timespec span = { 0, 20 * NSEC_PER_MSEC };
	u64 from_ns = clock_ns(CLOCK_MONOTONIC), from = __builtin_ia32_rdtsc();

	nanosleep(&span, NULL);
	stub_tick = ((unsigned __int128)(clock_ns(CLOCK_MONOTONIC) - from_ns) << 32) / (__builtin_ia32_rdtsc() - from);
}

int main(int argc, char **argv)
{
	static const char *const policies[] = { "baseline", "shortest-queue", "ewma-inflight", "linnet-best" };
	const char *only = NULL;
	u32 cpus = (u32)sysconf(_SC_NPROCESSORS_ONLN), rounds = 15, ms = 100;
	bool json = false;

	if (argc < 2)
		return 2;
	stub_init();
	measure_tick();
	*stub_param_age_ms = 0; /* no probes: a thread may be off its CPU for longer than what is known is believed */
	stub_firmware_file(argv[1]);
	if (argc == 4 && !strcmp(argv[2], "lines"))
		return lines(argv[3]);
	for (int i = 2; i < argc; i++) {
		if (!strcmp(argv[i], "--json"))
			json = true;
		else if (!strcmp(argv[i], "--fifo"))
			fifo = true;
		else if (i + 1 < argc && !strcmp(argv[i], "--policy"))
			only = argv[++i];
		else if (i + 1 < argc && !strcmp(argv[i], "--cpus"))
			cpus = (u32)atoi(argv[++i]);
		else if (i + 1 < argc && !strcmp(argv[i], "--rounds"))
			rounds = (u32)atoi(argv[++i]);
		else if (i + 1 < argc && !strcmp(argv[i], "--ms"))
			ms = (u32)atoi(argv[++i]);
		else if (i + 1 < argc && !strcmp(argv[i], "--work"))
			work = (u32)atoi(argv[++i]);
		else
			return 2;
	}
	prefer(2);
	cpus = clamp(cpus, 1u, (u32)CPUS);
	rounds = clamp(rounds, 1u, (u32)ROUNDS);
	if (!json)
		printf("policy           cpus  target  M/cpu-s  to one CPU, by wall clock   by CPU time     on CPU %%  renewed      line\n");
	for (u32 p = 0; p < (only ? 1 : ARRAY_SIZE(policies)); p++)
		for (u32 n = 1; n <= cpus; n *= 2)
			compare(only ?: policies[p], n, rounds, ms, json);
	return 0;
}
