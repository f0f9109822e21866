/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Checks the invariant of spec/md-volume.md: right after each acknowledged write, every trusted leg is read and must
 * hold it.
 *
 *   mdcheck VOLUME SEED MEBIBYTES DRIVE:OFFSET...     until SIGTERM; DRIVE and OFFSET (in sectors) per leg, in order
 *
 * Sends one to three writes at once, 512 bytes to 64 KiB, which often overlap. When all have ended, the legs that the
 * status calls trusted are read from their drives, and the volume is read. A leg counts if it had the same generation
 * and was trusted before and after its read. Each sector names itself and its write. Where writes overlapped, all must
 * agree on one of them. Now and then a place that was written earlier is checked in the same way. The first MEBIBYTES
 * of the volume are overwritten. Prints what it did, and exits with 1 at the first stale sector.
 */
#include <liburing.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include "dm.h"

#define SECTOR 512
#define LEGS_MAX 8
#define AT_ONCE 3
#define LONGEST (64 << 10)

struct mark { uint64_t magic, sector, version; };
struct leg { int fd; uint64_t offset; uint64_t generation; int trusted; unsigned long reads; };

static const char *volume;
static struct leg legs[LEGS_MAX];
static int leg_count, fd;
static uint64_t sectors, version = 1, seed;
static uint64_t *expected; /* version of each sector; 0: never written */
static char *buffers[AT_ONCE], *found, *other;
static volatile sig_atomic_t stopped;
static unsigned long writes, untrusted, rechecks;

static void stop(int number)
{
	(void)number;
	stopped = 1;
}

static uint64_t chance(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

static void must(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "mdcheck: %s: %s\n", what, strerror(errno));
	exit(2);
}

/* Sets trust and generation of each leg. */
static void ask(struct leg *to)
{
	static struct dm_call call;
	const char *line = NULL;
	char *word, *value;
	int k = -1, error = dm_line(&call, volume, DM_NOFLUSH_FLAG, &line);

	errno = error;
	must(!error, "status");
	for (word = strtok((char *)line, " "); word && (value = strtok(NULL, " ")); word = strtok(NULL, " ")) {
		k += !strcmp(word, "dev");
		if (k >= 0 && k < leg_count && !strcmp(word, "trust"))
			to[k].trusted = !strcmp(value, "trusted");
		if (k >= 0 && k < leg_count && !strcmp(word, "generation"))
			to[k].generation = strtoull(value, NULL, 10);
	}
}

static uint64_t version_at(const char *data, uint64_t sector, uint64_t first)
{
	const struct mark *mark = (const void *)(data + (sector - first) * SECTOR);

	return mark->magic == 0x6c696e6e65740a0d && mark->sector == sector ? mark->version : 0;
}

static void stale(const char *where, int k, uint64_t sector, uint64_t has, uint64_t wants)
{
	printf("mdcheck: STALE: %s %d, sector %llu: write %llu, not %llu (%lu writes so far)\n", where, k,
	       (unsigned long long)sector, (unsigned long long)has, (unsigned long long)wants, writes);
	exit(1);
}

/* Every trusted leg, and the volume, hold what is expected. Of the writes after `lowest` any may have come last. */
static void check(uint64_t start, uint64_t end, uint64_t lowest)
{
	struct leg before[LEGS_MAX], after[LEGS_MAX];
	size_t size = (end - start) * SECTOR;
	uint64_t s;

	memcpy(before, legs, sizeof(before));
	memcpy(after, legs, sizeof(after));
	must(pread(fd, other, size, start * SECTOR) == (ssize_t)size, "read of the volume");
	for (s = start; s < end; s++) {
		uint64_t has = version_at(other, s, start);

		/* Above `lowest` several writes may have come last: any of them, but the same everywhere. */
		if (expected[s] > lowest && has > lowest && has <= expected[s])
			expected[s] = has;
		else if (expected[s] && has != expected[s])
			stale("the volume", 0, s, has, expected[s]);
	}
	ask(before);
	for (int k = 0; k < leg_count; k++) {
		if (!before[k].trusted) {
			untrusted++;
			continue;
		}
		if (pread(legs[k].fd, found, size, (start + legs[k].offset) * SECTOR) != (ssize_t)size)
			continue; /* the drive fails: a steered read would go through md */
		ask(after);
		if (!after[k].trusted || after[k].generation != before[k].generation)
			continue;
		legs[k].reads++;
		for (s = start; s < end; s++)
			if (expected[s] && version_at(found, s, start) != expected[s])
				stale("trusted leg", k, s, version_at(found, s, start), expected[s]);
	}
}

