/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The parts of bios, firmware and the device-mapper core that kernel/dm uses; see kernel.h. The test plays the
 * application above the target and the devices below it.
 */
#ifndef STUB_BLOCK_H
#define STUB_BLOCK_H

#include "kernel.h"

/* ---- bios ---- */

typedef u8 blk_status_t;
#define BLK_STS_OK 0
#define BLK_STS_NOTSUPP 1
#define BLK_STS_TIMEOUT 2
#define BLK_STS_NOSPC 3
#define BLK_STS_MEDIUM 7
#define BLK_STS_RESOURCE 9
#define BLK_STS_IOERR 10
#define BLK_STS_DM_REQUEUE 11
#define BLK_STS_AGAIN 12
#define BLK_STS_DURATION_LIMIT 17
#define BLK_STS_INVAL 19
int blk_status_to_errno(blk_status_t status);

typedef u32 blk_opf_t;
enum req_op {
	REQ_OP_READ = 0, REQ_OP_WRITE = 1, REQ_OP_FLUSH = 2, REQ_OP_DISCARD = 3, REQ_OP_SECURE_ERASE = 5,
	REQ_OP_WRITE_ZEROES = 9, REQ_OP_MAX = 255,
};
#define REQ_OP_MASK 0xffu
#define REQ_FAILFAST_DEV (1u << 8)
#define REQ_FAILFAST_TRANSPORT (1u << 9)
#define REQ_FAILFAST_DRIVER (1u << 10)
#define REQ_SYNC (1u << 11)
#define REQ_META (1u << 12)
#define REQ_PRIO (1u << 13)
#define REQ_NOMERGE (1u << 14)
#define REQ_FUA (1u << 17)
#define REQ_PREFLUSH (1u << 18)
#define REQ_RAHEAD (1u << 19)
#define REQ_NOWAIT (1u << 21)
#define REQ_POLLED (1u << 22)
#define REQ_SWAP (1u << 24)
#define REQ_DRV (1u << 25) /* each driver's own */
#define SECTOR_SHIFT 9
#define SECTOR_SIZE 512

struct kobject { int stub; };
struct device { struct kobject kobj; };
struct gendisk { struct device device; dev_t dev; };
struct block_device { dev_t bd_dev; char name[16]; sector_t sectors; unsigned int block_bytes; bool waits; };
#define bdev_nr_sectors(b) ((b)->sectors)
#define bdev_logical_block_size(b) ((b)->block_bytes)
#define LINNET_BDEV_NOWAIT
#define bdev_nowait(b) (!(b)->waits)
struct cgroup_subsys_state { int references; };
#define css_get(css) ((css)->references++)
#define css_put(css) ((css)->references--)
struct bvec_iter { sector_t bi_sector; unsigned int bi_size, bi_idx, bi_bvec_done; };
struct bio_vec { struct page *bv_page; unsigned int bv_len, bv_offset; };
#define BLK_QC_T_NONE -1U

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	blk_opf_t bi_opf;
	unsigned short bi_flags;
	unsigned short bi_ioprio;
	blk_status_t bi_status;
	atomic_t __bi_remaining;
	unsigned int bi_cookie;
	struct bvec_iter bi_iter;
	struct bio_vec *bi_io_vec;
	unsigned short bi_vcnt, bi_max_vecs;
	void (*bi_end_io)(struct bio *bio);
	void *bi_private;
	struct cgroup_subsys_state *bi_css;
	void *bi_integrity, *bi_crypt_context;
};
#define bio_op(b) ((b)->bi_opf & REQ_OP_MASK)
#define op_is_write(op) ((op) & 1)
#define bio_data_dir(b) (op_is_write(bio_op(b)) ? 1 : 0)
#define bio_sectors(b) ((b)->bi_iter.bi_size >> SECTOR_SHIFT)
#define bio_end_sector(b) ((b)->bi_iter.bi_sector + bio_sectors(b))
#define bio_set_dev(b, d) ((void)((b)->bi_bdev = (d)))
#define bio_integrity(b) ((b)->bi_integrity)
#define bio_has_crypt_ctx(b) ((b)->bi_crypt_context != NULL)
#define CONFIG_BLK_CGROUP 1
#define bio_blkcg_css(bio) ((bio)->bi_css)
#define bio_associate_blkg_from_css(bio, css) ((bio)->bi_css = (css))
#define bio_uninit(b) ((void)(b))
void bio_init(struct bio *bio, struct block_device *bdev, struct bio_vec *vecs, unsigned short count, blk_opf_t opf);
void __bio_add_page(struct bio *bio, struct page *page, unsigned int size, unsigned int offset);
void bio_copy_data(struct bio *to, struct bio *from);
void bio_endio(struct bio *bio);
void submit_bio_noacct(struct bio *bio);

