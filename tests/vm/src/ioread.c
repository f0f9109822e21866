/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reads (or writes) in one of the ways that applications use, and prints what the application sees: for each request a
 * line with the number of bytes or the name of the error. For the semantics cases.
 *
 *   ioread [--api preadv2|aio|uring|mmap] [--direct] [--nowait] [--hipri] [--write] [--ioprio 0xHHHH]
 *          [--task-ioprio 0xHHHH] [--offset N] [--size N] [--count N] [--seconds N] [--warm DEVICE] FILE
 *
 * --warm DEVICE first reads DEVICE untagged, as a task named `warm`. --ioprio sets the priority of each request,
 * --task-ioprio that of the task, which preadv2 uses. --count reads follow each other. After --seconds (10) without an
 * answer it prints `timeout` and ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <liburing.h>
#include <linux/aio_abi.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct request {
	int fd;
	int write;
	int flags; /* RWF_* */
	unsigned int ioprio;
	void *buffer;
	size_t size;
	off_t offset;
};

static sigjmp_buf faulted;

static void on_bus(int signal)
{
	(void)signal;
	siglongjmp(faulted, 1);
}

static void on_alarm(int signal)
{
	static const char text[] = "timeout\n";

	(void)signal;
	(void)!write(1, text, sizeof(text) - 1);
	_exit(1);
}

static void die(const char *what)
{
	perror(what);
	exit(2);
}

/* A read that a tracer attributes to another task, so that the device has a recent read. */
static void warm(const char *device)
{
	void *buffer = aligned_alloc(4096, 4096);
	int fd = open(device, O_RDONLY | O_DIRECT);

	prctl(PR_SET_NAME, "warm");
	if (fd < 0 || !buffer || pread(fd, buffer, 4096, 0) != 4096)
		die(device);
	prctl(PR_SET_NAME, "ioread");
	close(fd);
	free(buffer);
}

static long by_preadv2(const struct request *r)
{
	struct iovec iov = { r->buffer, r->size };
	ssize_t n = r->write ? pwritev2(r->fd, &iov, 1, r->offset, r->flags) : preadv2(r->fd, &iov, 1, r->offset, r->flags);

	return n < 0 ? -errno : n;
}

static long by_aio(const struct request *r)
{
	static aio_context_t context;
	struct iocb cb = {
		.aio_lio_opcode = r->write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
		.aio_fildes = (uint32_t)r->fd,
		.aio_buf = (uintptr_t)r->buffer,
		.aio_nbytes = r->size,
		.aio_offset = r->offset,
		.aio_rw_flags = r->flags,
		.aio_flags = r->ioprio ? IOCB_FLAG_IOPRIO : 0,
		.aio_reqprio = (int16_t)r->ioprio,
	}, *cbs[] = { &cb };
	struct io_event event;

	if (!context && syscall(SYS_io_setup, 8, &context) < 0)
		die("io_setup");
	if (syscall(SYS_io_submit, context, 1, cbs) != 1)
		return -errno;
	if (syscall(SYS_io_getevents, context, 1, 1, &event, NULL) != 1)
		die("io_getevents");
	return event.res;
}

static long by_uring(const struct request *r)
{
	static struct io_uring ring;
	static int ready;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	long n;

	if (!ready && io_uring_queue_init(8, &ring, r->flags & RWF_HIPRI ? IORING_SETUP_IOPOLL : 0) < 0)
		die("io_uring_queue_init");
	ready = 1;
	sqe = io_uring_get_sqe(&ring);
	if (r->write)
		io_uring_prep_write(sqe, r->fd, r->buffer, (unsigned int)r->size, (uint64_t)r->offset);
	else
		io_uring_prep_read(sqe, r->fd, r->buffer, (unsigned int)r->size, (uint64_t)r->offset);
	sqe->rw_flags = r->flags & ~RWF_HIPRI;
	sqe->ioprio = (uint16_t)r->ioprio;
	if (io_uring_submit(&ring) != 1 || io_uring_wait_cqe(&ring, &cqe) < 0)
		die("io_uring_submit");
	n = cqe->res;
	io_uring_cqe_seen(&ring, cqe);
	return n;
}

