/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* linnet-load: random reads at scheduled times, with failover on revokes or with hedging; see usage(). */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define READS_MAX (1ULL << 32)
#define RATE_MAX 1e9     /* one in a nanosecond */
#define SECONDS_MAX 1e9  /* so that the times of a run are nanoseconds in 64 bits */
#define HEDGE_US_MAX 1e9

static void usage(FILE *to)
{
	fputs("usage: linnet-load [options] REPLICA...\n"
	      "\n"
	      "Reads random places of files or devices that hold the same bytes, at times drawn beforehand (open loop).\n"
	      "Nothing is written to them. Latency counts from the time a read was due. The first replica is the primary.\n"
	      "\n"
	      "  --mode primary     every read goes to the primary (default)\n"
	      "  --mode failover    reads carry the tag; a revoked one goes to the next replica, the last one untagged\n"
	      "  --mode hedge       a read not answered after --hedge-us is sent to the second replica too\n"
	      "  --rate N           reads that arrive in a second (1000)\n"
	      "  --even             equal gaps between arrivals instead of a Poisson process\n"
	      "  --reads N          reads to measure (10000), or --seconds S at the rate\n"
	      "  --warmup N         reads before them that are not measured (0)\n"
	      "  --size BYTES       of one read (4096)\n"
	      "  --span BYTES       read the first BYTES only (the smallest replica)\n"
	      "  --tag 0xHHHH       I/O priority that marks a revocable read (0x5004)\n"
	      "  --hedge-us US      delay of a hedge (2000)\n"
	      "  --depth N          most reads out at a time (256)\n"
	      "  --seed N           of arrivals and places; the same in every mode (0)\n"
	      "  --cached           without O_DIRECT, in --mode primary only\n"
	      "  --log FILE         one line of CSV per read, in the place of what FILE holds\n"
	      "  --json             the summary as JSON\n"
	      "\n"
	      "example: two targets of one drive each, loaded with `revoke`\n"
	      "  linnet-load --mode failover --rate 2000 --seconds 10 /dev/mapper/left /dev/mapper/right\n",
	      to);
}

__attribute__((noreturn, format(printf, 2, 3))) static void fail(int status, const char *format, ...)
{
	va_list arguments;

	fputs("linnet-load: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(status);
}

static double real(const char *name, const char *text, double least, double most)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= least && value <= most))
		fail(2, "--%s: '%s' is not a number from %g to %g", name, text, least, most);
	return value;
}

static uint64_t whole(const char *name, const char *text, uint64_t least, uint64_t most)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (end == text || *end || *text == '-' || errno || value < least || value > most)
		fail(2, "--%s: '%s' is not a whole number from %" PRIu64 " to %" PRIu64, name, text, least, most);
	return value;
}

static enum mode mode(const char *text)
{
	for (enum mode m = PRIMARY; m <= HEDGE; m++)
		if (!strcmp(text, mode_name(m)))
			return m;
	fail(2, "--mode: '%s' is not primary, failover or hedge", text);
}

/* The library says what a tag is; with a depth of 1 it refuses nothing else. */
static void check_tag(unsigned tag)
{
	struct linnet_reader *reader;
	int error = linnet_reader_open(&reader, tag, 1);

	if (error == -EINVAL)
		fail(2, "--tag: 0x%x has no class from 1 to 3 in its upper three bits, or no hint in the ten after them", tag);
	if (!error)
		linnet_reader_close(reader);
}

