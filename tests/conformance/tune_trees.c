// SPDX-License-Identifier: MIT OR Apache-2.0
/* Checks the library of knobs: a tree's table against its walk, induction, ring and sampler; see tune.c. */
#include "tune.h"

/* ---- trees ---- */

/* A random tree in pre-order; returns the index after its last node. */
static uint32_t grow(struct linnet_tree_node *nodes, uint32_t at, uint32_t leaves, uint32_t inputs)
{
	uint32_t left = leaves > 1 ? 1 + draw() % (leaves - 1) : 0, next;
	float threshold = draw() % 4 ? unit() : (float)(draw() % 3) - 1;

	if (leaves == 1) {
		nodes[at] = (struct linnet_tree_node){ draw() % 1000001, LINNET_TREE_LEAF, (uint16_t)(draw() % 7) };
		return at + 1;
	}
	memcpy(&nodes[at].word, &threshold, 4);
	nodes[at].feature = (uint16_t)(draw() % inputs);
	next = grow(nodes, at + 1, left, inputs);
	nodes[at].right = (uint16_t)next;
	return grow(nodes, next, leaves - left, inputs);
}

static void trees(void)
{
	struct linnet_tree_node nodes[127], damaged[127];
	const float odd[] = { 0.0f, -0.0f, INFINITY, -INFINITY, NAN, -NAN, 1, -1, 1e-40f, -1e-40f };
	const float zeros[LINNET_KNOB_INPUTS_MAX] = { 0 };
	struct linnet_fast_tree fast;
	uint64_t hash = HASH_START;
	uint32_t at, refused = 0, tables = 0;

	for (int t = 0; t < 2000; t++) {
		uint32_t inputs = 1 + draw() % LINNET_KNOB_INPUTS_MAX, leaves = 1 + draw() % (t < 1800 ? 32 : 64);
		uint32_t count = grow(nodes, 0, leaves, inputs);
		int table;

		CHECK(linnet_tree_check(nodes, count, inputs, 7, &at) == 0);
		table = linnet_fast_tree_init(&fast, nodes, count, inputs) == 0;
		CHECK(table || leaves > 32 || inputs > 5);
		tables += (uint32_t)table;
		for (int r = 0; r < 50; r++) {
			float row[LINNET_KNOB_INPUTS_MAX];
			const struct linnet_tree_node *leaf, *walked = nodes;

			for (uint32_t i = 0; i < inputs; i++)
				row[i] = draw() % 4 ? unit() : odd[draw() % 10];
			leaf = linnet_tree_leaf(nodes, row);
			while (walked->feature != LINNET_TREE_LEAF) {
				float threshold;

				memcpy(&threshold, &walked->word, 4);
				walked = row[walked->feature] > threshold ? nodes + walked->right : walked + 1;
			}
			CHECK(leaf == walked);
			if (table)
				CHECK(nodes + linnet_fast_tree_leaf(&fast, row) == leaf);
			hash = hash_of(leaf, sizeof(*leaf), hash);
		}
		/*
		 * A damaged tree that passes the check must still be walked within bounds; a truncated tree never
		 * passes.
		 */
		memcpy(damaged, nodes, sizeof(nodes));
		((uint8_t *)damaged)[draw() % (8 * count)] ^= (uint8_t)(1 << draw() % 8);
		if (linnet_tree_check(damaged, count, inputs, 7, &at) < 0)
			refused++;
		else
			CHECK(linnet_tree_leaf(damaged, zeros) < damaged + count);
		if (count > 1)
			CHECK(linnet_tree_check(nodes, count - 1, inputs, 7, &at) == LINNET_E_SHAPE);
	}
	CHECK(refused > 200 && tables > 1000);
	printf("trees: %016llx\n", (unsigned long long)hash);
}

