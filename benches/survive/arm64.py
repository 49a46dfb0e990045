"""Does it work on arm64? Built here, tested under emulation, and measured in an emulated machine.

``build``: agent and tests for aarch64 as a user's own compiler makes them (static, GNU's C library); clippy for that
target. ``units``: the Rust tests under QEMU's emulation of one program. ``guest``: a machine as ``qemu-tcg`` starts it
on an arm64 host, with the kernel, the modules and the initramfs for arm64. ``machine``: QEMU emulates a host with
Debian's arm64 kernels, of 4 KiB and of 16 KiB a page. In it the Rust tests run, ``virtoll doctor``, and a run over the
host, namespaces and containers with its report. It has no network but its own.

Nothing is registered at this machine (binfmt_misc): the emulators are called by name. Needs, of Debian: mmdebstrap,
qemu-user-static, qemu-system-arm, gcc-aarch64-linux-gnu, libc6-dev-arm64-cross; of rustup: the target. Emulation on x86
shows no wrong order of memory accesses: x86 orders more of them than Arm does.

Ends with 1 where a test or a step fails that is not named here with its reason. No seed: nothing is drawn.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benches.survive import arm64_root
from benches.survive.arm64_guest import VCPUS
from benches.survive.arm64_inside import LAST_WORDS_BYTES, MARK
from benches.survive.arm64_root import Content, Disk, Kernel, Step
from tests.support import experiments

from virtoll.errors import ImageError
from virtoll.image import debian
from virtoll.image.elf import read_head

ROOT = Path(__file__).resolve().parents[2]
TRIPLE = "aarch64-unknown-linux-gnu"
PARTS = ("build", "units", "guest", "machine")
GUEST = Path(__file__).with_name("arm64_guest.py")
NIC_DRIVERS = ["8139cp", "e1000", "virtio_net", "vmxnet3"]
KERNELS = ("locked", "linux-image-arm64-16k")
"""That of guests by its digest, and what a metapackage of Debian 13 stands for."""
PLATFORMS = ("native", "netns", "runc", "crun")
_EMULATOR = "qemu-aarch64-static"
_MACHINE_SECONDS = 1700
_TEST_SECONDS = 900
_RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)
_FAILED = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. FAILED$", re.MULTILINE)
# What is started by these tests is a program of arm64 again, which this machine's kernel does not execute.
_STARTS_PROGRAMS = "starts the agent as a program of its own, which takes a kernel of arm64"
NOT_UNDER_USER_EMULATION = {
    "background": _STARTS_PROGRAMS,
    "enter": _STARTS_PROGRAMS,
    "http_load": _STARTS_PROGRAMS,
    "kernel_jobs": _STARTS_PROGRAMS,
    "live_frames": "makes a BPF map, which user-mode QEMU answers with ENOSYS",
    "network": _STARTS_PROGRAMS,
    "no_allocation": "enters namespaces by starting itself again",
    "packet_path": _STARTS_PROGRAMS,
    "routing_table": _STARTS_PROGRAMS,
    "stdio": _STARTS_PROGRAMS,
    "tcp": _STARTS_PROGRAMS,
    "two_hosts": _STARTS_PROGRAMS,
    "wire_command": _STARTS_PROGRAMS,
}
"""Whole test programs that are left to the machine, with the reason."""
UNITS_NOT_UNDER_USER_EMULATION: dict[str, str] = {}
"""Single tests of the others, by their names, with the reason."""
MAY_FAIL_IN_THE_MACHINE = {
    "harm_by_counting_is_in_the_sinks_books": "its router, a program in Python, is behind by more than a sink waits",
    "three_sources_several_flows_and_a_mix_of_sizes": "a frame that has no room for 100 ms is refused",
}
"""Tests of real time, which an emulator on a busy machine may be too slow for, with the reason."""
_WORKLOADS: tuple[dict[str, object], ...] = (
    {
        "workload": "forward",
        "frame_size_bytes": [64],
        "sweep": "from-flat-out",
        "first_rate_frames_per_second": 500,
        "point_milliseconds": 200,
    },
    {"workload": "superpi", "digits": 16384},
)


@dataclass
class Row:
    """Of the table: what was done, how, and what came of it; ``wrong``: what ends this part with 1."""

    what: str
    how: str
    result: str
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"| {self.what} | {self.how} | {self.result} |"


@dataclass(frozen=True)
class Built:
    """The agent as it is installed, and what the tests are: their programs, and the agent that these start."""

    agent: Path
    tests: tuple[Path, ...]
    tests_agent: Path


@dataclass(frozen=True)
class Asked:
    """What is done in the machine: the steps of these names, or all; the run over ``platforms``.

    ``steps``: a name of ``_steps``, or of a test program. ``tests``: of each program those alone whose names have it.
    """

    kernels: Sequence[str] = KERNELS
    steps: Sequence[str] = ()
    tests: Sequence[str] = ()
    platforms: Sequence[str] = PLATFORMS

    def experiment(self) -> str:
        """The run's, as text."""
        return experiments.text(
            name="arm64",
            question="Does a run on arm64 measure what it should?",
            platforms=list(self.platforms),
            baseline=self.platforms[0],
            workloads=list(_WORKLOADS),
            guest={"vcpus": 1, "memory": "128MiB"},
            rounds=None,
            blocks=1,
            seed=18,
        )


