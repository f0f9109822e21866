#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# What steering does to read latency: three modelled drives inside a machine whose clock counts instructions, so that
# nothing but the drives and the machine's own work shows, however busy the host is. A model is learned from a run through
# the target, then every policy reads the same places at the same times, on the raw device and on files.
# The file-system part has not been run to its end yet.
#
#   tests/vm/effect.sh [-k KERNEL] [-s SECONDS per policy] [-f "ext4 xfs ..."] [-o DIR] [-t TIME_SCALE] [-p PRESET]
#
# Needs the lab (vmlab-setup), `make build` and cargo. Leaves DIR/results.jsonl, and prints the table.
set -euo pipefail
cd "$(dirname "$0")/../.."

kernel=6.12 seconds=40 filesystems="ext4 xfs f2fs btrfs" out=build/vm/effect scale=5 preset=consumer-deep
while getopts k:s:f:o:t:p: option; do
	case $option in
	k) kernel=$OPTARG ;;
	s) seconds=$OPTARG ;;
	f) filesystems=$OPTARG ;;
	o) out=$OPTARG ;;
	t) scale=$OPTARG ;;
	p) preset=$OPTARG ;;
	*) exit 2 ;;
	esac
done
linnet=$(readlink -f "${LINNET:-.venv/bin/linnet}")
seed=1
[ -x "$linnet" ] || { echo "no $linnet: run make build" >&2; exit 2; }
kdir=$(tests/vm/vmlab kdir "$kernel")
make -s kernel KDIR="$kdir"
make -s lib
make -s -C tests/vm/src
cargo build --release --locked --quiet -p linnet-nbd --example serve_ssd
modules=build/kernel/$(basename "$(dirname "$kdir")")

rm -rf "$out"
mkdir -p "$out"
out=$(readlink -f "$out")
# The machine asks for its model by a file, and the answer is another.
(
	while [ ! -e "$out/recorded" ]; do sleep 0.5; done
	"$linnet" fit -t "$out"/leg0.txt -t "$out"/leg1.txt -t "$out"/leg2.txt -o "$out/m.linnet" --seed $seed --json \
		>"$out/fit.json" 2>"$out/fit.log" || echo failed >"$out/fit.failed"
	touch "$out/fitted"
) &
fitter=$!
tests/vm/vmlab run --kernel "$kernel" --virtual-time --smp 1 --mem 4096 --timeout 7200 --out "$out" --console "$out/console" -- \
	tests/vm/effect-guest.sh "$PWD/$modules" "$seconds" "$scale" "$filesystems" "$preset"
kill $fitter 2>/dev/null || true
python3 tests/vm/effect_table.py "$out/results.jsonl" --scale "$scale"
