#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# What effect.sh and effect-md.sh do on the host: `. tests/vm/effect-host.sh` in the repository's root, with $scale set.
case $scale in 1 | 2 | 5 | 10) ;; *) echo "-t $scale: 1, 2, 5 or 10, so that all rates are whole" >&2; exit 2 ;; esac
linnet=$(readlink -f "${LINNET:-.venv/bin/linnet}")
seed=1
[ -x "$linnet" ] || { echo "no $linnet: run make build" >&2; exit 2; }

# build_for KERNEL: modules and helpers; $modules is where the modules are. empty OUT: makes the folder anew.
build_for() {
	local kdir
	kdir=$(tests/vm/vmlab kdir "$1")
	make -s kernel KDIR="$kdir"
	make -s lib
	make -s -C tests/vm/src
	cargo build --release --locked --quiet -p linnet-nbd --example serve_ssd
	modules=$PWD/build/kernel/$(basename "$(dirname "$kdir")")
}
empty() { rm -rf "$1"; mkdir -p "$1"; readlink -f "$1"; }
# fit_when_recorded OUT: waits for the machine's recordings. It asks for its model with one file, and the answer is
# another file.
fit_when_recorded() {
	while [ ! -e "$1/recorded" ]; do sleep 0.5; done
	"$linnet" fit -t "$1"/leg0.txt -t "$1"/leg1.txt -t "$1"/leg2.txt -o "$1/m.linnet" --seed $seed --json \
		>"$1/fit.json" 2>"$1/fit.log" || echo failed >"$1/fit.failed"
	touch "$1/fitted"
}
