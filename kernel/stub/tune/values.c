// SPDX-License-Identifier: GPL-2.0-only
/* Which open files get a value, which keep theirs, and what is put back. */
#include "check.h"

#define ADVISED (2 * DEVICE_PAGES) /* what posix_fadvise SEQUENTIAL sets */

static struct file *owned;

static void the_owner_sets(void)
{
	owned->f_ra.ra_pages = ADVISED;
}

/* After us: before a read, before the module goes, or between its look at the value and its writing. */
void the_owner_keeps_what_he_sets(unsigned int when)
{
	struct stub_file data;

	CHECK(stub_init() == 0);
	owned = decided_on(&data, 61, DEVICE_PAGES, true);
	CHECK(stub_touch(owned, 5, 0) == 2);
	if (when == WHILE_UNLOADING)
		stub_on_swap = the_owner_sets;
	else
		the_owner_sets();
	if (when == BEFORE_A_READ) {
		CHECK(stub_touch(owned, 7000, 0) == ADVISED && atomic64_read(&tune_counters.left) == 1);
		/* And from then on, whatever he sets. */
		owned->f_ra.ra_pages = 2;
		CHECK(stub_touch(owned, 70000, 0) == 2);
		the_owner_sets();
	}
	stub_exit();
	CHECK(owned->f_ra.ra_pages == ADVISED && !stub_on_swap);
	stub_close(owned);
}

void open_files_that_are_left_alone(unsigned int unused)
{
	struct file_ra_state another = { DEVICE_PAGES / 2 };
	struct readahead_control control;
	struct file *open, *left[4];
	struct stub_file data;
	long long advised;

	CHECK(stub_init() == 0);
	/* Its value rises, so that one of 0 would, too. */
	open = decided_on(&data, 62, DEVICE_PAGES / 2, false);
	CHECK(stub_touch(open, 1 << 19, 0) == DEVICE_PAGES && tune_apply_count() == 1);
	for (int f = 0; f < 4; f++)
		left[f] = opened_with(&data, DEVICE_PAGES / 2);
	advised = atomic64_read(&tune_counters.advised);
	left[0]->f_flags |= O_DIRECT;
	CHECK(stub_touch(left[0], 1 << 18, 0) == DEVICE_PAGES / 2);
	/* Without readahead a page comes alone. */
	left[1]->f_ra.ra_pages = 0;
	CHECK(stub_touch(left[1], 3 << 17, 0) == 1 && left[1]->f_ra.ra_pages == 0);
	CHECK(atomic64_read(&tune_counters.advised) == advised + 2);
	/* Its end has been seen: nothing would remove what is noted of it. */
	left[2]->f_count = 0;
	CHECK(stub_touch(left[2], 5 << 16, 0) == DEVICE_PAGES / 2);
	/* A state of readahead that is not the open file's, and one without an open file. */
	control = (struct readahead_control){ left[3], &another };
	stub_kprobe("page_cache_sync_ra", (unsigned long)&control, 1, 0, 0);
	CHECK(left[3]->f_ra.ra_pages == DEVICE_PAGES / 2 && another.ra_pages == DEVICE_PAGES / 2);
	control.file = NULL;
	stub_kprobe("page_cache_sync_ra", (unsigned long)&control, 1, 0, 0);
	CHECK(tune_apply_count() == 1);
	stub_exit();
	stub_close(open);
	for (int f = 0; f < 4; f++)
		stub_close(left[f]);
}

void a_dry_run_sets_nothing(unsigned int unused)
{
	struct stub_file data;
	struct file *open;

	tune_dry_run = true;
	CHECK(stub_init() == 0);
	open = decided_on(&data, 63, DEVICE_PAGES, true);
	CHECK(atomic64_read(&tune_counters.decisions) == 1 && says("decisions", "(dry run)\n"));
	CHECK(stub_touch(open, 5, 0) == DEVICE_PAGES && tune_apply_count() == 0);
	tune_dry_run = false;
	CHECK(stub_touch(open, 7000, 0) == 2);
	/* What was set returns with the next read. */
	tune_dry_run = true;
	CHECK(stub_touch(open, 70000, 0) == DEVICE_PAGES);
	stub_exit();
	stub_close(open);
}

void at_its_own_value_a_file_has_no_target(unsigned int unused)
{
	struct file *open, *large;
	struct stub_file data;

	CHECK(stub_init() == 0);
	open = decided_on(&data, 64, DEVICE_PAGES, true);
	CHECK(stub_touch(open, 5, 0) == 2);
	for (int round = 0; round < 6; round++) {
		scan(open, 4096);
		let_pass(SECOND);
	}
	CHECK(stub_touch(open, 5, 0) == DEVICE_PAGES && says("files", " sequential 128 0 "));
	/* An open file with a value of its own is not set to that of the first. */
	large = opened_with(&data, 8 * DEVICE_PAGES);
	CHECK(stub_touch(large, 1 << 19, 0) == 8 * DEVICE_PAGES);
	stub_exit();
	stub_close(open);
	stub_close(large);
}

static void end_unseen(void)
{
	CHECK(owned->f_ra.ra_pages == DEVICE_PAGES);
	stub_close(owned);
	owned = NULL;
}

/* The hook that sees open files end is the last to go: a file that ends without it may still be noted. */
void values_are_back_before_ends_are_unseen(unsigned int unused)
{
	struct stub_file data;

	CHECK(stub_init() == 0);
	owned = decided_on(&data, 65, DEVICE_PAGES, true);
	CHECK(stub_touch(owned, 5, 0) == 2);
	stub_on_unhook = end_unseen;
	stub_exit();
	CHECK(!owned);
}
