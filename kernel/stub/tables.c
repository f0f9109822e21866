// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks table lines and messages: good ones, bad ones, mutated ones, and every allocation that can fail. An accepted
 * table must print a line that is accepted and prints itself.
 */
#include "check.h"

static const char *const good[] = {
	"1 /dev/leg0 0 0",
	"1 /dev/leg0 2048 3 revoke ioprio 0x5004",
	"3 /dev/leg0 0 /dev/leg1 8 /dev/leg2 16 0",
	"3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 2 policy linnos",
	"2 /dev/leg0 0 /dev/leg1 0 7 policy shortest-queue model slow.linnet revoke ioprio 0x402f",
	"3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 5 off model:0 slow.linnet model:2 fast.linnet",
	"3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 4 model slow.linnet model:1 fast.linnet",
	"2 /dev/leg0 0 /dev/leg1 0 2 model absent.linnet",
	"8 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 /dev/leg3 0 /dev/leg4 0 /dev/leg5 0 /dev/leg6 0 /dev/leg7 0 0",
	"2 /dev/leg0 0 /dev/leg1 0 4 policy shortest-queue hedge 2",
	"3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 3 hedge 50 off",
	"1 /dev/leg0 0 2 ioprio 0x7ffc", "1 /dev/leg0 0 2 ioprio 0x2008",
};

static const char *const bad[] = {
	"", "0", "9", "-1", "1", "1 /dev/leg0", "1 /dev/leg0 0", "1 /dev/leg0 x 0", "1 /dev/leg0 -1 0", "1 /dev/none 0 0",
	"1 /dev/leg0 0 1", "1 /dev/leg0 0 2 policy", "1 /dev/leg0 0 1 policy", "1 /dev/leg0 0 2 policy best",
	"1 /dev/leg0 0 4 revoke revoke ioprio 0x5004", "1 /dev/leg0 0 2 off off", "1 /dev/leg0 0 4 policy linnos policy linnos",
	"1 /dev/leg0 0 2 ioprio 0x10000", "1 /dev/leg0 0 2 ioprio 16391", "1 /dev/leg0 0 2 ioprio 0x",
	/* No tag; one that other programs' reads carry, or that no read can have. */
	"1 /dev/leg0 0 1 revoke", "1 /dev/leg0 0 3 revoke ioprio 0x0", "1 /dev/leg0 0 2 ioprio 0x4000",
	"1 /dev/leg0 0 3 revoke ioprio 0x4007", "1 /dev/leg0 0 3 revoke ioprio 0x6007", "1 /dev/leg0 0 2 ioprio 0x2004",
	"1 /dev/leg0 0 2 ioprio 0x1004", "1 /dev/leg0 0 2 ioprio 0x9004", "1 /dev/leg0 0 2 ioprio 0xffff",
	"1 /dev/leg0 0 2 model ../slow", "1 /dev/leg0 0 2 model:1 slow.linnet", "1 /dev/leg0 0 1 model",
	"1 /dev/leg0 0 2 model:x slow.linnet", "1 /dev/leg0 0 1 surprise", "1 /dev/leg0 0 0 revoke",
	"1 /dev/leg0 0 2 hedge 2", "2 /dev/leg0 0 /dev/leg1 0 2 hedge 0", "2 /dev/leg0 0 /dev/leg1 0 2 hedge 51",
	"2 /dev/leg0 0 /dev/leg1 0 1 hedge", "2 /dev/leg0 0 /dev/leg1 0 4 hedge 2 hedge 3",
	"2 /dev/leg0 0 /dev/leg1 0 4 log core 1 1024", "2 /dev/leg0 0 /dev/leg1 0 3 log core 9",
	"1 /dev/leg0 0 4 log core 1 1024", "2 /dev/leg0 0 /dev/leg1 0 1 log",
	"1 /dev/leg0 0 4 model:0 slow.linnet model:0 fast.linnet",
};

#define MESSAGE(number, constant, name) "policy " name,
static const char *const messages[] = {
	LINNET_POLICY_TABLE(MESSAGE)
	"load slow.linnet", "load 1 fast.linnet", "load absent.linnet", "unload", "unload 0", "revoke on", "revoke off",
	"ioprio 0x500c", "on", "off", "fail 0", "fail 1", "revive 0", "revive 1", "reset", "hedge 2", "hedge 0",
};

static const char *const bad_messages[] = {
	"", "policy", "policy best", "policy linnos now", "load", "load 8 slow.linnet", "load x slow.linnet", "load ../x",
	"load 0 0 slow.linnet", "unload 9", "unload 0 0", "revoke", "revoke maybe", "ioprio", "ioprio 7", "ioprio 0x12345",
	"ioprio 0x0", "ioprio 0x4000", "ioprio 0x4007", "ioprio 0x6000", "ioprio 0x0008", "ioprio 0x8008",
	"on now", "fail", "fail 8", "fail -1", "revive", "revive 8", "reset all", "distrust", "hedge", "hedge 51", "hedge -1", "hedge 2 3", "surprise",
};

