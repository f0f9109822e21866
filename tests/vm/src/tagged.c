/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tagged 0xHHHH COMMAND [ARGUMENT...]: runs a command with this I/O priority, with which its threads and children begin,
 * too. ionice knows no hints.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	if (syscall(SYS_ioprio_set, 1, 0, (int)strtoul(argv[1], NULL, 0)) < 0) {
		perror("ioprio_set");
		return 1;
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 1;
}