static void induction(void)
{
	enum { ROWS = 600 };
	struct linnet_cart_options options = { .depth_max = 6, .leaf_rows = 1, .nodes_max = 4095, .classes = 3 };
	float *values = room(ROWS * 3 * sizeof(float));
	uint8_t *classes = room(ROWS);
	void *memory = room(linnet_cart_size(ROWS));
	struct linnet_tree_node nodes[LINNET_TREE_NODES_MAX], again[LINNET_TREE_NODES_MAX];
	uint64_t hash = HASH_START;
	uint32_t at;
	int count;

	/* A checkerboard: no single split helps, two do. */
	for (int r = 0; r < ROWS; r++) {
		for (int i = 0; i < 3; i++)
			values[3 * r + i] = unit();
		classes[r] = (values[3 * r] > 0.25f) ^ (values[3 * r + 1] > -0.5f);
	}
	count = cart_fit(&options, values, classes, ROWS, 3, memory, linnet_cart_size(ROWS), nodes);
	CHECK(count >= 7 && linnet_tree_check(nodes, (uint32_t)count, 3, 3, &at) == 0);
	for (int r = 0; r < ROWS; r++)
		CHECK(linnet_tree_leaf(nodes, values + 3 * r)->right == classes[r]);
	hash = hash_of(nodes, (size_t)count * sizeof(*nodes), hash);
	/* The order of rows does not matter. */
	for (int r = 0; r < ROWS / 2; r++) {
		int other = ROWS - 1 - r;
		float keep[3];
		uint8_t class_ = classes[r];

		memcpy(keep, values + 3 * r, sizeof(keep));
		memcpy(values + 3 * r, values + 3 * other, sizeof(keep));
		memcpy(values + 3 * other, keep, sizeof(keep));
		classes[r] = classes[other];
		classes[other] = class_;
	}
	CHECK(cart_fit(&options, values, classes, ROWS, 3, memory, linnet_cart_size(ROWS), again) == count);
	CHECK(memcmp(nodes, again, (size_t)count * sizeof(*nodes)) == 0);
	/* Noise: the limits on depth, rows per leaf and nodes hold. */
	for (int r = 0; r < ROWS; r++)
		classes[r] = (uint8_t)(draw() % 3);
	for (uint32_t most = 3; most < 60; most += 7) {
		options = (struct linnet_cart_options){ .depth_max = 5, .leaf_rows = 9, .nodes_max = most, .classes = 3 };
		count = cart_fit(&options, values, classes, ROWS, 3, memory, linnet_cart_size(ROWS), nodes);
		CHECK(count >= 1 && (uint32_t)count <= most);
		CHECK(linnet_tree_check(nodes, (uint32_t)count, 3, 3, &at) == 0);
		for (int n = 0; n < count; n++) {
			int rows = 0, own = 0;

			for (int r = 0; r < ROWS; r++) {
				int here = linnet_tree_leaf(nodes, values + 3 * r) == &nodes[n];

				rows += here;
				own += here && classes[r] == nodes[n].right;
			}
			if (nodes[n].feature == LINNET_TREE_LEAF)
				CHECK(rows >= 9 && nodes[n].word == (uint32_t)((uint64_t)own * 1000000 / (uint64_t)rows));
		}
		hash = hash_of(nodes, (size_t)count * sizeof(*nodes), hash);
	}
	/* The threshold is halfway between two values, over the whole range of floats. */
	options = (struct linnet_cart_options){ .depth_max = 1, .leaf_rows = 1, .nodes_max = 3, .classes = 2 };
	for (int r = 0; r < 2000; r++) {
		float pair[2], threshold;
		const uint8_t two[2] = { 0, 1 };
		double half;

		for (int i = 0; i < 2; i++) {
			uint32_t bits = draw() << 1 | draw() % 2;

			if (r % 3 == 0 && i == 1) {
				memcpy(&bits, &pair[0], 4);
				bits += 1 + draw() % 9;
			}
			memcpy(&pair[i], &bits, 4);
		}
		if (!isfinite(pair[0]) || !isfinite(pair[1]) || pair[0] == pair[1])
			continue;
		count = cart_fit(&options, pair, two, 2, 1, memory, linnet_cart_size(2), nodes);
		CHECK(count == 3);
		memcpy(&threshold, &nodes[0].word, 4);
		half = ((double)pair[0] + (double)pair[1]) / 2;
		CHECK(threshold >= fminf(pair[0], pair[1]) && threshold < fmaxf(pair[0], pair[1]));
		CHECK(fabs(threshold - half) <= 1.2e-7 * fmax(fabs(pair[0]), fabs(pair[1])) + 1e-44);
		hash = hash_of(&threshold, sizeof(threshold), hash);
	}
	values[5] = NAN;
	options.leaf_rows = 1;
	CHECK(cart_fit(&options, values, classes, ROWS, 3, memory, linnet_cart_size(ROWS), nodes) == LINNET_E_INPUT);
	CHECK(cart_fit(&options, values, classes, ROWS, 3, memory, 8, nodes) < 0);
	printf("induction: %016llx\n", (unsigned long long)hash);
	free(values);
	free(classes);
	free(memory);
}

