/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Part of conformance.c: checks choices among replicas, whole decisions, and second copies. */
#ifndef LINNET_CHOICES_H
#define LINNET_CHOICES_H

#include "choose.h"

/* Behind the last replica of a line stand others that every policy would take: nothing may look at them. */
static void set_behind(struct linnet_candidate *replicas, uint32_t count)
{
	for (uint32_t k = count; k < LINNET_REPLICAS_MAX; k++)
		replicas[k] = (struct linnet_candidate){ .eligible = 1, .known = 1, .score = INT32_MIN };
}

static void choices(char **words, size_t count)
{
	struct linnet_candidate replicas[LINNET_REPLICAS_MAX] = { 0 };
	uint32_t replica_count = (uint32_t)(count - 7) / 8;
	struct linnet_settings settings;
	struct linnet_choice choice;

	linnet_settings_init(&settings);
	if (replica_count < 1 || replica_count > LINNET_REPLICAS_MAX || count != 7 + 8 * (size_t)replica_count) {
		fail("words");
		return;
	}
	for (uint32_t k = 0; k < replica_count; k++) {
		char **word = words + 7 + 8 * k;

		replicas[k].eligible = (uint8_t)number(word[0]);
		replicas[k].known = (uint8_t)number(word[1]);
		replicas[k].slow = (uint8_t)number(word[2]);
		replicas[k].probing = (uint8_t)number(word[3]);
		replicas[k].score = (int32_t)number(word[4]);
		replicas[k].in_flight = (uint32_t)number(word[5]);
		replicas[k].ewma_ns = (uint64_t)number(word[6]);
		replicas[k].learnt_ns = (uint64_t)number(word[7]);
	}
	set_behind(replicas, replica_count);
	settings.age_ns = (uint64_t)number(words[3]);
	choice = linnet_choose(&settings, (uint32_t)number(words[1]), replicas, replica_count, (uint64_t)number(words[2]));
	check(choice.replica == (uint32_t)number(words[4]), "replica");
	check(choice.probe == number(words[5]), "probe");
	check(choice.predicted_fast == number(words[6]), "predicted fast");
}

/* A line of decide.txt has DECIDE_WORDS words about the decision, then DECIDE_REPLICA words about each replica. */
#define DECIDE_WORDS 16
#define DECIDE_REPLICA 13

static uint64_t word(char **words, size_t n)
{
	return (uint64_t)number(words[n]);
}

static void describe_candidate(struct linnet_decision *decision, uint32_t k, char **words)
{
	struct linnet_candidate *candidate = &decision->candidates[k];

	memset(candidate, 0, sizeof(*candidate));
	candidate->score = LINNET_SCORE_LEAST;
	candidate->eligible = !word(words, 1);
	candidate->probing = (uint8_t)word(words, 6);
	candidate->in_flight = (uint32_t)word(words, 8);
	candidate->ewma_ns = word(words, 9);
	candidate->learnt_ns = word(words, 10);
	candidate->revokes_in_row = (uint32_t)word(words, 11);
}

static void ask_candidate(const struct linnet_decision *decision, struct linnet_candidate *candidate, char **words)
{
	if (decision->asks_trees) {
		linnet_candidate_scored(candidate, (int32_t)number(words[7]), (int32_t)number(words[12]));
		candidate->known = (uint8_t)word(words, 2);
		return;
	}
	candidate->known = word(words, 3) && word(words, 4);
	candidate->slow = candidate->known && word(words, 5);
}

/* Where the states of the replicas decide, the decision is that of all steps. */
static void same_at_once(const struct linnet_decision *whole, const struct linnet_settings *settings, char **words)
{
	struct linnet_replica states[LINNET_REPLICAS_MAX];
	struct linnet_decision own;

	/* No replica is out of service for longer. */
	if (whole->now_ns == UINT64_MAX)
		return;
	/* Those behind the last would be preferred. */
	memset(states, 0, sizeof(states));
	memset(&own, 0xa5, sizeof(own));
	own.usable = whole->usable;
	own.trees = whole->trees;
	own.networks = whole->networks;
	own.may_revoke = whole->may_revoke;
	own.now_ns = whole->now_ns;
	own.count = whole->count;
	for (uint32_t k = 0; k < own.count; k++, words += DECIDE_REPLICA) {
		states[k].out_until_ns = word(words, 1) ? UINT64_MAX : 0;
		states[k].in_flight = (uint32_t)word(words, 8);
		states[k].ewma_ns = word(words, 9);
		states[k].learnt_ns = word(words, 10);
	}
	if (!linnet_decide_at_once(&own, settings, states, sizeof(*states)))
		return;
	check(own.policy == whole->policy && own.asked == whole->asked && own.scored == whole->scored, "policy, at once");
	check(own.choice.replica == whole->choice.replica, "replica, at once");
	check(own.choice.probe == whole->choice.probe, "probe, at once");
	check(own.verdict == whole->verdict && own.denied == whole->denied, "verdict, at once");
	check(own.in_service == whole->in_service, "in service, at once");
}

