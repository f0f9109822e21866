#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# sanitize.sh [address|miri]: the tests that cross from Rust into C, both sides under AddressSanitizer, and C with checks of
# undefined behaviour, which trap; then pure Rust under Miri. Needs a nightly toolchain of Rust with the components rust-src and
# miri. Exit status: 77 if there is none.
set -eu
cd "$(dirname "$0")/.."
part=${1:-all}
host=$(rustc -vV | sed -n 's/^host: //p')
cargo +nightly --version >/dev/null 2>&1 || { echo "skipped: rustup toolchain install nightly"; exit 77; }

if [ "$part" = all ] || [ "$part" = address ]; then
	# A target that is named keeps the flags from build scripts. The kernel's flags are no part of this: kernel/stub has them.
	RUSTFLAGS="-Zsanitizer=address" CFLAGS="-fsanitize=address,undefined -fsanitize-undefined-trap-on-error -fno-omit-frame-pointer" \
		ASAN_OPTIONS=detect_leaks=1 CARGO_PROFILE_TEST_DEBUG=line-tables-only \
		cargo +nightly test --target "$host" --target-dir target/sanitize --locked -p linnet-core -p linnet-learn --lib --tests
fi
if [ "$part" = all ] || [ "$part" = miri ]; then
	cargo +nightly miri --version >/dev/null 2>&1 || { echo "skipped: rustup +nightly component add miri rust-src"; exit 77; }
	# Files and clocks of the host, which tests use. Tests that take a minute and more without Miri's checks are left out.
	MIRIFLAGS="-Zmiri-disable-isolation" cargo +nightly miri test --target-dir target/miri --locked -p linnet-types -p linnet-measure --lib
	MIRIFLAGS="-Zmiri-disable-isolation" cargo +nightly miri test --target-dir target/miri --locked -p linnet-trace --lib text:: formats::
fi