/* ---- the ends of their ranges ---- */

/* A pre-order tree of `left` splits whose right children are leaves. */
static uint32_t leaning(struct linnet_tree_node *nodes, uint32_t left)
{
	for (uint32_t i = 0; i < left; i++)
		nodes[i] = (struct linnet_tree_node){ i, 0, (uint16_t)(2 * left - i) };
	for (uint32_t i = left; i <= 2 * left; i++)
		nodes[i] = (struct linnet_tree_node){ 0, LINNET_TREE_LEAF, 0 };
	return 2 * left + 1;
}

static void limits_of_trees(void)
{
	static struct linnet_tree_node nodes[LINNET_TREE_NODES_MAX + 2];
	static struct {
		struct linnet_fast_tree fast;
		uint16_t after[2];
	} table;
	const float row[LINNET_KNOB_INPUTS_MAX] = { 0 };
	uint32_t at = 9, count = leaning(nodes, LINNET_TREE_DEPTH_MAX);

	CHECK(linnet_tree_check(nodes, count, 1, 1, &at) == 0 && at == count - 1);
	count = leaning(nodes, LINNET_TREE_DEPTH_MAX + 1);
	CHECK(linnet_tree_check(nodes, count, 1, 1, &at) == LINNET_E_SHAPE && at == LINNET_TREE_DEPTH_MAX);
	/* A split at every second node, and its left child a leaf: no depth at all, and as many nodes as there may be. */
	for (uint32_t i = 0; i < LINNET_TREE_NODES_MAX + 2; i++)
		nodes[i] = i % 2 ? (struct linnet_tree_node){ 1000000, LINNET_TREE_LEAF, 254 } :
				   (struct linnet_tree_node){ 0, 5, (uint16_t)(i + 2) };
	nodes[LINNET_TREE_NODES_MAX - 1] = nodes[1];
	CHECK(linnet_tree_check(nodes, LINNET_TREE_NODES_MAX, LINNET_TREE_LEAF - 1, 255, &at) == 0);
	CHECK(linnet_tree_check(nodes, LINNET_TREE_NODES_MAX, LINNET_TREE_LEAF, 255, &at) == LINNET_E_SHAPE && at == 0);
	CHECK(linnet_tree_check(nodes, LINNET_TREE_NODES_MAX, 6, 255, &at) == 0);
	CHECK(linnet_tree_check(nodes, LINNET_TREE_NODES_MAX, 5, 255, &at) == LINNET_E_RANGE && at == 0);
	CHECK(linnet_tree_check(nodes, LINNET_TREE_NODES_MAX, 6, 254, &at) == LINNET_E_RANGE && at == 1);
	nodes[1].word++;
	CHECK(linnet_tree_check(nodes, LINNET_TREE_NODES_MAX, 6, 255, &at) == LINNET_E_RANGE && at == 1);
	nodes[1].word--;
	nodes[LINNET_TREE_NODES_MAX - 1] = (struct linnet_tree_node){ 0, 5, LINNET_TREE_NODES_MAX + 1 };
	nodes[LINNET_TREE_NODES_MAX + 1] = nodes[1];
	CHECK(linnet_tree_check(nodes, LINNET_TREE_NODES_MAX + 2, 6, 255, &at) == LINNET_E_SHAPE && at == 0);
	CHECK(linnet_tree_check(nodes, 0, 6, 255, &at) == LINNET_E_SHAPE && at == 0);
	CHECK(linnet_tree_check(&nodes[1], 1, 6, 255, &at) == 0 && at == 0);

	/* As many leaves as a table has, and one more. */
	for (uint32_t leaves = LINNET_FAST_LEAVES_MAX; leaves <= LINNET_FAST_LEAVES_MAX + 1; leaves++) {
		count = leaning(nodes, leaves - 1);
		nodes[count] = nodes[count - 1];
		memset(&table, DIRT, sizeof(table));
		CHECK(linnet_fast_tree_init(&table.fast, nodes, count, LINNET_KNOB_INPUTS_MAX) ==
		      (leaves > LINNET_FAST_LEAVES_MAX ? LINNET_E_SHAPE : 0));
		if (leaves == LINNET_FAST_LEAVES_MAX)
			CHECK(nodes + linnet_fast_tree_leaf(&table.fast, row) == linnet_tree_leaf(nodes, row));
		CHECK(table.after[0] == 0x5a5a && table.after[1] == 0x5a5a);
	}
	CHECK(linnet_fast_tree_init(&table.fast, nodes, 3, LINNET_KNOB_INPUTS_MAX + 1) == LINNET_E_SHAPE);
	/* As many questions as a table has: one for each feature. One more is refused. */
	count = leaning(nodes, 5 + LINNET_KNOB_INPUTS_MAX - 1);
	for (uint32_t i = 0; i < LINNET_KNOB_INPUTS_MAX; i++)
		nodes[i].feature = (uint16_t)i;
	nodes[16].feature = nodes[17].feature = nodes[18].feature = 3;
	nodes[19].feature = 4;
	CHECK(linnet_fast_tree_init(&table.fast, nodes, count, LINNET_KNOB_INPUTS_MAX) == 0);
	CHECK(table.fast.vectors == LINNET_FAST_VECTORS_MAX);
	CHECK(nodes + linnet_fast_tree_leaf(&table.fast, row) == linnet_tree_leaf(nodes, row));
	nodes[19].feature = 3;
	CHECK(linnet_fast_tree_init(&table.fast, nodes, count, LINNET_KNOB_INPUTS_MAX) == LINNET_E_SHAPE);
}

