// SPDX-License-Identifier: GPL-2.0-only
/* The implementation of work.h: work queues and timers. */
#include "kernel.h"

/* ---- work queues ---- */

static struct workqueue_struct system_queue, *queues = &system_queue;
bool stub_reclaims;

struct workqueue_struct *stub_queue(int flags)
{
	struct workqueue_struct *queue = stub_alloc(sizeof(*queue), GFP_KERNEL | __GFP_ZERO);

	if (stub_held && flags & WQ_MEM_RECLAIM)
		stub_die("a thread is made while I/O is held");
	if (queue) {
		queue->reclaim = flags & WQ_MEM_RECLAIM;
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

bool schedule_work(struct work_struct *work)
{
	return queue_work(&system_queue, work);
}

static bool run_first(struct workqueue_struct *queue)
{
	struct work_struct *work = queue->first;
	bool reclaims = stub_reclaims;

	if (!work || queue->runs)
		return false;
	queue->first = work->next;
	work->queue = NULL;
	stub_reclaims = queue->runs = queue->reclaim;
	work->func(work);
	queue->runs = false;
	stub_reclaims = reclaims;
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

void hrtimer_set_expires(struct hrtimer *timer, ktime_t expires)
{
	BUG_ON(!timer->listed);
	if (timer->set)
		stub_die("the time of a timer that is queued is changed");
	if (expires < 0)
		stub_die("a timer that would run at once, for ever");
	timer->expires = expires;
}

void hrtimer_start(struct hrtimer *timer, ktime_t expires, enum hrtimer_mode mode)
{
	(void)mode;
	timer->set = false;
	hrtimer_set_expires(timer, expires);
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

void stub_wait_on_bit(const unsigned long *word, unsigned int bit)
{
	stub_might_sleep("wait_on_bit");
	while (test_bit(bit, word)) {
		if (!stub_while_asleep)
			stub_die("a wait that nobody ends");
		stub_while_asleep();
	}
}
