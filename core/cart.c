/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Induction of a classification tree by the Gini index. Everything is exact: values are compared as integers of the
 * same order, splits as fractions, so a tree depends on its rows only, not on their order, the compiler or the machine.
 *
 * A node's rows are a segment of `order`. For each feature the segment is sorted, and a split is tried between every
 * two values that differ. With class counts l on the left and r on the right, the impurity is lowest where sum(l^2) /
 * rows left + sum(r^2) / rows right is highest. Like scikit-learn, a node that is not pure is split even if the split
 * gains nothing: two such splits together may gain much, as for an exclusive or.
 */
#include "tree.h"

/* A node that has not been created yet. */
struct segment {
	uint32_t begin;
	uint32_t end;
	uint32_t parent; /* UINT32_MAX, or the node whose right child this is */
	uint32_t depth;
};

struct cart {
	const struct linnet_cart_options *options;
	const float *values;
	const uint8_t *classes;
	uint32_t inputs;
	uint32_t *order;
	uint32_t *left;  /* rows of each class left of a split */
	uint32_t *right;
	struct segment *waiting;
};

struct split {
	uint32_t feature;
	uint32_t rows; /* left */
	uint32_t word;
	linnet_uint128 numerator; /* of the sum above; below 2^61 */
	uint64_t denominator;     /* below 2^40; 0 for no split */
};

size_t linnet_cart_size(uint32_t rows)
{
	return sizeof(struct segment) * (LINNET_TREE_DEPTH_MAX + 1) +
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

static void count(const struct cart *cart, const struct segment *s, uint32_t *counts)
{
	linnet_zero(counts, cart->options->classes * sizeof(*counts));
	for (uint32_t i = s->begin; i < s->end; i++)
		counts[cart->classes[cart->order[i]]]++;
}

static void look(const struct cart *cart, const struct segment *s, uint32_t feature, struct split *best)
{
	uint32_t *order = cart->order + s->begin, n = s->end - s->begin, classes = cart->options->classes;
	uint64_t left = 0, right;

	sort(cart, order, n, feature);
	linnet_zero(cart->left, classes * sizeof(*cart->left));
	count(cart, s, cart->right);
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

/* Fills a leaf. Returns 1 if it is pure. */
static int leaf(const struct cart *cart, const struct segment *s, struct linnet_tree_node *node)
{
	uint32_t most = 0, n = s->end - s->begin;

	count(cart, s, cart->left);
	for (uint32_t c = 1; c < cart->options->classes; c++)
		most = cart->left[c] > cart->left[most] ? c : most;
	node->word = (uint32_t)((uint64_t)cart->left[most] * 1000000 / n);
	node->feature = LINNET_TREE_LEAF;
	node->right = (uint16_t)most;
	return cart->left[most] == n;
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

int linnet_cart_fit(const struct linnet_cart_options *options, const float *values, const uint8_t *classes,
		    uint32_t rows, uint32_t inputs, void *memory, size_t memory_size, struct linnet_tree_node *nodes)
{
	struct cart cart = { .options = options, .values = values, .classes = classes, .inputs = inputs };
	uint32_t waiting = 1, made = 0;
	int error = check(options, values, classes, rows, inputs);

	if (error < 0)
		return error;
	if (((uintptr_t)memory & 7) != 0 || memory_size < linnet_cart_size(rows))
		return LINNET_E_MEMORY;
	cart.waiting = memory;
	cart.left = (uint32_t *)(void *)(cart.waiting + LINNET_TREE_DEPTH_MAX + 1);
	cart.right = cart.left + LINNET_TREE_CLASSES_MAX;
	cart.order = cart.right + LINNET_TREE_CLASSES_MAX;
	for (uint32_t r = 0; r < rows; r++)
		cart.order[r] = r;
	cart.waiting[0] = (struct segment){ .begin = 0, .end = rows, .parent = UINT32_MAX };
	while (waiting > 0) {
		struct segment s = cart.waiting[--waiting];
		struct linnet_tree_node *node = &nodes[made];
		struct split best = { .denominator = 0 };

		if (s.parent != UINT32_MAX)
			nodes[s.parent].right = (uint16_t)made;
		made++;
		/* Every waiting segment still needs one node, and a split needs two more. */
		if (leaf(&cart, &s, node) || s.depth == options->depth_max ||
		    made + waiting + 2 > options->nodes_max)
			continue;
		for (uint32_t f = 0; f < inputs; f++)
			look(&cart, &s, f, &best);
		if (best.denominator == 0)
			continue;
		sort(&cart, cart.order + s.begin, s.end - s.begin, best.feature);
		node->word = best.word;
		node->feature = (uint16_t)best.feature;
		cart.waiting[waiting++] = (struct segment){ .begin = s.begin + best.rows, .end = s.end,
						     .parent = made - 1, .depth = s.depth + 1 };
		cart.waiting[waiting++] = (struct segment){ .begin = s.begin, .end = s.begin + best.rows,
						     .parent = UINT32_MAX, .depth = s.depth + 1 };
	}
	return (int)made;
}

/* Bindings in other languages mirror this. */
_Static_assert(sizeof(struct linnet_cart_options) == 16, "struct linnet_cart_options");
