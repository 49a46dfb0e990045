"""Debian's kernels from 5.10 to unstable's, with roots of several systems, in emulated machines with cgroup v2.

In each machine: the doctor; each back end of generator and sink; a small experiment over all container platforms, with
a limit on CPU time and one on memory that its guest exceeds; a controller that is killed (``kill -9``), and the run
taken up again; observers; the same as an ordinary user with a delegated cgroup. What is left in cgroups, links and
state is looked at after each.

The experiment is smaller than the preset ``quick``: one block of one round, without QEMU's guests, because emulation is
ten times slower. Main functions: ``main``, ``tried`` (one machine), ``root_disk``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benches.survive import emulated, made_roots
from benches.survive.machine_scripts import AS_USER, DELEGATE, LIKE_SYSTEMD, PROGRAMS, STATE
from benches.survive.made_roots import Kind
from benches.survive.roots import wheel_into
from tests.support import experiments
from tests.support.repository import ROOT
from tests.support.wheels import tracked

_PROGRAMS = ("iproute2", "util-linux", "mount", "kmod", "procps", "runc", "crun")
_ENGINES = ("podman", "docker.io", "lxc", "systemd-container", "conmon", "uidmap", "iptables")
_CLIENT = "docker-cli"  # in docker.io up to Debian 12
# Busybox does the rest, also as /bin/sh; bash is what a machine takes commands by (``emulated.py``).
_BARE = ("bash", "iproute2", "util-linux", "mount", "kmod", "runc", "crun")
PAIRS = (
    ("5.10", "debian-12"),
    ("6.1", "debian-12"),
    ("6.12", "debian-13"),
    ("backports", "debian-13"),
    ("sid", "debian-sid"),
    ("6.12", "bare"),
)
"""Kernel and root of each machine: each kernel once, each root once. Debian 11's Python is too old for Virtoll."""
STEPS = ("doctor", "wire", "killed", "user", "runs", "observed")
_ABSENT = ("memory.peak", "memory.reclaim", "cgroup.kill", "cpu.pressure", "pids.peak")
_FOLDER = "/root/survive"
_AGENT = "/opt/virtoll/virtoll/bin/virtoll-agent"
_RUN_SECONDS = 1200.0
_PERIOD_SECONDS = 0.1
_SLICES_SECONDS = 0.01
_TELLING_PERIODS = 5
_PLATFORMS: tuple[object, ...] = (
    "native",
    "netns",
    {"platform": "netns", "label": "netns-half", "limits": "cgroup", "cpu_max": 0.5},
    {"platform": "runc", "label": "runc-half", "cpu_max": 0.5},
    {"platform": "runc", "label": "runc-small"},
    "crun",
    "podman",
    "docker",
    "lxc",
    "nspawn",
)
_WORKLOADS: tuple[dict[str, object], ...] = (
    {
        "workload": "forward",
        "frame_size_bytes": [64],
        "sweep": "from-flat-out",
        "first_rate_frames_per_second": 100,
        "point_milliseconds": 200,
        "cpu_milliseconds": 100,
        "cpu_rate_frames_per_second": 2000,
    },
    {"workload": "superpi", "digits": 60_000},  # much longer than a period of a quota, on a fast machine too
    {"workload": "masr", "size_bytes": "32MiB"},
)
# Each platform starts and computes; the host, a namespace and a container forward; one container is out of memory.
_SKIPPED = [
    *(f"{name}:forward" for name in ("netns-half", "runc-half", "runc-small", "podman", "docker", "lxc", "nspawn")),
    *(f"{name}:masr" for name in ("netns", "netns-half", "runc-half", "crun", "podman", "docker", "lxc", "nspawn")),
    "runc-small:superpi",
]


