#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the wheel and prints its path; with clang, the observer of `linnet tune` is in it.
#   tools/build-wheel.sh [FOLDER]
# The folder is dist/ unless another is named. maturin is that of .venv.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-dist}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
features=
if command -v "${CLANG:-clang}" >/dev/null; then features="--features bpf"; fi
# shellcheck disable=SC2086 # no feature is no argument
(cd python && PATH=$PWD/../.venv/bin:$PATH maturin build --release --quiet --out "$work" $features) >&2
mkdir -p "$folder"
wheel=$folder/$(basename "$work"/*.whl)
mv "$work"/*.whl "$wheel"
echo "$wheel"
