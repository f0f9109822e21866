/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Checks the loops of incremental networks one by one (core/incremental.h), for every instruction set that is linked
 * and that this machine has: drawn networks of two layers, against sums that are computed plainly. Memory has any
 * content, and is of exactly the size that the core asks for.
 */
#include "drawn.h"
#include "incremental.h"

#define CHECK(condition) CHECK_IN(condition, "; network %u, loops %u\n", number, set)

#define NETWORKS 96
#define OUTPUTS_MAX 120

#pragma weak linnet_prune_avx2
#pragma weak linnet_prune_avx512
extern const struct linnet_prune linnet_prune_avx2, linnet_prune_avx512;

static const struct linnet_prune *sets[3];
static uint32_t number, set, set_count;

/* ---- the network that is drawn, and what the loops are to find ---- */

static struct {
	uint32_t outputs;
	int16_t weights[OUTPUTS_MAX][LINNET_DIGITS];
	int32_t last[2][OUTPUTS_MAX];
	int64_t biases[OUTPUTS_MAX], last_biases[2];
	uint8_t digits[LINNET_DIGITS]; /* of the history: the three of now are 0 */
	int64_t sums[OUTPUTS_MAX];     /* of the history */
} net;

static void draw_network(void)
{
	/* Sums fit 16 bits, then 21, then neither; small weights make sums of exactly 0. */
	static const int32_t first[] = { 1, 3, 90, 2500, 9000, 32767 }, last[] = { 1, 30000, 1 << 28 };
	int32_t weight = first[number % 6], gap = last[number / 6 % 3];
	uint32_t loud;

	net.outputs = 16 + (number < 48 ? number : below(OUTPUTS_MAX - 15));
	/* One output may be large among small ones, which then are not packed. */
	loud = number % 5 == 0 ? below(net.outputs) : OUTPUTS_MAX;
	for (uint32_t o = 0; o < net.outputs; o++) {
		for (uint32_t i = 0; i < LINNET_DIGITS; i++)
			net.weights[o][i] = (int16_t)within(o == loud ? 32767 : weight);
		net.biases[o] = within(20 * weight);
		for (uint32_t k = 0; k < 2; k++)
			net.last[k][o] = (int32_t)within(gap);
	}
	for (uint32_t k = 0; k < 2; k++)
		net.last_biases[k] = within((int64_t)gap << 20);
}

static void draw_history(void)
{
	for (uint32_t i = 0; i < LINNET_DIGITS; i++)
		net.digits[i] = (uint8_t)(below(3) ? below(10) : 9 * below(2));
	memset(net.digits + LINNET_NOW_AT, 0, 3);
	for (uint32_t o = 0; o < net.outputs; o++) {
		net.sums[o] = net.biases[o];
		for (uint32_t i = 0; i < LINNET_DIGITS; i++)
			net.sums[o] += net.weights[o][i] * net.digits[i];
	}
}

static int64_t sum_of(uint32_t o, const uint8_t *now)
{
	const int16_t *w = net.weights[o] + LINNET_NOW_AT;

	return net.sums[o] + w[0] * now[0] + w[1] * now[1] + w[2] * now[2];
}

static int64_t gap_of(uint32_t o)
{
	return (int64_t)net.last[1][o] - net.last[0][o];
}

static int64_t score_of(const uint8_t *now)
{
	int64_t score = net.last_biases[1] - net.last_biases[0];

	for (uint32_t o = 0; o < net.outputs; o++)
		if (sum_of(o, now) > 0)
			score += sum_of(o, now) * gap_of(o);
	return score;
}

/* The extremes of an output over tens and units. */
static void extremes(uint32_t o, uint8_t hundreds, int64_t *least, int64_t *most)
{
	for (uint32_t corner = 0; corner < 4; corner++) {
		int64_t sum = sum_of(o, (uint8_t[]){ hundreds, corner & 1 ? 9 : 0, corner & 2 ? 9 : 0 });

		*least = corner == 0 || sum < *least ? sum : *least;
		*most = corner == 0 || sum > *most ? sum : *most;
	}
}