static void parse(int argc, char **argv, struct options *o)
{
	static const struct option LONG[] = {
		{"mode", 1, 0, 'm'},  {"rate", 1, 0, 'r'},   {"even", 0, 0, 'e'},   {"reads", 1, 0, 'n'},
		{"seconds", 1, 0, 's'}, {"warmup", 1, 0, 'w'}, {"size", 1, 0, 'b'},   {"span", 1, 0, 'p'},
		{"tag", 1, 0, 't'},   {"hedge-us", 1, 0, 'u'}, {"depth", 1, 0, 'd'}, {"seed", 1, 0, 'S'},
		{"cached", 0, 0, 'c'}, {"log", 1, 0, 'l'},    {"json", 0, 0, 'j'},   {"help", 0, 0, 'h'},
		{0, 0, 0, 0}};
	double seconds = 0;
	int reads = 0;

	for (int c; (c = getopt_long(argc, argv, "h", LONG, NULL)) != -1;) {
		switch (c) {
		case 'm': o->mode = mode(optarg); break;
		case 'r': o->rate = real("rate", optarg, 1e-3, RATE_MAX); break;
		case 'e': o->even = 1; break;
		case 'n': o->reads = whole("reads", optarg, 1, READS_MAX); reads = 1; break;
		case 's': seconds = real("seconds", optarg, 1e-3, SECONDS_MAX); break;
		case 'w': o->warmup = whole("warmup", optarg, 0, READS_MAX); break;
		case 'b': o->size_bytes = whole("size", optarg, 512, 1 << 24); break;
		case 'p': o->span_bytes = whole("span", optarg, 512, INT64_MAX); break;
		case 't': o->tag = (unsigned)whole("tag", optarg, 1, 0xffff); break;
		case 'u': o->hedge_ns = (uint64_t)(real("hedge-us", optarg, 0, HEDGE_US_MAX) * 1000); break;
		case 'd': o->depth = (unsigned)whole("depth", optarg, 1, 1 << 14); break;
		case 'S': o->seed = whole("seed", optarg, 0, UINT64_MAX); break;
		case 'c': o->cached = 1; break;
		case 'l': o->log = optarg; break;
		case 'j': o->json = 1; break;
		case 'h': usage(stdout); exit(0);
		default: fail(2, "see linnet-load --help");
		}
	}
	if (reads && seconds > 0)
		fail(2, "give --reads or --seconds, not both");
	if (seconds * o->rate > (double)READS_MAX)
		fail(2, "--seconds: %g s at a --rate of %g are more than %llu reads", seconds, o->rate, READS_MAX);
	if (seconds > 0)
		o->reads = (uint64_t)ceil(seconds * o->rate);
	if ((double)(o->warmup + o->reads) / o->rate > SECONDS_MAX)
		fail(2, "--rate: at %g, %" PRIu64 " reads take more than %g s", o->rate, o->warmup + o->reads, SECONDS_MAX);
	check_tag(o->tag);
	if (o->size_bytes % 512)
		fail(2, "--size: %zu is not a multiple of 512", o->size_bytes);
	o->count = (unsigned)(argc - optind);
	if (o->count == 0 || o->count > LINNET_READER_REPLICAS_MAX)
		fail(2, "name 1 to %u replicas; see linnet-load --help", LINNET_READER_REPLICAS_MAX);
	if (o->mode != PRIMARY && o->count < 2)
		fail(2, "--mode %s needs a second replica", mode_name(o->mode));
	/* A buffered read carries no tag, and Linux AIO takes it only when it has the data: no hedge would be sent. */
	if (o->mode != PRIMARY && o->cached)
		fail(2, "--cached: reads without O_DIRECT can be neither revoked nor hedged; leave out --mode %s",
		     mode_name(o->mode));
	/* A read keeps its slot until its hedge is due. */
	if (o->mode == HEDGE && o->rate * (double)o->hedge_ns / 1e9 > o->depth / 2.0)
		fail(2, "--depth %u is too small: %.0f reads arrive within --hedge-us", o->depth,
		     o->rate * (double)o->hedge_ns / 1e9);
	if (o->depth > o->warmup + o->reads)
		o->depth = (unsigned)(o->warmup + o->reads);
	for (unsigned i = 0; i < o->count; i++)
		o->paths[i] = argv[optind + (int)i];
}

/* Opens a replica and returns its size. */
static int open_replica(const char *path, const struct options *options, uint64_t *size_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | (options->cached ? 0 : O_DIRECT));
	struct stat about;

	if (fd < 0 && errno == EINVAL && !options->cached)
		fail(1, "%s: this file system has no direct I/O%s", path,
		     options->mode == PRIMARY ? "; --cached reads without" : "");
	if (fd < 0 || fstat(fd, &about) < 0)
		fail(1, "%s: %s", path, strerror(errno));
	if (S_ISREG(about.st_mode))
		*size_bytes = (uint64_t)about.st_size;
	else if (!S_ISBLK(about.st_mode) || ioctl(fd, BLKGETSIZE64, size_bytes) < 0)
		fail(1, "%s: neither a file nor a block device", path);
	return fd;
}

