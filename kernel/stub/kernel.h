/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The parts of Linux that kernel/dm uses, in user space and in one thread: types, locks, memory, per-CPU data; work.h
 * has work queues and timers. Every <linux/...> header is this one and block.h. Misuse that a kernel might not notice
 * ends the program here: sleeping under a lock, a lock taken twice, a counter below zero.
 *
 * Names that begin with stub_ are controlled by the test.
 */
#ifndef STUB_KERNEL_H
#define STUB_KERNEL_H

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef unsigned int gfp_t;
typedef unsigned int fmode_t;
typedef unsigned int blk_mode_t;
typedef u64 sector_t;

#define U32_MAX UINT32_MAX
#define U64_MAX UINT64_MAX
#define __percpu
#define __rcu
#define __iomem
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#define noinline __attribute__((__noinline__))
#define __init
#define __exit
#define __must_check
#define __printf(a, b)
#define ____cacheline_aligned_in_smp __attribute__((aligned(64)))
#define __aligned(n) __attribute__((aligned(n)))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile typeof(x) *)&(x) = (v))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define BIT(n) (1UL << (n))
#define BIT_ULL(n) (1ULL << (n))
#define BITS_PER_LONG 64
#define BITS_TO_LONGS(n) (((n) + 63) / 64)
#define DIV_ROUND_UP(a, b) (((a) + (b) - 1) / (b))
#define min(a, b) ({ typeof(a) a_ = (a); typeof(b) b_ = (b); a_ < b_ ? a_ : b_; })
#define max(a, b) ({ typeof(a) a_ = (a); typeof(b) b_ = (b); a_ > b_ ? a_ : b_; })
#define min_t(t, a, b) min((t)(a), (t)(b))
#define max_t(t, a, b) max((t)(a), (t)(b))
#define clamp(v, lo, hi) min(max(v, lo), hi)
#define container_of(p, type, member) ((type *)((char *)(p) - offsetof(type, member)))
#define struct_size(p, member, n) (sizeof(*(p)) + sizeof(*(p)->member) * (n))
#define IS_ENABLED(option) 0
#ifdef STUB_THREADS
#define cpu_relax() __builtin_ia32_pause()
#else
#define cpu_relax() ((void)0)
#endif
#define cond_resched() stub_might_sleep("cond_resched")
#define might_sleep() stub_might_sleep("might_sleep")
#define barrier() __asm__ volatile("" ::: "memory")
#define smp_mb() ({ barrier(); stub_point(); })
#define smp_rmb() barrier()
#define smp_wmb() barrier()
#define smp_mb__after_atomic() ({ barrier(); stub_point(); })
#define smp_load_acquire(p) (stub_point(), READ_ONCE(*(p)))
#define smp_store_release(p, v) ({ WRITE_ONCE(*(p), v); stub_point(); })
#define prefetchw(p) __builtin_prefetch(p, 1)
#define BUG() stub_die("BUG")
#define BUG_ON(x) ((x) ? stub_die("BUG_ON " #x) : (void)0)
#define WARN_ON(x) ({ bool bad_ = (x); if (bad_) stub_die("WARN_ON " #x); bad_; })
#define WARN_ON_ONCE(x) WARN_ON(x)
#define IS_ERR(p) ((unsigned long)(p) >= (unsigned long)-4095)
#define IS_ERR_OR_NULL(p) (!(p) || IS_ERR(p))
#define ERR_PTR(e) ((void *)(long)(e))
#define PTR_ERR(p) ((long)(p))
#define ERR_CAST(p) ((void *)(p))

__attribute__((noreturn)) void stub_die(const char *what);

/* ---- context: whether code may sleep now ---- */