struct bio_list { struct bio *head, *tail; };
#define bio_list_init(l) ((l)->head = (l)->tail = NULL)
extern unsigned long stub_looked_at; /* entries of lists of bios, one by one */
#define bio_list_for_each(b, l) for ((b) = (l)->head; (b) && ++stub_looked_at; (b) = (b)->bi_next)
#define bio_list_empty(l) (!(l)->head)
static inline void bio_list_add(struct bio_list *l, struct bio *bio)
{
	bio->bi_next = NULL;
	if (l->tail)
		l->tail->bi_next = bio;
	else
		l->head = bio;
	l->tail = bio;
}
static inline void bio_list_merge_head(struct bio_list *l, struct bio_list *first)
{
	if (!first->head)
		return;
	if (l->head)
		first->tail->bi_next = l->head;
	else
		l->tail = first->tail;
	l->head = first->head;
}
static inline struct bio *bio_list_pop(struct bio_list *l)
{
	struct bio *bio = l->head;

	if (bio) {
		l->head = bio->bi_next;
		if (!l->head)
			l->tail = NULL;
		bio->bi_next = NULL;
	}
	return bio;
}

/* ---- firmware: files that the test provides ---- */

struct firmware { size_t size; const u8 *data; };
int request_firmware_direct(const struct firmware **file, const char *name, struct device *device);
void release_firmware(const struct firmware *file);
/* Adds a file; NULL removes it. */
void stub_firmware(const char *name, const void *data, size_t size);
/* Adds a file from disk as linnet/m.linnet. Ends the program if it cannot be read. */
void stub_firmware_file(const char *path);

/* ---- device-mapper ---- */

#define DM_NAME "device-mapper"
#define DM_TARGET_SINGLETON 0x1
#define DM_TARGET_NOWAIT 0x80
#define DM_MAPIO_SUBMITTED 0
#define DM_MAPIO_REMAPPED 1
#define DM_MAPIO_REQUEUE 2
#define DM_MAPIO_KILL 4
#define DM_ENDIO_DONE 0
#define DM_ENDIO_INCOMPLETE 1
#define DM_ENDIO_REQUEUE 2
#define BLK_OPEN_WRITE 2u
#define FMODE_WRITE 2u
#define KOBJ_CHANGE 2
typedef enum { STATUSTYPE_INFO, STATUSTYPE_TABLE, STATUSTYPE_IMA } status_type_t;

struct mapped_device { struct gendisk disk; bool suspended; };
struct dm_table { struct mapped_device md; fmode_t mode; };
struct dm_dev { struct block_device *bdev; fmode_t mode; char name[16]; unsigned int refs; };
/* A kernel before 6.11 has no such feature: a target says of itself that it needs stable pages. */
struct queue_limits { unsigned int features; };
#ifndef STUB_OLD_LIMITS
#define BLK_FEAT_STABLE_WRITES (1u << 5)
#endif
struct dm_target;
typedef int (*iterate_devices_callout_fn)(struct dm_target *ti, struct dm_dev *dev, sector_t start, sector_t len,
					  void *data);
struct target_type {
	u64 features;
	const char *name;
	void *module;
	unsigned int version[3];
	int (*ctr)(struct dm_target *ti, unsigned int argc, char **argv);
	void (*dtr)(struct dm_target *ti);
	int (*map)(struct dm_target *ti, struct bio *bio);
	int (*end_io)(struct dm_target *ti, struct bio *bio, blk_status_t *error);
	void (*presuspend)(struct dm_target *ti);
	void (*presuspend_undo)(struct dm_target *ti);
	void (*postsuspend)(struct dm_target *ti);
	int (*preresume)(struct dm_target *ti);
	void (*resume)(struct dm_target *ti);
	void (*status)(struct dm_target *ti, status_type_t type, unsigned int flags, char *result, unsigned int maxlen);
	int (*message)(struct dm_target *ti, unsigned int argc, char **argv, char *result, unsigned int maxlen);
	int (*iterate_devices)(struct dm_target *ti, iterate_devices_callout_fn fn, void *data);
	void (*io_hints)(struct dm_target *ti, struct queue_limits *limits);
};
struct dm_target {
	struct dm_table *table;
	struct target_type *type;
	sector_t begin, len;
	u32 max_io_len;
	unsigned int num_flush_bios, num_discard_bios, num_secure_erase_bios, num_write_zeroes_bios;
	unsigned int per_io_data_size;
	void *private;
	char *error;
	bool flush_supported, discards_supported, needs_stable_writes;
};

struct dm_arg_set { unsigned int argc; char **argv; };
struct dm_arg { unsigned int min, max; char *error; };
int dm_read_arg(const struct dm_arg *arg, struct dm_arg_set *set, unsigned int *value, char **error);
int dm_read_arg_group(const struct dm_arg *arg, struct dm_arg_set *set, unsigned int *count, char **error);
const char *dm_shift_arg(struct dm_arg_set *set);
void dm_consume_args(struct dm_arg_set *set, unsigned int n);