/* Pipes, terminals, /dev/null and /dev/full: what is written there replaces nothing. */
static int is_stream(int fd, const struct stat *about)
{
	return S_ISFIFO(about->st_mode) || isatty(fd) ||
	       (S_ISCHR(about->st_mode) && major(about->st_rdev) == 1 &&
		(minor(about->st_rdev) == 3 || minor(about->st_rdev) == 7));
}

/* Opens the log and leaves what it holds, which report_log replaces. */
static int open_log(const struct options *options, const struct linnet_reader_replica *replicas)
{
	struct stat about, replica;
	int fd;

	/* Even the close of a block device that was open for writing sets off udev's rules. */
	if (!stat(options->log, &about) && S_ISBLK(about.st_mode))
		fail(2, "--log: %s is a block device", options->log);
	fd = open(options->log, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
	if (fd < 0 || fstat(fd, &about) < 0)
		fail(1, "%s: %s", options->log, strerror(errno));
	if (!S_ISREG(about.st_mode) && !is_stream(fd, &about))
		fail(2, "--log: %s is neither a file nor a pipe", options->log);
	for (unsigned i = 0; i < options->count; i++)
		if (!fstat(replicas[i].fd, &replica) && replica.st_dev == about.st_dev &&
		    replica.st_ino == about.st_ino)
			fail(2, "--log: %s is the replica %s, which the log would replace", options->log,
			     options->paths[i]);
	return fd;
}

int main(int argc, char **argv)
{
	struct options options = {.mode = PRIMARY, .rate = 1000, .reads = 10000, .size_bytes = 4096,
				  .tag = LINNET_TAG_DEFAULT, .hedge_ns = 2000000, .depth = 256};
	struct linnet_reader_replica replicas[LINNET_READER_REPLICAS_MAX] = {{0, 0}};
	struct run run = {0};
	uint64_t least = UINT64_MAX;
	int log = -1, error;

	parse(argc, argv, &options);
	for (unsigned i = 0; i < options.count; i++) {
		uint64_t size_bytes;

		replicas[i].fd = open_replica(options.paths[i], &options, &size_bytes);
		least = size_bytes < least ? size_bytes : least;
	}
	if (!options.span_bytes)
		options.span_bytes = least;
	if (options.span_bytes > least)
		fail(2, "--span: the smallest replica has %" PRIu64 " bytes", least);
	if (options.span_bytes < options.size_bytes)
		fail(1, "%s: smaller than one read", options.paths[0]);
	if (options.log)
		log = open_log(&options, replicas);
	error = load_run(&options, replicas, &run);
	if (error == -EAGAIN)
		fail(1, "no asynchronous I/O left: raise fs.aio-max-nr or lower --depth");
	if (error == -ENOMEM)
		fail(1, "no memory: buffers of --depth times --size take %" PRIu64 " MiB, the times of --reads or --seconds "
			"and --warmup %" PRIu64 " MiB", load_buffer_bytes(&options) >> 20, load_outcome_bytes(&options) >> 20);
	if (error < 0)
		fail(1, "%s", strerror(-error));
	report_summary(stdout, &options, &run);
	if (options.log && (error = report_log(log, &options, &run)) < 0)
		fail(1, "%s: %s", options.log, strerror(-error));
	for (uint64_t i = options.warmup; i < run.count; i++) {
		if (run.outcomes[i].result >= 0 && run.outcomes[i].result != (int32_t)options.size_bytes)
			fail(1, "the read at %" PRIu64 " was short: %d bytes", run.outcomes[i].offset,
			     run.outcomes[i].result);
		if (run.outcomes[i].result < 0)
			fail(1, "reads failed; the first one at %" PRIu64 ": %s", run.outcomes[i].offset,
			     strerror(-run.outcomes[i].result));
	}
	free(run.outcomes);
	return 0;
}
