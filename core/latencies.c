/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Predicts the latency of a read: a table of latency quantiles, indexed by the score of the trees and by one feature,
 * which the table names. The score says how likely the read is to be slow; the feature, usually one of the work ahead,
 * says how slow that would be. docs/design/quantiles.md has the accuracy and the alternatives that did worse.
 *
 * Both bins are found by binary search without branches that could be mispredicted: four steps and three.
 */
#include "blocks.h"

_Static_assert(LINNET_SCORE_BINS == 16 && LINNET_FEATURE_BINS == 8, "powers of two");
_Static_assert(sizeof(struct linnet_latencies) == 2628, "bindings in other languages mirror this");

int linnet_latencies_check(const struct linnet_latencies *latencies)
{
	if (latencies->feature >= LINNET_INFLIGHT_FEATURES)
		return LINNET_E_RANGE;
	for (int i = 1; i < LINNET_SCORE_BINS - 1; i++)
		if (latencies->score_edge[i] < latencies->score_edge[i - 1])
			return LINNET_E_RANGE;
	for (int i = 0; i < LINNET_FEATURE_BINS - 1; i++)
		if (latencies->feature_edge[i] > LINNET_BUCKET_MAX ||
		    (i > 0 && latencies->feature_edge[i] < latencies->feature_edge[i - 1]))
			return LINNET_E_RANGE;
	for (int s = 0; s < LINNET_SCORE_BINS; s++)
		for (int f = 0; f < LINNET_FEATURE_BINS; f++)
			for (int k = 0; k < LINNET_LATENCIES; k++)
				if ((k > 0 && latencies->ns[s][f][k] < latencies->ns[s][f][k - 1]) ||
				    (s > 0 && latencies->ns[s][f][k] < latencies->ns[s - 1][f][k]))
					return LINNET_E_RANGE;
	return 0;
}

const uint32_t *linnet_latencies_predict(const struct linnet_latencies *latencies, int32_t score,
					 const uint8_t features[LINNET_INFLIGHT_FEATURES])
{
	uint32_t value = features[latencies->feature], s = 0, f = 0;

	for (uint32_t step = LINNET_SCORE_BINS / 2; step; step /= 2)
		s += step & -(uint32_t)(score > latencies->score_edge[s + step - 1]);
	for (uint32_t step = LINNET_FEATURE_BINS / 2; step; step /= 2)
		f += step & -(uint32_t)(value > latencies->feature_edge[f + step - 1]);
	return latencies->ns[s][f];
}

/* Offsets in the block of a model file, and the bytes of one bin of scores. */
#define FEATURE (4 * (LINNET_SCORE_BINS - 1))
#define NS (FEATURE + LINNET_FEATURE_BINS)
#define ROW (4 * LINNET_FEATURE_BINS * LINNET_LATENCIES)
_Static_assert(NS + LINNET_SCORE_BINS * ROW == LINNET_LATENCIES_BLOCK, "spec/model-file.md");

int linnet_latencies_check_block(const uint8_t *file, size_t at, size_t *offset)
{
	for (size_t i = 4; i < FEATURE; i += 4)
		if ((int32_t)get32(file + at + i) < (int32_t)get32(file + at + i - 4))
			return refuse(offset, at + i, LINNET_E_FIELD);
	if (file[at + FEATURE] >= LINNET_INFLIGHT_FEATURES)
		return refuse(offset, at + FEATURE, LINNET_E_FIELD);
	for (size_t i = FEATURE + 1; i < NS; i++)
		if (file[at + i] > LINNET_BUCKET_MAX ||
		    (i > FEATURE + 1 && file[at + i] < file[at + i - 1]))
			return refuse(offset, at + i, LINNET_E_FIELD);
	for (size_t i = 0; i < LINNET_LATENCIES_BLOCK - NS; i += 4) {
		const uint8_t *own = file + at + NS + i;

		if ((i / 4 % LINNET_LATENCIES > 0 && get32(own) < get32(own - 4)) ||
		    (i >= ROW && get32(own) < get32(own - ROW)))
			return refuse(offset, at + NS + i, LINNET_E_FIELD);
	}
	return 0;
}

void linnet_latencies_read_block(struct linnet_latencies *latencies, const uint8_t *block)
{
	const uint8_t *ns = block + NS;

	for (int i = 0; i < LINNET_SCORE_BINS - 1; i++)
		latencies->score_edge[i] = (int32_t)get32(block + 4 * i);
	latencies->feature = block[FEATURE];
	linnet_copy(latencies->feature_edge, block + FEATURE + 1, sizeof(latencies->feature_edge));
	for (int s = 0; s < LINNET_SCORE_BINS; s++)
		for (int f = 0; f < LINNET_FEATURE_BINS; f++)
			for (int k = 0; k < LINNET_LATENCIES; k++, ns += 4)
				latencies->ns[s][f][k] = get32(ns);
}
