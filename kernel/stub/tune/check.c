// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks of kernel/tune in user space: check MODEL. First one thread, with a clock of its own: decisions, advice,
 * model, failures of memory, unloading while files are open. Then storms of threads that open, read and close files,
 * and load and unload the module meanwhile; the sanitizers look on. Each load is a process of its own, so that the
 * module begins with its variables as they were compiled.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "files.h"
#include "linnet-tune.h"

#define CHECK(what) ((what) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what), exit(1)))
#define SECOND NSEC_PER_SEC

static char *said(const char *name)
{
	size_t size;

	return stub_show(name, &size);
}

static void let_pass(u64 ns)
{
	u64 tick = 100 * NSEC_PER_MSEC;

	for (u64 passed = 0; passed < ns; passed += tick) {
		__atomic_fetch_add(&stub_now, tick, __ATOMIC_RELAXED);
		stub_run_work();
		stub_grace();
	}
}

static void read_at_random(struct file *open, unsigned int count, bool mapped)
{
	for (unsigned int n = 0; n < count; n++) {
		pgoff_t at = (n * 7919u + 1) % 60000 * 16;

		mapped ? stub_touch(open, at, 0) : stub_read(open, at, 1);
	}
}

static void scan(struct file *open, unsigned int pages)
{
	for (unsigned int at = 0; at < pages; at += 16)
		stub_read(open, at, 16);
}

static void values_follow(unsigned int has_demands)
{
	struct stub_file data, other;
	struct file *open, *beside, *advised;
	char *text;

	stub_has_demands = has_demands;
	stub_file_init(&data, 11, 1 << 20);
	stub_file_init(&other, 12, 1 << 20);
	open = stub_open_file(&data, "data");
	beside = stub_open_file(&other, "other");
	CHECK(stub_init() == 0);
	for (int round = 0; round < 4; round++) {
		read_at_random(open, 200, round % 2);
		scan(beside, 4096);
		let_pass(SECOND);
	}
	CHECK(stub_touch(open, 5, 0) == 2 && stub_read(beside, 16384, 16) == DEVICE_PAGES);
	text = said("files");
	CHECK(strstr(text, "random") && strstr(text, "sequential"));
	free(text);
	/* Another reader of the file; then one whose owner gives advice. */
	advised = stub_open_file(&data, "data");
	advised->f_mode |= FMODE_RANDOM;
	CHECK(stub_touch(advised, 7, 0) == DEVICE_PAGES);
	advised->f_mode = 0;
	CHECK(stub_touch(advised, 700, 0) == 2);
	CHECK(stub_touch(advised, 90, VM_SEQ_READ) == DEVICE_PAGES && stub_touch(advised, 900, 0) == DEVICE_PAGES);
	stub_close(advised);
	/* It is read in order from now on. */
	for (int round = 0; round < 6; round++) {
		scan(open, 4096);
		let_pass(SECOND);
	}
	CHECK(stub_touch(open, 5, 0) == DEVICE_PAGES);
	for (int round = 0; round < 6; round++) {
		read_at_random(open, 200, true);
		let_pass(SECOND);
	}
	CHECK(stub_touch(open, 5, 0) == 2);
	/* The module goes while files are open. */
	stub_exit();
	CHECK(open->f_ra.ra_pages == DEVICE_PAGES && beside->f_ra.ra_pages == DEVICE_PAGES);
	stub_close(open);
	stub_close(beside);
}

