// SPDX-License-Identifier: GPL-2.0-only
/* The implementation of block.h: firmware, device-mapper, bios, and dmsetup. */
#include "block.h"

unsigned int stub_events;
unsigned long stub_looked_at;
sector_t stub_leg_sectors = STUB_LEG_SECTORS;
struct target_type *stub_type, *stub_leg_type;
struct dm_dev stub_devs[STUB_LEGS];
static struct block_device bdevs[STUB_LEGS];

/* ---- firmware ---- */

static struct { char name[96]; void *data; size_t size; } files[16];

void stub_firmware(const char *name, const void *data, size_t size)
{
	unsigned int i, free_place = ARRAY_SIZE(files);

	for (i = 0; i < ARRAY_SIZE(files); i++) {
		if (files[i].data && !strcmp(files[i].name, name)) {
			free(files[i].data);
			files[i].data = NULL;
		}
		if (!files[i].data)
			free_place = i;
	}
	if (!data)
		return;
	BUG_ON(free_place == ARRAY_SIZE(files));
	snprintf(files[free_place].name, sizeof(files[free_place].name), "%s", name);
	files[free_place].data = malloc(size + 1); /* an empty file also exists */
	memcpy(files[free_place].data, data, size);
	files[free_place].size = size;
}

void stub_firmware_file(const char *path)
{
	static u8 bytes[1 << 20];
	FILE *in = fopen(path, "rb");
	size_t size = in ? fread(bytes, 1, sizeof(bytes), in) : 0;

	if (!size)
		stub_die("no model file");
	fclose(in);
	stub_firmware("linnet/m.linnet", bytes, size);
}

int request_firmware_direct(const struct firmware **file, const char *name, struct device *device)
{
	(void)device;
	stub_might_sleep("request_firmware");
	for (unsigned int i = 0; i < ARRAY_SIZE(files); i++) {
		struct firmware *found;
		u8 *data;

		if (!files[i].data || strcmp(files[i].name, name))
			continue;
		/* Exactly this size, so that the sanitizer detects a read beyond the end. */
		found = malloc(sizeof(*found));
		data = malloc(files[i].size);
		memcpy(data, files[i].data, files[i].size);
		*found = (struct firmware){ files[i].size, data };
		*file = found;
		return 0;
	}
	return -ENOENT;
}

void release_firmware(const struct firmware *file)
{
	free((void *)(uintptr_t)file->data);
	free((void *)(uintptr_t)file);
}

/* ---- device-mapper ---- */

int dm_read_arg(const struct dm_arg *arg, struct dm_arg_set *set, unsigned int *value, char **error)
{
	const char *word = dm_shift_arg(set);
	unsigned int n;
	char rest;

	if (!word || sscanf(word, "%u%c", &n, &rest) != 1 || n < arg->min || n > arg->max) {
		*error = arg->error;
		return -EINVAL;
	}
	*value = n;
	return 0;
}

int dm_read_arg_group(const struct dm_arg *arg, struct dm_arg_set *set, unsigned int *count, char **error)
{
	int r = dm_read_arg(arg, set, count, error);

	if (!r && *count > set->argc) {
		*error = arg->error;
		r = -EINVAL;
	}
	return r;
}

const char *dm_shift_arg(struct dm_arg_set *set)
{
	if (!set->argc)
		return NULL;
	set->argc--;
	return *set->argv++;
}

void dm_consume_args(struct dm_arg_set *set, unsigned int n)
{
	BUG_ON(n > set->argc);
	set->argc -= n;
	set->argv += n;
}

int dm_register_target(struct target_type *type)
{
	if (!strcmp(type->name, "linnet-leg")) {
		stub_leg_type = type;
		return 0;
	}
	stub_type = type;
	for (unsigned int k = 0; k < STUB_LEGS; k++) {
		bdevs[k].bd_dev = 16 * (k + 1);
		bdevs[k].sectors = 1 << 20;
		bdevs[k].block_bytes = 512;
		stub_devs[k].bdev = &bdevs[k];
		snprintf(stub_devs[k].name, sizeof(stub_devs[k].name), "259:%u", k);
	}
	return 0;
}

void dm_unregister_target(struct target_type *type)
{
	BUG_ON(type != stub_type && type != stub_leg_type);
	if (type == stub_leg_type)
		return;
	for (unsigned int k = 0; k < STUB_LEGS; k++)
		BUG_ON(stub_devs[k].refs);
	stub_type = NULL;
}

int dm_get_device(struct dm_target *ti, const char *path, fmode_t mode, struct dm_dev **dev)
{
	(void)ti;
	(void)mode;
	stub_might_sleep("dm_get_device");
	for (unsigned int k = 0; k < STUB_LEGS; k++) {
		char name[16];

		snprintf(name, sizeof(name), "/dev/leg%u", k);
		if (!strcmp(path, name) || !strcmp(path, stub_devs[k].name)) {
			stub_devs[k].refs++;
			*dev = &stub_devs[k];
			return 0;
		}
	}
	return -ENODEV;
}

