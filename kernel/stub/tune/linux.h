/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A small Linux in user space for kernel/tune, with real threads: locks are those of pthreads, RCU is a lock for
 * readers and writers with callbacks after the last reader, and the work queue is a thread. What the address and thread
 * sanitizers find in kernel/tune is then an error there and not here.
 */
#ifndef STUB_TUNE_LINUX_H
#define STUB_TUNE_LINUX_H

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef unsigned int uint;
typedef unsigned long pgoff_t;
typedef unsigned int gfp_t;
#define __user
#define __rcu
#define __init
#define __exit

/* ---- words ---- */
#define READ_ONCE(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELAXED)
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define container_of(p, type, member) ((type *)((char *)(p) - offsetof(type, member)))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define min_t(type, a, b) min((type)(a), (type)(b))
#define max_t(type, a, b) max((type)(a), (type)(b))
#define clamp(x, low, high) min(max(x, low), high)
#define U32_MAX UINT32_MAX
#define BUILD_BUG_ON(wrong) ((void)0) /* they are about Linux's own structures */
#define static_assert(holds) _Static_assert(holds, #holds)
#define notrace
#define __maybe_unused __attribute__((unused))
#define IS_ERR(p) ((uintptr_t)(p) >= (uintptr_t)-4095)
#define PAGE_SHIFT 12
#define PAGE_SIZE 4096ul
#define NSEC_PER_SEC 1000000000ull
#define NSEC_PER_MSEC 1000000ull
#define pr_err(...) stub_log(__VA_ARGS__)
void stub_log(const char *format, ...);
#define scnprintf(...) stub_print(__VA_ARGS__)
#define snprintf(...) stub_print(__VA_ARGS__)
/* Knows %pD, the name of an open file, which must then be all of the format. */
int stub_print(char *to, size_t size, const char *format, ...);
ssize_t strscpy(char *to, const char *from, size_t size);
char *strim(char *text);
int kstrtoint(const char *text, unsigned int base, int *n);

/* ---- atomics, bits ---- */
typedef struct { long n; } atomic64_t;
typedef struct { int n; } atomic_t;
#define atomic64_inc(a) ((void)__atomic_fetch_add(&(a)->n, 1, __ATOMIC_RELAXED))
#define atomic64_read(a) __atomic_load_n(&(a)->n, __ATOMIC_RELAXED)
#define atomic_read(a) __atomic_load_n(&(a)->n, __ATOMIC_RELAXED)
#define smp_mb__after_atomic() ((void)0) /* the operations on bits below are ordered by themselves */
#define smp_mb__before_atomic() ((void)0)
#define smp_load_acquire(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define cmpxchg(p, old, new) (stub_swapping(), __sync_val_compare_and_swap(p, old, new))
void stub_swapping(void);
#define BIT(b) (1ul << (b))
#define set_bit(b, p) ((void)__atomic_fetch_or(p, 1ul << (b), __ATOMIC_SEQ_CST))
#define clear_bit(b, p) ((void)__atomic_fetch_and(p, ~(1ul << (b)), __ATOMIC_SEQ_CST))
#define test_bit(b, p) (__atomic_load_n(p, __ATOMIC_RELAXED) >> (b) & 1)
#define test_and_set_bit(b, p) (__atomic_fetch_or(p, 1ul << (b), __ATOMIC_SEQ_CST) >> (b) & 1)
#define test_and_clear_bit(b, p) (__atomic_fetch_and(p, ~(1ul << (b)), __ATOMIC_SEQ_CST) >> (b) & 1)

/* ---- variables of each CPU: here all threads have the same one ---- */
#define DECLARE_PER_CPU(type, name) extern type name
#define DEFINE_PER_CPU(type, name) type name
#define per_cpu(name, cpu) (name)
#define this_cpu_inc(word) ((void)__atomic_fetch_add(&(word), 1, __ATOMIC_RELAXED))
#define for_each_possible_cpu(cpu) for (cpu = 0; cpu < 1; cpu++)

