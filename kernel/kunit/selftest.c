// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs the golden vectors as a module, for kernels without KUnit, such as Debian's. Loading it runs the checks and
 * prints TAP, then the runs of the library of knobs; it fails with EINVAL if a check fails.
 */
#define pr_fmt(fmt) "linnet-selftest: " fmt
#include <linux/module.h>

#include "knobs.h"
#include "vectors.h"

static char *canary;
module_param(canary, charp, 0444);
MODULE_PARM_DESC(canary, "spoil a vector of the first file with this in its path, so that loading must fail");

static char *only = "";
module_param(only, charp, 0444);
MODULE_PARM_DESC(only, "check only the files with this in their path");

static int __init linnet_selftest_init(void)
{
	unsigned int files = 0, checked = 0, wrong = 0, count;

	while (linnet_goldens[files].path)
		files++;
	pr_info("1..%u\n", files);
	if (canary && !linnet_vectors_spoil(canary)) {
		pr_err("no file has %s in its path\n", canary);
		return -EINVAL;
	}
	for (unsigned int i = 0; i < files; i++) {
		unsigned int bad;

		if (!strstr(linnet_goldens[i].path, only))
			continue;
		bad = linnet_vectors_run(linnet_goldens[i].path, &count);
		pr_info("%s %u %s # %u checks\n", bad ? "not ok" : "ok", i + 1, linnet_goldens[i].path, count);
		wrong += bad;
		checked++;
	}
	if (!checked) {
		pr_err("no file has %s in its path\n", only);
		return -EINVAL;
	}
	wrong += knob_runs();
	return wrong ? -EINVAL : 0;
}

static void __exit linnet_selftest_exit(void)
{
}

module_init(linnet_selftest_init);
module_exit(linnet_selftest_exit);
MODULE_DESCRIPTION("Golden vectors of Linnet's core");
MODULE_LICENSE("GPL");
