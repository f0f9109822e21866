/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reads a file for some seconds and prints how far it got: `BYTES SECONDS BYTES SECONDS`, the bytes that the program
 * used, as a whole and in the second half of the time.
 *
 *   nfsread seq|random FILE SECONDS [MEGABYTES]
 *
 * seq reads 128 KiB at a time with pread, from the start, again and again. random touches single pages of a mapping.
 * Both begin with a cold file. With MEGABYTES each stays within the first so many of the file. Every page must begin
 * with its own number, as `nfsread fill` writes it; another one ends the program with status 1.
 *
 *   nfsread fill FILE MEGABYTES
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, CHUNK = 128 << 10 };

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void check(const void *page, uint64_t number)
{
	uint64_t found;

	memcpy(&found, page, sizeof(found));
	if (found == number)
		return;
	fprintf(stderr, "page %llu holds %llu\n", (unsigned long long)number, (unsigned long long)found);
	exit(1);
}

static int fill(const char *path, uint64_t bytes)
{
	static uint64_t chunk[CHUNK / sizeof(uint64_t)];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (fd < 0)
		die(path);
	for (uint64_t at = 0; at < bytes; at += CHUNK) {
		for (uint64_t page = 0; page < CHUNK / PAGE; page++)
			chunk[page * PAGE / sizeof(uint64_t)] = at / PAGE + page;
		if (write(fd, chunk, CHUNK) != CHUNK)
			die(path);
	}
	if (fsync(fd))
		die(path);
	return 0;
}

int main(int count, char **words)
{
	static char chunk[CHUNK];
	struct stat found;
	uint64_t used = 0, first = 0, pages, random = 88172645463325252ull;

	if (count == 4 && !strcmp(words[1], "fill"))
		return fill(words[2], strtoull(words[3], 0, 10) << 20);
	if (count < 4 || count > 5) {
		fprintf(stderr, "usage: nfsread seq|random FILE SECONDS [MEGABYTES]\n");
		return 2;
	}
	int fd = open(words[2], O_RDONLY);
	if (fd < 0 || fstat(fd, &found))
		die(words[2]);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	pages = (count == 5 ? strtoull(words[4], 0, 10) << 20 : (uint64_t)found.st_size) / PAGE;
	double begun = seconds(), now = begun, end = begun + strtod(words[3], 0), middle = (begun + end) / 2, turned = 0;
	if (!strcmp(words[1], "seq")) {
		for (uint64_t at = 0; (now = seconds()) < end; at = at + CHUNK < pages * PAGE ? at + CHUNK : 0) {
			if (!turned && now >= middle)
				turned = now, first = used;
			if (pread(fd, chunk, CHUNK, (off_t)at) != CHUNK)
				die(words[2]);
			check(chunk, at / PAGE);
			used += CHUNK;
		}
	} else {
		const char *map = mmap(0, pages * PAGE, PROT_READ, MAP_SHARED, fd, 0);
		if (map == MAP_FAILED)
			die(words[2]);
		while ((now = seconds()) < end) {
			if (!turned && now >= middle)
				turned = now, first = used;
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			check(map + random % pages * PAGE, random % pages);
			used += PAGE;
		}
	}
	if (!turned)
		turned = begun; /* one read took longer than half of the time */
	printf("%llu %.3f %llu %.3f\n", (unsigned long long)used, now - begun, (unsigned long long)(used - first), now - turned);
	return 0;
}
