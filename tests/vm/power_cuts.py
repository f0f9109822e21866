# SPDX-License-Identifier: MIT OR Apache-2.0
"""Power cuts under write load: `tests/vm/power_cuts.py 100 --kernel 6.1`. Needs tests/vm/vmlab-setup once, not root.

Each cut boots a machine with a mirror of three drives and a disk log, lets it resync, checks the drives from outside,
starts writers (tests/vm/src/cutwriter.c) and kills the machine at a moment drawn from the seed. Checked after each cut,
once the mirror says that it is in sync:

- the three drives are equal, byte for byte;
- every block holds a write whole, of its own number, none older than was acknowledged or seen after an earlier cut;
- what was read through the mirror while it resynced did not change from one pass to the next;
- the kernel logged no warning before the machine was killed.

Two kinds of drive take turns. A `kept` drive keeps every write that it acknowledged; the writers use O_DIRECT. A
`volatile` drive loses what was not flushed (nbdkit's cache filter, killed together with the machine); the writers use
O_DIRECT and O_DSYNC, so it is the mirror's flushes, and the order of log and data, that are on trial. One cut in seven
comes while the mirror resyncs. The last line is `N cuts, N failures`.
"""

import argparse
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path

VM = Path(__file__).resolve().parent
BUILD = VM.parent.parent / "build"
CACHE = Path(os.environ.get("VMLAB_CACHE", "/var/cache/vmlab"))
LEGS = 3
BLOCK = 4096
BLOCKS = 8192
REGION_SECTORS = 256
THREADS = 4
MAGIC = 0x74656E6E694C7563
ACCOUNT = struct.Struct("<QQQ")
WAIT_SECONDS = 240  # for one step of a machine on a busy host
LOG_BAD = re.compile(
    rb"WARNING:|BUG[: ]|Oops|general protection|blocked for more than|rcu.*stall|Call Trace|use-after-free"
)

GUEST = r"""#!/bin/busybox sh
# SPDX-License-Identifier: MIT OR Apache-2.0
export PATH=/bin DM_DISABLE_UDEV=1
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for m in $(cat /cut/modules); do insmod "/cut/$m" || echo "insmod $m failed"; done
for p in /sys/class/virtio-ports/*; do
	case $(cat "$p/name") in talk) talk=/dev/${p##*/} ;; account) account=/dev/${p##*/} ;; esac
done
exec 3<>"$talk"
drive() {
	for b in /sys/block/nvme*n*; do
		[ "$(tr -d ' ' <"$b/device/serial")" = "cut$1" ] && echo "/dev/${b##*/}"
	done
}
i=0
while [ -z "$(drive log)" ] || [ "$(ls -d /sys/block/nvme*n* | wc -l)" -lt LEGCOUNT ]; do
	i=$((i + 1)); [ $i -lt 300 ] || { echo "no drives" >&3; sleep 1000; }
	usleep 100000
done
legs=
for k in LEGNAMES; do legs="$legs $(drive $k) 0"; done
/cut/run dmsetup create m --table "0 SECTORS linnet LOGLEGS$legs ARGUMENTS" >/cut/err 2>&1 ||
	{ echo "create: $(cat /cut/err)" >&3; sleep 1000; }
state() { /cut/run dmsetup status m | sed 's/.* sync \([0-9]*\)\/\([0-9]*\) .*/\1 \2/'; }
in_sync() { set -- $(state); [ "$1" = "$2" ]; }
echo "assembled $(state)" >&3
first=$(/cut/cutwriter /dev/dm-0 sum); passes=1
while ! in_sync; do
	passes=$((passes + 1))
	[ "$first" = "$(/cut/cutwriter /dev/dm-0 sum)" ] || echo "flip" >&3
done
[ "$first" = "$(/cut/cutwriter /dev/dm-0 sum)" ] || echo "flip" >&3
for k in LEGNAMES; do /cut/cutwriter "$(drive $k)" flush || echo "flush failed" >&3; done
echo "synced $passes" >&3
read -r seed run mode <&3
/cut/cutwriter /dev/dm-0 "$account" "$seed" "$run" THREADCOUNT BLOCKCOUNT "$mode" >/cut/err 2>&1
echo "writer ended: $(cat /cut/err)" >&3
sleep 1000
"""


class Failure(Exception):
    """What a cut has found."""


