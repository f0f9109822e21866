/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Observes how files are read: which pages are demanded, in which order, and which pages are brought into memory.
 *
 * Four events demand pages: the entries of filemap_read and filemap_splice_read, mm_filemap_map_pages (a fault that found
 * pages in memory and mapped those around it) and mm_filemap_fault (one that did not). One event brings them:
 * mm_filemap_add_to_page_cache, per folio. Everything is added up per file, control group and CPU; nothing is sent.
 * A demand is compared with where the last ones of the same file on the same CPU ended, because two threads that read
 * in order would look random together.
 *
 * A file whose owner gave advice is not ours to set, and what its readers bring says nothing of the value that others
 * got. So a thread is counted apart from the first readahead on that it does with such a value. The readahead code tells
 * which open file it reads for; no other event does.
 *
 * The loader takes those programs that the kernel has an event for, and lets it have one. Kernels before 6.12 have no
 * tracepoints for faults. There the entry of filemap_fault and the result of filemap_map_pages give the same numbers.
 *
 * Where programs on functions are refused, mm_filemap_get_pages stands for reads, from 6.12 on. It tells less: where the
 * last page of several that are found must be waited for, the kernel leaves it out, and next time tells the rest alone.
 */
#include "readahead.h"

/*
 * The CPU is part of the key. In a map that has a value for every CPU, each file would take memory, and time to read it,
 * of all CPUs; most files are read by few.
 */
struct {
	MAP_NUMBER(type, MAP_HASH);
	MAP_NUMBER(max_entries, CELLS_MAX);
	MAP_NUMBER(map_flags, MAP_NO_PREALLOC);
	MAP_TYPE(key, struct place);
	MAP_TYPE(value, struct linnet_reads);
} files SEC(".maps");

/*
 * The same for the files that are read most: a search in `files` takes as long as all the rest. A file is in one of the
 * two on each CPU; user space adds them up.
 */
struct {
	MAP_NUMBER(type, MAP_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, HOT);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct hot);
} hot SEC(".maps");

/* Threads that demanded lately, by their stacks. */
struct {
	MAP_NUMBER(type, MAP_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, THREADS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct thread);
} threads SEC(".maps");

/* A zeroed cell: too large for the stack. */
struct {
	MAP_NUMBER(type, MAP_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct linnet_reads);
} blank SEC(".maps");

/* What found no room: events in `files`, and mappings in `advised`. */
struct {
	MAP_NUMBER(type, MAP_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, 2);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} lost SEC(".maps");

/*
 * Threads that read a file with another value than `OWN`, by hash; the upper half of each tells which thread and file.
 * Where two have the same place, the last one has it, and some reads of the other are counted as `OWN`.
 */
struct {
	MAP_NUMBER(type, MAP_ARRAY);
	MAP_NUMBER(max_entries, NOTES);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} notes SEC(".maps");

/* 1 from the first note on. Most machines have none, and need not look. */
static volatile u32 has_notes;

/* Reads that may not wait, as they were tried last (`linnet_reads_try`). */
struct {
	MAP_NUMBER(type, MAP_ARRAY);
	MAP_NUMBER(max_entries, LINNET_TRIES);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} tries SEC(".maps");

/* Files whose descriptors the iterator reports; the control group of the key is 0. */
struct {
	MAP_NUMBER(type, MAP_HASH);
	MAP_NUMBER(max_entries, WANTED_MAX);
	MAP_NUMBER(map_flags, MAP_NO_PREALLOC);
	MAP_TYPE(key, struct key);
	MAP_TYPE(value, u32);
} wanted SEC(".maps");

/* vm_flags of files that somebody has mapped with advice by madvise; control group and reader of the key are 0. */
struct {
	MAP_NUMBER(type, MAP_HASH);
	MAP_NUMBER(max_entries, ADVISED_MAX);
	MAP_NUMBER(map_flags, MAP_NO_PREALLOC);
	MAP_TYPE(key, struct key);
	MAP_TYPE(value, u32);
} advised SEC(".maps");

/* Device to observe, as in dev_t; 0: all. */
const volatile u32 only_dev = 0;
/* Of the machine: 64-bit ARM has pages of 4, 16 or 64 KiB. */
const volatile u32 page_shift = 12;
/* 1 where mm_filemap_get_pages gives the page after the last (6.12 and some before 6.14). */
const volatile u32 last_is_end = 0;
/* O_DIRECT of the architecture. */
const volatile u32 flag_direct = 0;

/*
 * To ask who runs takes a call, and where returns are guarded against speculation a call takes as long as all the rest. Its
 * stack tells as well, and the address of what a program is given lies on it: the lower half, which the verifier lets us
 * have as a number. A stack is soon another thread's when its thread ends, and threads move between control groups, so the
 * kernel is asked again with each tick.
 */
