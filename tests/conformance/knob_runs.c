// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Runs of the library of knobs whose every result goes into a hash: normaliser, training, inference, ring, sampler,
 * trees, induction, and the decisions on readahead. Two builds that print the same lines compute the same bits.
 */
#include "knobs.h"
#include <readahead.h>

#define STEPS 300

static uint64_t hash;
static uint32_t wrong;
static uint64_t state;

static void begin(void)
{
	hash = 0xcbf29ce484222325;
	state = 1;
}

static void mix(const void *data, size_t n)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ p[i]) * 0x100000001b3;
}

static void end(const char *name)
{
	printf("knob-run %s %016llx\n", name, (unsigned long long)hash);
}

static void must(int holds, const char *what)
{
	if (holds)
		return;
	wrong++;
	fprintf(stderr, "knob-run: %s\n", what);
}

static uint32_t draw(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33);
}

/* The bits of a float between 1/8 and 4, of either sign. */
static uint32_t number(void)
{
	uint32_t a = draw(), b = draw();

	return (a & 1) << 31 | (124 + a / 2 % 5) << 23 | (b & 0x7fffff);
}

static void *room(size_t n)
{
	void *memory = malloc(n);

	if (!memory) {
		perror("knob-run");
		exit(1);
	}
	memset(memory, 0, n);
	return memory;
}

static void normalisers(uint32_t memory, const char *name)
{
	struct linnet_moments moments[4];
	struct linnet_normaliser normaliser;
	uint32_t row[4], z[4];
	int error;

	begin();
	must(linnet_normaliser_init(&normaliser, 4, memory, moments) == 0, "a normaliser of four inputs");
	for (uint32_t r = 0; r < 1000; r++) {
		for (uint32_t i = 0; i < 3; i++)
			row[i] = number();
		row[3] = r == 500 ? 0x7fc00000 : 0x3dcccccd; /* NaN; 0.1 */
		FLOATS(error = linnet_normaliser_learn(&normaliser, (float *)row));
		must(error == (r == 500 ? LINNET_E_INPUT : 0), "a row with a NaN is refused, others are not");
		FLOATS(linnet_normaliser_apply(&normaliser, (float *)row, (float *)z));
		mix(z, sizeof(z));
	}
	mix(moments, sizeof(moments));
	must(normaliser.rows == 999 && normaliser.refused == 1, "rows of the normaliser");
	end(name);
}

struct run {
	const char *name;
	uint32_t loss;
	uint32_t inputs;
	uint32_t layer_count;
	struct linnet_float_shape layers[3];
};

static void training(const struct run *run)
{
	struct linnet_small_options options;
	struct linnet_small network;
	uint32_t row[16], target[16], out[16], loss, class_ = 0, share = 0, *values, *momentum, *scratch;
	int error;

	begin();
	must(linnet_small_plan(&network, run->inputs, run->layers, run->layer_count) == 0, "the shape of a network");
	values = room(4 * (size_t)network.value_count);
	momentum = room(4 * (size_t)network.value_count);
	scratch = room(4 * (size_t)network.train_floats);
	linnet_small_place(&network, (float *)values, (float *)momentum);
	FLOATS(linnet_small_start(&network, 7));
	FLOATS(linnet_small_options_of(&options, run->loss, 20000, 900000));
	FLOATS(error = linnet_small_check(&network, &options));
	must(error == 0, "the options of a network");
	for (uint32_t s = 0; s < STEPS; s++) {
		uint32_t of;

		for (uint32_t i = 0; i < run->inputs; i++)
			row[i] = number();
		of = (row[0] >> 31) % network.outputs;
		for (uint32_t o = 0; o < network.outputs; o++)
			target[o] = o == of ? 0x3f800000 : 0;
		/* A section for each step, as in a kernel. */
		FLOATS(error = linnet_small_train(&network, &options, (float *)row, (float *)target, (float *)scratch,
						  (float *)&loss));
		must(error == 0, "a step of training");
		mix(&loss, sizeof(loss));
	}
	mix(values, 4 * (size_t)network.value_count);
	mix(momentum, 4 * (size_t)network.value_count);
	for (uint32_t s = 0; s < STEPS; s++) {
		for (uint32_t i = 0; i < run->inputs; i++)
			row[i] = number();
		FLOATS(linnet_small_forward(&network, (float *)row, (float *)scratch, (float *)out));
		mix(out, 4 * (size_t)network.outputs);
		FLOATS(error = linnet_small_classify(&network, (float *)row, (float *)scratch, &class_, &share));
		must(error == 0, "a class");
		mix(&class_, sizeof(class_));
		mix(&share, sizeof(share));
	}
	row[0] = 0x7fc00000;
	FLOATS(error = linnet_small_train(&network, &options, (float *)row, (float *)target, (float *)scratch,
					  (float *)&loss));
	must(error == LINNET_E_RANGE, "a row with a NaN is not learned");
	free(values);
	free(momentum);
	free(scratch);
	end(run->name);
}

