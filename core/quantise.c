/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Rounds floats to integers (LinnOS, section 4.5: three decimals). With weights times s in every layer, the sums after
 * layer k are s^(k+1) times those of the float network, so the biases of layer k are multiplied by s^(k+1).
 */
#include "float.h"

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
		int64_t whole = (int64_t)x;
		double rest = x - (double)whole; /* exact: adding a half to x would not be */

		integers[i] = whole + (rest >= 0.5) - (rest <= -0.5);
	}
	return 0;
}
