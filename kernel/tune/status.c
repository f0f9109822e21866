// SPDX-License-Identifier: GPL-2.0-only
/* /sys/kernel/debug/linnet_tune: status, files, decisions, model. Reading changes nothing. */
#include <linux/debugfs.h>
#include <linux/mm.h>

#include "linnet-tune.h"

const char *const tune_readings[LINNET_READINGS + 1] = { "random", "runs", "sequential", "reverse", "unknown" };

static struct dentry *folder;

void tune_events_sum(struct tune_events *sum)
{
	int cpu;

	*sum = (struct tune_events){};
	for_each_possible_cpu(cpu) {
		sum->counted += READ_ONCE(per_cpu(tune_events, cpu).counted);
		sum->lost += READ_ONCE(per_cpu(tune_events, cpu).lost);
	}
}

static int status_show(struct seq_file *out, void *unused)
{
	struct tune_events sum;

	tune_events_sum(&sum);
	seq_printf(out, "events %llu\nlost %llu\n", sum.counted, sum.lost);
#define COUNTER(name) seq_printf(out, #name " %lld\n", (long long)atomic64_read(&tune_counters.name))
	COUNTER(windows);
	COUNTER(decisions);
	COUNTER(rollbacks);
	COUNTER(changed);
	COUNTER(restored);
	COUNTER(advised);
	COUNTER(left);
	COUNTER(evicted);
	COUNTER(unsure);
	COUNTER(learned);
	COUNTER(refused);
#undef COUNTER
	seq_printf(out, "files %u\nopen_files %u\nfile_bytes %zu\n", tune_file_count(), tune_apply_count(),
		   sizeof(struct tune_file));
	mutex_lock(&tune_lock);
	tune_model_show(out);
	mutex_unlock(&tune_lock);
	tune_hooks_show(out);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(status);

static int files_show(struct seq_file *out, void *unused)
{
	struct tune_file *file;

	seq_puts(out, "device inode generation reading own_kib target_kib jumps accesses added name\n");
	mutex_lock(&tune_lock); /* the worker alone removes files, under this lock */
	for (file = tune_file_next(NULL); file; file = tune_file_next(file)) {
		const char *name = tune_file_name(file);
		u32 target = READ_ONCE(file->target_pages), page_kib = PAGE_SIZE / 1024;

		seq_printf(out, "%u:%u %llu %u %s %u %u %llu %llu %llu %s\n", MAJOR(file->key.dev), MINOR(file->key.dev),
			   file->key.inode, file->key.generation,
			   tune_readings[file->governed ? file->governor.reading : LINNET_READINGS],
			   READ_ONCE(file->own_pages) * page_kib, target * page_kib, file->pattern.jumps,
			   file->pattern.accesses, file->pattern.added, name[0] ? name : "-");
	}
	mutex_unlock(&tune_lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(files);

static int decisions_show(struct seq_file *out, void *unused)
{
	tune_decide_show(out);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(decisions);

/* The model's file as it was when it was opened, so that parts fit together. */
struct snapshot {
	size_t size;
	void *bytes;
};

static int model_open(struct inode *inode, struct file *file)
{
	struct snapshot *snapshot = kzalloc(sizeof(*snapshot), GFP_KERNEL);
	int error;

	if (!snapshot)
		return -ENOMEM;
	mutex_lock(&tune_lock);
	error = tune_model_bytes(&snapshot->bytes, &snapshot->size);
	mutex_unlock(&tune_lock);
	if (error) {
		kfree(snapshot);
		return error;
	}
	file->private_data = snapshot;
	return 0;
}

static ssize_t model_read(struct file *file, char __user *to, size_t count, loff_t *at)
{
	const struct snapshot *snapshot = file->private_data;

	return simple_read_from_buffer(to, count, at, snapshot->bytes, snapshot->size);
}

static int model_release(struct inode *inode, struct file *file)
{
	struct snapshot *snapshot = file->private_data;

	kvfree(snapshot->bytes);
	kfree(snapshot);
	return 0;
}

static const struct file_operations model_fops = {
	.owner = THIS_MODULE,
	.open = model_open,
	.read = model_read,
	.release = model_release,
	.llseek = default_llseek,
};

void tune_status_start(void)
{
	folder = debugfs_create_dir("linnet_tune", NULL);
	debugfs_create_file("status", 0444, folder, NULL, &status_fops);
	debugfs_create_file("files", 0400, folder, NULL, &files_fops);
	debugfs_create_file("decisions", 0400, folder, NULL, &decisions_fops);
	debugfs_create_file("model", 0400, folder, NULL, &model_fops);
}

void tune_status_end(void)
{
	debugfs_remove_recursive(folder);
}
