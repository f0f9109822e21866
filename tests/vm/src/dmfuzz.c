/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sends random messages and table lines to a running target `linnet`.
 *
 *   dmfuzz SEED MESSAGES TABLES DEVICE SECTORS LINE...
 *
 * DEVICE gets the messages. A device `fuzz` of SECTORS sectors, created here, gets the tables. Both are made from the
 * LINEs, which are valid arguments after the target's name. It checks that:
 *
 *   - a refused message changes nothing in the table line;
 *   - the table line that the target prints is accepted as a table, and is then printed unchanged;
 *   - an accepted table can be activated, read and sent messages (reads may fail, but must end).
 *
 * The search of the kernel log finds other faults. Prints the seed first, and the current input if a check fails.
 */
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "dm.h"

#define WORDS_MAX 48
#define NODE "/run/fuzz-node"
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char *const dictionary[] = {
	"policy", "baseline", "shortest-queue", "ewma-inflight", "linnos", "linnet-best", "load", "unload", "revoke", "on", "off",
	"ioprio", "0x5004", "0x4007", "0x0", "0xffff", "0x10000", "fail", "revive", "reset", "model", "model:0", "model:1", "model:9", "out:0",
	"out:1", "out:2", "out:7", "log", "core", "disk", "nosync", "sync", "0", "1", "2", "3", "8", "9", "-1", "128", "1000", "1024",
	"4294967296", "18446744073709551616", "busy.linnet", "random.linnet", "linnos.linnet", "damaged.linnet", "absent.linnet",
	"../busy.linnet", ".", "%s%n", "/dev/none", "/dev/mapper/leg0", "/dev/mapper/leg1", "/dev/mapper/leg2", "/dev/mapper/log0",
};

/* Valid messages; the dictionary alone produces few. */
static const char *const good[] = {
	"policy baseline", "policy shortest-queue", "policy ewma-inflight", "policy linnos", "policy linnet-best", "load busy.linnet",
	"load random.linnet", "load linnos.linnet", "load 1 busy.linnet", "load 0 linnos.linnet", "unload", "unload 1", "revoke on",
	"revoke off", "ioprio 0x500c", "on", "off", "fail 0", "fail 1", "fail 2", "revive 0", "revive 1", "revive 2", "reset",
};

static uint64_t state;
static struct dm_call call;
static unsigned long long sectors;
static char *const *lines;
static size_t line_count;
static const char *doing = "nothing";

