/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reads one file in the ways that a readahead tuner tells apart, step by step, through one descriptor and one mapping:
 *
 *   filereads FILE STEP...
 *
 *   touch:N[:SEED]    touches N random pages through the mapping
 *   pread:N[:SEED]    reads N random pages
 *   scan:N            reads the first N pages in order, 16 at a time
 *   sendfile:N        sends the first N pages to /dev/null
 *   late:N            reads N runs of 32 pages, 128 pages apart. The first is not in memory; of the others 20 pages are,
 *                     and 12 on their way from the device. Prints of how many that was so
 *   walk:N            touches the first N pages in order
 *   cold              drops the file from memory and maps it anew
 *   fault:PAGE        touches the first page from PAGE on that has no other in memory within 80 pages, and prints how
 *                     many pages that brought
 *   advise:WHAT       posix_fadvise: normal, random, sequential
 *   madvise:WHAT      the same for the mapping
 *   reopen            closes the file and opens it again
 *   done:PATH         creates PATH
 *   wait:PATH         waits until PATH exists
 *   until:PATH:STEP   drops the file from memory and does STEP, again and again until PATH exists; `touch` and `pread`
 *                     read other pages each time
 *
 * Nothing has a limit of time: machines may be slow, and the caller has one.
 *   storm:N           N times: opens the file, touches a page, closes it
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096
#define CLEAR 80
#define RUN 32
#define LATE 12
#define APART 128

static const char *path;
static int fd = -1;
static unsigned char *map;
static size_t pages;
static volatile unsigned char sink;

static void die(const char *what)
{
	fprintf(stderr, "filereads: %s: %s: %s\n", path, what, strerror(errno));
	exit(1);
}

static void map_anew(void)
{
	if (map && munmap(map, pages * PAGE))
		die("munmap");
	map = mmap(NULL, pages * PAGE, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		die("mmap");
}

static void open_file(void)
{
	struct stat info;

	if (fd >= 0) {
		munmap(map, pages * PAGE);
		map = NULL;
		close(fd);
	}
	fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &info))
		die("open");
	pages = (size_t)info.st_size / PAGE;
	if (pages == 0) {
		errno = EINVAL;
		die("needs at least a page");
	}
	map_anew();
}

static size_t draw(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (size_t)(*state >> 33) % pages;
}

/* Which pages of the file are in memory, whoever reads them. */
static const unsigned char *in_memory(void)
{
	static unsigned char *there;

	there = realloc(there, pages);
	if (!there || mincore(map, pages * PAGE, there))
		die("mincore");
	return there;
}

static size_t count(void)
{
	const unsigned char *there = in_memory();
	size_t n = 0;

	for (size_t i = 0; i < pages; i++)
		n += there[i] & 1;
	return n;
}

static size_t lonely(size_t from)
{
	const unsigned char *there = in_memory();

	for (size_t at = from < CLEAR ? CLEAR : from, seen = at - CLEAR; seen < pages; seen++) {
		if (there[seen] & 1)
			at = seen + 1 + CLEAR > at ? seen + 1 + CLEAR : at;
		else if (seen == at + CLEAR)
			return at;
	}
	errno = ENOSPC;
	die("no place without pages in memory");
	return 0;
}

static void bring(size_t at, size_t n)
{
	if (posix_fadvise(fd, (off_t)(at * PAGE), (off_t)(n * PAGE), POSIX_FADV_WILLNEED))
		die("posix_fadvise");
}

static size_t late(size_t runs)
{
	static char buffer[RUN * PAGE];
	size_t on_their_way = 0;

	for (size_t at = 0; at < runs * APART && at + RUN <= pages; at += APART) {
		/* Without a read that the kernel reads ahead for, nobody knows this open file's value. */
		if (at > 0) {
			size_t there;

			bring(at, RUN - LATE);
			do {
				usleep(1000);
				for (there = 0; there < RUN - LATE && in_memory()[at + there] & 1; there++)
					;
			} while (there < RUN - LATE);
			bring(at + RUN - LATE, LATE);
			on_their_way += !(in_memory()[at + RUN - LATE] & 1);
		}
		if (pread(fd, buffer, sizeof(buffer), (off_t)(at * PAGE)) != sizeof(buffer))
			die("pread");
	}
	return on_their_way;
}

