// SPDX-License-Identifier: GPL-2.0-only
/*
 * Model files: read as firmware, checked and proven by core/, shared by the legs that use them.
 *
 * A leg's model is replaced under the leg's lock, where the new incremental network takes over the history of the old
 * one, and published under RCU: decisions in progress finish with the old one. Nothing is suspended. A file that cannot
 * be read, or is damaged, changes nothing.
 */
#include <linux/ctype.h>
#include <linux/firmware.h>
#include <linux/log2.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>

#include "linnet-dm.h"

#define FILE_BYTES_MAX (4 << 20)
#define SCRATCH_MAX (16 << 10)

static uint weights_max = 65536;
module_param(weights_max, uint, 0644);
MODULE_PARM_DESC(weights_max, "weights of the largest network that is loaded: a decision takes about a nanosecond for each at worst");

bool linnet_model_name_ok(const char *name)
{
	size_t n = strlen(name), i;

	if (n == 0 || n >= LINNET_NAME_SIZE || name[0] == '.')
		return false;
	for (i = 0; i < n; i++)
		if (!isalnum(name[i]) && !strchr("._-+", name[i]))
			return false;
	return true;
}

/* Error codes of this file, in addition to the core's, which are negative. */
enum {
	NO_MEMORY = 1,
	FILE_TOO_LARGE,
	TOO_MANY_WEIGHTS,
	SCRATCH_TOO_LARGE,
};

static const char *reason_of(int error)
{
	switch (error) {
	case LINNET_E_SHAPE: return "the shape of the network is out of bounds";
	case LINNET_E_RANGE: return "a number is out of its range";
	case LINNET_E_TRUNCATED: return "the file ends early";
	case LINNET_E_MAGIC: return "this is no model file";
	case LINNET_E_VERSION: return "its version is unknown";
	case LINNET_E_LENGTH: return "its length is wrong";
	case LINNET_E_CHECKSUM: return "it is damaged (checksum)";
	case LINNET_E_KIND: return "its kind is unknown";
	case LINNET_E_SCHEMA: return "its features are unknown";
	case LINNET_E_FIELD: return "a field is out of range";
	case NO_MEMORY: return "not enough memory";
	case FILE_TOO_LARGE: return "the file is larger than 4 MiB";
	case TOO_MANY_WEIGHTS: return "the network has more weights than weights_max";
	case SCRATCH_TOO_LARGE: return "the network needs more than 16 KiB of memory for each CPU";
	}
	return "unknown error";
}

/*
 * Memory for the core with the alignment that it requires: kmalloc aligns powers of two to their size, vmalloc returns
 * whole pages. The core zeroes what it uses.
 */
static void *core_alloc(size_t size)
{
	return kvmalloc(roundup_pow_of_two(max_t(size_t, size, LINNET_ALIGN)), GFP_KERNEL);
}

static int load_network(struct linnet_loaded *loaded, const struct linnet_model *model)
{
	size_t work_size = linnet_network_work_size(model->layers, model->layer_count);
	u64 weights = 0;
	void *work;
	int error;
	u32 k;

	for (k = 0; k < model->layer_count; k++)
		weights += (u64)model->layers[k].inputs * model->layers[k].outputs;
	if (weights > weights_max)
		return TOO_MANY_WEIGHTS;
	work = core_alloc(work_size);
	if (!work)
		return NO_MEMORY;
	error = linnet_network_plan(&loaded->network, model->layers, model->layer_count, model->input_max, work,
				    work_size);
	kvfree(work);
	if (error < 0)
		return error;
	loaded->weights = core_alloc(loaded->network.memory_size);
	if (!loaded->weights)
		return NO_MEMORY;
	error = linnet_network_place(&loaded->network, model->layers, loaded->weights, loaded->network.memory_size);
	if (error < 0)
		return error;
	error = linnet_tables_plan(&loaded->tables, &loaded->network, &linnet_prune_portable);
	if (error < 0)
		return error;
	loaded->rows = core_alloc(loaded->tables.memory_size);
	if (!loaded->rows)
		return NO_MEMORY;
	error = linnet_tables_place(&loaded->tables, loaded->rows, loaded->tables.memory_size);
	if (error < 0)
		return error;
	if (loaded->tables.scratch_size > SCRATCH_MAX)
		return SCRATCH_TOO_LARGE;
	if (loaded->tables.scratch_size) {
		loaded->scratch = __alloc_percpu(loaded->tables.scratch_size, LINNET_ALIGN);
		if (!loaded->scratch)
			return NO_MEMORY;
	}
	loaded->has_network = true;
	return 0;
}

