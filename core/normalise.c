/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * z-scores of a moving mean and standard deviation.
 *
 * Let d be the distance of a row from the mean and a the weight of the row. The mean moves by a d and the variance
 * becomes (1 - a) (variance + a d^2). For a = 1/n these are the mean and the variance of n rows, exactly Welford's
 * recurrence; for a constant a they are exponential averages. They are doubles so that updates still count after 2^32
 * rows and the square of a float cannot overflow: from moments as a file may hold them (knob.c), the variance stays
 * below 2^258.
 */
#include "float.h"
#include "tune.h"

union single {
	float value;
	uint32_t bits;
};

static int is_finite(float x)
{
	union single parts = { .value = x };

	return (parts.bits & 0x7f800000) != 0x7f800000;
}

static int is_nan(float x)
{
	union single parts = { .value = x };

	return (parts.bits & 0x7fffffff) > 0x7f800000;
}

int linnet_normaliser_init(struct linnet_normaliser *normaliser, uint32_t inputs, uint32_t memory,
			   struct linnet_moments *moments)
{
	if (inputs < 1 || inputs > LINNET_KNOB_INPUTS_MAX)
		return LINNET_E_SHAPE;
	linnet_zero(normaliser, sizeof(*normaliser));
	linnet_zero(moments, inputs * sizeof(*moments));
	normaliser->inputs = inputs;
	normaliser->memory = memory;
	normaliser->moments = moments;
	return 0;
}

int linnet_normaliser_learn(struct linnet_normaliser *normaliser, const float *row)
{
	uint64_t rows = normaliser->rows < LINNET_NORMALISER_ROWS_MAX ? normaliser->rows + 1 : LINNET_NORMALISER_ROWS_MAX;
	uint64_t n = rows;
	double a;

	for (uint32_t i = 0; i < normaliser->inputs; i++) {
		if (!is_finite(row[i])) {
			normaliser->refused++;
			return LINNET_E_INPUT;
		}
	}
	if (normaliser->memory != 0 && n > normaliser->memory)
		n = normaliser->memory;
	a = 1.0 / (double)(int64_t)n;
	for (uint32_t i = 0; i < normaliser->inputs; i++) {
		struct linnet_moments *own = &normaliser->moments[i];
		double d = (double)row[i] - own->mean;

		own->mean += a * d;
		own->variance = (1 - a) * (own->variance + a * d * d);
	}
	normaliser->rows = rows;
	return 0;
}

void linnet_normaliser_apply(const struct linnet_normaliser *normaliser, const float *row, float *z)
{
	for (uint32_t i = 0; i < normaliser->inputs; i++) {
		const struct linnet_moments *own = &normaliser->moments[i];
		double deviation = __builtin_sqrt(own->variance), size = own->mean < 0 ? -own->mean : own->mean;
		double score;

		/* Rounding gives a constant feature a tiny variance, which is treated as no spread. */
		if (is_nan(row[i]) || !(deviation > 1e-9 * size)) {
			z[i] = 0;
			continue;
		}
		score = ((double)row[i] - own->mean) / deviation;
		if (score > LINNET_Z_MAX)
			score = LINNET_Z_MAX;
		if (score < -LINNET_Z_MAX)
			score = -LINNET_Z_MAX;
		z[i] = (float)score;
	}
}

/* Bindings in other languages mirror these. */
_Static_assert(sizeof(struct linnet_moments) == 16, "struct linnet_moments");
_Static_assert(sizeof(struct linnet_normaliser) == 32, "struct linnet_normaliser");
