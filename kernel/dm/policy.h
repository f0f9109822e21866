/* SPDX-License-Identifier: GPL-2.0-only */
/* One decision and its read, for the tracepoint. */
#ifndef LINNET_POLICY_H
#define LINNET_POLICY_H

#include "linnet-dm.h"

struct linnet_routing {
	u64 id;
	u64 sector;      /* in the target */
	u32 size_bytes;
	bool locked;     /* decided from the legs' state, otherwise from its digest */
	bool described;  /* the candidates and `seen`, `own` are filled in */
	bool caught_up;  /* an incremental network processed reads first, which took time */
	u64 seen[LINNET_REPLICAS_MAX]; /* number of events of each leg on which its state was based */
	s32 own[LINNET_REPLICAS_MAX];  /* I/Os in flight added to a digest */
	struct linnet_decision decision;
};

/*
 * Where a second copy of a late read goes: decision.choice, from what is known of the usable legs at decision.now_ns. After
 * linnet_digest_enter, whose answer is in `locked`; under RCU.
 */
void linnet_decide_copy(struct linnet_dm *dm, struct linnet_routing *routing);

#endif