int lookup_bdev(const char *path, dev_t *dev)
{
	unsigned int minor;

	stub_might_sleep("lookup_bdev");
	if (sscanf(path, "/dev/dm-%u", &minor) != 1)
		return -ENOENT;
	*dev = MKDEV(253, minor);
	return 0;
}

void dm_put_device(struct dm_target *ti, struct dm_dev *dev)
{
	(void)ti;
	BUG_ON(!dev->refs);
	dev->refs--;
}

void dm_table_event(struct dm_table *table)
{
	(void)table;
	stub_might_sleep("dm_table_event");
	stub_events++;
}

int kobject_uevent_env(struct kobject *kobject, int action, char **words)
{
	(void)kobject;
	(void)action;
	/* The words that spec/dm-target.md promises. */
	BUG_ON(strcmp(words[0], "DM_TARGET=linnet") || strcmp(words[1], "DM_ACTION=STATUS_CHANGED") || words[2]);
	stub_might_wait_for_memory("kobject_uevent_env");
	return 0;
}

int blk_status_to_errno(blk_status_t status)
{
	return status == BLK_STS_OK ? 0 : status == BLK_STS_AGAIN ? -EAGAIN : status == BLK_STS_NOTSUPP ? -EOPNOTSUPP : -EIO;
}

/* ---- bios ---- */

static struct stub_bio *of(struct bio *bio) { return container_of(bio, struct stub_bio, bio); }

void *stub_per_bio_data(struct bio *bio, size_t size)
{
	struct stub_bio *b = of(bio);

	BUG_ON(size > b->ti->per_io_data_size || size > STUB_BIO_DATA);
	/* At the end of the space, so that a write beyond it hits the bio. */
	return b->data + STUB_BIO_DATA - (size + 63) / 64 * 64;
}

void bio_endio(struct bio *bio)
{
	struct stub_bio *b = of(bio);
	blk_status_t status = bio->bi_status;

	BUG_ON(b->ended);
	b->below = 0;
	switch (b->ti->type->end_io(b->ti, bio, &status)) {
	case DM_ENDIO_DONE:
		b->ended++;
		bio->bi_status = status;
		break;
	case DM_ENDIO_INCOMPLETE:
		break;
	default:
		stub_die("an answer of end_io that the stub does not know");
	}
}

struct bio *stub_own[STUB_OWN];
unsigned int stub_own_count;
unsigned long stub_own_sent;

void bio_init(struct bio *bio, struct block_device *bdev, struct bio_vec *vecs, unsigned short count, blk_opf_t opf)
{
	*bio = (struct bio){ .bi_bdev = bdev, .bi_io_vec = vecs, .bi_max_vecs = count, .bi_opf = opf };
}

void __bio_add_page(struct bio *bio, struct page *page, unsigned int size, unsigned int offset)
{
	BUG_ON(bio->bi_vcnt == bio->bi_max_vecs || (size > PAGE_SIZE && offset));
	bio->bi_io_vec[bio->bi_vcnt++] = (struct bio_vec){ page, size, offset };
	bio->bi_iter.bi_size += size;
}

/* Pages that are full, except for the last. */
void bio_copy_data(struct bio *to, struct bio *from)
{
	unsigned int left = to->bi_iter.bi_size, i = 0;

	BUG_ON(from->bi_iter.bi_size != left || from->bi_iter.bi_idx || from->bi_iter.bi_bvec_done);
	for (; left && to->bi_io_vec; i++) {
		unsigned int part = min(left, PAGE_SIZE);

		memcpy(to->bi_io_vec[i].bv_page->bytes, from->bi_io_vec[i].bv_page->bytes, part);
		left -= part;
	}
}

void stub_complete_own(unsigned int i, blk_status_t status, u8 fill)
{
	struct bio *bio = stub_own[i];

	BUG_ON(i >= stub_own_count);
	memmove(&stub_own[i], &stub_own[i + 1], (--stub_own_count - i) * sizeof(*stub_own));
	for (unsigned int k = 0; k < bio->bi_vcnt; k++)
		memset(bio->bi_io_vec[k].bv_page->bytes + bio->bi_io_vec[k].bv_offset, fill, bio->bi_io_vec[k].bv_len);
	bio->bi_iter = (struct bvec_iter){ .bi_sector = bio_end_sector(bio), .bi_idx = bio->bi_vcnt };
	bio->bi_status = status;
	stub_atomic++;
	bio->bi_end_io(bio);
	if (--stub_atomic)
		stub_die("the end of a bio returned with a lock held");
}

void (*stub_queue_full)(void);

