/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sends one read to its replicas in order.
 *
 * Every replica except the last is read with the tag: it may answer EAGAIN, and then the next one gets the read. The
 * last is read without the tag, so that it serves the read whatever it predicts. If the last one fails with an error
 * and an earlier one only revoked, the earlier one still has the data: it is read without the tag. The read fails only
 * if each replica has failed; its result is then the last error.
 */
#include "liblinnet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aio.h"

#ifndef IOCB_FLAG_IOPRIO
#define IOCB_FLAG_IOPRIO (1 << 1)
#endif
#define IOPRIO_CLASS_SHIFT 13
#define IOPRIO_CLASS_IDLE 3
#define IOPRIO_HINTS 0x1ff8u

#define API __attribute__((visibility("default")))

struct linnet_reader {
	aio_context_t context;
	unsigned tag, depth, inflight;
	struct linnet_reader_stats stats;
	/* Requests that ended at submission and wait for linnet_reap; at most `depth`. */
	struct linnet_request **early;
	unsigned early_count;
	struct io_event *events;
};

static int send(struct linnet_reader *reader, struct linnet_request *request)
{
	const struct linnet_replica *replica = &request->replicas[request->replica];
	struct iocb iocb;

	memset(&iocb, 0, sizeof(iocb));
	iocb.aio_data = (uint64_t)(uintptr_t)request;
	iocb.aio_lio_opcode = IOCB_CMD_PREAD;
	iocb.aio_fildes = (uint32_t)replica->fd;
	iocb.aio_buf = (uint64_t)(uintptr_t)request->buffer;
	iocb.aio_nbytes = request->size;
	iocb.aio_offset = replica->offset + request->offset;
	if (request->tagged) {
		iocb.aio_flags = IOCB_FLAG_IOPRIO;
		iocb.aio_reqprio = (int16_t)reader->tag;
	}
	return linnet_aio.submit(reader->context, &iocb);
}

/* The next replica: the first one not tried yet, else the first one that only revoked. -1: none is left. */
static int next_replica(const struct linnet_request *request)
{
	for (unsigned i = 0; i < request->count; i++)
		if (!((request->revoked | request->failed) >> i & 1))
			return (int)i;
	for (unsigned i = 0; i < request->count; i++)
		if (!(request->failed >> i & 1))
			return (int)i;
	return -1;
}

/* Counts an answer without data: a revoke, or an error of the replica. */
static void note(struct linnet_reader *reader, struct linnet_request *request, ssize_t error)
{
	request->result = error;
	if (error == -EAGAIN && request->tagged) {
		request->revoked |= 1u << request->replica;
		request->revokes++;
		reader->stats.revokes++;
	} else {
		request->failed |= 1u << request->replica;
		request->errors++;
		reader->stats.errors++;
	}
}

/* Sends the read to the next replica that accepts it. False: no replica is left, the read has failed. */
static int send_on(struct linnet_reader *reader, struct linnet_request *request)
{
	for (int next; (next = next_replica(request)) >= 0;) {
		unsigned asked = request->revoked | request->failed | 1u << next;
		int last = asked == (1u << request->count) - 1;
		int error;

		if (request->revoked | request->failed)
			reader->stats.failovers++;
		request->replica = (unsigned)next;
		request->tagged = !last && reader->tag != LINNET_TAG_NONE;
		if (request->tagged && !linnet_aio.is_direct(request->replicas[next].fd)) {
			request->tagged = 0;
			reader->stats.untagged++;
		}
		error = send(reader, request);
		if (error < 0 && request->tagged) {
			/*
			 * Refused before it reached the device, perhaps because of the tag (EPERM, EINVAL): try without
			 * the tag.
			 */
			request->tagged = 0;
			reader->stats.untagged++;
			error = send(reader, request);
		}
		if (error == 0)
			return 1;
		note(reader, request, error);
	}
	return 0;
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
	linnet_aio.destroy(reader->context); /* waits for reads in flight */
	free(reader->early);
	free(reader->events);
	free(reader);
}

API int linnet_submit(struct linnet_reader *reader, struct linnet_request *request)
{
	if (request->count == 0 || request->count > LINNET_REPLICAS_MAX)
		return -EINVAL;
	if (reader->inflight == reader->depth)
		return -EBUSY;
	request->revokes = request->errors = 0;
	request->revoked = request->failed = 0;
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
		ssize_t answer = (ssize_t)reader->events[i].res;

		if (answer < 0) {
			note(reader, request, answer);
			if (send_on(reader, request))
				continue;
		} else {
			request->result = answer;
		}
		done[finished++] = request;
	}
	return finished;
}

API int linnet_reap(struct linnet_reader *reader, struct linnet_request **done, unsigned most,
		    const struct timespec *timeout)
{
	long long end = timeout ? linnet_aio.now_ns() + timeout->tv_sec * 1000000000LL + timeout->tv_nsec : 0;
	struct timespec left;
	unsigned finished = 0;

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
			return got;
		finished = settle(reader, got, done);
		if (finished) {
			reader->inflight -= finished;
			return (int)finished;
		}
		if (timeout) {
			long long rest = end - linnet_aio.now_ns();

			if (rest <= 0)
				break;
			left.tv_sec = rest / 1000000000LL;
			left.tv_nsec = rest % 1000000000LL;
		}
	}
	return 0;
}

API ssize_t linnet_read(struct linnet_reader *reader, const struct linnet_replica *replicas, unsigned count,
			void *buffer, size_t size, off_t offset)
{
	struct linnet_request request = {
		.replicas = replicas, .count = count, .buffer = buffer, .size = size, .offset = offset};
	struct linnet_request *done;
	int got;

	if (reader->inflight)
		return -EBUSY;
	got = linnet_submit(reader, &request);
	if (got < 0)
		return got;
	/* A signal must not end the read: the device uses its buffer until the answer. */
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
