// SPDX-License-Identifier: GPL-2.0-only
/*
 * The model: a file of kind 2 (spec/knob.md), read as firmware and checked by the core. User space may have trained it,
 * or it is trained here while `learn` names a class: the rows are the windows of all files that are read then, and the
 * file gives the shape and where to begin. debugfs gives the file back with what was learned.
 *
 * Floats are used between kernel_fpu_begin and kernel_fpu_end, once for each decision or learned row: some hundred
 * nanoseconds for a network like 5-15-5-4, without allocation. Nothing preempts that, so the file's size is bounded.
 * This file is compiled without floats and only passes their addresses on.
 */
#define pr_fmt(fmt) "linnet_tune: " fmt
#include <linux/ctype.h>
#include <linux/firmware.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <asm/fpu/api.h>

#include "linnet-tune.h"

#define FILE_BYTES_MAX (1 << 17) /* 32,000 weights: a step of training takes some twenty microseconds */
#define NAME_MAX_BYTES 64
#define ONE 0x3f800000u /* 1.0f */
#define LEARN_ACCESSES 16 /* fewer in a window say too little to learn from */
#define RATE_PPM 10000      /* of learning, in millionths */
#define MOMENTUM_PPM 900000

struct model {
	u8 *bytes; /* the file; knob points into it */
	size_t size;
	struct linnet_knob knob;
	struct linnet_normaliser normaliser;
	struct linnet_moments moments[LINNET_KNOB_INPUTS_MAX];
	struct linnet_small network;
	struct linnet_small_options options;
	u32 *values; /* values, momentum and scratch, all floats */
	u32 *scratch;
	struct linnet_tree_node *nodes;
};

static struct model *model;
static char model_name[NAME_MAX_BYTES];
static int learn = -1; /* a class of the model, or -1; before the start, what the command line names */
/* Reading a file may take long. So it happens without tune_lock, which the worker and debugfs wait for. */
static DEFINE_MUTEX(load_lock);
static bool started; /* under load_lock; before, model and learn of the command line are only kept, in any order */

static const char *reason_of(int error)
{
	switch (error) {
	case LINNET_E_TRUNCATED: return "the file ends early";
	case LINNET_E_MAGIC: return "this is no model file";
	case LINNET_E_VERSION: return "its version is unknown";
	case LINNET_E_LENGTH: return "its length is wrong";
	case LINNET_E_CHECKSUM: return "it is damaged (checksum)";
	case LINNET_E_KIND: return "it is no model of a knob";
	case LINNET_E_SCHEMA: return "its features are not readahead-1";
	case LINNET_E_FIELD: return "a field is out of range";
	case LINNET_E_SHAPE: return "its shape is out of bounds";
	}
	return "a number is out of its range";
}

static void free_model(struct model *old)
{
	if (!old)
		return;
	kvfree(old->nodes);
	kvfree(old->values);
	kvfree(old->bytes);
	kfree(old);
}

static bool on_ladder(u32 kib)
{
	u32 i;

	for (i = 0; i < LINNET_READAHEAD_LEVELS; i++)
		if (linnet_readahead_ladder[i] == kib)
			return true;
	return false;
}

/* The core's error, or 1 with a reason. */
static int suits(const struct linnet_knob *knob, const char **reason)
{
	u32 k;

	if (knob->schema != LINNET_SCHEMA_READAHEAD1 || knob->inputs != LINNET_READAHEAD_INPUTS)
		*reason = "its features are not readahead-1";
	else if (knob->unit != LINNET_UNIT_KIB)
		*reason = "its values are not in KiB";
	else
		*reason = NULL;
	for (k = 0; k < knob->levels && !*reason; k++)
		if (!on_ladder(knob->values[k]))
			*reason = "a value is not one of 8, 16, ... 2048 KiB";
	return *reason ? 1 : 0;
}

static int place(struct model *next)
{
	struct linnet_small *network = &next->network;
	u32 floats;
	int error;

	linnet_knob_load_normaliser(&next->knob, &next->normaliser, next->moments);
	if (next->knob.parts & LINNET_PART_TREES) {
		next->nodes = kvmalloc_array(next->knob.node_count, sizeof(*next->nodes), GFP_KERNEL);
		if (!next->nodes)
			return -ENOMEM;
		linnet_knob_load_tree(&next->knob, next->nodes);
	}
	if (!(next->knob.parts & LINNET_PART_NETWORK))
		return 0;
	/* Neither computes in floats, but the compiler may use vectors in any function of their unit. */
	kernel_fpu_begin();
	error = linnet_small_plan(network, next->knob.inputs, next->knob.layers, next->knob.layer_count);
	kernel_fpu_end();
	if (error < 0)
		return -EINVAL;
	floats = 2 * network->value_count + max(network->forward_floats, network->train_floats);
	next->values = kvcalloc(floats, sizeof(u32), GFP_KERNEL);
	if (!next->values)
		return -ENOMEM;
	next->scratch = next->values + 2 * network->value_count;
	kernel_fpu_begin();
	linnet_small_place(network, (float *)next->values, NULL);
	kernel_fpu_end();
	/* Zeros already. The core would write them byte by byte, with preemption off. */
	network->momentum = (float *)(next->values + network->value_count);
	linnet_knob_load_network(&next->knob, network);
	return 0;
}