static void send_pages(size_t n)
{
	int null = open("/dev/null", O_WRONLY);
	off_t at = 0;

	while (at < (off_t)(n * PAGE))
		if (sendfile(null, fd, &at, n * PAGE - (size_t)at) <= 0)
			die("sendfile");
	close(null);
}

static int advice(const char *what)
{
	return !strcmp(what, "random") ? POSIX_FADV_RANDOM : !strcmp(what, "sequential") ? POSIX_FADV_SEQUENTIAL : 0;
}

/* Rounds of `until`: they move the seeds. */
static uint64_t rounds;

static void step(char *word);

static void until(const char *end, const char *repeated)
{
	char word[256];

	for (; access(end, F_OK); rounds++) {
		strcpy(word, "cold");
		step(word);
		snprintf(word, sizeof(word), "%s", repeated);
		step(word);
		usleep(200000);
	}
	rounds = 0;
}

static void step(char *word)
{
	char *argument = strchr(word, ':'), *second = argument ? strchr(argument + 1, ':') : NULL;
	size_t n = argument ? strtoul(argument + 1, NULL, 10) : 0;
	uint64_t state = (second ? strtoul(second + 1, NULL, 10) : 1) + 1000 * rounds;
	static char buffer[16 * PAGE];

	if (argument)
		*argument++ = 0;
	if (!strcmp(word, "touch")) {
		for (size_t i = 0; i < n; i++)
			sink = map[draw(&state) * PAGE];
	} else if (!strcmp(word, "pread")) {
		for (size_t i = 0; i < n; i++)
			if (pread(fd, buffer, PAGE, (off_t)(draw(&state) * PAGE)) != PAGE)
				die("pread");
	} else if (!strcmp(word, "scan")) {
		for (size_t at = 0; at < n && at < pages; at += 16)
			if (pread(fd, buffer, sizeof(buffer), (off_t)(at * PAGE)) <= 0)
				die("read");
	} else if (!strcmp(word, "sendfile")) {
		send_pages(n);
	} else if (!strcmp(word, "late")) {
		printf("%zu\n", late(n));
		fflush(stdout);
	} else if (!strcmp(word, "walk")) {
		for (size_t at = 0; at < n && at < pages; at++)
			sink = map[at * PAGE];
	} else if (!strcmp(word, "cold")) {
		/* What is mapped is not dropped. */
		munmap(map, pages * PAGE);
		map = NULL;
		if (posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
			die("posix_fadvise");
		map_anew();
	} else if (!strcmp(word, "fault")) {
		size_t at = lonely(n), before = count();

		sink = map[at * PAGE];
		printf("%zu\n", count() - before);
		fflush(stdout);
	} else if (!strcmp(word, "advise")) {
		if (posix_fadvise(fd, 0, 0, advice(argument)))
			die("posix_fadvise");
	} else if (!strcmp(word, "madvise")) {
		if (madvise(map, pages * PAGE, advice(argument)))
			die("madvise");
	} else if (!strcmp(word, "reopen")) {
		open_file();
	} else if (!strcmp(word, "done")) {
		close(open(argument, O_CREAT | O_WRONLY, 0600));
	} else if (!strcmp(word, "wait")) {
		while (access(argument, F_OK))
			usleep(100000);
	} else if (!strcmp(word, "until") && second) {
		*second = 0;
		until(argument, second + 1);
	} else if (!strcmp(word, "storm")) {
		for (size_t i = 0; i < n; i++) {
			open_file();
			sink = map[draw(&state) * PAGE];
		}
	} else {
		fprintf(stderr, "filereads: no step `%s`; its source lists them\n", word);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: filereads FILE STEP...\n");
		return 2;
	}
	path = argv[1];
	open_file();
	for (int i = 2; i < argc; i++)
		step(argv[i]);
	return 0;
}