/* How many replicas a line describes behind these words; 0, which is a failure, if words are missing or too many. */
static uint32_t replicas_behind(size_t head, size_t count)
{
	size_t replicas = count > head ? (count - head) / DECIDE_REPLICA : 0;

	if (replicas < 1 || replicas > LINNET_REPLICAS_MAX || count != head + DECIDE_REPLICA * replicas) {
		fail("words");
		return 0;
	}
	return (uint32_t)replicas;
}

/* Begins a decision: the replicas of the line. What is not an input is written before it is read. Returns those in service. */
static uint32_t begin_decision(struct linnet_decision *decision, uint64_t now_ns, uint32_t replicas, char **first)
{
	uint32_t in_service = 0;

	memset(decision, 0xa5, sizeof(*decision));
	decision->usable = decision->trees = decision->networks = decision->may_revoke = 0;
	decision->now_ns = now_ns;
	decision->count = (uint8_t)replicas;
	for (uint32_t k = 0; k < replicas; k++, first += DECIDE_REPLICA) {
		decision->usable |= (uint8_t)(word(first, 0) << k);
		in_service |= (word(first, 0) && !word(first, 1)) << k;
		decision->trees |= (uint8_t)(word(first, 2) << k);
		decision->networks |= (uint8_t)(word(first, 3) << k);
	}
	return in_service;
}

static void describe_candidates(struct linnet_decision *decision, char **first)
{
	for (uint32_t k = 0; k < decision->count; k++)
		describe_candidate(decision, k, first + DECIDE_REPLICA * k);
}

/* copy POLICY ON NOW AGE = POLICY REPLICA, replicas: of the second copy of a late read. */
#define COPY_WORDS 8

static void copies(char **words, size_t count)
{
	uint32_t replicas = replicas_behind(COPY_WORDS, count), in_service, k;
	char **first = words + COPY_WORDS;
	struct linnet_decision decision;
	struct linnet_settings settings;

	if (!replicas)
		return;
	linnet_settings_init(&settings);
	settings.policy = (uint32_t)word(words, 1);
	settings.on = (uint32_t)word(words, 2);
	settings.age_ns = word(words, 4);
	in_service = begin_decision(&decision, word(words, 3), replicas, first);
	decision.may_revoke = 1; /* of no effect */
	linnet_copy_begin(&decision, &settings);
	describe_candidates(&decision, first);
	while ((k = linnet_copy_next(&decision)) != LINNET_NO_REPLICA)
		ask_candidate(&decision, &decision.candidates[k], first + DECIDE_REPLICA * k);
	check(decision.policy == word(words, 6), "policy of a copy");
	check(decision.choice.replica == word(words, 7), "replica of a copy");
	check(!decision.asked && !decision.choice.probe, "a copy asks no network and is no probe");
	check(decision.in_service == in_service, "in service, of a copy");
}

/* decide POLICY ON TAGGED BUDGET NOW AGE = POLICY BY_TREES ASKED REPLICA PROBE PREDICTED VERDICT DENIED, replicas. */
static void decisions(char **words, size_t count)
{
	uint32_t replicas, in_service, k;
	char **first = words + DECIDE_WORDS;
	struct linnet_decision decision;
	struct linnet_budget revokes = { 0 };
	struct linnet_settings settings;

	if (strcmp(words[0], "copy") == 0) {
		copies(words, count);
		return;
	}
	replicas = replicas_behind(DECIDE_WORDS, count);
	if (!replicas)
		return;
	linnet_settings_init(&settings);
	settings.policy = (uint32_t)word(words, 1);
	settings.on = (uint32_t)word(words, 2);
	settings.age_ns = word(words, 6);
	check(linnet_settings_check(&settings) == 0, "settings refused");
	if (!word(words, 4))
		linnet_budget_empty(&revokes, &settings.revokes);
	in_service = begin_decision(&decision, word(words, 5), replicas, first);
	decision.may_revoke = (uint8_t)word(words, 3);
	linnet_decision_begin(&decision, &settings);
	describe_candidates(&decision, first);
	while ((k = linnet_decision_next(&decision, &settings, &revokes)) != LINNET_NO_REPLICA)
		ask_candidate(&decision, &decision.candidates[k], first + DECIDE_REPLICA * k);
	check(decision.policy == word(words, 8), "policy");
	check(decision.by_trees == word(words, 9), "by trees");
	check(decision.asked == word(words, 10), "networks asked");
	check(decision.choice.replica == word(words, 11), "replica");
	check(decision.choice.probe == word(words, 12), "probe");
	check(decision.choice.predicted_fast == word(words, 13), "predicted fast");
	check(decision.verdict == word(words, 14), "verdict");
	check(decision.denied == word(words, 15), "denied");
	check(decision.in_service == (in_service ? in_service : decision.usable), "in service");
	same_at_once(&decision, &settings, first);
}

