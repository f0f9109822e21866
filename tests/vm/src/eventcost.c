/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * eventcost FILE ROUNDS: what reads of a file cost whose pages come from memory, or from a device in memory. Prints a
 * line for each kind: name, median, minimum and mean ns, and how many pages each took. If the machine's clock counts
 * instructions (qemu -icount shift=0), these are instructions. What somebody adds to them by watching is the difference
 * to a run without.
 *
 *   read    pread of one page that is in memory: one demand
 *   fault   touch of a page that is in memory and not mapped: one demand, and 16 pages are mapped
 *   bring   pread of 128 KiB that are not in memory: 32 pages enter the page cache, and are one demand
 *   open    open, then close after one page was read: a file that ends
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, AROUND = 16, CHUNK = 128 << 10, WARM = 16 };

static const char *path;
static int fd;
static size_t pages;
static unsigned char *map;
static char buffer[CHUNK];
static volatile unsigned char sink;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int64_t read_one(size_t n)
{
	int64_t begun = now_ns();

	if (pread(fd, buffer, PAGE, (off_t)(n * 7 % pages * PAGE)) != PAGE)
		die("pread");
	return now_ns() - begun;
}

static int64_t fault_one(size_t n)
{
	int64_t begun;

	n = n * AROUND % (pages - AROUND);
	if (n == 0 || !map) {
		if (map && munmap(map, pages * PAGE))
			die("munmap");
		map = mmap(NULL, pages * PAGE, PROT_READ, MAP_SHARED, fd, 0);
		if (map == MAP_FAILED)
			die("mmap");
	}
	begun = now_ns();
	sink = map[n * PAGE];
	return now_ns() - begun;
}

static int64_t bring(size_t n)
{
	off_t at = (off_t)(n * CHUNK % (pages * PAGE - CHUNK));
	int64_t begun;

	if (at < CHUNK) {
		/* Mapped pages stay in memory. */
		if (map && munmap(map, pages * PAGE))
			die("munmap");
		map = NULL;
		if (posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
			die("posix_fadvise");
	}
	begun = now_ns();
	if (pread(fd, buffer, CHUNK, at) != CHUNK)
		die("pread");
	return now_ns() - begun;
}

static int64_t open_one(size_t n)
{
	int64_t begun = now_ns();
	int other = open(path, O_RDONLY);

	if (other < 0 || pread(other, buffer, PAGE, (off_t)(n * 7 % pages * PAGE)) != PAGE || close(other))
		die(path);
	return now_ns() - begun;
}

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void measure(const char *name, int64_t (*one)(size_t), size_t rounds, int per)
{
	int64_t *took = calloc(rounds, sizeof(*took)), sum = 0;

	if (!took)
		die("calloc");
	for (size_t n = 0; n < WARM + rounds; n++) {
		int64_t t = one(n);

		if (n >= WARM) {
			took[n - WARM] = t;
			sum += t;
		}
	}
	qsort(took, rounds, sizeof(*took), ascending);
	printf("%s %lld %lld %lld %d\n", name, (long long)took[rounds / 2], (long long)took[0],
	       (long long)(sum / (int64_t)rounds), per);
	free(took);
}

int main(int argc, char **argv)
{
	size_t rounds = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	struct stat info;

	if (!rounds) {
		fprintf(stderr, "usage: eventcost FILE ROUNDS\n");
		return 2;
	}
	path = argv[1];
	fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &info))
		die(path);
	pages = (size_t)info.st_size / PAGE;
	if (pages < 4 * CHUNK / PAGE) {
		fprintf(stderr, "eventcost: %s has less than 512 KiB\n", path);
		return 1;
	}
	for (size_t at = 0; at < pages * PAGE; at += CHUNK)
		if (pread(fd, buffer, CHUNK, (off_t)at) <= 0)
			die("pread");
	measure("read", read_one, rounds, 1);
	measure("fault", fault_one, rounds, AROUND);
	measure("open", open_one, rounds, 1);
	measure("bring", bring, rounds / 4 + 1, CHUNK / PAGE);
	return 0;
}
