/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * readcost READS DEVICE...: measures 4 KiB direct reads at random offsets, one at a time, 100 per device in turn, so
 * that disturbances of the machine affect all devices alike; readcost -w WRITES DEVICE...: the same of writes. Prints a
 * line per device: name, median and minimum ns. If the machine's clock counts instructions (qemu -icount shift=0),
 * these are instructions.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TURN 100
#define BLOCK 4096

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static ssize_t transfer(int writes, int fd, void *buffer, off_t at)
{
	return writes ? pwrite(fd, buffer, BLOCK, at) : pread(fd, buffer, BLOCK, at);
}

static int ascending(const void *a, const void *b)
{
	long long x = *(const long long *)a, y = *(const long long *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	int writes = argc > 1 && !strcmp(argv[1], "-w"), reads, devices;
	unsigned long long state = 1;
	long long *took;
	int *fds;
	void *buffer;

	argc -= writes;
	argv += writes;
	reads = argc > 2 ? atoi(argv[1]) / TURN * TURN : 0;
	devices = argc - 2;
	if (reads < TURN) {
		fprintf(stderr, "usage: readcost [-w] COUNT DEVICE...\n");
		return 2;
	}
	took = calloc((size_t)reads * (size_t)devices, sizeof(*took));
	fds = calloc((size_t)devices, sizeof(*fds));
	if (!took || !fds || posix_memalign(&buffer, BLOCK, BLOCK))
		return 1;
	for (int d = 0; d < devices; d++) {
		fds[d] = open(argv[d + 2], (writes ? O_RDWR : O_RDONLY) | O_DIRECT);
		if (fds[d] < 0) {
			perror(argv[d + 2]);
			return 1;
		}
	}
	/* The first turn of each device is a warm-up and is overwritten. */
	for (int turn = -1; turn < reads / TURN; turn++) {
		for (int d = 0; d < devices; d++) {
			long long *to = took + (size_t)d * (size_t)reads + (turn < 0 ? 0 : turn * TURN);
			off_t blocks = lseek(fds[d], 0, SEEK_END) / BLOCK;

			for (int i = 0; i < TURN; i++) {
				long long begun;

				state = state * 6364136223846793005ULL + 1442695040888963407ULL;
				begun = now_ns();
				if (transfer(writes, fds[d], buffer, (off_t)(state >> 33) % blocks * BLOCK) != BLOCK) {
					perror(argv[d + 2]);
					return 1;
				}
				to[i] = now_ns() - begun;
			}
		}
	}
	for (int d = 0; d < devices; d++) {
		long long *of = took + (size_t)d * (size_t)reads;

		qsort(of, (size_t)reads, sizeof(*of), ascending);
		printf("%s %lld %lld\n", argv[d + 2], of[reads / 2], of[0]);
	}
	return 0;
}