/* From now on `next`, or no model. Called with load_lock held. */
static void use(struct model *next, const char *name)
{
	struct model *old;

	mutex_lock(&tune_lock);
	old = model;
	model = next;
	if (started)
		learn = -1;
	if (name != model_name)
		strscpy(model_name, name, sizeof(model_name));
	mutex_unlock(&tune_lock);
	free_model(old);
}

/* With load_lock held. */
static int load(const char *name)
{
	char path[NAME_MAX_BYTES + 8];
	const struct firmware *file;
	struct model *next = NULL;
	const char *reason;
	size_t offset = 0;
	int error;

	snprintf(path, sizeof(path), "linnet/%s", name);
	error = request_firmware_direct(&file, path, NULL);
	if (error) {
		pr_err("model: cannot read the firmware %s (%d)\n", path, error);
		return error;
	}
	error = -EFBIG;
	if (file->size > FILE_BYTES_MAX) {
		pr_err("model: %s: %zu bytes are too many for a model of readahead\n", path, file->size);
		goto out;
	}
	error = -ENOMEM;
	next = kzalloc(sizeof(*next), GFP_KERNEL);
	if (!next)
		goto out;
	next->size = file->size;
	next->bytes = kvmalloc(file->size, GFP_KERNEL);
	if (!next->bytes)
		goto out;
	memcpy(next->bytes, file->data, file->size);
	error = linnet_knob_read(next->bytes, next->size, &next->knob, &offset);
	reason = reason_of(error);
	if (error < 0 || (error = suits(&next->knob, &reason))) {
		pr_err("model: %s, byte %zu: %s; give a model file of readahead\n", path, offset, reason);
		error = -EINVAL;
		goto out;
	}
	error = place(next);
	if (error)
		goto out;
	use(next, name);
	next = NULL;
out:
	free_model(next);
	release_firmware(file);
	return error;
}

/* With tune_lock held. */
static int learn_as(int class_)
{
	int error;

	if (class_ >= 0 && (!model || !(model->knob.parts & LINNET_PART_NETWORK))) {
		pr_err("learn: there is no network; set the parameter model to a file that has one\n");
		return -EINVAL;
	}
	if (class_ < -1 || (class_ >= 0 && class_ >= model->knob.levels)) {
		pr_err("learn: %d is no class of the model; give 0 to %d, or -1\n", class_,
		       model ? (int)model->knob.levels - 1 : -1);
		return -EINVAL;
	}
	if (class_ >= 0) {
		kernel_fpu_begin();
		linnet_small_options_of(&model->options, LINNET_SOFTMAX, RATE_PPM, MOMENTUM_PPM);
		error = linnet_small_check(&model->network, &model->options);
		kernel_fpu_end();
		if (error) {
			pr_err("learn: the network's last layer is not linear or softmax\n");
			return -EINVAL;
		}
	}
	learn = class_;
	return 0;
}

int tune_model_start(void)
{
	int error;

	mutex_lock(&load_lock);
	error = model_name[0] ? load(model_name) : 0;
	if (!error) {
		mutex_lock(&tune_lock);
		error = learn_as(learn);
		mutex_unlock(&tune_lock);
	}
	started = error == 0;
	mutex_unlock(&load_lock);
	return error;
}

void tune_model_end(void)
{
	mutex_lock(&load_lock);
	use(NULL, model_name);
	started = false;
	mutex_unlock(&load_lock);
}

static int classify(const u32 *row, u32 *class_, u32 *confidence_ppm)
{
	u32 z[LINNET_KNOB_INPUTS_MAX];
	int error;

	if (!(model->knob.parts & LINNET_PART_NETWORK)) {
		const struct linnet_tree_node *leaf = linnet_tree_leaf(model->nodes, (const float *)row);

		*class_ = leaf->right;
		*confidence_ppm = leaf->word;
		return 0;
	}
	kernel_fpu_begin();
	linnet_normaliser_apply(&model->normaliser, (const float *)row, (float *)z);
	error = linnet_small_classify(&model->network, (const float *)z, (float *)model->scratch, class_, confidence_ppm);
	kernel_fpu_end();
	return error;
}

