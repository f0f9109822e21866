// SPDX-License-Identifier: GPL-2.0-only
/*
 * The writable mirror is not built into this version: a table with a log is refused.
 */
#include <linux/err.h>

#include "mirror.h"

struct linnet_mirror *linnet_mirror_create(struct dm_target *ti, const struct linnet_mirror_ops *ops,
					   const struct linnet_mirror_leg *legs, unsigned int legs_len,
					   unsigned int out, unsigned int argc, char **argv, unsigned int *used)
{
	ti->error = "This version has no writable mirror: leave out the log";
	return ERR_PTR(-EOPNOTSUPP);
}

/* None of the following is reached without a mirror. */
void linnet_mirror_destroy(struct linnet_mirror *m) {}
int linnet_mirror_map(struct linnet_mirror *m, struct bio *bio) { return DM_MAPIO_KILL; }
bool linnet_mirror_readable(struct linnet_mirror *m, unsigned int k, const struct bio *bio) { return false; }
char linnet_mirror_state(struct linnet_mirror *m, unsigned int k) { return 'D'; }
void linnet_mirror_sync(struct linnet_mirror *m, u64 *in_sync, u64 *regions) {}
int linnet_mirror_table(struct linnet_mirror *m, char *result, unsigned int maxlen) { return 0; }
unsigned int linnet_mirror_out(struct linnet_mirror *m) { return 0; }
int linnet_mirror_fail(struct linnet_mirror *m, unsigned int k) { return -EOPNOTSUPP; }
int linnet_mirror_revive(struct linnet_mirror *m, unsigned int k) { return -EOPNOTSUPP; }
void linnet_mirror_presuspend(struct linnet_mirror *m) {}
void linnet_mirror_presuspend_undo(struct linnet_mirror *m) {}
void linnet_mirror_postsuspend(struct linnet_mirror *m) {}
void linnet_mirror_resume(struct linnet_mirror *m) {}
