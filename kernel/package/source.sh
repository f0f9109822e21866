#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Copies the files that DKMS keeps below /usr/src: source.sh DIRECTORY. Prints the version.
set -eu
cd "$(dirname "$0")/../.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
to=$1
mkdir -p "$to/core" "$to/tune/core"
cp kernel/dm/*.c kernel/dm/*.h kernel/dm/Kbuild "$to"
cp kernel/tune/*.c kernel/tune/*.h kernel/tune/Kbuild "$to/tune"
cp core/*.c core/*.h core/UNITS "$to/core"
# Each module compiles the core for itself, with flags of its own.
cp core/*.c core/*.h core/UNITS "$to/tune/core"
sed "s/@VERSION@/$version/" kernel/package/dkms.conf >"$to/dkms.conf"
echo "$version"
