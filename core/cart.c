/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Induction of a classification tree by the Gini index. Everything is exact: values are compared as integers of the
 * same order, splits as fractions, so a tree depends on its rows only, not on their order, the compiler or the machine.
 *
 * A node's rows are a segment of `order`. For each feature the segment is sorted, and a split is tried between every
 * two values that differ. With class counts l on the left and r on the right, the impurity is lowest where sum(l^2) /
 * rows left + sum(r^2) / rows right is highest. Like scikit-learn, a node that is not pure is split even if the split
 * gains nothing: two such splits together may gain much, as for an exclusive or.
 *
 * The tree grows best-first: of all leaves, the one whose split gains most is split next. So a limit on nodes leaves out
 * the splits that gain least, wherever they are. Without that limit, the order in which leaves are split does not matter.
 */
#include "tree.h"

/*
 * What a split gains: the sum above, less sum(n^2) / rows of the node before it. Below the number of rows, as a whole
 * number and a fraction: the products of two gains as plain fractions would exceed 128 bits.
 */
struct gain {
	uint64_t whole;       /* below 2^20 */
	uint64_t rest;        /* below the denominator */
	uint64_t denominator; /* below 2^59; 0 for no split */
};

/* A node of the tree while it grows; its rows are order[begin] to order[end - 1]. */
struct growing {
	struct gain gain; /* of its best split */
	struct linnet_tree_node node;
	uint32_t begin;
	uint32_t end;
	uint32_t depth;
	uint32_t left; /* number of its left child, which the right one follows; 0 for a leaf */
	/* Its best split: feature, rows on the left, threshold. */
	uint32_t feature;
	uint32_t rows;
	uint32_t word;
	uint32_t place; /* once it has grown: nodes from here down, then its place in pre-order */
};

/* At the beginning of the caller's memory; nodes, counts and order follow it. */
struct cart {
	const struct linnet_cart_options *options;
	const float *values;
	const uint8_t *classes;
	uint32_t inputs;
	uint32_t made; /* nodes */
	uint32_t *order;
	uint32_t *left;  /* rows of each class left of a split */
	uint32_t *right;
	struct growing *nodes;
};

struct split {
	uint32_t feature;
	uint32_t rows; /* left */
	uint32_t word;
	linnet_uint128 numerator; /* of the sum above; below 2^61 */
	uint64_t denominator;     /* below 2^40; 0 for no split */
};

/* The most nodes that this many rows can make: each leaf has a row. */
static uint32_t nodes_of(uint32_t rows)
{
	return rows > LINNET_TREE_NODES_MAX / 2 ? LINNET_TREE_NODES_MAX : 2 * rows;
}

size_t linnet_cart_size(uint32_t rows)
{
	return sizeof(struct cart) + sizeof(struct growing) * nodes_of(rows) +
	       sizeof(uint32_t) * ((size_t)rows + 2 * LINNET_TREE_CLASSES_MAX);
}

static int32_t key_of(const struct cart *cart, uint32_t row, uint32_t feature)
{
	return linnet_float_key(linnet_float_bits(cart->values + (size_t)row * cart->inputs, feature));
}

/* Moves order[at] of a heap of n elements down to its place. The largest element is on top. */
static void sink(const struct cart *cart, uint32_t *order, uint32_t at, uint32_t n, uint32_t feature)
{
	uint32_t own = order[at];
	int32_t key = key_of(cart, own, feature);

	for (uint32_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
		if (child + 1 < n && key_of(cart, order[child + 1], feature) > key_of(cart, order[child], feature))
			child++;
		if (key_of(cart, order[child], feature) <= key)
			break;
		order[at] = order[child];
		at = child;
	}
	order[at] = own;
}

/* Heapsort needs no memory and has no quadratic worst case. */
static void sort(const struct cart *cart, uint32_t *order, uint32_t n, uint32_t feature)
{
	for (uint32_t at = n / 2; at-- > 0;)
		sink(cart, order, at, n, feature);
	while (n > 1) {
		uint32_t top = order[0];

		n--;
		order[0] = order[n];
		order[n] = top;
		sink(cart, order, 0, n, feature);
	}
}

/* Magnitude of a finite float as an integer times 2^(exponent - 150), with 32 bits below the lowest of the mantissa. */
static uint64_t mantissa(uint32_t bits, int *exponent)
{
	*exponent = (int)(bits >> 23 & 0xff);
	if (*exponent == 0) {
		*exponent = 1;
		return (uint64_t)(bits & 0x7fffff) << 32;
	}
	return (uint64_t)((bits & 0x7fffff) | 0x800000) << 32;
}

