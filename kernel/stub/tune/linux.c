// SPDX-License-Identifier: GPL-2.0-only
/* The implementation of linux.h. */
#include "linux.h"

#include <stdarg.h>

#undef snprintf
#define DIE(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), abort())

__thread struct task_struct stub_task;
u64 stub_now = NSEC_PER_SEC;
unsigned int stub_fail_one_in;
const char *stub_firmware;
bool stub_has_demands = true, stub_threads;

/* ---- words ---- */

void stub_log(const char *format, ...)
{
	va_list words;

	if (!getenv("STUB_LOG"))
		return;
	va_start(words, format);
	vfprintf(stderr, format, words);
	va_end(words);
}

int stub_print(char *to, size_t size, const char *format, ...)
{
	va_list words;
	int n;

	va_start(words, format);
	if (!strcmp(format, "%pD"))
		n = snprintf(to, size, "%s", va_arg(words, struct file *)->name);
	else
		n = vsnprintf(to, size, format, words);
	va_end(words);
	return n < (int)size ? n : (int)size - 1;
}

ssize_t strscpy(char *to, const char *from, size_t size)
{
	size_t n = strnlen(from, size - 1);

	memcpy(to, from, n);
	to[n] = 0;
	return (ssize_t)n;
}

char *strim(char *text)
{
	size_t n = strlen(text);

	while (n && isspace((unsigned char)text[n - 1]))
		text[--n] = 0;
	while (isspace((unsigned char)*text))
		text++;
	return text;
}

int kstrtoint(const char *text, unsigned int base, int *n)
{
	char *end;
	long found = strtol(text, &end, (int)base);

	if (end == text || *end || found != (int)found)
		return -EINVAL;
	*n = (int)found;
	return 0;
}

/* ---- floats ---- */

static __thread int fpu;

void kernel_fpu_begin(void)
{
	if (fpu++)
		DIE("kernel_fpu_begin within a section");
}

void kernel_fpu_end(void)
{
	if (--fpu)
		DIE("kernel_fpu_end outside a section");
}

/* The compiler calls these where a function of such a unit begins and ends. */
void __cyg_profile_func_enter(void *function, void *from);
void __cyg_profile_func_exit(void *function, void *from);

void __cyg_profile_func_enter(void *function, void *from)
{
	if (!fpu)
		DIE("floats outside kernel_fpu_begin and kernel_fpu_end");
}

void __cyg_profile_func_exit(void *function, void *from)
{
}

/* ---- memory ---- */

static unsigned int allocations;

void *stub_alloc(size_t size)
{
	unsigned int n = __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED), one_in = READ_ONCE(stub_fail_one_in);

	return one_in && n % one_in == 0 ? NULL : calloc(1, size);
}

struct kmem_cache *stub_cache(size_t size)
{
	struct kmem_cache *cache = stub_alloc(sizeof(*cache));

	if (cache)
		cache->size = size;
	return cache;
}

void *stub_cache_alloc(struct kmem_cache *cache)
{
	void *object = stub_alloc(cache->size);

	if (object)
		__atomic_fetch_add(&cache->objects, 1, __ATOMIC_RELAXED);
	return object;
}

void kmem_cache_free(struct kmem_cache *cache, void *object)
{
	__atomic_fetch_sub(&cache->objects, 1, __ATOMIC_RELAXED);
	free(object);
}

void kmem_cache_destroy(struct kmem_cache *cache)
{
	if (READ_ONCE(cache->objects))
		DIE("a cache that has objects is destroyed");
	free(cache);
}

/* ---- RCU ---- */

/* Who waits for a grace period comes before new readers, or readers that follow each other would keep it waiting. */
static pthread_rwlock_t readers = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static pthread_mutex_t waiting_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rcu_head *waiting;
static __thread int depth;

void rcu_read_lock(void)
{
	if (depth++ == 0)
		pthread_rwlock_rdlock(&readers);
}

void rcu_read_unlock(void)
{
	if (--depth == 0)
		pthread_rwlock_unlock(&readers);
}

void synchronize_rcu(void)
{
	if (depth)
		DIE("synchronize_rcu by a reader");
	pthread_rwlock_wrlock(&readers);
	pthread_rwlock_unlock(&readers);
}

void call_rcu(struct rcu_head *rcu, void (*call)(struct rcu_head *rcu))
{
	pthread_mutex_lock(&waiting_lock);
	rcu->call = call;
	rcu->next = waiting;
	waiting = rcu;
	pthread_mutex_unlock(&waiting_lock);
}

void stub_free_rcu(struct rcu_head *rcu, void *what)
{
	rcu->free = what;
	call_rcu(rcu, NULL);
}

void stub_grace(void)
{
	struct rcu_head *all, *next;

	pthread_mutex_lock(&waiting_lock);
	all = waiting;
	waiting = NULL;
	pthread_mutex_unlock(&waiting_lock);
	synchronize_rcu();
	for (; all; all = next) {
		next = all->next;
		if (all->call)
			all->call(all);
		else
			free(all->free);
	}
}

void rcu_barrier(void)
{
	stub_grace();
}