static const struct run runs[] = {
	{ "train-readahead-5-15-5-4", LINNET_SOFTMAX, 5, 3,
	  { { 15, LINNET_SIGMOID }, { 5, LINNET_SIGMOID }, { 4, LINNET_LINEAR } } },
	{ "train-softmax-8-13-4", LINNET_SOFTMAX, 8, 2, { { 13, LINNET_RELU }, { 4, LINNET_SOFTMAX_OUTPUT } } },
	{ "train-binary-6-9-3", LINNET_BINARY, 6, 2, { { 9, LINNET_SIGMOID }, { 3, LINNET_SIGMOID } } },
	{ "train-square-7-10-6-2", LINNET_SQUARE, 7, 3,
	  { { 10, LINNET_RELU }, { 6, LINNET_SIGMOID }, { 2, LINNET_LINEAR } } },
	{ "train-square-relu-5-8-3", LINNET_SQUARE, 5, 2, { { 8, LINNET_SIGMOID }, { 3, LINNET_RELU } } },
};

static void rings(void)
{
	uint64_t words[16 * 3], record[3];
	struct linnet_sampler sampler;
	struct linnet_ring ring;
	uint32_t put = 0, taken = 0;

	begin();
	must(linnet_ring_init(&ring, 16, 3, words, 16 * 3) == 0, "a ring of 16 records");
	must(linnet_sampler_init(&sampler, 250000, 3) == 0, "a sampler");
	for (uint32_t i = 0; i < 4000; i++) {
		record[0] = record[1] = record[2] = i;
		if (linnet_sampler_keep(&sampler) || draw() % 3)
			put += (uint32_t)linnet_ring_put(&ring, record);
		if (draw() % 2 && linnet_ring_take(&ring, record)) {
			taken++;
			mix(record, sizeof(record));
		}
	}
	while (linnet_ring_take(&ring, record))
		taken++;
	must(put == taken && ring.lost > 0, "what was put into the ring was taken");
	mix(&sampler.kept, sizeof(sampler.kept));
	mix(&ring.lost, sizeof(ring.lost));
	end("ring");
}

static void induction(void)
{
	const struct linnet_cart_options options = { .depth_max = 8, .leaf_rows = 2, .nodes_max = 127, .classes = 3 };
	uint32_t rows = 400, inputs = 4, *values = room(4 * (size_t)rows * inputs), at;
	struct linnet_tree_node *nodes = room(127 * sizeof(*nodes));
	uint8_t *classes = room(rows);
	void *memory = room(linnet_cart_size(rows));
	int count;

	begin();
	for (uint32_t i = 0; i < rows * inputs; i++)
		values[i] = number();
	for (uint32_t r = 0; r < rows; r++)
		classes[r] = (uint8_t)((values[r * inputs] >> 31) + (values[r * inputs + 2] >> 24 & 1));
	must(linnet_cart_begin(&options, (float *)values, classes, rows, inputs, memory, linnet_cart_size(rows)) == 0,
	     "rows for a tree");
	while (linnet_cart_grow(memory))
		;
	count = linnet_cart_end(memory, nodes);
	must(count > 3 && linnet_tree_check(nodes, (uint32_t)count, inputs, 3, &at) == 0, "a tree from rows");
	mix(nodes, (size_t)(count < 0 ? 0 : count) * sizeof(*nodes));
	for (uint32_t r = 0; r < rows && count > 0; r++) {
		const struct linnet_tree_node *leaf = linnet_tree_leaf(nodes, (float *)values + r * inputs);

		mix(leaf, sizeof(*leaf));
	}
	free(memory);
	free(classes);
	free(nodes);
	free(values);
	end("tree");
}