static const struct linnet_cart_options least = { .depth_max = 1, .leaf_rows = 1, .nodes_max = 3, .classes = 2 };

static int fits(struct linnet_cart_options options, uint32_t rows, uint32_t inputs, uint8_t second)
{
	const float values[2] = { 0, 1 };
	const uint8_t classes[2] = { 0, second };
	static struct linnet_tree_node nodes[LINNET_TREE_NODES_MAX];
	void *memory = room(linnet_cart_size(2));
	int count;

	memset(memory, DIRT, linnet_cart_size(2));
	count = cart_fit(&options, values, classes, rows, inputs, memory, linnet_cart_size(2), nodes);
	free(memory);
	return count;
}

/* What is fitted to rows of these values, with options that let everything be split. */
static int fit(const float *values, const uint8_t *classes, uint32_t rows, uint32_t inputs, uint32_t kinds,
	       struct linnet_tree_node *nodes)
{
	const struct linnet_cart_options all = { LINNET_TREE_DEPTH_MAX, 1, LINNET_TREE_NODES_MAX, kinds };
	void *memory = room(linnet_cart_size(rows));
	int count;

	memset(memory, DIRT, linnet_cart_size(rows));
	count = cart_fit(&all, values, classes, rows, inputs, memory, linnet_cart_size(rows), nodes);
	free(memory);
	return count;
}

