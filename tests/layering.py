# SPDX-License-Identifier: MIT OR Apache-2.0
"""Who may know whom: reads the crates' manifests, the core's includes, Python's imports and every file's first line.

Run by `make lint`. Prints each breach with its fix and ends with a non-zero status if there is one.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

# Each crate and the crates of ours that it may depend on: those that it does. Data flows one way: see ARCHITECTURE.md.
MAY_USE = {
    "types": set(),
    "files": set(),
    "sim": {"types"},
    "measure": set(),
    "core": {"types"},
    "trace": {"types", "sim", "measure", "files"},
    "ssd": {"types", "sim", "files"},
    "nbd": {"types", "measure"},
    "ublk": {"nbd"},
    "array": {"types", "sim", "core", "measure"},
    "learn": {"types", "sim", "core", "measure"},
    "replay": {"types", "array"},
    "tune": {"core", "files"},
    "tenant": {"types", "sim", "measure", "ssd"},
    "staging": {"types", "sim", "measure", "tenant"},
    "study": {"types", "sim", "core", "measure", "array", "learn"},
    "bench": {"types", "sim", "core", "ssd"},
    "python": {
        *("types", "sim", "core", "trace", "ssd", "nbd", "array", "learn", "measure", "replay", "tune", "tenant"),
        *("staging", "study", "bench", "files"),
    },
}
# The laboratory, and the crates that may use it, in their tests and examples too.
LABORATORY = {"study", "bench"}
# Each package of the Python product and those of its packages that it may know. The command line knows all.
PACKAGES: dict[str, set[str]] = {
    "calibration": set(),
    "dm": set(),
    "readahead": set(),
    "report": {"calibration"},
    "place": {"dm", "report"},
}
LABORATORY_USERS = {"python", *LABORATORY}
MAY_INCLUDE = {
    "linnet.h",
    "train.h",
    "port.h",
    "stdint.h",
    "stddef.h",
    "stdbool.h",
    "linux/types.h",
    "linux/stddef.h",
    "immintrin.h",
}
# Where the kernel's own headers begin. Its tests may use more: a C library, and checks from tests/.
KERNEL_MAY_INCLUDE = ("linux/", "asm/", "trace/")
KERNEL_TESTS = {"kunit", "stub"}
# The core's public headers, and private ones with functions that each read of the target passes inline.
PUBLIC = {
    *("linnet.h", "port.h", "feature.h", "model.h", "decide.h", "ledger.h"),
    *("train.h", "tune.h", "reads.h", "readahead.h", "place.h"),
}
TARGET_INLINE = {"choose.h", "replica.h"}
LICENCE = {"core": "MIT OR GPL-2.0-only", "kernel": "GPL-2.0-only"}
CODE = {".rs", ".c", ".h", ".py", ".sh"}


def crates() -> list[str]:
    """Breaches of the dependency rules between crates (tests may use more)."""
    found = []
    for manifest in sorted(ROOT.glob("crates/*/Cargo.toml")):
        name = manifest.parent.name
        if name not in MAY_USE:
            found.append(f"{manifest.relative_to(ROOT)}: a crate without a rule; add it to MAY_USE in {__file__}")
            continue
        manifest_tables = tomllib.loads(manifest.read_text())
        ours = used(manifest_tables, "dependencies")
        found += [
            f"{manifest.relative_to(ROOT)}: linnet-{name} may not depend on linnet-{other}; turn the dependency around"
            for other in sorted(ours - MAY_USE[name])
        ]
        found += [
            f"{manifest.relative_to(ROOT)}: linnet-{name} does not depend on linnet-{other}; take it out of MAY_USE"
            for other in sorted(MAY_USE[name] - ours)
        ]
        tests = used(manifest_tables, "dev-dependencies") | used(manifest_tables, "build-dependencies")
        found += [
            f"{manifest.relative_to(ROOT)}: tests of linnet-{name} may not use linnet-{other}; move them there"
            for other in sorted(tests & LABORATORY)
            if name not in LABORATORY_USERS
        ]
    return found


def test_files() -> list[str]:
    """Tests of a crate that no test program has: cargo looks for none where a manifest lists its programs."""
    found = []
    for main_file in sorted(ROOT.glob("crates/*/tests/main.rs")):
        folder = main_file.parent
        manifest = tomllib.loads((folder.parent / "Cargo.toml").read_text())
        programs = {Path(program["path"]).stem for program in manifest["test"]}
        listed = programs | set(re.findall(r"^mod (\w+);", main_file.read_text(), re.MULTILINE))
        found += [
            f"{path.relative_to(ROOT)}: no test program has it; add `mod {path.stem};` to main.rs beside it"
            for path in sorted(folder.glob("*.rs"))
            if path.stem not in listed
        ]
    return found


def used(manifest: dict[str, Any], table: str) -> set[str]:
    """Crates of ours that this table of a manifest names."""
    return {name.removeprefix("linnet-") for name in manifest.get(table, {})} & MAY_USE.keys()


def includes() -> list[str]:
    """Headers that the freestanding core may not see."""
    found = []
    for source in sorted([*ROOT.glob("core/*.c"), *ROOT.glob("core/*.h")]):
        for header in re.findall(r'^\s*#\s*include\s*[<"]([^">]+)[">]', source.read_text(), re.MULTILINE):
            private = (source.parent / header).exists()
            if header not in MAY_INCLUDE and not private:
                found.append(f"{source.relative_to(ROOT)}: includes {header}; ask for what it gives in core/port.h")
    return found


def units() -> list[str]:
    """Differences between core/UNITS and the files of the core."""
    lines = (ROOT / "core/UNITS").read_text().splitlines()
    listed = [line.split(" ")[0] for line in lines if line and not line.startswith("#")]
    found = [
        f"core/UNITS: {name} stands there twice; delete one line" for name in {n for n in listed if listed.count(n) > 1}
    ]
    there = {source.stem for source in ROOT.glob("core/*.c")}
    found += [f"core/{name}.c: is in no build; add a line to core/UNITS" for name in sorted(there - set(listed))]
    found += [f"core/UNITS: there is no core/{name}.c; delete the line" for name in sorted(set(listed) - there)]
    return found


def declarations() -> list[str]:
    """C functions declared outside the module that tests/bindings compares. Benches link other builds of the core."""
    one = ROOT / "crates/core/src/ffi"
    return [
        f"{source.relative_to(ROOT)}: declares functions of C; {one.relative_to(ROOT)} is the place for them"
        for source in sorted(ROOT.glob("crates/*/src/**/*.rs"))
        if one != source.parent and "bench" not in source.relative_to(ROOT).parts
        if re.search(r'^\s*(?:unsafe )?extern "C" \{', source.read_text(), re.MULTILINE)
    ]


def kernel() -> list[str]:
    """Includes in kernel/ of something other than Linux, public headers of the core and the file's own directory."""
    found = []
    for source in sorted([*ROOT.glob("kernel/**/*.c"), *ROOT.glob("kernel/**/*.h")]):
        if source.relative_to(ROOT).parts[1] in KERNEL_TESTS:
            continue
        public = PUBLIC | (TARGET_INLINE if source.parent.name == "dm" else set())
        for header in re.findall(r'^\s*#\s*include\s*[<"]([^">]+)[">]', source.read_text(), re.MULTILINE):
            here = "/" not in header and (source.parent / header).exists()
            if header.startswith(KERNEL_MAY_INCLUDE) or here or header in public:
                continue
            private = (ROOT / "core" / header).exists()
            why = "which is private to core/" if private else "and kernel/ knows Linux and core/ only"
            found.append(f"{source.relative_to(ROOT)}: includes {header}, {why}")
    return found


