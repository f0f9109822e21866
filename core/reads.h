/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Observes how one file is read: which pages are demanded, in which order, and which pages are brought into memory. One
 * implementation for the BPF program of `linnet tune` and for the kernel module linnet_tune; so everything is inline,
 * there is no call and no header, and the includer defines uint32_t and uint64_t.
 *
 * A demand is compared with where the last ones ended in the same state. Threads that read in order would look random
 * together, so each CPU or thread has a state of its own. Counters only grow, unless the owner takes them; pages are
 * those of the machine, whatever a folio's size.
 */
#ifndef LINNET_READS_H
#define LINNET_READS_H

enum {
	LINNET_DISTANCES = 16, /* buckets of log2 |distance|; the last holds the rest */
	LINNET_SIZES = 8,      /* buckets of log2 of a read() in pages */
	LINNET_STREAMS = 4,    /* interleaved sequences that are told apart */
	LINNET_BATCHES = 4,    /* ranges read lately, to see which pages are demanded */
	LINNET_NEAR = 16,      /* pages: a fault maps so many around it, so a sequence may skip as many */
	LINNET_TRIES = 1024,   /* reads that may not wait and are told apart from those that are tried again; a power of two */
};

/* Pages [start, end) that came into memory together, of which [low, high) was demanded. */
struct linnet_batch {
	uint64_t start;
	uint64_t end;
	uint64_t low;
	uint64_t high;
};

/* crates/tune/src/observe/cell.rs mirrors this. */
struct linnet_counts {
	uint64_t accesses;   /* demands: reads and faults; the parts of one read count once */
	uint64_t pages;      /* pages demanded */
	uint64_t repeats;    /* demands within the pages of the one before */
	uint64_t forward;    /* demands that continue a sequence upwards */
	uint64_t reverse;    /* downwards */
	uint64_t jumps;      /* neither */
	uint64_t faults;     /* of the accesses, those through a mapping */
	uint64_t added;      /* pages brought into the page cache */
	uint64_t used;       /* of those, pages demanded soon after */
	uint64_t batches;    /* times that pages were added elsewhere than where the last ones ended */
	uint64_t distance[LINNET_DISTANCES];
	uint64_t size[LINNET_SIZES];
};

struct linnet_reads {
	struct linnet_counts counts;
	uint64_t start;        /* of the last demand */
	uint64_t end;
	uint64_t mapped_start; /* of the last fault-around, which a fault may follow */
	uint64_t mapped_end;
	uint64_t stream[LINNET_STREAMS];
	struct linnet_batch batch[LINNET_BATCHES];
	uint32_t stream_next;
	uint32_t batch_next;
	uint32_t process;      /* the last one that demanded; the owner's to set */
	uint32_t folio;        /* pages of the last folio that was added */
};

#define LINNET_READS_INLINE static inline __attribute__((always_inline, unused))
#ifdef __clang__
#define LINNET_UNROLL _Pragma("unroll")
#else
#define LINNET_UNROLL
#endif

/* log2, rounded down; from 65,536 on always 16, which is in the last bucket of distances and of sizes. */
LINNET_READS_INLINE uint32_t linnet_log2(uint64_t value)
{
	uint32_t log = 0;

	if (value >> 16)
		return 16;
	if (value >> 8)
		value >>= 8, log += 8;
	if (value >> 4)
		value >>= 4, log += 4;
	if (value >> 2)
		value >>= 2, log += 2;
	return log + (uint32_t)(value >> 1);
}

/* Counts what of [start, end) lies in `batch` and is demanded for the first time; false where nothing lies there. */
LINNET_READS_INLINE int linnet_reads_use_batch(struct linnet_reads *reads, struct linnet_batch *batch, uint64_t start,
					       uint64_t end)
{
	uint64_t low = start > batch->start ? start : batch->start;
	uint64_t high = end < batch->end ? end : batch->end;

	if (low >= high)
		return 0;
	if (batch->low == batch->high) {
		batch->low = low;
		batch->high = high;
		reads->counts.used += high - low;
		return 1;
	}
	if (low < batch->low) {
		reads->counts.used += batch->low - low;
		batch->low = low;
	}
	if (high > batch->high) {
		reads->counts.used += high - batch->high;
		batch->high = high;
	}
	return 1;
}

/* The same for whichever of the last batches it is. */
LINNET_READS_INLINE void linnet_reads_use(struct linnet_reads *reads, uint64_t start, uint64_t end)
{
	/* Most reads at a high rate are of files that are in memory, where nothing comes. */
	if (!reads->batch_next)
		return;
	LINNET_UNROLL
	for (uint32_t i = 0; i < LINNET_BATCHES; i++)
		if (linnet_reads_use_batch(reads, &reads->batch[i], start, end))
			return;
}

/* Pages [start, end) came: they extend a batch or begin one. */
LINNET_READS_INLINE struct linnet_batch *linnet_reads_grow(struct linnet_reads *reads, uint64_t start, uint64_t end)
{
	struct linnet_batch *batch;

	LINNET_UNROLL
	for (uint32_t i = 0; i < LINNET_BATCHES; i++) {
		batch = &reads->batch[i];
		if (batch->end == start && batch->start != batch->end) {
			batch->end = end;
			return batch;
		}
	}
	reads->counts.batches++;
	batch = &reads->batch[reads->batch_next++ % LINNET_BATCHES];
	batch->start = start;
	batch->end = end;
	batch->low = batch->high = start;
	return batch;
}

