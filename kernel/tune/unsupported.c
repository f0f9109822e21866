// SPDX-License-Identifier: GPL-2.0-only
/* In place of the module, for a kernel that gives its hooks something else: so that only this module is missing there. */
#define pr_fmt(fmt) "linnet_tune: " fmt
#include <linux/module.h>

static int __init linnet_tune_init(void)
{
	pr_err("this version does not know the functions of this kernel that it would have to hook; use linnet tune readahead\n");
	return -EOPNOTSUPP;
}
module_init(linnet_tune_init);

MODULE_DESCRIPTION("Readahead that follows how each file is read: not for this kernel");
MODULE_LICENSE("GPL");