void submit_bio_noacct(struct bio *bio)
{
	void (*meanwhile)(void) = stub_queue_full;

	stub_might_sleep("submit_bio_noacct");
	stub_queue_full = NULL;
	if (meanwhile)
		meanwhile();
	if (bio->bi_end_io) {
		BUG_ON(stub_own_count == STUB_OWN || !bio->bi_iter.bi_size || bio_op(bio) != REQ_OP_READ);
		for (unsigned int i = 0; i < stub_own_count; i++)
			if (stub_own[i] == bio)
				stub_die("a bio of the target's own is sent twice");
		stub_own[stub_own_count++] = bio;
		stub_own_sent++;
		return;
	}
	BUG_ON(of(bio)->below || of(bio)->ended);
	of(bio)->below = 1;
}

void stub_submit(struct dm_target *ti, struct stub_bio *b)
{
	b->ti = ti;
	b->below = b->ended = 0;
	b->bio.bi_status = BLK_STS_OK;
	b->bio.bi_flags = 0x55;
	atomic_set(&b->bio.__bi_remaining, 1);
	memset(b->data, 0xa5, sizeof(b->data));
	switch (ti->type->map(ti, &b->bio)) {
	case DM_MAPIO_REMAPPED:
		submit_bio_noacct(&b->bio);
		break;
	case DM_MAPIO_KILL:
		b->bio.bi_status = BLK_STS_IOERR;
		bio_endio(&b->bio);
		break;
	case DM_MAPIO_SUBMITTED:
		break;
	default:
		stub_die("an answer of map that the stub does not know");
	}
	if (stub_atomic)
		stub_die("map returned with a lock held");
}

void stub_complete(struct stub_bio *b, blk_status_t status)
{
	BUG_ON(!b->below);
	/* Drivers leave the iterator where they stopped. */
	b->bio.bi_iter.bi_sector += bio_sectors(&b->bio);
	b->bio.bi_iter.bi_size = 0;
	b->bio.bi_status = status;
	stub_atomic++; /* an interrupt */
	bio_endio(&b->bio);
	if (--stub_atomic)
		stub_die("end_io returned with a lock held");
}

/* ---- dmsetup ---- */

static unsigned int split(char *words, char **argv, unsigned int most)
{
	unsigned int argc = 0;

	for (char *word = strtok(words, " "); word && argc < most; word = strtok(NULL, " "))
		argv[argc++] = word;
	return argc;
}

bool stub_suspended;

void stub_postsuspend(struct dm_target *ti)
{
	stub_suspends = true;
	ti->type->postsuspend(ti);
	stub_suspends = false;
}

int stub_preresume(struct dm_target *ti)
{
	int error;

	stub_suspends = true;
	error = ti->type->preresume(ti);
	stub_suspends = false;
	return error;
}

static struct dm_target *create(struct target_type *type, dev_t dev, char *words, bool readonly, bool resume, char **error)
{
	struct dm_target *ti = calloc(1, sizeof(*ti));
	char *argv[300];
	unsigned int argc = split(words, argv, ARRAY_SIZE(argv));

	ti->table = calloc(1, sizeof(*ti->table));
	ti->table->mode = readonly ? 0 : BLK_OPEN_WRITE;
	ti->table->md.disk.dev = dev;
	ti->table->md.suspended = stub_suspended;
	ti->type = type;
	ti->len = type == stub_leg_type ? stub_leg_sectors : 1 << 20;
	*error = NULL;
	if (type->ctr(ti, argc, argv)) {
		*error = ti->error;
		free(ti->table);
		free(ti);
		ti = NULL;
	} else if (resume) {
		BUG_ON(type->preresume && stub_preresume(ti));
		if (type->resume)
			type->resume(ti);
	}
	if (stub_atomic)
		stub_die("the constructor returned with a lock held");
	return ti;
}

struct dm_target *stub_create(char *words, bool readonly, char **error)
{
	return create(stub_type, 1, words, readonly, true, error);
}

struct dm_target *stub_load(char *words, bool readonly, char **error)
{
	return create(stub_type, 1, words, readonly, false, error);
}

struct dm_target *stub_create_leg(char *words, unsigned int minor)
{
	char *error;

	return create(stub_leg_type, MKDEV(253, minor), words, false, true, &error);
}

struct dm_target *stub_load_leg(char *words, unsigned int minor)
{
	char *error;

	return create(stub_leg_type, MKDEV(253, minor), words, false, false, &error);
}

void stub_discard(struct dm_target *ti)
{
	ti->type->dtr(ti);
	free(ti->table);
	free(ti);
}

void stub_remove(struct dm_target *ti)
{
	if (ti->type->presuspend)
		ti->type->presuspend(ti);
	if (ti->type->postsuspend)
		stub_postsuspend(ti);
	if (ti->type == stub_type && stub_own_count)
		stub_die("a bio of the target's own is in flight below a suspended device");
	stub_discard(ti);
}

int stub_message(struct dm_target *ti, char *words)
{
	char *argv[64], result[256];
	unsigned int argc = split(words, argv, ARRAY_SIZE(argv));
	int error = ti->type->message(ti, argc, argv, result, sizeof(result));

	if (stub_atomic)
		stub_die("a message returned with a lock held");
	return error;
}
