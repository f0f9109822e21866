// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A plain re-implementation of the data path that KML's authors describe and publish, for comparison with the library
 * of knobs: each matrix is a heap object, every operation creates one, layers form a linked list, and the exponential
 * is a power of e by repeated squaring times a Taylor series. No code is copied. For the bench only.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct matrix {
	int rows, columns;
	float *value;
};

struct layer {
	struct matrix *weights, *biases; /* outputs x inputs, 1 x outputs; NULL: a sigmoid */
	struct matrix *weight_speed, *bias_speed;
	struct matrix *input;            /* kept for the backward pass */
	struct matrix *output;
	struct layer *next, *before;
};

struct peer {
	struct layer *first, *last;
	uint64_t allocations, live_bytes, peak_bytes;
};

static struct peer *counted;

static void *take(size_t size)
{
	uint64_t *memory = malloc(size + 16);

	if (!memory)
		abort();
	memory[0] = size;
	counted->allocations++;
	counted->live_bytes += size;
	if (counted->live_bytes > counted->peak_bytes)
		counted->peak_bytes = counted->live_bytes;
	return memory + 2;
}

static void give(void *at)
{
	uint64_t *memory = (uint64_t *)at - 2;

	counted->live_bytes -= memory[0];
	free(memory);
}

static struct matrix *new_matrix(int rows, int columns)
{
	struct matrix *m = take(sizeof(*m));

	m->rows = rows;
	m->columns = columns;
	m->value = take(sizeof(float) * (size_t)(rows * columns));
	return m;
}

static void drop(struct matrix *m)
{
	if (!m)
		return;
	give(m->value);
	give(m);
}

static struct matrix *copy(const struct matrix *a)
{
	struct matrix *m = new_matrix(a->rows, a->columns);

	memcpy(m->value, a->value, sizeof(float) * (size_t)(a->rows * a->columns));
	return m;
}

static struct matrix *transposed(const struct matrix *a)
{
	struct matrix *m = new_matrix(a->columns, a->rows);

	for (int r = 0; r < a->rows; r++)
		for (int c = 0; c < a->columns; c++)
			m->value[c * a->rows + r] = a->value[r * a->columns + c];
	return m;
}

static struct matrix *product(const struct matrix *a, const struct matrix *b)
{
	struct matrix *m = new_matrix(a->rows, b->columns);

	for (int r = 0; r < a->rows; r++)
		for (int c = 0; c < b->columns; c++) {
			float sum = 0;

			for (int k = 0; k < a->columns; k++)
				sum += a->value[r * a->columns + k] * b->value[k * b->columns + c];
			m->value[r * b->columns + c] = sum;
		}
	return m;
}

/* a + factor * b, computed via factor * b. */
static struct matrix *sum(const struct matrix *a, const struct matrix *b, float factor)
{
	struct matrix *scaled = copy(b), *m = new_matrix(a->rows, a->columns);

	for (int i = 0; i < a->rows * a->columns; i++)
		scaled->value[i] *= factor;
	for (int i = 0; i < a->rows * a->columns; i++)
		m->value[i] = a->value[i] + scaled->value[i];
	drop(scaled);
	return m;
}

static struct matrix *map(const struct matrix *a, float (*function)(float))
{
	struct matrix *m = new_matrix(a->rows, a->columns);

	for (int i = 0; i < a->rows * a->columns; i++)
		m->value[i] = function(a->value[i]);
	return m;
}

static float power(float base, int exponent)
{
	float result = 1;

	for (; exponent > 0; exponent >>= 1, base *= base)
		if (exponent & 1)
			result *= base;
	return result;
}

static float exponential(float x)
{
	float size = x < 0 ? -x : x, rest, term = 1, series = 1, result;
	int whole = size > 87 ? 87 : (int)size;

	rest = size - (float)whole;
	for (int k = 1; k < 10; k++) {
		term *= rest / (float)k;
		series += term;
	}
	result = power(2.71828183f, whole) * series;
	return x < 0 ? 1 / result : result;
}

