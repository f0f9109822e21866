/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * liblinnet: reads that may be revoked and then go to another replica.
 *
 * The device-mapper target `linnet` with `revoke` ends a read at once with EAGAIN if it predicts that the read will be
 * slow and the read carries the configured I/O priority: the tag. This library sends a read to its first replica with
 * the tag, on EAGAIN to the second, and so on. The last replica is read without the tag, so that every read is served.
 * Another error of a replica also moves the read to the next one. A read fails only if every replica, including those
 * that revoked it or failed with the tag, was read without the tag and failed.
 *
 *	struct linnet_reader_replica replicas[] = {{fd_a, 0}, {fd_b, 0}, {fd_c, 0}};
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
 * A reader belongs to the process that opened it. In a forked child its reads give EOWNERDEAD, and linnet_reader_close
 * frees memory only: open another one there. Do not fork while reads are in flight, unless their buffers are
 * MADV_DONTFORK: the processes share a page until one writes to it, and the data may end up in the child's copy.
 *
 * Not for btrfs: its own layer turns a revoked read into EIO. Such a read still fails over, but counts as an error.
 */
#ifndef LIBLINNET_H
#define LIBLINNET_H

/* Before anything is included: such a target may lack the headers. */
#if __SIZEOF_LONG__ != 8
#error "liblinnet needs a 64-bit target: off_t and long have 8 bytes"
#endif

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
static_assert(sizeof(off_t) == 8, "liblinnet needs an off_t of 8 bytes");
extern "C" {
#else
_Static_assert(sizeof(off_t) == 8, "liblinnet needs an off_t of 8 bytes");
#endif

/*
 * Best effort at the usual level, with a hint: the tag of `linnet dm create --revoke`. No program carries a hint by
 * accident. Needs no privilege. Linux has hints since 6.5; Debian's 6.1 has them too.
 */
#define LINNET_TAG_DEFAULT 0x5004u
/* No tag: every read is served by its first replica unless that one fails. */
#define LINNET_TAG_NONE 0u
/* Most replicas of one read. */
#define LINNET_READER_REPLICAS_MAX 8u

/*
 * One copy of the data: a regular file or a block device, since for the data of a pipe or a socket io_submit(2) itself waits.
 * Byte 0 of the data is byte `offset` of the file or device. (What a policy knows of a replica is
 * the core's struct linnet_replica.)
 */
struct linnet_reader_replica {
	int fd;
	off_t offset;
};

/* A read. The caller keeps it, the replicas and the buffer valid from linnet_submit until linnet_reap returns it. */
struct linnet_request {
	const struct linnet_reader_replica *replicas; /* in the order to try; [0] is the primary */
	unsigned count;			       /* 1 .. LINNET_READER_REPLICAS_MAX */
	void *buffer;
	size_t size;
	off_t offset;
	void *user; /* for the caller; never changed */

	/* The answer. */
	ssize_t result;	  /* bytes, fewer than `size` only at the end of the file; or the last error, negative */
	unsigned replica; /* the one that answered, with all of the bytes */
	unsigned revokes; /* replicas that answered EAGAIN to the tag */
	unsigned errors;  /* answers with another error: of a replica one to the tag, and one without it */

	/* Private to the library. */
	uint8_t revoked, erred; /* a bit for each replica that answered the tag with EAGAIN; with another error */
	uint8_t failed;		/* and for each that answered a read without the tag with an error */
	uint8_t tagged;
	size_t got; /* bytes that `replica` has given */
	uint64_t spare[6];
};

/* Counters of a reader since it was opened. */
struct linnet_reader_stats {
	uint64_t reads;	    /* started by linnet_submit or linnet_read */
	uint64_t revokes;   /* EAGAIN answers to a tagged read */
	uint64_t failovers; /* sent to another replica, for any reason */
	uint64_t errors;    /* answers with another error */
	uint64_t untagged;  /* sent without the tag before the last replica: no O_DIRECT, or the tag was refused */
	uint64_t spare[3];  /* 0 */
};

struct linnet_reader;

/*
 * Opens a reader for at most `depth` reads at a time. `tag` is an I/O priority as in ioprio_set(2), and must be the
 * same as in the target's table. Negative errno: EINVAL (depth 0, a tag without class or hint), EAGAIN (fs.aio-max-nr
 * is used up), ENOSYS (a kernel without AIO), ENOMEM.
 */
int linnet_reader_open(struct linnet_reader **reader, unsigned tag, unsigned depth);

/* Waits for the reads in flight, and frees the reader. NULL is allowed. In a forked child it waits for nothing. */
void linnet_reader_close(struct linnet_reader *reader);

/*
 * Reads `size` bytes at `offset` and waits. Returns the bytes read (fewer only at the end of the file) or a negative
 * errno: EINVAL as linnet_submit, EBUSY if reads from linnet_submit are in flight, and EOWNERDEAD in a forked child. No
 * error leaves the read in flight. A device or file may answer with fewer bytes before its end; the rest is then read from the same replica.
 */
ssize_t linnet_read(struct linnet_reader *reader, const struct linnet_reader_replica *replicas, unsigned count,
		    void *buffer, size_t size, off_t offset);

/*
 * Starts a read. Of a descriptor without O_DIRECT it also waits for the data, as Linux AIO does: a caller that starts
 * reads at set times, or hedges, needs O_DIRECT. Returns 0, -EINVAL (count out of range, or `offset` and that of a
 * replica add up to what no off_t holds), -EBUSY (`depth` reads are in flight), -EOWNERDEAD (a forked child), or
 * the error that ended the reader, as linnet_reap says.
 */
int linnet_submit(struct linnet_reader *reader, struct linnet_request *request);

/*
 * Waits until at least one read is answered or `timeout` has passed (NULL: for ever; zero: does not wait). Sends
 * revoked reads to their next replica, and puts up to `most` answered requests into `done`. Returns their number, 0
 * after the timeout or if nothing is in flight, or a negative errno. A read that is sent again does not extend the
 * timeout.
 *
 * EINTR: a signal came. EINVAL: a timeout below 0, or with a tv_nsec of 1e9 or more. EOWNERDEAD: a forked child. Any
 * other errno ends the reader, because the system gives no answers any more (io_getevents(2), for example under a
 * filter of system calls). linnet_reap has then waited for the reads in flight: the requests and buffers are the
 * caller's again, without results. Every later call gives this errno; linnet_reader_close still frees the reader.
 */
struct timespec; /* strict C99 has none in time.h */
int linnet_reap(struct linnet_reader *reader, struct linnet_request **done, unsigned most,
		const struct timespec *timeout);

/* Reads in flight. */
unsigned linnet_inflight(const struct linnet_reader *reader);

void linnet_reader_stats(const struct linnet_reader *reader, struct linnet_reader_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
