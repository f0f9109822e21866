# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes python/THIRD-PARTY-NOTICES.txt: the crates that are linked into the wheel, with the texts of their licences.

Run it when Cargo.lock changes; with --check it writes nothing and says whether the file is current, as a test does.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTICES = ROOT / "python/THIRD-PARTY-NOTICES.txt"
TARGET = "x86_64-unknown-linux-gnu"
TEXTS = ("license", "licence", "copying", "notice", "copyright")
HEAD = """Third-party software in the wheel of Linnet
===========================================

The compiled part of the wheel links the crates below. Each is used under the terms that stand with it; where terms are
joined by OR, either may be chosen. Texts that several crates share stand once.
"""


def packages() -> list[dict]:
    """The crates of others that the extension module links, by name and version."""
    words = ["cargo", "metadata", "--format-version=1", "--locked", "--filter-platform", TARGET, "--features", "bpf"]
    words += ["--manifest-path", str(ROOT / "crates/python/Cargo.toml")]
    known = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    nodes = {node["id"]: node for node in known["resolve"]["nodes"]}
    by_id = {package["id"]: package for package in known["packages"]}
    seen: set[str] = set()
    todo = [next(package["id"] for package in known["packages"] if package["name"] == "linnet-python")]
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        todo += [
            dep["pkg"]
            for dep in nodes[one]["deps"]
            # Neither tests nor build scripts, and no procedural macros: they leave nothing of themselves in the wheel.
            if any(kind["kind"] is None for kind in dep["dep_kinds"])
            and not any("proc-macro" in target["kind"] for target in by_id[dep["pkg"]]["targets"])
        ]
    found = [by_id[one] for one in seen if by_id[one]["source"]]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def texts(package: dict) -> list[str]:
    """The licence texts in a crate's folder, and in those of the C sources that it brings."""
    folder = Path(package["manifest_path"]).parent
    files = [path for path in folder.glob("*") if path.name.lower().startswith(TEXTS)]
    files += [path for path in folder.glob("*/*") if path.name.lower().startswith(TEXTS)]
    # Only text: no sources that happen to be called so.
    endings = ("", ".md", ".txt", ".apache", ".mit")
    files = [path for path in sorted(files) if path.is_file() and path.suffix.lower() in endings]
    return [path.read_text(errors="replace").strip() for path in files]


def notices() -> str:
    """The whole file."""
    users: dict[str, list[str]] = {}
    rows = []
    for package in packages():
        name = f"{package['name']} {package['version']}"
        rows.append(f"{name}: {package['license'] or 'see its text'}; {package['repository'] or package['source']}")
        for text in texts(package):
            users.setdefault(text, []).append(name)
    parts = [HEAD, "\n".join(rows) + "\n"]
    for text, names in users.items():
        listed = ", ".join(dict.fromkeys(names))
        parts.append(f"{'-' * 78}\n{listed}\n{'-' * 78}\n\n{text}\n")
    return "\n".join(parts)


def main() -> int:
    """Write or check the file."""
    made = notices()
    if sys.argv[1:] == ["--check"]:
        if NOTICES.exists() and NOTICES.read_text() == made:
            return 0
        print(f"{NOTICES.relative_to(ROOT)} is not current: python3 tools/notices.py", file=sys.stderr)
        return 1
    NOTICES.write_text(made)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
