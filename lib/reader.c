/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sends one read to its replicas in order.
 *
 * Every replica except the last is read with the tag: it may answer EAGAIN, and then the next one gets the read. The
 * last is read without the tag, so that it serves the read whatever it predicts. If the last one fails with an error,
 * the earlier ones are read without the tag: first those that only revoked, for they have the data, then those that
 * answered the tag with another error. So a replica gets at most two reads, and the read fails only if each has failed
 * without the tag; its result is then the last error.
 *
 * An answer may be short without being the end of the file: a buffered read ends before a page that cannot be read. So
 * the rest is asked for, of the same replica, until it answers with 0 bytes or an error. After an error the next
 * replica gets the whole read, so that all bytes are of one replica. Each rest is shorter than the one before.
 */
#include "liblinnet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aio.h"

#ifndef IOCB_FLAG_IOPRIO
#define IOCB_FLAG_IOPRIO (1 << 1)
#endif
#define IOPRIO_CLASS_SHIFT 13
#define IOPRIO_CLASS_IDLE 3
#define IOPRIO_HINTS 0x1ff8u

/*
 * Most bytes of one AIO read: the kernel cuts a larger one at 2 GiB less a page, which need not be a place where a
 * direct read of the rest may start.
 */
#define PIECE_BYTES (1u << 30)
/* No direct read starts between two multiples of this: no device has smaller blocks. */
#define BLOCK_BYTES_MIN 512u

#define NS_PER_S 1000000000LL

#define API __attribute__((visibility("default")))

/* Programs are compiled against these; the spare words are there so that fields can be added. */
_Static_assert(sizeof(off_t) == 8 && sizeof(long) == 8, "the iocb and the timeouts are those of a 64-bit kernel");
_Static_assert(sizeof(struct linnet_reader_replica) == 16, "struct linnet_reader_replica");
_Static_assert(sizeof(struct linnet_request) == 128, "struct linnet_request");
_Static_assert(sizeof(struct linnet_reader_stats) == 64, "struct linnet_reader_stats");
_Static_assert(LINNET_READER_REPLICAS_MAX <= 8, "a replica is a bit of a byte");

struct linnet_reader {
	aio_context_t context;
	unsigned tag, depth, inflight;
	/* A forked child has no part in the context: there the system refuses every read. */
	pid_t owner;
	/* The error that ended the reader, negative; or 0. */
	int dead;
	struct linnet_reader_stats stats;
	/* Requests that ended at submission and wait for linnet_reap; at most `depth`. */
	struct linnet_request **early;
	unsigned early_count;
	struct io_event *events;
};

static int submit_rest(struct linnet_reader *reader, struct linnet_request *request)
{
	const struct linnet_reader_replica *replica = &request->replicas[request->replica];
	size_t left = request->size - request->got;
	struct iocb iocb;

	memset(&iocb, 0, sizeof(iocb));
	iocb.aio_data = (uint64_t)(uintptr_t)request;
	iocb.aio_lio_opcode = IOCB_CMD_PREAD;
	iocb.aio_fildes = (uint32_t)replica->fd;
	iocb.aio_buf = (uint64_t)(uintptr_t)request->buffer + request->got;
	iocb.aio_nbytes = left < PIECE_BYTES ? left : PIECE_BYTES;
	iocb.aio_offset = replica->offset + request->offset + (off_t)request->got;
	if (request->tagged) {
		iocb.aio_flags = IOCB_FLAG_IOPRIO;
		iocb.aio_reqprio = (int16_t)reader->tag;
	}
	return linnet_aio.submit(reader->context, &iocb);
}

/* Sends what the replica has not given yet. 0, or the error of the system call. */
static int send(struct linnet_reader *reader, struct linnet_request *request)
{
	int error = submit_rest(reader, request);

	if (error < 0 && request->tagged) {
		/*
		 * Refused before it reached the device, perhaps because of the tag (EPERM, EINVAL): try without
		 * the tag.
		 */
		request->tagged = 0;
		reader->stats.untagged++;
		error = submit_rest(reader, request);
	}
	return error;
}

/* The first replica whose bit is not set in `but`, or -1. */
static int first(const struct linnet_request *request, unsigned but)
{
	for (unsigned i = 0; i < request->count; i++)
		if (!(but >> i & 1))
			return (int)i;
	return -1;
}

/* The replicas that have answered without data. */
static unsigned asked(const struct linnet_request *request)
{
	return request->revoked | request->erred | request->failed;
}

