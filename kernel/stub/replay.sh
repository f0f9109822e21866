#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# replay.sh RECORD MODELS SEED: each policy's run through the target is replayed through the array of crates/array, which must
# decide the same. A record with one figure altered must not pass.
set -eu
cargo build --quiet --locked --package linnet-array --example kernel_replay
replay=../../target/debug/examples/kernel_replay
record=$(dirname "$1")/record.txt
for run in shortest-queue ewma-inflight linnos:linnos linnos:busy linnet-best:random linnet-best:busy; do
	policy=${run%%:*} model=
	[ "$policy" = "$run" ] || model=$2/${run#*:}
	"$1" "$policy" 4000 "$3" ${model:+"$model"} >"$record"
	echo "$run: $("$replay" "$record" "$model")" || { "$replay" "$record" "$model" || true; exit 1; }
	sed '0,/\(.*linnet_decision.* replica=\)[0-9]/s//\17/' "$record" >"$record.altered"
	if "$replay" "$record.altered" "$model" >/dev/null 2>&1; then
		echo "$run: an altered record was taken for right" >&2
		exit 1
	fi
done