/* With STUB_THREADS (cpus.c) each thread is a CPU: locks are locks, and the clock is the processor's. */
#ifdef STUB_THREADS
#define STUB_LOCAL _Thread_local
#else
#define STUB_LOCAL
#endif
extern STUB_LOCAL unsigned int stub_atomic; /* locks held, RCU readers, preemption off */
extern u64 stub_now;                        /* the clock, nanoseconds */
extern STUB_LOCAL unsigned int stub_cpu;
/* An action of another CPU just before the next raw lock is taken, once. NULL: none. */
extern void (*stub_meanwhile)(void);
#ifdef STUB_THREADS
#define STUB_CPUS 64
#else
#define STUB_CPUS 2
#endif
extern unsigned int stub_locks, stub_readers; /* locks held; RCU readers */
/*
 * Another CPU acts in between: at the stub_points'th place from now where it could, stub_other is called. These
 * places are before and after locks and barriers, while no lock is held.
 */
extern unsigned int stub_points;
void stub_preempt(void (*other)(void));
extern void (*stub_other)(void);
#ifdef STUB_NO_TRACE /* only the target's instructions are counted */
#define STUB_TRACK(change) ((void)0)
#else
#define STUB_TRACK(change) ((void)(change))
#endif
static inline void stub_point(void)
{
	STUB_TRACK(unlikely(stub_points) && !stub_locks && !--stub_points && (stub_preempt(stub_other), 1));
}

static inline void stub_might_sleep(const char *who)
{
	if (unlikely(stub_atomic))
		stub_die(who);
}
#ifdef STUB_THREADS
extern u64 stub_clock; /* 0: it runs */
extern u64 stub_tick;  /* of the processor's counter, in 2^-32 ns; cpus.c measures it */
static inline u64 ktime_get_ns(void)
{
	return stub_clock ?: (u64)((unsigned __int128)__builtin_ia32_rdtsc() * stub_tick >> 32);
}
#else
static inline u64 ktime_get_ns(void) { return stub_now; }
#endif
#define preempt_disable() ((void)stub_atomic++)
#define preempt_enable() ((void)stub_atomic--)
#define local_bh_disable() preempt_disable()
#define local_bh_enable() preempt_enable()
#define local_irq_save(f) ((f) = 0)
#define local_irq_restore(f) ((void)(f))
#define smp_processor_id() stub_cpu
#define raw_smp_processor_id() stub_cpu

typedef struct { unsigned int held; } spinlock_t;
typedef spinlock_t raw_spinlock_t;
static inline void spin_lock(spinlock_t *l)
{
#ifdef STUB_THREADS
	while (__atomic_exchange_n(&l->held, 1, __ATOMIC_ACQUIRE))
		while (READ_ONCE(l->held))
			cpu_relax();
#else
	if (unlikely(l->held))
		stub_die("a lock is taken twice");
	l->held = 1;
#endif
	STUB_TRACK(stub_locks++);
	stub_atomic++;
}
static inline void spin_unlock(spinlock_t *l)
{
	if (unlikely(!READ_ONCE(l->held)))
		stub_die("a lock is released that is not held");
#ifdef STUB_THREADS
	__atomic_store_n(&l->held, 0, __ATOMIC_RELEASE);
#else
	l->held = 0;
#endif
	STUB_TRACK(stub_locks--);
	stub_atomic--;
}
#define spin_lock_init(l) ((l)->held = 0)
#define spin_lock_irq(l) (stub_point(), spin_lock(l))
#define spin_unlock_irq(l) (spin_unlock(l), stub_point())
#define spin_lock_irqsave(l, f) ((f) = 0, stub_point(), spin_lock(l))
#define spin_unlock_irqrestore(l, f) ((void)(f), spin_unlock(l), stub_point())
#define raw_spin_lock_init(l) spin_lock_init(l)
#define raw_spin_lock_bh(l) spin_lock(l)
#define raw_spin_lock_irq(l) spin_lock(l)
#define raw_spin_unlock_irq(l) spin_unlock(l)
#define raw_spin_unlock_bh(l) spin_unlock(l)
static inline void stub_let_others(void)
{
	void (*others)(void) = stub_meanwhile;

	stub_meanwhile = NULL;
	if (others)
		stub_preempt(others);
}
static inline bool stub_trylock(spinlock_t *l)
{
#ifdef STUB_THREADS
	if (READ_ONCE(l->held) || __atomic_exchange_n(&l->held, 1, __ATOMIC_ACQUIRE))
		return false;
#else
	if (l->held)
		return false;
	l->held = 1;
#endif
	STUB_TRACK(stub_locks++);
	stub_atomic++;
	return true;
}
#ifdef STUB_NO_TRACE
#define raw_spin_lock_irqsave(l, f) spin_lock_irqsave(l, f)
#define raw_spin_lock(l) spin_lock(l)
#define raw_spin_trylock(l) stub_trylock(l)
#else
#define raw_spin_lock_irqsave(l, f) (stub_let_others(), spin_lock_irqsave(l, f))
#define raw_spin_lock(l) (stub_let_others(), stub_point(), spin_lock(l))
#define raw_spin_trylock(l) (stub_let_others(), stub_point(), stub_trylock(l))
#endif
#define raw_spin_unlock(l) (spin_unlock(l), stub_point())
#define raw_spin_unlock_irqrestore(l, f) spin_unlock_irqrestore(l, f)
#define lockdep_is_held(l) ((l)->held)
#define lockdep_assert_held(l) BUG_ON(!(l)->held)

