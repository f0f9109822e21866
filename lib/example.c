/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Copies a replicated file or device to standard output. Each block comes from the first replica that will be fast.
 *
 *	linnet-cat /dev/mapper/left /dev/mapper/right > copy
 */
#define _GNU_SOURCE
#include "liblinnet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 65536

int main(int argc, char **argv)
{
	struct linnet_replica replicas[LINNET_REPLICAS_MAX];
	unsigned count = (unsigned)(argc - 1);
	struct linnet_reader_stats stats;
	struct linnet_reader *reader;
	void *buffer;
	ssize_t got;
	int error;

	if (count < 1 || count > LINNET_REPLICAS_MAX) {
		fprintf(stderr, "usage: linnet-cat REPLICA...\n");
		return 2;
	}
	for (unsigned i = 0; i < count; i++) {
		replicas[i].fd = open(argv[i + 1], O_RDONLY | O_DIRECT);
		replicas[i].offset = 0;
		if (replicas[i].fd < 0) {
			fprintf(stderr, "linnet-cat: %s: %s\n", argv[i + 1], strerror(errno));
			return 1;
		}
	}
	error = linnet_reader_open(&reader, LINNET_TAG_DEFAULT, 1);
	if (error < 0 || posix_memalign(&buffer, 4096, BLOCK)) {
		fprintf(stderr, "linnet-cat: %s\n", strerror(error < 0 ? -error : ENOMEM));
		return 1;
	}
	for (off_t at = 0; (got = linnet_read(reader, replicas, count, buffer, BLOCK, at)) > 0; at += got)
		if (fwrite(buffer, 1, (size_t)got, stdout) != (size_t)got)
			got = -errno;
	linnet_reader_stats(reader, &stats);
	linnet_reader_close(reader);
	free(buffer);
	fprintf(stderr, "%llu reads, %llu revoked, %llu sent on\n", (unsigned long long)stats.reads,
		(unsigned long long)stats.revokes, (unsigned long long)stats.failovers);
	if (got < 0 || fflush(stdout)) {
		fprintf(stderr, "linnet-cat: %s\n", strerror(got < 0 ? (int)-got : errno));
		return 1;
	}
	return 0;
}