/* Printed lines are accepted, and print themselves. */
static void round_trip(struct dm_target *ti, bool readonly)
{
	char first[2048], second[2048], copy[2048], *error;
	struct dm_target *again;

	table_of(ti, first, sizeof(first));
	strcpy(copy, first);
	again = stub_create(copy, readonly, &error);
	CHECK(again != NULL, "'%s' is not accepted: %s", first, error);
	if (!again)
		return;
	table_of(again, second, sizeof(second));
	CHECK(!strcmp(first, second), "'%s' prints '%s'", first, second);
	stub_remove(again);
}

static void check_given(void)
{
	char *error;

	for (unsigned int i = 0; i < ARRAY_SIZE(good); i++) {
		struct dm_target *ti = make(good[i], true, &error);

		CHECK(ti != NULL, "'%s' is refused: %s", good[i], error);
		if (!ti)
			continue;
		round_trip(ti, true);
		for (unsigned int k = 0; k < ARRAY_SIZE(bad_messages); k++) {
			char before[2048], after[2048];

			table_of(ti, before, sizeof(before));
			CHECK(tell(ti, bad_messages[k]) < 0, "message '%s' is obeyed", bad_messages[k]);
			table_of(ti, after, sizeof(after));
			CHECK(!strcmp(before, after), "refused message '%s' makes '%s' of '%s'", bad_messages[k], after,
			      before);
		}
		for (unsigned int k = 0; k < ARRAY_SIZE(messages); k++) {
			tell(ti, messages[k]);
			round_trip(ti, true);
		}
		stub_remove(ti);
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++) {
		struct dm_target *ti = make(bad[i], true, &error);

		CHECK(ti == NULL, "'%s' is accepted", bad[i]);
		CHECK(ti || (error && *error), "'%s' is refused without a reason", bad[i]);
		if (ti)
			stub_remove(ti);
	}
	CHECK(!make(good[2], false, &error) && strstr(error, "linnet dm create --md"), "replicas may be written to: %s", error);
	/* Who has the table of a mirror learns what took its place. */
	CHECK(!make("2 /dev/leg0 0 /dev/leg1 0 6 policy linnos log core 1 1024", false, &error) &&
	      strstr(error, "linnet dm create --md"), "a mirror's table: %s", error);
}

/* Words may come in any order, are printed in a fixed order, and are left out if they give the default. */
static void check_printed(void)
{
	static const struct {
		const char *given, *printed;
	} lines[] = {
		{ "1 /dev/leg0 0 0", "1 259:0 0 2 policy linnet-best" },
		{ "1 /dev/leg0 7 4 ioprio 0x5004 policy baseline", "1 259:0 7 4 policy baseline ioprio 0x5004" },
		{ "2 /dev/leg0 0 /dev/leg1 8 9 out:1 off ioprio 0x604c revoke model slow.linnet policy linnos",
		  "2 259:0 0 259:1 8 9 policy linnos model slow.linnet revoke ioprio 0x604c off out:1" },
		{ "2 /dev/leg0 0 /dev/leg1 0 4 model:1 slow.linnet model:0 fast.linnet",
		  "2 259:0 0 259:1 0 6 policy linnet-best model:0 fast.linnet model:1 slow.linnet" },
		{ "2 /dev/leg0 0 /dev/leg1 0 4 model:1 slow.linnet model:0 slow.linnet",
		  "2 259:0 0 259:1 0 4 policy linnet-best model slow.linnet" },
		{ "2 /dev/leg0 0 /dev/leg1 0 4 model:1 slow.linnet model fast.linnet",
		  "2 259:0 0 259:1 0 6 policy linnet-best model:0 fast.linnet model:1 slow.linnet" },
	};
	char text[2048], *error;

	for (unsigned int i = 0; i < ARRAY_SIZE(lines); i++) {
		struct dm_target *ti = make(lines[i].given, true, &error);

		CHECK(ti, "'%s' is refused: %s", lines[i].given, error);
		if (!ti)
			continue;
		table_of(ti, text, sizeof(text));
		CHECK(!strcmp(text, lines[i].printed), "'%s' prints '%s'", lines[i].given, text);
		stub_remove(ti);
	}
}

/* 63 letters, digits and . _ - +, the first not a dot. */
static void check_names(void)
{
	static const char name[] = "0123456789.abcdefghijklmnopqrstuvwxyz_ABCDEFGHIJKLMNOPQRSTUVWX+-";
	struct dm_target *ti = must("1 /dev/leg0 0 0");
	char words[128];

	CHECK(strlen(name) == LINNET_NAME_SIZE, "the longest name and one more");
	for (int n = LINNET_NAME_SIZE - 1; n <= LINNET_NAME_SIZE; n++) {
		const char *file = name + LINNET_NAME_SIZE - n;

		snprintf(words, sizeof(words), "linnet/%s", file);
		put_model("slow", words + 7);
		snprintf(words, sizeof(words), "load %s", file);
		CHECK((tell(ti, words) == 0) == (n < LINNET_NAME_SIZE), "a name of %d", n);
		snprintf(words, sizeof(words), "linnet/%s", file);
		stub_firmware(words, NULL, 0);
	}
	put_model("slow", ".slow");
	put_model("slow", "a/b");
	CHECK(tell(ti, "load .slow") < 0 && tell(ti, "load a/b") < 0, "a name that could leave the directory");
	stub_firmware("linnet/.slow", NULL, 0);
	stub_firmware("linnet/a/b", NULL, 0);
	stub_remove(ti);
}

