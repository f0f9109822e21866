// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks the races of trust (spec/md-volume.md, "Trust"): what user space found out about leg 1 is told to the kernel
 * while the leg is suspended and gets another drive, or the volume is suspended and resumed, and while a write flies
 * that could prove where the leg is.
 *
 * Three actors, with a few steps each, run in every order that device-mapper allows; and in each order, one step of
 * another actor runs within a step, at each place in turn where another CPU could act. After every step: if leg 1 is
 * trusted, the generation was read after the last event had begun, so that md was looked at after it. And a read goes
 * to a drive only while it is the leg's, on trust that was given for this drive. In the same way somebody writes to a leg, or
 * says that none is to be trusted, while a read is steered there.
 */
#include "check.h"

#define ARRAY 7
#define OFFSET 2048
#define STEPS 10

enum actor { USER, LEG, VOLUME, WRITER, ACTORS };

static struct dm_target *top, *legs[2], *reloaded;
static struct bio_vec vec, read_vec;
static struct stub_bio *whole, *parts[2];
static u32 done[ACTORS];  /* steps of each */
static bool suspended[2]; /* leg 1, the volume: dm keeps I/O away */
static u64 generation;
/*
 * Suspending and resuming, counted: those that have begun and ended, and had begun when user space read the generation.
 */
static u32 begun, ended, watched;
static bool told;  /* trust was sent */
static unsigned long orders, preempted, steered, moved; /* the last two: reads at leg 1, before and after it has moved */

static struct stub_bio *start(struct dm_target *ti, blk_opf_t opf, u64 sector, struct bio_vec *data)
{
	struct stub_bio *b = new_bio(opf, 0, sector, 4096);

	b->bio.bi_io_vec = data;
	stub_submit(ti, b);
	return b;
}

static void end(struct stub_bio **b)
{
	stub_complete(*b, BLK_STS_OK);
	CHECK((*b)->ended == 1, "an I/O is lost");
	free(*b);
	*b = NULL;
}

/* ---- steps: false if it cannot be taken now ---- */

static bool user(u32 step)
{
	char words[64];

	if (step == 0) {
		watched = begun;
		generation = ((struct linnet_dm *)top->private)->volume->ledger.legs[1].generation;
		return true;
	}
	if (step > 1)
		return false;
	snprintf(words, sizeof(words), "trust 1 %llu", (unsigned long long)generation);
	told = true;
	tell(top, words); /* it may be refused */
	return true;
}

/* The leg is suspended, its I/O ends, and it is resumed with another drive. */
static bool leg(u32 step)
{
	switch (step) {
	case 0:
		begun++;
		legs[1]->type->presuspend(legs[1]);
		ended = 1;
		return true;
	case 1:
		suspended[0] = true;
		return !parts[1];
	case 2:
		begun++;
		reloaded->type->resume(reloaded);
		ended = 2;
		return true;
	case 3:
		suspended[0] = false;
		return true;
	}
	return false;
}

/* The volume is suspended when its writes have ended. */
static bool volume(u32 step)
{
	switch (step) {
	case 0:
		if (whole || stub_readers)
			return false;
		suspended[1] = true;
		begun++;
		stub_postsuspend(top);
		ended = 1;
		return true;
	case 1:
		if (stub_readers)
			return false;
		begun++;
		CHECK(stub_preresume(top) == 0, "resume");
		ended = 2;
		return true;
	case 2:
		suspended[1] = false;
		return true;
	}
	return false;
}

static bool writer(u32 step)
{
	switch (step) {
	case 0:
		if (suspended[1])
			return false;
		whole = start(top, REQ_OP_WRITE, 0, &vec);
		parts[0] = start(legs[0], REQ_OP_WRITE, OFFSET, &vec);
		return true;
	case 1:
		if (suspended[0])
			return false;
		parts[1] = start(done[LEG] > 2 ? reloaded : legs[1], REQ_OP_WRITE, OFFSET, &vec);
		return true;
	case 2:
		end(&parts[1]);
		return true;
	case 3:
		end(&parts[0]);
		end(&whole);
		return true;
	}
	return false;
}

static bool (*const actors[ACTORS])(u32 step) = { user, leg, volume, writer };
static const u32 lengths[ACTORS] = { 2, 4, 3, 4 };

static bool take(enum actor actor)
{
	if (done[actor] == lengths[actor] || !actors[actor](done[actor]))
		return false;
	done[actor]++;
	return true;
}

/* ---- one order ---- */

static void holds(const char *when)
{
	bool known = told && watched >= ended;
	struct linnet_volume *v = ((struct linnet_dm *)top->private)->volume;
	struct stub_bio *b[2];

	CHECK(!(READ_ONCE(v->trusted) & 2) || known, "%s: trust in what leg 1 was (user %u, leg %u, volume %u, writer %u)", when,
	      done[USER], done[LEG], done[VOLUME], done[WRITER]);
	if (suspended[1])
		return;
	/* Two at a time, so that the policy sends one to each leg. */
	for (u32 i = 0; i < 2; i++) {
		b[i] = start(top, REQ_OP_READ, 800 + 8 * i, &read_vec);
		steered += b[i]->bio.bi_bdev == stub_devs[1].bdev;
		moved += b[i]->bio.bi_bdev == stub_devs[2].bdev;
		CHECK(b[i]->bio.bi_bdev != stub_devs[1].bdev || (known && (done[VOLUME] || !ended)),
		      "%s: a read goes to the drive that was", when);
		CHECK(b[i]->bio.bi_bdev != stub_devs[2].bdev || (known && watched == 2), "%s: a read goes to a new drive", when);
	}
	for (u32 i = 0; i < 2; i++)
		end(&b[i]);
}

