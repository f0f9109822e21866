#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# replay.sh RECORD MODELS SEED: each policy's run through the target is replayed through the array of crates/array, which must
# decide the same. A record with one figure altered must not pass.
set -eu
cargo build --quiet --locked --package linnet-array --example kernel_replay
replay=../../target/debug/examples/kernel_replay
record=$(dirname "$1")/record.txt
altered() { # EXPRESSION MODEL: the record with this edit must not pass
	sed "$1" "$record" >"$record.altered"
	if cmp -s "$record" "$record.altered" || "$replay" "$record.altered" "$2" >/dev/null 2>&1; then
		echo "$run: an altered record was taken for right: $1" >&2
		exit 1
	fi
}
for run in steer:shortest-queue steer:ewma-inflight steer:linnos:linnos steer:linnos:busy steer:linnet-best:random steer:linnet-best:busy \
	revoke:linnos:busy revoke:linnet-best:random revoke:shortest-queue:random revoke:baseline:random \
	failover:linnos:linnos failover:linnos:busy failover:linnet-best:random failover:linnet-best:busy; do
	how=${run%%:*} policy=${run#*:} model=
	[ "${policy#*:}" = "$policy" ] || model=$2/${policy#*:}
	policy=${policy%%:*}
	"$1" "$how" "$policy" 4000 "$3" ${model:+"$model"} >"$record"
	said=$("$replay" "$record" "$model") || { echo "$run: $said"; exit 1; }
	echo "$run: $said"
	altered '0,/\(.*linnet_decision.* replica=\)[0-9]/s//\17/' "$model"
	[ "$how" != steer ] || continue
	case $said in *" 0 revokes"*) echo "$run: nothing was revoked" >&2; exit 1 ;; esac
	# What a replica was known by when it revoked a read; and a read that was served is said to have been revoked.
	altered '0,/\(.* verdict=1 .* ewma_ns={0x\)/s//\17/' "$model"
	grep -q ' verdict=[02] probe=0 tagged=1' "$record" || continue # a model may call every read slow
	altered '0,/\(.*linnet_decision.* verdict=\)[02]\( probe=0 tagged=1\)/s//\11\2/' "$model"
done