/* ---- locks ---- */
typedef pthread_mutex_t raw_spinlock_t;
#define DEFINE_RAW_SPINLOCK(name) pthread_mutex_t name = PTHREAD_MUTEX_INITIALIZER
#define raw_spin_lock_init(l) pthread_mutex_init(l, NULL)
#define raw_spin_lock(l) pthread_mutex_lock(l)
#define raw_spin_unlock(l) pthread_mutex_unlock(l)
struct mutex { pthread_mutex_t lock; };
#define DEFINE_MUTEX(name) struct mutex name = { PTHREAD_MUTEX_INITIALIZER }
#define mutex_lock(m) pthread_mutex_lock(&(m)->lock)
#define mutex_unlock(m) pthread_mutex_unlock(&(m)->lock)
extern void (*stub_on_resched)(void); /* if set, called where the worker lets others run */
#define cond_resched() (stub_on_resched ? stub_on_resched() : (void)sched_yield())
struct task_struct { int pid; };
extern __thread struct task_struct stub_task;
#define current (&stub_task)

/* ---- RCU ---- */
struct rcu_head {
	struct rcu_head *next;
	void (*call)(struct rcu_head *rcu);
	void *free;
};
void rcu_read_lock(void);
void rcu_read_unlock(void);
void synchronize_rcu(void);
void rcu_barrier(void);
void call_rcu(struct rcu_head *rcu, void (*call)(struct rcu_head *rcu));
void stub_free_rcu(struct rcu_head *rcu, void *what);
#define kfree_rcu(p, member) stub_free_rcu(&(p)->member, p)
#define rcu_dereference(p) __atomic_load_n(&(p), __ATOMIC_ACQUIRE)
#define rcu_dereference_raw(p) __atomic_load_n(&(p), __ATOMIC_ACQUIRE)
#define rcu_dereference_protected(p, why) (p) /* a plain read, as in Linux: the caller excludes writers */
#define rcu_access_pointer(p) READ_ONCE(p)
#define rcu_assign_pointer(p, v) __atomic_store_n(&(p), v, __ATOMIC_RELEASE)

/* ---- lists ---- */
struct list_head { struct list_head *next, *prev; };
#define LIST_HEAD(name) struct list_head name = { &name, &name }
#define list_entry(p, type, member) container_of(p, type, member)
#define list_next_rcu(l) ((l)->next)
static inline void list_add_tail_rcu(struct list_head *one, struct list_head *head)
{
	one->next = head;
	one->prev = head->prev;
	rcu_assign_pointer(head->prev->next, one);
	head->prev = one;
}
static inline void list_del_rcu(struct list_head *one)
{
	one->next->prev = one->prev;
	WRITE_ONCE(one->prev->next, one->next);
}

struct hlist_node { struct hlist_node *next, **pprev; };
struct hlist_head { struct hlist_node *first; };
#define INIT_HLIST_HEAD(head) ((void)((head)->first = NULL))
static inline void hlist_add_head_rcu(struct hlist_node *one, struct hlist_head *head)
{
	one->next = head->first;
	one->pprev = &head->first;
	if (one->next)
		one->next->pprev = &one->next;
	rcu_assign_pointer(head->first, one);
}
static inline void hlist_del_rcu(struct hlist_node *one)
{
	WRITE_ONCE(*one->pprev, one->next);
	if (one->next)
		one->next->pprev = one->pprev;
}
#define hlist_object(p, type, member) ((p) ? container_of(p, type, member) : NULL)
#define stub_walk(pos, head, member, read)                                                    \
	for (pos = hlist_object(read((head)->first), __typeof__(*pos), member); pos;           \
	     pos = hlist_object(read(pos->member.next), __typeof__(*pos), member))
#define hlist_for_each_entry(pos, head, member) stub_walk(pos, head, member, )
#define hlist_for_each_entry_rcu(pos, head, member) stub_reading(); stub_walk(pos, head, member, rcu_dereference)
#define hlist_for_each_entry_safe(pos, n, head, member)                                       \
	for (pos = hlist_object((head)->first, __typeof__(*pos), member);                      \
	     pos && (n = pos->member.next, 1); pos = hlist_object(n, __typeof__(*pos), member))