def laboratory() -> list[str]:
    """Modules of the Python product that import the studies. The command line loads those by name, when asked to."""
    package = ROOT / "python/src/linnet"
    studies = re.compile(r"^\s*((?:from|import) +linnet(?:\.studies\b| +import .*\bstudies\b).*)", re.MULTILINE)
    return [
        f"{source.relative_to(ROOT)}: `{line}`; the product runs without its laboratory, linnet.studies"
        for source in sorted(package.rglob("*.py"))
        if not source.is_relative_to(package / "studies")
        for line in studies.findall(source.read_text())
    ]


def packages() -> list[str]:
    """Imports of a package of the product by another one that may not know it."""
    package = ROOT / "python/src/linnet"
    imported = re.compile(r"^\s*(?:from|import) +linnet\.(\w+)", re.MULTILINE)
    return [
        f"{source.relative_to(ROOT)}: imports linnet.{other}; {name} may use {', '.join(sorted(known)) or 'none'}"
        for name, known in PACKAGES.items()
        for source in sorted((package / name).rglob("*.py"))
        for other in imported.findall(source.read_text())
        if other in PACKAGES and other not in known | {name}
    ]


def licences() -> list[str]:
    """Files whose first line is not their room's licence."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    found = []
    for name in listed:
        path = ROOT / name
        if path.suffix not in CODE or not path.exists():
            continue
        licence = LICENCE.get(path.parts[len(ROOT.parts)], "MIT OR Apache-2.0")
        head = "\n".join(path.read_text(errors="replace").splitlines()[:2])
        if f"SPDX-License-Identifier: {licence}" not in head:
            found.append(f"{name}: begin it with `SPDX-License-Identifier: {licence}` in a comment")
    return found


def main() -> int:
    """Print every breach."""
    found = (
        crates()
        + test_files()
        + includes()
        + units()
        + declarations()
        + kernel()
        + laboratory()
        + packages()
        + licences()
    )
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