void stub_reading(void)
{
	if (!depth)
		DIE("a look-up outside rcu_read_lock");
}

/* ---- devices, hooks ---- */

int lookup_bdev(const char *path, dev_t *device)
{
	*device = MKDEV(8, 0);
	return strcmp(path, "/dev/sda") ? -ENOENT : 0;
}

void (*stub_on_resched)(void);
bool stub_breakpoints, stub_kprobes_off, stub_ftrace_off;
void (*stub_on_last_trace)(void), (*stub_on_swap)(void), (*stub_on_unhook)(void);
static struct ftrace_ops *hook; /* there is one */
static struct kprobe *probes[16];
static struct tracepoint points[] = {
	{ "mm_filemap_add_to_page_cache", NULL },
	{ "mm_filemap_get_pages", NULL },
	{ "mm_filemap_map_pages", NULL },
	{ "mm_filemap_fault", NULL },
};

static void once(void (**call)(void))
{
	void (*then)(void) = *call;

	*call = NULL;
	if (then)
		then();
}

void stub_swapping(void)
{
	if (stub_on_swap)
		once(&stub_on_swap);
}

int register_kprobe(struct kprobe *probe)
{
	if (!stub_has_demands && !strcmp(probe->symbol_name, "filemap_splice_read"))
		return -ENOENT;
	if (stub_breakpoints && !(probe->flags & KPROBE_FLAG_DISABLED))
		DIE("a hook is attached as a breakpoint");
	for (size_t p = 0; p < ARRAY_SIZE(probes); p++)
		if (!READ_ONCE(probes[p])) {
			rcu_assign_pointer(probes[p], probe);
			return 0;
		}
	return -ENOSPC;
}

void unregister_kprobe(struct kprobe *probe)
{
	for (size_t p = 0; p < ARRAY_SIZE(probes); p++)
		if (READ_ONCE(probes[p]) == probe)
			WRITE_ONCE(probes[p], NULL);
	synchronize_rcu();
}

void stub_kprobe(const char *symbol, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	struct pt_regs regs = { { a, b, c, d } };

	rcu_read_lock();
	for (size_t p = 0; p < ARRAY_SIZE(probes) && !READ_ONCE(stub_kprobes_off); p++) {
		struct kprobe *probe = rcu_dereference(probes[p]);

		if (probe && !strcmp(probe->symbol_name, symbol) && !(probe->flags & KPROBE_FLAG_DISABLED))
			probe->pre_handler(probe, &regs);
	}
	rcu_read_unlock();
}

int ftrace_set_filter(struct ftrace_ops *ops, unsigned char *symbol, int size, int reset)
{
	if (size != 6 || memcmp(symbol, "__fput", 6))
		return -EINVAL;
	ops->symbol = "__fput";
	return 0;
}

void ftrace_free_filter(struct ftrace_ops *ops)
{
	if (READ_ONCE(hook) == ops)
		DIE("the filter of a hook that is attached");
	ops->symbol = NULL;
}

int register_ftrace_function(struct ftrace_ops *ops)
{
	if (!ops->symbol || READ_ONCE(hook))
		DIE("a hook of every function, or a second one");
	if (stub_ftrace_off && (ops->flags & FTRACE_OPS_FL_PERMANENT))
		return -EBUSY;
	rcu_assign_pointer(hook, ops);
	return 0;
}

int unregister_ftrace_function(struct ftrace_ops *ops)
{
	if (READ_ONCE(hook) != ops)
		DIE("a hook that is not attached");
	/* As the kernel's, which changes code: who no longer calls the hook sees all that was done before. */
	rcu_assign_pointer(hook, NULL);
	synchronize_rcu();
	once(&stub_on_unhook);
	return 0;
}

void stub_ftrace(const char *symbol, unsigned long a)
{
	struct ftrace_regs entry = { .regs = { { a } } };
	struct ftrace_ops *ops;

	rcu_read_lock();
	ops = rcu_dereference(hook);
	if (ops && !strcmp(ops->symbol, symbol))
		ops->func(0, 0, ops, &entry);
	rcu_read_unlock();
}

void for_each_kernel_tracepoint(void (*call)(struct tracepoint *point, void *with), void *with)
{
	for (size_t t = 0; t < (stub_has_demands ? ARRAY_SIZE(points) : 1); t++)
		call(&points[t], with);
}

int tracepoint_probe_register(struct tracepoint *point, void *call, void *with)
{
	if (stub_on_last_trace && point == &points[ARRAY_SIZE(points) - 1]) {
		once(&stub_on_last_trace);
		return -ENOMEM;
	}
	rcu_assign_pointer(point->call, call);
	return 0;
}

int tracepoint_probe_unregister(struct tracepoint *point, void *call, void *with)
{
	WRITE_ONCE(point->call, NULL);
	return 0;
}

void *stub_trace(const char *name)
{
	for (size_t t = 0; t < ARRAY_SIZE(points); t++)
		if (!strcmp(points[t].name, name))
			return rcu_dereference(points[t].call);
	return NULL;
}

/* ---- the work queue: run by a thread of its own if stub_threads, otherwise by the check (stub_run_work) ---- */

