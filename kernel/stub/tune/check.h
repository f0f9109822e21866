/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by the checks of kernel/tune. The first that fails ends the program. */
#ifndef STUB_TUNE_CHECK_H
#define STUB_TUNE_CHECK_H

#include "files.h"
#include "linnet-tune.h"

#define CHECK(what) ((what) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what), exit(1)))
#define SECOND NSEC_PER_SEC

/* A file of debugfs, to be freed, and whether it contains `words`. */
char *said(const char *name);
bool says(const char *name, const char *words);
/* Time passes, and the worker runs when it is due. */
void let_pass(u64 ns);
void read_at_random(struct file *open, unsigned int count, bool mapped);
void scan(struct file *open, unsigned int pages);
/* Opens a file again, with `own` pages of readahead. */
struct file *opened_with(struct stub_file *file, unsigned int own);
/* A file that was read until the module decided on it, and its open file, which began with `own` pages. */
struct file *decided_on(struct stub_file *file, unsigned long inode, unsigned int own, bool at_random);
/* What was counted of a file since the worker last looked. */
struct linnet_counts counts_of(const struct stub_file *file);

/* Each takes one number, and is a process of its own. counts.c: */
void nothing_is_demanded_past_the_end(unsigned int has_demands);
void a_folio_is_all_of_its_pages(unsigned int has_demands);
void a_read_is_counted_whole(unsigned int has_demands);
void a_splice_is_a_read(unsigned int has_demands);
void a_read_that_is_tried_again_counts_once(unsigned int has_demands);
void a_direct_read_demands_nothing(unsigned int has_demands);
/* models.c */
void a_model_decides_and_learns(unsigned int unused);
void a_model_less_sure_than_its_floor_leaves_it_to_the_rule(unsigned int unused);
void a_short_window_is_not_learned(unsigned int unused);
enum { MODEL_FIRST, LEARN_FIRST, NO_MODEL, NO_CLASS, LINES };
void the_command_line_names_model_and_class(unsigned int line);
void a_model_file_is_bounded(unsigned int unused);
/* values.c */
enum { BEFORE_A_READ, BEFORE_UNLOADING, WHILE_UNLOADING, SETS };
void the_owner_keeps_what_he_sets(unsigned int when);
void open_files_that_are_left_alone(unsigned int unused);
void a_dry_run_sets_nothing(unsigned int unused);
void at_its_own_value_a_file_has_no_target(unsigned int unused);
void values_are_back_before_ends_are_unseen(unsigned int unused);

#endif