/* Which decisions are made from the states of the replicas: each way in which one is not, by itself. */
static void decided_at_once(void)
{
	enum { ALL_WELL, BY_BEST, SILENT, OUT, NOT_USABLE, ALONE, TAGGED, OFF, BY_TREES, BY_QUEUE, CASES };

	for (int kind = ALL_WELL; kind < CASES; kind++) {
		struct linnet_replica states[4] = { { .ewma_ns = 400, .learnt_ns = 1000, .in_flight = 1 },
						    { .ewma_ns = 100, .learnt_ns = 1000, .in_flight = 6 },
						    { .ewma_ns = 300, .learnt_ns = 1000, .in_flight = 1 } };
		struct linnet_decision decision;
		struct linnet_settings settings;

		linnet_settings_init(&settings);
		settings.policy = kind == BY_BEST || kind == BY_TREES ? LINNET_BEST :
				  kind == BY_QUEUE                    ? LINNET_SHORTEST_QUEUE :
									LINNET_EWMA_INFLIGHT;
		settings.age_ns = 10;
		settings.probe_ages = 50;
		settings.on = kind != OFF;
		memset(&decision, 0xa5, sizeof(decision));
		decision.now_ns = 1500;
		decision.count = kind == ALONE ? 1 : 3;
		decision.usable = kind == NOT_USABLE ? 5 : kind == ALONE ? 1 : 7;
		/* Of some replicas only, trees are not compared. */
		decision.trees = kind == BY_TREES ? 7 : 3;
		decision.may_revoke = kind == TAGGED;
		states[1].learnt_ns -= kind == SILENT;
		/* Its clock is ahead of ours. */
		states[0].latest_ns = 1600;
		states[0].out_until_ns = kind == OUT ? 1601 : 1600;
		check(linnet_decide_at_once(&decision, &settings, states, sizeof(*states)) == (kind < SILENT), "decided at once");
		if (kind < SILENT)
			check(decision.choice.replica == 2 && decision.verdict == LINNET_SUBMIT, "replica, at once");
		else
			check(decision.choice.replica == 0xa5a5a5a5, "nothing changed");
	}
}

/*
 * linnet-best, of three replicas with the best scores. If the wait of the second grows while its trees are asked, it is
 * compared again, and the third is preferred; if not, the second is.
 */
static void grown_wait(void)
{
	static const uint64_t before_ns[] = { 1000, 100, 500 }, after_ns[] = { 100, 800 };
	static const uint32_t chosen[] = { 1, 2 };

	for (size_t n = 0; n < 2; n++) {
		struct linnet_decision decision;
		struct linnet_budget revokes = { 0 };
		struct linnet_settings settings;
		uint32_t k, asked = LINNET_NO_REPLICA;

		linnet_settings_init(&settings);
		memset(&decision, 0xa5, sizeof(decision));
		decision.now_ns = decision.networks = decision.may_revoke = 0;
		decision.count = 3;
		decision.usable = decision.trees = 7;
		linnet_decision_begin(&decision, &settings);
		for (k = 0; k < 3; k++)
			decision.candidates[k] = (struct linnet_candidate){
				.ewma_ns = before_ns[k], .score = LINNET_SCORE_LEAST, .eligible = 1
			};
		while ((k = linnet_decision_next(&decision, &settings, &revokes)) != LINNET_NO_REPLICA) {
			decision.candidates[k].known = 1;
			decision.candidates[k].score = 4 * LINNET_SCORE_LEAST;
			if (k == 1)
				decision.candidates[k].ewma_ns = after_ns[n];
			asked = k;
		}
		check(asked == chosen[n] && decision.choice.replica == chosen[n], "replica whose wait grew");
	}
}

/*
 * A caller that takes back between the steps that replicas are eligible gets one of those that were in service: by trees,
 * by networks, and of a copy.
 */
