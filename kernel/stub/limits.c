// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks that a volume above md asks file systems for stable pages (spec/md-volume.md), and a target of replicas does not.
 * Built twice, with target.c: a kernel takes it from the limits, from Linux 6.11 on, or from the target.
 */
#include "block.h"
#include "linnet-dm.h"
#include "policy.h"

void trace_linnet_decision(const struct linnet_dm *dm, const struct linnet_routing *routing)
{
}

void trace_linnet_io(const struct linnet_leg *leg, const struct linnet_inflight_record *record, u64 event, u64 latency_ns)
{
}

static bool asks(char *line, bool readonly)
{
	struct queue_limits limits = { 0 };
	char *error;
	struct dm_target *ti = stub_create(line, readonly, &error);
	bool stable;

	if (!ti)
		stub_die(error);
	ti->type->io_hints(ti, &limits);
#ifdef BLK_FEAT_STABLE_WRITES
	stable = limits.features & BLK_FEAT_STABLE_WRITES;
#else
	stable = ti->needs_stable_writes;
#endif
	stub_remove(ti);
	return stable;
}

int main(void)
{
	char lines[2][32] = { "/dev/leg0 0", "/dev/leg1 0" };
	char volume[] = "md /dev/leg7 2 253:0 2048 253:1 2048 0", replicas[] = "2 /dev/leg2 0 /dev/leg3 0 0";
	struct dm_target *legs[2];
	int failed;

	if (stub_init())
		stub_die("the module did not load");
	for (u32 k = 0; k < 2; k++)
		legs[k] = stub_create_leg(lines[k], k);
	failed = !asks(volume, false) || asks(replicas, true);
	for (u32 k = 0; k < 2; k++)
		stub_remove(legs[k]);
	stub_exit();
	if (failed)
		fprintf(stderr, "limits: not a volume above md alone asks for stable pages\n");
	return failed;
}