static void a_model_decides_and_learns(unsigned int unused_number)
{
	static const struct kernel_param unused;
	struct stub_file data;
	struct file *open;
	char *text, *before, *after;
	size_t size, now;

	stub_file_init(&data, 21, 1 << 20);
	open = stub_open_file(&data, "data");
	CHECK(stub_init() == 0);
	CHECK(tune_learn_ops.set("0", &unused) == -EINVAL);
	CHECK(tune_model_ops.set("../m", &unused) == -EINVAL);
	CHECK(tune_model_ops.set("m", &unused) == 0);
	for (int round = 0; round < 3; round++) {
		read_at_random(open, 200, true);
		let_pass(SECOND);
	}
	text = said("decisions");
	CHECK(strstr(text, "by the model"));
	free(text);
	CHECK(stub_touch(open, 5, 0) == 2);
	before = stub_show("model", &size);
	CHECK(tune_learn_ops.set("9", &unused) == -EINVAL && tune_learn_ops.set("1", &unused) == 0);
	for (int round = 0; round < 3; round++) {
		read_at_random(open, 200, true);
		let_pass(SECOND);
	}
	CHECK(atomic64_read(&tune_counters.learned) > 0 && atomic64_read(&tune_counters.refused) == 0);
	after = stub_show("model", &now);
	CHECK(now == size && memcmp(before, after, size));
	free(before);
	free(after);
	/* Each allocation of loading it again fails once; the model that was there stays. */
	for (unsigned int one_in = 1; one_in < 8; one_in++) {
		stub_fail_one_in = one_in;
		tune_model_ops.set("m", &unused);
		stub_fail_one_in = 0;
		text = said("status");
		CHECK(strstr(text, "model m classes"));
		free(text);
	}
	CHECK(tune_model_ops.set("", &unused) == 0);
	stub_exit();
	CHECK(open->f_ra.ra_pages == DEVICE_PAGES);
	stub_close(open);
}

static void memory_may_fail(unsigned int one_in)
{
	static struct stub_file many[64];
	struct file *open[64];

	stub_fail_one_in = one_in;
	for (int f = 0; f < 64; f++) {
		stub_file_init(&many[f], 100 + (unsigned long)f, 1 << 20);
		open[f] = stub_open_file(&many[f], "many");
	}
	if (stub_init() == 0) {
		for (int round = 0; round < 2; round++) {
			for (int f = 0; f < 64; f++)
				read_at_random(open[f], 60, true);
			let_pass(SECOND);
		}
		stub_exit();
	}
	for (int f = 0; f < 64; f++) {
		CHECK(open[f]->f_ra.ra_pages == DEVICE_PAGES);
		stub_close(open[f]);
	}
}

static void breakpoints_are_refused(unsigned int unused)
{
	stub_breakpoints = true;
	CHECK(stub_init() == -EOPNOTSUPP);
	stub_breakpoints = false;
	CHECK(stub_init() == 0);
	stub_exit();
}

static void files_come_and_go(unsigned int unused)
{
	static struct stub_file many[1200];
	struct file *open[1200];
	char *text;

	CHECK(stub_init() == 0);
	for (int f = 0; f < 1200; f++) {
		stub_file_init(&many[f], 1000 + (unsigned long)f, 1 << 20);
		open[f] = stub_open_file(&many[f], "many");
	}
	/* A thousand open files are decided on one by one; more than there is room for are counted, and left alone. */
	for (int round = 0; round < 4; round++) {
		for (int f = 0; f < 1200; f++)
			read_at_random(open[f], 40, true);
		let_pass(SECOND);
	}
	CHECK(tune_file_count() == 1024 && tune_apply_count() == 1024);
	CHECK(atomic64_read(&tune_counters.lost) > 0);
	CHECK(stub_touch(open[0], 5, 0) == 2 && stub_touch(open[1199], 5, 0) == DEVICE_PAGES);
	/* Deleted, and its number used again by another file. */
	stub_close(open[0]);
	CHECK(tune_apply_count() == 1023);
	stub_file_init(&many[0], 1000, 1 << 20);
	many[0].inode.i_generation = 1;
	open[0] = stub_open_file(&many[0], "next");
	CHECK(stub_touch(open[0], 5, 0) == DEVICE_PAGES);
	/* Those that are not read make room. */
	for (int round = 0; round < 8; round++) {
		read_at_random(open[1199], 40, true);
		let_pass(SECOND);
	}
	CHECK(atomic64_read(&tune_counters.evicted) > 0 && tune_file_count() < 1024);
	CHECK(stub_touch(open[1199], 5, 0) == 2);
	text = said("status");
	CHECK(strstr(text, "files ") && strstr(text, "kprobe __fput"));
	free(text);
	stub_exit();
	for (int f = 0; f < 1200; f++) {
		CHECK(open[f]->f_ra.ra_pages == DEVICE_PAGES);
		stub_close(open[f]);
	}
}

