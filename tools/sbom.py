# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes python/src/linnet/sbom.cdx.json: what is in the wheel and what it was tested with, as CycloneDX 1.6.

Crates are those that the extension module links, with the checksums of Cargo.lock (scope `required`). Python packages
are those of python/requirements.lock, with their hashes (scope `optional`: the wheel holds none of them, and `pip`
resolves its own). Run it when a lock file changes; with --check it writes nothing and says whether the file is current.
"""

import json
import re
import sys
import tomllib
from pathlib import Path

from notices import ROOT, packages

SBOM = ROOT / "python/src/linnet/sbom.cdx.json"
PIN = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?==([^ ;\\]+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def crates() -> list[dict]:
    """A component for each crate."""
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    sums = {(one["name"], one["version"]): one.get("checksum") for one in locked}
    found = []
    for package in packages():
        name, version = package["name"], package["version"]
        url = f"pkg:cargo/{name}@{version}"
        part = {"type": "library", "name": name, "version": version, "purl": url, "bom-ref": url, "scope": "required"}
        if package["license"]:
            part["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        if sum := sums[name, version]:
            part["hashes"] = [{"alg": "SHA-256", "content": sum}]
        found.append(part)
    return found


def wheels() -> list[dict]:
    """A component for each pinned Python package; a hash for each file of it that may be installed."""
    found: list[dict] = []
    for line in (ROOT / "python/requirements.lock").read_text().splitlines():
        if pin := PIN.match(line):
            name, version = pin[1].lower().replace("_", "-"), pin[2]
            url = f"pkg:pypi/{name}@{version}"
            part = {"type": "library", "name": name, "version": version, "purl": url, "bom-ref": url}
            found.append(part | {"scope": "optional", "hashes": []})
        if digest := HASH.search(line):
            found[-1]["hashes"].append({"alg": "SHA-256", "content": digest[1]})
    return found


def sbom() -> str:
    """The whole file. It holds no time and no random number, so that the same locks give the same bytes."""
    project = tomllib.loads((ROOT / "python/pyproject.toml").read_text())["project"]
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    version = project.get("version", workspace["version"])
    # On no index: what one has by this name is another's.
    url = f"pkg:generic/{project['name']}@{version}"
    main = {"type": "library", "name": project["name"], "version": version, "purl": url, "bom-ref": url}
    parts = crates() + wheels()
    linked = sorted(part["bom-ref"] for part in parts if part["scope"] == "required")
    whole = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": main | {"licenses": [{"expression": project["license"]}]}},
        "components": parts,
        "dependencies": [{"ref": url, "dependsOn": linked}],
    }
    return _by_line(whole)


def _by_line(whole: dict) -> str:
    """JSON with a line for each key of the object, and for each element of its lists: a change of a lock is a line."""
    lines = []
    for key, value in whole.items():
        rows = ",\n".join("  " + json.dumps(one) for one in value) if isinstance(value, list) else None
        text = json.dumps(value) if rows is None else f"[\n{rows}\n ]"
        lines.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> int:
    """Write or check the file."""
    made = sbom()
    if sys.argv[1:] == ["--check"]:
        if SBOM.exists() and SBOM.read_text() == made:
            return 0
        print(f"{SBOM.relative_to(ROOT)} is not current; run tools/sbom.py", file=sys.stderr)
        return 1
    Path(SBOM).write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
