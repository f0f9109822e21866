// SPDX-License-Identifier: GPL-2.0-only
/* What files.h declares. */
#include "files.h"

static struct backing_dev_info bdi = { DEVICE_PAGES };
static struct gendisk disk = { MKDEV(8, 0) };
static struct block_device whole = { &disk };
struct super_block stub_disk = { .s_dev = MKDEV(8, 1), .s_bdi = &bdi, .s_bdev = &whole };

void stub_file_init(struct stub_file *file, unsigned long inode, unsigned long pages)
{
	*file = (struct stub_file){ .inode = { .i_mode = S_IFREG | 0600, .i_ino = inode, .i_sb = &stub_disk,
					       .size = (long long)(pages * PAGE_SIZE) } };
	file->mapping.host = &file->inode;
}

struct file *stub_open_file(struct stub_file *file, const char *name)
{
	struct file *open = calloc(1, sizeof(*open));

	if (!open)
		abort();
	open->f_ra.ra_pages = DEVICE_PAGES;
	open->f_count = 1;
	open->f_mapping = &file->mapping;
	open->name = name;
	return open;
}

void stub_close(struct file *open)
{
	open->f_count = 0;
	stub_ftrace("__fput", (unsigned long)open);
	free(open);
}

void stub_add(struct file *open, pgoff_t at, unsigned int pages)
{
	struct folio folio = { open->f_mapping, at, pages };
	void (*added)(void *, struct folio *);

	rcu_read_lock();
	added = stub_trace("mm_filemap_add_to_page_cache");
	if (added)
		added(NULL, &folio);
	rcu_read_unlock();
}

void stub_write(struct file *open, pgoff_t at, unsigned int pages)
{
	struct stub_file *file = container_of(open->f_mapping, struct stub_file, mapping);

	for (unsigned int p = 0; p < pages; p++)
		stub_add(open, at + p, 1);
	WRITE_ONCE(file->from, at);
	WRITE_ONCE(file->to, at + pages);
}

/* As many pages as the open file's value says, once the hook has had its chance to set it. */
static unsigned int bring(struct file *open, pgoff_t at, unsigned int least)
{
	unsigned int pages = max(READ_ONCE(open->f_ra.ra_pages), least);

	stub_write(open, at, pages);
	return pages;
}

static bool is_there(struct file *open, pgoff_t at, unsigned int pages)
{
	struct stub_file *file = container_of(open->f_mapping, struct stub_file, mapping);

	return at >= READ_ONCE(file->from) && at + pages <= READ_ONCE(file->to);
}

/* The tracepoint of 6.12 tells what is ready at once, or after the last wait. */
static void ready(struct file *open, pgoff_t at, unsigned int pages)
{
	void (*told)(void *, struct address_space *, pgoff_t, pgoff_t);

	rcu_read_lock();
	told = stub_trace("mm_filemap_get_pages");
	if (told)
		told(NULL, open->f_mapping, at, at + pages - 1);
	rcu_read_unlock();
}

void stub_try(struct kiocb *iocb, unsigned int pages, int flags)
{
	struct iov_iter to = { pages * PAGE_SIZE };

	iocb->ki_flags = flags;
	stub_kprobe("filemap_read", (unsigned long)iocb, (unsigned long)&to, 0, 0);
}

static void enter_read(struct file *open, pgoff_t at, unsigned int pages, int flags)
{
	struct kiocb iocb = { open, (long long)(at * PAGE_SIZE), flags };

	stub_try(&iocb, pages, flags);
}

void stub_read_cached(struct file *open, pgoff_t at, unsigned int pages, int flags)
{
	enter_read(open, at, pages, flags);
	ready(open, at, pages);
}

void stub_read_late(struct file *open, pgoff_t at, unsigned int pages, unsigned int late)
{
	enter_read(open, at, pages, 0);
	ready(open, at + pages - late, late);
}

void stub_splice(struct file *open, pgoff_t at, unsigned int pages)
{
	long long from = (long long)(at * PAGE_SIZE);

	if (stub_has_demands)
		stub_kprobe("filemap_splice_read", (unsigned long)open, (unsigned long)&from, 0, pages * PAGE_SIZE);
	else
		enter_read(open, at, pages, open->f_flags & O_DIRECT ? IOCB_DIRECT : 0);
	ready(open, at, pages);
}

unsigned int stub_read(struct file *open, pgoff_t at, unsigned int pages)
{
	struct readahead_control control = { open, &open->f_ra };

	stub_read_cached(open, at, pages, 0);
	if (is_there(open, at, pages))
		return 0;
	stub_kprobe("page_cache_sync_ra", (unsigned long)&control, pages, 0, 0);
	return bring(open, at, pages);
}

unsigned int stub_touch(struct file *open, pgoff_t at, unsigned long vm_flags)
{
	struct vm_area_struct area = { open, vm_flags };
	struct vm_fault fault = { &area, at };
	void (*demanded)(void *, struct address_space *, pgoff_t);

	stub_kprobe("filemap_fault", (unsigned long)&fault, 0, 0, 0);
	rcu_read_lock();
	demanded = stub_trace("mm_filemap_fault");
	if (demanded)
		demanded(NULL, open->f_mapping, at);
	rcu_read_unlock();
	return is_there(open, at, 1) ? 0 : bring(open, at, 1);
}