static void particular_rows(void)
{
	static struct linnet_tree_node nodes[LINNET_TREE_NODES_MAX];
	static uint8_t classes[LINNET_CART_ROWS_MAX];
	static float values[LINNET_CART_ROWS_MAX];
	const uint8_t outer[4] = { 0, 1, 1, 0 };
	uint32_t rows = 0, at;
	float threshold;

	CHECK(fit(values, classes, LINNET_CART_ROWS_MAX, 1, 2, nodes) == 1 && nodes[0].word == 1000000);
	/* Of equal splits the lowest feature wins, then the lowest threshold. */
	for (uint32_t r = 0; r < 4; r++)
		values[2 * r] = values[2 * r + 1] = (float)r;
	values[8] = NAN; /* of no row */
	CHECK(fit(values, outer, 4, 2, 2, nodes) == 5 && nodes[0].feature == 0);
	memcpy(&threshold, &nodes[0].word, 4);
	CHECK(threshold == 0.5f);
	/* Halfway between a number and its opposite is 0. */
	for (uint32_t r = 0; r < 20; r++) {
		values[0] = ldexpf(1.75f, -(int)r * 7);
		values[1] = -values[0];
		CHECK(fit(values, outer, 2, 1, 2, nodes) == 3 && nodes[0].word == 0);
	}
	/* A number that is not finite, and a class too large, in each place. */
	for (uint32_t i = 0; i < 8; i++) {
		for (uint32_t k = 0; k < 8; k++)
			values[k] = k == i ? i % 2 ? NAN : -INFINITY : (float)k;
		CHECK(fit(values, outer, 4, 2, 2, nodes) == LINNET_E_INPUT);
	}
	for (uint32_t r = 0; r < 3; r++) {
		for (uint32_t k = 0; k < 3; k++) {
			values[k] = (float)k;
			classes[k] = k == r ? 2 : 1;
		}
		CHECK(fit(values, classes, 3, 1, 2, nodes) == LINNET_E_INPUT);
		CHECK(fit(values, classes, 3, 1, 3, nodes) > 1);
	}
	/* Groups that grow, each of a class of its own: the last one is split off first, down to the greatest depth. */
	for (uint32_t group = 0; group <= LINNET_TREE_DEPTH_MAX; group++) {
		for (uint32_t r = 0; r <= group; r++, rows++) {
			values[rows] = (float)group;
			classes[rows] = (uint8_t)group;
		}
	}
	CHECK(fit(values, classes, rows, 1, LINNET_TREE_DEPTH_MAX + 1, nodes) == 2 * LINNET_TREE_DEPTH_MAX + 1);
	CHECK(linnet_tree_check(nodes, 2 * LINNET_TREE_DEPTH_MAX + 1, 1, LINNET_TREE_DEPTH_MAX + 1, &at) == 0);
	for (uint32_t r = 0; r < rows; r++)
		CHECK(linnet_tree_leaf(nodes, values + r)->right == classes[r]);
}

