/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Replaces Linux AIO with simulated devices that revoke; implements aio.h in user space. */
#ifndef LINNET_STAND_IN_H
#define LINNET_STAND_IN_H

#include "aio.h"

struct stand_in_read {
	int fd;
	unsigned tag; /* 0: untagged */
	long long offset;
	size_t size;
};

/* The answer of a replica: a negative errno, 0 to read the file, or the most bytes of it. May set `delay_us`. */
extern long (*stand_in_answer)(const struct stand_in_read *read, unsigned *delay_us);
/* The result of the system call itself: a negative errno, or 0 to accept. */
extern int (*stand_in_refuse)(const struct stand_in_read *read);
/* Whether descriptors count as O_DIRECT. */
extern int stand_in_direct;
/* The next call of getevents gives this error, negative, without an answer; then it is 0 again. */
extern int stand_in_getevents_error;
/* Contexts set up and not destroyed. */
extern int stand_in_contexts;

#endif
