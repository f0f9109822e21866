/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Prints summaries of a run. Quantiles are exact, by nearest rank, as everywhere in Linnet. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "load.h"

const char *mode_name(enum mode mode)
{
	static const char *const names[] = {"primary", "failover", "hedge"};

	return names[mode];
}

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double quantile_us(const uint64_t *sorted, uint64_t count, double q)
{
	uint64_t rank;

	if (!count)
		return 0;
	rank = (uint64_t)ceil(q * (double)count * (1.0 - 1e-12));
	rank = rank < 1 ? 1 : rank > count ? count : rank;
	return (double)sorted[rank - 1] / 1000;
}

struct totals {
	uint64_t *latency, *lag;
	uint64_t reads, failed, revokes, errors, hedges, copies, served[LINNET_READER_REPLICAS_MAX];
	double mean_us;
};

static void total(const struct options *options, const struct run *run, struct totals *t)
{
	for (uint64_t i = options->warmup; i < run->count; i++) {
		const struct outcome *o = &run->outcomes[i];

		t->revokes += o->revokes;
		t->errors += o->errors;
		t->hedges += o->hedged;
		t->copies += o->copies;
		t->lag[i - options->warmup] = o->submit_ns - o->arrive_ns;
		if (o->result < 0) {
			t->failed++;
			continue;
		}
		t->served[o->replica]++;
		t->latency[t->reads++] = o->latency_ns;
		t->mean_us += (double)o->latency_ns / 1000;
	}
	if (t->reads)
		t->mean_us /= (double)t->reads;
	qsort(t->latency, t->reads, sizeof(*t->latency), ascending);
	qsort(t->lag, options->reads, sizeof(*t->lag), ascending);
}

static const struct {
	const char *name;
	double q;
} QUANTILES[] = {{"p50_us", 0.5}, {"p75_us", 0.75},  {"p90_us", 0.9},	 {"p95_us", 0.95},
		 {"p99_us", 0.99}, {"p999_us", 0.999}, {"p9999_us", 0.9999}, {"max_us", 1.0}};
#define QUANTILE_COUNT (sizeof(QUANTILES) / sizeof(QUANTILES[0]))

void report_summary(FILE *to, const struct options *options, const struct run *run)
{
	struct totals t = {.latency = calloc(options->reads, sizeof(uint64_t)),
			   .lag = calloc(options->reads, sizeof(uint64_t))};
	double extra;

	if (!t.latency || !t.lag) {
		fprintf(stderr, "linnet-load: out of memory for the summary\n");
		exit(1);
	}
	total(options, run, &t);
	extra = (double)t.copies / (double)options->reads - 1;
	if (options->json) {
		fprintf(to, "{\"mode\": \"%s\", \"seed\": %" PRIu64 ", \"rate\": %g, \"size_bytes\": %zu, ",
			mode_name(options->mode), options->seed, options->rate, options->size_bytes);
		if (options->mode == HEDGE)
			fprintf(to, "\"hedge_us\": %g, ", (double)options->hedge_ns / 1000);
		fprintf(to, "\"reads\": %" PRIu64 ", \"failed\": %" PRIu64 ", \"mean_us\": %.3f", t.reads, t.failed,
			t.mean_us);
		for (unsigned i = 0; i < QUANTILE_COUNT; i++)
			fprintf(to, ", \"%s\": %.3f", QUANTILES[i].name,
				quantile_us(t.latency, t.reads, QUANTILES[i].q));
		fprintf(to, ", \"revokes\": %" PRIu64 ", \"errors\": %" PRIu64 ", \"hedges\": %" PRIu64, t.revokes,
			t.errors, t.hedges);
		fprintf(to, ", \"extra_io\": %.6f, \"served\": [", extra);
		for (unsigned i = 0; i < options->count; i++)
			fprintf(to, "%s%" PRIu64, i ? ", " : "", t.served[i]);
		fprintf(to, "], \"submit_lag_us_p50\": %.3f, \"submit_lag_us_p99\": %.3f, \"elapsed_s\": %.3f}\n",
			quantile_us(t.lag, options->reads, 0.5), quantile_us(t.lag, options->reads, 0.99),
			(double)run->elapsed_ns / 1e9);
	} else {
		fprintf(to, "%s: %" PRIu64 " reads, %" PRIu64 " failed; %" PRIu64 " revokes, %" PRIu64 " errors, %" PRIu64
			    " hedges, extra I/O %.2f %%\nserved by",
			mode_name(options->mode), t.reads, t.failed, t.revokes, t.errors, t.hedges, extra * 100);
		for (unsigned i = 0; i < options->count; i++)
			fprintf(to, " %s %" PRIu64, options->paths[i], t.served[i]);
		fprintf(to, "\nlatency us: mean %.1f", t.mean_us);
		for (unsigned i = 0; i < QUANTILE_COUNT; i++)
			fprintf(to, "  %.*s %.1f", (int)strcspn(QUANTILES[i].name, "_"), QUANTILES[i].name,
				quantile_us(t.latency, t.reads, QUANTILES[i].q));
		fprintf(to, "\nhanded over late by us: p50 %.1f  p99 %.1f\n", quantile_us(t.lag, options->reads, 0.5),
			quantile_us(t.lag, options->reads, 0.99));
	}
	free(t.latency);
	free(t.lag);
}

int report_log(int fd, const struct options *options, const struct run *run)
{
	struct stat about;
	FILE *to;
	int bad;

	if (fstat(fd, &about) < 0 || (S_ISREG(about.st_mode) && ftruncate(fd, 0) < 0))
		return -errno;
	to = fdopen(fd, "w");
	if (!to)
		return -errno;
	fprintf(to, "arrive_ns,submit_ns,latency_ns,offset_bytes,result,replica,revokes,errors,hedged\n");
	for (uint64_t i = options->warmup; i < run->count; i++) {
		const struct outcome *o = &run->outcomes[i];

		fprintf(to, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRId32 ",%u,%u,%u,%u\n", o->arrive_ns,
			o->submit_ns, o->latency_ns, o->offset, o->result, o->replica, o->revokes, o->errors,
			o->hedged);
	}
	bad = ferror(to);
	return fclose(to) || bad ? -EIO : 0;
}
