// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hooks into the page cache, found by name. Tracepoints tell which pages faults demand and which are brought; where the
 * kernel lacks one (6.1 has only the last), a kprobe on the function tells the same. Kprobes tell what is read, and see
 * the open file before the readahead code uses its value, so that it can be set there.
 *
 * A kprobe at the entry of a function is an ftrace hook on kernels of distributions. Where it is a breakpoint, its handler
 * runs as in an NMI, and may neither allocate nor take a lock: then it is not attached.
 *
 * An administrator can turn all kprobes off while they are attached (kernel.ftrace_enabled, debugfs' kprobes/enabled).
 * Then nothing is set. But the end of an open file must never be missed: what apply.c notes of it would outlive it. For
 * that there is a permanent hook of ftrace, which stays on.
 */
#define pr_fmt(fmt) "linnet_tune: " fmt
#include <linux/build_bug.h>
#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/tracepoint.h>
#include <linux/uio.h>
#include <trace/events/filemap.h>

#include "linnet-tune.h"

/* Hooks allocate and lock with preemption disabled, which such a kernel does not allow. */
#ifdef CONFIG_PREEMPT_RT
#error "linnet_tune does not run on kernels with CONFIG_PREEMPT_RT"
#endif
#ifndef CONFIG_DYNAMIC_FTRACE_WITH_REGS
#error "linnet_tune needs CONFIG_FUNCTION_TRACER and CONFIG_DYNAMIC_FTRACE"
#endif

/* ---- what is demanded and brought ---- */

enum event { EVENT_READ, EVENT_MAP, EVENT_FAULT, EVENT_ADD };

/* Counts an event of pages [start, end) of a file. */
static void observe(const struct inode *inode, enum event event, u64 start, u64 end)
{
	struct tune_shard *shard;
	struct tune_file *file;

	rcu_read_lock();
	/* Pages that are written come, too. So they do not begin a file's state: a demand does, or readahead for one. */
	file = tune_file_of(inode, event != EVENT_ADD);
	if (!file)
		goto out;
	shard = tune_shard_lock(file);
	if (!shard)
		goto out;
	switch (event) {
	case EVENT_READ:
		linnet_reads_read(&shard->reads, start, end);
		break;
	case EVENT_MAP:
		linnet_reads_map(&shard->reads, start, end);
		break;
	case EVENT_FAULT:
		linnet_reads_fault(&shard->reads, start);
		break;
	case EVENT_ADD:
		linnet_reads_add(&shard->reads, start, end);
		break;
	}
	tune_shard_unlock(file, shard);
out:
	rcu_read_unlock();
}

static void probe_map_pages(void *data, struct address_space *mapping, pgoff_t start, pgoff_t last)
{
	observe(mapping->host, EVENT_MAP, start, (u64)last + 1);
}

static void probe_fault(void *data, struct address_space *mapping, pgoff_t index)
{
	observe(mapping->host, EVENT_FAULT, index, (u64)index + 1);
}

static void probe_add(void *data, struct folio *folio)
{
	observe(folio->mapping->host, EVENT_ADD, folio->index, (u64)folio->index + folio_nr_pages(folio));
}

/*
 * A read or splice of a file's bytes from `from` on, told once, at its entry. The tracepoint mm_filemap_get_pages comes
 * when pages are ready, and not at all for those before one that has to be waited for: a reader that catches up with its
 * readahead would seem to jump.
 */
static void demand(const struct inode *inode, u64 from, u64 bytes)
{
	/* Past its end nothing of a file is demanded: a reader that asks for a megabyte of a small file is no long read. */
	u64 to = min(from + bytes, (u64)i_size_read(inode));

	if (to > from)
		observe(inode, EVENT_READ, from >> PAGE_SHIFT, (to + PAGE_SIZE - 1) >> PAGE_SHIFT);
}

static u64 tries[LINNET_TRIES];

static bool was_tried(const struct kiocb *iocb)
{
	u64 number = linnet_reads_try((unsigned long)iocb, (u64)iocb->ki_pos);
	u64 *last = &tries[number % LINNET_TRIES];

	if (READ_ONCE(*last) == number)
		return true;
	WRITE_ONCE(*last, number);
	return false;
}

static int enter_read(struct kprobe *probe, struct pt_regs *regs)
{
	const struct kiocb *iocb = (const struct kiocb *)regs_get_kernel_argument(regs, 0);
	const struct iov_iter *to = (const struct iov_iter *)regs_get_kernel_argument(regs, 1);

	if (iocb->ki_flags & IOCB_DIRECT)
		return 0;
	if (iocb->ki_flags & (IOCB_NOWAIT | IOCB_WAITQ) && was_tried(iocb))
		return 0;
	demand(iocb->ki_filp->f_mapping->host, (u64)iocb->ki_pos, iov_iter_count(to));
	return 0;
}

/* sendfile and splice, which on older kernels come through filemap_read. */
static int enter_splice_read(struct kprobe *probe, struct pt_regs *regs)
{
	const struct file *open = (const struct file *)regs_get_kernel_argument(regs, 0);
	const loff_t *from = (const loff_t *)regs_get_kernel_argument(regs, 1);

	if (!(open->f_flags & O_DIRECT))
		demand(open->f_mapping->host, (u64)*from, regs_get_kernel_argument(regs, 3));
	return 0;
}

static int enter_map_pages(struct kprobe *probe, struct pt_regs *regs)
{
	const struct vm_fault *fault = (const struct vm_fault *)regs_get_kernel_argument(regs, 0);

	observe(fault->vma->vm_file->f_mapping->host, EVENT_MAP, regs_get_kernel_argument(regs, 1),
		(u64)regs_get_kernel_argument(regs, 2) + 1);
	return 0;
}

/* ---- where values are set ---- */

/* Any user can choose a name: characters that would look like another column or line of debugfs are replaced. */
static void take_name(struct tune_file *file, struct file *open)
{
	char *c;

	snprintf(file->name, sizeof(file->name), "%pD", open);
	for (c = file->name; *c; c++)
		if ((unsigned char)*c <= ' ' || *c == 0x7f)
			*c = '?';
	smp_mb__before_atomic(); /* the name before the bit: tune_file_name */
	set_bit(TUNE_NAME_READY, &file->flags);
}

static void before_readahead(struct file *open, bool advised)
{
	struct tune_file *file;
	bool ours;

	rcu_read_lock();
	file = tune_file_of(open->f_mapping->host, true);
	if (file && !test_bit(TUNE_NAMED, &file->flags) && !test_and_set_bit(TUNE_NAMED, &file->flags))
		take_name(file, open);
	ours = tune_apply(open, file, advised);
	if (file)
		tune_count_thread(file, ours);
	rcu_read_unlock();
}

/* Both page_cache_sync_ra and page_cache_async_ra. */
static int enter_readahead(struct kprobe *probe, struct pt_regs *regs)
{
	const struct readahead_control *control = (const void *)regs_get_kernel_argument(regs, 0);

	/* A state that is not the open file's, as some file systems have for directories, is none of ours. */
	if (control->file && control->ra == &control->file->f_ra)
		before_readahead(control->file, false);
	return 0;
}

static bool fault_is_traced;

static int enter_fault(struct kprobe *probe, struct pt_regs *regs)
{
	const struct vm_fault *fault = (const struct vm_fault *)regs_get_kernel_argument(regs, 0);
	struct file *open = fault->vma->vm_file;

	/* First whether this reader is counted. The tracepoint comes after this, too. */
	before_readahead(open, fault->vma->vm_flags & (VM_RAND_READ | VM_SEQ_READ));
	if (!fault_is_traced)
		observe(open->f_mapping->host, EVENT_FAULT, fault->pgoff, (u64)fault->pgoff + 1);
	return 0;
}

/* ---- where open files end ---- */

static void notrace enter_fput(unsigned long at, unsigned long from, struct ftrace_ops *ops, struct ftrace_regs *entry)
{
	tune_apply_forget((struct file *)regs_get_kernel_argument(ftrace_get_regs(entry), 0));
}

/* Permanent: it cannot be attached while ftrace is off, and ftrace cannot be turned off while it is attached. */
static struct ftrace_ops fput_hook = {
	.func = enter_fput,
	.flags = FTRACE_OPS_FL_SAVE_REGS | FTRACE_OPS_FL_PERMANENT,
};
static bool fput_hooked;

static int hook_fput(void)
{
	unsigned char name[] = "__fput";
	int error = ftrace_set_filter(&fput_hook, name, sizeof(name) - 1, 1);

	if (!error)
		error = register_ftrace_function(&fput_hook);
	if (error) {
		ftrace_free_filter(&fput_hook);
		pr_err("cannot attach to __fput (%d); needs CONFIG_FUNCTION_TRACER and kernel.ftrace_enabled=1\n", error);
	}
	fput_hooked = error == 0;
	return error;
}

/* ---- finding, attaching ---- */

/*
 * Hooks are found by name, and read what they are given as the kernel's headers say today. A later kernel may say
 * otherwise: then the module is not built for it. No header has __fput.
 */
#define TAKES(function, ...) static_assert(__builtin_types_compatible_p(typeof(function), __VA_ARGS__))
TAKES(filemap_read, ssize_t(struct kiocb *, struct iov_iter *, ssize_t));
#ifdef LINNET_SPLICE_READ
TAKES(filemap_splice_read, ssize_t(struct file *, loff_t *, struct pipe_inode_info *, size_t, unsigned int));
#endif
TAKES(filemap_map_pages, vm_fault_t(struct vm_fault *, pgoff_t, pgoff_t));
TAKES(filemap_fault, vm_fault_t(struct vm_fault *));
TAKES(page_cache_sync_ra, void(struct readahead_control *, unsigned long));
TAKES(page_cache_async_ra, void(struct readahead_control *, struct folio *, unsigned long));

static void __maybe_unused check_traces(void)
{
	check_trace_callback_type_mm_filemap_add_to_page_cache(probe_add);
#ifdef LINNET_TRACED_FAULTS
	check_trace_callback_type_mm_filemap_map_pages(probe_map_pages);
	check_trace_callback_type_mm_filemap_fault(probe_fault);
#endif
}

struct trace {
	const char *name;
	void *call;
	struct tracepoint *found;
	bool attached;
};

static struct trace traces[] = {
	{ "mm_filemap_add_to_page_cache", probe_add },
	{ "mm_filemap_map_pages", probe_map_pages },
	{ "mm_filemap_fault", probe_fault },
};

enum { TRACE_ADD, TRACE_MAP, TRACE_FAULT };

struct entry {
	struct kprobe probe;
	int instead;   /* only where this tracepoint is missing, or -1 */
	bool needed;
	bool attached;
};

static struct entry entries[] = {
	{ .probe = { .symbol_name = "filemap_read", .pre_handler = enter_read }, -1, true },
	{ .probe = { .symbol_name = "filemap_splice_read", .pre_handler = enter_splice_read }, -1, false },
	{ .probe = { .symbol_name = "filemap_map_pages", .pre_handler = enter_map_pages }, TRACE_MAP, true },
	{ .probe = { .symbol_name = "filemap_fault", .pre_handler = enter_fault }, -1, true },
	{ .probe = { .symbol_name = "page_cache_sync_ra", .pre_handler = enter_readahead }, -1, true },
	{ .probe = { .symbol_name = "page_cache_async_ra", .pre_handler = enter_readahead }, -1, false },
};

static void find(struct tracepoint *point, void *unused)
{
	int t;

	for (t = 0; t < ARRAY_SIZE(traces); t++)
		if (!strcmp(point->name, traces[t].name))
			traces[t].found = point;
}

/*
 * Not as a breakpoint, not for a moment. So a kprobe that is never armed asks first. enable_kprobe() would not do: where
 * all kprobes are turned off, it would leave this one disabled for good.
 */
static int attach(struct kprobe *probe)
{
	struct kprobe asks = { .symbol_name = probe->symbol_name, .flags = KPROBE_FLAG_DISABLED };
	int error = register_kprobe(&asks);
	bool by_ftrace;

	if (error)
		return error;
	by_ftrace = kprobe_ftrace(&asks);
	unregister_kprobe(&asks);
	return by_ftrace ? register_kprobe(probe) : -EOPNOTSUPP;
}

int tune_hooks_start(void)
{
	/* The first attached and the last to go: without it, an open file could end unseen. */
	int error = hook_fput(), i;

	if (error)
		return error;
	for_each_kernel_tracepoint(find, NULL);
	fault_is_traced = traces[TRACE_FAULT].found;
	for (i = 0; i < ARRAY_SIZE(entries); i++) {
		struct entry *entry = &entries[i];

		if (entry->instead >= 0 && traces[entry->instead].found)
			continue;
		error = attach(&entry->probe);
		entry->attached = error == 0;
		if (error && entry->needed) {
			pr_err("this kernel has no %s that can be probed (%d); needs CONFIG_KPROBES and CONFIG_FUNCTION_TRACER\n",
			       entry->probe.symbol_name, error);
			return error;
		}
	}
	for (i = 0; i < ARRAY_SIZE(traces); i++) {
		if (!traces[i].found)
			continue;
		error = tracepoint_probe_register(traces[i].found, traces[i].call, NULL);
		traces[i].attached = error == 0;
		if (error) {
			pr_err("cannot attach to the tracepoint %s (%d)\n", traces[i].name, error);
			return error;
		}
	}
	if (!traces[TRACE_ADD].attached) {
		pr_err("this kernel has no tracepoint %s\n", traces[TRACE_ADD].name);
		return -ENOENT;
	}
	return 0;
}

void tune_hooks_stop(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(traces); i++)
		if (traces[i].attached)
			tracepoint_probe_unregister(traces[i].found, traces[i].call, NULL);
	for (i = 0; i < ARRAY_SIZE(entries); i++)
		if (entries[i].attached)
			unregister_kprobe(&entries[i].probe);
	for (i = 0; i < ARRAY_SIZE(traces); i++)
		traces[i].attached = false;
	for (i = 0; i < ARRAY_SIZE(entries); i++)
		entries[i].attached = false;
	tracepoint_synchronize_unregister();
}

void tune_hooks_end(void)
{
	if (!fput_hooked)
		return;
	unregister_ftrace_function(&fput_hook);
	ftrace_free_filter(&fput_hook);
	fput_hooked = false;
}

void tune_hooks_show(struct seq_file *out)
{
	int i;

	seq_puts(out, "ftrace __fput\n");
	for (i = 0; i < ARRAY_SIZE(traces); i++)
		if (traces[i].attached)
			seq_printf(out, "tracepoint %s\n", traces[i].name);
	for (i = 0; i < ARRAY_SIZE(entries); i++)
		if (entries[i].attached)
			seq_printf(out, "kprobe %s missed %lu\n", entries[i].probe.symbol_name, entries[i].probe.nmissed);
}
