/* SPDX-License-Identifier: GPL-2.0-only */
/* Work queues and timers for kernel.h. Both run when the test says so. */
#ifndef STUB_WORK_H
#define STUB_WORK_H

/* ---- work queues ---- */

struct work_struct {
	void (*func)(struct work_struct *work);
	struct work_struct *next;
	struct workqueue_struct *queue; /* pending on this queue */
};
struct delayed_work { struct work_struct work; };
struct workqueue_struct { struct work_struct *first; struct workqueue_struct *next; bool reclaim, runs; };
#define WQ_MEM_RECLAIM 1
#define WQ_UNBOUND 2
#define WQ_HIGHPRI 4
#define INIT_WORK(w, f) (*(w) = (struct work_struct){ .func = (f) })
#define INIT_DELAYED_WORK(w, f) INIT_WORK(&(w)->work, f)
struct workqueue_struct *stub_queue(int flags);
#define alloc_workqueue(name, flags, ...) stub_queue(flags)
#define alloc_ordered_workqueue(name, flags) stub_queue(flags)
/* Work of a WQ_MEM_RECLAIM queue runs: memory is freed by I/O that waits for it, so it may not wait for memory. */
extern bool stub_reclaims;
void destroy_workqueue(struct workqueue_struct *queue);
bool queue_work(struct workqueue_struct *queue, struct work_struct *work);
bool cancel_work_sync(struct work_struct *work);
void flush_workqueue(struct workqueue_struct *queue);
bool schedule_work(struct work_struct *work);
#define drain_workqueue(q) flush_workqueue(q)
#define queue_delayed_work(q, w, t) queue_work(q, &(w)->work)
#define mod_delayed_work(q, w, t) queue_work(q, &(w)->work)
#define cancel_delayed_work_sync(w) cancel_work_sync(&(w)->work)
bool flush_work(struct work_struct *work);
/*
 * Runs pending work, including work that it queues. Returns the number of items. Memory is short: while work of a
 * WQ_MEM_RECLAIM queue runs, the queue's only thread, its rescuer, is at it, and no other work of that queue runs.
 */
unsigned int stub_run_works(void);

/* ---- timers ---- */

typedef s64 ktime_t;
#define ns_to_ktime(ns) ((ktime_t)(ns))
#define CLOCK_MONOTONIC 1
enum hrtimer_mode { HRTIMER_MODE_ABS };
enum hrtimer_restart { HRTIMER_NORESTART, HRTIMER_RESTART };
struct hrtimer {
	enum hrtimer_restart (*function)(struct hrtimer *timer);
	ktime_t expires;
	bool set, listed;
	struct hrtimer *next;
};
void hrtimer_init(struct hrtimer *timer, int clock, enum hrtimer_mode mode);
void hrtimer_start(struct hrtimer *timer, ktime_t expires, enum hrtimer_mode mode);
/* Only while it is not queued: it would be at a wrong place of the kernel's tree. Nor before the beginning of time. */
void hrtimer_set_expires(struct hrtimer *timer, ktime_t expires);
#define hrtimer_is_queued(t) ((t)->set)
int hrtimer_cancel(struct hrtimer *timer);
/* Runs the timers whose time has come. Returns how many ran. */
unsigned int stub_run_timers(void);
/* What happens while someone sleeps. NULL: nobody would ever wake it. */
extern void (*stub_while_asleep)(void);
void msleep(unsigned int ms);
void stub_wait_on_bit(const unsigned long *word, unsigned int bit);

#endif
