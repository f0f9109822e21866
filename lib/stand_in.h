/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Stands in for Linux AIO on devices that revoke: aio.h in user space. */
#ifndef LINNET_STAND_IN_H
#define LINNET_STAND_IN_H

#include "aio.h"

struct stand_in_read {
	int fd;
	unsigned tag; /* 0: untagged */
	long long offset;
	size_t size;
};

/* What a replica answers: a negative errno, or 0 to read the file. `delay_us` may be set. */
extern long (*stand_in_answer)(const struct stand_in_read *read, unsigned *delay_us);
/* What the system call itself returns: a negative errno, or 0 to accept. */
extern int (*stand_in_refuse)(const struct stand_in_read *read);
/* Whether descriptors count as O_DIRECT. */
extern int stand_in_direct;

#endif
