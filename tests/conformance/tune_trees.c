// SPDX-License-Identifier: MIT OR Apache-2.0
/* Checks the library of knobs: the table of a tree against its walk, induction, ring and sampler; see tune.c. */
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
	uint64_t hash = 0xcbf29ce484222325;
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
	uint64_t hash = 0xcbf29ce484222325;
	uint32_t at;
	int count;

	/* A checkerboard: no single split helps, two do. */
	for (int r = 0; r < ROWS; r++) {
		for (int i = 0; i < 3; i++)
			values[3 * r + i] = unit();
		classes[r] = (values[3 * r] > 0.25f) ^ (values[3 * r + 1] > -0.5f);
	}
	count = linnet_cart_fit(&options, values, classes, ROWS, 3, memory, linnet_cart_size(ROWS), nodes);
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
	CHECK(linnet_cart_fit(&options, values, classes, ROWS, 3, memory, linnet_cart_size(ROWS), again) == count);
	CHECK(memcmp(nodes, again, (size_t)count * sizeof(*nodes)) == 0);
	/* Noise: the limits on depth, rows per leaf and nodes hold. */
	for (int r = 0; r < ROWS; r++)
		classes[r] = (uint8_t)(draw() % 3);
	for (uint32_t most = 3; most < 60; most += 7) {
		options = (struct linnet_cart_options){ .depth_max = 5, .leaf_rows = 9, .nodes_max = most, .classes = 3 };
		count = linnet_cart_fit(&options, values, classes, ROWS, 3, memory, linnet_cart_size(ROWS), nodes);
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
		count = linnet_cart_fit(&options, pair, two, 2, 1, memory, linnet_cart_size(2), nodes);
		CHECK(count == 3);
		memcpy(&threshold, &nodes[0].word, 4);
		half = ((double)pair[0] + (double)pair[1]) / 2;
		CHECK(threshold >= fminf(pair[0], pair[1]) && threshold < fmaxf(pair[0], pair[1]));
		CHECK(fabs(threshold - half) <= 1.2e-7 * fmax(fabs(pair[0]), fabs(pair[1])) + 1e-44);
		hash = hash_of(&threshold, sizeof(threshold), hash);
	}
	values[5] = NAN;
	options.leaf_rows = 1;
	CHECK(linnet_cart_fit(&options, values, classes, ROWS, 3, memory, linnet_cart_size(ROWS), nodes) == LINNET_E_INPUT);
	CHECK(linnet_cart_fit(&options, values, classes, ROWS, 3, memory, 8, nodes) < 0);
	printf("induction: %016llx\n", (unsigned long long)hash);
	free(values);
	free(classes);
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
	rings();
}
