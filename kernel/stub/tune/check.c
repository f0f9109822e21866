// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks of kernel/tune in user space: check MODEL. First one thread, with a clock of its own: decisions, advice,
 * model, failures of memory, unloading while files are open. Then storms of threads that open, read and close files,
 * and load and unload the module meanwhile; the sanitizers look on. Each load is a process of its own, so that the
 * module begins with its variables as they were compiled.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

char *said(const char *name)
{
	size_t size;

	return stub_show(name, &size);
}

bool says(const char *name, const char *words)
{
	char *text = said(name);
	bool found = strstr(text, words);

	free(text);
	return found;
}

static struct tune_events events(void)
{
	struct tune_events sum;

	tune_events_sum(&sum);
	return sum;
}

void let_pass(u64 ns)
{
	u64 tick = 100 * NSEC_PER_MSEC;

	for (u64 passed = 0; passed < ns; passed += tick) {
		__atomic_fetch_add(&stub_now, tick, __ATOMIC_RELAXED);
		stub_run_work();
		stub_grace();
	}
}

void read_at_random(struct file *open, unsigned int count, bool mapped)
{
	for (unsigned int n = 0; n < count; n++) {
		pgoff_t at = (n * 7919u + 1) % 60000 * 16;

		mapped ? stub_touch(open, at, 0) : stub_read(open, at, 1);
	}
}

void scan(struct file *open, unsigned int pages)
{
	for (unsigned int at = 0; at < pages; at += 16)
		stub_read(open, at, 16);
}

struct file *opened_with(struct stub_file *file, unsigned int own)
{
	struct file *open = stub_open_file(file, "again");

	open->f_ra.ra_pages = own;
	return open;
}

struct file *decided_on(struct stub_file *file, unsigned long inode, unsigned int own, bool at_random)
{
	struct file *open;

