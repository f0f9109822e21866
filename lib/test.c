/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tests liblinnet with the stand-in: which replicas get the read, with which tag, and what the caller gets. */
#define _GNU_SOURCE
#include "liblinnet.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stand_in.h"

#define REPLICAS 3
#define SIZE 4096

static struct linnet_reader_replica replicas[REPLICAS];
static char expected[REPLICAS];
/* The answers of each replica to tagged and to untagged reads, and the requests that it got. */
static long tagged_answer[REPLICAS], untagged_answer[REPLICAS];
static char asked[64];
static unsigned random_state = 1;

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "%s:%d: not so: %s (asked: %s)\n", __FILE__, __LINE__, #condition, asked);     \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

static unsigned which(int fd)
{
	for (unsigned i = 0; i < REPLICAS; i++)
		if (replicas[i].fd == fd)
			return i;
	abort();
}

/* Records the replica, as `0t` with the tag and `0` without. */
static long scripted(const struct stand_in_read *read, unsigned *delay_us)
{
	unsigned i = which(read->fd);

	*delay_us = 0;
	if (strlen(asked) < sizeof(asked) - 4)
		sprintf(asked + strlen(asked), "%u%s ", i, read->tag ? "t" : "");
	if (read->tag)
		CHECK(read->tag == LINNET_TAG_DEFAULT);
	return read->tag ? tagged_answer[i] : untagged_answer[i];
}

static void reset(void)
{
	memset(tagged_answer, 0, sizeof(tagged_answer));
	memset(untagged_answer, 0, sizeof(untagged_answer));
	stand_in_direct = 1;
	asked[0] = 0;
}

static ssize_t read_one(unsigned tag, unsigned count, struct linnet_reader_stats *stats, char *first)
{
	struct linnet_reader *reader;
	char buffer[SIZE] = {0};
	ssize_t got;

	CHECK(linnet_reader_open(&reader, tag, 1) == 0);
	got = linnet_read(reader, replicas, count, buffer, SIZE, SIZE);
	linnet_reader_stats(reader, stats);
	CHECK(linnet_inflight(reader) == 0);
	linnet_reader_close(reader);
	*first = buffer[0];
	return got;
}

static void one_read(void)
{
	struct linnet_reader_stats s;
	char first;

	reset(); /* all fast: the primary answers a tagged read */
	CHECK(read_one(LINNET_TAG_DEFAULT, 3, &s, &first) == SIZE && first == expected[0]);
	CHECK(!strcmp(asked, "0t ") && s.revokes == 0 && s.failovers == 0 && s.errors == 0);

	reset(); /* the last replica never gets the tag */
	tagged_answer[0] = tagged_answer[1] = tagged_answer[2] = -EAGAIN;
	CHECK(read_one(LINNET_TAG_DEFAULT, 3, &s, &first) == SIZE && first == expected[2]);
	CHECK(!strcmp(asked, "0t 1t 2 ") && s.revokes == 2 && s.failovers == 2 && s.errors == 0);

	reset(); /* one replica: no tag */
	tagged_answer[0] = -EAGAIN;
	CHECK(read_one(LINNET_TAG_DEFAULT, 1, &s, &first) == SIZE && first == expected[0]);
	CHECK(!strcmp(asked, "0 ") && s.revokes == 0);

	reset(); /* after an error the next replica is tried; the error is counted */
	tagged_answer[0] = -EIO;
	CHECK(read_one(LINNET_TAG_DEFAULT, 3, &s, &first) == SIZE && first == expected[1]);
	CHECK(!strcmp(asked, "0t 1t ") && s.revokes == 0 && s.failovers == 1 && s.errors == 1);

	reset(); /* the last one fails: the one that only revoked still has the data */
	tagged_answer[0] = -EAGAIN;
	tagged_answer[1] = -EIO;
	untagged_answer[2] = -EIO;
	CHECK(read_one(LINNET_TAG_DEFAULT, 3, &s, &first) == SIZE && first == expected[0]);
	CHECK(!strcmp(asked, "0t 1t 2 0 ") && s.revokes == 1 && s.errors == 2 && s.failovers == 3);

	reset(); /* an error to the tag is not final: without the tag the replica serves the read */
	tagged_answer[0] = -EIO;
	untagged_answer[1] = -ENODEV;
	CHECK(read_one(LINNET_TAG_DEFAULT, 2, &s, &first) == SIZE && first == expected[0]);
	CHECK(!strcmp(asked, "0t 1 0 ") && s.revokes == 0 && s.errors == 2 && s.failovers == 2);

	reset(); /* one that only revoked comes before one that failed with the tag */
	tagged_answer[0] = -EIO;
	tagged_answer[1] = -EAGAIN;
	untagged_answer[2] = -EIO;
	CHECK(read_one(LINNET_TAG_DEFAULT, 3, &s, &first) == SIZE && first == expected[1]);
	CHECK(!strcmp(asked, "0t 1t 2 1 ") && s.revokes == 1 && s.errors == 2);

	reset(); /* all fail: the result is the last error; each is read once without the tag */
	tagged_answer[0] = -EAGAIN;
	tagged_answer[1] = -EIO;
	untagged_answer[0] = -ETIMEDOUT;
	untagged_answer[1] = -ENODEV;
	untagged_answer[2] = -EIO;
	CHECK(read_one(LINNET_TAG_DEFAULT, 3, &s, &first) == -ENODEV);
	CHECK(!strcmp(asked, "0t 1t 2 0 1 ") && s.errors == 4 && s.failovers == 4);

	reset(); /* EAGAIN without a tag is an error, not a revoke, and does not loop */
	untagged_answer[0] = -EAGAIN;
	CHECK(read_one(LINNET_TAG_DEFAULT, 1, &s, &first) == -EAGAIN);
	CHECK(s.revokes == 0 && s.errors == 1 && s.failovers == 0);

	reset(); /* a reader without a tag */
	tagged_answer[0] = -EAGAIN;
	CHECK(read_one(LINNET_TAG_NONE, 3, &s, &first) == SIZE && first == expected[0]);
	CHECK(!strcmp(asked, "0 ") && s.untagged == 0);

	reset(); /* buffered reads are never tagged: a revoked one would fail with EIO */
	stand_in_direct = 0;
	tagged_answer[0] = -EAGAIN;
	CHECK(read_one(LINNET_TAG_DEFAULT, 3, &s, &first) == SIZE && first == expected[0]);
	CHECK(!strcmp(asked, "0 ") && s.untagged == 1);
}