@dataclass
class Row:
    """What came of a machine. ``wrong``: whatever must not be, in sentences; ``failed``: reasons by platform."""

    kernel: str
    root: str
    release: str = ""
    doctor: str = ""
    ok: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    lacks: list[str] = field(default_factory=list)
    limited: str = ""
    user: str = ""
    wire: dict[str, str | None] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def text(self) -> str:
        """A row of the table."""
        failed = "; ".join(f"{name}: {why}" for name, why in self.failed.items()) or "none"
        cells = [self.release, self.root, self.doctor, f"{self.ok} ok", failed, self.limited, self.user]
        return f"| {' | '.join([*cells, ', '.join(self.lacks) or 'nothing', '; '.join(self.wrong) or 'none'])} |"

    def wire_text(self) -> str:
        """A row of the table of generator and sink."""
        cells = ["works" if why is None else f"no: {why[-120:]}" for why in self.wire.values()]
        return f"| {' | '.join([self.release, self.root, *cells])} |"


HEAD = (
    "| kernel | root | doctor | trials | failed, why | CPU time over wall time | ordinary user, delegated | "
    "has not | wrong |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)
WIRE_HEAD = (
    "| kernel | root | live-frames | af-xdp | af-packet | sink xdp | sink tpacket | sink xdp with a capture |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)


def packages_of(name: str) -> tuple[str, ...]:
    """The Debian packages of a root of this kind, besides Python."""
    if name == Kind.BARE:
        return _BARE
    client = () if Kind(name) is Kind.DEBIAN_12 else (_CLIENT,)
    return (*_PROGRAMS, *_ENGINES, *client)


def root_disk(name: str) -> Path:
    """A disk with a root of this kind and the product in it, made when product or root are new."""
    packages = packages_of(name)
    product = _product_digest(packages)
    disk = emulated.FILES / "disks" / f"{name}-{product}.ext4"
    if disk.exists():
        return disk
    disk.parent.mkdir(parents=True, exist_ok=True)
    for old in disk.parent.glob(f"{name}-*.ext4"):
        old.unlink()
    root = emulated.FILES / "roots" / f"{name}-{hashlib.sha256(' '.join(packages).encode()).hexdigest()[:8]}"
    if not root.exists():
        root.parent.mkdir(parents=True, exist_ok=True)
        for old in root.parent.glob(f"{name}*"):
            shutil.rmtree(old)
        made_roots.make_root(Kind(name), root, packages)
    with tempfile.TemporaryDirectory(dir=emulated.FILES) as folder:
        wheel = wheel_into(Path(folder))
        shutil.rmtree(root / "opt/virtoll", ignore_errors=True)
        emulated.install_product(root, wheel, ROOT / "requirements.lock")
        emulated.make_disk(root, Path(folder) / "disk")
        (Path(folder) / "disk").rename(disk)
    return disk


def _product_digest(packages: Sequence[str]) -> str:
    digest = hashlib.sha256((ROOT / "build" / "virtoll-agent").read_bytes() + " ".join(packages).encode())
    for name in [*tracked(), "benches/survive/emulated.py"]:
        digest.update(name.encode() + (ROOT / name).read_bytes())
    return digest.hexdigest()[:12]


@dataclass(frozen=True)
class Asked:
    """What is done in each machine: these of ``STEPS``, and of the platforms the host and those of these labels.

    ``keep``: a folder for what was said in it.
    """

    steps: Sequence[str] = STEPS
    labels: Sequence[str] = ()
    keep: Path | None = None

    def platforms(self, every: Sequence[object]) -> list[object]:
        """Those of them that are asked for; without labels all."""
        return [one for one in every if not self.labels or label_of(one) in ("native", *self.labels)]

    def skipped(self) -> list[str]:
        """Which jobs the platforms that are asked for do not do."""
        there = {label_of(one) for one in self.platforms(_PLATFORMS)}
        return [one for one in _SKIPPED if one.partition(":")[0] in there]


def label_of(platform: object) -> str:
    """A platform's label in the experiments of a machine."""
    return str(platform.get("label", platform["platform"]) if isinstance(platform, dict) else platform)


LABELS = tuple(label_of(one) for one in _PLATFORMS)


def tried(kernel: str, root: str, asked: Asked = Asked()) -> Row:
    """One machine, from its boot to its end."""
    row = Row(kernel, root)
    with tempfile.TemporaryDirectory(dir=emulated.FILES) as folder:
        disk = Path(folder) / "disk"
        subprocess.run(["cp", "--sparse=always", root_disk(root), disk], check=True)
        try:
            with emulated.booted(emulated.prepare_kernel(kernel), disk) as machine:
                _Trial(machine, row, asked).all()
        except emulated.MachineEnded as error:
            row.wrong.append(f"the machine: {error}")
    return row


class _Trial:
    """What is done in one machine; each step adds to the row."""

    def __init__(self, machine: emulated.Machine, row: Row, asked: Asked) -> None:
        self.machine, self.row, self.asked = machine, row, asked

    def all(self) -> None:
        """The steps. One that gives a traceback is told as wrong, and the next one is tried."""
        self._do(f"mkdir -p {_FOLDER}")
        for name, text in PROGRAMS.items():
            self.machine.put(f"{_FOLDER}/{name}.py", text.encode())
        self.row.release = self._do("uname -r").text.strip()
        absent = " ".join(f"/sys/fs/cgroup/init.scope/{name}" for name in _ABSENT)
        self.row.lacks = [
            Path(name).name for name in self._do(f"for one in {absent}; do [ -e $one ] || echo $one; done").text.split()
        ]
        self._do(LIKE_SYSTEMD)
        done = {
            "doctor": self._doctor,
            "wire": self._wire,
            "killed": self._killed,
            "user": self._user,
            "runs": self._runs,
            "observed": self._observed,
        }
        for step in self.asked.steps:
            before = self._do(STATE).text
            done[step]()
            self._compare(before, step)

    def _do(self, script: str, seconds: float = _RUN_SECONDS) -> emulated.Answer:
        since = time.monotonic()
        answer = self.machine.run(script, seconds)
        if self.asked.keep is not None:
            with (self.asked.keep / f"{self.row.kernel}-{self.row.root}.txt").open("a", encoding="utf-8") as file:
                file.write(f"$ {script}\n{answer.text}\n= {answer.code} in {time.monotonic() - since:.0f} s\n\n")
        if "Traceback" in answer.text:
            self.row.wrong.append(f"a traceback of {script[:60]!r}")
        return answer

    def _compare(self, before: str, step: str) -> None:
        """Whether cgroups, links, mounts and state are as before a step."""
        old, new = before.splitlines(), self._do(STATE).text.splitlines()
        changed = [f"+{line}" for line in new if line not in old] + [f"-{line}" for line in old if line not in new]
        if changed:
            self.row.wrong.append(f"{step} left {', '.join(changed[:5])}")

    def _doctor(self) -> None:
        found = self._do("virtoll doctor --json")
        every = json.loads(found.text[found.text.index("{") :])["platforms"]
        platforms = [one for one in every if one["family"] != "model"]
        works = [one["platform"] for one in platforms if one["available"]]
        self.row.doctor = f"{len(works)} of {len(platforms)} work"

    def _wire(self) -> None:
        """Which back ends of generator and sink work on this kernel: what does not is no fault of the product."""
        found = self._do(f"unshare --net python3 {_FOLDER}/wire.py {_AGENT} | cat")
        if "{" not in found.text:
            self.row.wrong.append(f"generator and sink told nothing: {found.text[-200:]}")
            return
        self.row.wire = json.loads(found.text[found.text.index("{") :])

    def _experiment(
        self, name: str, platforms: Sequence[object], workloads: Sequence[object], skip: Sequence[str] = ()
    ) -> str:
        text = experiments.text(
            name=name,
            platforms=list(platforms),
            workloads=list(workloads),
            skip=list(skip) or None,
            blocks=1,
            guest={"vcpus": 1, "memory": "128MiB"},
            seed=18,
        )
        self.machine.put(f"{_FOLDER}/{name}.yaml", text.encode())
        return f"{_FOLDER}/{name}.yaml"

    def _trials(self, run: str) -> list[dict[str, object]]:
        found = self._do(f"python3 {_FOLDER}/told.py {run}")
        if found.code != 0:
            self.row.wrong.append(f"{run} has no trials")
            return []
        rows: list[dict[str, object]] = json.loads(found.text)
        return rows

    def _runs(self) -> None:
        file = self._experiment("small", self.asked.platforms(_PLATFORMS), _WORKLOADS, self.asked.skipped())
        starve = f"python3 {_FOLDER}/starve.py >{_FOLDER}/starved.txt & starving=$!\n"
        self._do(f"{starve}cd {_FOLDER}; virtoll run {file} --into {_FOLDER}/small 2>&1 | cat; kill $starving")
        told = self._do(f"cat {_FOLDER}/starved.txt").text.strip()
        trials = self._trials(f"{_FOLDER}/small")
        starved = [one["status"] for one in trials if one["platform"] == "runc-small"]
        if "runc-small" in map(label_of, self.asked.platforms(_PLATFORMS)) and (
            starved != ["failed"] or "taken" not in told
        ):
            self.row.wrong.append(f"the trial of the guest without memory is {starved}; of its group: {told[-300:]}")
        self.row.ok = sum(one["status"] == "ok" for one in trials)
        for one in trials:
            if one["status"] != "ok":
                self.row.failed.setdefault(f"{one['platform']} {one['workload']}", str(one["reason"])[:120])
        self.row.limited = shares(trials)
        self.row.wrong += not_held(trials)

    def _killed(self) -> None:
        """``kill -9`` of the controller while a limited guest is there; nothing is left, and the run goes on."""
        file = self._experiment("killed", [_PLATFORMS[0], _PLATFORMS[2], _PLATFORMS[3]], _WORKLOADS[1:2])
        self._do(
            f"cd {_FOLDER}; virtoll run {file} --into {_FOLDER}/killed >killed.txt 2>&1 & started=$!\n"
            "until [ -s killed/trials.jsonl ] && ls -d /sys/fs/cgroup/virtoll-*/*/; do "
            "kill -0 $started || break; sleep 0.1; done >/dev/null 2>&1\n"
            "kill -9 $started; for n in $(seq 600); do "
            "ls -d /sys/fs/cgroup/virtoll-* /run/virtoll >/dev/null 2>&1 || break; sleep 0.1; done"
        )
        self._do(f"cd {_FOLDER}; virtoll resume {_FOLDER}/killed 2>&1 | cat")
        numbers = [one["trial"] for one in self._trials(f"{_FOLDER}/killed")]
        if sorted(map(str, numbers)) != sorted(map(str, range(len(numbers)))) or not numbers:
            self.row.wrong.append(f"after kill -9 and resume not each trial is there once: {numbers}")

    def _observed(self) -> None:
        only = "--platform runc-half --workload superpi --trials 1"
        found = self._do(f"cd {_FOLDER}; virtoll explain {_FOLDER}/small {only} 2>&1 | cat")
        if "throttled" not in found.text:
            self.row.wrong.append(f"no throttling was observed: {found.text[-200:]}")

    def _user(self) -> None:
        before = self._do("cat /sys/fs/cgroup/cgroup.subtree_control").text
        self._do(DELEGATE)
        platforms = self.asked.platforms(["native", *_PLATFORMS[2:4], "crun", "podman"])
        file = self._experiment("user", platforms, [_WORKLOADS[1]])
        self._do(f"cp {file} /home/someone; chmod 644 /home/someone/*.yaml; rm -rf /home/someone/user")
        command = "virtoll run user.yaml --into user --quiet"
        self._do(AS_USER.format(command=command))
        trials = self._trials("/home/someone/user")
        bad = "; ".join(f"{one['platform']}: {str(one['reason'])[:120]}" for one in trials if one["status"] != "ok")
        ok = sum(one["status"] == "ok" for one in trials)
        self.row.wrong += not_held(trials)
        self.row.user = f"{ok} ok, {shares(trials)}" + (f"; {bad}" if bad else "")
        kept = self._do("find /sys/fs/cgroup/user.slice -mindepth 1 -type d | sort").text.split()
        if [Path(one).name for one in kept] != ["mine", "shell"]:
            self.row.wrong.append(f"left in the user's folder: {kept}")
        self._do(
            "for one in mine/shell mine; do rmdir /sys/fs/cgroup/user.slice/$one; done\n"
            "rmdir /sys/fs/cgroup/user.slice; for one in $(cat /sys/fs/cgroup/cgroup.subtree_control); do "
            f"case ' {before.strip()} ' in *\" $one \"*) ;; "
            "*) echo -$one >/sys/fs/cgroup/cgroup.subtree_control;; esac; done"
        )


def _used(trials: Sequence[dict[str, object]]) -> dict[str, tuple[float, float]]:
    """Of the host and each platform with half a CPU the first job's CPU time and wall time, in seconds."""
    found: dict[str, tuple[float, float]] = {}
    for one in trials:
        limited = str(one["platform"]).endswith("half")
        if one["workload"] == "superpi" and (limited or one["platform"] == "native") and isinstance(one["cpu"], list):
            cpu, wall = one["cpu"]
            found.setdefault(str(one["platform"]), (cpu, wall))
    return found


def shares(trials: Sequence[dict[str, object]]) -> str:
    """The CPU time over the wall time of superpi on the host and with half a CPU."""
    return ", ".join(f"{name} {cpu / wall:.2f}" for name, (cpu, wall) in _used(trials).items()) or "not measured"


def not_held(trials: Sequence[dict[str, object]]) -> list[str]:
    """In sentences: which guest with half a CPU had more of it by the kernel's account, or ran too briefly to tell.

    A job may begin with the last of a period's quota and end with the first of another's. The quota is handed out in
    slices of 5 ms to each CPU, of which what is left over can be used in the next period.
    """
    wrong = []
    for name, (cpu, wall) in _used(trials).items():
        if not name.endswith("half"):
            continue
        if wall < _TELLING_PERIODS * _PERIOD_SECONDS:
            wrong.append(f"{name} computed for {wall:.2f} s: too short to judge its limit")
        elif cpu > 0.5 * (wall + _PERIOD_SECONDS) + _SLICES_SECONDS:
            wrong.append(f"{name} used {cpu:.2f} s of CPU time in {wall:.2f} s")
    return wrong


def main(arguments: list[str]) -> int:
    """Each pair of kernel and root, or those that are named; 1 where something was left or wrong."""
    parser = argparse.ArgumentParser(prog="survive machines", description=__doc__)
    parser.add_argument("--seed", type=int, default=18, help="nothing is drawn here; for all parts alike")
    parser.add_argument("--count", type=int, default=len(PAIRS), help="how many of the pairs, the first ones")
    parser.add_argument("--pair", action="append", default=[], metavar="KERNEL:ROOT", help="this one; repeatable")
    parser.add_argument("--step", action="append", default=[], choices=STEPS, help="this one alone; repeatable")
    parser.add_argument("--platform", action="append", default=[], choices=LABELS, help="beside native; repeatable")
    parser.add_argument("--keep", type=Path, help="a folder for what was said in each machine")
    given = parser.parse_args(arguments)
    emulated.needs_root()
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
    pairs = [tuple(pair.split(":")) for pair in given.pair] or PAIRS[: given.count]
    print(f"seed {given.seed}", flush=True)
    rows = []
    for kernel, root in pairs:
        rows.append(tried(kernel, root, Asked(given.step or STEPS, given.platform, given.keep)))
        print(rows[-1].text(), file=sys.stderr, flush=True)
    print("\n".join([HEAD, *(row.text() for row in rows)]), flush=True)
    wired = [row.wire_text() for row in rows if row.wire]
    print("\n".join(["", WIRE_HEAD, *wired] if wired else []), flush=True)
    return int(any(row.wrong for row in rows))
