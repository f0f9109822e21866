/* SPDX-License-Identifier: GPL-2.0-only */
/* One decision, and the read that it is about, as the tracepoint sees them. */
#ifndef LINNET_POLICY_H
#define LINNET_POLICY_H

#include "linnet-dm.h"

struct linnet_routing {
	u64 id;
	u64 sector;      /* in the target */
	u32 size_bytes;
	bool caught_up;  /* an incremental network had reads to work out first, which took its time */
	u64 seen[LINNET_REPLICAS_MAX]; /* events of each leg that it was described by */
	struct linnet_decision decision;
};

#endif