static enum actor other;
static bool acted, beyond; /* the step has no such place */

static void act(void)
{
	acted = take(other);
	holds("within a step");
}

static void begin(void)
{
	static const char line[] = "md /dev/leg7 2 253:0 2048 253:1 2048 2 policy shortest-queue";
	char words[2][16] = { "/dev/leg0 16", "/dev/leg1 16" }, again[] = "/dev/leg2 16", *error;

	for (u32 k = 0; k < 2; k++)
		legs[k] = stub_create_leg(words[k], k);
	reloaded = stub_load_leg(again, 1);
	top = make(line, false, &error);
	memset(done, 0, sizeof(done));
	suspended[0] = suspended[1] = told = false;
	begun = ended = watched = 0;
	/* Leg 0 is trusted, and leg 1 is proven: so the only thing that it lacks is trust. */
	linnet_volume_trust(((struct linnet_dm *)top->private)->volume, 0,
			    ((struct linnet_dm *)top->private)->volume->ledger.legs[0].generation);
	for (u32 n = 0; n < 6; n++)
		take(WRITER);
	done[WRITER] = 0;
}

static void finish(void)
{
	stub_points = 0;
	for (u32 n = 0; n < STEPS; n++) /* what is in flight */
		for (u32 a = LEG; a < ACTORS; a++)
			if (a != VOLUME || done[VOLUME])
				take(a);
	CHECK(!whole && !parts[0] && !parts[1], "a write never ends");
	stub_run_works();
	stub_remove(top);
	stub_remove(reloaded);
	stub_discard(legs[1]);
	stub_remove(legs[0]);
}

/*
 * Runs the order, with a step of `second` at a place within its last step. Returns false if dm does not allow it, or if
 * that place does not exist.
 */
static bool run(const u8 *order, u32 length, u32 place, enum actor second)
{
	bool allowed = true;

	begin();
	for (u32 i = 0; i < length && allowed; i++) {
		other = second;
		acted = false;
		stub_other = act;
		stub_points = i + 1 == length ? place : 0;
		allowed = take(order[i]);
		beyond = stub_points != 0;
		stub_points = 0;
		if (allowed)
			holds("after a step");
	}
	if (allowed && place)
		allowed = acted;
	finish();
	return allowed;
}

/* All orders that begin like this one, of the actors in `cast`. */
static void explore(u8 *order, u32 length, u32 cast)
{
	u32 left[ACTORS];

	memcpy(left, lengths, sizeof(left));
	for (u32 i = 0; i < length; i++)
		left[order[i]]--;
	for (u8 a = 0; a < ACTORS; a++) {
		if (!(cast & BIT(a)) || !left[a])
			continue;
		order[length] = a;
		if (!run(order, length + 1, 0, a))
			continue;
		orders++;
		for (u8 b = 0; b < ACTORS; b++) {
			beyond = b == a || !(cast & BIT(b)) || !left[b];
			for (u32 place = 1; !beyond; place++)
				preempted += run(order, length + 1, place, b);
		}
		explore(order, length + 1, cast);
	}
}

/* Somebody writes to leg 0. */
static void write_around(void)
{
	static struct bio_vec foreign;
	struct stub_bio *b = start(legs[0], REQ_OP_WRITE, OFFSET + 800, &foreign);

	acted = true;
	end(&b);
}

static void say_so(void)
{
	acted = true;
	CHECK(tell(top, "distrust") == 0, "distrust");
}

/*
 * Somebody writes to the leg, or says that it is not to be trusted, while a read is being steered there, at each place in
 * turn, or while it is there: in any case it ends with md, whose drives try again by themselves.
 */
static void check_in_between(void (*event)(void))
{
	unsigned long fell_back = 0, sent_again = 0;

	for (u32 place = 1; !sent_again; place++) {
		struct stub_bio *b;

		begin();
		trust_both(top, legs);
		acted = false;
		stub_other = event;
		stub_points = place;
		b = start(top, REQ_OP_READ, 800, &read_vec);
		stub_points = 0;
		fell_back += acted;
		if (!acted) {
			CHECK(b->bio.bi_bdev == stub_devs[0].bdev, "not steered");
			event();
			stub_complete(b, BLK_STS_OK);
			CHECK(!b->ended, "what was read at a drive is taken");
			stub_run_works();
			sent_again++;
		}
		CHECK(b->below && b->bio.bi_bdev == stub_devs[ARRAY].bdev && !(b->bio.bi_opf & LINNET_FAILFAST),
		      "place %u: not with md, or with flags %x", place, b->bio.bi_opf);
		end(&b);
		finish();
	}
	CHECK(fell_back > 2, "%lu reads that were not steered in the end", fell_back);
}

void check_trust_races(void)
{
	u8 order[STEPS];

	check_in_between(write_around);
	check_in_between(say_so);
	explore(order, 0, BIT(USER) | BIT(LEG) | BIT(WRITER));
	explore(order, 0, BIT(USER) | BIT(VOLUME) | BIT(WRITER));
	CHECK(preempted > 1000 && steered && moved, "%lu preempted steps, %lu and %lu reads", preempted, steered, moved);
	printf("trust: %lu orders of suspending, writing and trusting, and %lu steps within steps\n", orders, preempted);
}