/* Bits of the float halfway between two floats, rounded towards 0; the result is at least a and below b. */
static uint32_t midway(int32_t a, int32_t b)
{
	uint32_t one = linnet_key_bits(a), other = linnet_key_bits(b), sign, bits;
	int e1, e2;
	uint64_t m1 = mantissa(one, &e1), m2 = mantissa(other, &e2);
	int64_t sum;
	int32_t key;

	if (e1 < e2) {
		m1 = e2 - e1 > 60 ? 0 : m1 >> (e2 - e1);
		e1 = e2;
	} else {
		m2 = e1 - e2 > 60 ? 0 : m2 >> (e1 - e2);
	}
	sum = (one >> 31 ? -(int64_t)m1 : (int64_t)m1) + (other >> 31 ? -(int64_t)m2 : (int64_t)m2);
	sign = sum < 0 ? 0x80000000u : 0;
	m1 = sum < 0 ? (uint64_t)-sum : (uint64_t)sum;
	/* Half of the sum has its highest bit at 55 when it is normal with this exponent. */
	m1 >>= 1;
	for (; m1 != 0 && m1 < (uint64_t)1 << 55 && e1 > 1; e1--)
		m1 <<= 1;
	bits = (uint32_t)(m1 >> 32);
	/* The bit above the mantissa adds 1 to the exponent, which is intended. */
	bits += (uint32_t)(e1 - 1) << 23;
	key = linnet_float_key(m1 == 0 ? 0 : sign | bits);
	return linnet_key_bits(key < a || key >= b ? a : key);
}

static uint64_t squares(const uint32_t *counts, uint32_t classes)
{
	uint64_t sum = 0;

	for (uint32_t c = 0; c < classes; c++)
		sum += (uint64_t)counts[c] * counts[c];
	return sum;
}

/* Whether a split is better than the best so far. The products stay below 2^101. */
static int better(const struct split *split, const struct split *best)
{
	return best->denominator == 0 ||
	       split->numerator * best->denominator > best->numerator * split->denominator;
}

/* What a split of n rows gains, with the sum of the squares of their classes. */
static struct gain gain_of(const struct split *split, uint32_t n, uint64_t together)
{
	linnet_uint128 numerator = split->numerator * n - (linnet_uint128)together * split->denominator;
	struct gain gain = { .denominator = split->denominator * n };

	/* A division, of which a kernel has none for 128 bits. */
	for (int bit = 19; bit >= 0; bit--) {
		linnet_uint128 part = (linnet_uint128)gain.denominator << bit;

		if (numerator >= part) {
			numerator -= part;
			gain.whole |= (uint64_t)1 << bit;
		}
	}
	gain.rest = (uint64_t)numerator;
	return gain;
}

/* Whether the split of one leaf comes before that of another: the higher gain; of equal ones, the leaf further left. */
static int before(const struct growing *one, const struct growing *other)
{
	linnet_uint128 rest = (linnet_uint128)one->gain.rest * other->gain.denominator;
	linnet_uint128 others = (linnet_uint128)other->gain.rest * one->gain.denominator;

	if (one->gain.whole != other->gain.whole)
		return one->gain.whole > other->gain.whole;
	return rest != others ? rest > others : one->begin < other->begin;
}

static void count(const struct cart *cart, const struct growing *g, uint32_t *counts)
{
	linnet_zero(counts, cart->options->classes * sizeof(*counts));
	for (uint32_t i = g->begin; i < g->end; i++)
		counts[cart->classes[cart->order[i]]]++;
}

static void look(const struct cart *cart, const struct growing *g, uint32_t feature, struct split *best)
{
	uint32_t *order = cart->order + g->begin, n = g->end - g->begin, classes = cart->options->classes;
	uint64_t left = 0, right;

	sort(cart, order, n, feature);
	linnet_zero(cart->left, classes * sizeof(*cart->left));
	count(cart, g, cart->right);
	right = squares(cart->right, classes);
	for (uint32_t i = 0; i + 1 < n; i++) {
		uint32_t class = cart->classes[order[i]], rows = i + 1;
		int32_t a = key_of(cart, order[i], feature), b = key_of(cart, order[i + 1], feature);
		struct split split = { .feature = feature, .rows = rows };

		/* (l + 1)^2 - l^2 and r^2 - (r - 1)^2. */
		left += 2 * (uint64_t)cart->left[class]++ + 1;
		right -= 2 * (uint64_t)cart->right[class]-- - 1;
		if (a == b || rows < cart->options->leaf_rows || n - rows < cart->options->leaf_rows)
			continue;
		split.numerator = (linnet_uint128)left * (n - rows) + (linnet_uint128)right * rows;
		split.denominator = (uint64_t)rows * (n - rows);
		if (better(&split, best)) {
			split.word = midway(a, b);
			*best = split;
		}
	}
}

/* Fills a leaf, and leaves the rows of each class in cart->left. Returns 1 if it is pure. */
static int leaf(const struct cart *cart, struct growing *g)
{
	uint32_t most = 0, n = g->end - g->begin;

	count(cart, g, cart->left);
	for (uint32_t c = 1; c < cart->options->classes; c++)
		most = cart->left[c] > cart->left[most] ? c : most;
	g->node.word = (uint32_t)((uint64_t)cart->left[most] * 1000000 / n);
	g->node.feature = LINNET_TREE_LEAF;
	g->node.right = (uint16_t)most;
	return cart->left[most] == n;
}

