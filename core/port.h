/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Everything that the core needs from its host.
 *
 *   fixed-width integers, size_t, NULL   <stdint.h> and <stddef.h>, or <linux/types.h> in the kernel
 *   a 128-bit integer                    the compiler's (64-bit targets)
 *   atomic loads, stores, compare-swap   the compiler's, on aligned 32 and 64 bits
 *   the usual arithmetic of floats       where they are used: rounding to nearest, and subnormal numbers are kept. Programs
 *                                        that GCC links with -ffast-math take these for 0 (FTZ, DAZ): training gives other
 *                                        bits, and linnet_fast_tree_leaf other leaves than linnet_tree_leaf
 *
 * Nothing else: no library, allocator, clock, lock or log. Copies and fills of memory are written out below with a
 * barrier in the loop, so that the compiler does not turn them into calls of memcpy and memset. Of other loops it may
 * still do so, but not with -ffreestanding -fno-builtin: then the core calls nothing, as GCC and Clang compile it. The
 * archive of `make lib` is compiled so.
 */
#ifndef LINNET_PORT_H
#define LINNET_PORT_H

#ifdef __KERNEL__
#include <linux/types.h>
#include <linux/stddef.h>
/* Names that <stdint.h> defines besides the types. */
#define UINT8_MAX 0xff
#define INT16_MAX 0x7fff
#define INT16_MIN (-INT16_MAX - 1)
#define UINT32_MAX 0xffffffffU
#define INT32_MAX 0x7fffffff
#define INT32_MIN (-INT32_MAX - 1)
#define INT64_MAX 0x7fffffffffffffffLL
#define INT64_MIN (-INT64_MAX - 1)
#define UINT64_MAX 0xffffffffffffffffULL
#define UINT64_C(n) n##ULL
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
	unsigned char *t = (unsigned char *)to;
	const unsigned char *f = (const unsigned char *)from;

	for (size_t i = 0; i < n; i++) {
		t[i] = f[i];
		__asm__ volatile("");
	}
}

/* Sets n bytes to zero. For small, cold fills. */
static inline void linnet_zero(void *to, size_t n)
{
	unsigned char *t = (unsigned char *)to;

	for (size_t i = 0; i < n; i++) {
		t[i] = 0;
		__asm__ volatile("");
	}
}

/* Loads a number that other CPUs change. Acquire: also sees everything written before it was stored. */
static inline uint64_t linnet_load(const uint64_t *at)
{
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static inline uint64_t linnet_load_relaxed(const uint64_t *at)
{
	return __atomic_load_n(at, __ATOMIC_RELAXED);
}

/* Release: a CPU that sees the number also sees everything that was written before. */
static inline void linnet_store(uint64_t *at, uint64_t n)
{
	__atomic_store_n(at, n, __ATOMIC_RELEASE);
}

static inline void linnet_store_relaxed(uint64_t *at, uint64_t n)
{
	__atomic_store_n(at, n, __ATOMIC_RELAXED);
}

/* Acquire: no load before it moves after it. Release: no store after it moves before it. */
static inline void linnet_fence_acquire(void)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
}

static inline void linnet_fence_release(void)
{
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline uint32_t linnet_load32(const uint32_t *at)
{
	return __atomic_load_n(at, __ATOMIC_RELAXED);
}

static inline void linnet_store32(uint32_t *at, uint32_t n)
{
	__atomic_store_n(at, n, __ATOMIC_RELAXED);
}

/* Stores n if *at equals *seen; otherwise copies *at to *seen and returns 0. */
static inline int linnet_swap32(uint32_t *at, uint32_t *seen, uint32_t n)
{
	return __atomic_compare_exchange_n(at, seen, n, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

#endif