def main(arguments: Sequence[str]) -> int:
    """Run the parts that are named, or all; print one table."""
    parser = argparse.ArgumentParser(prog="arm64", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}; all without")
    parser.add_argument("--work", type=Path, help="a folder for what is made and fetched, which then stays")
    parser.add_argument("--cpu", default="neoverse-n1", help="QEMU's model of a CPU (that of Graviton2 and Altra)")
    parser.add_argument("--kernel", action="append", default=[], choices=KERNELS, help="this one alone; repeatable")
    parser.add_argument("--step", action="append", default=[], help="of the machine, or a test program; repeatable")
    parser.add_argument("--test", action="append", default=[], help="of the machine's tests these alone; repeatable")
    parser.add_argument("--platform", action="append", default=[], choices=PLATFORMS[1:], help="beside native")
    parser.add_argument("--seed", type=int, default=18, help="taken as by all parts; nothing is drawn here")
    options = parser.parse_args(arguments)
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        print(f"arm64: there is no part '{unknown.pop()}'; use {', '.join(PARTS)}", file=sys.stderr)
        return 2
    parts = options.parts or PARTS
    platforms = [PLATFORMS[0], *(options.platform or PLATFORMS[1:])]
    asked = Asked(options.kernel or KERNELS, options.step, options.test, platforms)
    print(f"seed: {options.seed}")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="virtoll-arm64-") as folder:
        work = options.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        built = build()
        if "build" in parts:
            rows += [_agent_row(built), _clippy_row()]
        if "units" in parts:
            rows += units(built)
        if "guest" in parts:
            rows.append(guest(built, work.absolute(), options.cpu))
        if "machine" in parts:
            rows += machine(built, work.absolute(), options.cpu, asked)
    print("\n| what | how | result |\n| --- | --- | --- |", *rows, sep="\n")
    wrong = [f"{row.what}: {one}" for row in rows for one in row.wrong]
    print("\n" + ("\n".join(wrong) if wrong else "Nothing failed that is not named with its reason."))
    return 1 if wrong else 0


def build() -> Built:
    """Cargo decides whether anything is to do."""
    _cargo("build", "--release", "-p", "virtoll-agent")
    said = _cargo("test", "--workspace", "--no-run", "--message-format=json")
    tests, agent = [], None
    for line in said.splitlines():
        message = json.loads(line)
        if message.get("reason") != "compiler-artifact" or not message.get("executable"):
            continue
        if message["profile"]["test"]:
            tests.append(Path(message["executable"]))
        elif message["target"]["name"] == "virtoll-agent":
            agent = Path(message["executable"])
    assert agent is not None
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    return Built(target / TRIPLE / "release/virtoll-agent", tuple(sorted(tests)), agent)


def _cargo(*arguments: str) -> str:
    """Its standard output; CalledProcessError where it fails, whose words are then on the terminal."""
    more = {f"CARGO_TARGET_{TRIPLE.upper().replace('-', '_')}_LINKER": "aarch64-linux-gnu-gcc"}
    command = ["cargo", arguments[0], "--locked", "--quiet", "--target", TRIPLE, *arguments[1:]]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | more, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def _agent_row(built: Built) -> Row:
    head = read_head(built.agent.read_bytes())
    said = _emulated([str(built.agent), "--version"], 60)
    fine = head is not None and head.static and head.machine == "aarch64" and said.returncode == 0
    size = built.agent.stat().st_size / 2**20
    result = f"static, {size:.1f} MiB; says {said.stdout.strip() or said.stderr.strip()}"
    return Row("agent", f"`cargo build --target {TRIPLE}`", result, [] if fine else ["it is not static, or not arm64"])


