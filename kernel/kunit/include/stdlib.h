/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory for tests/conformance/conformance.c; see stdio.h. */
#ifndef LINNET_KUNIT_STDLIB_H
#define LINNET_KUNIT_STDLIB_H

#include <linux/bug.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#define malloc(size) kmalloc(size, GFP_KERNEL)
#define realloc(memory, size) krealloc(memory, size, GFP_KERNEL)
#define aligned_alloc(align, size) vmalloc(size) /* whole pages, so every alignment in use is met */
#define free(memory) kvfree(memory)
#define exit(status) BUG() /* out of memory in a test */

#endif