	stub_file_init(file, inode, 1 << 20);
	open = stub_open_file(file, "a name\nand\tmore");
	open->f_ra.ra_pages = own;
	for (int round = 0; round < 4; round++) {
		at_random ? read_at_random(open, 200, true) : scan(open, 4096);
		let_pass(SECOND);
	}
	return open;
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
	/* Advice that comes when a value is set. */
	advised->f_mode |= FMODE_RANDOM;
	CHECK(stub_touch(advised, 7000, 0) == DEVICE_PAGES);
	stub_close(advised);
	advised = stub_open_file(&data, "data");
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

/* What readers with advice bring says nothing of the value of the others. */
static void readers_with_advice_are_not_counted(unsigned int has_demands)
{
	struct file *open, *sequential, *plain;
	struct stub_file data, scanned;

	stub_has_demands = has_demands;
	stub_file_init(&data, 13, 1 << 20);
	stub_file_init(&scanned, 14, 1 << 20);
	open = stub_open_file(&data, "data");
	sequential = opened_with(&data, 2 * DEVICE_PAGES);
	CHECK(stub_init() == 0);
	/* Nobody else reads while the change is judged: it is not taken back for the pages that they bring. */
	read_at_random(open, 40, true);
	let_pass(SECOND / 10);
	CHECK(atomic64_read(&tune_counters.decisions) == 1 && stub_touch(open, 5, 0) == 2);
	for (int round = 0; round < 6; round++) {
		stub_task.pid = 2 + 4 * (round % 2);
		for (unsigned long n = 0; n < 40; n++)
			CHECK(stub_touch(sequential, (n * 7919 + 3) % 60000 * 16, 0) == 2 * DEVICE_PAGES);
		let_pass(SECOND);
	}
	CHECK(atomic64_read(&tune_counters.rollbacks) == 0);
	stub_task.pid = 1;
	CHECK(stub_touch(open, 5, 0) == 2);
	/* Their scan does not make random reads look like runs, whether both are one thread's or two's. */
	plain = stub_open_file(&scanned, "scanned");
	stub_close(sequential);
	sequential = opened_with(&scanned, 2 * DEVICE_PAGES);
	for (int round = 0; round < 4; round++) {
		for (unsigned int part = 0; part < 8; part++) {
			stub_task.pid = round % 2 ? 1 : 5;
			for (pgoff_t at = part * 512; at < part * 512 + 512; at += 16)
				stub_read(sequential, at + 65536, 16);
			stub_task.pid = 1;
			for (pgoff_t n = part * 8; n < part * 8 + 8; n++)
				stub_touch(plain, (n * 7919 + round) % 60000 * 16, 0);
		}
		let_pass(SECOND);
	}
	CHECK(stub_touch(plain, 5, 0) == 2 && stub_touch(sequential, 50000, 0) == 2 * DEVICE_PAGES);
	stub_exit();
	CHECK(open->f_ra.ra_pages == DEVICE_PAGES && plain->f_ra.ra_pages == DEVICE_PAGES);
	stub_close(open);
	stub_close(sequential);
	stub_close(plain);
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
	stub_ftrace_off = true;
	CHECK(stub_init() == -EBUSY);
	stub_ftrace_off = false;
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
	CHECK(events().lost > 0);
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
	CHECK(strstr(text, "files ") && strstr(text, "ftrace __fput"));
	free(text);
	stub_exit();
	for (int f = 0; f < 1200; f++) {
		CHECK(open[f]->f_ra.ra_pages == DEVICE_PAGES);
		stub_close(open[f]);
	}
}

/* The device's value changes, or the choice of devices does, while files are open. */
static void the_administrator_has_his_way(unsigned int unused_number)
{
	static const struct kernel_param unused;
	struct stub_file random, scanned, written;
	struct file *open[6];
	char *text;

	CHECK(stub_init() == 0);
	/* Writing alone makes no file known. */
	stub_file_init(&written, 33, 1 << 20);
	open[0] = stub_open_file(&written, "written");
	stub_write(open[0], 0, 256);
	CHECK(tune_file_count() == 0 && events().lost == 0);
	/* Set to 8 KiB, and to 128 from 64. Open files that were further that way keep their values. */
	open[1] = decided_on(&random, 31, DEVICE_PAGES, true);
	open[2] = decided_on(&scanned, 32, DEVICE_PAGES / 2, false);
	open[3] = opened_with(&random, 1);
	open[4] = opened_with(&scanned, 256);
	open[5] = opened_with(&scanned, 8);
	CHECK(stub_touch(open[1], 5, 0) == 2 && stub_touch(open[2], 1 << 19, 0) == DEVICE_PAGES);
	CHECK(stub_touch(open[3], 90000, 0) == 1 && stub_touch(open[4], 1 << 18, 0) == 256);
	CHECK(stub_touch(open[5], 7 << 16, 0) == DEVICE_PAGES);
	text = said("files");
	CHECK(strstr(text, " a?name?and?more\n"));
	free(text);
	/* What was set on a device that is no longer tuned returns with the next read. */
	CHECK(tune_devices_ops.set("4294967305:9", &unused) == -EINVAL);
	CHECK(tune_devices_ops.set("9:4294967305", &unused) == -EINVAL);
	CHECK(tune_devices_ops.set("9:9", &unused) == 0);
	CHECK(stub_touch(open[1], 50000, 0) == DEVICE_PAGES && stub_touch(open[2], 1 << 17, 0) == DEVICE_PAGES / 2);
	CHECK(tune_devices_ops.set("8:0", &unused) == 0);
	CHECK(stub_touch(open[1], 5, 0) == 2);
	/* The ends of open files are seen without kprobes. */
	CHECK(tune_apply_count() == 3);
	stub_kprobes_off = true;
	for (int f = 0; f < 6; f++)
		stub_close(open[f]);
	CHECK(tune_apply_count() == 0);
	stub_kprobes_off = false;
	stub_exit();
}

static struct stub_file late;
static struct file *late_open;

static void come_late(void)
{
	struct readahead_control control;

	stub_now++;
	if (late_open)
		return;
	stub_file_init(&late, 35, 1 << 20);
	late_open = stub_open_file(&late, "late");
	control = (struct readahead_control){ late_open, &late_open->f_ra };
	stub_kprobe("page_cache_sync_ra", (unsigned long)&control, 1, 0, 0);
}

/* The worker has begun its round at a time before the file came, which is no long time without reads. */
static void a_file_that_comes_meanwhile_stays(unsigned int unused)
{
	struct stub_file data[2];
	struct file *open[2];

	CHECK(stub_init() == 0);
	for (unsigned int f = 0; f < 2; f++) {
		stub_file_init(&data[f], 36 + f, 1 << 20);
		open[f] = stub_open_file(&data[f], "data");
		stub_touch(open[f], 5, 0);
	}
	stub_on_resched = come_late;
	let_pass(SECOND / 10);
	stub_on_resched = NULL;
	CHECK(tune_file_count() == 3 && atomic64_read(&tune_counters.evicted) == 0);
	stub_exit();
	stub_close(open[0]);
	stub_close(open[1]);
	stub_close(late_open);
}

static void a_snapshot_is_another_file(unsigned int unused)
{
	struct stub_file origin, snapshot;
	struct file *open, *other;

	stub_disk.s_magic = BTRFS_SUPER_MAGIC;
	CHECK(stub_init() == 0);
	open = decided_on(&origin, 257, DEVICE_PAGES, true);
	stub_file_init(&snapshot, 257, 1 << 20);
	other = stub_open_file(&snapshot, "the same name");
	CHECK(stub_touch(open, 5, 0) == 2 && stub_touch(other, 5, 0) == DEVICE_PAGES && tune_file_count() == 2);
	stub_exit();
	stub_close(open);
	stub_close(other);
}

static void open_files_are_bounded(unsigned int unused)
{
	static struct file *open[70000];
	struct stub_file data;
	struct file *first;

	CHECK(stub_init() == 0);
	first = decided_on(&data, 41, DEVICE_PAGES, true);
	for (unsigned int f = 0; f < ARRAY_SIZE(open); f++) {
		open[f] = stub_open_file(&data, "many");
		stub_touch(open[f], f * 7919ul % 60000 * 16, 0);
	}
	CHECK(tune_apply_count() == 65536 && events().lost > 0);
	CHECK(open[0]->f_ra.ra_pages == 2 && open[ARRAY_SIZE(open) - 1]->f_ra.ra_pages == DEVICE_PAGES);
	for (unsigned int f = 0; f < ARRAY_SIZE(open); f++)
		stub_close(open[f]);
	CHECK(tune_apply_count() == 1);
	stub_exit();
	CHECK(first->f_ra.ra_pages == DEVICE_PAGES);
	stub_close(first);
}

static struct stub_file early;
static struct file *early_open;

static void read_early(void)
{
	stub_file_init(&early, 51, 1 << 20);
	early_open = stub_open_file(&early, "early");
	/* Not through a mapping: the hook that is missing is that of faults. */
	for (int round = 0; round < 4; round++) {
		read_at_random(early_open, 200, false);
		let_pass(SECOND);
	}
	CHECK(stub_read(early_open, 5, 1) == 2);
}

/* The last hook cannot be attached, when those before have led to a value. */
static void a_start_that_fails_puts_back(unsigned int unused)
{
	stub_on_last_trace = read_early;
	CHECK(stub_init() == -ENOMEM);
	CHECK(early_open->f_ra.ra_pages == DEVICE_PAGES);
	stub_close(early_open);
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

	stub_task.pid = 1 + (int)(uintptr_t)number;
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
	while (events().counted < 1000 ||
	       (load % 3 ? (u64)atomic64_read(&tune_counters.decisions) : events().lost) == 0) {
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
		found[0] = (long)events().counted;
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
	stub_task.pid = 1;
	apart(values_follow, true, sum);
	apart(values_follow, false, sum); /* a kernel without the tracepoints for demands */
	apart(readers_with_advice_are_not_counted, true, sum);
	apart(readers_with_advice_are_not_counted, false, sum);
	for (unsigned int has_demands = 0; has_demands < 2; has_demands++) {
		apart(nothing_is_demanded_past_the_end, has_demands, sum);
		apart(a_folio_is_all_of_its_pages, has_demands, sum);
		apart(a_read_is_counted_whole, has_demands, sum);
		apart(a_splice_is_a_read, has_demands, sum);
		apart(a_read_that_is_tried_again_counts_once, has_demands, sum);
		apart(a_direct_read_demands_nothing, has_demands, sum);
	}
	apart(a_model_decides_and_learns, 0, sum);
	apart(a_model_less_sure_than_its_floor_leaves_it_to_the_rule, 0, sum);
	apart(a_short_window_is_not_learned, 0, sum);
	for (unsigned int line = 0; line < LINES; line++)
		apart(the_command_line_names_model_and_class, line, sum);
	apart(a_model_file_is_bounded, 0, sum);
	for (unsigned int when = 0; when < SETS; when++)
		apart(the_owner_keeps_what_he_sets, when, sum);
	apart(open_files_that_are_left_alone, 0, sum);
	apart(a_dry_run_sets_nothing, 0, sum);
	apart(at_its_own_value_a_file_has_no_target, 0, sum);
	apart(values_are_back_before_ends_are_unseen, 0, sum);
	for (unsigned int one_in = 1; one_in < 8; one_in++)
		apart(memory_may_fail, one_in, sum);
	apart(breakpoints_are_refused, 0, sum);
	apart(files_come_and_go, 0, sum);
	apart(the_administrator_has_his_way, 0, sum);
	apart(a_file_that_comes_meanwhile_stays, 0, sum);
	apart(a_snapshot_is_another_file, 0, sum);
	apart(open_files_are_bounded, 0, sum);
	apart(a_start_that_fails_puts_back, 0, sum);
	for (unsigned int load = 0; load < 3; load++)
		apart(storm, load, sum);
	printf("linnet_tune: values, advice, model, memory, 1200 files, 70000 open files, 3 storms: all checks passed; "
	       "%ld events, %ld decisions, %ld values set, %ld put back\n", sum[0], sum[1], sum[2], sum[3]);
	return 0;
}
