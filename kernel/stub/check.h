/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by the checks. Every failure prints the seed to repeat it with. */
#ifndef STUB_CHECK_H
#define STUB_CHECK_H

#include "block.h"
#include "linnet-dm.h"
#include "policy.h"

extern unsigned long checks, failures;
extern u64 seed;

#define CHECK(holds, ...)                                                                          \
	do {                                                                                       \
		checks++;                                                                          \
		if (!(holds)) {                                                                    \
			failures++;                                                                \
			fprintf(stderr, "%s:%d: %s (seed %lu): ", __FILE__, __LINE__, #holds, seed); \
			fprintf(stderr, __VA_ARGS__);                                              \
			fputc('\n', stderr);                                                       \
			if (failures > 20)                                                         \
				stub_die("too many failures");                                     \
		}                                                                                  \
	} while (0)

/* Seeded random numbers: the next one, and one below n. */
u64 chance(void);
void chance_from(u64 start);
static inline u32 below(u32 n) { return (u32)(chance() >> 32) % n; }

/* A target of this table line (without start, length and name), or NULL. */
struct dm_target *make(const char *line, bool readonly, char **error);
/* A target that must be accepted. */
struct dm_target *must(const char *line);
int tell(struct dm_target *ti, const char *words);
/* The status line's number after a key, of the target (leg -1) or of one leg. */
u64 count_of(struct dm_target *ti, const char *key, int leg);
void table_of(struct dm_target *ti, char *text, size_t size);

/* Model files by name, as made by make_model.py. */
struct file { u8 *bytes; size_t size; };
struct file load_file(const char *name);
/* Stores that file as linnet/<as>. */
void put_model(const char *name, const char *as);

/* A bio of the application. */
struct stub_bio *new_bio(blk_opf_t opf, u16 ioprio, u64 sector, u32 size_bytes);

/* The devices answer the probes that the target has sent; no other bio of its own is in flight. */
void end_probes(struct dm_target *ti);

/* Two legs for a volume above md, each from sector 16 of its device on. */
void make_legs(struct dm_target *legs[2]);

/* Trusts both legs of a volume above md: by message, and a write that md sends to both. Their data begin at sector 2048. */
void trust_both(struct dm_target *volume, struct dm_target *const legs[2]);

/* The policy of the last decision that was traced. */
extern u32 policy_traced;

/* State of a replica in the status line. */
char state_of(struct dm_target *ti, u32 leg);

void check_tables(unsigned long inputs);
void check_models(unsigned long inputs);
void check_model_rules(void);
void check_reads(unsigned long inputs);
void check_revoke(void);
void check_service(void);
void check_sharing(void);
void check_status(void);
void check_flags(void);
void check_again(void);
void check_volume(void);
void check_held_writes(void);
void check_trust_races(void);
void check_hedges(void);
void check_probes(void);

/* Random devices for so many seconds, or so many cases from the first one on. Not 0 if something was found. */
int fuzz(u64 from, unsigned int seconds, u64 first, u64 cases);

#endif