/* ---- the checks, each for one precomputed history ---- */

static void check_lists(const struct linnet_tables *tables, const struct linnet_precomputed *pre, uint8_t hundreds)
{
	const int32_t *rest = linnet_precomputed_rest(pre, tables->lanes), *near = linnet_precomputed_near(pre, tables->lanes);
	const int32_t *gap = linnet_precomputed_gap(pre, tables->lanes);
	int64_t base = net.last_biases[1] - net.last_biases[0], tens = 0, units = 0;
	uint32_t n = 0;

	for (uint32_t o = 0; o < net.outputs; o++) {
		const int16_t *w = net.weights[o] + LINNET_NOW_AT;
		int64_t sum = sum_of(o, (uint8_t[]){ hundreds, 0, 0 }), least, most;

		extremes(o, hundreds, &least, &most);
		if (most > 0 && least >= 0) {
			base += gap_of(o) * sum;
			tens += gap_of(o) * w[1];
			units += gap_of(o) * w[2];
		} else if (most > 0) {
			CHECK(n < pre->count && rest[n] == sum && gap[n] == gap_of(o));
			CHECK((int16_t)(near[n] & 0xffff) == w[1] && near[n] >> 16 == w[2]);
			n++;
		}
	}
	CHECK(pre->count == n && pre->base == base && pre->tens == tens && pre->units == units);
	/* Loops that have no use for packed sums read lists by whole vectors. */
	for (uint32_t i = n; !tables->loops->pack && i < (n + 7) / 8 * 8; i++)
		CHECK(rest[i] == 0 && near[i] == 0 && gap[i] == 0);
}

static void check_bounds(const struct linnet_tables *tables, const struct linnet_precomputed *pre, uint8_t hundreds,
			 uint8_t tens)
{
	int64_t base = net.last_biases[1] - net.last_biases[0], units = 0, least = 0, most = 0, low, high;

	for (uint32_t o = 0; o < net.outputs; o++) {
		int64_t from = sum_of(o, (uint8_t[]){ hundreds, tens, 0 });
		int64_t to = sum_of(o, (uint8_t[]){ hundreds, tens, 9 }), lowest, highest, a, b;

		extremes(o, hundreds, &lowest, &highest);
		if (lowest >= 0) {
			base += gap_of(o) * from;
			units += gap_of(o) * (to - from);
			continue;
		}
		a = gap_of(o) * (from > 0 ? from : 0);
		b = gap_of(o) * (to > 0 ? to : 0);
		least += a < b ? a : b;
		most += a < b ? b : a;
	}
	tables->loops->bounds(tables, pre, tens, &low, &high);
	CHECK(low == base + least + (units < 0 ? units : 0) && high == base + most + (units < 0 ? 0 : units));
}