/* Makes the next node of these rows, a leaf at first, and finds its best split where one can follow. */
static void make(struct cart *cart, uint32_t begin, uint32_t end, uint32_t depth)
{
	struct growing *g = &cart->nodes[cart->made++];
	struct split best = { .denominator = 0 };
	uint64_t together;

	*g = (struct growing){ .begin = begin, .end = end, .depth = depth };
	if (leaf(cart, g) || depth == cart->options->depth_max)
		return;
	together = squares(cart->left, cart->options->classes);
	for (uint32_t f = 0; f < cart->inputs; f++)
		look(cart, g, f, &best);
	if (best.denominator == 0)
		return;
	g->feature = best.feature;
	g->rows = best.rows;
	g->word = best.word;
	g->gain = gain_of(&best, end - begin, together);
}

/* The leaf to split next, or NULL. */
static struct growing *next(const struct cart *cart)
{
	struct growing *found = NULL;

	for (struct growing *g = cart->nodes; g < cart->nodes + cart->made; g++)
		if (g->gain.denominator != 0 && g->left == 0 && (!found || before(g, found)))
			found = g;
	return found;
}

static int check(const struct linnet_cart_options *o, const float *values, const uint8_t *classes, uint32_t rows,
		 uint32_t inputs)
{
	if (rows < 1 || rows > LINNET_CART_ROWS_MAX || inputs < 1 || inputs >= LINNET_TREE_LEAF)
		return LINNET_E_SHAPE;
	if (o->depth_max < 1 || o->depth_max > LINNET_TREE_DEPTH_MAX || o->leaf_rows < 1)
		return LINNET_E_SHAPE;
	if (o->nodes_max < 3 || o->nodes_max > LINNET_TREE_NODES_MAX)
		return LINNET_E_SHAPE;
	if (o->classes < 2 || o->classes > LINNET_TREE_CLASSES_MAX)
		return LINNET_E_SHAPE;
	for (uint32_t r = 0; r < rows; r++) {
		if (classes[r] >= o->classes)
			return LINNET_E_INPUT;
		for (uint32_t i = 0; i < inputs; i++)
			if ((linnet_float_bits(values + (size_t)r * inputs, i) & 0x7f800000) == 0x7f800000)
				return LINNET_E_INPUT;
	}
	return 0;
}

int linnet_cart_begin(const struct linnet_cart_options *options, const float *values, const uint8_t *classes,
		      uint32_t rows, uint32_t inputs, void *memory, size_t memory_size)
{
	struct cart *cart = memory;
	int error = check(options, values, classes, rows, inputs);

	if (error < 0)
		return error;
	if (((uintptr_t)memory & 7) != 0 || memory_size < linnet_cart_size(rows))
		return LINNET_E_MEMORY;
	*cart = (struct cart){ .options = options, .values = values, .classes = classes, .inputs = inputs };
	cart->nodes = (struct growing *)(void *)(cart + 1);
	cart->left = (uint32_t *)(void *)(cart->nodes + nodes_of(rows));
	cart->right = cart->left + LINNET_TREE_CLASSES_MAX;
	cart->order = cart->right + LINNET_TREE_CLASSES_MAX;
	for (uint32_t r = 0; r < rows; r++)
		cart->order[r] = r;
	make(cart, 0, rows, 0);
	return 0;
}

int linnet_cart_grow(void *memory)
{
	struct cart *cart = memory;
	struct growing *g;

	if (cart->made + 2 > cart->options->nodes_max || !(g = next(cart)))
		return 0;
	sort(cart, cart->order + g->begin, g->end - g->begin, g->feature);
	g->left = cart->made;
	make(cart, g->begin, g->begin + g->rows, g->depth + 1);
	make(cart, g->begin + g->rows, g->end, g->depth + 1);
	return 1;
}

/* Writes the nodes in pre-order. Children have higher numbers than their parents. */
int linnet_cart_end(void *memory, struct linnet_tree_node *nodes)
{
	const struct cart *cart = memory;
	struct growing *all = cart->nodes;
	uint32_t made = cart->made;

	for (uint32_t i = made; i-- > 0;)
		all[i].place = 1 + (all[i].left ? all[all[i].left].place + all[all[i].left + 1].place : 0);
	all[0].place = 0;
	for (uint32_t i = 0; i < made; i++) {
		struct growing *g = &all[i];

		if (g->left) {
			all[g->left + 1].place = g->place + 1 + all[g->left].place;
			all[g->left].place = g->place + 1;
			g->node.word = g->word;
			g->node.feature = (uint16_t)g->feature;
			g->node.right = (uint16_t)all[g->left + 1].place;
		}
		nodes[g->place] = g->node;
	}
	return (int)made;
}

/* Bindings in other languages mirror this. */
_Static_assert(sizeof(struct linnet_cart_options) == 16, "struct linnet_cart_options");
