// SPDX-License-Identifier: GPL-2.0-only
/* Model files: what is read, what decides, what is learned. */
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

#define BYTES_MAX (1 << 17)
#define LEAST_ACCESSES 16 /* that a window needs to be learned from */
#define FLOOR_AT 64       /* where a file has its floor of confidence: spec/model-file.md */

static const struct kernel_param unused;

void a_model_decides_and_learns(unsigned int unused_number)
{
	struct stub_file data;
	struct file *open;
	char *text, *before, *after;
	size_t size, now;

	stub_file_init(&data, 21, 1 << 20);
	open = stub_open_file(&data, "data");
	CHECK(stub_init() == 0);
	CHECK(tune_learn_ops.set("0", &unused) == -EINVAL);
	CHECK(tune_model_ops.set("../m", &unused) == -EINVAL);
	CHECK(tune_model_ops.set("m", &unused) == 0);
	for (int round = 0; round < 3; round++) {
		read_at_random(open, 200, true);
		let_pass(SECOND);
	}
	text = said("decisions");
	CHECK(strstr(text, "by the model"));
	free(text);
	CHECK(stub_touch(open, 5, 0) == 2);
	before = stub_show("model", &size);
	CHECK(tune_learn_ops.set("9", &unused) == -EINVAL && tune_learn_ops.set("1", &unused) == 0);
	for (int round = 0; round < 3; round++) {
		read_at_random(open, 200, true);
		let_pass(SECOND);
	}
	CHECK(atomic64_read(&tune_counters.learned) > 0 && atomic64_read(&tune_counters.refused) == 0);
	after = stub_show("model", &now);
	CHECK(now == size && memcmp(before, after, size));
	free(before);
	free(after);
	/* Without memory for it there is an error, and not an empty file. Each of its two allocations fails once. */
	for (unsigned int try = 0; try < 4; try++) {
		stub_fail_one_in = 2;
		text = stub_show("model", &now);
		stub_fail_one_in = 0;
		CHECK(!text || now == size);
		free(text);
	}
	/* Each allocation of loading it again fails once; the model that was there stays. */
	for (unsigned int one_in = 1; one_in < 8; one_in++) {
		stub_fail_one_in = one_in;
		tune_model_ops.set("m", &unused);
		stub_fail_one_in = 0;
		text = said("status");
		CHECK(strstr(text, "model m classes"));
		free(text);
	}
	CHECK(tune_model_ops.set("", &unused) == 0);
	stub_exit();
	CHECK(open->f_ra.ra_pages == DEVICE_PAGES);
	stub_close(open);
}

/* These bytes are the firmware from now on. */
static void give(const u8 *bytes, size_t size)
{
	static char path[32];
	int file = memfd_create("model", 0);

	CHECK(file >= 0 && write(file, bytes, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	stub_firmware = path;
}

/* The model that the checks are given, with room for more bytes; to be freed. */
static u8 *bytes_of_model(size_t room, size_t *size)
{
	FILE *from = fopen(stub_firmware, "rb");
	u8 *bytes = calloc(1, room);

	CHECK(from && bytes);
	*size = fread(bytes, 1, room, from);
	fclose(from);
	return bytes;
}

void a_model_less_sure_than_its_floor_leaves_it_to_the_rule(unsigned int unused_number)
{
	struct stub_file data;
	struct file *open;
	size_t size;
	u8 *bytes = bytes_of_model(1 << 16, &size);
	u32 whole = 1000000, sum;

	memcpy(bytes + FLOOR_AT, &whole, sizeof(whole));
	sum = linnet_crc32c(bytes, size - 4);
	memcpy(bytes + size - 4, &sum, sizeof(sum));
	give(bytes, size);
	free(bytes);
	CHECK(stub_init() == 0 && tune_model_ops.set("m", &unused) == 0);
	open = decided_on(&data, 71, DEVICE_PAGES, true);
	/* A window that is looked at ten times before it ends counts once. */
	for (int look = 0; look < 30; look++) {
		read_at_random(open, 200, true);
		let_pass(SECOND / 10);
	}
	CHECK(says("decisions", "by the rule") && !says("decisions", "by the model"));
	CHECK(atomic64_read(&tune_counters.unsure) > 0);
	CHECK(atomic64_read(&tune_counters.unsure) == atomic64_read(&tune_counters.windows));
	stub_exit();
	stub_close(open);
}

void a_short_window_is_not_learned(unsigned int unused_number)
{
	struct linnet_pattern pattern = { .accesses = LEAST_ACCESSES - 1 };

	CHECK(stub_init() == 0);
	CHECK(tune_model_ops.set("m", &unused) == 0 && tune_learn_ops.set("1", &unused) == 0);
	mutex_lock(&tune_lock);
	tune_model_learn(&pattern);
	CHECK(atomic64_read(&tune_counters.learned) == 0);
	pattern.accesses++;
	tune_model_learn(&pattern);
	CHECK(atomic64_read(&tune_counters.learned) == 1);
	mutex_unlock(&tune_lock);
	stub_exit();
}

/* `modprobe linnet_tune model=m learn=1`, in both orders; a class or a model that is not there fails the start. */
void the_command_line_names_model_and_class(unsigned int line)
{
	struct stub_file data;
	struct file *open;

	if (line == LEARN_FIRST)
		CHECK(tune_learn_ops.set("1", &unused) == 0);
	if (line != NO_MODEL)
		CHECK(tune_model_ops.set("m", &unused) == 0);
	if (line != LEARN_FIRST)
		CHECK(tune_learn_ops.set(line == NO_CLASS ? "9" : "1", &unused) == 0);
	if (line == NO_MODEL || line == NO_CLASS) {
		CHECK(stub_init() == -EINVAL);
		return;
	}
	CHECK(stub_init() == 0 && says("status", "model m classes") && says("status", "learn 1\n"));
	open = decided_on(&data, 72, DEVICE_PAGES, true);
	CHECK(atomic64_read(&tune_counters.learned) > 0);
	/* Another model has other classes. */
	CHECK(tune_model_ops.set("m", &unused) == 0 && says("status", "learn -1\n"));
	stub_exit();
	stub_close(open);
}

/* Whatever a larger file holds is not looked at. */
void a_model_file_is_bounded(unsigned int unused_number)
{
	size_t size;
	u8 *bytes = bytes_of_model(BYTES_MAX + 1, &size);

	give(bytes, BYTES_MAX + 1);
	CHECK(stub_init() == 0);
	CHECK(tune_model_ops.set("m", &unused) == -EFBIG && says("status", "model none\n"));
	give(bytes, BYTES_MAX);
	CHECK(tune_model_ops.set("m", &unused) == -EINVAL);
	give(bytes, size);
	CHECK(tune_model_ops.set("m", &unused) == 0);
	free(bytes);
	stub_exit();
}