/* Every kind of event, near where the last ones were and far from it, in ranges of every size. */
static void reads_of_all_kinds(void)
{
	static struct linnet_reads reads;
	uint64_t streams[6] = { 0 };

	begin();
	for (uint32_t step = 0; step < 20000; step++) {
		uint64_t *at = &streams[draw() % 6], size = 1 + (uint64_t)(draw() % 4 ? draw() % 4 : draw() % 600);
		uint64_t far = (uint64_t)draw() << 31, back = size + draw() % 20, end;

		/* Beginning again with an empty state has the first events of each kind many times. */
		if (step % 500 == 0)
			memset(&reads, 0, sizeof(reads));
		if (draw() % 3 == 0)
			*at = reads.start + draw() % 48;
		else if (draw() % 8 == 0)
			*at = far >> draw() % 62;
		if (draw() % 16 == 0)
			*at -= *at < back ? *at : back;
		end = *at + size;
		switch (draw() % 5) {
		case 0:
		case 1:
			linnet_reads_read(&reads, *at, end);
			break;
		case 2:
			linnet_reads_fault(&reads, *at);
			break;
		case 3:
			linnet_reads_map(&reads, *at & ~15ull, (*at & ~15ull) + 16);
			break;
		default:
			linnet_reads_add(&reads, *at, end);
		}
		*at = end;
		mix(&reads, sizeof(reads));
	}
	end("reads");
}

/* Pages of demands that go backwards: each page once, and the gap between two only where faults leave it. */
static void reads_backwards(void)
{
	static struct linnet_reads reads;

	memset(&reads, 0, sizeof(reads));
	linnet_reads_read(&reads, 100, 104);
	linnet_reads_read(&reads, 90, 94);
	must(reads.counts.reverse == 1 && reads.counts.pages == 8, "a read before a gap demands its own pages");
	linnet_reads_read(&reads, 88, 92);
	must(reads.counts.reverse == 2 && reads.counts.pages == 10, "pages of the read before do not count again");
	linnet_reads_fault(&reads, 80);
	must(reads.counts.reverse == 3 && reads.counts.pages == 18, "pages between two faults are demanded");
}

/* A count of any size, now and then at an end of its range. */
static uint64_t count(void)
{
	uint64_t wide = (uint64_t)draw() << 33, less = draw() % 2;

	return draw() % 8 ? wide >> draw() % 64 : ((uint64_t)1 << draw() % 64) - less;
}

/* Windows of any counts, of few and of many reads: their sums, features, costs and verdicts. */
static void windows(void)
{
	struct linnet_counts window, more;
	struct linnet_readahead_verdict verdict = { 0 };
	struct linnet_pattern pattern;
	struct linnet_rule rule;
	uint32_t row[LINNET_READAHEAD_INPUTS + 1] = { 0 }, says;
	uint64_t *counts[2] = { &window.accesses, &more.accesses }, cost;

	begin();
	linnet_rule_init(&rule, 4);
	mix(&rule, 3 * sizeof(uint32_t));
	for (uint32_t step = 0; step < 4000; step++) {
		uint32_t n = sizeof(window) / sizeof(uint64_t), kind = draw() % 4, small = 1 + draw() % 40, price = draw();

		/* All of any size, all small, all small but for one. */
		for (uint32_t k = 0; k < 2; k++)
			for (uint32_t i = 0; i < n; i++)
				counts[k][i] = draw() % 4 == 0 ? 0 : kind == 0 ? count() : draw() % small;
		if (kind == 1) {
			uint64_t *large = &counts[0][draw() % n];

			*large = count();
		}
		linnet_counts_add(&window, &more);
		mix(&window, sizeof(window));
		linnet_pattern_of(&window, draw() % 4 != 0, &pattern);
		linnet_pattern_row(&pattern, row);
		cost = linnet_pattern_cost_q16(&pattern, price << draw() % 2);
		mix(&pattern, sizeof(pattern));
		mix(row, sizeof(*row) * LINNET_READAHEAD_INPUTS);
		must(row[LINNET_READAHEAD_INPUTS] == 0, "a row ends after its last number");
		mix(&cost, sizeof(cost));
		says = (uint32_t)linnet_rule_decide(&rule, &pattern, &verdict);
		mix(&says, sizeof(says));
		mix(&verdict, sizeof(verdict));
		says = draw() % 1000001;
		linnet_model_verdict(&rule, &pattern, linnet_readahead_ladder[draw() % LINNET_READAHEAD_LEVELS], says, &verdict);
		mix(&verdict, sizeof(verdict));
	}
	end("windows");
}

