#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# replay.sh RECORD DECISIONS MODELS SEED REQUESTS: each policy's run of so many requests through the target is recorded, and
# its decisions are taken again from the record. A record with one figure altered must not pass.
set -eu
decisions=$2 models=$3 seed=$4 requests=$5
all=$(dirname "$1")/record.txt
altered() { # prints an error if the record with this edit passes
	sed "$2" "$1" >"$1.altered"
	if cmp -s "$1" "$1.altered" || "$decisions" "$1.altered" "$3" >/dev/null 2>&1; then
		echo "$run: an altered record was taken for right: $2" >&2
		exit 1
	fi
}
for run in steer:shortest-queue steer:ewma-inflight steer:linnos:linnos steer:linnos:busy steer:linnet-best:random steer:linnet-best:pages steer:linnet-best:busy \
	revoke:linnos:busy revoke:linnet-best:random revoke:linnet-best:pages revoke:shortest-queue:random revoke:baseline:random \
	failover:linnos:linnos failover:linnos:busy failover:linnet-best:random failover:linnet-best:busy; do
	how=${run%%:*} policy=${run#*:} model=
	[ "${policy#*:}" = "$policy" ] || model=$models/${policy#*:}
	policy=${policy%%:*}
	"$1" "$how" "$policy" "$requests" "$seed" ${model:+"$model"} >"$all"
	revoked=0
	for dev in $(grep -o ' dev=[0-9:]*' "$all" | sort -u | cut -d= -f2); do
		record=$all.$dev
		grep -F " dev=$dev " "$all" >"$record"
		grep -q linnet_decision "$record" || continue # the last target of those that fail over decides nothing
		said=$("$decisions" "$record" "$model") || { echo "$run: $said"; exit 1; }
		echo "$run, $dev: $said"
		altered "$record" '0,/\(.*linnet_decision.* replica=\)[0-9]/s//\17/' "$model"
		case $said in *" 0 revokes"*) continue ;; esac
		revoked=1
		# What a replica was known by when it revoked a read; and a read that was served is said to have been revoked.
		altered "$record" '0,/\(.* verdict=1 .* ewma_ns={0x\)/s//\17/' "$model"
		grep -q ' verdict=[02] probe=0 tagged=1' "$record" || continue # a model may call every read slow
		altered "$record" '0,/\(.*linnet_decision.* verdict=\)[02]\( probe=0 tagged=1\)/s//\11\2/' "$model"
	done
	[ "$how" = steer ] || [ $revoked = 1 ] || { echo "$run: nothing was revoked" >&2; exit 1; }
done