static float sigmoid(float x)
{
	return 1 / (1 + exponential(-x));
}

static float slope(float y)
{
	return y * (1 - y);
}

static void append(struct peer *peer, struct matrix *weights, struct matrix *biases)
{
	struct layer *layer = take(sizeof(*layer));

	memset(layer, 0, sizeof(*layer));
	layer->weights = weights;
	layer->biases = biases;
	if (weights) {
		layer->weight_speed = new_matrix(weights->rows, weights->columns);
		layer->bias_speed = new_matrix(1, weights->rows);
		memset(layer->weight_speed->value, 0, sizeof(float) * (size_t)(weights->rows * weights->columns));
		memset(layer->bias_speed->value, 0, sizeof(float) * (size_t)weights->rows);
	}
	layer->before = peer->last;
	if (peer->last)
		peer->last->next = layer;
	else
		peer->first = layer;
	peer->last = layer;
}

/*
 * A network of sizes[0] - sizes[1] - ..., with sigmoids between; `values` as outputs x inputs, then biases, per layer.
 */
struct peer *linnet_peer_new(const int *sizes, int count, const float *values)
{
	struct peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		abort();
	counted = peer;
	for (int k = 0; k + 1 < count; k++) {
		struct matrix *weights = new_matrix(sizes[k + 1], sizes[k]), *biases = new_matrix(1, sizes[k + 1]);

		memcpy(weights->value, values, sizeof(float) * (size_t)(sizes[k] * sizes[k + 1]));
		values += sizes[k] * sizes[k + 1];
		memcpy(biases->value, values, sizeof(float) * (size_t)sizes[k + 1]);
		values += sizes[k + 1];
		append(peer, weights, biases);
		if (k + 2 < count)
			append(peer, NULL, NULL);
	}
	return peer;
}

void linnet_peer_free(struct peer *peer)
{
	counted = peer;
	for (struct layer *layer = peer->first, *next; layer; layer = next) {
		next = layer->next;
		drop(layer->weights);
		drop(layer->biases);
		drop(layer->weight_speed);
		drop(layer->bias_speed);
		drop(layer->input);
		drop(layer->output);
		give(layer);
	}
	free(peer);
}

uint64_t linnet_peer_allocations(const struct peer *peer)
{
	return peer->allocations;
}

uint64_t linnet_peer_bytes(const struct peer *peer)
{
	return peer->peak_bytes;
}

static struct matrix *run(struct peer *peer, const float *row)
{
	struct matrix *x;

	counted = peer;
	x = new_matrix(1, peer->first->weights->columns);
	memcpy(x->value, row, sizeof(float) * (size_t)x->columns);
	for (struct layer *layer = peer->first; layer; layer = layer->next) {
		struct matrix *y;

		if (layer->weights) {
			struct matrix *weights = transposed(layer->weights), *z = product(x, weights);
			struct matrix *biases = copy(layer->biases); /* one row of them for each row of the batch */

			y = sum(z, biases, 1);
			drop(weights);
			drop(z);
			drop(biases);
		} else {
			y = map(x, sigmoid);
		}
		drop(layer->input);
		drop(layer->output);
		layer->input = x;
		layer->output = copy(y);
		x = y;
	}
	return x;
}

void linnet_peer_forward(struct peer *peer, const float *row, float *out)
{
	struct matrix *y = run(peer, row);

	memcpy(out, y->value, sizeof(float) * (size_t)y->columns);
	drop(y);
}

static void replace(struct matrix **old, struct matrix *new_)
{
	drop(*old);
	*old = new_;
}

