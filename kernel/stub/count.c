// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts instructions per decision, for callgrind. count POLICY MODEL READS BATCH runs reads on three replicas, eight
 * in flight: BATCH of them end, then BATCH more arrive. Only code inside measured_map and measured_end is counted.
 * Prints the number of bytes that the target keeps.
 */
#include "block.h"
#include "linnet-dm.h"

#define INFLIGHT 8

__attribute__((noinline)) int measured_map(struct dm_target *ti, struct bio *bio)
{
	return ti->type->map(ti, bio);
}

__attribute__((noinline)) int measured_end(struct dm_target *ti, struct bio *bio)
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

int main(int argc, char **argv)
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
	}
	printf("%zu %zu %zu\n", sizeof(struct linnet_dm) + 3 * sizeof(struct linnet_leg), sizeof(struct linnet_io),
	       sizeof(struct linnet_inflight_io));
	return 0;
}