/* One governor's steps at every age of a window, with verdicts and costs at, just below and above each limit. */
static void changes(void)
{
	static const uint32_t sizes[] = { 0, 8, 64, 128, 256, 512 };
	static const uint32_t certain[] = { 0, 599999, 600000, 849999, 850000, 1000000 };
	static const uint64_t ages[] = { 0, 1, 400000000, 999999999, 1000000000, 3999999999, 4000000000, 31000000000 };
	static struct linnet_governor governor;
	struct linnet_readahead_verdict verdict;
	struct linnet_proposal proposal;
	struct linnet_pattern pattern = { 0 };
	uint64_t now = 0;

	begin();
	for (uint32_t step = 0; step < 20000; step++) {
		uint32_t kib = sizes[1 + draw() % 5], told = draw() % 8, what = draw() % 16;
		uint64_t age = ages[draw() % 8];

		/* Mostly a round time after the window began or the last change was made, so that limits are met exactly. */
		now = (draw() % 2 ? governor.began_ns : draw() % 2 ? governor.changed_at_ns : now) + age;
		if (step % 300 == 0) {
			now = 50000000000 + draw();
			linnet_governor_init(&governor, now, kib);
			governor.jump_pages_q16 = draw() % 2 ? governor.jump_pages_q16 : 0;
		}
		if (what == 0)
			linnet_governor_correct(&governor, kib);
		if (what == 1)
			linnet_governor_refused(&governor, now, ages[draw() % 8]);
		if (what == 2)
			now = governor.hold_until_ns;
		governor.window.accesses++;
		pattern.added = draw() % 4 ? 1000 : 31 + draw() % 2;
		/* Costs of 100, and a quarter more or a little more than that. */
		pattern.added_each_q16 = 100 + (draw() % 2 ? 25 + draw() % 2 : 0);
		pattern.batches_each_q16 = draw() % 3;
		verdict.reading = draw() % LINNET_READINGS;
		verdict.kib = sizes[draw() % 6];
		verdict.confidence_ppm = certain[draw() % 6];
		linnet_governor_step(&governor, now, &pattern, told ? &verdict : NULL, &proposal);
		mix(&governor, sizeof(governor));
		mix(&proposal, sizeof(proposal));
		/* A moment later, in which more was read. */
		now += draw() % 2;
		governor.window.accesses++;
		if (proposal.change != LINNET_CHANGE_NONE && draw() % 8)
			linnet_governor_changed(&governor, now, draw() % 8 ? proposal.to_kib : kib);
		mix(&governor, sizeof(governor));
	}
	end("changes");
}

