# SPDX-License-Identifier: MIT OR Apache-2.0
"""The machine of power_cuts.py. It is booted once and saved before it has seen its drives; each cut starts from there.

Its root is the lab's initramfs with the module, dmsetup and the writer added; no file system of the host is mounted.
"""

import json
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

VM = Path(__file__).resolve().parent
BUILD = VM.parent.parent / "build"
LEGS = 3
BLOCK = 4096
BLOCKS = 8192
THREADS = 4
OFFSET_KIB = 1024  # of md's data on a drive
DRIVE_BYTES = BLOCKS * BLOCK + (OFFSET_KIB << 10)
VOLUME = "/dev/mapper/vol"
MEMORY_MB = 512  # fio has 85 MB of libraries
WATCHED = "a warning, to see that warnings come here"
DEBUG_MEMORY_MB = 768  # in addition, for a kernel that debug-kernel has built
LATE = "virtio_blk.ko"  # loaded after the machine was saved
WAIT_SECONDS = 240  # for one step of a machine on a busy host
# Patterns that must never occur in the kernel log, as for the cases.
LOG_BAD = re.compile(re.findall(r"^LOG_BAD='(.*)'$", (VM / "lib.sh").read_text(), re.MULTILINE)[0].encode())

GUEST = (VM / "cut-guest.sh").read_text()
BOOT = VM.parent.parent / "kernel/package/boot/volume"


class Failure(Exception):
    """A cut has found a fault."""