/* A status that does not fit is truncated and never written beyond its end. */
static void check_short_status(void)
{
	struct dm_target *ti = must(good[8]);

	CHECK(count_of(ti, "replicas", -1) == 8, "replicas");
	for (unsigned int size = 1; size < 2048; size += 7) {
		char *text = malloc(size);

		text[0] = 0;
		ti->type->status(ti, STATUSTYPE_INFO, 0, text, size);
		CHECK(strlen(text) < size, "status of %u", size);
		text[0] = 0;
		ti->type->status(ti, STATUSTYPE_TABLE, 0, text, size);
		CHECK(strlen(text) < size, "table of %u", size);
		free(text);
	}
	stub_remove(ti);
}

/* The n-th allocation fails, for every n: an error or a working target, without leaks (the sanitizer checks). */
static void check_memory(void)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(good); i++) {
		for (long n = 0; n < 1000; n++) {
			char *error;
			struct dm_target *ti;
			bool failed;

			stub_alloc_left = n;
			ti = make(good[i], true, &error);
			failed = stub_alloc_left < 0;
			stub_alloc_left = -1;
			CHECK(ti || error, "'%s' is refused without a reason", good[i]);
			if (ti) {
				stub_alloc_left = below(12);
				tell(ti, "load slow.linnet");
				stub_alloc_left = -1;
				stub_remove(ti);
			}
			if (!failed)
				break;
		}
	}
}

/* ---- mutated ---- */

static const char *const words[] = {
	"policy", "linnos", "linnet-best", "baseline", "model", "model:0", "model:7", "model:9", "slow.linnet", "revoke",
	"ioprio", "0x5004", "0x4007", "0xffff", "off", "on", "log", "core", "disk", "out:0", "out:1", "0", "1", "2", "3", "4", "8", "255",
	"4294967295", "4294967296", "18446744073709551616", "-1", "/dev/leg0", "/dev/leg1", "load", "unload", "fail",
	"revive", "reset", "0x", "", "\x01\xff", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
};

static void mutate(const char *from, char *to, size_t size)
{
	char copy[2048], *rest = copy, *word;
	size_t at = 0;
	u32 kind = below(8);

	snprintf(copy, sizeof(copy), "%s", from);
	to[0] = 0;
	while ((word = strsep(&rest, " "))) {
		u32 what = below(10), times = 1;

		if (what == 0 && kind != 0)
			word = (char *)(uintptr_t)words[below(ARRAY_SIZE(words))];
		if (what == 1 && kind > 2)
			times = 0;
		if (what == 2 && kind > 4)
			times = 2 + below(3);
		while (times-- && at + strlen(word) + 2 < size)
			at += (size_t)snprintf(to + at, size - at, "%s%s", at ? " " : "", word);
	}
	for (u32 n = kind == 7 ? 1 + below(3) : 0; n && at; n--)
		to[below((u32)at)] = (char)(1 + below(255));
}

void check_tables(unsigned long inputs)
{
	unsigned long accepted = 0, obeyed = 0;
	struct dm_target *target = NULL;
	char line[2048], *error;

	put_model("slow", "slow.linnet");
	put_model("fast", "fast.linnet");
	check_given();
	check_printed();
	check_names();
	check_short_status();
	check_memory();
	for (unsigned long n = 0; n < inputs / 2; n++) {
		bool readonly = below(4) > 0;
		struct dm_target *ti;

		mutate(good[below(ARRAY_SIZE(good))], line, sizeof(line));
		ti = make(line, readonly, &error);
		CHECK(ti || (error && *error), "'%s' is refused without a reason", line);
		if (!ti)
			continue;
		accepted++;
		round_trip(ti, readonly);
		stub_remove(ti);
	}
	for (unsigned long n = 0; n < inputs / 2; n++) {
		if (n % 1000 == 0) {
			if (target)
				stub_remove(target);
			target = must(good[n / 1000 % ARRAY_SIZE(good)]);
		}
		mutate(messages[below(ARRAY_SIZE(messages))], line, sizeof(line));
		obeyed += tell(target, line) == 0;
		if (n % 16 == 0)
			round_trip(target, true);
		stub_run_works();
	}
	if (target)
		stub_remove(target);
	CHECK(accepted > inputs / 100 && obeyed > inputs / 100, "too few mutations are good: %lu and %lu", accepted, obeyed);
	printf("tables and messages: %lu mutated, %lu and %lu of them good\n", inputs, accepted, obeyed);
}