int tune_model_decide(const struct linnet_pattern *pattern, u32 *kib, u32 *confidence_ppm)
{
	u32 row[LINNET_READAHEAD_INPUTS], class_;

	if (!model)
		return 0;
	linnet_pattern_row(pattern, row);
	if (classify(row, &class_, confidence_ppm) < 0 || *confidence_ppm < model->knob.confidence_ppm)
		return -1;
	*kib = model->knob.values[class_];
	return 1;
}

void tune_model_learn(const struct linnet_pattern *pattern)
{
	u32 row[LINNET_READAHEAD_INPUTS], z[LINNET_KNOB_INPUTS_MAX], target[LINNET_KNOB_LEVELS_MAX] = { 0 };
	int error;

	if (learn < 0 || pattern->accesses < LEARN_ACCESSES)
		return;
	linnet_pattern_row(pattern, row);
	target[learn] = ONE;
	kernel_fpu_begin();
	error = linnet_normaliser_learn(&model->normaliser, (const float *)row);
	if (!error) {
		linnet_normaliser_apply(&model->normaliser, (const float *)row, (float *)z);
		error = linnet_small_train(&model->network, &model->options, (const float *)z, (const float *)target,
					   (float *)model->scratch, NULL);
	}
	kernel_fpu_end();
	atomic64_inc(error ? &tune_counters.refused : &tune_counters.learned);
}

int tune_model_bytes(void **bytes, size_t *size)
{
	struct linnet_knob knob;
	size_t offset;
	u8 *copy;

	if (!model)
		return 0;
	copy = kvmalloc(model->size, GFP_KERNEL);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, model->bytes, model->size);
	if (linnet_knob_read(copy, model->size, &knob, &offset) < 0 ||
	    linnet_knob_store(copy, model->size, &knob, &model->normaliser,
			      knob.parts & LINNET_PART_NETWORK ? &model->network : NULL) < 0) {
		kvfree(copy);
		return -ERANGE;
	}
	*bytes = copy;
	*size = model->size;
	return 0;
}

void tune_model_show(struct seq_file *out)
{
	if (!model)
		seq_puts(out, "model none\n");
	else
		seq_printf(out, "model %s classes %u network %u tree %u bytes %zu\n", model_name, model->knob.levels,
			   !!(model->knob.parts & LINNET_PART_NETWORK), !!(model->knob.parts & LINNET_PART_TREES),
			   sizeof(*model) + model->size +
				   sizeof(u32) * (2 * model->network.value_count + model->network.train_floats));
	seq_printf(out, "learn %d\n", learn);
}

/* ---- parameters ---- */

static bool name_ok(const char *name)
{
	const char *c;

	for (c = name; *c; c++)
		if (!isalnum(*c) && !strchr("._-+", *c))
			return false;
	return name[0] != '.' && c - name < NAME_MAX_BYTES;
}

static int set_model(const char *value, const struct kernel_param *kp)
{
	char *copy = kstrdup(value, GFP_KERNEL), *name;
	int error = 0;

	if (!copy)
		return -ENOMEM;
	name = strim(copy);
	if (!name_ok(name)) {
		pr_err("model: `%s` is no name; give that of a file below /lib/firmware/linnet\n", name);
		kfree(copy);
		return -EINVAL;
	}
	mutex_lock(&load_lock);
	if (*name && started)
		error = load(name);
	else
		use(NULL, name);
	mutex_unlock(&load_lock);
	kfree(copy);
	return error;
}

static int get_model(char *buffer, const struct kernel_param *kp)
{
	int n;

	mutex_lock(&tune_lock);
	n = scnprintf(buffer, PAGE_SIZE, "%s\n", model_name);
	mutex_unlock(&tune_lock);
	return n;
}

const struct kernel_param_ops tune_model_ops = { .set = set_model, .get = get_model };

static int set_learn(const char *value, const struct kernel_param *kp)
{
	int class_, error = kstrtoint(value, 0, &class_);

	if (error)
		return error;
	mutex_lock(&load_lock);
	mutex_lock(&tune_lock);
	if (started)
		error = learn_as(class_);
	else
		learn = class_;
	mutex_unlock(&tune_lock);
	mutex_unlock(&load_lock);
	return error;
}

static int get_learn(char *buffer, const struct kernel_param *kp)
{
	return scnprintf(buffer, PAGE_SIZE, "%d\n", READ_ONCE(learn));
}

const struct kernel_param_ops tune_learn_ops = { .set = set_learn, .get = get_learn };