/*
 * A rule of lockdep, in whichever order the two are seen: a mutex that a suspend or a resume takes while it holds I/O
 * (stub_suspends) may not be held while memory is waited for, which that I/O may have to free.
 */
struct mutex { bool held, by_suspend, over_memory; struct mutex *outer; };
extern STUB_LOCAL struct mutex *stub_mutexes; /* held, the last first */
extern bool stub_suspends;
static inline void stub_mutex_order(const struct mutex *m)
{
	if (m->by_suspend && m->over_memory)
		stub_die("a mutex that a suspend or a resume needs is held by one who waits for memory");
}
static inline void mutex_lock(struct mutex *m)
{
	stub_might_sleep("mutex_lock");
	if (m->held)
		stub_die("a mutex is taken twice");
	m->held = true;
	m->by_suspend |= stub_suspends;
	stub_mutex_order(m);
	m->outer = stub_mutexes;
	stub_mutexes = m;
}
static inline void mutex_unlock(struct mutex *m)
{
	BUG_ON(!m->held || stub_mutexes != m);
	m->held = false;
	stub_mutexes = m->outer;
}
#define DEFINE_MUTEX(name) struct mutex name
#define mutex_init(m) (*(m) = (struct mutex){ false })
#define mutex_destroy(m) BUG_ON((m)->held)

/* From here on this thread may read what others write: for ThreadSanitizer (make races). */
#ifdef STUB_RACES
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
extern STUB_LOCAL bool stub_races;
static inline void stub_may_race(bool may)
{
	if (may != stub_races)
		(may ? AnnotateIgnoreReadsBegin : AnnotateIgnoreReadsEnd)(__FILE__, __LINE__);
	stub_races = may;
}
#else
static inline void stub_may_race(bool may)
{
}
#endif

typedef struct { unsigned int n; } seqcount_raw_spinlock_t;
typedef seqcount_raw_spinlock_t seqcount_t;
#define seqcount_raw_spinlock_init(s, l) ((s)->n = 0)
#ifdef STUB_THREADS
#define stub_order() barrier() /* x86 keeps the order of stores, and of loads */
#else
#define stub_order() ((void)0)
#endif
#define raw_write_seqcount_begin(s) ({ (s)->n++; stub_order(); })
#define raw_write_seqcount_end(s) ({ stub_order(); (s)->n++; })
#define raw_seqcount_begin(s) ({ unsigned int n_ = READ_ONCE((s)->n) & ~1u; stub_order(); stub_may_race(true); n_; })
#define read_seqcount_retry(s, was) ({ stub_may_race(false); stub_order(); READ_ONCE((s)->n) != (was); })

