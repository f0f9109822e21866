/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The decision on one read, spec/decision.md.
 *
 * Where there is no choice, the read is submitted without asking the model, and that is counted apart: there is no
 * model, or no other replica could serve the read, or the budget of revokes is spent.
 *
 * Otherwise the network scores the read's features. A score above zero says slow: revoke. Zero is a tie, and a tie
 * submits. A network that cannot score these features is as good as none: the read is submitted.
 */
#include "linnet.h"

int linnet_decide(const struct linnet_network *network, const uint8_t *features, void *scratch,
		  uint32_t others, uint32_t budget)
{
	int64_t score;

	if (!network || others == 0 || budget == 0)
		return LINNET_FORCED_SUBMIT;
	if (linnet_network_score(network, features, scratch, &score) < 0)
		return LINNET_FORCED_SUBMIT;
	return score > 0 ? LINNET_REVOKE : LINNET_SUBMIT;
}