/* Returns -EFAULT for SIGBUS, which is how a mapping reports an error. */
static long by_mmap(const struct request *r)
{
	volatile const char *map = mmap(NULL, r->size, PROT_READ, MAP_SHARED, r->fd, r->offset);
	volatile long n = (long)r->size;

	if (map == MAP_FAILED)
		return -errno;
	if (sigsetjmp(faulted, 1) == 0) {
		for (size_t i = 0; i < r->size; i += 4096)
			(void)map[i];
	} else {
		n = -EFAULT;
	}
	munmap((void *)(uintptr_t)map, r->size);
	return n;
}

static const struct {
	const char *name;
	long (*run)(const struct request *r);
} apis[] = { { "preadv2", by_preadv2 }, { "aio", by_aio }, { "uring", by_uring }, { "mmap", by_mmap } };

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "api", 1, NULL, 'a' },    { "direct", 0, NULL, 'd' },      { "nowait", 0, NULL, 'n' },
		{ "hipri", 0, NULL, 'h' },  { "write", 0, NULL, 'w' },       { "ioprio", 1, NULL, 'p' },
		{ "task-ioprio", 1, NULL, 't' }, { "offset", 1, NULL, 'o' }, { "size", 1, NULL, 's' },
		{ "count", 1, NULL, 'c' },  { "seconds", 1, NULL, 'S' },     { "warm", 1, NULL, 'W' },
		{ NULL, 0, NULL, 0 },
	};
	struct request r = { .size = 4096 };
	long (*run)(const struct request *r) = NULL;
	const char *api = "preadv2", *warm_device = NULL;
	unsigned long count = 1, task = 0;
	unsigned int seconds = 10;
	int direct = 0, option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'a': api = optarg; break;
		case 'd': direct = O_DIRECT; break;
		case 'n': r.flags |= RWF_NOWAIT; break;
		case 'h': r.flags |= RWF_HIPRI; break;
		case 'w': r.write = 1; break;
		case 'p': r.ioprio = (unsigned int)strtoul(optarg, NULL, 0); break;
		case 't': task = strtoul(optarg, NULL, 0); break;
		case 'o': r.offset = (off_t)strtoull(optarg, NULL, 0); break;
		case 's': r.size = strtoul(optarg, NULL, 0); break;
		case 'c': count = strtoul(optarg, NULL, 0); break;
		case 'S': seconds = (unsigned int)strtoul(optarg, NULL, 0); break;
		case 'W': warm_device = optarg; break;
		default: return 2;
		}
	}
	for (size_t i = 0; i < sizeof(apis) / sizeof(apis[0]); i++)
		if (!strcmp(apis[i].name, api))
			run = apis[i].run;
	if (!run || optind + 1 != argc) {
		fprintf(stderr, "ioread: no such api, or no file\n");
		return 2;
	}
	signal(SIGALRM, on_alarm);
	signal(SIGBUS, on_bus);
	alarm(seconds);
	r.fd = open(argv[optind], (r.write ? O_RDWR : O_RDONLY) | direct);
	if (r.fd < 0) {
		/* The error of open() is part of the semantics too. */
		printf("open %s\n", strerrorname_np(errno));
		return 1;
	}
	r.buffer = aligned_alloc(4096, (r.size + 4095) / 4096 * 4096);
	if (!r.buffer)
		die("aligned_alloc");
	memset(r.buffer, 0x5a, r.size);
	if (warm_device)
		warm(warm_device);
	if (task && syscall(SYS_ioprio_set, 1, 0, task) < 0)
		die("ioprio_set");
	for (; count; count--, r.offset += (off_t)r.size) {
		long n = run(&r);

		if (n < 0)
			printf("%s\n", n == -EFAULT ? "SIGBUS" : strerrorname_np((int)-n));
		else
			printf("%ld\n", n);
	}
	return 0;
}