/* The next replica: one not tried yet, else one that only revoked, else one that has failed only with the tag. */
static int next_replica(const struct linnet_request *request)
{
	int next = first(request, asked(request));

	if (next < 0)
		next = first(request, request->erred | request->failed);
	return next < 0 ? first(request, request->failed) : next;
}

/* Counts an answer without data: a revoke, or an error of the replica. */
static void note(struct linnet_reader *reader, struct linnet_request *request, ssize_t error)
{
	uint8_t bit = (uint8_t)(1u << request->replica);

	request->result = error;
	if (error == -EAGAIN && request->tagged) {
		request->revoked |= bit;
		request->revokes++;
		reader->stats.revokes++;
		return;
	}
	/* An error may be due to the tag (btrfs turns a revoke into EIO): only an answer without it is final. */
	if (request->tagged)
		request->erred |= bit;
	else
		request->failed |= bit;
	request->errors++;
	reader->stats.errors++;
}

/* Sends the read to the next replica that accepts it. False: no replica is left, the read has failed. */
static int send_on(struct linnet_reader *reader, struct linnet_request *request)
{
	for (int next; (next = next_replica(request)) >= 0;) {
		int last = (asked(request) | 1u << next) == (1u << request->count) - 1;
		int error;

		if (asked(request))
			reader->stats.failovers++;
		request->replica = (unsigned)next;
		request->got = 0;
		request->tagged = !last && reader->tag != LINNET_TAG_NONE;
		if (request->tagged && !linnet_aio.is_direct(request->replicas[next].fd)) {
			request->tagged = 0;
			reader->stats.untagged++;
		}
		error = send(reader, request);
		if (error == 0)
			return 1;
		note(reader, request, error);
	}
	return 0;
}

static int is_direct(const struct linnet_request *request)
{
	return linnet_aio.is_direct(request->replicas[request->replica].fd);
}

/* Whether the rest of a read can be asked for. A direct read cannot start amid a block: there the file ends. */
static int has_rest(const struct linnet_request *request)
{
	return request->got < request->size && (request->got % BLOCK_BYTES_MIN == 0 || !is_direct(request));
}

/* Handles one answer. True: the read has ended. */
static int settle_one(struct linnet_reader *reader, struct linnet_request *request, ssize_t answer)
{
	/* The blocks are larger than BLOCK_BYTES_MIN, and the file ends amid one. */
	if (answer == -EINVAL && request->got && is_direct(request))
		answer = 0;
	if (answer > 0) {
		request->got += (size_t)answer;
		if (has_rest(request)) {
			answer = send(reader, request);
			if (answer == 0)
				return 0;
		}
	}
	if (answer < 0) {
		note(reader, request, answer);
		return !send_on(reader, request);
	}
	request->result = (ssize_t)request->got;
	return 1;
}

/* As the target requires of it: without a hint it would be the priority of other programs' reads. */
static int is_tag(unsigned tag)
{
	return tag >> IOPRIO_CLASS_SHIFT >= 1 && tag >> IOPRIO_CLASS_SHIFT <= IOPRIO_CLASS_IDLE && tag & IOPRIO_HINTS;
}

API int linnet_reader_open(struct linnet_reader **out, unsigned tag, unsigned depth)
{
	struct linnet_reader *reader;
	int error;

	if (depth == 0 || (tag != LINNET_TAG_NONE && !is_tag(tag)))
		return -EINVAL;
	reader = calloc(1, sizeof(*reader));
	if (!reader)
		return -ENOMEM;
	reader->tag = tag;
	reader->depth = depth;
	reader->owner = getpid();
	reader->early = calloc(depth, sizeof(struct linnet_request *));
	reader->events = calloc(depth, sizeof(*reader->events));
	error = reader->early && reader->events ? linnet_aio.setup(depth, &reader->context) : -ENOMEM;
	if (error < 0) {
		free(reader->early);
		free(reader->events);
		free(reader);
		return error;
	}
	*out = reader;
	return 0;
}

/* 0, or the error of every call: this is a child of the process that opened the reader, or the reader has ended. */
static int usable(const struct linnet_reader *reader)
{
	return reader->owner == getpid() ? reader->dead : -EOWNERDEAD;
}

/*
 * Nobody says any more which reads are answered. io_destroy waits until the kernel has let go of their buffers, and
 * then all are the caller's again.
 */
static int end(struct linnet_reader *reader, int error)
{
	linnet_aio.destroy(reader->context);
	reader->inflight = 0;
	reader->dead = error;
	return error;
}

