/* SPDX-License-Identifier: GPL-2.0-only */
/* Files for the checks of kernel/tune, and reads of them as Linux would tell of them. */
#ifndef STUB_TUNE_FILES_H
#define STUB_TUNE_FILES_H

#include "linux.h"

#define DEVICE_PAGES 32 /* the device's readahead: 128 KiB */

struct stub_file {
	struct inode inode;
	struct address_space mapping;
	pgoff_t from, to; /* pages in memory: those that came last */
};

extern struct super_block stub_disk;

/* A file of so many pages under an inode number. */
void stub_file_init(struct stub_file *file, unsigned long inode, unsigned long pages);
/* Opens it; NULL never. `stub_close` tells the hook and frees it. */
struct file *stub_open_file(struct stub_file *file, const char *name);
void stub_close(struct file *open);
/* pread: demand, and where the pages are not in memory, readahead and pages that come. Returns how many come. */
unsigned int stub_read(struct file *open, pgoff_t at, unsigned int pages);
/* The same for a touch of a mapping with these flags. */
unsigned int stub_touch(struct file *open, pgoff_t at, unsigned long vm_flags);
/* write: pages come, and nobody demands them. */
void stub_write(struct file *open, pgoff_t at, unsigned int pages);
/* One folio of so many pages comes. */
void stub_add(struct file *open, pgoff_t at, unsigned int pages);
/* One try of a read that may be tried again. `flags` are those of the kiocb. */
void stub_try(struct kiocb *iocb, unsigned int pages, int flags);
/* The demand alone, of pages that are in memory. */
void stub_read_cached(struct file *open, pgoff_t at, unsigned int pages, int flags);
/* The same where the last `late` pages are on their way from the device. */
void stub_read_late(struct file *open, pgoff_t at, unsigned int pages, unsigned int late);
/* sendfile of pages that are in memory. */
void stub_splice(struct file *open, pgoff_t at, unsigned int pages);

#endif