void linnet_peer_train(struct peer *peer, const float *row, int class_, float rate, float momentum)
{
	struct matrix *y = run(peer, row), *shares = map(y, exponential), *delta = copy(shares);
	float total = 0;

	for (int c = 0; c < y->columns; c++)
		total += shares->value[c];
	for (int c = 0; c < y->columns; c++)
		delta->value[c] = shares->value[c] / total - (float)(c == class_);
	drop(y);
	drop(shares);
	for (struct layer *layer = peer->last; layer; layer = layer->before) {
		struct matrix *back;

		if (layer->weights) {
			struct matrix *column = transposed(delta), *gradient = product(column, layer->input);

			back = product(delta, layer->weights);
			/* v = momentum v + g; w -= rate v. */
			replace(&layer->weight_speed, sum(gradient, layer->weight_speed, momentum));
			replace(&layer->bias_speed, sum(delta, layer->bias_speed, momentum));
			replace(&layer->weights, sum(layer->weights, layer->weight_speed, -rate));
			replace(&layer->biases, sum(layer->biases, layer->bias_speed, -rate));
			drop(column);
			drop(gradient);
		} else {
			struct matrix *slopes = map(layer->output, slope);

			back = new_matrix(delta->rows, delta->columns);
			for (int c = 0; c < delta->columns; c++)
				back->value[c] = delta->value[c] * slopes->value[c];
			drop(slopes);
		}
		drop(delta);
		delta = back;
	}
	drop(delta);
}

/* ---- a tree of nodes that are heap objects ---- */

struct node {
	int feature, class_;
	float threshold;
	struct node *left, *right;
};

/* `nodes`: threshold bits, feature (65535: leaf), right child or class, in pre-order. */
struct node *linnet_peer_tree(const uint32_t *words, const uint16_t *features, const uint16_t *rights, uint32_t at)
{
	struct node *node = malloc(sizeof(*node));

	if (!node)
		abort();
	*node = (struct node){ .feature = features[at] == 0xffff ? -1 : features[at], .class_ = rights[at] };
	memcpy(&node->threshold, &words[at], sizeof(float));
	if (node->feature >= 0) {
		node->left = linnet_peer_tree(words, features, rights, at + 1);
		node->right = linnet_peer_tree(words, features, rights, rights[at]);
	}
	return node;
}

int linnet_peer_tree_predict(const struct node *node, const float *row)
{
	while (node->feature >= 0)
		node = row[node->feature] <= node->threshold ? node->left : node->right;
	return node->class_;
}

void linnet_peer_tree_free(struct node *node)
{
	if (node->feature >= 0) {
		linnet_peer_tree_free(node->left);
		linnet_peer_tree_free(node->right);
	}
	free(node);
}

/* ---- a ring of slots with a flag each, claimed by compare-and-swap ---- */

#define SLOTS 32
#define RECORD 4 /* words */

struct slots {
	uint64_t put, taken, waiting;
	int full[SLOTS];
	uint64_t *slot[SLOTS];
};

struct slots *linnet_peer_ring(void)
{
	struct slots *ring = calloc(1, sizeof(*ring));

	if (!ring)
		abort();
	for (int s = 0; s < SLOTS; s++)
		ring->slot[s] = calloc(RECORD, sizeof(uint64_t));
	return ring;
}

void linnet_peer_ring_free(struct slots *ring)
{
	for (int s = 0; s < SLOTS; s++)
		free(ring->slot[s]);
	free(ring);
}

/* One record in and out. */
void linnet_peer_ring_turn(struct slots *ring, const uint64_t *in, uint64_t *out)
{
	int empty = 0, full = 1;
	uint64_t at = __atomic_fetch_add(&ring->put, 1, __ATOMIC_SEQ_CST) % SLOTS;

	memcpy(ring->slot[at], in, RECORD * sizeof(uint64_t));
	while (!__atomic_compare_exchange_n(&ring->full[at], &empty, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		empty = 0;
	__atomic_fetch_add(&ring->waiting, 1, __ATOMIC_SEQ_CST);
	at = __atomic_fetch_add(&ring->taken, 1, __ATOMIC_SEQ_CST) % SLOTS;
	while (!__atomic_compare_exchange_n(&ring->full[at], &full, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		full = 1;
	memcpy(out, ring->slot[at], RECORD * sizeof(uint64_t));
	__atomic_fetch_sub(&ring->waiting, 1, __ATOMIC_SEQ_CST);
}
