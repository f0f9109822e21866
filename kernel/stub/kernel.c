// SPDX-License-Identifier: GPL-2.0-only
/* The implementation of kernel.h: memory, strings, work queues. */
#include <stdarg.h>

#include "block.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

unsigned int stub_atomic, stub_cpu, stub_logged;
void (*stub_meanwhile)(void);
u64 stub_now = 1000000000;
long stub_alloc_left = -1;
bool stub_verbose;

void stub_die(const char *what)
{
	fprintf(stderr, "stub: %s\n", what);
	abort();
}

void stub_log(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	stub_logged++;
	if (stub_verbose)
		fprintf(stderr, "log: %s\n", text);
}

/* ---- memory and strings ---- */

void *stub_alloc(size_t size, gfp_t flags)
{
	void *memory;

	if (flags & GFP_KERNEL)
		stub_might_sleep("an allocation that may sleep");
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

/* ---- work queues ---- */

static struct workqueue_struct *queues;

struct workqueue_struct *stub_queue(void)
{
	struct workqueue_struct *queue = stub_alloc(sizeof(*queue), GFP_KERNEL | __GFP_ZERO);

	if (queue) {
		queue->next = queues;
		queues = queue;
	}
	return queue;
}

bool queue_work(struct workqueue_struct *queue, struct work_struct *work)
{
	struct work_struct **at = &queue->first;

	if (work->queue)
		return false;
	while (*at)
		at = &(*at)->next;
	*at = work;
	work->next = NULL;
	work->queue = queue;
	return true;
}

static bool run_first(struct workqueue_struct *queue)
{
	struct work_struct *work = queue->first;

	if (!work)
		return false;
	queue->first = work->next;
	work->queue = NULL;
	work->func(work);
	if (stub_atomic)
		stub_die("work ended with a lock held");
	return true;
}

unsigned int stub_run_works(void)
{
	unsigned int count = 0;
	bool ran;

	do {
		ran = false;
		for (struct workqueue_struct *queue = queues; queue; queue = queue->next)
			while (run_first(queue)) {
				ran = true;
				count++;
			}
	} while (ran);
	return count;
}

bool cancel_work_sync(struct work_struct *work)
{
	struct work_struct **at;

	stub_might_sleep("cancel_work_sync");
	if (!work->queue)
		return false;
	for (at = &work->queue->first; *at != work; at = &(*at)->next)
		;
	*at = work->next;
	work->queue = NULL;
	return true;
}

void flush_workqueue(struct workqueue_struct *queue)
{
	stub_might_sleep("flush_workqueue");
	while (run_first(queue))
		;
}

bool flush_work(struct work_struct *work)
{
	struct workqueue_struct *queue = work->queue;

	if (queue)
		flush_workqueue(queue);
	return queue != NULL;
}

void destroy_workqueue(struct workqueue_struct *queue)
{
	struct workqueue_struct **at = &queues;

	flush_workqueue(queue);
	while (*at != queue)
		at = &(*at)->next;
	*at = queue->next;
	free(queue);
}

/* ---- timers ---- */

static struct hrtimer *timers;
void (*stub_while_asleep)(void);

void hrtimer_init(struct hrtimer *timer, int clock, enum hrtimer_mode mode)
{
	(void)clock;
	(void)mode;
	*timer = (struct hrtimer){ .listed = true, .next = timers };
	timers = timer;
}

void hrtimer_start(struct hrtimer *timer, ktime_t expires, enum hrtimer_mode mode)
{
	(void)mode;
	BUG_ON(!timer->listed);
	timer->expires = expires;
	timer->set = true;
}

int hrtimer_cancel(struct hrtimer *timer)
{
	struct hrtimer **at = &timers;

	stub_might_sleep("hrtimer_cancel");
	while (*at != timer)
		at = &(*at)->next;
	*at = timer->next;
	timer->listed = false;
	return timer->set;
}

unsigned int stub_run_timers(void)
{
	unsigned int count = 0;

	for (struct hrtimer *timer = timers; timer; timer = timer->next) {
		if (!timer->set || timer->expires > (ktime_t)stub_now)
			continue;
		timer->set = false;
		stub_atomic++;
		timer->set = timer->function(timer) == HRTIMER_RESTART || timer->set;
		stub_atomic--;
		count++;
	}
	return count;
}

void msleep(unsigned int ms)
{
	stub_might_sleep("msleep");
	if (!stub_while_asleep)
		stub_die("a sleep that nobody ends");
	stub_now += ms * NSEC_PER_MSEC;
	stub_while_asleep();
}
