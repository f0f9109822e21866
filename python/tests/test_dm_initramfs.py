# SPDX-License-Identifier: MIT OR Apache-2.0
"""The hook of initramfs-tools, with functions that copy modules at once, or only note them, as since 0.148."""

import os
import subprocess
from pathlib import Path

import pytest

HOOK = Path(__file__).parents[2] / "kernel/package/boot/initramfs/hooks/linnet"
MODULE = "lib/modules/6.12/updates/dkms/dm-linnet.ko"
COPY = """
copy_file() { mkdir -p "$DESTDIR/${2%/*}" && cp "$2" "$DESTDIR/$2"; }
copy_exec() { :; }
"""
AT_ONCE = """
manual_add_modules() { mkdir -p "$DESTDIR/${MODULE%/*}" && cp "$MODULE" "$DESTDIR/$MODULE"; }
"""
DEFERRED = """
manual_add_modules() { for one; do echo "$one" >>"$ROOT/queue"; done; }
apply_add_modules() {
	! grep -q dm-linnet "$ROOT/queue" || { mkdir -p "$DESTDIR/${MODULE%/*}" && cp "$MODULE" "$DESTDIR/$MODULE"; }
	: >"$ROOT/queue"
}
"""
BROKEN = """
manual_add_modules() { :; }
apply_add_modules() { return 1; }
"""


def initramfs(root: Path, functions: str) -> tuple[Path, str]:
    """What the hook copies, and what it says."""
    files = {
        "functions": COPY + functions,
        "bin/modprobe": f"#!/bin/sh\necho 'insmod {root}/{MODULE} '\n",
        MODULE: "",
        "etc/linnet/volumes.d/vol.conf": "uuid=1\narguments=policy linnet-best\n",
        "usr/lib/udev/rules.d/63-md-raid-linnet.rules": "# ours\n",
        "usr/lib/linnet/volume": "",
        "dest/lib/udev/rules.d/64-md-raid-assembly.rules": "",
    }
    for program in ("dmsetup", "mdadm", "busybox"):
        files[f"bin/{program}"] = "#!/bin/sh\n"
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        (root / path).chmod(0o755)
    hook = HOOK.read_text().replace("/usr/share/initramfs-tools/hook-functions", f"{root}/functions")
    for path in ("/etc/linnet", "/etc/udev", "/usr/lib/"):
        # What is below $DESTDIR stays so.
        hook = hook.replace(f" {path}", f" {root}{path}").replace(f"={path}", f"={root}{path}")
    where = {
        **os.environ,
        "PATH": f"{root}/bin:{os.environ['PATH']}",
        "DESTDIR": f"{root}/dest",
        "MODULE": f"{root}/{MODULE}",
        "ROOT": str(root),
        "version": "6.12",
    }
    done = subprocess.run(["sh", "-c", hook], env=where, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return root / f"dest{root}", done.stderr


@pytest.mark.parametrize("functions", [AT_ONCE, DEFERRED])
def test_a_volume_is_copied_with_its_module(tmp_path: Path, functions: str) -> None:
    (tmp_path / "dest/etc/linnet").mkdir(parents=True)
    copied, said = initramfs(tmp_path, functions)
    assert said == ""
    assert (copied / MODULE).exists() and (copied / "etc/linnet/volumes.d/vol.conf").exists()
    assert (copied / "usr/lib/udev/rules.d/63-md-raid-linnet.rules").exists()
    assert (tmp_path / "dest/etc/linnet/initramfs").exists()


def test_without_its_module_nothing_is_copied(tmp_path: Path) -> None:
    copied, said = initramfs(tmp_path, BROKEN)
    assert "dm-linnet.ko, which dm-linnet needs, cannot be copied" in said
    assert not copied.exists()