def initrd(kernel: Path, module: Path, arguments: str, work: Path) -> Path:
    """The lab's first file system, with the module, dmsetup and the writer on top."""
    root = work / "root"
    cut = root / "cut"
    cut.mkdir(parents=True)
    release = kernel.name
    wanted = []
    for name in ("virtio_pci", "virtio_console", "nvme", "dm-mod", "dm-log", "dm-region-hash"):
        shown = subprocess.run(
            ["modprobe", "-d", kernel / "root", "-S", release, "--show-depends", name],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        wanted += [line.split()[1] for line in shown.splitlines() if line.startswith("insmod")]
    names = []
    for source in [*dict.fromkeys(wanted), str(module)]:
        shutil.copy(source, cut)
        names.append(Path(source).name)
    (cut / "modules").write_text("\n".join(names) + "\n")
    shutil.copy(BUILD / "vm" / "cutwriter", cut)
    dmsetup = shutil.which("dmsetup", path=os.environ["PATH"] + ":/sbin:/usr/sbin")
    if not dmsetup:
        raise Failure("no dmsetup on this host")
    shutil.copy(dmsetup, cut)
    for program in (dmsetup, BUILD / "vm" / "cutwriter"):
        for line in subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.splitlines():
            library = re.search(r"(/\S+)", line)
            if library:
                shutil.copy(library[1], cut)
    # Programs find their libraries beside them.
    (cut / "run").write_text(
        '#!/bin/sh\np=$1; shift\nexec /cut/ld-linux-x86-64.so.2 --library-path /cut "/cut/$p" "$@"\n'
    )
    (cut / "run").chmod(0o755)
    guest = GUEST.replace("/cut/cutwriter", "/cut/run cutwriter")
    for word, value in {
        "LEGCOUNT": str(LEGS + 1),
        "LEGNAMES": " ".join(str(k) for k in range(LEGS)),
        "LOGLEGS": str(LEGS),
        "SECTORS": str(BLOCKS * BLOCK // 512),
        "ARGUMENTS": arguments,
        "THREADCOUNT": str(THREADS),
        "BLOCKCOUNT": str(BLOCKS),
    }.items():
        guest = guest.replace(word, value)
    (root / "init").write_text(guest)
    (root / "init").chmod(0o755)
    listed = "\n".join(str(p.relative_to(root)) for p in sorted(root.rglob("*"))) + "\n"
    archive = subprocess.run(
        ["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=listed.encode(), capture_output=True, check=True
    ).stdout
    image = work / "initrd"
    image.write_bytes((kernel / "initrd.cpio").read_bytes() + archive)
    return image


class Line:
    """A channel from the machine: qemu connects to it."""

    def __init__(self, path: Path):
        path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(1)
        self.listener.settimeout(WAIT_SECONDS)
        self.peer: socket.socket | None = None
        self.held = b""

    def socket(self) -> socket.socket:
        """The connection, once it is there."""
        if self.peer is None:
            self.peer, _ = self.listener.accept()
            self.peer.settimeout(WAIT_SECONDS)
        return self.peer

    def more(self) -> bool:
        """Waits for bytes; False at the end."""
        try:
            got = self.socket().recv(65536)
        except ConnectionResetError:
            got = b""
        except TimeoutError:
            raise Failure(f"the machine said nothing for {WAIT_SECONDS} s") from None
        self.held += got
        return bool(got)

    def line(self) -> str:
        """One line of text."""
        while b"\n" not in self.held:
            if not self.more():
                raise Failure("the machine ended by itself")
        text, _, self.held = self.held.partition(b"\n")
        return text.decode(errors="replace")

    def close(self) -> None:
        """Both ends."""
        self.listener.close()
        if self.peer:
            self.peer.close()


class Machine:
    """One boot, and its end."""

    def __init__(self, kernel: Path, image: Path, work: Path, volatile: bool):
        self.console = work / "console"
        self.talk, self.account = Line(work / "talk"), Line(work / "account")
        self.children: list[subprocess.Popen[bytes]] = []
        command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]
        command += ["-machine", "q35", "-accel", "tcg,thread=multi,tb-size=128", "-smp", "2", "-m", "384"]
        command += ["-cpu", "Haswell-noTSX,pcid=off,invpcid=off,x2apic=off,tsc-deadline=off", "-nic", "none"]
        command += ["-kernel", str(kernel / "vmlinux"), "-initrd", str(image), "-serial", f"file:{self.console}"]
        command += [
            "-append",
            "console=ttyS0 quiet loglevel=4 panic=-1 nokaslr mitigations=off tsc=reliable no_timer_check",
        ]
        command[-1] += " nowatchdog audit=0 apparmor=0 random.trust_cpu=on rcupdate.rcu_expedited=1 rdinit=/init"
        command += ["-device", "virtio-serial-pci"]
        for name in ("talk", "account"):
            command += ["-chardev", f"socket,id={name},path={work / name}"]
            command += ["-device", f"virtserialport,chardev={name},name={name}"]
        for name in [*map(str, range(LEGS)), "log"]:
            file = str(work / f"drive{name}")
            if volatile:
                server = work / f"nbd{name}"
                server.unlink(missing_ok=True)
                serve = ["nbdkit", "-f", "-U", str(server), "--filter=cache", "file", f"file={file}"]
                self.children.append(
                    subprocess.Popen([*serve, "cache=writeback", "cache-min-block-size=4096"], stdin=subprocess.DEVNULL)
                )
                file = f"nbd+unix:///?socket={server}"
                wait_for(server)
            command += ["-drive", f"if=none,id=d{name},format=raw,cache=writeback,file={file}"]
            command += ["-device", f"nvme,id=n{name},serial=cut{name},drive=d{name}"]
        self.children.append(
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )

    def expect(self, word: str) -> str:
        """Reads lines up to the one that begins with this word."""
        line = self.talk.line()
        if not line.startswith(word):
            raise Failure(f"the machine says '{line}', not '{word}'")
        return line[len(word) :].strip()

    def cut(self) -> None:
        """The power goes."""
        for child in self.children:
            child.send_signal(signal.SIGKILL)
        for child in self.children:
            child.wait()

    def close(self) -> None:
        """What the console said; lines closed."""
        self.cut()
        self.talk.close()
        self.account.close()
        logged = self.console.read_bytes() if self.console.exists() else b""
        if LOG_BAD.search(logged):
            raise Failure("the kernel logged:\n" + logged.decode(errors="replace")[-4000:])


def wait_for(path: Path) -> None:
    """Until it exists."""
    limit = time.monotonic() + WAIT_SECONDS
    while not path.exists():
        if time.monotonic() > limit:
            raise Failure(f"{path} does not appear")
        time.sleep(0.02)


@dataclass
class Volume:
    """What the drives must hold: for each block the least sequence number, 0 for never written."""

    work: Path
    floor: list[int] = field(default_factory=lambda: [0] * BLOCKS)
    written: int = 0

    def dirty(self) -> str:
        """What the log on its drive says, before the machine reads it: the kernel's format, a bit per clean region."""
        data = (self.work / "drivelog").read_bytes()
        regions = BLOCKS * BLOCK // 512 // REGION_SECTORS
        if not any(data[:4]):
            return "a new log"
        clean = int.from_bytes(data[1024 : 1024 + regions // 8], "little").bit_count()
        return f"{regions - clean} of {regions} regions dirty"

    def acknowledged(self, sequence: int, first: int, count: int) -> None:
        """A write has ended."""
        for block in range(first, first + count):
            self.floor[block] = max(self.floor[block], sequence)

    def check(self, run: int) -> None:
        """The drives are equal, and hold what they must; what they hold now they must go on holding."""
        legs = [(self.work / f"drive{k}").read_bytes() for k in range(LEGS)]
        for k in range(1, LEGS):
            if legs[k] != legs[0]:
                bad = [b for b in range(0, len(legs[0]), BLOCK) if legs[0][b : b + BLOCK] != legs[k][b : b + BLOCK]]
                where = f"in {len(bad)} blocks, first {bad[0] // BLOCK}"
                raise Failure(f"after the resync drives 0 and {k} differ {where}")
        self.written = 0
        for block in range(BLOCKS):
            data = legs[0][block * BLOCK : (block + 1) * BLOCK]
            sequence = 0
            if any(data[:24]) or data.count(0) != BLOCK:
                magic, number, sequence = ACCOUNT.unpack_from(data)
                if zlib.crc32(data[:-8]) != struct.unpack_from("<Q", data, BLOCK - 8)[0] or magic != MAGIC:
                    raise Failure(f"block {block} is torn")
                if number != block or sequence >> 32 >= run:
                    raise Failure(f"block {block} holds block {number} of run {sequence >> 32}")
                self.written += 1
            if sequence < self.floor[block]:
                raise Failure(f"block {block} holds write {sequence:#x}, but {self.floor[block]:#x} was acknowledged")
            self.floor[block] = sequence


def one_cut(run: int, seed: int, machine: Machine, volume: Volume, mode: str) -> str:
    """From the boot to the kill; says what happened."""
    chance = random.Random(seed * 1_000_003 + run)
    machine.expect("assembled")
    if chance.random() < 1 / 7:
        time.sleep(chance.random() * 0.5)
        machine.cut()
        return "cut while resyncing"
    passes = machine.expect("synced")
    volume.check(run)
    target = chance.randrange(5, 400)
    machine.talk.socket().sendall(f"{seed} {run} {mode}\n".encode())
    account, seen = machine.account, 0

    def take() -> int:
        whole = len(account.held) // ACCOUNT.size * ACCOUNT.size
        for record in ACCOUNT.iter_unpack(account.held[:whole]):
            volume.acknowledged(*record)
        account.held = account.held[whole:]
        return whole // ACCOUNT.size

    while seen < target:
        if not account.more():
            raise Failure("the machine ended by itself")
        seen += take()
    time.sleep(chance.random() * 0.05)
    machine.cut()
    while account.more():
        pass
    seen += take()
    return f"{passes} passes read meanwhile, {volume.written} blocks checked, cut after {seen} writes"


def main() -> int:
    """Cuts, and the count of what they found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cuts", type=int, nargs="?", default=3)
    parser.add_argument("--kernel", default="6.1", help="series or release (6.1)")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--module", type=Path, help="dm-linnet.ko (build/kernel/<release>/)")
    parser.add_argument("--canary", action="store_true", help="with a log that calls every region clean: must fail")
    options = parser.parse_args()
    kernel = (CACHE / "k" / options.kernel).resolve()
    module = options.module or BUILD / "kernel" / kernel.name / "dm-linnet.ko"
    for needed in (kernel / "vmlinux", module, BUILD / "vm" / "cutwriter"):
        if not needed.exists():
            print(f"skipped: no {needed}")
            return 77
    log = f"LOGDEV {REGION_SECTORS}" + (" nosync" if options.canary else "")
    arguments = f"{3 + len(log.split())} log disk {len(log.split())} {log.replace('LOGDEV', '$(drive log)')}"
    print(f"seed {options.seed}, kernel {kernel.name}, {LEGS} drives of {BLOCKS} blocks, {THREADS} writers", flush=True)
    failures = 0
    with tempfile.TemporaryDirectory(prefix="power-cuts.") as name:
        work = Path(name)
        for drive in [*map(str, range(LEGS)), "log"]:
            with (work / f"drive{drive}").open("wb") as file:
                file.truncate(BLOCKS * BLOCK if drive != "log" else 1 << 20)
        image = initrd(kernel, module, arguments, work)
        volume = Volume(work)
        for run in range(1, options.cuts + 2):  # the last boot only looks at what the last cut left
            volatile = random.Random(options.seed * 31 + run).random() < 0.5
            kind = "volatile" if volatile else "kept"
            began, dirty = time.monotonic(), volume.dirty()
            machine = Machine(kernel, image, work, volatile)
            try:
                try:
                    if run > options.cuts:
                        machine.expect("assembled")
                        machine.expect("synced")
                        volume.check(run)
                        told = f"{volume.written} blocks checked, the last look"
                    else:
                        told = one_cut(run, options.seed, machine, volume, "sync" if volatile else "plain")
                finally:
                    machine.close()
            except Failure as failure:
                failures += 1
                told = f"FAILED: {failure}"
                volume = Volume(work)  # what is lost is told once
            print(f"cut {run} ({kind}, {time.monotonic() - began:.0f} s): {dirty}; {told}", flush=True)
    print(f"repeat with: tests/vm/power_cuts.py {options.cuts} --kernel {options.kernel} --seed {options.seed}")
    if options.canary:
        print("the canary was found" if failures else "the canary was not found")
        return 0 if failures else 1
    print(f"{options.cuts} cuts, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