/* The answers of replica 0 to a read and to its rest, as bytes or an error; 0: as much as the file has. */
static long piece, rest;
static off_t piece_at;
static size_t largest;

static long in_pieces(const struct stand_in_read *read, unsigned *delay_us)
{
	unsigned i = which(read->fd);
	int again = read->offset != piece_at + replicas[i].offset;

	*delay_us = 0;
	sprintf(asked + strlen(asked), "%u%s%s ", i, read->tag ? "t" : "", again ? "+" : "");
	largest = read->size > largest ? read->size : largest;
	return i ? 0 : again ? rest : piece;
}

/* All bytes of the result are of one replica. */
static ssize_t read_in_pieces(unsigned count, size_t size, off_t offset, int direct, char *of)
{
	static char buffer[4 * SIZE];
	struct linnet_reader_replica *replica = replicas;
	struct linnet_reader *reader;
	ssize_t got;

	memset(buffer, 0, sizeof(buffer));
	asked[0] = 0;
	largest = 0;
	piece_at = offset;
	stand_in_direct = direct;
	stand_in_answer = in_pieces;
	CHECK(linnet_reader_open(&reader, LINNET_TAG_DEFAULT, 1) == 0);
	got = linnet_read(reader, replica, count, buffer, size, offset);
	linnet_reader_close(reader);
	stand_in_answer = scripted;
	*of = buffer[0];
	for (ssize_t i = 0; i < got; i++)
		CHECK(buffer[i] == *of);
	CHECK(got < 0 || got == (ssize_t)sizeof(buffer) || buffer[got] == 0);
	return got;
}

