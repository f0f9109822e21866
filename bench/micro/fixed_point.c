// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Floats or fixed point for a knob's network? The readahead network's forward pass, both ways, and what a kernel pays
 * to use its FPU: the state of the FPU saved and restored. docs/design/tune-library.md has the result.
 *
 *   cd bench/micro && gcc -O3 -ffp-contract=off -fno-math-errno -I../../core fixed_point.c ../../core/small.c -lm -o /tmp/f && /tmp/f
 *
 * The fixed-point side is compiled as a kernel compiles it, without vectors: that is the point of it.
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tune.h"

#define ROWS 4096
#define BLOCKS 301
#define ONE 65536 /* 16.16 */
#define GENERAL __attribute__((target("general-regs-only"), noinline))

static const int sizes[4] = { 5, 15, 5, 4 };
static int32_t fixed_values[194], table[1025]; /* sigmoid of -8..8 */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static GENERAL int32_t fixed_sigmoid(int64_t x)
{
	int64_t at = x + 8 * ONE, step = 16 * ONE / 1024;

	if (at <= 0)
		return 0;
	if (at >= 16 * ONE)
		return ONE;
	return (int32_t)(table[at / step] + (table[at / step + 1] - table[at / step]) * (at % step) / step);
}

/* Weights by output, then biases. 64-bit sums, one shift per output. */
static GENERAL void fixed_forward(const int32_t *row, int32_t *out)
{
	const int32_t *value = fixed_values;
	int32_t in[15], next[15];

	for (int i = 0; i < 5; i++)
		in[i] = row[i];
	for (int k = 0; k < 3; k++) {
		int m = sizes[k], n = sizes[k + 1];

		for (int o = 0; o < n; o++) {
			int64_t sum = (int64_t)value[m * n + o] * ONE;

			for (int i = 0; i < m; i++)
				sum += (int64_t)value[o * m + i] * in[i];
			next[o] = k < 2 ? fixed_sigmoid(sum >> 16) : (int32_t)(sum >> 16);
		}
		value += (m + 1) * n;
		for (int o = 0; o < n; o++)
			in[o] = next[o];
	}
	for (int o = 0; o < 4; o++)
		out[o] = in[o];
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int largest_float(const float *x)
{
	int at = 0;

	for (int o = 1; o < 4; o++)
		at = x[o] > x[at] ? o : at;
	return at;
}

static int largest_fixed(const int32_t *x)
{
	int at = 0;

	for (int o = 1; o < 4; o++)
		at = x[o] > x[at] ? o : at;
	return at;
}

static float gauss(void)
{
	double u = (rand() + 1.0) / (RAND_MAX + 2.0), v = rand() / (RAND_MAX + 1.0);

	return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

static struct linnet_small network;
static float rows[ROWS][5], out_float[4];
static int32_t fixed_rows[ROWS][5], out_fixed[4];
static float scratch[64];

static void run_float(int r)
{
	linnet_small_forward(&network, rows[r], scratch, out_float);
}

static void run_fixed(int r)
{
	fixed_forward(fixed_rows[r], out_fixed);
}

#ifdef __x86_64__
static _Alignas(64) unsigned char state[16384];

/* What kernel_fpu_begin does where the FPU holds a user's state, and what the way back to that user does. */
static void run_save(int r)
{
	(void)r;
	__asm__ volatile("xsave64 %0\n\txrstor64 %0" : "+m"(state) : "a"(0xffffffff), "d"(0xffffffff) : "memory");
}
#endif

static double median_ns(void (*call)(int))
{
	static double times[BLOCKS];

	for (int b = 0; b < BLOCKS; b++) {
		uint64_t begun = now_ns();

		for (int k = 0; k < ROWS; k++)
			call((k * (2 * b + 1)) % ROWS);
		times[b] = (double)(now_ns() - begun) / ROWS;
	}
	qsort(times, BLOCKS, sizeof(*times), by_size);
	return times[BLOCKS / 2];
}

int main(void)
{
	const struct linnet_float_shape shape[3] = { { 15, LINNET_SIGMOID }, { 5, LINNET_SIGMOID }, { 4, LINNET_LINEAR } };
	static float values[194];
	int32_t *fixed = fixed_values;
	int same = 0;
	double worst = 0;

	linnet_small_plan(&network, 5, shape, 3);
	linnet_small_place(&network, values, NULL);
	for (int i = 0; i <= 1024; i++)
		table[i] = (int32_t)lrint(ONE / (1 + exp(8 - i / 64.0)));
	for (uint32_t k = 0; k < 3; k++) {
		int m = sizes[k], n = sizes[k + 1];
		float weights[75], biases[15];

		/* Weights as large as those of KML's trained network. */
		for (int w = 0; w < m * n; w++)
			*fixed++ = (int32_t)lrintf((weights[w] = 6 * gauss()) * ONE);
		for (int o = 0; o < n; o++)
			*fixed++ = (int32_t)lrintf((biases[o] = 6 * gauss()) * ONE);
		linnet_small_set(&network, k, weights, biases);
	}
	for (int r = 0; r < ROWS; r++)
		for (int i = 0; i < 5; i++)
			fixed_rows[r][i] = (int32_t)lrintf((rows[r][i] = gauss()) * ONE);
	for (int r = 0; r < ROWS; r++) {
		run_float(r);
		run_fixed(r);
		same += largest_float(out_float) == largest_fixed(out_fixed);
		for (int o = 0; o < 4; o++)
			worst = fmax(worst, fabs(out_float[o] - out_fixed[o] / 65536.0));
	}
	printf("forward, floats in vectors of four:            %6.1f ns\n", median_ns(run_float));
	printf("forward, 16.16 in general registers:           %6.1f ns\n", median_ns(run_fixed));
#ifdef __x86_64__
	printf("FPU state saved and restored:                  %6.1f ns\n", median_ns(run_save));
#endif
	printf("the same class in %d of %d rows, outputs differ by %.4f at most\n", same, ROWS, worst);
	return 0;
}