static void free_loaded(struct kref *refs)
{
	struct linnet_loaded *loaded = container_of(refs, struct linnet_loaded, refs);

	free_percpu(loaded->scratch);
	kvfree(loaded->rows);
	kvfree(loaded->weights);
	kvfree(loaded);
}

static void put_loaded(struct linnet_loaded *loaded)
{
	kref_put(&loaded->refs, free_loaded);
}

/* The core's error or ours; *offset is its place in the file, if there is one. */
static int load_parts(struct linnet_loaded *loaded, const struct firmware *file, size_t *offset)
{
	struct linnet_model *model = kmalloc(sizeof(*model), GFP_KERNEL);
	int error;

	if (!model)
		return NO_MEMORY;
	error = linnet_model_read(file->data, file->size, model, offset);
	if (error == 0) {
		loaded->inflection_ns = model->inflection_ns ? model->inflection_ns : U64_MAX;
		loaded->latency_ns_p95 = model->latency_ns_p95;
		if (model->parts & LINNET_PART_TREES)
			linnet_bitsliced_init(&loaded->bitsliced, &model->trees);
		loaded->has_trees = model->parts & LINNET_PART_TREES;
		if (model->parts & LINNET_PART_NETWORK)
			error = load_network(loaded, model);
	}
	kfree(model);
	return error;
}

/* Returns an ERR_PTR on any failure, which is logged. */
static struct linnet_loaded *get_loaded(const char *name)
{
	char path[LINNET_NAME_SIZE + 8];
	const struct firmware *file;
	struct linnet_loaded *loaded;
	size_t offset = 0;
	int error;

	snprintf(path, sizeof(path), "linnet/%s", name);
	error = request_firmware_direct(&file, path, NULL);
	if (error) {
		DMERR("model %s: cannot read firmware file %s (error %d)", name, path, error);
		return ERR_PTR(error);
	}
	loaded = kvzalloc(sizeof(*loaded), GFP_KERNEL);
	if (!loaded) {
		release_firmware(file);
		return ERR_PTR(-ENOMEM);
	}
	kref_init(&loaded->refs);
	error = file->size > FILE_BYTES_MAX ? FILE_TOO_LARGE : load_parts(loaded, file, &offset);
	release_firmware(file);
	if (error == 0)
		return loaded;
	DMERR("model %s: refused at byte %zu: %s", name, offset, reason_of(error));
	put_loaded(loaded);
	return ERR_PTR(error == NO_MEMORY ? -ENOMEM : error > NO_MEMORY ? -EFBIG : -EBADMSG);
}

/*
 * Computing the history is the most expensive part of a read, so a leg has an incremental network only while its
 * network is used. Otherwise its tracker keeps the history.
 */
static bool wants_incremental(const struct linnet_loaded *loaded, u32 policy, bool revoke)
{
	return loaded->has_network && (policy == LINNET_LINNOS || (revoke && !loaded->has_trees));
}

/* A leg model with its own reference to the model. NULL if memory is short. */
static struct linnet_leg_model *make_leg_model(struct linnet_loaded *loaded, bool net)
{
	struct linnet_leg_model *leg_model = kzalloc(sizeof(*leg_model), GFP_KERNEL);

	if (!leg_model)
		return NULL;
	if (net) {
		leg_model->net = core_alloc(loaded->tables.incremental_size);
		if (!leg_model->net ||
		    linnet_incremental_init(leg_model->net, loaded->tables.incremental_size, &loaded->tables, NULL) < 0) {
			kvfree(leg_model->net);
			kfree(leg_model);
			return NULL;
		}
	}
	kref_get(&loaded->refs);
	leg_model->loaded = loaded;
	return leg_model;
}

