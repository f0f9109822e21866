/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by the two parts of check fuzz. */
#ifndef STUB_FUZZ_H
#define STUB_FUZZ_H

/* What happened in the cases of volumes above md. */
struct volume_counts { unsigned long cases, writes, steered, through, doubted, foreign, trusts, rebuilt; };
extern struct volume_counts volumes;

/* One volume, from its table to its removal, by the random numbers that follow. */
void fuzz_volume(void);

#endif