/* A short answer is the end of the file only if nothing follows. */
static void short_answers(void)
{
	char of;

	reset();
	piece = 1000, rest = 0; /* a buffered read stops before a page that is read again in vain, or in full */
	CHECK(read_in_pieces(3, SIZE, SIZE, 0, &of) == SIZE && of == expected[0] && !strcmp(asked, "0 0+ "));
	rest = 1;
	CHECK(read_in_pieces(3, SIZE, 2 * SIZE - 1004, 0, &of) == 1004 && !strcmp(asked, "0 0+ 0+ 0+ 0+ 0+ "));
	for (int i = 0; i < 2; i++) {
		rest = i ? -EINVAL : -EIO;
		CHECK(read_in_pieces(3, SIZE, SIZE, 0, &of) == SIZE && of == expected[1] && !strcmp(asked, "0 0+ 1 "));
	}
	rest = -EIO;
	CHECK(read_in_pieces(1, SIZE, SIZE, 0, &of) == -EIO && !strcmp(asked, "0 0+ "));

	piece = SIZE / 2, rest = 0; /* direct: the rest is read from a block on, and is judged like a read of its own */
	CHECK(read_in_pieces(3, SIZE, SIZE, 1, &of) == SIZE && of == expected[0] && !strcmp(asked, "0t 0t+ "));
	rest = -EAGAIN;
	CHECK(read_in_pieces(3, SIZE, SIZE, 1, &of) == SIZE && of == expected[1] && !strcmp(asked, "0t 0t+ 1t "));
	CHECK(read_in_pieces(1, SIZE, SIZE, 1, &of) == -EAGAIN && !strcmp(asked, "0 0+ "));
	rest = -EINVAL; /* it would start amid a block: the file ends there */
	CHECK(read_in_pieces(3, SIZE, SIZE, 1, &of) == SIZE / 2 && !strcmp(asked, "0t 0t+ "));
	piece = 1000; /* no drive has such blocks */
	CHECK(read_in_pieces(3, SIZE, SIZE, 1, &of) == 1000 && !strcmp(asked, "0t "));

	piece = rest = 0; /* the end of the file, and beyond it */
	CHECK(read_in_pieces(3, 2 * SIZE, SIZE, 0, &of) == SIZE && !strcmp(asked, "0 0+ "));
	CHECK(read_in_pieces(3, SIZE, 2 * SIZE, 1, &of) == 0 && !strcmp(asked, "0t "));
	/* The system cuts a read at 2 GiB less a page, where no rest may start on every drive. */
	CHECK(read_in_pieces(1, (size_t)3 << 30, SIZE, 1, &of) == SIZE && largest == 1 << 30);
}

static int refuse_tags(const struct stand_in_read *read)
{
	return read->tag ? -EPERM : 0;
}

static int refuse_all(const struct stand_in_read *read)
{
	(void)read;
	return -EBADF;
}

static int accept(const struct stand_in_read *read)
{
	(void)read;
	return 0;
}

static void refused_by_the_system(void)
{
	struct linnet_reader_stats s;
	char first;

	reset(); /* if the system refuses the tag, the read succeeds without a failover */
	stand_in_refuse = refuse_tags;
	CHECK(read_one(LINNET_TAG_DEFAULT, 3, &s, &first) == SIZE && first == expected[0]);
	CHECK(!strcmp(asked, "0 ") && s.untagged == 1 && s.failovers == 0);

	reset(); /* ended at submission: linnet_reap still returns it */
	stand_in_refuse = refuse_all;
	CHECK(read_one(LINNET_TAG_DEFAULT, 3, &s, &first) == -EBADF);
	CHECK(s.errors == 3 && s.failovers == 2);
	stand_in_refuse = accept;
}

static void arguments(void)
{
	struct linnet_request request = {.replicas = replicas, .count = 0};
	struct linnet_request *done;
	struct linnet_reader *reader;
	struct timespec none = {0, 0};

	reset();
	CHECK(linnet_reader_open(&reader, LINNET_TAG_DEFAULT, 0) == -EINVAL);
	CHECK(linnet_reader_open(&reader, 0x1004, 1) == -EINVAL); /* no class */
	CHECK(linnet_reader_open(&reader, 0x9004, 1) == -EINVAL);
	CHECK(linnet_reader_open(&reader, 0x4007, 1) == -EINVAL); /* no hint */
	CHECK(linnet_reader_open(&reader, 0x7004, 1) == 0);
	linnet_reader_close(reader);
	CHECK(linnet_reader_open(&reader, 0x10000, 1) == -EINVAL);
	CHECK(linnet_reader_open(&reader, LINNET_TAG_DEFAULT, 1) == 0);
	CHECK(linnet_submit(reader, &request) == -EINVAL);
	request.count = LINNET_READER_REPLICAS_MAX + 1;
	CHECK(linnet_submit(reader, &request) == -EINVAL);
	/* No place of the last replica; the first has one, and is not asked. */
	request.count = REPLICAS;
	for (int below = 0; below < 2; below++) {
		struct linnet_reader_replica far[REPLICAS] = {replicas[0], replicas[1], replicas[2]};

		far[0].offset = 0;
		far[REPLICAS - 1].offset = below ? -1 : 1;
		request.replicas = far;
		request.offset = below ? LONG_MIN : LONG_MAX;
		CHECK(linnet_submit(reader, &request) == -EINVAL && linnet_inflight(reader) == 0);
		CHECK(linnet_read(reader, far, REPLICAS, NULL, SIZE, request.offset) == -EINVAL && !asked[0]);
	}
	CHECK(linnet_reap(reader, &done, 1, &none) == 0);
	linnet_reader_close(reader);
	linnet_reader_close(NULL);
}