def _clippy_row() -> Row:
    try:
        _cargo("clippy", "--workspace", "--all-targets", "--", "-D", "warnings")
    except subprocess.CalledProcessError:
        return Row("Clippy", "all crates and tests, a warning is an error", "warnings", ["Clippy warns, see above"])
    return Row("Clippy", "all crates and tests, a warning is an error", "no warning")


def _emulated(command: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [_EMULATOR, *command], capture_output=True, text=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL
    )


def units(built: Built) -> list[Row]:
    """Each test program by the emulator of one program; what it cannot do is left out by name."""
    rows = []
    for program in built.tests:
        name = program.name.rpartition("-")[0]
        if name in NOT_UNDER_USER_EMULATION:
            continue
        skipped = [word for test in UNITS_NOT_UNDER_USER_EMULATION for word in ("--skip", test)]
        start = time.monotonic()
        said = _emulated([str(program), "--test-threads=2", *skipped], _TEST_SECONDS)
        rows.append(_tests_row(f"tests of `{name}`", "QEMU, user mode", said.stdout, time.monotonic() - start))
        if said.returncode != 0:
            print(f"{name}: {said.stdout[-6000:]}\n{said.stderr[-3000:]}", file=sys.stderr)
    return rows


def _tests_row(what: str, how: str, said: str, seconds: float) -> Row:
    found = _RESULT.findall(said)
    passed, failed, ignored = (sum(int(one[place]) for one in found) for place in range(3))
    wrong = [f"failed: {name}" for name in _FAILED.findall(said)]
    if not found:
        wrong = ["it came to no result"]
    told = f"{passed} passed, {failed} failed" + (f", {ignored} ignored" if ignored else "")
    return Row(what, how, f"{told} ({seconds:.0f} s)", wrong)


def guest(built: Built, work: Path, cpu: str) -> Row:
    """A machine of the product's own; it says what it is."""
    command = [sys.executable, str(GUEST), str(built.agent), str(work / "cache"), cpu]
    start = time.monotonic()
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_MACHINE_SECONDS, check=False)
    seconds = time.monotonic() - start
    how = "a machine of the driver's own arguments"
    if said.returncode != 0:
        return Row("guest of `qemu-tcg`", how, f"exit code {said.returncode}", ["it did not answer"])
    facts = json.loads(said.stdout)
    wanted = {"machine": "aarch64", "cpus": VCPUS, "drivers": NIC_DRIVERS, "ended_with": 0}
    wrong = [f"{key} is {facts[key]}" for key, value in wanted.items() if facts[key] != value]
    told = f"Linux {facts['kernel']}, {facts['cpus']} CPUs, NICs {', '.join(facts['drivers'])} ({seconds:.0f} s)"
    return Row("guest of `qemu-tcg`", how, told, wrong)


def machine(built: Built, work: Path, cpu: str, asked: Asked = Asked()) -> list[Row]:
    """The machine on each kernel."""
    steps = [one for one in _steps(built, asked.tests) if not asked.steps or step_name(one) in asked.steps]
    missing = set(asked.steps) - {step_name(one) for one in steps}
    if missing:
        raise SystemExit(f"arm64: the machine has no step '{missing.pop()}'")
    wheel = _wheel(built.agent, work / "dist")
    content = Content(wheel, built.tests, built.tests_agent, asked.experiment(), tuple(steps))
    disk = arm64_root.make_disk(work, content, asked.kernels)
    rows = []
    for kernel in disk.kernels:
        results = work / f"results-{kernel.release}"
        rows += _boot(disk, kernel, cpu, results, steps)
    return rows


def _wheel(agent: Path, into: Path) -> Path:
    """The wheel for arm64, made on this machine: the agent's own machine names it."""
    for old in into.glob("virtoll-*.whl"):
        old.unlink()
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
    command = [*pip, "--no-build-isolation", "--wheel-dir", str(into), str(ROOT)]
    subprocess.run(command, env=os.environ | {"VIRTOLL_AGENT": str(agent)}, check=True)
    (found,) = into.glob("virtoll-*_aarch64.whl")
    return found


