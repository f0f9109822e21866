#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Lists every system tool that the build needs and this machine lacks, with the command that installs it.
python=${1:-python3}
missing=0

lacks() {
    echo "missing: $1" >&2
    echo "    install it with: $2" >&2
    missing=1
}

command -v cc >/dev/null 2>&1 || lacks "a C compiler (cc)" "apt-get install gcc libc6-dev"
command -v cargo >/dev/null 2>&1 || lacks "Rust 1.88 or newer (cargo)" "apt-get install rustup && rustup default stable   (Debian 13, Ubuntu 24.04; elsewhere see rust-lang.org)"
if command -v cargo >/dev/null 2>&1; then
    minor=$(cargo --version | sed -E 's/^cargo 1\.([0-9]+).*/\1/')
    case $minor in
        *[!0-9]*) ;;
        *) [ "$minor" -ge 88 ] || lacks "Rust 1.88 or newer (found $(cargo --version))" "rustup update stable" ;;
    esac
fi
if ! command -v "$python" >/dev/null 2>&1; then
    lacks "Python 3.11 or newer ($python)" "apt-get install python3 python3-venv"
elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    lacks "Python 3.11 or newer (found $("$python" --version))" "make PYTHON=/path/to/python3.11 ..."
elif ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    lacks "Python's venv module" "apt-get install python3-venv"
fi
exit $missing