#define rcu_read_lock() ((void)stub_atomic++, STUB_TRACK(stub_readers++))
#define rcu_read_unlock() ((void)stub_atomic--, STUB_TRACK(stub_readers--))
#define rcu_dereference(p) READ_ONCE(p)
#define rcu_dereference_protected(p, c) (BUG_ON(!(c)), (p))
#define rcu_access_pointer(p) READ_ONCE(p)
#define rcu_assign_pointer(p, v) WRITE_ONCE(p, v)
#define RCU_INIT_POINTER(p, v) WRITE_ONCE(p, v)
#define rcu_replace_pointer(p, v, c) ({ typeof(p) was_ = rcu_dereference_protected(p, c); (p) = (v); was_; })
#define synchronize_rcu() (stub_might_sleep("synchronize_rcu"), BUG_ON(stub_readers))
#define synchronize_rcu_expedited() stub_might_sleep("synchronize_rcu")
#define rcu_barrier() stub_might_sleep("rcu_barrier")

/* ---- numbers and bits ---- */

#define NSEC_PER_USEC 1000L
#define NSEC_PER_MSEC 1000000L
#define NSEC_PER_SEC 1000000000L
#define HZ 250
typedef struct { int counter; } atomic_t;
#define atomic_set(a, n) WRITE_ONCE((a)->counter, n)
#define atomic_read(a) READ_ONCE((a)->counter)
#define atomic_inc(a) ((void)(a)->counter++)
#define atomic_dec(a) ((void)(a)->counter--)
#define atomic_dec_and_test(a) (--(a)->counter == 0)
static inline int atomic_cmpxchg(atomic_t *a, int old, int new)
{
	int was = a->counter;

	if (was == old)
		a->counter = new;
	return was;
}
/* Nobody else could make the condition true. */
typedef struct { int stub; } wait_queue_head_t;
#define init_waitqueue_head(q) ((q)->stub = 0)
#define wait_event(q, condition) do { stub_might_sleep("wait_event"); (void)&(q); BUG_ON(!(condition)); } while (0)
#define wq_has_sleeper(q) ((void)(q), false)
#define TASK_UNINTERRUPTIBLE 2
#define wait_on_bit(p, n, mode) stub_wait_on_bit(p, n)
#define clear_and_wake_up_bit(n, p) clear_bit(n, p)
#define wake_up(q) ((void)(q))
struct list_head { struct list_head *next, *prev; };
#define LIST_HEAD(name) struct list_head name = { &name, &name }
static inline void list_add(struct list_head *entry, struct list_head *head)
{
	*entry = (struct list_head){ head->next, head };
	head->next->prev = entry;
	head->next = entry;
}
#define INIT_LIST_HEAD(l) ((l)->next = (l)->prev = (l))
static inline void list_add_tail(struct list_head *entry, struct list_head *head)
{
	list_add(entry, head->prev);
}
static inline void list_del(struct list_head *entry)
{
	entry->next->prev = entry->prev;
	entry->prev->next = entry->next;
}
static inline void list_del_init(struct list_head *entry)
{
	list_del(entry);
	INIT_LIST_HEAD(entry);
}
#define list_empty(head) ((head)->next == (head))
#define list_first_entry_or_null(head, type, member) \
	((head)->next == (head) ? NULL : container_of((head)->next, type, member))
#define list_for_each_entry(p, head, member) \
	for ((p) = container_of((head)->next, typeof(*(p)), member); &(p)->member != (head); \
	     (p) = container_of((p)->member.next, typeof(*(p)), member))

