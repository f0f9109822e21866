#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Installs the operator's wheel without extras into a new environment, and checks what an operator then has: the size,
# the time that `import linnet` takes, and that `whatif`, `dm` and `trace` run with neither scikit-learn nor matplotlib.
#   tools/wheel.sh [WHEEL]
# Without an argument it builds the wheel.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wheel=${1:-$(sh tools/build-wheel.sh "$work")}

env=$work/env
python3 -m venv "$env"
empty=$(du -sk "$env" | cut -f1)
"$env/bin/pip" install --quiet --disable-pip-version-check "$wheel"
echo "wheel: $(du -k "$wheel" | cut -f1) KiB"
echo "installed: $(($(du -sk "$env" | cut -f1) - empty)) KiB, and $empty KiB for the empty environment"
echo "packages: $("$env/bin/pip" list --disable-pip-version-check --format=freeze | grep -v '^pip=' | tr '\n' ' ')"

metadata=$(echo "$env"/lib/python3*/site-packages/linnet-*.dist-info)
for text in LICENSE-APACHE LICENSE-GPL-2.0 LICENSE-MIT THIRD-PARTY-NOTICES.txt; do
    cmp "python/$text" "$metadata/licenses/$text"
done
[ ! -e "$metadata/sboms" ] || { echo "$metadata/sboms: beside linnet/sbom.cdx.json" >&2; exit 1; }

# From another folder, so that nothing of this one is imported.
cd "$work"
"$env/bin/python" - <<'END'
import importlib.util, statistics, subprocess, sys

for name in ("sklearn", "matplotlib", "pyarrow", "scipy", "pandas"):
    if importlib.util.find_spec(name):
        sys.exit(f"{name} is installed without an extra")
code = "import time; t, c = time.perf_counter(), time.process_time(); import linnet; "
code += "print(time.perf_counter() - t, time.process_time() - c)"
rows = [subprocess.check_output([sys.executable, "-c", code], text=True).split() for _ in range(11)][1:]
wall, cpu = (statistics.median(float(row[i]) for row in rows) for i in (0, 1))
print(f"import linnet: {1e3 * wall:.0f} ms, {1e3 * cpu:.0f} ms of a CPU, median of {len(rows)}")
END
"$env/bin/linnet" trace synth az-c --seconds 5 -o traces >/dev/null
"$env/bin/linnet" whatif traces/az-c.0.parquet --preset consumer-deep --share 0.75 --json >whatif.json
"$env/bin/python" -c 'import json; print("whatif:", json.load(open("whatif.json"))["headline"])'
for group in dm trace whatif; do
    "$env/bin/linnet" "$group" --help >help.txt
    grep -q Usage help.txt
done
echo "dm, trace, whatif: --help works"
