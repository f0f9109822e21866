// SPDX-License-Identifier: GPL-2.0-only
/* The implementation of kernel.h: memory and strings. */
#include <stdarg.h>

#include "block.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

STUB_LOCAL unsigned int stub_atomic, stub_cpu;
unsigned int stub_logged, stub_locks, stub_readers, stub_points;
void (*stub_other)(void);
void (*stub_meanwhile)(void);
u64 stub_now = 1000000000;
#ifdef STUB_THREADS
u64 stub_clock, stub_tick;
#endif
long stub_alloc_left = -1;
bool stub_verbose, stub_held;
unsigned int stub_noio;
STUB_LOCAL struct mutex *stub_mutexes;
bool stub_suspends;

void stub_die(const char *what)
{
	fprintf(stderr, "stub: %s\n", what);
	abort();
}

void stub_preempt(void (*other)(void))
{
	unsigned int own_atomic = stub_atomic, own_cpu = stub_cpu;
	struct mutex *own_mutexes = stub_mutexes;
	bool own_suspends = stub_suspends;

	stub_atomic = 0;
	stub_cpu = !own_cpu;
	stub_mutexes = NULL;
	stub_suspends = false;
	other();
	stub_atomic = own_atomic;
	stub_cpu = own_cpu;
	stub_mutexes = own_mutexes;
	stub_suspends = own_suspends;
}

char stub_said[512];

void stub_log(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(stub_said, sizeof(stub_said), format, args);
	va_end(args);
	stub_logged++;
	if (stub_verbose)
		fprintf(stderr, "log: %s\n", stub_said);
}

/* ---- memory and strings ---- */

void stub_might_wait_for_memory(const char *who)
{
	stub_might_sleep(who);
	if (stub_reclaims || ((stub_held || stub_suspends) && !stub_noio))
		stub_die(who);
	for (struct mutex *m = stub_mutexes; m && !stub_noio; m = m->outer) {
		m->over_memory = true;
		stub_mutex_order(m);
	}
}

void *stub_alloc(size_t size, gfp_t flags)
{
	void *memory;

	if (flags & GFP_KERNEL)
		stub_might_wait_for_memory("an allocation that may sleep");
	if (stub_alloc_left >= 0 && stub_alloc_left-- == 0) {
		stub_alloc_left = -1;
		return NULL;
	}
	/* Aligned like kmalloc's powers of two, and filled so that no code can rely on zeros. */
	memory = aligned_alloc(64, (size + 63) / 64 * 64 + (size == 0) * 64);
	if (!memory)
		stub_die("out of memory");
	memset(memory, flags & __GFP_ZERO ? 0 : 0xa5, (size + 63) / 64 * 64);
	ASAN_POISON_MEMORY_REGION((char *)memory + size, (size + 63) / 64 * 64 - size);
	return memory;
}

void *__alloc_percpu(size_t size, size_t align)
{
	char *memory;

	BUG_ON(size > STUB_STRIDE || align > 4096);
	memory = stub_alloc(STUB_CPUS * STUB_STRIDE, GFP_KERNEL | __GFP_ZERO);
	for (unsigned int cpu = 0; memory && cpu < STUB_CPUS; cpu++)
		ASAN_POISON_MEMORY_REGION(memory + cpu * STUB_STRIDE + size, STUB_STRIDE - size);
	return memory;
}

mempool_t *stub_mempool(int reserve, size_t size)
{
	mempool_t *pool = stub_alloc(sizeof(*pool), GFP_KERNEL);

	if (pool)
		*pool = (mempool_t){ .size = size, .reserve = reserve };
	return pool;
}

void (*stub_pool_used)(void);

void *mempool_alloc(mempool_t *pool, gfp_t flags)
{
	void (*meanwhile)(void) = stub_pool_used;
	void *element;

	BUG_ON(flags & GFP_KERNEL);
	stub_pool_used = NULL;
	if (meanwhile)
		meanwhile();
	element = stub_alloc(pool->size, flags);
	pool->taken += element != NULL;
	return element;
}

void mempool_free(void *element, mempool_t *pool)
{
	BUG_ON(pool->taken-- == 0);
	free(element);
}

void mempool_destroy(mempool_t *pool)
{
	BUG_ON(pool && pool->taken);
	free(pool);
}

/* Like Linux: a number and at most one newline, nothing else. */
int kstrtoull(const char *text, unsigned int base, unsigned long long *n)
{
	unsigned long long value;
	char *end;

	if (!isalnum((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, (int)base);
	if (end == text)
		return -EINVAL;
	if (errno == ERANGE)
		return -ERANGE;
	if (*end == '\n')
		end++;
	if (*end)
		return -EINVAL;
	*n = value;
	return 0;
}

#define KSTRTO(name, type, limit)                                        \
	int name(const char *text, unsigned int base, type *n)           \
	{                                                                \
		unsigned long long value;                                \
		int error = kstrtoull(text, base, &value);               \
									 \
		if (error)                                               \
			return error;                                    \
		if (value > (limit))                                     \
			return -ERANGE;                                  \
		*n = (type)value;                                        \
		return 0;                                                \
	}
KSTRTO(kstrtou16, u16, UINT16_MAX)
KSTRTO(kstrtou32, u32, UINT32_MAX)

int match_string(const char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n && names[i]; i++)
		if (!strcmp(names[i], name))
			return (int)i;
	return -EINVAL;
}

ssize_t strscpy(char *to, const char *from, size_t size)
{
	size_t n = strlen(from);

	if (size == 0)
		return -E2BIG;
	memcpy(to, from, n < size ? n + 1 : size);
	to[size - 1] = n < size ? to[size - 1] : 0;
	return n < size ? (ssize_t)n : -E2BIG;
}

int stub_sscanf(const char *text, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = *text == '-' || *text == '+' || isspace((unsigned char)*text) ? 0 : vsscanf(text, format, args);
	va_end(args);
	return n;
}

int scnprintf(char *to, size_t size, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(to, size, format, args);
	va_end(args);
	return n < 0 || size == 0 ? 0 : (size_t)n < size ? n : (int)size - 1;
}

#ifdef STUB_RACES
/*
 * With READ_ONCE and WRITE_ONCE the code says that others may write at the same time: as in KCSAN, the compiler marks
 * volatile accesses, and they are no races.
 */
#define MARKED(name) void __tsan_volatile_##name(void *at); void __tsan_volatile_##name(void *at) {}
MARKED(read1) MARKED(read2) MARKED(read4) MARKED(read8) MARKED(read16)
MARKED(write1) MARKED(write2) MARKED(write4) MARKED(write8) MARKED(write16)
STUB_LOCAL bool stub_races;
#endif
