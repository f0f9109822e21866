// SPDX-License-Identifier: GPL-2.0-only
/*
 * Causes one fault on purpose, each of which a debug kernel must report. Without this test, its silence about dm-linnet
 * would prove little. Built only for debug kernels.
 *
 *   insmod linnet-faults.ko fault=NAME
 */
#include <linux/delay.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>

static char *fault = "";
module_param(fault, charp, 0444);
MODULE_PARM_DESC(fault, "which one");

/* Volatile, so that the compiler cannot see its value. */
static volatile int zero;
static volatile int sink;

static void use_after_free(void)
{
	int *number = kzalloc(sizeof(*number), GFP_KERNEL);

	OPTIMIZER_HIDE_VAR(number);
	kfree(number);
	OPTIMIZER_HIDE_VAR(number);
	if (number)
		sink = *number;
}

static void out_of_bounds(void)
{
	char *bytes = kzalloc(20, GFP_KERNEL);

	OPTIMIZER_HIDE_VAR(bytes);
	if (bytes)
		sink = bytes[20 + zero];
	kfree(bytes);
}

static void shift(void)
{
	sink = 1 << (40 + zero);
}

static void sleep(void)
{
	static DEFINE_SPINLOCK(lock);

	spin_lock(&lock);
	might_sleep();
	spin_unlock(&lock);
}

static void list(void)
{
	struct list_head head, item;

	INIT_LIST_HEAD(&head);
	list_add(&item, &head);
	head.next = &head;
	list_del(&item);
}

static void cpu(void)
{
	sink = smp_processor_id();
}

static void rcu(void)
{
	static int __rcu *pointer;

	sink = rcu_dereference(pointer) != NULL;
}

static void locks(void)
{
	static DEFINE_MUTEX(first);
	static DEFINE_MUTEX(second);

	mutex_lock(&first);
	mutex_lock(&second);
	mutex_unlock(&second);
	mutex_unlock(&first);
	mutex_lock(&second);
	mutex_lock(&first);
	mutex_unlock(&first);
	mutex_unlock(&second);
}

/* Without a lock, and without saying that others do so, too. */
static int count(void *number)
{
	while (!kthread_should_stop()) {
		++*(int *)number;
		cond_resched();
	}
	return 0;
}

static void race(void)
{
	static int number;
	struct task_struct *tasks[2];

	for (int i = 0; i < 2; i++) {
		tasks[i] = kthread_create(count, &number, "linnet-race-%d", i);
		if (!IS_ERR(tasks[i])) {
			kthread_bind(tasks[i], i);
			wake_up_process(tasks[i]);
		}
	}
	msleep(1000);
	for (int i = 0; i < 2; i++)
		if (!IS_ERR(tasks[i]))
			kthread_stop(tasks[i]);
}

static const struct {
	const char *name;
	void (*make)(void);
} faults[] = {
	{ "use-after-free", use_after_free },
	{ "out-of-bounds", out_of_bounds },
	{ "shift", shift },
	{ "sleep", sleep },
	{ "list", list },
	{ "cpu", cpu },
	{ "rcu", rcu },
	{ "locks", locks },
	{ "race", race },
};

static int __init linnet_faults_init(void)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(faults); i++)
		if (!strcmp(faults[i].name, fault)) {
			faults[i].make();
			return 0;
		}
	pr_err("linnet-faults: no fault is called '%s'\n", fault);
	return -EINVAL;
}

static void __exit linnet_faults_exit(void)
{
}

module_init(linnet_faults_init);
module_exit(linnet_faults_exit);
MODULE_DESCRIPTION("Faults that a debug kernel must report");
MODULE_LICENSE("GPL");