/* Ends the check unless it is called between rcu_read_lock and rcu_read_unlock. */
void stub_reading(void);
/* FNV-1a, and Knuth's multiplication. */
static inline u32 jhash(const void *key, u32 size, u32 hash)
{
	const u8 *bytes = key;

	for (hash ^= 2166136261u; size--; bytes++)
		hash = (hash ^ *bytes) * 16777619u;
	return hash;
}
#define get_random_u32() 0x9747b28cu
#define hash_ptr(p, bits) ((u32)((u64)(uintptr_t)(p) * 0x9e3779b97f4a7c15ull >> (64 - (bits))))

/* ---- memory: one allocation in `stub_fail_one_in` fails, 0: none ---- */
#define GFP_KERNEL 1u
#define GFP_NOWAIT 2u
#define __GFP_NOWARN 0u
extern unsigned int stub_fail_one_in;
void *stub_alloc(size_t size);
#define kmalloc(n, f) stub_alloc(n)
#define kzalloc(n, f) stub_alloc(n)
#define kvmalloc(n, f) stub_alloc(n)
#define kvcalloc(n, m, f) stub_alloc((size_t)(n) * (m))
#define kvmalloc_array(n, m, f) stub_alloc((size_t)(n) * (m))
#define kfree(p) free((void *)(p))
#define kvfree(p) free((void *)(p))
#define kstrdup(text, f) strdup(text)
struct kmem_cache { size_t size; long objects; };
#define KMEM_CACHE(type, flags) stub_cache(sizeof(struct type))
struct kmem_cache *stub_cache(size_t size);
void *stub_cache_alloc(struct kmem_cache *cache);
#define kmem_cache_zalloc(c, f) stub_cache_alloc(c)
void kmem_cache_free(struct kmem_cache *cache, void *object);
/* Ends the check where objects are left. */
void kmem_cache_destroy(struct kmem_cache *cache);

/* ---- files ---- */
typedef unsigned int fmode_t;
#define FMODE_RANDOM 0x1000u
#define FMODE_NOREUSE 0x800000u
#define IOCB_DIRECT 1
#define IOCB_NOWAIT 2
#define IOCB_WAITQ 4
#define VM_RAND_READ 1ul
#define VM_SEQ_READ 2ul
#define MAJOR(d) ((unsigned int)((d) >> 20))
#define MINOR(d) ((unsigned int)((d) & 0xfffff))
#define MKDEV(a, b) ((dev_t)((a) << 20 | (b)))
struct backing_dev_info { unsigned long ra_pages; };
struct gendisk { dev_t dev; };
#define disk_devt(d) ((d)->dev)
struct block_device { struct gendisk *bd_disk; };
#define BTRFS_SUPER_MAGIC 0x9123683eul
struct super_block { dev_t s_dev; struct backing_dev_info *s_bdi; struct block_device *s_bdev; unsigned long s_magic; };
struct inode { unsigned int i_mode, i_generation; unsigned long i_ino; struct super_block *i_sb; long long size; };
#define i_size_read(i) ((i)->size)
struct address_space { struct inode *host; };
struct file_ra_state { unsigned int ra_pages; };
struct file { struct file_ra_state f_ra; unsigned int f_mode, f_flags; long f_count; struct address_space *f_mapping; const char *name; void *private_data; };
#define file_count(f) READ_ONCE((f)->f_count)
struct folio { struct address_space *mapping; pgoff_t index; unsigned int pages; };
#define folio_nr_pages(f) ((f)->pages)
struct kiocb { struct file *ki_filp; long long ki_pos; int ki_flags; };
struct iov_iter { size_t count; };
#define iov_iter_count(i) ((i)->count)
struct vm_area_struct { struct file *vm_file; unsigned long vm_flags; };
struct vm_fault { struct vm_area_struct *vma; pgoff_t pgoff; };
struct readahead_control { struct file *file; struct file_ra_state *ra; };
int lookup_bdev(const char *path, dev_t *device);

