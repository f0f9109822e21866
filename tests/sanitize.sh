#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs Rust tests that reach the C core under sanitizers: `make sanitize`. Arguments: crates, by default core, where
# every `extern "C"` of the product is; array, tune, learn, replay, files and trace pass as well.
#
# AddressSanitizer and LeakSanitizer watch Rust and C, UndefinedBehaviorSanitizer C. gcc compiles the C core as it does
# for users, at -O3 and once for each instruction set. std is not compiled again, so only its use of memory is checked.
#
# Exit status: 0 if nothing was found, or if the toolchain has no sanitizers, which is said; otherwise that of cargo.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- core
host=$(rustc -vV | sed -n 's/^host: //p')
runtime=$(ls "$(rustc --print target-libdir)"/librustc-*_rt.asan.a 2>/dev/null || true)
if [ -z "$runtime" ] || ! command -v gcc >/dev/null; then
    echo "skipped: sanitizers: gcc and a Rust toolchain with AddressSanitizer are needed, and $host has not both"
    exit 0
fi
echo "sanitizers: crates $*"
for crate in "$@"; do
    shift
    set -- "$@" --package "linnet-$crate"
done

# Sanitizers are an unstable option of the compiler, which is otherwise the stable one: a nightly would compile other
# code. A target is named so that build scripts and procedural macros are compiled without them.
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zsanitizer=address -Cforce-frame-pointers=yes -Cdebuginfo=line-tables-only"
export CFLAGS="-g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"
export ASAN_OPTIONS="detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1"
export UBSAN_OPTIONS="print_stacktrace=1"
exec cargo test --locked --no-fail-fast --target "$host" --target-dir target/sanitize --tests "$@"
