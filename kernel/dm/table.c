// SPDX-License-Identifier: GPL-2.0-only
/*
 * The words of a table line after the replicas (spec/dm-target.md): parses them, and prints their current state.
 */
#include "linnet-dm.h"

#define NAME_OF_POLICY(number, constant, name) " " name

enum {
	SEEN_POLICY = 1,
	SEEN_MODEL = 2,
	SEEN_REVOKE = 4,
	SEEN_IOPRIO = 8,
	SEEN_OFF = 16,
	SEEN_HEDGE = 32,
};

struct parse {
	struct linnet_dm *dm;
	struct dm_arg_set *args;
	u32 seen;       /* words that may occur once */
	u32 out;        /* legs that start out of service */
	u32 own_models; /* legs with their own model */
};

int linnet_parse_ioprio(const char *word, u16 *ioprio)
{
	u16 value;

	if (strncmp(word, "0x", 2) != 0 || kstrtou16(word, 16, &value))
		return -EINVAL;
	/*
	 * The class is in the upper three bits, the level in the lower three. Without a hint between them it is a
	 * priority that the kernel derives from nice values and schedulers, or that ionice sets: other programs' reads
	 * would be revoked.
	 */
	if (value >> 13 < 1 || value >> 13 > 3 || !(value & 0x1ff8))
		return -ERANGE;
	*ioprio = value;
	return 0;
}

int linnet_parse_percent(const char *word, u32 *percent)
{
	return kstrtou32(word, 10, percent) ?: *percent > 50 ? -EINVAL : 0;
}

static int refuse(struct parse *p, char *why)
{
	p->dm->ti->error = why;
	return -EINVAL;
}

static int take_policy(struct parse *p, const char *name)
{
	int policy = linnet_policy_of(name);

	if (policy < 0)
		return refuse(p, "Unknown policy: give one of" LINNET_POLICY_TABLE(NAME_OF_POLICY));
	p->dm->settings.policy = policy;
	return 0;
}

static int take_ioprio(struct parse *p, const char *word)
{
	switch (linnet_parse_ioprio(word, &p->dm->ioprio)) {
	case 0:
		return 0;
	case -ERANGE:
		return refuse(p, "This ioprio is no tag, since reads may have it by accident: give class 1 to 3 and a hint, such as 0x5004");
	}
	return refuse(p, "ioprio takes 0x and up to four hexadecimal digits");
}

/* The number after the colon of `word:<k>`. */
static int take_leg(struct parse *p, const char *number, u32 *k)
{
	if (kstrtou32(number, 10, k) || *k >= p->dm->leg_count)
		return refuse(p, "No replica of that number");
	return 0;
}

static int take_model(struct parse *p, const char *number, const char *name)
{
	u32 k;

	if (!linnet_model_name_ok(name))
		return refuse(p, "A model's name has at most 63 letters, digits and any of . _ - +, and begins with no dot");
	if (number) {
		if (take_leg(p, number, &k))
			return -EINVAL;
		if (p->own_models & BIT(k))
			return refuse(p, "An argument is given twice");
		p->own_models |= BIT(k);
		strscpy(p->dm->legs[k].model, name, LINNET_NAME_SIZE);
		return 0;
	}
	for (k = 0; k < p->dm->leg_count; k++)
		if (!(p->own_models & BIT(k)))
			strscpy(p->dm->legs[k].model, name, LINNET_NAME_SIZE);
	return 0;
}

static int take_hedge(struct parse *p, const char *percent)
{
	if (p->dm->leg_count < 2)
		return refuse(p, "hedge is for two replicas and more");
	if (linnet_parse_percent(percent, &p->dm->hedge_percent) || !p->dm->hedge_percent)
		return refuse(p, "hedge takes the percentage of extra reads, 1 to 50");
	return 0;
}

/* A word that may occur once. */
static int once(struct parse *p, u32 bit)
{
	if (p->seen & bit)
		return refuse(p, "An argument is given twice");
	p->seen |= bit;
	return 0;
}

/* The value of a word that requires one. */
static const char *value_of(struct parse *p)
{
	return p->args->argc ? dm_shift_arg(p->args) : "";
}

