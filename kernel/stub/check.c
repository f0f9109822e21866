// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks kernel/dm in user space: check SEED INPUTS, without random ones if INPUTS is 0, or check fuzz SEED SECONDS
 * [FIRST CASES] for random devices (fuzz.c). The model files are in the directory that MODELS names.
 */
#include "check.h"

unsigned long checks, failures;
u64 seed;
static u64 state;

u64 chance(void)
{
	u64 z = (state += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

void chance_from(u64 start) { state = start; }

struct dm_target *make(const char *line, bool readonly, char **error)
{
	char *words = strdup(line);
	struct dm_target *ti = stub_create(words, readonly, error);

	free(words);
	return ti;
}

struct dm_target *must(const char *line)
{
	char *error;
	struct dm_target *ti = make(line, true, &error);

	if (!ti) {
		fprintf(stderr, "%s: %s\n", line, error);
		stub_die("a table that should load");
	}
	return ti;
}

int tell(struct dm_target *ti, const char *words)
{
	char *copy = strdup(words);
	int error = stub_message(ti, copy);

	free(copy);
	return error;
}

void table_of(struct dm_target *ti, char *text, size_t size)
{
	text[0] = 0;
	ti->type->status(ti, STATUSTYPE_TABLE, 0, text, (unsigned int)size);
}

u64 count_of(struct dm_target *ti, const char *key, int leg)
{
	char text[4096], *word, *rest = text;
	int seen = -1;

	ti->type->status(ti, STATUSTYPE_INFO, 0, text, sizeof(text));
	while ((word = strsep(&rest, " "))) {
		char *value = strsep(&rest, " ");

		if (!value)
			break;
		if (!strcmp(word, "dev"))
			seen++;
		if (!strcmp(word, key) && seen == leg)
			return strtoull(value, NULL, 10);
	}
	CHECK(0, "no %s in the status", key);
	return 0;
}

struct file load_file(const char *name)
{
	struct file file;
	char path[512];
	FILE *in;

	snprintf(path, sizeof(path), "%s/%s", getenv("MODELS") ?: ".", name);
	in = fopen(path, "rb");
	if (!in) {
		perror(path);
		exit(2);
	}
	fseek(in, 0, SEEK_END);
	file.size = (size_t)ftell(in);
	rewind(in);
	file.bytes = malloc(file.size);
	if (fread(file.bytes, 1, file.size, in) != file.size)
		stub_die("a model file that cannot be read");
	fclose(in);
	return file;
}

void put_model(const char *name, const char *as)
{
	struct file file = load_file(name);
	char path[128];

	snprintf(path, sizeof(path), "linnet/%s", as);
	stub_firmware(path, file.bytes, file.size);
	free(file.bytes);
}

struct stub_bio *new_bio(blk_opf_t opf, u16 ioprio, u64 sector, u32 size_bytes)
{
	struct stub_bio *b = calloc(1, sizeof(*b));

	b->bio.bi_opf = opf;
	b->bio.bi_ioprio = ioprio;
	b->bio.bi_iter.bi_sector = sector;
	b->bio.bi_iter.bi_size = size_bytes;
	return b;
}

void make_legs(struct dm_target *legs[2])
{
	char words[32];

	for (u32 k = 0; k < 2; k++) {
		snprintf(words, sizeof(words), "/dev/leg%u 16", k);
		legs[k] = stub_create_leg(words, k);
	}
}

void trust_both(struct dm_target *volume, struct dm_target *const legs[2])
{
	static struct bio_vec vec;
	struct stub_bio *whole = new_bio(REQ_OP_WRITE, 0, 0, 4096), *part;
	char words[64];

	for (u32 k = 0; k < 2; k++) {
		snprintf(words, sizeof(words), "trust %u %llu", k, (unsigned long long)count_of(volume, "generation", k));
		CHECK(tell(volume, words) == 0, "trust");
	}
	whole->bio.bi_io_vec = &vec;
	stub_submit(volume, whole);
	for (u32 k = 0; k < 2; k++) {
		part = new_bio(REQ_OP_WRITE, 0, 2048, 4096);
		part->bio.bi_io_vec = &vec;
		stub_submit(legs[k], part);
		stub_complete(part, BLK_STS_OK);
		free(part);
	}
	stub_complete(whole, BLK_STS_OK);
	free(whole);
	stub_run_works();
}

void end_probes(struct dm_target *ti)
{
	struct linnet_dm *dm = ti->private;
	unsigned int probes = 0;

	stub_run_works();
	for (u32 k = 0; k < dm->leg_count; k++)
		probes += test_bit(LINNET_LEG_PROBED, &dm->legs[k].flags);
	CHECK(probes == stub_own_count, "%u probes, %u bios of the target's own", probes, stub_own_count);
	while (stub_own_count)
		stub_complete_own(0, BLK_STS_OK, 9);
}

int main(int argc, char **argv)
{
	unsigned long inputs;

	bool fuzzing = argc > 3 && !strcmp(argv[1], "fuzz");
	int error;

	if (argc != 3 && !(fuzzing && (argc == 4 || argc == 6))) {
		fprintf(stderr, "usage: MODELS=DIR check SEED INPUTS\n       MODELS=DIR check fuzz SEED SECONDS [FIRST CASES]\n");
		return 2;
	}
	stub_verbose = getenv("VERBOSE") != NULL;
	if (stub_init())
		stub_die("the module did not load");
	if (fuzzing) {
		error = fuzz(strtoull(argv[2], NULL, 10), (unsigned int)atoi(argv[3]), argc > 4 ? strtoull(argv[4], NULL, 10) : 0,
			     argc > 4 ? strtoull(argv[5], NULL, 10) : U64_MAX / 2);
		stub_exit();
		return error;
	}
	state = seed = strtoull(argv[1], NULL, 10);
	inputs = strtoul(argv[2], NULL, 10);
	check_revoke();
	check_service();
	check_sharing();
	check_status();
	check_flags();
	check_again();
	check_volume();
	check_held_writes();
	check_trust_races();
	check_hedges();
	check_probes();
	check_model_rules();
	if (inputs) {
		check_models(inputs);
		check_reads(inputs);
		check_tables(inputs);
	}
	stub_exit();
	printf("kernel/dm in user space: %lu checks, %lu failed (seed %lu)\n", checks, failures, seed);
	return failures != 0;
}