def _steps(built: Built, tests: Sequence[str] = ()) -> Iterator[Step]:
    """In this order; what a user does first, then the tests."""
    python = ("python3", "-m", "virtoll")
    yield Step("machine", ("sh", "-c", "uname -a; getconf PAGESIZE; head -n 12 /proc/cpuinfo; lsmod"), 60)
    yield Step("setup", (*python, "setup", "--print"), 300, must_work=False)
    yield Step("doctor", (*python, "doctor"), 600, must_work=False)
    yield Step("run", (*python, "run", "/virtoll/arm64.yaml", "--into", "/results/run"), 1200)
    yield Step("verify", (*python, "verify", "/results/run"), 300)
    for program in built.tests:
        name = program.name.rpartition("-")[0]
        folder = next(path for path in ROOT.glob("crates/*") if name in _tests_of(path))
        command = (f"/virtoll/tests/{program.name}", "--test-threads=2", *tests)
        yield Step(f"test-{program.name}", command, 600, str(folder))


def step_name(step: Step) -> str:
    """As it is asked for: a test program without the mark of its build."""
    return step.name.removeprefix("test-").rpartition("-")[0] if step.name.startswith("test-") else step.name


def _tests_of(crate: Path) -> set[str]:
    """The names of a crate's test programs."""
    folders = {path.parent.name for path in crate.glob("tests/*/main.rs")}
    return {path.stem for path in crate.glob("tests/*.rs")} | folders | {f"virtoll_{crate.name}"}


def _boot(disk: Disk, kernel: Kernel, cpu: str, results: Path, steps: Sequence[Step]) -> list[Row]:
    """Boots it once, follows its console, and reads what it left on the second disk."""
    results.mkdir(parents=True, exist_ok=True)
    left = results / "results.tar"
    with left.open("wb") as file:
        file.truncate(512 << 20)
    console = results / "console.txt"
    start = time.monotonic()
    with console.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            _qemu(disk, kernel, cpu, left), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            process.wait(_MACHINE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    seconds = time.monotonic() - start
    ended = {one["name"]: one for one in _told(console) if "seconds" in one}
    how = f"machine, Linux {kernel.release}"
    rows = [Row("boot to end", how, f"{seconds:.0f} s, {len(ended)} of {len(steps)} steps")]
    try:
        debian.run(["tar", "--extract", "--no-same-owner", "--file", left, "--directory", results])
    except ImageError as error:
        rows[0].wrong.append(f"it left nothing ({error}); its console is {console}")
    rows += [_step_row(step, ended.get(step.name), results / "results", how) for step in steps]
    return rows


def _qemu(disk: Disk, kernel: Kernel, cpu: str, left: Path) -> list[str]:
    return [
        *("qemu-system-aarch64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-machine", "virt,gic-version=3", "-accel", "tcg,thread=multi", "-cpu", cpu, "-smp", "2", "-m", "2G"),
        *("-kernel", str(kernel.image), "-initrd", str(kernel.initrd), "-append", "console=ttyAMA0 quiet panic=-1"),
        *("-serial", "stdio", "-nic", "none"),
        *("-drive", f"if=none,id=root,format=raw,snapshot=on,file={disk.file}", "-device", "virtio-blk-pci,drive=root"),
        *("-drive", f"if=none,id=left,format=raw,file={left}", "-device", "virtio-blk-pci,drive=left"),
    ]


def _told(console: Path) -> Iterator[dict[str, object]]:
    for line in console.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(MARK):
            yield json.loads(line.removeprefix(MARK))


def _step_row(step: Step, ended: dict[str, object] | None, results: Path, how: str) -> Row:
    if ended is None:
        return Row(step.name, how, "not reached", ["not reached"])
    said = results / f"{step.name}.txt"
    text = said.read_text(encoding="utf-8", errors="replace") if said.exists() else ""
    seconds = float(str(ended["seconds"]))
    if step.name.startswith("test-"):
        row = _tests_row(f"tests of `{step_name(step)}`", how, text, seconds)
    else:
        row = Row(f"`{step.name}`", how, f"exit code {ended['code']} ({seconds:.0f} s)")
    slow = [name for name in MAY_FAIL_IN_THE_MACHINE if f"failed: {name}" in row.wrong]
    row.wrong = [one for one in row.wrong if one.removeprefix("failed: ") not in slow]
    if slow:
        row.result += f"; too slow for it: {', '.join(f'`{name}`' for name in slow)}"
    elif step.must_work and ended["code"] != 0 and not row.wrong:
        row.wrong.append(f"exit code {ended['code']}, see {said}")
    if row.wrong:
        print(f"{step.name}: {text[-LAST_WORDS_BYTES:]}", file=sys.stderr)
    return row