/* A rollback that cannot be made is asked for again, where the change still costs more. */
static void refused_rollbacks(void)
{
	const uint64_t second = 1000000000;
	struct linnet_readahead_verdict verdict = { LINNET_READING_RUNS, 16, 990000 };

	for (uint32_t heals = 0; heals < 2; heals++) {
		static struct linnet_governor governor;
		struct linnet_pattern pattern = { .accesses = 1000, .added = 1000, .added_each_q16 = 65536 };
		struct linnet_proposal proposal;
		uint64_t asked = 0;

		linnet_governor_init(&governor, 0, 128);
		for (uint64_t now = second; now < 60 * second; now += second) {
			linnet_governor_step(&governor, now, &pattern, &verdict, &proposal);
			if (proposal.change == LINNET_CHANGE_DECISION)
				linnet_governor_changed(&governor, now, proposal.to_kib);
			if (proposal.change == LINNET_CHANGE_ROLLBACK)
				linnet_governor_refused(&governor, asked = now, 10 * second);
			pattern.added_each_q16 = now >= 20 * second && heals ? 65536 : 655360;
		}
		must(governor.current_kib == 16 && governor.hold_ns == LINNET_HOLD_NS, "a refusal is no rollback");
		must(asked == (heals ? 12 : 52) * second, "it is asked for as long as the change costs more");
		must(governor.has_cost == !heals, "what costs no more is judged");
		linnet_governor_step(&governor, 70 * second, &pattern, &verdict, &proposal);
		must(proposal.change == (heals ? LINNET_CHANGE_NONE : LINNET_CHANGE_ROLLBACK), "after the wait");
		if (heals)
			continue;
		must(proposal.to_kib == 128 && proposal.hold_ns == LINNET_HOLD_NS, "a rollback");
		linnet_governor_changed(&governor, 70 * second, proposal.to_kib);
		must(governor.hold_until_ns == 100 * second && governor.hold_ns == 2 * LINNET_HOLD_NS, "it is left alone");
		linnet_governor_step(&governor, 99 * second, &pattern, &verdict, &proposal);
		must(proposal.change == LINNET_CHANGE_NONE, "it is left alone");
	}
}

/* Reads of three kinds, their features, verdicts and changes. */
static void readahead(void)
{
	static struct linnet_reads reads;
	static struct linnet_governor governor;
	struct linnet_readahead_verdict verdict = { 0 };
	struct linnet_proposal proposal;
	struct linnet_pattern pattern;
	struct linnet_rule rule;
	uint32_t row[LINNET_READAHEAD_INPUTS], changes = 0;
	uint64_t now = 1, at = 0;

	begin();
	memset(&reads, 0, sizeof(reads));
	linnet_rule_init(&rule, 4);
	linnet_governor_init(&governor, now, 128);
	for (uint32_t step = 0; step < 600; step++) {
		uint32_t kind = step / 50 % 4, says;

		for (uint32_t i = 0; i < 64; i++) {
			at = kind == 0 || (kind == 1 && i % 8 == 0) ? draw() % 100000 : at + (kind == 3 ? -1ull : 1);
			at %= 1 << 20;
			if (draw() % 2)
				linnet_reads_read(&reads, at, at + 1);
			else
				linnet_reads_fault(&reads, at);
			linnet_reads_map(&reads, at & ~15ull, (at & ~15ull) + 16);
			linnet_reads_add(&reads, at, at + 1 + draw() % 8);
		}
		linnet_counts_add(&governor.window, &reads.counts);
		mix(&reads, sizeof(reads));
		memset(&reads.counts, 0, sizeof(reads.counts));
		linnet_pattern_of(&governor.window, step % 7 != 0, &pattern);
		linnet_pattern_row(&pattern, row);
		says = (uint32_t)linnet_rule_decide(&rule, &pattern, &verdict);
		if (step % 5 == 0)
			linnet_model_verdict(&rule, &pattern, linnet_readahead_ladder[step % 9], draw() % 1000000, &verdict);
		now += draw() % 700 * 1000000ull;
		linnet_governor_step(&governor, now, &pattern, says ? &verdict : NULL, &proposal);
		mix(row, sizeof(row));
		mix(&verdict, sizeof(verdict));
		mix(&proposal, sizeof(proposal));
		if (proposal.change != LINNET_CHANGE_NONE) {
			linnet_governor_changed(&governor, now, proposal.to_kib);
			changes++;
		}
	}
	mix(&governor, sizeof(governor));
	must(changes > 5, "changes of readahead");
	end("readahead");
}

unsigned knob_runs(void)
{
	wrong = 0;
	normalisers(0, "normaliser");
	normalisers(100, "normaliser-100");
	for (size_t r = 0; r < sizeof(runs) / sizeof(*runs); r++)
		training(&runs[r]);
	rings();
	induction();
	reads_of_all_kinds();
	reads_backwards();
	windows();
	changes();
	refused_rollbacks();
	readahead();
	return wrong;
}
