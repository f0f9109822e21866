/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Features of Heimdall (EuroSys '25), schema heimdall-11 of spec/features-heimdall.md, for the comparison with it.
 *
 *   0       bytes of this read
 *   1       I/Os in flight, including this one
 *   2..4    the same when each of the last three completed reads arrived, newest first
 *   5..7    latency of those reads in nanoseconds
 *   8..10   their throughput in bytes per millisecond
 *
 * Each is 32 bits and saturates. Until three reads have completed, the missing ones are zeros.
 *
 * Heimdall scales each to 0..1 between the minimum and maximum of the training rows, in floats. Here the range is
 * 0..65535, and the network gets two bytes, the high one first. With 256 times the weight on the high byte the sum
 * equals that of the whole number, so a network on bytes needs no change. Values outside the range of the training rows
 * are clipped.
 */
#include "linnet.h"

#define SCALED_MAX 65535
#define NS_PER_MS 1000000

void linnet_heimdall_init(struct linnet_heimdall *tracker)
{
	linnet_zero(tracker, sizeof(*tracker));
}

uint32_t linnet_heimdall_arrive(struct linnet_heimdall *tracker)
{
	if (tracker->in_flight < UINT32_MAX)
		tracker->in_flight++;
	return tracker->in_flight;
}

void linnet_heimdall_leave(struct linnet_heimdall *tracker)
{
	if (tracker->in_flight > 0)
		tracker->in_flight--;
}

uint32_t linnet_heimdall_throughput(uint32_t size_bytes, uint64_t latency_ns)
{
	/* Below 2^32 times 2^20: no overflow. */
	uint64_t rate = (uint64_t)size_bytes * NS_PER_MS / (latency_ns ? latency_ns : 1);

	return rate < UINT32_MAX ? (uint32_t)rate : UINT32_MAX;
}

void linnet_heimdall_complete_read(struct linnet_heimdall *tracker, uint32_t size_bytes, uint64_t latency_ns,
				   uint32_t snapshot)
{
	linnet_heimdall_leave(tracker);
	for (int i = LINNET_HEIMDALL_HISTORY - 1; i > 0; i--) {
		tracker->queue[i] = tracker->queue[i - 1];
		tracker->latency_ns[i] = tracker->latency_ns[i - 1];
		tracker->throughput[i] = tracker->throughput[i - 1];
	}
	tracker->queue[0] = snapshot;
	tracker->latency_ns[0] = latency_ns < UINT32_MAX ? (uint32_t)latency_ns : UINT32_MAX;
	tracker->throughput[0] = linnet_heimdall_throughput(size_bytes, latency_ns);
}

void linnet_heimdall_features(const struct linnet_heimdall *tracker, uint32_t snapshot, uint32_t size_bytes,
			      uint32_t features[LINNET_HEIMDALL_FEATURES])
{
	features[0] = size_bytes;
	features[1] = snapshot;
	for (int i = 0; i < LINNET_HEIMDALL_HISTORY; i++) {
		features[2 + i] = tracker->queue[i];
		features[2 + LINNET_HEIMDALL_HISTORY + i] = tracker->latency_ns[i];
		features[2 + 2 * LINNET_HEIMDALL_HISTORY + i] = tracker->throughput[i];
	}
}

int linnet_heimdall_scale_set(struct linnet_heimdall_scale *scale, const uint32_t least[LINNET_HEIMDALL_FEATURES],
			      const uint32_t most[LINNET_HEIMDALL_FEATURES])
{
	for (int i = 0; i < LINNET_HEIMDALL_FEATURES; i++)
		if (most[i] < least[i])
			return LINNET_E_RANGE;
	for (int i = 0; i < LINNET_HEIMDALL_FEATURES; i++) {
		uint64_t range = most[i] - least[i];

		scale->least[i] = least[i];
		scale->most[i] = most[i];
		/* Rounded up, so that the maximum becomes exactly 65535: range * factor < (65536 << 32). */
		scale->factor[i] = range ? (((uint64_t)SCALED_MAX << 32) + range - 1) / range : 0;
	}
	return 0;
}

void linnet_heimdall_inputs(const struct linnet_heimdall_scale *scale,
			    const uint32_t features[LINNET_HEIMDALL_FEATURES],
			    uint8_t inputs[LINNET_HEIMDALL_INPUTS])
{
	for (int i = 0; i < LINNET_HEIMDALL_FEATURES; i++) {
		uint32_t value = features[i];
		uint64_t scaled;

		if (value > scale->most[i])
			value = scale->most[i];
		value = value > scale->least[i] ? value - scale->least[i] : 0;
		scaled = value * scale->factor[i] >> 32;
		inputs[2 * i] = (uint8_t)(scaled >> 8);
		inputs[2 * i + 1] = (uint8_t)scaled;
	}
}