/* ---- what hooks.c attaches to: declared only, and each in a line of its own for the check of prototypes ---- */
typedef unsigned int vm_fault_t;
struct pipe_inode_info;
#define LINNET_SPLICE_READ
ssize_t filemap_read(struct kiocb *iocb, struct iov_iter *to, ssize_t already_read);
ssize_t filemap_splice_read(struct file *in, loff_t *at, struct pipe_inode_info *pipe, size_t size, unsigned int flags);
vm_fault_t filemap_map_pages(struct vm_fault *fault, pgoff_t start, pgoff_t end);
vm_fault_t filemap_fault(struct vm_fault *fault);
void page_cache_sync_ra(struct readahead_control *control, unsigned long count);
void page_cache_async_ra(struct readahead_control *control, struct folio *folio, unsigned long count);
#define LINNET_TRACED_FAULTS
#define TRACEPOINT(name, ...) static inline void check_trace_callback_type_##name(void (*call)(void *data, __VA_ARGS__)) {}
TRACEPOINT(mm_filemap_add_to_page_cache, struct folio *folio)
TRACEPOINT(mm_filemap_map_pages, struct address_space *mapping, pgoff_t start, pgoff_t last)
TRACEPOINT(mm_filemap_fault, struct address_space *mapping, pgoff_t index)

/* ---- hooks ---- */
struct pt_regs { unsigned long arguments[4]; };
#define regs_get_kernel_argument(r, n) ((r)->arguments[n])
struct kprobe {
	const char *symbol_name;
	int (*pre_handler)(struct kprobe *probe, struct pt_regs *regs);
	unsigned long nmissed;
	unsigned int flags;
};
#define KPROBE_FLAG_DISABLED 2u
int register_kprobe(struct kprobe *probe);
void unregister_kprobe(struct kprobe *probe);
/* Whether kprobes are breakpoints, not hooks of ftrace. One that is armed ends the check. */
extern bool stub_breakpoints;
extern bool stub_kprobes_off; /* whether the administrator has turned all of them off */
#define kprobe_ftrace(p) (!stub_breakpoints)
#define CONFIG_DYNAMIC_FTRACE_WITH_REGS
struct ftrace_regs { struct pt_regs regs; };
#define ftrace_get_regs(r) (&(r)->regs)
#define FTRACE_OPS_FL_SAVE_REGS 1u
#define FTRACE_OPS_FL_PERMANENT 2u
struct ftrace_ops {
	void (*func)(unsigned long at, unsigned long from, struct ftrace_ops *ops, struct ftrace_regs *entry);
	unsigned long flags;
	const char *symbol; /* the stub's */
};
extern bool stub_ftrace_off;
int ftrace_set_filter(struct ftrace_ops *ops, unsigned char *symbol, int size, int reset);
void ftrace_free_filter(struct ftrace_ops *ops);
int register_ftrace_function(struct ftrace_ops *ops);
int unregister_ftrace_function(struct ftrace_ops *ops);
struct tracepoint { const char *name; void *call; };
void for_each_kernel_tracepoint(void (*call)(struct tracepoint *point, void *with), void *with);
int tracepoint_probe_register(struct tracepoint *point, void *call, void *with);
int tracepoint_probe_unregister(struct tracepoint *point, void *call, void *with);
#define tracepoint_synchronize_unregister() synchronize_rcu()

/* ---- time, work ---- */
extern u64 stub_now;
#define ktime_get_ns() __atomic_load_n(&stub_now, __ATOMIC_RELAXED)
#define msecs_to_jiffies(ms) (ms)
struct work_struct { void (*call)(struct work_struct *work); };
struct delayed_work { struct work_struct work; bool pending; };
#define DECLARE_DELAYED_WORK(name, f) struct delayed_work name = { .work.call = f }
struct workqueue_struct { int unused; };
#define WQ_UNBOUND 1
#define WQ_MEM_RECLAIM 2
struct workqueue_struct *stub_queue(void);
#define alloc_workqueue(...) stub_queue()
void destroy_workqueue(struct workqueue_struct *queue);
bool queue_delayed_work(struct workqueue_struct *queue, struct delayed_work *work, unsigned long after);
bool cancel_delayed_work_sync(struct delayed_work *work);
/*
 * Sections do not nest. Outside of them, a call of any function of a unit that computes in floats ends the check: the
 * compiler may use vectors in each of these functions.
 */
