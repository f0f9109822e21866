/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the observer needs of the kernel: the few fields that it reads, and the few calls that it makes.
 *
 * The loader finds every field by name in the running kernel's type information, so that order, offset and size here do
 * not matter (CO-RE). A name with three underscores is a flavour: the loader drops what follows them.
 */
#ifndef LINNET_TUNE_KERNEL_H
#define LINNET_TUNE_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;
/* As core/reads.h names them. */
typedef u32 uint32_t;
typedef u64 uint64_t;

#define RELOCATED __attribute__((preserve_access_index))
#define SEC(name) __attribute__((section(name), used))
#define ALWAYS_INLINE static inline __attribute__((always_inline))
/* True where the running kernel has the field. */
#define HAS(field) __builtin_preserve_field_info(field, 2)
/* Where the running kernel has it, in bytes. */
#define OFFSET(type, field) __builtin_preserve_field_info(((type *)0)->field, 0)

/* Maps are described by the types of the members: an array's length carries a number. */
#define MAP_NUMBER(name, value) int(*name)[value]
#define MAP_TYPE(name, kind) kind *name

enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_PERCPU_HASH = 5, MAP_PERCPU_ARRAY = 6, MAP_LRU_HASH = 9 };
enum { MAP_NO_PREALLOC = 1 };
enum { MAP_NEW_ONLY = 1 };

struct task_struct;

static void *(*const map_find)(void *map, const void *key) = (void *)1;
static long (*const map_put)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_drop)(void *map, const void *key) = (void *)3;
static u64 (*const time_ns)(void) = (void *)5;
static u32 (*const this_cpu)(void) = (void *)8;
static u64 (*const ticks)(void) = (void *)118;
static long (*const probe_read)(void *to, u32 bytes, const void *from) = (void *)113;
static struct task_struct *(*const current_task)(void) = (void *)158;
static long (*const seq_put)(void *seq, const void *data, u32 bytes) = (void *)127;

struct backing_dev_info {
	unsigned long ra_pages;
} RELOCATED;

struct super_block {
	u32 s_dev;
	struct backing_dev_info *s_bdi;
} RELOCATED;

struct inode {
	unsigned long i_ino;
	struct super_block *i_sb;
	long long i_size;
} RELOCATED;

struct address_space {
	struct inode *host;
} RELOCATED;

/* Until 6.17 the flags are a number, from 6.18 on a structure around it. */
struct folio {
	unsigned long flags;
	struct address_space *mapping;
	unsigned long index;
} RELOCATED;

struct flag_word {
	unsigned long f;
} RELOCATED;

struct folio___wrapped {
	struct flag_word flags;
} RELOCATED;

/* The order of a large folio: its second page's flags from 6.6 on, a byte of its own before. */
struct folio___flags {
	unsigned long _flags_1;
} RELOCATED;

struct folio___byte {
	u8 _folio_order;
} RELOCATED;

enum pageflags { PG_head = 6 };

struct kernfs_node {
	u64 id;
} RELOCATED;

struct cgroup {
	struct kernfs_node *kn;
} RELOCATED;

struct css_set {
	struct cgroup *dfl_cgrp;
} RELOCATED;

struct task_struct {
	int pid;
	int tgid;
	struct css_set *cgroups;
} RELOCATED;

struct file_ra_state {
	u32 ra_pages;
} RELOCATED;

struct file {
	u32 f_mode;
	u32 f_flags;
	struct inode *f_inode;
	struct address_space *f_mapping;
	struct file_ra_state f_ra;
} RELOCATED;

struct readahead_control {
	struct address_space *mapping;
	struct file_ra_state *ra;
} RELOCATED;

/* f_mode: the owner gave advice. src/openfile.rs has the same. */
enum { MODE_RANDOM = 0x1000, MODE_NOREUSE = 0x800000 };
enum { VM_FAULT_NOPAGE = 0x100 };

/* ki_flags: the read is one with O_DIRECT; it may not wait, or calls back where it would have to. */
enum { CALL_NOWAIT = 1 << 3, CALL_DIRECT = 1 << 17, CALL_BACK = 1 << 19 };

struct kiocb {
	struct file *ki_filp;
	s64 ki_pos;
	int ki_flags;
} RELOCATED;

struct iov_iter {
	unsigned long count;
} RELOCATED;

struct vm_area_struct {
	unsigned long vm_flags;
	struct file *vm_file;
} RELOCATED;

/* vm_flags: the owner gave advice by madvise. src/advised.rs has the same. */
enum { VM_SEQ_READ = 0x8000, VM_RAND_READ = 0x10000 };

struct vm_fault {
	struct vm_area_struct *vma;
	unsigned long pgoff;
} RELOCATED;

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} RELOCATED;

struct bpf_iter__task_vma {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct vm_area_struct *vma;
} RELOCATED;

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	u32 fd;
	struct file *file;
} RELOCATED;

#endif
