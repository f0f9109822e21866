#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes build/testenv, the environment of the Python tests: the packages of .venv, the sources as they stand, and the
# extension in the profile of the tests of the crates. It shares their compiled crates, so `make test` in a fresh clone
# compiles each crate once, and it leaves alone the release build behind .venv/bin/linnet.
# Argument: the Python environment. Without benches and BPF, which these tests do not use.
set -eu
venv=$1
env=build/testenv

cargo build -p linnet-python --locked --quiet
if [ ! -x "$env/bin/linnet" ]; then
    "$venv/bin/python" -m venv --without-pip "$env"
fi
site=$(echo "$env"/lib/python3.*/site-packages)
(cd "$venv"/lib/python3.*/site-packages && pwd) >"$site/packages.pth"

# Links to the sources instead of copies: an edit needs no other step.
mkdir -p "$site/linnet"
find "$site/linnet" -type l -delete
for path in python/src/linnet/*; do
    case $path in
    *.so | *__pycache__) ;;
    *) ln -s "$PWD/$path" "$site/linnet/" ;;
    esac
done
if ! cmp -s target/debug/lib_native.so "$site/linnet/_native.abi3.so"; then
    cp target/debug/lib_native.so "$site/linnet/.native"
    mv "$site/linnet/.native" "$site/linnet/_native.abi3.so"
fi
cat >"$env/bin/linnet" <<END
#!$PWD/$env/bin/python
import sys
from linnet.cli import main
sys.exit(main())
END
chmod +x "$env/bin/linnet"
