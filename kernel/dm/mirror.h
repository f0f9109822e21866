/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The writable mirror: its interface to the target. Its design is in docs/design/dm-mirror.md.
 *
 * The target opens the legs, parses its own arguments, and chooses the leg of a read among those that
 * linnet_mirror_readable() allows. Everything that changes data (writes, flushes, discards) is passed to
 * linnet_mirror_map(). The dirty log, the region hash and kcopyd are the kernel's.
 */
#ifndef LINNET_MIRROR_H
#define LINNET_MIRROR_H

#include <linux/device-mapper.h>
#include <linux/types.h>

#define LINNET_MIRROR_LEGS 8

struct linnet_mirror;

struct linnet_mirror_leg {
	struct block_device *bdev;
	sector_t start; /* of the replica on the device */
};

/*
 * Calls from the mirror to the target. `k` is the leg's number. `record` is memory of `record_size` bytes, aligned for
 * 64-bit words, that belongs to one write at one leg.
 */
struct linnet_mirror_ops {
	unsigned int record_size;
	/* The bio, a write, flush or discard of the target, is about to be submitted to a leg. Process context. */
	void (*write_begin)(struct dm_target *ti, unsigned int k, struct bio *bio, void *record);
	/* It ended there. The bio has not ended yet. Any context. */
	void (*write_end)(struct dm_target *ti, unsigned int k, struct bio *bio, void *record, blk_status_t status);
	/* A leg changed its state, or the resync is complete: an event should be sent. Process context. */
	void (*changed)(struct dm_target *ti);
};

/* One write. The target's per-bio data begins with it; valid from linnet_mirror_map() until the bio ends. */
struct linnet_mirror_write {
	sector_t region;
	unsigned long legs;   /* legs that it was sent to, by bit */
	unsigned long failed; /* those of them that failed it; set from any context */
	atomic_t left;       /* clones in flight, plus one */
	blk_status_t status; /* of the last clone that failed */
	bool tracked;        /* counted as pending in its region */
};

/*
 * Called by the constructor. `argv` follows the word `log`: <type> <#params> <params>...; *used becomes the number of
 * its words. Legs in `out` start out of service. Sets ti->max_io_len to the region, and the numbers of flush and
 * discard bios. On failure returns an ERR_PTR and sets ti->error.
 */
struct linnet_mirror *linnet_mirror_create(struct dm_target *ti, const struct linnet_mirror_ops *ops,
					   const struct linnet_mirror_leg *legs, unsigned int legs_len,
					   unsigned int out, unsigned int argc, char **argv, unsigned int *used);
void linnet_mirror_destroy(struct linnet_mirror *m);

/* Handles a write, flush or discard. Returns what .map returns. */
int linnet_mirror_map(struct linnet_mirror *m, struct bio *bio);

/*
 * Whether this read may be sent to leg k. The bio does not cross a region. Any context; call again before a second
 * attempt.
 */
bool linnet_mirror_readable(struct linnet_mirror *m, unsigned int k, const struct bio *bio);

/* 'A' in service, 'D' out of service, 'R' in service and resyncing. */
char linnet_mirror_state(struct linnet_mirror *m, unsigned int k);
/* Number of regions that every leg in service holds, and of all regions. */
void linnet_mirror_sync(struct linnet_mirror *m, u64 *in_sync, u64 *regions);
/* The words after `log` of the table line, with a blank at the end; returns their length. */
int linnet_mirror_table(struct linnet_mirror *m, char *result, unsigned int maxlen);
/* Legs to print as `out:<k>`, by bit: a table without them could treat their data as whole. */
unsigned int linnet_mirror_out(struct linnet_mirror *m);

/* Messages. Block until done. -EBUSY: the last whole leg, or the device is suspended. -EINVAL: no such leg. */
int linnet_mirror_fail(struct linnet_mirror *m, unsigned int k);
int linnet_mirror_revive(struct linnet_mirror *m, unsigned int k);

/* The hooks of the target of the same names. */
void linnet_mirror_presuspend(struct linnet_mirror *m);
void linnet_mirror_presuspend_undo(struct linnet_mirror *m);
void linnet_mirror_postsuspend(struct linnet_mirror *m);
void linnet_mirror_resume(struct linnet_mirror *m);

#endif