struct llist_node { struct llist_node *next; };
struct llist_head { struct llist_node *first; };
#define init_llist_head(l) ((l)->first = NULL)
#define llist_entry(p, type, member) container_of(p, type, member)
#define llist_empty(l) (!READ_ONCE((l)->first))
#ifdef STUB_THREADS
static inline bool llist_add(struct llist_node *node, struct llist_head *head)
{
	struct llist_node *first = READ_ONCE(head->first);

	do
		node->next = first;
	while (!__atomic_compare_exchange_n(&head->first, &first, node, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
	return !first;
}
#define llist_del_all(head) __atomic_exchange_n(&(head)->first, NULL, __ATOMIC_SEQ_CST)
#else
static inline bool llist_add(struct llist_node *node, struct llist_head *head)
{
	node->next = head->first;
	head->first = node;
	return !node->next;
}
static inline struct llist_node *llist_del_all(struct llist_head *head)
{
	struct llist_node *first = head->first;

	head->first = NULL;
	return first;
}
#endif
static inline struct llist_node *llist_reverse_order(struct llist_node *node)
{
	struct llist_node *reversed = NULL, *next;

	for (; node; node = next) {
		next = node->next;
		node->next = reversed;
		reversed = node;
	}
	return reversed;
}
struct kref { int n; };
#define kref_init(k) ((k)->n = 1)
#define kref_get(k) do { BUG_ON((k)->n < 1); (k)->n++; } while (0)
static inline int kref_put(struct kref *k, void (*release)(struct kref *k))
{
	BUG_ON(k->n < 1);
	if (--k->n)
		return 0;
	release(k);
	return 1;
}
#define __set_bit(n, p) ((void)((p)[(n) / 64] |= BIT((n) % 64)))
#define __clear_bit(n, p) ((void)((p)[(n) / 64] &= ~BIT((n) % 64)))
#define set_bit(n, p) __set_bit(n, p)
#define clear_bit(n, p) __clear_bit(n, p)
#define test_bit(n, p) (READ_ONCE((p)[(n) / 64]) >> ((n) % 64) & 1)
#define test_and_set_bit(n, p) ({ bool was_ = test_bit(n, p); set_bit(n, p); was_; })
#define test_and_clear_bit(n, p) ({ bool was_ = test_bit(n, p); clear_bit(n, p); was_; })
#define __ffs(x) ((unsigned long)__builtin_ctzl(x))
#define ffs(x) __builtin_ffs((int)(x))
#define fls64(x) ({ u64 x_ = (x); x_ ? 64 - __builtin_clzll(x_) : 0; })
#define hweight32(x) ((unsigned int)__builtin_popcount(x))
#define hweight8(x) hweight32((x) & 0xff)
#define is_power_of_2(n) ((n) && !((n) & ((n) - 1)))
static inline unsigned long roundup_pow_of_two(unsigned long n) { return n < 2 ? 1 : 1UL << (64 - __builtin_clzl(n - 1)); }

/* ---- memory: allocations fail when the test says so ---- */

#define GFP_KERNEL 1u
/* I/O is held at a device: who waits for memory may wait for that, but within memalloc_noio_save. */
extern bool stub_held;
extern unsigned int stub_noio;
#define memalloc_noio_save() (stub_noio++)
#define memalloc_noio_restore(flags) ((void)(stub_noio = (flags)))
#define GFP_ATOMIC 2u
#define GFP_NOWAIT 2u
#define __GFP_NOWARN 0u
#define __GFP_ZERO 4u
extern long stub_alloc_left; /* allocations until one fails, and then 0; below zero: none fails */
void *stub_alloc(size_t size, gfp_t flags);
/* Ends the program where that would be a deadlock. */
void stub_might_wait_for_memory(const char *who);
#define kmalloc(n, f) stub_alloc(n, f)
#define kzalloc(n, f) stub_alloc(n, (f) | __GFP_ZERO)
#define kcalloc(n, m, f) stub_alloc((size_t)(n) * (m), (f) | __GFP_ZERO)
#define kmalloc_array(n, m, f) stub_alloc((size_t)(n) * (m), f)
#define kvmalloc(n, f) kmalloc(n, f)
#define kvzalloc(n, f) kzalloc(n, f)
#define kvcalloc(n, m, f) kcalloc(n, m, f)
#define vmalloc(n) kmalloc(n, GFP_KERNEL)
#define vzalloc(n) kzalloc(n, GFP_KERNEL)
#define kfree(p) free((void *)(p))
#define kvfree(p) free((void *)(p))
#define vfree(p) free((void *)(p))

/* Distance between the data of two CPUs. */
#define STUB_STRIDE (32u << 10)
void *__alloc_percpu(size_t size, size_t align);
#define alloc_percpu(type) ((type *)__alloc_percpu(sizeof(type), __alignof__(type)))
#define free_percpu(p) free((void *)(p))
#define per_cpu_ptr(p, cpu) ((typeof(p))((char *)(p) + (size_t)(cpu) * STUB_STRIDE))
#define this_cpu_ptr(p) per_cpu_ptr(p, stub_cpu)
#define raw_cpu_ptr(p) this_cpu_ptr(p)
#define get_cpu_ptr(p) (preempt_disable(), this_cpu_ptr(p))
#define put_cpu_ptr(p) ((void)(p), preempt_enable())
#define this_cpu_inc(field) ((void)((*(typeof(&(field)))((char *)&(field) + stub_cpu * STUB_STRIDE))++))
#define this_cpu_add(field, n) ((void)((*(typeof(&(field)))((char *)&(field) + stub_cpu * STUB_STRIDE)) += (n)))
#define for_each_possible_cpu(cpu) for ((cpu) = 0; (cpu) < STUB_CPUS; (cpu)++)

#define PAGE_SIZE 4096u
struct page { char bytes[PAGE_SIZE]; };
#define __GFP_COMP 0u
#define get_order(size) ((size) > PAGE_SIZE ? 1 + fls64(((size) - 1) / (2 * PAGE_SIZE)) : 0)
#define alloc_pages(f, order) ((struct page *)stub_alloc((size_t)PAGE_SIZE << (order), f))
#define __free_pages(p, order) free(p)

/* Pools with a reserve. A taker that may wait would wait for ever here, so only those that do not are allowed. */
typedef struct mempool { size_t size; int reserve, taken; } mempool_t;
mempool_t *stub_mempool(int reserve, size_t size);
#define mempool_create_page_pool(n, order) stub_mempool(n, (size_t)PAGE_SIZE << (order))
#define mempool_create_kmalloc_pool(n, size) stub_mempool(n, size)
void *mempool_alloc(mempool_t *pool, gfp_t flags);
extern void (*stub_pool_used)(void); /* what another CPU does while memory is taken from a pool; once */
void mempool_free(void *element, mempool_t *pool);
void mempool_destroy(mempool_t *pool);

/* ---- strings ---- */

int kstrtou16(const char *text, unsigned int base, u16 *n);
int kstrtou32(const char *text, unsigned int base, u32 *n);
int kstrtoull(const char *text, unsigned int base, unsigned long long *n);
#define kstrtouint(t, b, n) kstrtou32(t, b, n)
#define kstrtou64(t, b, n) kstrtoull(t, b, (unsigned long long *)(n))
int match_string(const char *const *names, size_t n, const char *name);
ssize_t strscpy(char *to, const char *from, size_t size);
__attribute__((format(printf, 3, 4))) int scnprintf(char *to, size_t size, const char *format, ...);

/* The kernel's version accepts no minus before an unsigned number. */
int stub_sscanf(const char *text, const char *format, ...);
#define sscanf(...) stub_sscanf(__VA_ARGS__)

#include "work.h"

/* ---- modules ---- */

typedef unsigned int uint;
#define THIS_MODULE NULL
/* A check may change it through stub_param_<name>. */
#define module_param(name, type, mode) type *const stub_param_##name = &name
#define MODULE_PARM_DESC(name, text) _Static_assert(1, "")
#define MODULE_ALIAS(text) _Static_assert(1, "")
#define MODULE_DESCRIPTION(text) _Static_assert(1, "")
#define MODULE_LICENSE(text) _Static_assert(1, "")
#define MODULE_VERSION(text) _Static_assert(1, "")
#define MODULE_AUTHOR(text) _Static_assert(1, "")
#define module_init(f) int stub_init(void) { return f(); }
#define module_exit(f) void stub_exit(void) { f(); }
int stub_init(void);
void stub_exit(void);

#endif
