/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Write load for power cuts: blocks that describe themselves, and a log of acknowledged writes.
 *
 *   cutwriter DEVICE PORT SEED RUN THREADS BLOCKS sync|plain    writes until it is killed
 *   cutwriter DEVICE sum                                        prints one checksum of the whole device
 *   cutwriter DEVICE touch                                      writes its first block as it is
 *
 * Each write covers 1 to 16 blocks of 4 KiB within one chunk of 16. A chunk belongs to one thread, so no two writes in
 * flight overlap. Half of the writes go to a sixteenth of the chunks. Each block has a magic number, its block number,
 * the write's sequence number, a filling that depends on both, and a CRC-32 of all of these. After a write has ended,
 * and before the thread's next one, 24 bytes go to PORT: sequence number, first block, number of blocks.
 * tests/vm/power_cuts.py reads them.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK 4096
#define CHUNK 16
#define MAGIC UINT64_C(0x74656e6e694c7563)
#define HOT 16

static int device, port;
static uint64_t seed, run, threads, chunks;
static uint32_t crc_table[256];

static void die(const char *what)
{
	fprintf(stderr, "cutwriter: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void crc_init(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int bit = 0; bit < 8; bit++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320 : 0);
		crc_table[i] = c;
	}
}

static uint32_t crc(const uint8_t *p, size_t len)
{
	uint32_t c = ~0u;

	while (len--)
		c = c >> 8 ^ crc_table[(c ^ *p++) & 0xff];
	return ~c;
}

static uint64_t next(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static void fill(uint64_t *words, uint64_t block, uint64_t sequence)
{
	uint64_t state = sequence ^ block << 40;

	words[0] = MAGIC;
	words[1] = block;
	words[2] = sequence;
	for (int i = 3; i < BLOCK / 8 - 1; i++)
		words[i] = state += UINT64_C(0x9e3779b97f4a7c15);
	words[BLOCK / 8 - 1] = crc((uint8_t *)words, BLOCK - 8);
}

static void *load(void *arg)
{
	uint64_t me = (uintptr_t)arg, state = seed * 1000003 + run * 131 + me, mine = chunks / threads;
	uint8_t *buffer = aligned_alloc(BLOCK, CHUNK * BLOCK);

	if (!buffer)
		die("memory");
	for (uint64_t i = 1;; i++) {
		uint64_t sequence = run << 32 | i * threads | me;
		uint64_t pick = next(&state), hot = mine / HOT ? mine / HOT : 1;
		uint64_t chunk = (pick & 1 ? (pick >> 1) % hot : (pick >> 1) % mine) * threads + me;
		uint64_t from = next(&state) % CHUNK, count = 1 + next(&state) % (CHUNK - from);
		uint64_t account[3] = { sequence, chunk * CHUNK + from, count };

		if (next(&state) & 1)
			account[2] = count = 1;
		for (uint64_t b = 0; b < count; b++)
			fill((uint64_t *)(buffer + b * BLOCK), account[1] + b, sequence);
		if (pwrite(device, buffer, count * BLOCK, account[1] * BLOCK) != (ssize_t)(count * BLOCK))
			die("write");
		if (write(port, account, sizeof(account)) != sizeof(account))
			die("account");
	}
	return NULL;
}

static void print_sum(void)
{
	uint8_t *buffer = aligned_alloc(BLOCK, 1 << 20);
	uint64_t sum = 0;
	ssize_t got;

	if (!buffer)
		die("memory");
	while ((got = read(device, buffer, 1 << 20)) > 0)
		sum = sum * UINT64_C(1099511628211) + crc(buffer, got);
	if (got < 0)
		die("read");
	printf("%016llx\n", (unsigned long long)sum);
}

int main(int argc, char **argv)
{
	int sync = argc == 8 && !strcmp(argv[7], "sync");

	crc_init();
	if (argc != 3 && argc != 8) {
		fprintf(stderr, "usage: cutwriter DEVICE sum|touch, or DEVICE PORT SEED RUN THREADS BLOCKS sync|plain\n");
		return 2;
	}
	device = open(argv[1], O_RDWR | O_DIRECT | (sync ? O_DSYNC : 0));
	if (device < 0)
		die(argv[1]);
	if (argc == 3) {
		if (!strcmp(argv[2], "touch")) {
			uint8_t *buffer = aligned_alloc(BLOCK, BLOCK);

			if (!buffer || pread(device, buffer, BLOCK, 0) != BLOCK || pwrite(device, buffer, BLOCK, 0) != BLOCK)
				die("touch");
		} else {
			print_sum();
		}
		return 0;
	}
	port = open(argv[2], O_WRONLY);
	if (port < 0)
		die(argv[2]);
	seed = strtoull(argv[3], NULL, 10);
	run = strtoull(argv[4], NULL, 10);
	threads = strtoull(argv[5], NULL, 10);
	chunks = strtoull(argv[6], NULL, 10) / CHUNK;
	for (uint64_t t = 1; t < threads; t++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, load, (void *)(uintptr_t)t))
			die("thread");
	}
	load(NULL);
	return 0;
}
