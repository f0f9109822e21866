// SPDX-License-Identifier: GPL-2.0-only
/* Runs the golden vectors as a KUnit suite: one parameter per file of spec/vectors. */
#include <kunit/test.h>
#include <linux/module.h>

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
	const char *spoilt = linnet_vectors_spoil();
	unsigned int count;

	KUNIT_EXPECT_GT(test, linnet_vectors_run(spoilt, &count), 0u);
	linnet_vectors_spoil();
	KUNIT_EXPECT_EQ(test, linnet_vectors_run(spoilt, &count), 0u);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(golden_holds, next_golden),
	KUNIT_CASE(spoilt_vector_fails),
	{}
};

static struct kunit_suite suite = {
	.name = "linnet-vectors",
	.test_cases = cases,
};
kunit_test_suite(suite);
MODULE_DESCRIPTION("Golden vectors of Linnet's core, in KUnit");
MODULE_LICENSE("GPL");
