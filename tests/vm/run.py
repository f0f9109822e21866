# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run the cases of tests/vm/cases in virtual machines with stock kernels: `make test-vm`.

Cases that need the same machine share one boot; boots run in parallel. tests/vm/README.md lists what a case can request
in its `# vm:` line. The last line is `N passed, N failed`, with `, N skipped` if some were.
"""

import argparse
import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

VM = Path(__file__).resolve().parent
ROOT = VM.parent.parent
BUILD = ROOT / "build"
KERNELS = ("6.1", "6.12")
DEBUG = {"-debug": "debug-kernel", "-kcsan": "debug-kernel kcsan"}  # suffixes of kernels, and what builds each
DEBUG_FACTOR = 6  # how much slower the checks make such a kernel
DEBUG_MEM = 1536  # and how many MB they need: shadow, quarantine, lock records
GRACE_SECONDS = 300  # added to a case's limit, and for a boot: busy machines take minutes; times DEBUG_FACTOR, too
SKIP = 77
PASSED_ON = ("SEED", "RELOADS", "SHOW")  # environment variables for cases in the machine
EMULATOR_TRIES = 12  # boots in a row that the emulator may end in the first case
EFLAGS_INTERRUPTS = 0x200
STALL = re.compile(r"self-detected stall|detected stalls? on CPUs|blocked for more than \d+ seconds")
STALL_LINES = 60  # of the console, from the first report of a stall on


@dataclass(frozen=True)
class Case:
    """One script and its requests."""

    path: Path
    nvme: tuple[str, ...] = ("3:256M",)
    timeout: int = 120
    kernels: tuple[str, ...] = ()  # empty: every kernel
    mem: int = 2048
    append: str = ""
    alone: bool = False  # needs a separate boot
    host: bool = False  # runs on the host and boots its own machines
    slow: bool = False  # only when named, or with --slow
    prints: bool = False  # its output is what it is run for

    @property
    def name(self) -> str:
        """Its name in commands."""
        return self.path.stem

    @property
    def machine(self) -> tuple[object, ...]:
        """Cases with equal values may share a boot."""
        return (self.nvme, self.mem, self.append, self.path if self.alone else None)

    def on(self, kernel: str, slower: int) -> "Case":
        """The case with the time and memory that it needs on a kernel, on a host that is so many times slower."""
        debug = kernel.endswith(tuple(DEBUG))
        factor = slower * (DEBUG_FACTOR if debug else 1)
        return replace(self, timeout=self.timeout * factor, mem=self.mem + (DEBUG_MEM if debug else 0))


@dataclass
class Result:
    """The result of one case on one kernel."""

    name: str
    kernel: str
    status: str  # pass, FAIL or skip; again: the emulator ended the machine
    seconds: float = 0.0
    output: list[str] = field(default_factory=list)
    prints: bool = False


class CaseError(Exception):
    """A `# vm:` line has an unknown word."""


def read_case(path: Path) -> Case:
    """Reads the `# vm:` lines of a case."""
    values: dict[str, object] = {}
    words = [w for line in re.findall(r"^# vm:(.*)$", path.read_text(), re.MULTILINE) for w in line.split()]
    for word in words:
        key, _, value = word.partition("=")
        if key in ("alone", "host", "slow", "prints") and not value:
            values[key] = True
        elif key in ("timeout", "mem") and value.isdigit():
            values[key] = int(value)
        elif key == "nvme" and re.fullmatch(r"\d+:\d+[KMG](,\d+:\d+[KMG])*", value):
            values[key] = tuple(value.split(","))
        elif key == "kernel" and value:
            values["kernels"] = tuple(value.split(","))
        elif key == "append" and value:
            values[key] = value.replace(",", " ")
        else:
            raise CaseError(f"{path}: `# vm:` does not know `{word}`; tests/vm/README.md lists what it does")
    return Case(path, **values)  # type: ignore[arg-type]


def asked_cases(cases: list[Case], names: list[str]) -> list[Case]:
    """The cases of these names or patterns; of ``NAME@KERNEL`` on that kernel alone."""
    asked = []
    for case in cases:
        wanted = [kernel for name, _, kernel in (n.partition("@") for n in names) if case.path.match(f"{name}.sh")]
        if "" in wanted:
            asked.append(case)
        elif kernels := [k for k in wanted if not case.kernels or k in case.kernels]:
            asked.append(replace(case, kernels=tuple(kernels)))
    return asked


class Boot:
    """One machine that runs some cases of one kernel; booted again after a case that crashed it."""

    def __init__(self, kernel: str, cases: list[Case], logs: Path, slower: int):
        self.kernel, self.cases, self.logs = kernel, cases, logs
        self.grace = slower * GRACE_SECONDS * (DEBUG_FACTOR if kernel.endswith(tuple(DEBUG)) else 1)

    def run(self) -> list[Result]:
        """Runs every case."""
        if self.cases[0].host:
            result = self.on_host(self.cases[0])
            show(result)
            return [result]
        left, results, tries = list(self.cases), [], 1
        while left:
            done = self.boot(left, tries < EMULATOR_TRIES)
            ended = [r for r in done if r.status != "again"]
            results += ended
            left = left[len(ended) :]
            tries = 1 if ended else tries + 1
        return results

    def environment(self) -> dict[str, str]:
        """The environment of a case on the host."""
        return {
            **os.environ,
            "KERNEL": self.kernel,
            "VMLAB": str(VM / "vmlab"),
            "BUILD": str(BUILD),
            "MODULES": str(modules_dir(self.kernel)),
        }

    def on_host(self, case: Case) -> Result:
        """Runs a case that boots its own machines."""
        began = time.monotonic()
        child = subprocess.Popen(
            ["bash", str(case.path)],
            cwd=ROOT,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = child.communicate(timeout=case.timeout)
            status = {0: "pass", SKIP: "skip"}.get(child.returncode, "FAIL")
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGTERM)
            output, _ = child.communicate()
            output += f"timeout after {case.timeout} s\n"
            status = "FAIL"
        return Result(case.name, self.kernel, status, time.monotonic() - began, output.splitlines(), case.prints)

    def boot(self, cases: list[Case], may_repeat: bool) -> list[Result]:
        """Boot once; return the results of the cases that started, at least one."""
        first = cases[0]
        console = self.logs / f"{self.kernel}-{first.name}.console"
        console.unlink(missing_ok=True)  # that of another run
        whole = sum(c.timeout for c in cases) + self.grace
        command = [str(VM / "vmlab"), "run", "--kernel", self.kernel, "--timeout", str(whole)]
        command += ["--mem", str(first.mem), "--console", str(console)]
        for spec in first.nvme:
            command += ["--nvme", spec]
        if first.append:
            command += ["--append", first.append]
        listed = [f"{name}={os.environ[name]}" for name in PASSED_ON if os.environ.get(name)]
        listed += [f"{c.path.relative_to(ROOT)}:{c.timeout}" for c in cases]
        guest = [str(VM / "guest.sh"), str(modules_dir(self.kernel)), *listed]
        child = subprocess.Popen(
            [*command, "--", *guest],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        results: list[Result] = []
        before: list[str] = []
        current: Result | None = None
        began, logged = time.monotonic(), 0
        watch = Watch(child, self.grace)
        assert child.stdout
        for raw in child.stdout:
            line = raw.rstrip("\n")
            if line.startswith("@@ start "):
                current = Result(line.split()[2], self.kernel, "FAIL")
                began, logged = time.monotonic(), console.stat().st_size if console.exists() else 0
                watch.allow(next(c.timeout for c in cases if c.name == current.name) + self.grace)
            elif line.startswith("@@ end ") and current:
                current.status = {"0": "pass", str(SKIP): "skip"}.get(line.split()[3], "FAIL")
                current.seconds = time.monotonic() - began
                results.append(current)
                show(current)
                current = None
                watch.allow(self.grace)
            else:
                (current.output if current else before).append(line)
        child.wait()
        watch.stop()
        if current:
            current.seconds = time.monotonic() - began
            said = console.read_bytes() if console.exists() else b""
            if may_repeat and has_stale_breakpoint(said.decode(errors="replace")):
                current.status = "again"
            current.output += stalled(said[logged:].decode(errors="replace"))
            current.output.append(f"the machine ended in this case (status {child.returncode}); console: {console}")
            results.append(current)
            show(current)
        if not results:
            last = console.read_text(errors="replace").splitlines()[-15:] if console.exists() else []
            results.append(Result(first.name, self.kernel, "FAIL", 0.0, ["the machine did not start", *before, *last]))
            show(results[0])
        return results


def has_stale_breakpoint(console: str) -> bool:
    """Whether a CPU ran a breakpoint at a place where the code has none.

    The kernel patches its code, for instance where a tracepoint is, by way of an `int3`. QEMU 7.2 may still run its
    translation of that `int3` when the kernel has replaced it and waited for all CPUs (Red Hat bug 2216496). The kernel
    then panics. In its report, the byte before the marked one is no `cc`. Our modules have the kernel patch code, but
    patch none themselves, so none can cause this.

    Where the place has a kprobe of linnet_tune, the kernel takes the `int3` for the probe's. That probe is an ftrace
    hook without a copy of an instruction, so the kernel goes on at address 0, and at the third time calls the probe
    unrecoverable. Address 0 alone could be our defect, a call through a null pointer. But the third report shows that
    there was an `int3`. The module refuses probes that are breakpoints, and one of those would show its `cc`.

    The machine may end before that third time; then the first report has to tell. See `went_to_zero_from_probe`.
    """
    marked = r" Code: .* (\w\w) <\w\w>"
    stale = rf"int3: 0000(?:.*\n)*?.*{marked}"
    of_probe = rf"Unrecoverable kprobe detected(?:.*\n)*?.* asm_exc_int3\b.*\n.* RIP: 0010:.*\n.*{marked}"
    if any(code and code[1] != "cc" for code in (re.search(stale, console), re.search(of_probe, console))):
        return True
    return went_to_zero_from_probe(console)


def went_to_zero_from_probe(console: str) -> bool:
    """Whether the first report is that of a kprobe without a copy of an instruction, at a function that a fault calls.

    A call through a null pointer shows address 0, too. But `do_fault` calls the file system's function through RAX,
    which still has the function's address here and would be 0 there; and interrupts are on where it does. Only the code
    of kprobes that goes on at the copy of the instruction turns them off. Our hooks would be in the trace.
    """
    begun = console.find(" RIP: 0010:")
    report = (
        r" RIP: 0010:0x0\n.* Code: .*\n.* EFLAGS: (\w+)\n.* RAX: ffffffff[89a-f]\w{7} .*\n(?:.*\n){0,12}?"
        r".* Call Trace:\n.* <TASK>\n(?:.*\]  \? .*\n)*.*\]  (?:__)?do_fault\+.*\n(?:.*\n){0,40}?"
        r".* Modules linked in: .*\blinnet_tune\("
    )
    found = re.compile(report).match(console, begun) if begun >= 0 else None
    return found is not None and not int(found[1], 16) & EFLAGS_INTERRUPTS


def stalled(console: str) -> list[str]:
    """What the kernel logged from its first report of a CPU or task that stands still; nothing if it has none.

    A report does not end the case: on a busy host the emulated CPUs stand still for a while, and go on. A machine that
    hangs is ended by the limit of time.
    """
    lines = console.splitlines()
    first = next((k for k, line in enumerate(lines) if STALL.search(line)), None)
    return [] if first is None else ["the kernel logged:", *lines[first : first + STALL_LINES]]


class Watch:
    """Ends a machine in which no case has started or ended for too long."""

    def __init__(self, child: "subprocess.Popen[str]", seconds: float):
        self.child = child
        self.timer: threading.Timer | None = None
        self.allow(seconds)

    def allow(self, seconds: float) -> None:
        """Restart the timer."""
        self.stop()
        self.timer = threading.Timer(seconds, self.child.terminate)
        self.timer.daemon = True
        self.timer.start()

    def stop(self) -> None:
        """Stop the timer."""
        if self.timer:
            self.timer.cancel()


def modules_dir(kernel: str) -> Path:
    """Where the modules for a kernel are built."""
    return BUILD / "kernel" / Path(kernel_build_dir(kernel)).parent.name


def kernel_build_dir(kernel: str) -> str:
    """The value of KDIR for a kernel of the lab."""
    return subprocess.run([VM / "vmlab", "kdir", kernel], capture_output=True, text=True, check=True).stdout.strip()


def set_up(kernels: list[str]) -> str:
    """Prepare kernels, modules and helpers. Return what is missing if no machine can run here."""
    for kernel in kernels:
        there = subprocess.run([VM / "vmlab", "kdir", kernel], capture_output=True, check=False).returncode == 0
        builder = next((how for suffix, how in DEBUG.items() if kernel.endswith(suffix)), None)
        if builder and not there:
            return f"no kernel {kernel}; tests/vm/{builder} builds it"
    if os.geteuid() != 0 and any(not (Path("/var/cache/vmlab/k") / k).exists() for k in kernels):
        return "setting up needs root: run tests/vm/vmlab-setup once as root"
    if not shutil.which("apt-get") and not shutil.which("qemu-system-x86_64"):
        return "no qemu-system-x86_64, and no apt to install it"
    if os.geteuid() == 0 and subprocess.run([VM / "vmlab-setup", *kernels], check=False).returncode != 0:
        return "vmlab-setup could not get qemu or the kernels"
    subprocess.run(["make", "-s", "-C", VM / "src", f"OUT={BUILD / 'vm'}"], check=True)
    subprocess.run(["make", "-s", "lib"], cwd=ROOT, check=True)
    for kernel in kernels:
        for target in ("kernel", "kernel-test"):
            if re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE):
                subprocess.run(["make", "-s", target, f"KDIR={kernel_build_dir(kernel)}"], cwd=ROOT, check=True)
    return ""


def plan(cases: list[Case], kernels: list[str], logs: Path, slower: int) -> list[Boot]:
    """Group the cases into boots, the longest boots first."""
    boots = []
    for kernel in kernels:
        machines: dict[tuple[object, ...], list[Case]] = {}
        for case in cases:
            if not case.kernels or kernel in case.kernels:
                machines.setdefault((case.path, "host") if case.host else case.machine, []).append(
                    case.on(kernel, slower)
                )
        boots += [Boot(kernel, group, logs, slower) for group in machines.values()]
    return sorted(boots, key=lambda b: -sum(c.timeout for c in b.cases))


def run_all(boots: list[Boot], jobs: int) -> list[Result]:
    """Run every boot, some at the same time."""
    results: list[Result] = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(b.run) for b in boots]):
            results += done.result()
    return results


def show(result: Result) -> None:
    """Print one line for a case, and its output unless it passed and has nothing to tell."""
    lines = [f"{result.status:4}  {result.kernel:5} {result.name:32} {result.seconds:6.1f} s"]
    if result.status == "skip":
        lines.append("      " + (result.output[-1] if result.output else "no reason given"))
    elif result.status == "again":
        lines.append("      the emulator ran a breakpoint that was no longer there")
    elif result.status == "FAIL" or result.prints:
        lines += ["      " + line for line in result.output[-300:]]
    print("\n".join(lines), flush=True)  # in one call, because machines run in parallel


def main() -> int:
    """Run the requested cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--case", action="append", default=[], help="only this case (a name or a pattern like fs-*, also NAME@KERNEL)"
    )
    parser.add_argument(
        "--kernel", action="append", default=[], help="only this kernel: 6.1, 6.12, 6.1-debug or 6.1-kcsan"
    )
    parser.add_argument("--jobs", type=int, default=2, help="machines at the same time")
    parser.add_argument("--slow", action="store_true", help="also the cases that take long")
    parser.add_argument("--slower", type=int, default=1, metavar="N", help="N times the time limits, on a busy host")
    parser.add_argument("--again", action="store_true", help="run once more what failed")
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    args = parser.parse_args()

    try:
        cases = [read_case(p) for p in sorted((VM / "cases").glob("*.sh"))]
    except CaseError as error:
        print(error, file=sys.stderr)
        return 2
    asked = asked_cases(cases, args.case)
    if args.case and not asked:
        print(f"no case is called {', '.join(args.case)}; --list shows them", file=sys.stderr)
        return 2
    cases = asked or [c for c in cases if args.slow or not c.slow]
    if args.list:
        print("\n".join(c.name for c in cases))
        return 0
    kernels = args.kernel or list(KERNELS)
    try:
        missing = set_up(kernels)
    except subprocess.CalledProcessError as error:
        print(f"cannot build: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        return 1
    if missing:
        print(f"skipped: {missing}")
        print(f"0 passed, 0 failed, {len(cases) * len(kernels)} skipped")
        return 0

    logs = BUILD / "vm" / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    results = run_all(plan(cases, kernels, logs, args.slower), args.jobs)
    failed = {(r.name, r.kernel) for r in results if r.status == "FAIL"}
    if failed and args.again:
        print(f"once more: {', '.join(f'{name} on {kernel}' for name, kernel in sorted(failed))}", flush=True)
        results = [r for r in results if r.status != "FAIL"]
        boots = [b for k in kernels for b in plan([c for c in cases if (c.name, k) in failed], [k], logs, args.slower)]
        results += run_all(boots, args.jobs)
    count = {status: sum(r.status == status for r in results) for status in ("pass", "FAIL", "skip")}
    skipped = f", {count['skip']} skipped" if count["skip"] else ""
    print(f"{count['pass']} passed, {count['FAIL']} failed{skipped}")
    return 1 if count["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