static int take_word(struct parse *p, const char *word)
{
	struct linnet_dm *dm = p->dm;
	u32 k;

	if (!strcmp(word, "policy"))
		return once(p, SEEN_POLICY) ?: take_policy(p, value_of(p));
	if (!strcmp(word, "model"))
		return once(p, SEEN_MODEL) ?: take_model(p, NULL, value_of(p));
	if (!strncmp(word, "model:", 6))
		return take_model(p, word + 6, value_of(p));
	if (!strcmp(word, "revoke")) {
		if (dm->volume)
			return refuse(p, "Above md no read is revoked: it goes through md");
		dm->revoke = true;
		return once(p, SEEN_REVOKE);
	}
	if (!strcmp(word, "ioprio"))
		return once(p, SEEN_IOPRIO) ?: take_ioprio(p, value_of(p));
	if (!strcmp(word, "hedge"))
		return once(p, SEEN_HEDGE) ?: take_hedge(p, value_of(p));
	if (!strcmp(word, "off")) {
		dm->settings.on = false;
		return once(p, SEEN_OFF);
	}
	if (!strncmp(word, "out:", 4)) {
		if (take_leg(p, word + 4, &k))
			return -EINVAL;
		if (p->out & BIT(k))
			return refuse(p, "An argument is given twice");
		p->out |= BIT(k);
		return 0;
	}
	if (!strcmp(word, "log"))
		return refuse(p, "The mirror of `log` is gone: a volume that is written stands above md (linnet dm create --md DRIVE...)");
	return refuse(p, "Unknown argument");
}

int linnet_table_parse(struct linnet_dm *dm, struct dm_arg_set *args)
{
	static const struct dm_arg words_arg = { 0, 255, "Invalid number of arguments" };
	struct parse p = { .dm = dm, .args = args };
	unsigned int words;
	int error;

	linnet_settings_init(&dm->settings);
	error = dm_read_arg_group(&words_arg, args, &words, &dm->ti->error);
	if (error)
		return error;
	if (words != args->argc)
		return refuse(&p, "The number of arguments is not what follows");
	while (args->argc) {
		error = take_word(&p, dm_shift_arg(args));
		if (error)
			return error;
	}
	if (dm->revoke && !dm->ioprio)
		return refuse(&p, "revoke needs the tag of the reads that may be revoked, such as ioprio 0x5004");
	if (!dm->volume && hweight32(p.out) == dm->leg_count)
		return refuse(&p, "No replica is in service");
	dm->failed = p.out;
	return 0;
}

static bool one_model(struct linnet_dm *dm)
{
	u32 k;

	for (k = 1; k < dm->leg_count; k++)
		if (strcmp(dm->legs[k].model, dm->legs[0].model))
			return false;
	return true;
}

void linnet_table_print(struct linnet_dm *dm, char *result, unsigned int maxlen)
{
	bool shared = one_model(dm), tagged = READ_ONCE(dm->ioprio);
	u32 out = READ_ONCE(dm->failed), hedge = READ_ONCE(dm->hedge_percent), words = 2, k;
	unsigned int sz = 0;

	lockdep_assert_held(&dm->control); /* for the names of the models */
	if (dm->volume)
		DMEMIT("md %s ", dm->volume->md->name);
	DMEMIT("%u", dm->leg_count);
	for (k = 0; k < dm->leg_count; k++) {
		DMEMIT(" %s %llu", linnet_leg_name(&dm->legs[k]), (unsigned long long)dm->legs[k].start);
		words += dm->legs[k].model[0] && (!shared || k == 0) ? 2 : 0;
	}
	words += 2 * (hedge != 0);
	words += READ_ONCE(dm->revoke) + 2 * tagged + !READ_ONCE(dm->settings.on) + hweight32(out);
	DMEMIT(" %u policy %s", words, linnet_policy_names[READ_ONCE(dm->settings.policy)]);
	if (shared && dm->legs[0].model[0])
		DMEMIT(" model %s", dm->legs[0].model);
	for (k = 0; !shared && k < dm->leg_count; k++)
		if (dm->legs[k].model[0])
			DMEMIT(" model:%u %s", k, dm->legs[k].model);
	if (READ_ONCE(dm->revoke))
		DMEMIT(" revoke");
	if (tagged)
		DMEMIT(" ioprio 0x%04x", READ_ONCE(dm->ioprio));
	if (!READ_ONCE(dm->settings.on))
		DMEMIT(" off");
	if (hedge)
		DMEMIT(" hedge %u", hedge);
	for (k = 0; k < dm->leg_count; k++)
		if (out & BIT(k))
			DMEMIT(" out:%u", k);
}
