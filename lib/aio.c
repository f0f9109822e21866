/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Linux AIO by system calls. Only here can a read without RWF_NOWAIT have its own priority and get just one answer. */
#define _GNU_SOURCE
#include "aio.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int setup(unsigned depth, aio_context_t *context)
{
	*context = 0;
	return syscall(SYS_io_setup, depth, context) < 0 ? -errno : 0;
}

static int destroy(aio_context_t context)
{
	return syscall(SYS_io_destroy, context) < 0 ? -errno : 0;
}

static int submit(aio_context_t context, struct iocb *iocb)
{
	long accepted = syscall(SYS_io_submit, context, 1L, &iocb);

	return accepted < 0 ? -errno : accepted == 1 ? 0 : -EAGAIN;
}

static int getevents(aio_context_t context, long least, long most, struct io_event *events,
		     const struct timespec *timeout)
{
	long got = syscall(SYS_io_getevents, context, least, most, events, timeout);

	return got < 0 ? -errno : (int)got;
}

static int is_direct(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_DIRECT);
}

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

const struct linnet_aio linnet_aio = {setup, destroy, submit, getevents, is_direct, now_ns};
