/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Rounds floats to integers (LinnOS, section 4.5: three decimals). With weights times s in every layer, the sums after
 * layer k are s^(k+1) times those of the float network, so the biases of layer k are multiplied by s^(k+1).
 */
#include "train.h"

int linnet_quantise(const float *values, size_t count, double scale, int64_t *integers)
{
	const double limit = 9.2e18; /* below 2^63 */

	for (size_t i = 0; i < count; i++) {
		double x = (double)values[i] * scale;

		if (!(x > -limit && x < limit))
			return LINNET_E_RANGE;
	}
	for (size_t i = 0; i < count; i++) {
		double x = (double)values[i] * scale;

		/* Above 2^52 a double has no fraction, and adding a half could round it away. */
		if (x > -0x1p52 && x < 0x1p52)
			x += x < 0 ? -0.5 : 0.5;
		integers[i] = (int64_t)x;
	}
	return 0;
}
