# SPDX-License-Identifier: MIT OR Apache-2.0
"""``kernel/package/boot/volume`` in a directory that it takes for the machine, with programs that note their calls."""

import os
import subprocess
from pathlib import Path

VOLUME = Path(__file__).parents[2] / "kernel/package/boot/volume"
UUID = "aaaaaaaa:bbbbbbbb:cccccccc:dddddddd"
DMSETUP = """
case $1 in
create) [ ! -e dm/$2 ] && case $* in *unheard-of*) false ;; esac && : >dm/$2 ;;
info) [ -e dm/$2 ] ;;
remove) rm dm/$3 ;;
status) cat status-$4 ;;
message) [ ! -e old-module ] ;;
load) [ ! -e no-memory ] ;;
table)
	[ $# -gt 2 ] || set -- table --target linnet "$2"
	[ ! -e table-$4 ] || cat table-$4
	[ ! -e dm/$4 ] || case $3-$4 in linnet-leg-*-leg*) echo "0 131072 linnet-leg 8:${4##*-leg} 0" ;; esac ;;
esac
"""
# An array of two, whose members are legs, or else drives.
MDADM = f"""
assemble() {{
	[ "$1" != --run ] || {{ shift; : >ran-with-fewer; }}
	[ $# -ge 3 ] || [ -e ran-with-fewer ] || exit 1
	md=sys/block/md0 k=0
	mkdir -p $md/holders
	ln -sfn ../../block/md0 sys/class/block/md0
	shift
	for one; do
		mkdir -p $md/md/dev-$k/block
		case $one in *-leg*) mkdir $md/md/dev-$k/block/dm; echo ${{one##*/}} >$md/md/dev-$k/block/dm/name ;; esac
		echo DEVNAME=${{one##*/}} >$md/md/dev-$k/block/uevent
		echo 253:$k >$md/md/dev-$k/block/dev; echo $k >$md/md/dev-$k/slot; echo 2048 >$md/md/dev-$k/offset
		k=$((k + 1))
	done
	echo raid1 >$md/md/level; echo 2 >$md/md/raid_disks; echo clean >$md/md/array_state
	echo 9:0 >$md/dev; echo 129024 >$md/size
}}
case $* in
"--examine --export /dev/sd"* | "--examine --export /dev/etherd/"* | "--detail --export"*) echo MD_UUID={UUID} ;;
"--examine /dev/sda") echo "   Device Role : Active device 0" ;;
"--examine /dev/sdb") echo "   Device Role : Active device 1" ;;
--assemble*) shift; assemble "$@" ;;
--stop*) rm -r sys/block/md0 sys/class/block/md0 ;;
esac
"""


class Machine:
    """A machine with drives of one array; `log` has the commands that change something."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for path in ("bin", "dm", "etc/linnet/volumes.d", "run/linnet", "sys/block", "sys/class/block"):
            (root / path).mkdir(parents=True)
        for name, body in (("dmsetup", DMSETUP), ("mdadm", MDADM), ("modprobe", "")):
            program = root / "bin" / name
            program.write_text(f'#!/bin/sh\ncd "{root}"\necho "{name} $*" >>log\n{body}')
            program.chmod(0o755)
        text = VOLUME.read_text().replace("export PATH=", f"export PATH={root}/bin:")
        for path in ("/sys/", "/run/linnet", "/etc/linnet", "/dev/kmsg"):
            text = text.replace(path, f"{root}{path}")
        self.volume = root / "volume"
        self.volume.write_text(text)
        self.volume.chmod(0o755)
        self.describe("policy shortest-queue")

    def describe(self, arguments: str) -> None:
        (self.root / "etc/linnet/volumes.d/vol.conf").write_text(f"uuid={UUID}\narguments={arguments}\n")

    def drives(self, count: int, kind: str = "sd") -> None:
        for k in range(count):
            own = self.root / "sys/class/block" / f"{kind}{'ab'[k]}"
            (own / "holders").mkdir(parents=True)
            (own / "dev").write_text(f"8:{k}\n")
            (own / "size").write_text("131072\n")

    def run(self, *words: str, **env: str) -> tuple[int, str, str]:
        (self.root / "log").write_text("")
        where = {**os.environ, **env}
        done = subprocess.run([self.volume, *words], env=where, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    @property
    def log(self) -> list[str]:
        changes = (
            "dmsetup create",
            "dmsetup remove",
            "dmsetup message",
            "dmsetup load",
            "dmsetup suspend",
            "dmsetup resume",
            "mdadm --assemble",
            "mdadm --stop",
        )
        return [line for line in (self.root / "log").read_text().splitlines() if line.startswith(changes)]

    @property
    def devices(self) -> list[str]:
        return sorted(path.name for path in (self.root / "dm").iterdir())