static void none_eligible(void)
{
	for (uint32_t kind = 0; kind < 5; kind++) {
		struct linnet_decision decision;
		struct linnet_budget revokes = { 0 };
		struct linnet_settings settings;
		uint32_t k, steps = 0, is_copy = kind == 4;

		linnet_settings_init(&settings);
		settings.policy = kind & 2 ? LINNET_LINNOS : LINNET_BEST;
		memset(&decision, 0xa5, sizeof(decision));
		decision.now_ns = 0;
		decision.count = 4;
		decision.usable = decision.trees = decision.networks = 6;
		decision.may_revoke = kind & 1;
		(is_copy ? linnet_copy_begin : linnet_decision_begin)(&decision, &settings);
		for (k = 0; k < decision.count; k++)
			decision.candidates[k] = (struct linnet_candidate){ .score = LINNET_SCORE_LEAST, .eligible = 1 };
		while ((k = is_copy ? linnet_copy_next(&decision) : linnet_decision_next(&decision, &settings, &revokes)) !=
		       LINNET_NO_REPLICA) {
			linnet_candidate_scored(&decision.candidates[k], 100, 0);
			for (k = 0; k < decision.count; k++)
				decision.candidates[k].eligible = 0;
			steps++;
		}
		check(steps > 0, "asked before none was eligible");
		check(decision.choice.replica == 1 || decision.choice.replica == 2, "a replica in service");
		/* What is decided stays so. */
		k = is_copy ? linnet_copy_next(&decision) : linnet_decision_next(&decision, &settings, &revokes);
		check(k == LINNET_NO_REPLICA && decision.choice.replica < decision.count, "complete");
	}
}

/* A copy for which no replica is in service has none, also if one comes back before the caller asks again. */
static void no_place_for_a_copy(void)
{
	struct linnet_decision decision;
	struct linnet_settings settings;

	linnet_settings_init(&settings);
	memset(&decision, 0xa5, sizeof(decision));
	decision.now_ns = decision.networks = decision.may_revoke = 0;
	decision.count = 3;
	decision.usable = decision.trees = 7;
	linnet_copy_begin(&decision, &settings);
	memset(decision.candidates, 0, sizeof(decision.candidates));
	for (int step = 0; step < 2; step++) {
		check(linnet_copy_next(&decision) == LINNET_NO_REPLICA, "nothing to ask");
		check(decision.choice.replica == LINNET_NO_REPLICA && !decision.in_service, "no place for a copy");
		for (uint32_t k = 0; k < decision.count; k++)
			decision.candidates[k].eligible = 1;
	}
}

/*
 * hedge DELAY PER_MILLION BURST EARNED = SENT SENT_AGAIN DELAY, then ELIGIBLE IN_FLIGHT EWMA of each replica; or
 * answered DELAY LATENCY = DELAY; or due DELAY SENT = DUE.
 */
#define HEDGE_WORDS 9
#define HEDGE_REPLICA 3

static void hedges(char **words, size_t count)
{
	uint32_t replicas = (uint32_t)(count - HEDGE_WORDS) / HEDGE_REPLICA;
	struct linnet_candidate candidates[LINNET_REPLICAS_MAX] = { 0 };
	struct linnet_settings settings;
	struct linnet_hedge hedge;

	if (count == 5) {
		linnet_settings_init(&settings);
		settings.hedges.per_million = 1;
		linnet_hedge_init(&hedge, &settings, word(words, 1));
		if (strcmp(words[0], "due") == 0) {
			check(linnet_hedge_due(&hedge, word(words, 2)) == word(words, 4), "time when a read is late");
			return;
		}
		linnet_hedge_answered(&hedge, word(words, 2));
		check(hedge.delay_ns == word(words, 4), "delay after an answer");
		return;
	}
	if (replicas < 1 || replicas > LINNET_REPLICAS_MAX || count != HEDGE_WORDS + HEDGE_REPLICA * (size_t)replicas) {
		fail("words");
		return;
	}
	for (uint32_t k = 0; k < replicas; k++) {
		char **own = words + HEDGE_WORDS + HEDGE_REPLICA * k;

		candidates[k].eligible = (uint8_t)word(own, 0);
		candidates[k].in_flight = (uint32_t)word(own, 1);
		candidates[k].ewma_ns = word(own, 2);
	}
	set_behind(candidates, replicas);
	linnet_settings_init(&settings);
	settings.hedges.per_million = (uint32_t)word(words, 2);
	settings.hedges.burst = (uint32_t)word(words, 3);
	linnet_hedge_init(&hedge, &settings, word(words, 1));
	for (uint64_t n = 0; n < word(words, 4); n++)
		linnet_hedge_earn(&hedge, &settings);
	check(linnet_hedge_ask(&hedge, &settings, candidates, replicas) == (int)word(words, 6), "second copy");
	check(linnet_hedge_ask(&hedge, &settings, NULL, 0) == (int)word(words, 7), "second copy of another read");
	check(hedge.delay_ns == word(words, 8), "delay");
}

#endif