def initrd(kernel: Path, module: Path, work: Path, writer: str) -> Path:
    """Build the lab's initramfs with the module, dmsetup, mdadm and the writers added."""
    root = work / "root"
    cut = root / "cut"
    cut.mkdir(parents=True)
    release = kernel.name
    wanted = []
    for name in ("virtio_pci", "virtio_console", "dm-mod", "raid1", "virtio_blk"):
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
        if Path(source).name != LATE:
            names.append(Path(source).name)
    (cut / "modules").write_text("\n".join(names) + "\n")
    tools = [shutil.which(name, path=os.environ["PATH"] + ":/sbin:/usr/sbin") for name in ("dmsetup", "mdadm")]
    if not all(tools):
        raise Failure("no dmsetup or no mdadm on this host")
    programs = [*(Path(tool) for tool in tools if tool), BUILD / "vm" / "cutwriter"]
    if writer == "fio":
        programs.append(Path(shutil.which("fio") or "fio"))
    for program in programs:
        shutil.copy(program, cut)
        for line in subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.splitlines():
            library = re.search(r"(/\S+)", line)
            if library:
                shutil.copy(library[1], cut)
    # Programs find their libraries in their own directory.
    (cut / "run").write_text(
        '#!/bin/sh\np=$1; shift\nexec /cut/ld-linux-x86-64.so.2 --library-path /cut "/cut/$p" "$@"\n'
    )
    (cut / "run").chmod(0o755)
    guest = GUEST.replace("/cut/cutwriter", "/cut/run cutwriter")
    rule = re.search(r"^may_differ\(\) .*?^\}$", BOOT.read_text(), re.MULTILINE | re.DOTALL)
    if rule is None:
        raise Failure(f"{BOOT} has no may_differ")
    guest = guest.replace("MAYDIFFER", rule[0])
    for word, value in {
        "LEGNAMES": " ".join(str(k) for k in range(LEGS)),
        "LEGCOUNT": str(LEGS),
        "LEGSECTORS": str(DRIVE_BYTES // 512),
        "OFFSETK": str(OFFSET_KIB),
        "SIZEK": str(BLOCKS * BLOCK >> 10),
        "SECTORS": str(BLOCKS * BLOCK // 512),
        "VOLUME": VOLUME,
        "WRITER": writer,
        "WATCHED": WATCHED,
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


def nbd_read(server: Path, at: int, size: int) -> bytes:
    """Read from a server of the NBD protocol. A second reader flushes nothing."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(WAIT_SECONDS)
        line.connect(str(server))
        stream = line.makefile("rb")
        if stream.read(16) != b"NBDMAGICIHAVEOPT":
            raise Failure(f"{server} is no NBD server")
        flags = struct.unpack(">H", stream.read(2))[0]
        # Fixed newstyle without padding, the option EXPORT_NAME with the empty name.
        line.sendall(struct.pack(">I8sII", flags & 3, b"IHAVEOPT", 1, 0))
        stream.read(8 + 2 + (0 if flags & 2 else 124))
        data = b""
        while len(data) < size:
            length = min(1 << 20, size - len(data))
            line.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 0, 1, at + len(data), length))
            magic, error, _ = struct.unpack(">IIQ", stream.read(16))
            if magic != 0x67446698 or error:
                raise Failure(f"{server}: a read fails with {error}")
            data += stream.read(length)
        line.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 2, 2, 0, 0))
        return data


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
        """Wait for the connection and return it."""
        if self.peer is None:
            self.peer, _ = self.listener.accept()
            self.peer.settimeout(WAIT_SECONDS)
        return self.peer

    def more(self) -> bool:
        """Wait for bytes; return False at the end."""
        try:
            got = self.socket().recv(65536)
        except ConnectionResetError:
            got = b""
        except TimeoutError:
            raise Failure(f"the machine said nothing for {WAIT_SECONDS} s") from None
        self.held += got
        return bool(got)

    def line(self) -> str:
        """Read one line of text."""
        while b"\n" not in self.held:
            if not self.more():
                raise Failure("the machine ended by itself")
        text, _, self.held = self.held.partition(b"\n")
        return text.decode(errors="replace")

    def close(self) -> None:
        """Close both ends."""
        self.listener.close()
        if self.peer:
            self.peer.close()


class Machine:
    """One machine, from start to end."""

    def __init__(self, kernel: Path, image: Path, work: Path, volatile: bool, saved: Path | None):
        self.work, self.console = work, work / "console"
        self.talk, self.account = Line(work / "talk"), Line(work / "account")
        self.children: list[subprocess.Popen[bytes]] = []
        self.watched = False  # it has written a warning
        self.volatile = volatile
        command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]
        memory_mb = MEMORY_MB + DEBUG_MEMORY_MB * kernel.name.endswith("-debug")
        command += ["-machine", "q35", "-accel", "tcg,thread=multi,tb-size=128", "-smp", "2", "-m", str(memory_mb)]
        command += ["-cpu", "Haswell-noTSX,pcid=off,invpcid=off,x2apic=off,tsc-deadline=off", "-nic", "none"]
        command += ["-kernel", str(kernel / "vmlinux"), "-initrd", str(image), "-serial", f"file:{self.console}"]
        # Only the console is left to search after a cut, so it gets warnings and worse.
        command += ["-append", "console=ttyS0 quiet loglevel=5 panic=-1 nokaslr mitigations=off tsc=reliable"]
        # On a busy host the emulated CPUs stand still for a while. What hangs is found by our own limit.
        command[-1] += " rcupdate.rcu_cpu_stall_timeout=240"
        command[-1] += " no_timer_check nowatchdog audit=0 apparmor=0 random.trust_cpu=on rdinit=/init"
        if (kernel / "append").exists():
            command[-1] += " " + (kernel / "append").read_text().strip()
        command += ["-device", "virtio-serial-pci", "-qmp", f"unix:{work / 'qmp'},server=on,wait=off"]
        for name in ("talk", "account"):
            command += ["-chardev", f"socket,id={name},path={work / name}"]
            command += ["-device", f"virtserialport,chardev={name},name={name}"]
        for name in map(str, range(LEGS)):
            file = str(work / f"drive{name}")
            if volatile:
                file = self.serve(name, file)
            command += ["-drive", f"if=none,id=d{name},format=raw,cache=writeback,file={file}"]
            command += ["-device", f"virtio-blk-pci,serial=cut{name},drive=d{name}"]
        if saved:
            command += ["-incoming", f"exec:cat {saved}"]
        self.start(command)

    def start(self, command: list[str]) -> None:
        """Start a child process that is killed with the machine."""
        quiet = subprocess.DEVNULL
        self.children.append(subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet))

    def serve(self, name: str, file: str) -> str:
        """Serve a drive with a volatile cache: writes stay in the cache until the machine flushes them."""
        server = self.work / f"nbd{name}"
        server.unlink(missing_ok=True)
        command = ["nbdkit", "-f", "-U", str(server), "--filter=cache", "file", f"file={file}"]
        self.start([*command, "cache=writeback", "cache-min-block-size=4096"])
        limit = time.monotonic() + WAIT_SECONDS
        while not server.exists():
            if time.monotonic() > limit:
                raise Failure("nbdkit does not start")
            time.sleep(0.02)
        return f"nbd+unix:///?socket={server}"

    def contents(self, k: int) -> bytes:
        """The volume's data on drive K, as the machine would read them: with what is only in its volatile cache."""
        at, size = OFFSET_KIB << 10, BLOCKS * BLOCK
        if not self.volatile:
            with (self.work / f"drive{k}").open("rb") as drive:
                drive.seek(at)
                return drive.read(size)
        return nbd_read(self.work / f"nbd{k}", at, size)

    def save(self, to: Path) -> None:
        """Save the machine, before it has seen its drives."""
        with socket.socket(socket.AF_UNIX) as monitor, monitor.makefile("rw") as lines:
            monitor.connect(str(self.work / "qmp"))

            def ask(command: str, **arguments: object) -> dict[str, object]:
                lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
                lines.flush()
                while True:
                    answer = json.loads(lines.readline())
                    if "error" in answer:
                        raise Failure(f"{command}: {answer['error']}")
                    if "return" in answer:
                        return dict(answer["return"])

            lines.readline()
            ask("qmp_capabilities")
            ask("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
            ask("migrate", uri=f"exec:cat >{to}")
            while (state := ask("query-migrate").get("status")) != "completed":
                if state == "failed":
                    raise Failure("the machine cannot be saved")
                time.sleep(0.1)

    def say(self, text: str) -> None:
        """Send a line to the machine."""
        self.talk.socket().sendall(text.encode() + b"\n")

    def wait_for(self, word: str) -> bool:
        """Take what the writer accounts for until the machine says a word; False if the account was first."""
        talk, account = self.talk, self.account
        if b"\n" not in talk.held:
            ready = select.select([talk.socket(), account.socket()], [], [], WAIT_SECONDS)[0]
            if not ready:
                raise Failure(f"the machine said nothing for {WAIT_SECONDS} s")
            if account.peer in ready and not account.more():
                raise Failure("the machine ended by itself")
            if talk.peer not in ready:
                return False
        return self.expect(word) == ""

    def expect(self, word: str) -> str:
        """Read a line, which must begin with this word, and return the rest."""
        line = self.talk.line()
        if not line.startswith(word):
            raise Failure(f"the machine says '{line}', not '{word}'")
        self.watched |= word == "assembled"
        return line[len(word) :].strip()

    def cut(self, apart_s: float = 0.0) -> None:
        """Cut the power: of the machine, then of each drive that has a process of its own, so much apart."""
        for child in reversed(self.children):
            child.send_signal(signal.SIGKILL)
            time.sleep(apart_s)
        for child in self.children:
            child.wait()

    def close(self) -> None:
        """End the machine, and search what its console printed."""
        self.cut()
        self.talk.close()
        self.account.close()
        logged = self.console.read_bytes() if self.console.exists() else b""
        if self.watched and WATCHED.encode() not in logged:
            raise Failure("warnings do not reach the console")
        if LOG_BAD.search(logged):
            raise Failure("the kernel logged:\n" + logged.decode(errors="replace")[-4000:])
