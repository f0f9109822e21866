// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages change settings under load. Each has up to two words after its name. They are handled one at a time.
 */
#include <linux/sched/mm.h>

#include "linnet-dm.h"

/* The leg of this number, or NULL. */
static struct linnet_leg *leg_of(struct linnet_dm *dm, const char *number)
{
	u32 k;

	if (kstrtou32(number, 10, &k) || k >= dm->leg_count)
		return NULL;
	return &dm->legs[k];
}

static int set_policy(struct linnet_dm *dm, const char *name)
{
	int policy = linnet_policy_of(name);

	if (policy < 0)
		return -EINVAL;
	return linnet_models_fit(dm, policy, dm->revoke);
}

/* `load <name>`, `load <k> <name>` */
static int load(struct linnet_dm *dm, const char *number, const char *name)
{
	struct linnet_leg *leg = number ? leg_of(dm, number) : NULL;
	int error;

	if ((number && !leg) || !linnet_model_name_ok(name))
		return -EINVAL;
	if (READ_ONCE(dm->suspending))
		return -EBUSY;
	error = linnet_models_load(dm, leg ? BIT(leg->index) : U32_MAX, name);
	if (!error)
		linnet_dm_changed(dm);
	return error;
}

/* `unload`, `unload <k>` */
static int unload(struct linnet_dm *dm, const char *number)
{
	struct linnet_leg *leg = number ? leg_of(dm, number) : NULL;

	if (number && !leg)
		return -EINVAL;
	linnet_models_unload(dm, leg ? BIT(leg->index) : U32_MAX);
	linnet_dm_changed(dm);
	return 0;
}

/* Whether no other replica would be left in service. */
static bool is_last(struct linnet_dm *dm, const struct linnet_leg *leg)
{
	return !((BIT(dm->leg_count) - 1) & ~READ_ONCE(dm->failed) & ~BIT(leg->index));
}

static int fail(struct linnet_dm *dm, const char *number)
{
	struct linnet_leg *leg = leg_of(dm, number);

	if (!leg)
		return -EINVAL;
	if (!dm->volume && is_last(dm, leg))
		return -EBUSY;
	if (!test_and_set_bit(leg->index, &dm->failed))
		linnet_dm_changed(dm);
	return 0;
}

/* Also clears its errors. */
static int revive(struct linnet_dm *dm, const char *number)
{
	struct linnet_leg *leg = leg_of(dm, number);

	if (!leg)
		return -EINVAL;
	linnet_leg_pardon(leg);
	if (test_and_clear_bit(leg->index, &dm->failed))
		linnet_dm_changed(dm);
	return 0;
}

/* `on` is 1, `off` 0. */
static int switch_of(const char *word)
{
	return !strcmp(word, "on") ? 1 : !strcmp(word, "off") ? 0 : -EINVAL;
}

static int set_revoke(struct linnet_dm *dm, const char *word)
{
	int revoke = switch_of(word);

	if (dm->volume || (revoke && !dm->ioprio))
		return -EINVAL;
	return revoke < 0 ? revoke : linnet_models_fit(dm, dm->settings.policy, revoke);
}

/* `trust <k> <generation>` */
static int trust(struct linnet_dm *dm, const char *number, const char *generation)
{
	struct linnet_leg *leg = leg_of(dm, number);
	u64 value;

	if (!dm->volume || !leg || kstrtou64(generation, 10, &value))
		return -EINVAL;
	return linnet_volume_trust(dm->volume, leg->index, value);
}

static int distrust(struct linnet_dm *dm)
{
	if (!dm->volume)
		return -EINVAL;
	linnet_volume_distrust(dm->volume);
	return 0;
}

/* `hedge <percent>` */
static int set_hedge(struct linnet_dm *dm, const char *word)
{
	u32 percent;

	if (dm->leg_count < 2 || linnet_parse_percent(word, &percent))
		return -EINVAL;
	/* For its first use a thread is made, whose memory obey_held has no say in. */
	if (percent && !dm->hedges && READ_ONCE(dm->suspending))
		return -EBUSY;
	return linnet_hedge_set(dm, percent);
}

static int obey(struct linnet_dm *dm, unsigned int argc, char **argv)
{
	const char *word = argv[0];
	u16 ioprio;

	if (argc == 1) {
		if (switch_of(word) >= 0) {
			WRITE_ONCE(dm->settings.on, switch_of(word));
			return 0;
		}
		if (!strcmp(word, "unload"))
			return unload(dm, NULL);
		if (!strcmp(word, "reset")) {
			linnet_status_reset(dm);
			return 0;
		}
		if (!strcmp(word, "distrust"))
			return distrust(dm);
	} else if (argc == 2) {
		if (!strcmp(word, "policy"))
			return set_policy(dm, argv[1]);
		if (!strcmp(word, "load"))
			return load(dm, NULL, argv[1]);
		if (!strcmp(word, "unload"))
			return unload(dm, argv[1]);
		if (!strcmp(word, "revoke"))
			return set_revoke(dm, argv[1]);
		if (!strcmp(word, "hedge"))
			return set_hedge(dm, argv[1]);
		if (!strcmp(word, "fail"))
			return fail(dm, argv[1]);
		if (!strcmp(word, "revive"))
			return revive(dm, argv[1]);
		if (!strcmp(word, "ioprio") && !linnet_parse_ioprio(argv[1], &ioprio)) {
			WRITE_ONCE(dm->ioprio, ioprio);
			return 0;
		}
	} else if (argc == 3 && !strcmp(word, "load")) {
		return load(dm, argv[1], argv[2]);
	} else if (argc == 3 && !strcmp(word, "trust")) {
		return trust(dm, argv[1], argv[2]);
	}
	return -EINVAL;
}

/* While I/O is held, memory must not wait for pages that are written to this very device. */
static int obey_held(struct linnet_dm *dm, unsigned int argc, char **argv)
{
	unsigned int flags = memalloc_noio_save();
	int error = obey(dm, argc, argv);

	memalloc_noio_restore(flags);
	return error;
}

int linnet_message(struct dm_target *ti, unsigned int argc, char **argv, char *result, unsigned int maxlen)
{
	struct linnet_dm *dm = ti->private;
	int error;

	if (!argc)
		return -EINVAL;
	mutex_lock(&dm->control);
	error = READ_ONCE(dm->suspending) ? obey_held(dm, argc, argv) : obey(dm, argc, argv);
	mutex_unlock(&dm->control);
	if (error)
		DMWARN_LIMIT("%s: message '%s' refused (error %d)", dm_table_device_name(ti->table), argv[0], error);
	return error;
}