ALWAYS_INLINE struct thread *thread_of(const u64 *ctx)
{
	u32 stack = (u32)(unsigned long)ctx, at;
	struct thread *thread;
	struct task_struct *task;
	u64 tick;

	/* Keeps the compiler from shifting before it is a number. */
	asm volatile("%0 = %0" : "+w"(stack));
	stack >>= STACK_SHIFT;
	at = stack & (THREADS - 1);
	thread = map_find(&threads, &at);
	if (!thread)
		return 0;
	tick = ticks();
	if (thread->stack != stack || thread->tick != tick) {
		task = current_task();
		thread->stack = stack;
		thread->tick = tick;
		thread->cgroup = task->cgroups->dfl_cgrp->kn->id;
		thread->pid = (u32)task->pid;
		thread->process = (u32)task->tgid;
	}
	return thread;
}

/* The note of a thread and a file has these upper 32 bits, and the lowest ones say where it is. */
ALWAYS_INLINE u64 note_of(u64 inode, u32 dev, u32 pid)
{
	u64 mix = inode * 0x9e3779b97f4a7c15ull + (((u64)dev << 32) | pid) * 0xd6e8feb86659fd93ull;

	return mix ^ mix >> 29;
}

ALWAYS_INLINE u64 *note_place(u64 note)
{
	u32 at = note & (NOTES - 1);

	return map_find(&notes, &at);
}

ALWAYS_INLINE void count_lost(u32 what)
{
	u64 *count = map_find(&lost, &what);

	if (count)
		(*count)++;
}

/* The counts of a file that has no place in `hot` on this CPU: where they are, or new ones, in `place` if it is free. */
ALWAYS_INLINE struct linnet_reads *searched(const struct key *key, struct hot *place)
{
	struct place of = {.key = *key, .cpu = this_cpu()};
	struct linnet_reads *cell = map_find(&files, &of);
	u32 zero = 0;

	if (cell) {
		/* It stays where it is: its counters would be in two places. */
		place->missed++;
		return cell;
	}
	cell = map_find(&blank, &zero);
	if (cell && (place->key.dev == 0 || place->missed++ > MISSED_MAX)) {
		if (place->key.dev) {
			/* What user space has not read yet of the one that had the place. */
			struct place before = {.key = place->key, .cpu = of.cpu};

			if (map_put(&files, &before, &place->cell, MAP_NEW_ONLY))
				count_lost(LOST_EVENTS);
		}
		place->cell = *cell;
		place->key = *key;
		place->missed = 0;
		return &place->cell;
	}
	if (cell && map_put(&files, &of, cell, MAP_NEW_ONLY) == 0)
		return map_find(&files, &of);
	count_lost(LOST_EVENTS);
	return 0;
}

ALWAYS_INLINE struct linnet_reads *cell_of(struct inode *inode, const struct thread *thread)
{
	struct key key = {.inode = inode->i_ino, .dev = inode->i_sb->s_dev};
	struct hot *place;
	u32 at;
	u64 note, *noted;

	if (only_dev && key.dev != only_dev)
		return 0;
	key.cgroup = thread->cgroup;
	if (has_notes) {
		note = note_of(key.inode, key.dev, thread->pid);
		noted = note_place(note);
		if (noted && *noted >> 32 == note >> 32)
			key.reader = (u32)*noted;
	}
	at = (((u32)key.inode ^ (u32)key.cgroup << 8 ^ key.reader) * 2654435761u) >> 26;
	place = map_find(&hot, &at);
	if (!place)
		return 0;
	if (place->key.inode == key.inode && place->key.cgroup == key.cgroup && place->key.dev == key.dev &&
	    place->key.reader == key.reader) {
		if (place->missed)
			place->missed = 0;
		return &place->cell;
	}
	return searched(&key, place);
}

/* The same for a demand, whose process is noted. */
ALWAYS_INLINE struct linnet_reads *demand_of(const u64 *ctx, struct inode *inode)
{
	struct thread *thread = thread_of(ctx);
	struct linnet_reads *cell = thread ? cell_of(inode, thread) : 0;

	if (cell)
		cell->process = thread->process;
	return cell;
}

/*
 * A read of `bytes` from `from` on demands their pages. Past its end nothing of a file is demanded: a reader that asks for
 * a megabyte of a small file is no long read.
 */
ALWAYS_INLINE int read_demands(const u64 *ctx, struct inode *inode, u64 from, u64 bytes)
{
	u64 size = (u64)inode->i_size;
	struct linnet_reads *cell;

	if (!bytes || from >= size)
		return 0;
	if (bytes > size - from)
		bytes = size - from;
	cell = demand_of(ctx, inode);
	if (cell)
		linnet_reads_read(cell, from >> page_shift, (from + bytes + (1ull << page_shift) - 1) >> page_shift);
	return 0;
}

