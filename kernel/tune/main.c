// SPDX-License-Identifier: GPL-2.0-only
/* Load and unload, and the parameters that are plain numbers. */
#define pr_fmt(fmt) "linnet_tune: " fmt
#include <linux/module.h>

#include "linnet-tune.h"

DEFINE_PER_CPU(struct tune_events, tune_events);
struct tune_counters tune_counters;

bool tune_dry_run;
module_param_named(dry_run, tune_dry_run, bool, 0644);
MODULE_PARM_DESC(dry_run, "decide and log, but set nothing; values that were set return when their file is read next");

uint tune_files_max = 1024;

static int set_files_max(const char *value, const struct kernel_param *kp)
{
	return param_set_uint_minmax(value, kp, 1, TUNE_TABLE_MAX);
}

static const struct kernel_param_ops files_max_ops = { .set = set_files_max, .get = param_get_uint };
module_param_cb(files_max, &files_max_ops, &tune_files_max, 0644);
MODULE_PARM_DESC(files_max, "files that are observed at the same time, of about 3 KiB each, 1 to 65536 (1024)");

uint tune_interval_ms = 100;

static int set_interval_ms(const char *value, const struct kernel_param *kp)
{
	return param_set_uint_minmax(value, kp, 10, 10000);
}

static const struct kernel_param_ops interval_ms_ops = { .set = set_interval_ms, .get = param_get_uint };
module_param_cb(interval_ms, &interval_ms_ops, &tune_interval_ms, 0644);
MODULE_PARM_DESC(interval_ms, "how often counts are looked at while files are read, 10 to 10000 ms (100)");

module_param_cb(devices, &tune_devices_ops, NULL, 0644);
MODULE_PARM_DESC(devices, "which to tune, as MAJOR:MINOR or /dev/NAME, separated by commas; a disk stands for its partitions (all)");

module_param_cb(model, &tune_model_ops, NULL, 0644);
MODULE_PARM_DESC(model, "model file below /lib/firmware/linnet, or nothing: the rule decides");

module_param_cb(learn, &tune_learn_ops, NULL, 0644);
MODULE_PARM_DESC(learn, "class of the model that all windows are learned as, or -1 (-1)");

/* Also after hooks of which only some could be attached: they may have set values. */
static void stop(void)
{
	tune_hooks_stop();
	tune_decide_end();
	tune_model_end();
	/* Nobody sets a value any more. The hook that sees open files end stays until all are put back. */
	tune_apply_restore();
	tune_hooks_end();
	tune_apply_end();
	tune_files_end();
}

static int __init linnet_tune_init(void)
{
	int error = tune_files_start();

	if (error)
		return error;
	error = tune_decide_start();
	if (error) {
		tune_files_end();
		return error;
	}
	error = tune_model_start();
	if (!error)
		error = tune_hooks_start();
	if (error) {
		stop();
		return error;
	}
	tune_status_start();
	return 0;
}

static void __exit linnet_tune_exit(void)
{
	tune_status_end();
	stop();
}

module_init(linnet_tune_init);
module_exit(linnet_tune_exit);
MODULE_DESCRIPTION("Readahead that follows how each file is read");
MODULE_LICENSE("GPL");
