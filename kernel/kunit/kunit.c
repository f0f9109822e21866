// SPDX-License-Identifier: GPL-2.0-only
/* Runs the golden vectors as a KUnit suite: one parameter per file of spec/vectors. */
#include <kunit/test.h>
#include <linux/module.h>

#include "knobs.h"
#include "vectors.h"

/* KUnit passes the pointer that it got last. */
static const void *next_golden(const void *before, char *name)
{
	const FILE *golden = before ? (const FILE *)before + 1 : linnet_goldens;

	if (!golden->path)
		return NULL;
	strscpy(name, golden->path, KUNIT_PARAM_DESC_SIZE);
	return golden;
}

static void golden_holds(struct kunit *test)
{
	const FILE *golden = test->param_value;
	unsigned int count;

	KUNIT_EXPECT_EQ(test, linnet_vectors_run(golden->path, &count), 0u);
	KUNIT_EXPECT_GT(test, count, 0u);
}

/* A canary. It cannot depend on a module parameter, because 6.1 runs suites before it reads the parameters. */
static void spoilt_vector_fails(struct kunit *test)
{
	static const char *const names[] = { "features.txt", "readahead-both" };

	for (int i = 0; i < ARRAY_SIZE(names); i++) {
		const char *spoilt = linnet_vectors_spoil(names[i]);
		unsigned int count;

		KUNIT_EXPECT_GT(test, linnet_vectors_run(spoilt, &count), 0u);
		linnet_vectors_spoil(names[i]);
		KUNIT_EXPECT_EQ(test, linnet_vectors_run(spoilt, &count), 0u);
	}
}

/* Their hashes are in the log, for a comparison with user space. */
static void knob_runs_hold(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, knob_runs(), 0u);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(golden_holds, next_golden),
	KUNIT_CASE(spoilt_vector_fails),
	KUNIT_CASE(knob_runs_hold),
	{}
};

static struct kunit_suite suite = {
	.name = "linnet-vectors",
	.test_cases = cases,
};
kunit_test_suite(suite);
MODULE_DESCRIPTION("Golden vectors of Linnet's core, in KUnit");
MODULE_LICENSE("GPL");