void kernel_fpu_begin(void);
void kernel_fpu_end(void);

/* ---- parameters, firmware, debugfs ---- */
struct kernel_param { int unused; };
struct kernel_param_ops {
	int (*set)(const char *value, const struct kernel_param *kp);
	int (*get)(char *buffer, const struct kernel_param *kp);
};
#define module_param_named(name, variable, type, mode) _Static_assert(1, "")
#define module_param_cb(name, ops, with, mode) _Static_assert(1, ""); static const void *name##_set __attribute__((unused)) = ops
int param_set_uint_minmax(const char *value, const struct kernel_param *kp, unsigned int least, unsigned int most);
int param_get_uint(char *buffer, const struct kernel_param *kp);
#define MODULE_PARM_DESC(name, text) _Static_assert(1, "")
#define MODULE_DESCRIPTION(text) _Static_assert(1, "")
#define MODULE_LICENSE(text) _Static_assert(1, "")
#define THIS_MODULE NULL
#define module_init(f) int stub_init(void) { return f(); }
#define module_exit(f) void stub_exit(void) { f(); }
int stub_init(void);
void stub_exit(void);
struct firmware { size_t size; const u8 *data; };
extern const char *stub_firmware; /* the path of the only file */
/* Not request_firmware(), which may wait a minute for somebody who brings a file that is missing. */
int request_firmware_direct(const struct firmware **file, const char *name, void *device);
void release_firmware(const struct firmware *file);
struct seq_file { FILE *to; };
#define seq_printf(s, ...) fprintf((s)->to, __VA_ARGS__)
#define seq_puts(s, text) fputs(text, (s)->to)
#define DEFINE_SHOW_ATTRIBUTE(what) static const struct file_operations what##_fops = { .show = what##_show }
struct file_operations {
	void *owner, *llseek;
	int (*show)(struct seq_file *out, void *unused);
	int (*open)(struct inode *inode, struct file *file);
	ssize_t (*read)(struct file *file, char *to, size_t count, loff_t *at);
	int (*release)(struct inode *inode, struct file *file);
};
#define default_llseek NULL
struct dentry { int unused; };
struct dentry *debugfs_create_dir(const char *name, struct dentry *in);
void debugfs_create_file(const char *name, int mode, struct dentry *in, void *data, const struct file_operations *fops);
void debugfs_remove_recursive(struct dentry *folder);
ssize_t simple_read_from_buffer(void *to, size_t count, loff_t *at, const void *from, size_t size);
/* What a file of debugfs says now; to be freed. NULL where it is not there or cannot be opened. */
char *stub_show(const char *name, size_t *size);

/* ---- what a check does ---- */
void stub_kprobe(const char *symbol, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
void stub_ftrace(const char *symbol, unsigned long a);
/* If set, called once by the tracepoint that is attached last, which then cannot be attached. */
extern void (*stub_on_last_trace)(void);
/* The probe of a tracepoint, or NULL; call it between rcu_read_lock and rcu_read_unlock. */
void *stub_trace(const char *name);
/* If set, each is called once: by the next cmpxchg, before it; when the hook of ftrace has just gone. */
extern void (*stub_on_swap)(void), (*stub_on_unhook)(void);
extern bool stub_has_demands; /* whether the kernel has the tracepoints and functions of 6.12 */
/* Without its thread, work runs when a check says so. Returns whether there was some. */
extern bool stub_threads;
bool stub_run_work(void);
/* Runs the callbacks of RCU whose readers have gone. */
void stub_grace(void);

#endif
