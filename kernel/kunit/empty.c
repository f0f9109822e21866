// SPDX-License-Identifier: GPL-2.0-only
/*
 * Handlers that do nothing where linnet_tune has those that count: what an event costs before a handler has done
 * anything. With it the case tune-cost tells the cost of linnet_tune's handlers from that of being called. Kernels
 * before 6.12 have only the first of the tracepoints.
 */
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <linux/types.h>

struct address_space;
struct folio;

static void on_add(void *data, struct folio *folio)
{
}

static void on_pages(void *data, struct address_space *mapping, pgoff_t first, pgoff_t last)
{
}

static void on_fault(void *data, struct address_space *mapping, pgoff_t index)
{
}

static int on_read(struct kprobe *probe, struct pt_regs *regs)
{
	return 0;
}

static struct kprobe reads = { .symbol_name = "filemap_read", .pre_handler = on_read };

static struct {
	const char *name;
	void *call;
	struct tracepoint *point;
	bool attached;
} traces[] = {
	{ .name = "mm_filemap_add_to_page_cache", .call = on_add },
	{ .name = "mm_filemap_map_pages", .call = on_pages },
	{ .name = "mm_filemap_fault", .call = on_fault },
};

static void find(struct tracepoint *point, void *unused)
{
	int t;

	for (t = 0; t < ARRAY_SIZE(traces); t++)
		if (!strcmp(point->name, traces[t].name))
			traces[t].point = point;
}

static void detach(void)
{
	int t;

	for (t = 0; t < ARRAY_SIZE(traces); t++)
		if (traces[t].attached)
			tracepoint_probe_unregister(traces[t].point, traces[t].call, NULL);
	tracepoint_synchronize_unregister();
}

static int __init empty_init(void)
{
	int t, error;

	for_each_kernel_tracepoint(find, NULL);
	for (t = 0; t < ARRAY_SIZE(traces); t++) {
		if (!traces[t].point)
			continue;
		error = tracepoint_probe_register(traces[t].point, traces[t].call, NULL);
		if (error) {
			detach();
			return error;
		}
		traces[t].attached = true;
	}
	error = register_kprobe(&reads);
	if (error)
		detach();
	return error;
}

static void __exit empty_exit(void)
{
	unregister_kprobe(&reads);
	detach();
}

module_init(empty_init);
module_exit(empty_exit);
MODULE_DESCRIPTION("Empty handlers at the hooks of linnet_tune that count, for measurements");
MODULE_LICENSE("GPL");
