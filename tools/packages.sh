#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes the Python environment of the build and the tests, with the packages of python/requirements.lock. uv installs
# them; pip does where there is no uv for the machine, or where uv cannot reach an index that pip's settings name.
# Arguments: the Python to start from, the folder of the environment.
set -eu
python=$1 env=$2
options="--quiet --disable-pip-version-check --no-compile --require-hashes"

"$python" -m venv "$env"
# shellcheck disable=SC2086 # words
if "$env/bin/python" -m pip install $options --only-binary :all: -r tools/uv.lock 2>/dev/null &&
    "$env/bin/uv" pip install --quiet --python "$env/bin/python" --require-hashes -r python/requirements.lock; then
    exit
fi
echo "installing with pip" >&2
# shellcheck disable=SC2086
"$env/bin/python" -m pip install $options -r python/requirements.lock
