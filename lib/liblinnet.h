/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * liblinnet: reads that may be revoked, and that then go to another replica.
 *
 * A device below the device-mapper target `linnet` with `revoke` ends a read that it predicts slow at once with EAGAIN,
 * if the read carries the configured I/O priority: the tag. This library sends a read to its first replica with the
 * tag, on EAGAIN to the second, and so on. The last replica is read without the tag, so that every read is served. A
 * replica that answers with another error is passed over in the same way; a read fails only when every replica, revoked
 * ones included, was read without the tag and failed.
 *
 *	struct linnet_replica replicas[] = {{fd_a, 0}, {fd_b, 0}, {fd_c, 0}};
 *	struct linnet_reader *reader;
 *
 *	if (linnet_reader_open(&reader, LINNET_TAG_DEFAULT, 1) < 0) ...
 *	got = linnet_read(reader, replicas, 3, buffer, 4096, offset);
 *
 * The tag travels with the single request (Linux AIO, aio_reqprio), never with the task: a task's priority would also
 * mark its buffered reads, and a revoked buffered read is EIO. For the same reason only descriptors with O_DIRECT are
 * read with the tag; others are read without. So buffer, size and offset must be aligned to the logical block.
 *
 * A reader belongs to one thread at a time; threads each open their own. Nothing here allocates after open.
 *
 * Not with btrfs: its own layer turns a revoked read into EIO. Such a read still fails over, at the price of an error.
 */
#ifndef LIBLINNET_H
#define LIBLINNET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Best effort, level 7: the tag that the target takes unless its table says otherwise. */
#define LINNET_TAG_DEFAULT 0x4007u
/* No tag: every read is served by its first replica unless that one fails. */
#define LINNET_TAG_NONE 0u
/* Most replicas of one read. */
#define LINNET_REPLICAS_MAX 8u

/* One copy of the data. Byte 0 of the data is byte `offset` of the file or device. */
struct linnet_replica {
	int fd;
	off_t offset;
};

/* A read. The caller keeps it, the replicas and the buffer in place from linnet_submit until linnet_reap gives it back. */
struct linnet_request {
	const struct linnet_replica *replicas; /* in the order to be asked; [0] is the primary */
	unsigned count;			       /* 1 .. LINNET_REPLICAS_MAX */
	void *buffer;
	size_t size;
	off_t offset;
	void *user; /* the caller's, untouched */

	/* The answer. */
	ssize_t result;	  /* bytes, fewer than `size` only at the end of the file; or the last error, negative */
	unsigned replica; /* the one that answered */
	unsigned revokes; /* replicas that answered EAGAIN to the tag */
	unsigned errors;  /* replicas that answered with another error */

	/* The library's. */
	uint32_t revoked, failed;
	unsigned tagged;
};

/* What a reader has done since it was opened. */
struct linnet_reader_stats {
	uint64_t reads;	    /* given to linnet_submit or linnet_read */
	uint64_t revokes;   /* answers EAGAIN to a tagged read */
	uint64_t failovers; /* sent to another replica, for whatever reason */
	uint64_t errors;    /* answers with another error */
	uint64_t untagged;  /* sent without the tag although another replica was left: no O_DIRECT, or the tag refused */
};

struct linnet_reader;

/*
 * Opens a reader that holds at most `depth` reads at a time and tags with `tag`, an I/O priority as ioprio_set(2)
 * takes it. The same value stands in the target's table. Negative errno: EINVAL (depth 0, a tag without class), EAGAIN
 * (fs.aio-max-nr is used up), ENOSYS (a kernel without AIO), ENOMEM.
 */
int linnet_reader_open(struct linnet_reader **reader, unsigned tag, unsigned depth);

/* Waits for the reads that are still out, and frees the reader. NULL is allowed. */
void linnet_reader_close(struct linnet_reader *reader);

/*
 * Reads `size` bytes at `offset` and waits. Bytes read (fewer only at the end of the file), or a negative errno. EBUSY: the
 * reader has reads out from linnet_submit.
 */
ssize_t linnet_read(struct linnet_reader *reader, const struct linnet_replica *replicas, unsigned count, void *buffer,
		    size_t size, off_t offset);

/* Starts a read. 0, or -EINVAL (count out of range), -EBUSY (depth reads are out). */
int linnet_submit(struct linnet_reader *reader, struct linnet_request *request);

/*
 * Waits until at least one read is answered or `timeout` has passed (NULL: for ever; zero: only look), sends the
 * revoked ones on, and puts up to `most` answered requests into `done`. Their number, 0 after the timeout or when
 * nothing is out, or a negative errno (EINTR: a signal came). A read that is sent on uses up waiting time but does not
 * prolong it.
 */
int linnet_reap(struct linnet_reader *reader, struct linnet_request **done, unsigned most,
		const struct timespec *timeout);

/* Reads that are out. */
unsigned linnet_inflight(const struct linnet_reader *reader);

void linnet_reader_stats(const struct linnet_reader *reader, struct linnet_reader_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
