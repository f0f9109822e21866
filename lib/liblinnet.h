/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * liblinnet: reads that may be revoked and then go to another replica.
 *
 * The device-mapper target `linnet` with `revoke` ends a read at once with EAGAIN if it predicts that the read will be
 * slow and the read carries the configured I/O priority: the tag. This library sends a read to its first replica with
 * the tag, on EAGAIN to the second, and so on. The last replica is read without the tag, so that every read is served.
 * Another error of a replica also moves the read to the next one. A read fails only if every replica, including those
 * that revoked it, was read without the tag and failed.
 *
 *	struct linnet_replica replicas[] = {{fd_a, 0}, {fd_b, 0}, {fd_c, 0}};
 *	struct linnet_reader *reader;
 *
 *	if (linnet_reader_open(&reader, LINNET_TAG_DEFAULT, 1) < 0) ...
 *	got = linnet_read(reader, replicas, 3, buffer, 4096, offset);
 *
 * The tag belongs to the single request (Linux AIO, aio_reqprio), never to the task: a task's priority would also mark
 * its buffered reads, and a revoked buffered read fails with EIO. For the same reason descriptors without O_DIRECT are
 * read without the tag. With O_DIRECT, buffer, size and offset must be aligned to the logical block.
 *
 * Only one thread may use a reader at a time; each thread opens its own. Nothing is allocated after open.
 *
 * Not for btrfs: its own layer turns a revoked read into EIO. Such a read still fails over, but counts as an error.
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

/*
 * Best effort at the usual level, with a hint: the tag of `linnet dm create --revoke`. No program carries a hint by
 * accident. Needs no privilege. Linux has hints since 6.5; Debian's 6.1 has them too.
 */
#define LINNET_TAG_DEFAULT 0x5004u
/* No tag: every read is served by its first replica unless that one fails. */
#define LINNET_TAG_NONE 0u
/* Most replicas of one read. */
#define LINNET_REPLICAS_MAX 8u

/* One copy of the data. Byte 0 of the data is byte `offset` of the file or device. */
struct linnet_replica {
	int fd;
	off_t offset;
};

/* A read. The caller keeps it, the replicas and the buffer valid from linnet_submit until linnet_reap returns it. */
struct linnet_request {
	const struct linnet_replica *replicas; /* in the order to try; [0] is the primary */
	unsigned count;			       /* 1 .. LINNET_REPLICAS_MAX */
	void *buffer;
	size_t size;
	off_t offset;
	void *user; /* for the caller; never changed */

	/* The answer. */
	ssize_t result;	  /* bytes, fewer than `size` only at the end of the file; or the last error, negative */
	unsigned replica; /* the one that answered */
	unsigned revokes; /* replicas that answered EAGAIN to the tag */
	unsigned errors;  /* replicas that answered with another error */

	/* Private to the library. */
	uint32_t revoked, failed;
	unsigned tagged;
};

/* Counters of a reader since it was opened. */
struct linnet_reader_stats {
	uint64_t reads;	    /* started by linnet_submit or linnet_read */
	uint64_t revokes;   /* EAGAIN answers to a tagged read */
	uint64_t failovers; /* sent to another replica, for any reason */
	uint64_t errors;    /* answers with another error */
	uint64_t untagged;  /* sent without the tag before the last replica: no O_DIRECT, or the tag was refused */
};

struct linnet_reader;

/*
 * Opens a reader for at most `depth` reads at a time. `tag` is an I/O priority as in ioprio_set(2), and must be the
 * same as in the target's table. Negative errno: EINVAL (depth 0, a tag without class or hint), EAGAIN (fs.aio-max-nr is used
 * up), ENOSYS (a kernel without AIO), ENOMEM.
 */
int linnet_reader_open(struct linnet_reader **reader, unsigned tag, unsigned depth);

/* Waits for the reads in flight, and frees the reader. NULL is allowed. */
void linnet_reader_close(struct linnet_reader *reader);

/*
 * Reads `size` bytes at `offset` and waits. Returns the bytes read (fewer only at the end of the file) or a negative
 * errno. EBUSY: reads from linnet_submit are in flight.
 */
ssize_t linnet_read(struct linnet_reader *reader, const struct linnet_replica *replicas, unsigned count, void *buffer,
		    size_t size, off_t offset);

/* Starts a read. Returns 0, -EINVAL (count out of range) or -EBUSY (`depth` reads are in flight). */
int linnet_submit(struct linnet_reader *reader, struct linnet_request *request);

/*
 * Waits until at least one read is answered or `timeout` has passed (NULL: for ever; zero: does not wait). Sends
 * revoked reads to their next replica, and puts up to `most` answered requests into `done`. Returns their number, 0
 * after the timeout or if nothing is in flight, or a negative errno (EINTR: a signal came). A read that is sent again
 * does not extend the timeout.
 */
int linnet_reap(struct linnet_reader *reader, struct linnet_request **done, unsigned most,
		const struct timespec *timeout);

/* Reads in flight. */
unsigned linnet_inflight(const struct linnet_reader *reader);

void linnet_reader_stats(const struct linnet_reader *reader, struct linnet_reader_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
