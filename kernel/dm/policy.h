/* SPDX-License-Identifier: GPL-2.0-only */
/* One decision, as the tracepoint sees it. */
#ifndef LINNET_POLICY_H
#define LINNET_POLICY_H

#include "linnet-dm.h"

struct linnet_decision {
	u64 id;
	u64 now_ns;
	u64 sector;      /* in the target */
	u32 size_bytes;
	u32 count;       /* of legs */
	u32 policy;      /* that chose; baseline where the policy asked for lacks a model */
	u32 verdict;     /* enum linnet_verdict */
	bool revocable;
	bool caught_up;  /* a judge had reads to work out first, which took its time */
	struct linnet_choice choice;
	u64 seen[LINNET_REPLICAS_MAX]; /* events of each leg that it was described by */
	struct linnet_candidate legs[LINNET_REPLICAS_MAX];
};

#endif
