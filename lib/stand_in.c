/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * By default it simulates a device that is slow for every fourth block: on the descriptor opened first, a read of such
 * a block is revoked if it carries a tag, and takes STAND_IN_SLOW_US (environment) if it does not.
 */
#define _GNU_SOURCE
#include "stand_in.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OUT_MAX 65536

static struct {
	struct io_event event;
	long long due_ns;
} out[OUT_MAX];
static long out_count;

static int first_fd = -1;

static long every_fourth(const struct stand_in_read *read, unsigned *delay_us)
{
	const char *slow_us = getenv("STAND_IN_SLOW_US");

	if (first_fd < 0)
		first_fd = read->fd;
	if (read->fd != first_fd || read->offset / 4096 % 4)
		return 0;
	if (read->tag)
		return -EAGAIN;
	*delay_us = slow_us ? (unsigned)atoi(slow_us) : 0;
	return 0;
}

static int accept_all(const struct stand_in_read *read)
{
	(void)read;
	return 0;
}

long (*stand_in_answer)(const struct stand_in_read *read, unsigned *delay_us) = every_fourth;
int (*stand_in_refuse)(const struct stand_in_read *read) = accept_all;
int stand_in_direct = 1;
int stand_in_getevents_error;
int stand_in_contexts;

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int setup(unsigned depth, aio_context_t *context)
{
	*context = depth;
	stand_in_contexts++;
	return 0;
}

static int destroy(aio_context_t context)
{
	(void)context;
	stand_in_contexts--;
	out_count = 0;
	return 0;
}

static int submit(aio_context_t context, struct iocb *iocb)
{
	struct stand_in_read read = {(int)iocb->aio_fildes, 0, iocb->aio_offset, iocb->aio_nbytes};
	unsigned delay_us = 0;
	int refused;
	long got;

	if (out_count == OUT_MAX || out_count >= (long)context)
		return -EAGAIN;
	if (iocb->aio_flags & 2)
		read.tag = (uint16_t)iocb->aio_reqprio;
	refused = stand_in_refuse(&read);
	if (refused < 0)
		return refused;
	got = stand_in_answer(&read, &delay_us);
	if (got >= 0) {
		size_t most = got > 0 && (size_t)got < read.size ? (size_t)got : read.size;

		got = pread(read.fd, (void *)(uintptr_t)iocb->aio_buf, most, read.offset);
		got = got < 0 ? -errno : got;
	}
	memset(&out[out_count], 0, sizeof(out[0]));
	out[out_count].event.data = iocb->aio_data;
	out[out_count].event.res = got;
	out[out_count++].due_ns = now_ns() + delay_us * 1000LL;
	return 0;
}

static int getevents(aio_context_t context, long least, long most, struct io_event *events,
		     const struct timespec *timeout)
{
	long long now = now_ns();
	long long end = timeout ? now + timeout->tv_sec * 1000000000LL + timeout->tv_nsec : -1;
	long got = 0;

	(void)context;
	if (stand_in_getevents_error) {
		int error = stand_in_getevents_error;

		stand_in_getevents_error = 0;
		return error;
	}
	for (;; now = now_ns()) {
		for (long i = 0; i < out_count && got < most;) {
			if (out[i].due_ns > now) {
				i++;
				continue;
			}
			events[got++] = out[i].event;
			out[i] = out[--out_count];
		}
		if (got >= least || (end >= 0 && now >= end))
			return (int)got;
		usleep(20);
	}
}

static int is_direct(int fd)
{
	(void)fd;
	return stand_in_direct;
}

const struct linnet_aio linnet_aio = {setup, destroy, submit, getevents, is_direct, now_ns};