SEC("tp_btf/mm_filemap_get_pages")
int get_pages(u64 *ctx)
{
	struct address_space *mapping = (void *)ctx[0];
	u64 index = ctx[1], last = ctx[2];

	if (!last_is_end || last == index)
		last++;
	return read_demands(ctx, mapping->host, index << page_shift, (last - index) << page_shift);
}

ALWAYS_INLINE int was_tried(u64 *ctx, u64 from)
{
	u64 call = 0, number, *last;
	u32 at;

	/* The address as a number: the verifier lets nobody multiply a pointer. */
	if (probe_read(&call, sizeof(call), &ctx[0]))
		return 0;
	number = linnet_reads_try(call, from);
	at = number % LINNET_TRIES;
	last = map_find(&tries, &at);
	if (!last)
		return 0;
	if (*last == number)
		return 1;
	*last = number;
	return 0;
}

SEC("fentry/filemap_read")
int read_function(u64 *ctx)
{
	struct kiocb *call = (void *)ctx[0];
	struct iov_iter *into = (void *)ctx[1];

	/* With O_DIRECT it comes for what was not read past the page cache: the end of a file, or what is in memory. */
	if (call->ki_flags & CALL_DIRECT)
		return 0;
	if (call->ki_flags & (CALL_NOWAIT | CALL_BACK) && was_tried(ctx, (u64)call->ki_pos))
		return 0;
	return read_demands(ctx, call->ki_filp->f_mapping->host, (u64)call->ki_pos, into->count);
}

/* Before 6.5 splice comes by filemap_read. */
SEC("fentry/filemap_splice_read")
int splice_function(u64 *ctx)
{
	struct file *from = (void *)ctx[0];
	u64 at = 0;

	if (probe_read(&at, sizeof(at), (void *)ctx[1]))
		return 0;
	return read_demands(ctx, from->f_mapping->host, at, ctx[3]);
}

/* A fault found its page in memory, and [start, end) was mapped. */
ALWAYS_INLINE int map_demands(const u64 *ctx, struct inode *inode, u64 start, u64 end)
{
	struct linnet_reads *cell = demand_of(ctx, inode);

	if (cell)
		linnet_reads_map(cell, start, end);
	return 0;
}

SEC("tp_btf/mm_filemap_map_pages")
int map_pages(u64 *ctx)
{
	struct address_space *mapping = (void *)ctx[0];

	return map_demands(ctx, mapping->host, ctx[1], ctx[2] + 1);
}

SEC("fexit/filemap_map_pages")
int map_function(u64 *ctx)
{
	struct vm_fault *fault = (void *)ctx[0];

	if (!((u32)ctx[3] & VM_FAULT_NOPAGE))
		return 0;
	return map_demands(ctx, fault->vma->vm_file->f_mapping->host, ctx[1], ctx[2] + 1);
}

/* A fault did not find its page. */
ALWAYS_INLINE int fault_demands(const u64 *ctx, struct inode *inode, u64 index)
{
	struct linnet_reads *cell = demand_of(ctx, inode);

	if (cell)
		linnet_reads_fault(cell, index);
	return 0;
}

SEC("tp_btf/mm_filemap_fault")
int fault(u64 *ctx)
{
	struct address_space *mapping = (void *)ctx[0];

	return fault_demands(ctx, mapping->host, ctx[1]);
}

SEC("fentry/filemap_fault")
int fault_function(u64 *ctx)
{
	struct vm_fault *fault = (void *)ctx[0];

	return fault_demands(ctx, fault->vma->vm_file->f_mapping->host, fault->pgoff);
}

