/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Messages and status without starting dmsetup, which takes tenths of a second in an emulated machine.
 *
 *   dmctl message DEVICE WORD...     sends one message
 *   dmctl messages [repeat]          sends a message `DEVICE WORD...` per line of standard input; every one must
 *                                    succeed. With `repeat`, repeats them until SIGTERM
 *   dmctl value DEVICE KEY [K]       prints a value of the status line; with K, that of replica K
 *
 * `messages` prints how many succeeded. Exits with 1 if one was refused, and prints it.
 */
#include <signal.h>
#include "dm.h"

#define LINES_MAX 4096

static volatile sig_atomic_t stopped;

static void stop(int number)
{
	(void)number;
	stopped = 1;
}

static int refused(const char *device, const char *words, int error)
{
	fprintf(stderr, "dmctl: %s: %s: %s\n", device, words, strerror(error));
	return 1;
}

static int message(struct dm_call *call, int argc, char **argv)
{
	char words[DM_ROOM] = "";
	size_t used = 0;
	int error;

	for (int i = 1; i < argc && used < sizeof(words); i++)
		used += snprintf(words + used, sizeof(words) - used, "%s%s", i > 1 ? " " : "", argv[i]);
	error = dm_message(call, argv[0], words);
	return error ? refused(argv[0], words, error) : 0;
}

static int messages(struct dm_call *call, int repeat)
{
	static char *lines[LINES_MAX];
	size_t count = 0, room = 0, sent = 0;

	while (count < LINES_MAX && getline(&lines[count], &room, stdin) > 0) {
		char *words;

		lines[count][strcspn(lines[count], "\n")] = '\0';
		words = strchr(lines[count], ' ');
		if (!words) {
			fprintf(stderr, "dmctl: '%s' is no device and message\n", lines[count]);
			return 2;
		}
		*words = '\0';
		count++;
		room = 0;
	}
	signal(SIGTERM, stop);
	do {
		for (size_t i = 0; i < count && !stopped; i++, sent++) {
			const char *words = lines[i] + strlen(lines[i]) + 1;
			int error = dm_message(call, lines[i], words);

			if (error)
				return refused(lines[i], words, error);
		}
	} while (repeat && count && !stopped);
	printf("%zu messages\n", sent);
	return 0;
}

static int value(struct dm_call *call, const char *device, const char *key, const char *replica)
{
	int seen = -1, of = replica ? atoi(replica) : -1, error;
	const char *line;
	char *word, *next;

	error = dm_line(call, device, DM_NOFLUSH_FLAG, &line);
	if (error)
		return refused(device, "status", error);
	for (word = strtok((char *)line, " "); word && (next = strtok(NULL, " ")); word = strtok(NULL, " ")) {
		seen += !strcmp(word, "dev");
		if (!strcmp(word, key) && (of < 0 || of == seen)) {
			puts(next);
			return 0;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct dm_call call;

	if (argc >= 4 && !strcmp(argv[1], "message"))
		return message(&call, argc - 2, argv + 2);
	if (argc >= 2 && argc <= 3 && !strcmp(argv[1], "messages"))
		return messages(&call, argc == 3);
	if (argc >= 4 && argc <= 5 && !strcmp(argv[1], "value"))
		return value(&call, argv[2], argv[3], argc == 5 ? argv[4] : NULL);
	fprintf(stderr, "usage: dmctl message DEVICE WORD..., messages [repeat] <LINES, value DEVICE KEY [K]\n");
	return 2;
}
