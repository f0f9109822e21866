#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs Rust tests in the Miri interpreter, which finds undefined behaviour of Rust code: `make miri`. Arguments: crates,
# each with a filter of its tests after a colon if need be; by default those below.
#
# Miri runs no C, so the crates that call the core are for `make sanitize`. Here are the blocks of unsafe Rust that do
# without it (table.rs of ssd), and what reads bytes or orders events without either: a bound or an overflow that only
# the interpreter sees. An instruction takes some hundred times as long, so long tests take fewer rounds (`cfg!(miri)`).
#
# Exit status: 0 if nothing was found, or if Miri is not there, which is said; otherwise that of cargo.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- measure ssd:timeline::table
if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "skipped: Miri: it comes with: rustup toolchain install nightly --component miri,rust-src"
    exit 0
fi

# Tests read files and the clock. Sets of generated cases have two.
export MIRIFLAGS="-Zmiri-disable-isolation ${MIRIFLAGS:-}" PROPTEST_CASES="${PROPTEST_CASES:-2}"
failed=0
for which in "$@"; do
    crate=${which%%:*} filter=
    [ "$which" = "$crate" ] || filter=${which#*:}
    echo "miri: linnet-$crate $filter"
    cargo +nightly miri test --quiet --locked --target-dir target/miri --package "linnet-$crate" --lib -- $filter || failed=$?
done
exit $failed