void linnet_leg_model_free(struct linnet_leg_model *leg_model)
{
	if (!leg_model)
		return;
	put_loaded(leg_model->loaded);
	kvfree(leg_model->net);
	kfree(leg_model);
}

/* Sets the model of a leg, or none. Under control. */
static void set_leg_model(struct linnet_dm *dm, u32 k, struct linnet_leg_model *leg_model)
{
	bool trees = leg_model && leg_model->loaded->has_trees, network = leg_model && leg_model->loaded->has_network;

	linnet_leg_set_model(&dm->legs[k], leg_model);
	WRITE_ONCE(dm->trees, (dm->trees & ~BIT(k)) | trees << k);
	WRITE_ONCE(dm->networks, (dm->networks & ~BIT(k)) | network << k);
}

/* Legs without a new model keep their current one. Under control. */
static void set_leg_models(struct linnet_dm *dm, struct linnet_leg_model **leg_models)
{
	u32 k;

	for (k = 0; k < dm->leg_count; k++)
		if (leg_models[k])
			set_leg_model(dm, k, leg_models[k]);
}

static void free_leg_models(struct linnet_leg_model **leg_models)
{
	u32 k;

	for (k = 0; k < LINNET_REPLICAS_MAX; k++)
		linnet_leg_model_free(leg_models[k]);
}

int linnet_models_load(struct linnet_dm *dm, u32 legs, const char *name)
{
	struct linnet_leg_model *leg_models[LINNET_REPLICAS_MAX] = { NULL };
	struct linnet_loaded *loaded = get_loaded(name);
	bool net;
	u32 k;

	if (IS_ERR(loaded))
		return PTR_ERR(loaded);
	net = wants_incremental(loaded, dm->settings.policy, dm->revoke);
	for (k = 0; k < dm->leg_count; k++) {
		if (!(legs & BIT(k)))
			continue;
		leg_models[k] = make_leg_model(loaded, net);
		if (!leg_models[k]) {
			free_leg_models(leg_models);
			put_loaded(loaded);
			return -ENOMEM;
		}
	}
	set_leg_models(dm, leg_models);
	put_loaded(loaded);
	for (k = 0; k < dm->leg_count; k++) {
		if (!(legs & BIT(k)))
			continue;
		clear_bit(LINNET_LEG_BAD_MODEL, &dm->legs[k].flags);
		strscpy(dm->legs[k].model, name, sizeof(dm->legs[k].model));
	}
	return 0;
}

void linnet_models_unload(struct linnet_dm *dm, u32 legs)
{
	u32 k;

	for (k = 0; k < dm->leg_count; k++) {
		if (!(legs & BIT(k)))
			continue;
		set_leg_model(dm, k, NULL);
		clear_bit(LINNET_LEG_BAD_MODEL, &dm->legs[k].flags);
		dm->legs[k].model[0] = '\0';
	}
}

int linnet_models_fit(struct linnet_dm *dm, u32 policy, bool revoke)
{
	struct linnet_leg_model *leg_models[LINNET_REPLICAS_MAX] = { NULL };
	u32 k;

	for (k = 0; k < dm->leg_count; k++) {
		struct linnet_leg_model *leg_model = rcu_dereference_protected(dm->legs[k].leg_model, lockdep_is_held(&dm->control));
		bool net = leg_model && wants_incremental(leg_model->loaded, policy, revoke);

		if (!leg_model || net == (leg_model->net != NULL))
			continue;
		leg_models[k] = make_leg_model(leg_model->loaded, net);
		if (!leg_models[k]) {
			free_leg_models(leg_models);
			return -ENOMEM;
		}
	}
	set_leg_models(dm, leg_models);
	WRITE_ONCE(dm->settings.policy, policy);
	WRITE_ONCE(dm->revoke, revoke);
	return 0;
}
