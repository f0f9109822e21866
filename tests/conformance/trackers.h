/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Part of conformance.c: checks the features of the three trackers. */
#ifndef LINNET_TRACKERS_H
#define LINNET_TRACKERS_H

/* ---- digits ---- */

static void features(char **words, size_t count)
{
	static struct linnet_tracker tracker;
	uint64_t n[4] = { 0 };
	const char *event = words[0];

	for (size_t i = 1; i < count && i < 4 && !(strcmp(event, "digits") == 0 && i == 2); i++)
		n[i] = (uint64_t)number(words[i]);
	if (strcmp(event, "start") == 0) {
		linnet_tracker_init(&tracker);
	} else if (strcmp(event, "arrive") == 0) {
		check(linnet_tracker_arrive(&tracker, (uint32_t)n[1]) == n[2], "snapshot");
	} else if (strcmp(event, "read") == 0) {
		linnet_tracker_complete_read(&tracker, (uint32_t)n[1], n[2], (uint32_t)n[3]);
	} else if (strcmp(event, "write") == 0) {
		linnet_tracker_complete_write(&tracker, (uint32_t)n[1]);
	} else if (strcmp(event, "withdraw") == 0) {
		linnet_tracker_withdraw(&tracker, (uint32_t)n[1]);
	} else {
		uint8_t digits[LINNET_DIGITS];
		char text[LINNET_DIGITS + 1] = "";

		linnet_tracker_digits(&tracker, (uint32_t)n[1], digits);
		for (int i = 0; i < LINNET_DIGITS; i++)
			text[i] = (char)('0' + digits[i]);
		check(count == 3 && strcmp(text, words[2]) == 0, "digits");
	}
}

/* ---- features from I/Os in flight ---- */

#define INFLIGHT_IOS 256 /* I/Os of one case, indexed by number */

static void inflight(char **words, size_t count)
{
	static struct linnet_inflight_io ios[INFLIGHT_IOS];
	static struct linnet_inflight inflight;
	uint64_t n[3 + LINNET_INFLIGHT_FEATURES] = { 0 };
	const char *event = words[0];
	uint32_t io;

	for (size_t i = 0; i + 1 < count && i < 3 + LINNET_INFLIGHT_FEATURES; i++)
		n[i] = (uint64_t)number(words[1 + i]);
	io = (uint32_t)n[0] % INFLIGHT_IOS;
	if (strcmp(event, "start") == 0) {
		linnet_inflight_init(&inflight, n[0]);
	} else if (strcmp(event, "arrive") == 0) {
		linnet_inflight_arrive(&inflight, ios, io, n[1], n[2] == 0, n[3], (uint32_t)n[4]);
	} else if (strcmp(event, "complete") == 0) {
		linnet_inflight_complete(&inflight, ios, io, n[1]);
	} else if (strcmp(event, "withdraw") == 0) {
		linnet_inflight_withdraw(&inflight, ios, io);
	} else if (strcmp(event, "label") == 0) {
		check((uint64_t)linnet_is_slow(n[0], n[1]) == n[2], "slow");
	} else {
		uint32_t schema = strcmp(event, "describe2") == 0 ? LINNET_SCHEMA_LINNET2 : LINNET_SCHEMA_LINNET1;
		uint8_t features[LINNET_INFLIGHT_FEATURES];

		linnet_inflight_describe(&inflight, schema, n[0], n[1], (uint32_t)n[2], features);
		for (size_t i = 0; i < LINNET_INFLIGHT_FEATURES; i++)
			check(features[i] == n[3 + i], "feature");
	}
}

/* ---- errors of a replica ---- */

/* A replica that has failed as often as can be counted stays out of service with its next error. */
static void many_errors(void)
{
	struct linnet_settings settings;
	struct linnet_replica replica;
	struct linnet_flight flight;

	linnet_settings_init(&settings);
	settings.errors_max = UINT32_MAX;
	linnet_replica_init(&replica, 0, NULL, 0);
	replica.errors_in_row = UINT32_MAX - 1;
	for (uint64_t now_ns = 1; now_ns <= 3; now_ns++) {
		linnet_replica_arrive(&replica, &settings, &flight, now_ns, 1, 0, 0, 4096);
		linnet_replica_fail(&replica, &settings, &flight, now_ns);
		check(replica.errors_in_row == UINT32_MAX, "errors in a row");
		check(linnet_replica_is_out(&replica, now_ns), "out of service");
	}
}

/* ---- features of Heimdall ---- */

static void heimdall(char **words, size_t count)
{
	static struct linnet_heimdall tracker;
	static struct linnet_heimdall_scale scale;
	/* Behind the last is a number that is not theirs. */
	uint32_t n[2 * LINNET_HEIMDALL_FEATURES] = { 0 }, features[LINNET_HEIMDALL_FEATURES + 1];
	uint8_t inputs[LINNET_HEIMDALL_INPUTS + 1];
	const char *event = words[0];
	size_t given = count - 1 < 2 * LINNET_HEIMDALL_FEATURES ? count - 1 : 2 * LINNET_HEIMDALL_FEATURES;

	for (size_t i = 0; i < given; i++)
		n[i] = (uint32_t)number(words[1 + i]);
	if (strcmp(event, "start") == 0) {
		linnet_heimdall_init(&tracker);
	} else if (strcmp(event, "arrive") == 0) {
		check(linnet_heimdall_arrive(&tracker) == n[0], "snapshot");
	} else if (strcmp(event, "leave") == 0) {
		linnet_heimdall_leave(&tracker);
	} else if (strcmp(event, "read") == 0) {
		linnet_heimdall_complete_read(&tracker, n[0], (uint64_t)number(words[2]), n[2]);
	} else if (strcmp(event, "features") == 0) {
		features[LINNET_HEIMDALL_FEATURES] = 0xdeadbeef;
		linnet_heimdall_features(&tracker, n[0], n[1], features);
		check(memcmp(features, n + 2, LINNET_HEIMDALL_FEATURES * sizeof(*features)) == 0, "features");
		check(features[LINNET_HEIMDALL_FEATURES] == 0xdeadbeef, "a number after the features");
	} else if (strcmp(event, "scale") == 0) {
		check(linnet_heimdall_scale_set(&scale, n, n + LINNET_HEIMDALL_FEATURES) == 0, "scale refused");
	} else {
		inputs[LINNET_HEIMDALL_INPUTS] = 0xa5;
		linnet_heimdall_inputs(&scale, n, inputs);
		for (size_t i = 0; i < LINNET_HEIMDALL_INPUTS; i++)
			check(inputs[i] == number(words[1 + LINNET_HEIMDALL_FEATURES + i]), "input");
		check(inputs[LINNET_HEIMDALL_INPUTS] == 0xa5, "a number after the inputs");
	}
}

/* A count that has reached its most stays there. */
static void many_in_flight(void)
{
	struct linnet_heimdall tracker = { .in_flight = UINT32_MAX - 1 };

	for (int i = 0; i < 2; i++)
		check(linnet_heimdall_arrive(&tracker) == UINT32_MAX, "I/Os in flight");
}

#endif