API void linnet_reader_close(struct linnet_reader *reader)
{
	struct linnet_request *done;

	if (!reader)
		return;
	while (reader->inflight) {
		int got = linnet_reap(reader, &done, 1, NULL);

		if (got < 0 && got != -EINTR)
			break;
	}
	/* After its end the number of the context may be that of another reader's. In a child it is none. */
	if (!usable(reader))
		linnet_aio.destroy(reader->context); /* waits for reads in flight */
	free(reader->early);
	free(reader->events);
	free(reader);
}

/* Whether there are replicas, and the place of the read on each is one of a file. */
static int is_valid(const struct linnet_request *request)
{
	off_t at;

	if (request->count == 0 || request->count > LINNET_READER_REPLICAS_MAX)
		return 0;
	for (unsigned i = 0; i < request->count; i++)
		if (__builtin_add_overflow(request->replicas[i].offset, request->offset, &at))
			return 0;
	return 1;
}

API int linnet_submit(struct linnet_reader *reader, struct linnet_request *request)
{
	int error = usable(reader);

	if (error < 0)
		return error;
	if (!is_valid(request))
		return -EINVAL;
	if (reader->inflight == reader->depth)
		return -EBUSY;
	request->revokes = request->errors = 0;
	request->revoked = request->erred = request->failed = 0;
	reader->stats.reads++;
	reader->inflight++;
	if (!send_on(reader, request))
		reader->early[reader->early_count++] = request;
	return 0;
}

/* Handles answers. Returns the number of reads that have ended. */
static unsigned settle(struct linnet_reader *reader, int count, struct linnet_request **done)
{
	unsigned finished = 0;

	for (int i = 0; i < count; i++) {
		struct linnet_request *request = (struct linnet_request *)(uintptr_t)reader->events[i].data;

		if (settle_one(reader, request, (ssize_t)reader->events[i].res))
			done[finished++] = request;
	}
	return finished;
}

/* When `timeout` will have passed. False: so late that no clock gets there. */
static int deadline(const struct timespec *timeout, long long *at_ns)
{
	return !__builtin_mul_overflow(timeout->tv_sec, NS_PER_S, at_ns) &&
	       !__builtin_add_overflow(*at_ns, timeout->tv_nsec, at_ns) &&
	       !__builtin_add_overflow(*at_ns, linnet_aio.now_ns(), at_ns);
}

API int linnet_reap(struct linnet_reader *reader, struct linnet_request **done, unsigned most,
		    const struct timespec *timeout)
{
	struct timespec left;
	unsigned finished = 0;
	long long end_ns = 0;
	int error = usable(reader);

	if (error < 0)
		return error;
	if (timeout && (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= NS_PER_S))
		return -EINVAL;
	if (timeout && !deadline(timeout, &end_ns))
		timeout = NULL;
	while (finished < most && reader->early_count)
		done[finished++] = reader->early[--reader->early_count];
	reader->inflight -= finished;
	if (finished)
		return (int)finished;
	if (timeout)
		left = *timeout;
	while (reader->inflight && most) {
		long room = most < reader->depth ? (long)most : (long)reader->depth;
		int got = linnet_aio.getevents(reader->context, 1, room, reader->events, timeout ? &left : NULL);

		if (got < 0)
			return got == -EINTR ? got : end(reader, got);
		finished = settle(reader, got, done);
		if (finished) {
			reader->inflight -= finished;
			return (int)finished;
		}
		if (timeout) {
			long long rest = end_ns - linnet_aio.now_ns();

			if (rest <= 0)
				break;
			left.tv_sec = rest / NS_PER_S;
			left.tv_nsec = rest % NS_PER_S;
		}
	}
	return 0;
}

API ssize_t linnet_read(struct linnet_reader *reader, const struct linnet_reader_replica *replicas, unsigned count,
			void *buffer, size_t size, off_t offset)
{
	struct linnet_request request = {
		.replicas = replicas, .count = count, .buffer = buffer, .size = size, .offset = offset};
	struct linnet_request *done;
	int got = usable(reader);

	if (got < 0)
		return got;
	if (reader->inflight)
		return -EBUSY;
	got = linnet_submit(reader, &request);
	if (got < 0)
		return got;
	/* A signal must not end the read: the device uses its buffer until the answer. Other errors end the reader. */
	do
		got = linnet_reap(reader, &done, 1, NULL);
	while (got == -EINTR);
	return got < 0 ? got : request.result;
}

API unsigned linnet_inflight(const struct linnet_reader *reader)
{
	return reader->inflight;
}

API void linnet_reader_stats(const struct linnet_reader *reader, struct linnet_reader_stats *stats)
{
	*stats = reader->stats;
}
