// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts instructions per decision, for callgrind. Only code inside measured_map and measured_end is counted. The
 * target's own probes are answered and not counted. Prints the number of bytes that the target keeps.
 *
 *   count POLICY MODEL READS BATCH   reads on three replicas, eight in flight: BATCH of them end, then BATCH more arrive
 *   count write WRITES DEPTH         the same on a volume above md with two legs, DEPTH I/Os in flight; a write is one at
 *   count read READS DEPTH           each of three devices
 *   count hedge READS                hedgeable reads of 4 KiB on two replicas, of which none is late; without the
 *                                    allocation and the copying, which are the kernel's
 */
#include "block.h"
#include "linnet-dm.h"

#define INFLIGHT 8
#define DEPTH_MAX 4096

noinline int measured_map(struct dm_target *ti, struct bio *bio)
{
	return ti->type->map(ti, bio);
}

noinline int measured_end(struct dm_target *ti, struct bio *bio)
{
	blk_status_t status = BLK_STS_OK;

	return ti->type->end_io(ti, bio, &status);
}

static u32 chance(void)
{
	static u64 z = 1;

	z ^= z << 13;
	z ^= z >> 7;
	z ^= z << 17;
	return (u32)(z >> 20);
}

static void map(struct dm_target *ti, struct stub_bio *b, blk_opf_t opf, u64 sector)
{
	static struct bio_vec vec;

	*b = (struct stub_bio){ .ti = ti, .bio = { .bi_opf = opf, .bi_iter.bi_sector = sector, .bi_iter.bi_size = 4096,
						   .bi_io_vec = &vec } };
	stub_now += 1000;
	if (measured_map(ti, &b->bio) != DM_MAPIO_REMAPPED)
		stub_die("an I/O was not sent on");
}

static void answer_probes(void)
{
	stub_run_works();
	while (stub_own_count) {
		stub_now += 50000;
		stub_complete_own(0, BLK_STS_OK, 0);
	}
}

/* Of an I/O of a volume: it and, of a write, what md sends to the legs. */
struct whole {
	struct stub_bio top, parts[2];
};

static void end_whole(struct whole *w)
{
	for (u32 k = 0; k < 2 && bio_op(&w->top.bio) == REQ_OP_WRITE; k++)
		measured_end(w->parts[k].ti, &w->parts[k].bio);
	measured_end(w->top.ti, &w->top.bio);
	answer_probes();
}

static int volume(blk_opf_t opf, u32 count, u32 depth)
{
	char lines[2][32] = { "/dev/leg0 0", "/dev/leg1 0" }, *error;
	char line[] = "md /dev/leg7 2 253:0 2048 253:1 2048 2 policy shortest-queue";
	static struct whole wholes[DEPTH_MAX];
	struct dm_target *legs[2], *top;
	struct linnet_dm *dm;

	if (!depth || depth > DEPTH_MAX)
		return 2;
	stub_init();
	for (u32 k = 0; k < 2; k++)
		legs[k] = stub_create_leg(lines[k], k);
	top = stub_create(line, false, &error);
	dm = top->private;
	for (u32 k = 0; k < 2; k++)
		linnet_volume_trust(dm->volume, k, dm->volume->ledger.legs[k].generation);
	for (u32 n = 0; n <= count; n++) {
		struct whole *w = &wholes[n % depth];
		u64 sector = 8 * (n * 38197ULL % 100000); /* any order, and no two in flight overlap */

		if (w->top.ti)
			end_whole(w);
		/* The first is a write in any case: it makes the legs trusted. */
		map(top, &w->top, n ? opf : REQ_OP_WRITE, sector);
		for (u32 k = 0; k < 2 && bio_op(&w->top.bio) == REQ_OP_WRITE; k++)
			map(legs[k], &w->parts[k], REQ_OP_WRITE, 2048 + sector);
		stub_now += 50000;
		if (depth == 1 || !n) {
			end_whole(w);
			w->top.ti = NULL;
		}
	}
	if (dm->volume->trusted != 3)
		stub_die("the legs are not trusted");
	return 0;
}

noinline void measured_copy(struct bio *bio)
{
	bio->bi_end_io(bio);
}

static int hedged(u32 count)
{
	char line[] = "2 /dev/leg0 0 /dev/leg1 0 4 policy shortest-queue hedge 2", *error;
	static struct stub_bio b;
	struct dm_target *ti;

	stub_init();
	ti = stub_create(line, true, &error);
	for (u32 n = 0; n < count; n++) {
		b = (struct stub_bio){ .ti = ti, .bio = { .bi_opf = REQ_OP_READ, .bi_iter.bi_size = 4096 } };
		b.bio.bi_iter.bi_sector = 8 * (chance() % 100000);
		stub_now += 1000;
		if (measured_map(ti, &b.bio) != DM_MAPIO_SUBMITTED || stub_own_count != 1)
			stub_die("a read is not hedgeable");
		stub_now += 50000;
		stub_own_count = 0;
		measured_copy(stub_own[0]);
		if (n % 64 == 0)
			stub_run_timers();
	}
	return 0;
}

static int replicas(int argc, char **argv)
{
	char line[256] = "3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 2 model m.linnet", words[64], *error;
	static struct stub_bio bios[INFLIGHT];
	struct dm_target *ti;
	u32 reads, batch;

	if (argc != 5)
		return 2;
	stub_firmware_file(argv[2]);
	reads = (u32)strtoul(argv[3], NULL, 10);
	batch = (u32)strtoul(argv[4], NULL, 10);
	if (!batch || batch > INFLIGHT)
		return 2;
	stub_init();
	ti = stub_create(line, true, &error);
	snprintf(words, sizeof(words), "policy %s", argv[1]);
	if (!ti || stub_message(ti, words))
		stub_die(ti ? "no such policy" : error);
	for (u32 n = 0; n < reads; n += batch) {
		u32 first = chance();

		for (u32 i = 0; i < batch; i++) {
			struct stub_bio *b = &bios[(first + i) % INFLIGHT];

			stub_now += chance() % 50000;
			if (b->below)
				measured_end(ti, &b->bio);
			b->below = 0;
		}
		for (u32 i = 0; i < batch; i++) {
			struct stub_bio *b = &bios[(first + i) % INFLIGHT];

			stub_now += chance() % 50000;
			b->ti = ti;
			b->ended = 0;
			b->below = 1;
			b->bio = (struct bio){ .bi_opf = REQ_OP_READ, .bi_iter.bi_sector = 8 * (chance() % 100000),
					       .bi_iter.bi_size = 4096 };
			if (measured_map(ti, &b->bio) != DM_MAPIO_REMAPPED)
				stub_die("a read was not sent on");
		}
		answer_probes();
	}
	printf("%zu %zu %zu\n", sizeof(struct linnet_dm) + 3 * sizeof(struct linnet_leg), sizeof(struct linnet_io),
	       sizeof(struct linnet_inflight_io));
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "hedge"))
		return hedged((u32)strtoul(argv[2], NULL, 10));
	if (argc == 4)
		return volume(!strcmp(argv[1], "write") ? REQ_OP_WRITE : REQ_OP_READ, (u32)strtoul(argv[2], NULL, 10),
			      (u32)strtoul(argv[3], NULL, 10));
	return replicas(argc, argv);
}