static void fill(char *buffer, uint64_t start, uint64_t end, uint64_t by)
{
	for (uint64_t s = start; s < end; s++) {
		struct mark mark = { 0x6c696e6e65740a0d, s, by };

		memcpy(buffer + (s - start) * SECTOR, &mark, sizeof(mark));
		expected[s] = by;
	}
}

static void round_of_writes(struct io_uring *ring)
{
	unsigned count = chance(3) ? 1 : 2 + chance(AT_ONCE - 1);
	uint64_t base = chance(sectors - 2 * LONGEST / SECTOR), low = ~0ULL, high = 0, lowest = version;
	struct io_uring_cqe *cqe;

	for (unsigned i = 0; i < count; i++) {
		uint64_t start = base + chance(32), end = start + 1 + chance(chance(8) ? 16 : LONGEST / SECTOR - 32);
		struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

		fill(buffers[i], start, end, ++version);
		io_uring_prep_write(sqe, fd, buffers[i], (end - start) * SECTOR, start * SECTOR);
		sqe->user_data = (end - start) * SECTOR;
		low = start < low ? start : low;
		high = end > high ? end : high;
	}
	must(io_uring_submit(ring) == (int)count, "submit");
	for (unsigned i = 0; i < count; i++) {
		int error;

		do /* a signal may come while a slow leg is waited for */
			error = io_uring_wait_cqe(ring, &cqe);
		while (error == -EINTR);
		errno = -error;
		must(!error, "wait");
		errno = -cqe->res;
		must(cqe->res == (int)cqe->user_data, "write");
		io_uring_cqe_seen(ring, cqe);
		writes++;
	}
	/* A single write leaves nothing open. */
	check(low, high, count == 1 ? version : lowest);
}

int main(int argc, char **argv)
{
	struct io_uring ring;
	char path[256];

	if (argc < 5 || argc > 4 + LEGS_MAX) {
		fprintf(stderr, "usage: mdcheck VOLUME SEED MEBIBYTES DRIVE:OFFSET...\n");
		return 2;
	}
	volume = argv[1];
	seed = strtoull(argv[2], NULL, 10) * 0x9e3779b97f4a7c15 + 1;
	sectors = strtoull(argv[3], NULL, 10) << 11;
	for (leg_count = 0; leg_count < argc - 4; leg_count++) {
		char *colon = strrchr(argv[4 + leg_count], ':');

		must(colon != NULL, argv[4 + leg_count]);
		*colon = '\0';
		legs[leg_count].offset = strtoull(colon + 1, NULL, 10);
		legs[leg_count].fd = open(argv[4 + leg_count], O_RDONLY | O_DIRECT | O_CLOEXEC);
		must(legs[leg_count].fd >= 0, argv[4 + leg_count]);
	}
	snprintf(path, sizeof(path), "/dev/mapper/%s", volume);
	fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	must(fd >= 0, path);
	expected = calloc(sectors, sizeof(*expected));
	for (int i = 0; i < AT_ONCE; i++)
		must(!posix_memalign((void **)&buffers[i], 4096, LONGEST), "memory");
	must(!posix_memalign((void **)&found, 4096, 2 * LONGEST) && !posix_memalign((void **)&other, 4096, 2 * LONGEST), "memory");
	must(!io_uring_queue_init(AT_ONCE, &ring, 0), "io_uring");
	signal(SIGTERM, stop);
	while (!stopped) {
		round_of_writes(&ring);
		if (chance(4) == 0) {
			uint64_t start = chance(sectors - 128);

			check(start, start + 1 + chance(127), version);
			rechecks++;
		}
	}
	printf("mdcheck: %lu acknowledged writes, %lu older places, legs read:", writes, rechecks);
	for (int k = 0; k < leg_count; k++)
		printf(" %lu", legs[k].reads);
	printf(", untrusted %lu times, 0 stale\n", untrusted);
	return 0;
}