ALWAYS_INLINE u64 folio_pages(struct folio *folio)
{
	struct folio___wrapped *wrapped = (void *)folio;
	u64 flags, order;

	if (HAS(wrapped->flags.f))
		flags = wrapped->flags.f;
	else
		flags = folio->flags;
	if (!(flags >> __builtin_preserve_enum_value(*(enum pageflags *)PG_head, 1) & 1))
		return 1;
	struct folio___flags *second = (void *)folio;
	struct folio___byte *byte = (void *)folio;
	if (HAS(byte->_folio_order))
		order = byte->_folio_order;
	else if (HAS(second->_flags_1))
		order = second->_flags_1 & 0xff;
	else
		order = 0;
	return 1ull << (order & 31);
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int add(u64 *ctx)
{
	struct folio *folio = (void *)ctx[0];
	struct thread *thread = thread_of(ctx);
	struct linnet_reads *cell = thread ? cell_of(folio->mapping->host, thread) : 0;

	if (cell)
		linnet_reads_add(cell, folio->index, folio->index + folio_pages(folio));
	return 0;
}

/*
 * This thread reads ahead with the value in `state`. Most often that is the f_ra of an open file; some file systems also
 * read ahead for themselves, with a state of their own, which has no open file around it.
 */
ALWAYS_INLINE int note_reader(struct inode *inode, struct file_ra_state *state)
{
	const char *file = (const char *)state - OFFSET(struct file, f_ra);
	u32 dev = inode->i_sb->s_dev, reader = OWN, mode = 0, flags = 0;
	struct inode *of = 0;
	u64 note, *noted;

	if (only_dev && dev != only_dev)
		return 0;
	if (probe_read(&of, sizeof(of), file + OFFSET(struct file, f_inode)) || of != inode)
		return 0;
	probe_read(&mode, sizeof(mode), file + OFFSET(struct file, f_mode));
	probe_read(&flags, sizeof(flags), file + OFFSET(struct file, f_flags));
	if ((mode & (MODE_RANDOM | MODE_NOREUSE)) || (flags & flag_direct))
		reader = ADVISED;
	else if (state->ra_pages > inode->i_sb->s_bdi->ra_pages)
		reader = state->ra_pages;
	if (reader == OWN && !has_notes)
		return 0;
	note = note_of(inode->i_ino, dev, (u32)current_task()->pid);
	noted = note_place(note);
	if (!noted)
		return 0;
	if (reader != OWN) {
		*noted = (note >> 32 << 32) | reader;
		has_notes = 1;
	} else if (*noted >> 32 == note >> 32) {
		*noted = 0;
	}
	return 0;
}

SEC("tp_btf/page_cache_sync_ra")
int sync_reader(u64 *ctx)
{
	return note_reader((struct inode *)ctx[0], (struct file_ra_state *)ctx[2]);
}

SEC("tp_btf/page_cache_async_ra")
int async_reader(u64 *ctx)
{
	return note_reader((struct inode *)ctx[0], (struct file_ra_state *)ctx[2]);
}

/* A fault that reads the pages around its own calls only this one. */
SEC("tp_btf/page_cache_ra_order")
int fault_reader(u64 *ctx)
{
	return note_reader((struct inode *)ctx[0], (struct file_ra_state *)ctx[2]);
}

ALWAYS_INLINE int note_control(const struct readahead_control *control)
{
	return control->ra ? note_reader(control->mapping->host, control->ra) : 0;
}

SEC("fentry/page_cache_sync_ra")
int sync_reader_function(u64 *ctx)
{
	return note_control((void *)ctx[0]);
}

SEC("fentry/page_cache_async_ra")
int async_reader_function(u64 *ctx)
{
	return note_control((void *)ctx[0]);
}

SEC("fentry/page_cache_ra_order")
int fault_reader_function(u64 *ctx)
{
	return note_control((void *)ctx[0]);
}

/* An empty program on the same tracepoint: what an event costs before we count anything. */
SEC("tp_btf/mm_filemap_get_pages")
int nothing(u64 *ctx)
{
	(void)ctx;
	return 0;
}

SEC("iter/task_vma")
int mappings(struct bpf_iter__task_vma *ctx)
{
	struct vm_area_struct *vma = ctx->vma;
	struct key key = {};
	struct file *file;
	u32 advice;

	if (!vma)
		return 0;
	advice = vma->vm_flags & (VM_SEQ_READ | VM_RAND_READ);
	file = vma->vm_file;
	if (!advice || !file)
		return 0;
	key.inode = file->f_inode->i_ino;
	key.dev = file->f_inode->i_sb->s_dev;
	if (only_dev && key.dev != only_dev)
		return 0;
	if (map_put(&advised, &key, &advice, 0))
		count_lost(LOST_ADVICE);
	return 0;
}

SEC("iter/task_file")
int descriptors(struct bpf_iter__task_file *ctx)
{
	struct file *file = ctx->file;
	struct task_struct *task = ctx->task;
	struct open_file out = {};
	struct key key = {};

	/* Threads share their process's descriptors. */
	if (!file || !task || task->pid != task->tgid)
		return 0;
	key.inode = file->f_inode->i_ino;
	key.dev = file->f_inode->i_sb->s_dev;
	if (!map_find(&wanted, &key))
		return 0;
	out.inode = key.inode;
	out.dev = key.dev;
	out.size = file->f_inode->i_size;
	out.cgroup = task->cgroups->dfl_cgrp->kn->id;
	out.process = task->tgid;
	out.fd = ctx->fd;
	out.mode = file->f_mode;
	out.flags = file->f_flags;
	out.ra_pages = file->f_ra.ra_pages;
	seq_put(ctx->meta->seq, &out, sizeof(out));
	return 0;
}

char license_text[] SEC("license") = "Dual MIT/GPL";