static pthread_mutex_t work_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_changed = PTHREAD_COND_INITIALIZER;
static struct delayed_work *due;
static bool running, ending;
static pthread_t worker;

bool stub_run_work(void)
{
	struct delayed_work *work;

	pthread_mutex_lock(&work_lock);
	work = due;
	due = NULL;
	running = work;
	if (work)
		work->pending = false;
	pthread_mutex_unlock(&work_lock);
	if (!work)
		return false;
	work->work.call(&work->work);
	pthread_mutex_lock(&work_lock);
	running = false;
	pthread_cond_broadcast(&work_changed);
	pthread_mutex_unlock(&work_lock);
	return true;
}

static void *work_on(void *unused)
{
	pthread_mutex_lock(&work_lock);
	while (!ending) {
		if (!due) {
			pthread_cond_wait(&work_changed, &work_lock);
			continue;
		}
		pthread_mutex_unlock(&work_lock);
		__atomic_fetch_add(&stub_now, 200 * NSEC_PER_MSEC, __ATOMIC_RELAXED);
		stub_run_work();
		stub_grace();
		pthread_mutex_lock(&work_lock);
	}
	pthread_mutex_unlock(&work_lock);
	return NULL;
}

struct workqueue_struct *stub_queue(void)
{
	struct workqueue_struct *queue = stub_alloc(sizeof(*queue));

	ending = false;
	if (queue && stub_threads)
		pthread_create(&worker, NULL, work_on, NULL);
	return queue;
}

void destroy_workqueue(struct workqueue_struct *queue)
{
	pthread_mutex_lock(&work_lock);
	if (due)
		DIE("a queue that still has work is destroyed");
	ending = true;
	pthread_cond_broadcast(&work_changed);
	pthread_mutex_unlock(&work_lock);
	if (stub_threads)
		pthread_join(worker, NULL);
	free(queue);
}

bool queue_delayed_work(struct workqueue_struct *queue, struct delayed_work *work, unsigned long after)
{
	bool queued;

	pthread_mutex_lock(&work_lock);
	queued = !work->pending;
	work->pending = true;
	due = work;
	pthread_cond_broadcast(&work_changed);
	pthread_mutex_unlock(&work_lock);
	return queued;
}

/* As in Linux, this also drops work that queues itself again during the wait. */
bool cancel_delayed_work_sync(struct delayed_work *work)
{
	bool was;

	pthread_mutex_lock(&work_lock);
	while (running)
		pthread_cond_wait(&work_changed, &work_lock);
	was = work->pending;
	work->pending = false;
	due = NULL;
	pthread_mutex_unlock(&work_lock);
	return was;
}

/* ---- parameters: no check sets those that are numbers ---- */

int param_set_uint_minmax(const char *value, const struct kernel_param *kp, unsigned int least, unsigned int most)
{
	return -EINVAL;
}

int param_get_uint(char *buffer, const struct kernel_param *kp)
{
	return -EINVAL;
}

/* ---- firmware, debugfs ---- */

int request_firmware_direct(const struct firmware **file, const char *name, void *device)
{
	FILE *from = stub_firmware ? fopen(stub_firmware, "rb") : NULL;
	struct firmware *found;
	u8 *bytes;

	if (!from)
		return -ENOENT;
	bytes = calloc(1, 1 << 21);
	found = calloc(1, sizeof(*found));
	found->size = fread(bytes, 1, 1 << 21, from);
	found->data = bytes;
	fclose(from);
	*file = found;
	return 0;
}

void release_firmware(const struct firmware *file)
{
	free((void *)file->data);
	free((void *)file);
}

static struct { const char *name; const struct file_operations *fops; } shown[8];

struct dentry *debugfs_create_dir(const char *name, struct dentry *in)
{
	return NULL;
}

void debugfs_create_file(const char *name, int mode, struct dentry *in, void *data, const struct file_operations *fops)
{
	size_t s = 0;

	while (shown[s].name)
		s++;
	shown[s].name = name;
	shown[s].fops = fops;
}

void debugfs_remove_recursive(struct dentry *folder)
{
	memset(shown, 0, sizeof(shown));
}

ssize_t simple_read_from_buffer(void *to, size_t count, loff_t *at, const void *from, size_t size)
{
	count = min(count, size - min((size_t)*at, size));
	if (count)
		memcpy(to, (const char *)from + *at, count);
	*at += (loff_t)count;
	return (ssize_t)count;
}

char *stub_show(const char *name, size_t *size)
{
	struct file file = { { 0 } };
	struct seq_file out;
	char *text = NULL;
	loff_t at = 0;
	size_t s = 0;

	while (shown[s].name && strcmp(shown[s].name, name))
		s++;
	if (!shown[s].name)
		return NULL;
	if (shown[s].fops->show) {
		out.to = open_memstream(&text, size);
		shown[s].fops->show(&out, NULL);
		fclose(out.to);
		return text;
	}
	if (shown[s].fops->open(NULL, &file))
		return NULL;
	text = calloc(1, 1 << 21);
	*size = (size_t)shown[s].fops->read(&file, text, 1 << 21, &at);
	shown[s].fops->release(NULL, &file);
	return text;
}