int dm_register_target(struct target_type *type);
void dm_unregister_target(struct target_type *type);
int dm_get_device(struct dm_target *ti, const char *path, fmode_t mode, struct dm_dev **dev);
void dm_put_device(struct dm_target *ti, struct dm_dev *dev);
#define dm_table_get_mode(t) ((t)->mode)
#define dm_table_get_md(t) (&(t)->md)
#define dm_table_device_name(t) ((void)(t), "253:0")
#define dm_suspended(ti) ((ti)->table->md.suspended)
#define dm_disk(md) (&(md)->disk)
#define disk_to_dev(d) (&(d)->device)
#define disk_devt(d) ((d)->dev)
#define MAJOR(dev) ((unsigned int)(dev) >> 20)
#define MINOR(dev) ((unsigned int)(dev) & 0xfffff)
#define MKDEV(major, minor) ((dev_t)((major) << 20 | (minor)))
int lookup_bdev(const char *path, dev_t *dev);
#define dm_target_offset(ti, sector) ((sector) - (ti)->begin)
#define dm_per_bio_data(b, size) stub_per_bio_data(b, size)
void *stub_per_bio_data(struct bio *bio, size_t size);
void dm_table_event(struct dm_table *table);
int kobject_uevent_env(struct kobject *kobject, int action, char **words);
#define DMEMIT(...) (sz += sz >= maxlen ? 0 : (unsigned int)scnprintf(result + sz, maxlen - sz, __VA_ARGS__))
#define DMEMIT_TARGET_NAME_VERSION(y) DMEMIT("target_name=%s,target_version=%u.%u.%u", (y)->name, (y)->version[0], \
					     (y)->version[1], (y)->version[2])
#define DMERR(...) stub_log(__VA_ARGS__)
#define DMWARN(...) stub_log(__VA_ARGS__)
#define DMINFO(...) stub_log(__VA_ARGS__)
#define DMERR_LIMIT(...) stub_log(__VA_ARGS__)
#define DMWARN_LIMIT(...) stub_log(__VA_ARGS__)
__attribute__((format(printf, 1, 2))) void stub_log(const char *format, ...);

/* ---- tracepoints: functions of the test ---- */

#define TP_PROTO(...) __VA_ARGS__
#ifdef STUB_NO_TRACE /* as in a kernel without tracing, except for the branch */
#define TRACE_EVENT(name, proto, ...) \
	static inline void trace_##name(proto) {} \
	static inline bool trace_##name##_enabled(void) { return false; }
#else
#define TRACE_EVENT(name, proto, ...) \
	void trace_##name(proto); \
	static inline bool trace_##name##_enabled(void) { return true; }
#endif

/* ---- controlled by the test ---- */

#define STUB_TAG 0x5004 /* best effort, level 4, with a hint: of reads that may be revoked */
#define STUB_LEGS 8
extern struct target_type *stub_type;       /* registered: linnet */
extern struct target_type *stub_leg_type;   /* linnet-leg */
extern struct dm_dev stub_devs[STUB_LEGS];  /* /dev/leg0 ... */
extern unsigned int stub_events, stub_logged;
extern char stub_said[512]; /* what was logged last */
extern bool stub_verbose;

/* One bio of the application, with the target's data before it. */
#define STUB_BIO_DATA 1024
struct stub_bio {
	char data[STUB_BIO_DATA];
	struct bio bio;
	struct dm_target *ti;
	unsigned int below; /* submitted to a device and not yet ended */
	unsigned int ended; /* times that the application was notified of its end */
	struct stub_bio *next;
};
/*
 * Submits a bio to the target like dm core. Afterwards it has ended, or is below at bio.bi_bdev, or the target holds
 * it.
 */
void stub_submit(struct dm_target *ti, struct stub_bio *b);
/* The device completes it. */
void stub_complete(struct stub_bio *b, blk_status_t status);
/*
 * Bios of the target's own that are at a device, in the order in which they were sent. The device completes one: a read
 * that succeeds leaves `fill` in every byte.
 */
#define STUB_OWN 64
extern struct bio *stub_own[STUB_OWN];
extern unsigned int stub_own_count;
extern unsigned long stub_own_sent; /* so far */
/* What happens while who submits a bio waits for a place in the drive's queue; once. */
extern void (*stub_queue_full)(void);
void stub_complete_own(unsigned int i, blk_status_t status, u8 fill);
/* dmsetup create and remove. If the table is refused, the target is NULL and *error has the reason. */
struct dm_target *stub_create(char *words, bool readonly, char **error);
/* A further table of a device, which is not resumed (dmsetup load). The device may be suspended. */
extern bool stub_suspended;
struct dm_target *stub_load(char *words, bool readonly, char **error);
/* The same for a device of the target linnet-leg, which gets the number 253:MINOR and so many sectors. */
#define STUB_LEG_SECTORS ((1 << 20) + 4096)
extern sector_t stub_leg_sectors;
struct dm_target *stub_create_leg(char *words, unsigned int minor);
/* A further table of that device, which is not resumed (dmsetup load); and the end of a table that was suspended. */
struct dm_target *stub_load_leg(char *words, unsigned int minor);
void stub_discard(struct dm_target *ti);
/* Steps of dmsetup suspend and resume, during which I/O is held. */
void stub_postsuspend(struct dm_target *ti);
int stub_preresume(struct dm_target *ti);
void stub_remove(struct dm_target *ti);
int stub_message(struct dm_target *ti, char *words);

#endif
