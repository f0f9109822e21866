/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The system calls that liblinnet needs, as a table, so that a test can replace them by a device that revokes. */
#ifndef LINNET_AIO_H
#define LINNET_AIO_H

#include <linux/aio_abi.h>
#include <time.h>

/* Each is the system call of this name, and returns a negative errno on failure. */
struct linnet_aio {
	int (*setup)(unsigned depth, aio_context_t *context);
	int (*destroy)(aio_context_t context);
	int (*submit)(aio_context_t context, struct iocb *iocb);
	int (*getevents)(aio_context_t context, long least, long most, struct io_event *events,
			 const struct timespec *timeout);
	/* True if the descriptor was opened with O_DIRECT. */
	int (*is_direct)(int fd);
	/* Nanoseconds of CLOCK_MONOTONIC. */
	long long (*now_ns)(void);
};

extern const struct linnet_aio linnet_aio;

#endif
