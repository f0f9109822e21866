// SPDX-License-Identifier: GPL-2.0-only
/* Which devices are tuned: those of the parameter `devices`, or all that files are read from. */
#include <linux/backing-dev.h>
#include <linux/blkdev.h>
#include <linux/kdev_t.h>
#include <linux/slab.h>

#include "linnet-tune.h"

#define DEVICES_MAX 16

struct chosen {
	unsigned int count;
	dev_t devices[DEVICES_MAX];
};

static struct chosen lists[2]; /* hooks read one while the other is written */
static struct chosen __rcu *chosen;
static DEFINE_MUTEX(chosen_lock);

bool tune_device_wanted(const struct super_block *sb)
{
	const struct chosen *now = rcu_dereference(chosen);
	unsigned int i;

	/* Without a device there is no readahead to tune: tmpfs and the like. */
	if (!sb->s_bdi || !sb->s_bdi->ra_pages)
		return false;
	if (!now)
		return true;
	for (i = 0; i < now->count; i++)
		if (sb->s_dev == now->devices[i] || (sb->s_bdev && disk_devt(sb->s_bdev->bd_disk) == now->devices[i]))
			return true;
	return false;
}

static int parse_one(const char *word, dev_t *device)
{
	unsigned int major, minor;
	char rest;

	if (word[0] == '/')
		return lookup_bdev(word, device);
	/* Widths, because sscanf lets longer numbers wrap around. */
	if (sscanf(word, "%4u:%7u%c", &major, &minor, &rest) != 2 || major >= 1 << 12 || minor >= 1 << 20)
		return -EINVAL;
	*device = MKDEV(major, minor);
	return 0;
}

static int parse(char *text, struct chosen *to)
{
	char *word;
	int error;

	while ((word = strsep(&text, ","))) {
		if (!*word)
			continue;
		if (to->count == DEVICES_MAX) {
			pr_err("linnet_tune: devices: more than %d\n", DEVICES_MAX);
			return -EINVAL;
		}
		error = parse_one(word, &to->devices[to->count++]);
		if (error) {
			pr_err("linnet_tune: devices: `%s` is no device (%d); give MAJOR:MINOR or /dev/NAME\n", word, error);
			return error;
		}
	}
	return 0;
}

static int set_devices(const char *value, const struct kernel_param *kp)
{
	char *text = kstrdup(value, GFP_KERNEL);
	struct chosen *next;
	int error;

	if (!text)
		return -ENOMEM;
	mutex_lock(&chosen_lock);
	next = rcu_access_pointer(chosen) == &lists[0] ? &lists[1] : &lists[0];
	next->count = 0;
	error = parse(strim(text), next);
	if (!error) {
		rcu_assign_pointer(chosen, next->count ? next : NULL);
		synchronize_rcu();
	}
	mutex_unlock(&chosen_lock);
	kfree(text);
	return error;
}

static int get_devices(char *buffer, const struct kernel_param *kp)
{
	const struct chosen *now;
	unsigned int i;
	int n = 0;

	rcu_read_lock();
	now = rcu_dereference(chosen);
	for (i = 0; now && i < now->count; i++)
		n += scnprintf(buffer + n, PAGE_SIZE - n, "%s%u:%u", i ? "," : "", MAJOR(now->devices[i]),
			       MINOR(now->devices[i]));
	rcu_read_unlock();
	return n + scnprintf(buffer + n, PAGE_SIZE - n, "%s\n", n ? "" : "all");
}

const struct kernel_param_ops tune_devices_ops = { .set = set_devices, .get = get_devices };