/* Where a jump came from may be continued later: one of a few interleaved sequences. */
LINNET_READS_INLINE int linnet_reads_resumes(struct linnet_reads *reads, uint64_t start, uint64_t end,
					     uint64_t near)
{
	LINNET_UNROLL
	for (uint32_t i = 0; i < LINNET_STREAMS; i++) {
		uint64_t at = reads->stream[i];

		if (at && start <= at + near && end > at) {
			reads->stream[i] = reads->end;
			return 1;
		}
	}
	uint32_t slot = reads->stream_next++ % LINNET_STREAMS;
	reads->stream[slot] = reads->end;
	return 0;
}

/* How a demand is told: by read(), by a fault, or by a fault-around that mapped 16 pages or so for one touch. */
enum { LINNET_READ, LINNET_FAULT, LINNET_AROUND };

/*
 * A demand of [start, end). Between neighbouring faults all pages count as demanded: touching what a fault-around has
 * mapped is not told. After a jump a fault-around counts as one page.
 */
LINNET_READS_INLINE void linnet_reads_demand(struct linnet_reads *reads, uint64_t start, uint64_t end, int how)
{
	uint64_t from = reads->start, to = reads->end;
	uint64_t first = start, fresh = how == LINNET_AROUND ? 1 : end - start;
	/* A fault maps a large folio as a whole. */
	uint64_t near = how != LINNET_READ && reads->folio > LINNET_NEAR ? reads->folio : (uint64_t)LINNET_NEAR;
	uint32_t bucket;

	if (to && start >= from && end <= to) {
		reads->counts.repeats++;
		return;
	}
	reads->counts.accesses++;
	bucket = linnet_log2(start >= to ? start - to : to - start);
	if (bucket >= LINNET_DISTANCES)
		bucket = LINNET_DISTANCES - 1;
	reads->counts.distance[bucket]++;
	if (to && end > to && start >= from && start <= to + near) {
		reads->counts.forward++;
		first = how == LINNET_READ && start > to ? start : to;
		fresh = end - first;
	} else if (to && start < from && end + near >= from) {
		reads->counts.reverse++;
		fresh = (how == LINNET_READ && end < from ? end : from) - start;
	} else if (to && linnet_reads_resumes(reads, start, end, near)) {
		reads->counts.forward++;
		fresh = end - start;
	} else {
		reads->counts.jumps++;
	}
	linnet_reads_use(reads, first, first + fresh);
	reads->counts.pages += fresh;
	reads->start = start;
	reads->end = end;
}

/*
 * A read that may not wait is tried again where it would have had to: io_uring begins one up to three times. A try is known
 * by the call's address and its first byte. Its number goes to place `number % LINNET_TRIES` of a table; where it stands
 * there already, the read was told before. Another one that takes the place meanwhile makes it two demands.
 */
LINNET_READS_INLINE uint64_t linnet_reads_try(uint64_t call, uint64_t from)
{
	uint64_t mix = call * 0x9e3779b97f4a7c15ull + from * 0xd6e8feb86659fd93ull;

	return mix ^ mix >> 29;
}

/* A read() or splice of pages [start, end). */
LINNET_READS_INLINE void linnet_reads_read(struct linnet_reads *reads, uint64_t start, uint64_t end)
{
	uint32_t bucket;

	/* Parts of one read come with the same end: only the first one is a request. */
	if (end != reads->end || start < reads->start) {
		bucket = linnet_log2(end - start);
		reads->counts.size[bucket < LINNET_SIZES ? bucket : LINNET_SIZES - 1]++;
	}
	linnet_reads_demand(reads, start, end, LINNET_READ);
}

/* A fault that tries to map what is in memory of pages [start, end). */
LINNET_READS_INLINE void linnet_reads_map(struct linnet_reads *reads, uint64_t start, uint64_t end)
{
	reads->mapped_start = start;
	reads->mapped_end = end;
	/* A fault that had to wait for its page is taken again, and then finds it: the same access. */
	if (reads->end == reads->start + 1 && reads->start >= start && reads->start < end)
		return;
	reads->counts.faults++;
	linnet_reads_demand(reads, start, end, LINNET_AROUND);
}

/* A fault of page `index`, which is not mapped after a fault-around. */
LINNET_READS_INLINE void linnet_reads_fault(struct linnet_reads *reads, uint64_t index)
{
	/* The fault-around just before was the same access, and did not find this page. */
	if (reads->mapped_end && index >= reads->mapped_start && index < reads->mapped_end) {
		reads->mapped_end = 0;
		return;
	}
	reads->counts.faults++;
	linnet_reads_demand(reads, index, index + 1, LINNET_FAULT);
}

/* A folio of pages [start, end) came into memory. */
LINNET_READS_INLINE void linnet_reads_add(struct linnet_reads *reads, uint64_t start, uint64_t end)
{
	struct linnet_batch *batch;

	reads->counts.added += end - start;
	reads->folio = (uint32_t)(end - start);
	batch = linnet_reads_grow(reads, start, end);
	/* A fault is told before its page comes, a read after. */
	if (start < reads->end && end > reads->start)
		linnet_reads_use_batch(reads, batch, reads->start, reads->end);
}

#endif