/* ---- threads ---- */

#define THREADS 4
#define SHARED 6

static struct stub_file shared[SHARED];
static struct file *kept[SHARED];
static bool stop;

static void *reader(void *number)
{
	unsigned int state = (unsigned int)(uintptr_t)number + 1;

	stub_task.pid = (int)(uintptr_t)number;
	while (!READ_ONCE(stop)) {
		unsigned int draw = (state = state * 1103515245u + 12345u) >> 8;
		struct file *own = stub_open_file(&shared[draw % SHARED], "storm");

		for (int n = 0; n < 20; n++) {
			state = state * 1103515245u + 12345u;
			if (draw % 3)
				stub_touch(own, state % 1000000, draw % 11 ? 0 : VM_RAND_READ);
			else
				stub_read(own, (pgoff_t)n * 16, 16);
			stub_touch(kept[draw % SHARED], state % 1000000, 0);
		}
		stub_close(own);
	}
	return NULL;
}

static void storm(unsigned int load)
{
	pthread_t threads[THREADS];
	size_t size;

	stub_threads = true;
	for (int f = 0; f < SHARED; f++) {
		stub_file_init(&shared[f], 500 + (unsigned long)f, 1 << 20);
		kept[f] = stub_open_file(&shared[f], "kept");
	}
	for (uintptr_t t = 0; t < THREADS; t++)
		CHECK(pthread_create(&threads[t], NULL, reader, (void *)t) == 0);
	tune_files_max = load % 3 ? 1024 : 3;
	CHECK(stub_init() == 0);
	while (atomic64_read(&tune_counters.events) < 1000 ||
	       atomic64_read(load % 3 ? &tune_counters.decisions : &tune_counters.lost) == 0) {
		free(stub_show("status", &size));
		free(stub_show("files", &size));
		free(stub_show("decisions", &size));
	}
	/* The readers go on. */
	stub_exit();
	WRITE_ONCE(stop, true);
	for (int t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
	for (int f = 0; f < SHARED; f++) {
		CHECK(kept[f]->f_ra.ra_pages == DEVICE_PAGES);
		stub_close(kept[f]);
	}
}

/* In a process of its own, whose counts it adds to `sum`. */
static void apart(void (*check)(unsigned int), unsigned int with, long sum[4])
{
	int results[2], status;
	long found[4] = { 0 };
	pid_t child;

	CHECK(pipe(results) == 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		check(with);
		found[0] = atomic64_read(&tune_counters.events);
		found[1] = atomic64_read(&tune_counters.decisions);
		found[2] = atomic64_read(&tune_counters.changed);
		found[3] = atomic64_read(&tune_counters.restored);
		CHECK(write(results[1], found, sizeof(found)) == sizeof(found));
		exit(0);
	}
	close(results[1]);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(read(results[0], found, sizeof(found)) == sizeof(found));
	close(results[0]);
	for (int k = 0; k < 4; k++)
		sum[k] += found[k];
}

int main(int argc, char **argv)
{
	long sum[4] = { 0 };

	if (argc != 2) {
		fprintf(stderr, "usage: check MODEL\n");
		return 2;
	}
	stub_firmware = argv[1];
	apart(values_follow, true, sum);
	apart(values_follow, false, sum); /* a kernel without the tracepoints for demands */
	apart(a_model_decides_and_learns, 0, sum);
	for (unsigned int one_in = 1; one_in < 8; one_in++)
		apart(memory_may_fail, one_in, sum);
	apart(breakpoints_are_refused, 0, sum);
	apart(files_come_and_go, 0, sum);
	for (unsigned int load = 0; load < 3; load++)
		apart(storm, load, sum);
	printf("linnet_tune: values, advice, model, memory, 1200 files, 3 storms: all checks passed; %ld events, %ld decisions, "
	       "%ld values set, %ld put back\n", sum[0], sum[1], sum[2], sum[3]);
	return 0;
}
