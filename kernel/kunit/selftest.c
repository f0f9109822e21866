// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs the golden vectors as a module, for kernels without KUnit, such as Debian's. Loading it runs the checks and
 * prints TAP; it fails with EINVAL if a check fails.
 */
#define pr_fmt(fmt) "linnet-selftest: " fmt
#include <linux/module.h>

#include "vectors.h"

static bool canary;
module_param(canary, bool, 0444);
MODULE_PARM_DESC(canary, "spoil one vector, so that loading must fail");

static int __init linnet_selftest_init(void)
{
	unsigned int files = 0, wrong = 0, count;

	while (linnet_goldens[files].path)
		files++;
	pr_info("1..%u\n", files);
	if (canary)
		linnet_vectors_spoil();
	for (unsigned int i = 0; i < files; i++) {
		unsigned int bad = linnet_vectors_run(linnet_goldens[i].path, &count);

		pr_info("%s %u %s # %u checks\n", bad ? "not ok" : "ok", i + 1, linnet_goldens[i].path, count);
		wrong += bad;
	}
	return wrong ? -EINVAL : 0;
}

static void __exit linnet_selftest_exit(void)
{
}

module_init(linnet_selftest_init);
module_exit(linnet_selftest_exit);
MODULE_DESCRIPTION("Golden vectors of Linnet's core");
MODULE_LICENSE("GPL");