static uint64_t next(void)
{
	uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static size_t below(size_t n)
{
	return next() % n;
}

static void broken(const char *what, const char *detail)
{
	printf("dmfuzz: %s\n  at:  %s\n  got: %s\n", what, doing, detail);
	exit(1);
}

/* ---- random lines ---- */

static void random_word(char *word, size_t room)
{
	size_t length = below(12) ? 1 + below(12) : 1 + below(room - 2), i;

	for (i = 0; i < length; i++)
		word[i] = below(4) ? "abcxyz0189:._-/\\+"[below(17)] : (char)(1 + below(255));
	word[i] = '\0';
	if (word[0] == '@') /* device-mapper handles these itself */
		word[0] = 'a';
}

/* Changes some words of a line. */
static void mutate(char *line, size_t room)
{
	char copy[DM_ROOM], *words[WORDS_MAX + 1], noise[300], flipped[300], *at;
	size_t count = 0, used = 0, changes = below(4), i, k;

	snprintf(copy, sizeof(copy), "%s", line);
	for (at = strtok(copy, " "); at && count < WORDS_MAX; at = strtok(NULL, " "))
		words[count++] = at;
	for (k = 0; k < changes && count; k++) {
		i = below(count);
		switch (below(7)) {
		case 0: /* removed */
			memmove(words + i, words + i + 1, (--count - i) * sizeof(*words));
			break;
		case 1: /* twice */
			if (count < WORDS_MAX)
				words[count++] = words[i];
			break;
		case 2: /* copied over another one */
			at = words[i];
			words[i] = words[count - 1];
			words[count - 1] = at;
			break;
		case 3: /* one byte changed */
			if (words[i] != flipped)
				snprintf(flipped, sizeof(flipped), "%s", words[i]);
			flipped[below(strlen(flipped))] ^= (char)(1 << below(7));
			words[i] = flipped;
			break;
		case 4:
			random_word(noise, sizeof(noise));
			words[i] = noise;
			break;
		default:
			words[i] = (char *)dictionary[below(COUNT_OF(dictionary))];
			break;
		}
		if (!*words[i < count ? i : 0])
			words[i < count ? i : 0] = (char *)"x";
	}
	line[0] = '\0';
	for (i = 0; i < count && used < room; i++)
		used += snprintf(line + used, room - used, "%s%s", i ? " " : "", words[i]);
}

static void random_message(char *line, size_t room)
{
	size_t words = 1 + below(4), used = 0;

	line[0] = '\0';
	if (below(3)) {
		snprintf(line, room, "%s", good[below(COUNT_OF(good))]);
		if (below(2))
			mutate(line, room);
	} else {
		for (size_t i = 0; i < words; i++)
			used += snprintf(line + used, room - used, "%s%s", i ? " " : "", dictionary[below(COUNT_OF(dictionary))]);
	}
	if (line[0] == '@')
		line[0] = 'a';
}

/* ---- the target ---- */

static int load(const char *line, unsigned long long length, uint32_t flags)
{
	struct dm_target_spec *spec = dm_prepare(&call, "fuzz", flags);

	spec->length = length;
	strcpy(spec->target_type, "linnet");
	snprintf((char *)(spec + 1), DM_ROOM, "%s", line);
	spec->next = sizeof(*spec) + (uint32_t)(strlen((char *)(spec + 1)) + 8) / 8 * 8;
	call.head.target_count = 1;
	return dm_do(&call, DM_TABLE_LOAD);
}

static int simple(unsigned long request, uint32_t flags)
{
	dm_prepare(&call, "fuzz", flags);
	return dm_do(&call, request);
}

static void table_of(const char *device, uint32_t flags, char *line)
{
	const char *printed;
	int error = dm_line(&call, device, flags | DM_STATUS_TABLE_FLAG | DM_NOFLUSH_FLAG, &printed);

	if (error)
		broken("there is no table line", strerror(error));
	snprintf(line, DM_ROOM, "%s", printed);
}

/* The settings of a table line that messages change. */
static const char *settings(const char *line)
{
	const char *from = strstr(line, " policy ");

	return from ? from : line;
}

/* A printed table line must be accepted, and then be printed unchanged. */
static void round_trip(const char *printed, uint32_t readonly)
{
	char again[DM_ROOM];
	int error = load(printed, sectors, readonly);

	if (error)
		broken("a printed table line is not accepted", printed);
	table_of("fuzz", DM_QUERY_INACTIVE_TABLE_FLAG, again);
	if (strcmp(printed, again))
		broken("a printed table line prints another", again);
}

/* Activates the loaded table and removes it again. */
static void serve(uint64_t device)
{
	static char block[4096] __attribute__((aligned(4096)));
	char words[DM_ROOM];
	int file;

	if (simple(DM_DEV_SUSPEND, 0))
		return; /* some tables are only refused here */
	unlink(NODE);
	if (mknod(NODE, S_IFBLK | 0600, makedev(device >> 8 & 0xfff, device & 0xff)))
		broken("no node", strerror(errno));
	file = open(NODE, O_RDONLY | O_DIRECT);
	for (int i = 0; i < 4 && file >= 0; i++)
		if (pread(file, block, sizeof(block), (off_t)below(sectors / 8) * 4096) < 0)
			continue;
	for (int i = 0; i < 3; i++) {
		random_message(words, sizeof(words));
		dm_message(&call, "fuzz", words);
	}
	if (file >= 0)
		close(file);
}

static uint64_t create(void)
{
	int error = simple(DM_DEV_CREATE, 0);

	if (error)
		broken("cannot create a device", strerror(error));
	return call.head.dev;
}

static size_t messages(const char *device, size_t count)
{
	char words[DM_ROOM], before[DM_ROOM], after[DM_ROOM];
	size_t obeyed = 0;

	create();
	for (size_t i = 0; i < count; i++) {
		int error;

		random_message(words, sizeof(words));
		doing = words;
		table_of(device, 0, before);
		error = dm_message(&call, device, words);
		table_of(device, 0, after);
		obeyed += !error;
		if (!error && !below(8))
			round_trip(after, DM_READONLY_FLAG);
		else if (error && strcmp(settings(before), settings(after)))
			broken("a message was refused and has changed the table", after);
	}
	if (simple(DM_DEV_REMOVE, 0))
		broken("cannot remove the device", strerror(errno));
	return obeyed;
}

static size_t tables(size_t count)
{
	const unsigned long long lengths[] = { 0, 1, 8, sectors - 1, sectors + 1, sectors * 2 };
	char line[DM_ROOM], printed[DM_ROOM];
	uint64_t device = create();
	size_t accepted = 0;

	doing = line;
	for (size_t i = 0; i < count; i++) {
		uint32_t readonly = below(2) ? DM_READONLY_FLAG : 0;
		bool whole = below(16);

		snprintf(line, sizeof(line), "%s", lines[below(line_count)]);
		mutate(line, sizeof(line));
		if (load(line, whole ? sectors : lengths[below(COUNT_OF(lengths))], readonly))
			continue;
		accepted++;
		if (whole) {
			table_of("fuzz", DM_QUERY_INACTIVE_TABLE_FLAG, printed);
			round_trip(printed, readonly);
		}
		if (!whole || below(4)) {
			if (simple(DM_TABLE_CLEAR, 0))
				broken("cannot clear a table", strerror(errno));
			continue;
		}
		serve(device);
		if (simple(DM_DEV_REMOVE, 0))
			broken("cannot remove the device", strerror(errno));
		device = create();
	}
	simple(DM_DEV_REMOVE, 0);
	return accepted;
}

int main(int argc, char **argv)
{
	size_t obeyed = 0, accepted, message_count, table_count;

	if (argc < 7) {
		fprintf(stderr, "usage: dmfuzz SEED MESSAGES TABLES DEVICE SECTORS LINE...\n");
		return 2;
	}
	state = strtoull(argv[1], NULL, 10);
	message_count = strtoull(argv[2], NULL, 10);
	table_count = strtoull(argv[3], NULL, 10);
	sectors = strtoull(argv[5], NULL, 10);
	lines = argv + 6;
	line_count = (size_t)argc - 6;
	printf("seed %s\n", argv[1]);
	fflush(stdout);
	obeyed = messages(argv[4], message_count);
	accepted = tables(table_count);
	printf("%zu messages to %s, %zu obeyed; %zu tables, %zu accepted\n", message_count, argv[4], obeyed, table_count, accepted);
	return 0;
}