static void check_history(const struct linnet_tables *tables, int content)
{
	/* What linnet_tables_plan counts for it, before it rounds. */
	size_t lists = 3 * sizeof(int32_t) * ((size_t)tables->lanes + LINNET_REST_PAD);
	size_t sums = sizeof(struct linnet_precomputed) + sizeof(int32_t) * tables->lanes, size = sums + lists;
	struct linnet_precomputed *pre = room(size, content);
	int32_t *out = room(sizeof(int32_t) * tables->lanes, content);

	memcpy(pre->digits, net.digits, sizeof(net.digits));
	if (tables->packed) {
		tables->loops->pack(tables, pre);
		CHECK(untouched(pre, sizeof(*pre) + sizeof(uint64_t) * tables->words, size, content));
	} else {
		for (uint32_t o = 0; o < tables->lanes; o++)
			linnet_precomputed_sums(pre)[o] = o < net.outputs ? (int32_t)net.sums[o] : 0;
	}
	for (uint32_t draw = 0; draw < 3; draw++) {
		uint8_t hundreds = draw == 0 ? 0 : (uint8_t)(1 + below(9));

		pre->hundreds = hundreds;
		tables->loops->prune(tables, pre);
		check_lists(tables, pre, hundreds);
		for (uint8_t n = 0; n < 100; n++) {
			uint8_t now[] = { hundreds, n / 10, n % 10 };

			CHECK(tables->loops->near(tables, pre, now) == score_of(now));
		}
		for (uint8_t tens = 0; tens < 10; tens++)
			check_bounds(tables, pre, hundreds, tens);
		/* The hundreds may be others. */
		for (uint32_t n = 0; n < 1000; n += 1 + below(60)) {
			uint8_t now[] = { (uint8_t)(n / 100), n / 10 % 10, n % 10 };

			CHECK(tables->loops->far(tables, pre, now) == score_of(now));
			if (tables->packed)
				continue;
			tables->loops->add(tables, pre, now, out);
			for (uint32_t o = 0; o < tables->lanes; o++)
				CHECK(out[o] == (o < net.outputs ? sum_of(o, now) : 0));
		}
	}
	CHECK(untouched(pre, size, size, content));
	CHECK(untouched(out, sizeof(int32_t) * tables->lanes, sizeof(int32_t) * tables->lanes, content));
	free(out);
	free(pre);
}

static void check_network(uint32_t *packed)
{
	static int16_t first[OUTPUTS_MAX * LINNET_DIGITS];
	static int32_t last[2 * OUTPUTS_MAX];
	struct linnet_network network;
	struct linnet_tables tables;
	void *work, *memory, *shared;
	size_t work_size;

	draw_network();
	struct linnet_source layers[] = {
		{ LINNET_DIGITS, net.outputs, 2, (const uint8_t *)first, (const uint8_t *)net.biases },
		{ net.outputs, 2, 4, (const uint8_t *)last, (const uint8_t *)net.last_biases },
	};
	for (uint32_t o = 0; o < net.outputs; o++) {
		memcpy(first + o * LINNET_DIGITS, net.weights[o], sizeof(net.weights[o]));
		for (uint32_t k = 0; k < 2; k++)
			last[k * net.outputs + o] = net.last[k][o];
	}
	work_size = linnet_network_work_size(layers, 2);
	work = room(work_size, 0xff);
	CHECK(linnet_network_plan(&network, layers, 2, 9, work, work_size) == 0);
	memory = room(network.memory_size, 0xff);
	CHECK(linnet_network_place(&network, layers, memory, network.memory_size) == 0);
	for (uint32_t history = 0; history < 3; history++) {
		draw_history();
		for (set = 0; set < set_count; set++) {
			CHECK(linnet_tables_plan(&tables, &network, sets[set]) == 0);
			CHECK(tables.precompute == LINNET_PRECOMPUTE_PRUNED);
			/* What lies behind the tables would be an output that counts. */
			shared = room(tables.memory_size, 0xff);
			CHECK(linnet_tables_place(&tables, shared, tables.memory_size) == 0);
			CHECK(untouched(shared, tables.memory_size, tables.memory_size, 0xff));
			check_history(&tables, (int[]){ 0, 0xff, 0x5a }[history]);
			free(shared);
			packed[tables.pack_bits] += 1;
		}
	}
	free(memory);
	free(work);
}

int main(void)
{
	uint32_t packed[32] = { 0 };

	sets[set_count++] = &linnet_prune_portable;
	if (&linnet_prune_avx2 && has_avx2())
		sets[set_count++] = &linnet_prune_avx2;
	if (&linnet_prune_avx512 && has_avx512())
		sets[set_count++] = &linnet_prune_avx512;
	for (; number < NETWORKS; number++)
		check_network(packed);
	CHECK(packed[0] > 20 && packed[16] > 20 && packed[21] > 20);
	printf("%u networks: the loops of %u instruction sets find their sums\n", NETWORKS, set_count);
	return 0;
}
