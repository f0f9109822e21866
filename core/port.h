/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * All that the core needs from its host.
 *
 *   fixed-width integers, size_t, NULL   <stdint.h> and <stddef.h>, or <linux/types.h> in the kernel
 *   a 128-bit integer                    the compiler's (64-bit targets)
 *
 * Nothing else: no library, allocator, clock, lock or log. Copies and fills are written out below with a
 * barrier in the loop, so that the compiler does not turn them into calls of memcpy and memset.
 */
#ifndef LINNET_PORT_H
#define LINNET_PORT_H

#ifdef __KERNEL__
#include <linux/types.h>
#include <linux/stddef.h>
#else
#include <stddef.h>
#include <stdint.h>
#endif

#ifndef __SIZEOF_INT128__
#error "linnet needs a 64-bit target with 128-bit integers"
#endif

__extension__ typedef __int128 linnet_int128;
__extension__ typedef unsigned __int128 linnet_uint128;

/* Copies n bytes between regions that do not overlap. For small, cold copies. */
static inline void linnet_copy(void *to, const void *from, size_t n)
{
	unsigned char *t = to;
	const unsigned char *f = from;

	for (size_t i = 0; i < n; i++) {
		t[i] = f[i];
		__asm__ volatile("");
	}
}

/* Sets n bytes to zero. For small, cold fills. */
static inline void linnet_zero(void *to, size_t n)
{
	unsigned char *t = to;

	for (size_t i = 0; i < n; i++) {
		t[i] = 0;
		__asm__ volatile("");
	}
}

#endif
