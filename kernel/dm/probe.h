/* SPDX-License-Identifier: GPL-2.0-only */
/* The probe of one leg; probe.c. */
#ifndef LINNET_PROBE_H
#define LINNET_PROBE_H

#include "linnet-dm.h"

struct linnet_probe {
	struct linnet_leg *leg;
	struct work_struct work;
	struct page *page; /* of size_max bytes */
	u32 size_max;
	u32 size_bytes;
	sector_t sector; /* in the target */
	u64 id;
	struct linnet_inflight_record *record;
	struct bio bio;
	struct bio_vec vec;
};

#endif
