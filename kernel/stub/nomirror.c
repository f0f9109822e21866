// SPDX-License-Identifier: GPL-2.0-only
/* Refuses tables with a log: the dirty log, the region hash and kcopyd are the kernel's, and tests/vm tests them. */
#include "block.h"
#include "mirror.h"

struct linnet_mirror *linnet_mirror_create(struct dm_target *ti, const struct linnet_mirror_ops *ops,
					   const struct linnet_mirror_leg *legs, unsigned int legs_len,
					   unsigned int out, unsigned int argc, char **argv, unsigned int *used)
{
	/* First parse the words, as the kernel's code does. */
	u32 params;

	if (argc < 2 || kstrtou32(argv[1], 10, &params) || params > argc - 2)
		ti->error = "stub: bad log";
	else
		ti->error = "stub: no log here";
	BUG_ON(!ops || !legs || legs_len < 2 || out >> legs_len || !used);
	return ERR_PTR(-EOPNOTSUPP);
}

/* None of this is reached without a mirror. */
#define UNREACHED stub_die(__func__)
void linnet_mirror_destroy(struct linnet_mirror *m) { (void)m; UNREACHED; }
int linnet_mirror_map(struct linnet_mirror *m, struct bio *bio) { (void)m; (void)bio; UNREACHED; }
bool linnet_mirror_readable(struct linnet_mirror *m, unsigned int k, const struct bio *bio)
{
	(void)m; (void)k; (void)bio; UNREACHED;
}
char linnet_mirror_state(struct linnet_mirror *m, unsigned int k) { (void)m; (void)k; UNREACHED; }
void linnet_mirror_sync(struct linnet_mirror *m, u64 *in_sync, u64 *regions)
{
	(void)m; (void)in_sync; (void)regions; UNREACHED;
}
int linnet_mirror_table(struct linnet_mirror *m, char *result, unsigned int maxlen)
{
	(void)m; (void)result; (void)maxlen; UNREACHED;
}
unsigned int linnet_mirror_out(struct linnet_mirror *m) { (void)m; UNREACHED; }
int linnet_mirror_fail(struct linnet_mirror *m, unsigned int k) { (void)m; (void)k; UNREACHED; }
int linnet_mirror_revive(struct linnet_mirror *m, unsigned int k) { (void)m; (void)k; UNREACHED; }
void linnet_mirror_presuspend(struct linnet_mirror *m) { (void)m; UNREACHED; }
void linnet_mirror_presuspend_undo(struct linnet_mirror *m) { (void)m; UNREACHED; }
void linnet_mirror_postsuspend(struct linnet_mirror *m) { (void)m; UNREACHED; }
void linnet_mirror_resume(struct linnet_mirror *m) { (void)m; UNREACHED; }
