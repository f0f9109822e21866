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
	struct linnet_reader_replica replicas[LINNET_READER_REPLICAS_MAX];
	unsigned count = (unsigned)(argc - 1);
	struct linnet_reader_stats stats;
	struct linnet_reader *reader;
	void *buffer;
	off_t at = 0;
	ssize_t got = 0;
	int error, write_error = 0;

	if (count < 1 || count > LINNET_READER_REPLICAS_MAX) {
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
	while (!write_error && (got = linnet_read(reader, replicas, count, buffer, BLOCK, at)) > 0) {
		if (fwrite(buffer, 1, (size_t)got, stdout) != (size_t)got)
			write_error = errno;
		at += got;
		if (got < BLOCK)
			break; /* the end of the file, perhaps amid a block, where no direct read starts */
	}
	if (fclose(stdout) && !write_error)
		write_error = errno;
	linnet_reader_stats(reader, &stats);
	linnet_reader_close(reader);
	free(buffer);
	fprintf(stderr, "%llu reads, %llu revoked, %llu sent on\n", (unsigned long long)stats.reads,
		(unsigned long long)stats.revokes, (unsigned long long)stats.failovers);
	if (got < 0)
		fprintf(stderr, "linnet-cat: at byte %lld: %s\n", (long long)at, strerror((int)-got));
	if (write_error)
		fprintf(stderr, "linnet-cat: standard output: %s\n", strerror(write_error));
	return got < 0 || write_error;
}
