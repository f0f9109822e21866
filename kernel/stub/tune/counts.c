// SPDX-License-Identifier: GPL-2.0-only
/* What hooks count as demanded and as brought. */
#include "check.h"

struct linnet_counts counts_of(const struct stub_file *file)
{
	struct linnet_counts sum = { 0 };
	struct tune_file *found;

	rcu_read_lock();
	found = tune_file_of(&file->inode, false);
	for (unsigned int s = 0; found && s < TUNE_SHARDS; s++)
		linnet_counts_add(&sum, &found->shards[s].reads.counts);
	rcu_read_unlock();
	return sum;
}

/* A buffer of a megabyte for a file of one page asks for one page; at its end it asks for none. */
void nothing_is_demanded_past_the_end(unsigned int has_demands)
{
	struct linnet_counts counts;
	struct stub_file data;
	struct file *open;

	stub_has_demands = has_demands;
	stub_file_init(&data, 15, 1);
	data.inode.size -= 1000;
	open = stub_open_file(&data, "short");
	CHECK(stub_init() == 0);
	stub_read(open, 0, 256);
	stub_read(open, 1, 256);
	counts = counts_of(&data);
	CHECK(counts.accesses == 1 && counts.pages == 1);
	stub_exit();
	stub_close(open);
}

void a_folio_is_all_of_its_pages(unsigned int has_demands)
{
	struct linnet_counts counts;
	struct stub_file data;
	struct file *open;

	stub_has_demands = has_demands;
	stub_file_init(&data, 16, 1 << 20);
	open = stub_open_file(&data, "data");
	CHECK(stub_init() == 0);
	stub_read_cached(open, 64, 16, 0);
	stub_add(open, 64, 16);
	stub_add(open, 80, 32);
	counts = counts_of(&data);
	CHECK(counts.added == 48 && counts.batches == 1);
	stub_exit();
	stub_close(open);
}

/* Not only the pages from the first one on that has to be waited for. */
void a_read_is_counted_whole(unsigned int has_demands)
{
	struct linnet_counts counts;
	struct stub_file data;
	struct file *open;

	stub_has_demands = has_demands;
	stub_file_init(&data, 17, 1 << 20);
	open = stub_open_file(&data, "data");
	CHECK(stub_init() == 0);
	for (pgoff_t at = 0; at < 320; at += 32)
		stub_read_late(open, at, 32, 12);
	counts = counts_of(&data);
	CHECK(counts.accesses == 10 && counts.pages == 320 && counts.jumps == 1 && counts.size[5] == 10);
	stub_exit();
	stub_close(open);
}

void a_splice_is_a_read(unsigned int has_demands)
{
	struct linnet_counts counts;
	struct stub_file data;
	struct file *open;

	stub_has_demands = has_demands;
	stub_file_init(&data, 18, 40);
	data.inode.size -= 1000;
	open = stub_open_file(&data, "data");
	CHECK(stub_init() == 0);
	stub_splice(open, 0, 16);
	stub_splice(open, 16, 16);
	stub_splice(open, 32, 16); /* the file has 8 */
	stub_splice(open, 40, 16);
	counts = counts_of(&data);
	CHECK(counts.accesses == 3 && counts.pages == 40 && counts.jumps == 1);
	stub_exit();
	stub_close(open);
}

void a_read_that_is_tried_again_counts_once(unsigned int has_demands)
{
	enum { FLIGHT = 16, READS = 4 * FLIGHT };
	struct kiocb calls[FLIGHT];
	struct linnet_counts counts;
	struct stub_file data;
	struct file *open;

	stub_has_demands = has_demands;
	stub_file_init(&data, 20, READS);
	open = stub_open_file(&data, "data");
	CHECK(stub_init() == 0);
	/* As io_uring does: at once, then with a call back, and when that has come; each call serves one read after another. */
	for (long long first = 0; first < READS; first += FLIGHT) {
		for (long long k = 0; k < FLIGHT; k++) {
			calls[k] = (struct kiocb){ open, (first + k) * (long long)PAGE_SIZE, 0 };
			stub_try(&calls[k], 1, IOCB_NOWAIT);
			stub_try(&calls[k], 1, IOCB_WAITQ);
		}
		for (int k = FLIGHT - 1; k >= 0; k--)
			stub_try(&calls[k], 1, IOCB_NOWAIT);
	}
	counts = counts_of(&data);
	CHECK(counts.accesses == READS && counts.pages == READS && counts.repeats == 0 && counts.reverse == 0);
	stub_exit();
	stub_close(open);
}

void a_direct_read_demands_nothing(unsigned int has_demands)
{
	struct file *open, *direct;
	struct stub_file data;

	stub_has_demands = has_demands;
	stub_file_init(&data, 19, 1 << 20);
	open = stub_open_file(&data, "data");
	direct = stub_open_file(&data, "data");
	direct->f_flags |= O_DIRECT;
	CHECK(stub_init() == 0);
	stub_read_cached(open, 0, 16, IOCB_DIRECT);
	stub_splice(direct, 0, 16);
	CHECK(counts_of(&data).accesses == 0 && tune_file_count() == 0);
	stub_read_cached(open, 0, 16, 0);
	CHECK(counts_of(&data).pages == 16);
	stub_exit();
	stub_close(open);
	stub_close(direct);
}