static void timeouts(void)
{
	struct timespec wrong[] = {{-1, 0}, {0, -1}, {0, 1000000000}};
	struct timespec late[] = {{LONG_MAX, 0}, {LONG_MAX / 1000000000, 999999999}};
	static char buffer[SIZE];
	struct linnet_request request = {.replicas = replicas, .count = 2, .buffer = buffer, .size = SIZE, .offset = SIZE};
	struct linnet_request *done;
	struct linnet_reader *reader;

	reset();
	tagged_answer[0] = -EAGAIN; /* the time that is left is computed after a revoke */
	CHECK(linnet_reader_open(&reader, LINNET_TAG_DEFAULT, 1) == 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		CHECK(linnet_reap(reader, &done, 1, &wrong[i]) == -EINVAL);
	for (size_t i = 0; i < sizeof(late) / sizeof(late[0]); i++) {
		CHECK(linnet_submit(reader, &request) == 0);
		CHECK(linnet_reap(reader, &done, 1, &late[i]) == 1 && done == &request && request.result == SIZE);
	}
	linnet_reader_close(reader);
}

/* A forked child has no part in the reader, and no replica is blamed for it. */
static void forked(void)
{
	static char buffer[SIZE];
	struct linnet_request request = {.replicas = replicas, .count = 2, .buffer = buffer, .size = SIZE, .offset = SIZE};
	struct linnet_request *done;
	struct linnet_reader_stats before, s;
	struct linnet_reader *reader;
	int status;
	pid_t child;

	reset();
	CHECK(linnet_reader_open(&reader, LINNET_TAG_DEFAULT, 2) == 0);
	CHECK(linnet_submit(reader, &request) == 0);
	linnet_reader_stats(reader, &before);
	child = fork();
	if (child == 0) {
		asked[0] = 0;
		CHECK(linnet_read(reader, replicas, 2, buffer, SIZE, SIZE) == -EOWNERDEAD);
		CHECK(linnet_submit(reader, &request) == -EOWNERDEAD);
		CHECK(linnet_reap(reader, &done, 1, NULL) == -EOWNERDEAD);
		linnet_reader_stats(reader, &s);
		CHECK(!memcmp(&s, &before, sizeof(s)) && !asked[0]);
		linnet_reader_close(reader);
		CHECK(stand_in_contexts == 1); /* the parent's */
		_exit(0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	CHECK(linnet_reap(reader, &done, 1, NULL) == 1 && request.result == SIZE);
	linnet_reader_close(reader);
}

/* If the system no longer gives answers, nothing that the kernel may still write to is handed back. */
static void no_answers(void)
{
	static char buffer[SIZE];
	struct linnet_request request = {.replicas = replicas, .count = 2, .buffer = buffer, .size = SIZE, .offset = SIZE};
	struct linnet_request *done;
	struct linnet_reader *reader;

	for (int with_read = 0; with_read < 2; with_read++) {
		reset();
		CHECK(stand_in_contexts == 0 && linnet_reader_open(&reader, LINNET_TAG_DEFAULT, 1) == 0);
		stand_in_getevents_error = -EINTR; /* a signal ends nothing */
		if (with_read) {
			CHECK(linnet_read(reader, replicas, 2, buffer, SIZE, SIZE) == SIZE);
		} else {
			CHECK(linnet_submit(reader, &request) == 0);
			CHECK(linnet_reap(reader, &done, 1, NULL) == -EINTR && linnet_inflight(reader) == 1);
			CHECK(linnet_reap(reader, &done, 1, NULL) == 1);
		}
		stand_in_getevents_error = -EPERM;
		if (with_read) {
			CHECK(linnet_read(reader, replicas, 2, buffer, SIZE, SIZE) == -EPERM);
		} else {
			CHECK(linnet_submit(reader, &request) == 0);
			CHECK(linnet_reap(reader, &done, 1, NULL) == -EPERM);
		}
		CHECK(linnet_inflight(reader) == 0 && stand_in_contexts == 0);
		CHECK(linnet_read(reader, replicas, 2, buffer, SIZE, SIZE) == -EPERM);
		CHECK(linnet_submit(reader, &request) == -EPERM && linnet_reap(reader, &done, 1, NULL) == -EPERM);
		linnet_reader_close(reader);
		CHECK(stand_in_contexts == 0); /* by now another reader may have the number of the context */
	}
}

static unsigned chance(unsigned below)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (random_state >> 16) % below;
}

/*
 * Random answers, many reads in flight: each ends once, with data unless every replica failed without the tag. A short
 * answer to half of a read is followed by its rest, which may fail as well.
 */
static long at_random(const struct stand_in_read *read, unsigned *delay_us)
{
	static const long answers[] = {0, 0, SIZE / 2, -EIO};

	*delay_us = chance(50);
	if (read->tag && chance(2))
		return chance(4) ? -EAGAIN : -EIO;
	return answers[chance(4)];
}

static void many_reads(void)
{
	enum { DEPTH = 32, READS = 20000 };
	static char buffers[DEPTH][SIZE];
	static struct linnet_request requests[DEPTH];
	struct linnet_request *idle[DEPTH], *done[DEPTH];
	struct linnet_reader_stats s;
	struct linnet_reader *reader;
	unsigned idle_count = 0, started = 0, ended = 0, failed = 0, revokes = 0, errors = 0;

	reset();
	stand_in_answer = at_random;
	stand_in_direct = 1;
	CHECK(linnet_reader_open(&reader, LINNET_TAG_DEFAULT, DEPTH) == 0);
	for (unsigned i = 0; i < DEPTH; i++) {
		requests[i].buffer = buffers[i];
		idle[idle_count++] = &requests[i];
	}
	while (ended < READS) {
		int got;

		while (idle_count && started < READS) {
			struct linnet_request *r = idle[--idle_count];

			r->replicas = replicas;
			r->count = 1 + chance(REPLICAS);
			r->size = SIZE;
			r->offset = SIZE;
			memset(r->buffer, 0xee, SIZE);
			CHECK(linnet_submit(reader, r) == 0);
			started++;
		}
		if (!idle_count)
			CHECK(linnet_submit(reader, done[0] = &requests[0]) == -EBUSY);
		got = linnet_reap(reader, done, 1 + chance(DEPTH), NULL);
		CHECK(got > 0);
		for (int i = 0; i < got; i++) {
			struct linnet_request *r = done[i];

			revokes += r->revokes;
			errors += r->errors;
			if (r->result < 0) {
				failed++;
				CHECK(r->failed == (1u << r->count) - 1 && r->errors >= r->count);
			} else {
				CHECK(r->result == SIZE);
				for (int at = 0; at < SIZE; at++)
					CHECK(((char *)r->buffer)[at] == expected[r->replica]);
			}
			idle[idle_count++] = r;
			ended++;
		}
	}
	linnet_reader_stats(reader, &s);
	CHECK(linnet_inflight(reader) == 0 && s.reads == READS && s.revokes == revokes && s.errors == errors);
	CHECK(failed > 0 && failed < READS && revokes > 0);
	linnet_reader_close(reader);
	stand_in_answer = scripted;
}

int main(void)
{
	for (unsigned i = 0; i < REPLICAS; i++) {
		char path[] = "/tmp/linnet-test-XXXXXX", block[SIZE];

		replicas[i].fd = mkstemp(path);
		replicas[i].offset = (off_t)i * 512; /* each replica has the data at another offset */
		expected[i] = (char)('a' + i);
		memset(block, expected[i], SIZE);
		if (replicas[i].fd < 0 || unlink(path) < 0 ||
		    pwrite(replicas[i].fd, block, SIZE, SIZE + replicas[i].offset) != SIZE) {
			perror("linnet test file");
			return 1;
		}
	}
	stand_in_answer = scripted;
	one_read();
	short_answers();
	refused_by_the_system();
	arguments();
	timeouts();
	forked();
	no_answers();
	many_reads();
	printf("liblinnet: reads, revokes, failovers and errors as documented; 20000 reads at random\n");
	return 0;
}
