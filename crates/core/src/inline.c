/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The inline functions of core/decide.h under names that can be linked. */
#include "linnet.h"

void linnet_linked_budget_earn(struct linnet_budget *budget, const struct linnet_rate *rate)
{
	linnet_budget_earn(budget, rate);
}

int linnet_linked_budget_take(struct linnet_budget *budget, const struct linnet_rate *rate)
{
	return linnet_budget_take(budget, rate);
}

void linnet_linked_hedge_earn(struct linnet_hedge *hedge, const struct linnet_settings *settings)
{
	linnet_hedge_earn(hedge, settings);
}

uint64_t linnet_linked_hedge_due(const struct linnet_hedge *hedge, uint64_t sent_ns)
{
	return linnet_hedge_due(hedge, sent_ns);
}

int linnet_linked_decides_nothing(const struct linnet_settings *settings, uint32_t usable, int may_revoke)
{
	return linnet_decides_nothing(settings, usable, may_revoke);
}