static void limits_of_induction(void)
{
	static struct linnet_tree_node nodes[3];
	const float values[2] = { 0, 1 };
	const uint8_t classes[2] = { 0, 1 };
	uint8_t *memory = room(linnet_cart_size(2) + 1);
	size_t size = linnet_cart_size(2);

	CHECK(fits(least, 2, 1, 1) == 3 && fits(least, 1, 1, 1) == 1 && fits(least, 2, 1, 0) == 1);
	CHECK(fits((struct linnet_cart_options){ LINNET_TREE_DEPTH_MAX, 2, LINNET_TREE_NODES_MAX, 256 }, 2, 1, 255) == 1);
	CHECK(fits((struct linnet_cart_options){ LINNET_TREE_DEPTH_MAX, 1, LINNET_TREE_NODES_MAX, 256 }, 2, 1, 255) == 3);
	CHECK(fits((struct linnet_cart_options){ 0, 1, 3, 2 }, 2, 1, 1) == LINNET_E_SHAPE);
	CHECK(fits((struct linnet_cart_options){ LINNET_TREE_DEPTH_MAX + 1, 1, 3, 2 }, 2, 1, 1) == LINNET_E_SHAPE);
	CHECK(fits((struct linnet_cart_options){ 1, 0, 3, 2 }, 2, 1, 1) == LINNET_E_SHAPE);
	CHECK(fits((struct linnet_cart_options){ 1, 1, 2, 2 }, 2, 1, 1) == LINNET_E_SHAPE);
	CHECK(fits((struct linnet_cart_options){ 1, 1, LINNET_TREE_NODES_MAX + 1, 2 }, 2, 1, 1) == LINNET_E_SHAPE);
	CHECK(fits((struct linnet_cart_options){ 1, 1, 3, 1 }, 2, 1, 0) == LINNET_E_SHAPE);
	CHECK(fits((struct linnet_cart_options){ 1, 1, 3, 257 }, 2, 1, 1) == LINNET_E_SHAPE);
	CHECK(fits(least, 0, 1, 1) == LINNET_E_SHAPE && fits(least, LINNET_CART_ROWS_MAX + 1, 1, 1) == LINNET_E_SHAPE);
	CHECK(fits(least, 2, 0, 1) == LINNET_E_SHAPE && fits(least, 2, LINNET_TREE_LEAF, 1) == LINNET_E_SHAPE);
	CHECK(fits(least, 2, 1, 2) == LINNET_E_INPUT);
	CHECK(cart_fit(&least, values, classes, 2, 1, memory, size - 1, nodes) == LINNET_E_MEMORY);
	CHECK(cart_fit(&least, values, classes, 2, 1, memory + 1, size, nodes) == LINNET_E_MEMORY);
	CHECK(cart_fit(&least, values, classes, 2, 1, memory, size, nodes) == 3);
	free(memory);
}

/* ---- ring and sampler ---- */

static void rings(void)
{
	uint64_t words[3 * 8], record[3] = { 0 }, taken[3], next = 0, expected = 0, lost = 0;
	struct linnet_sampler sampler;
	struct linnet_ring ring;

	CHECK(linnet_ring_init(&ring, 6, 3, words, 24) == LINNET_E_SHAPE);
	CHECK(linnet_ring_init(&ring, 8, 0, words, 24) == LINNET_E_SHAPE);
	CHECK(linnet_ring_init(&ring, 8, 3, words, 23) == LINNET_E_MEMORY);
	CHECK(linnet_ring_init(&ring, 8, 3, words, 24) == 0);
	/* Compared with a queue: a full ring refuses the newest row, and the order is kept. */
	for (int step = 0; step < 10000; step++) {
		if (draw() % 5 < 3) {
			record[0] = next;
			record[2] = ~next;
			CHECK(linnet_ring_put(&ring, record) == (next - expected < 8));
			if (next - expected < 8)
				next++;
			else
				lost++;
		} else {
			int got = linnet_ring_take(&ring, taken);

			CHECK(got == (next != expected));
			if (got)
				CHECK(taken[0] == expected && taken[2] == ~expected);
			expected += (uint64_t)got;
		}
		CHECK(linnet_ring_waiting(&ring) == next - expected && linnet_ring_lost(&ring) == lost);
	}
	CHECK(lost > 100);
	CHECK(linnet_sampler_init(&sampler, 1000001, 1) == LINNET_E_RANGE);
	for (uint32_t share = 0; share <= 1000000; share += 125000) {
		CHECK(linnet_sampler_init(&sampler, share, 1) == 0);
		for (int event = 0; event < 100000; event++)
			linnet_sampler_keep(&sampler);
		CHECK(sampler.seen == 100000);
		CHECK(llabs((long long)sampler.kept * 10 - share) < (share % 1000000 ? 8000 : 1));
	}
	printf("ring: %llu lost, sampler %llu\n", (unsigned long long)lost, (unsigned long long)sampler.kept);
}

void check_trees(void)
{
	trees();
	induction();
	limits_of_trees();
	limits_of_induction();
	particular_rows();
	rings();
}
