"""What works on this host and what does not, found out by trying; each "no" has its reason and its remedy.

Main types: ``Check`` (one property of the host), ``Tried`` (one platform) and ``Diagnosis`` (all of it, and what the
exit code says). ``host_checks`` looks at the host from outside the lab, ``try_platforms`` probes inside. ``settled``
makes one statement of what a machine lacks and of what really boots. It must not change anything, nor print.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from virtoll.cli.doctor_hypervisors import HypervisorFinding
from virtoll.cli.doctor_unprivileged import NOT_ASKED, VERSION, WithoutRoot, answer, is_host_root
from virtoll.errors import UsageError
from virtoll.host import packages
from virtoll.host.tuning import in_force
from virtoll.lab import cgroups
from virtoll.lab.delegation import delegated_folder
from virtoll.lab.launch import inside_lab, newer_kernel_needed, probe_namespaces
from virtoll.units import utc

if TYPE_CHECKING:
    from virtoll.experiment.model import PlatformChoice
    from virtoll.platforms.base import Probe

_TO_MEASURE = ("native", "netns")
"""The baseline and a namespace: where these work, something can be compared."""
_EXPLAINED_BY = {
    "qemu-kvm": "KVM",
    "firecracker": "KVM",
    "cloud-hypervisor": "KVM",
    "xen": "Xen",
    "virtualbox": "VirtualBox",
    "esxi": "VMware ESXi",
    "libvirt": "libvirt",
    "openvz": "OpenVZ",
    "vserver": "Linux-VServer",
}
"""Of which hypervisor a platform's guests are."""
_BOOT_THE_KERNEL = ("linux.uml", "xl", "VBoxManage", "virsh", "firecracker", "cloud-hypervisor")
"""Programs, besides QEMU's, of which one must be there before a guest boots the image's kernel."""


@dataclass(frozen=True)
class Check(HypervisorFinding):
    """One property of the host.

    ``blocks``: nothing can be measured without it. ``install``: the Debian packages that the remedy installs.
    """

    blocks: bool = False
    install: tuple[str, ...] = ()

    def as_row(self) -> dict[str, Any]:
        """As JSON has it."""
        return {key: value for key, value in asdict(self).items() if key not in {"blocks", "install"}}


@dataclass(frozen=True)
class Tried:
    """One platform: whether it works, else why not and what to do. ``install``: Debian packages of the remedy.

    ``kind``: its registered name, ``platform``: as it was asked for.
    """

    platform: str
    kind: str
    family: str
    available: bool
    version: str | None = None
    reason: str | None = None
    remedy: str = ""
    install: tuple[str, ...] = ()
    without_root: WithoutRoot = NOT_ASKED


@dataclass(frozen=True)
class Diagnosis:
    """All that was found out. ``asked``: the platforms that were named; empty: all were tried."""

    host: tuple[Check, ...]
    hypervisors: tuple[HypervisorFinding, ...]
    platforms: tuple[Tried, ...] = ()
    asked: tuple[str, ...] = ()

    @property
    def works(self) -> bool:
        """Whether each platform that was named works; without names, whether something can be compared here."""
        if any(check.blocks for check in self.host):
            return False
        if self.asked:
            return all(attempt.available for attempt in self.platforms)
        there = {attempt.kind for attempt in self.platforms if attempt.available}
        return there.issuperset(_TO_MEASURE)

    @property
    def lacking(self) -> tuple[str, ...]:
        """The Debian packages that all remedies together install, sorted."""
        of_host = {name for check in self.host for name in check.install}
        return tuple(sorted(of_host.union(*(attempt.install for attempt in self.platforms))))

    def as_document(self) -> dict[str, Any]:
        """As ``--json`` prints it (docs/commands.md)."""
        return {
            "schema": "virtoll-doctor",
            "version": VERSION,
            "works": self.works,
            "host": [check.as_row() for check in self.host],
            "hypervisors": list(map(asdict, self.hypervisors)),
            "platforms": list(map(asdict, self.platforms)),
            "install": install_commands(self.lacking),
        }


def install_commands(debian: Sequence[str]) -> list[str]:
    """One command, or none, that installs these Debian packages here: this host's package manager's, or Virtoll's."""
    kind = packages.manager()
    if kind is None or not debian:
        return []
    before = [] if is_host_root() else ["sudo"]
    names, _ = packages.names_for(kind, debian)
    if kind == "apt":
        all_needed = [package.name for package in packages.needed(platform.machine(), platforms=True)]
        if set(packages.missing_packages(all_needed)) == set(names):
            return [" ".join([*before, this_program(), "setup", "--platforms"])]
    return [" ".join([*before, *packages.command_of(kind, names)])] if names else []


def this_program() -> str:
    """How a person starts Virtoll: by its path where there is one, since sudo looks in folders of its own."""
    beside = Path(sys.executable).with_name("virtoll")
    return str(beside) if beside.exists() else f"{sys.executable} -m virtoll"


def chosen(names: Sequence[str]) -> list[PlatformChoice]:
    """The platforms of these names, of NAME:key=value,key=value, or of labels of the experiments; all without names.

    ``UsageError`` for one that there is not, with what was probably meant.
    """
    from virtoll.experiment.model import PlatformChoice
    from virtoll.experiment.near import choices
    from virtoll.host.settings import SETTINGS
    from virtoll.platforms import EVERY_PLATFORM, PLATFORMS

    platforms: list[PlatformChoice] = []
    labels: dict[str, PlatformChoice] = {}
    for name in dict.fromkeys(names or PLATFORMS):
        if name in EVERY_PLATFORM:
            platforms.append(PlatformChoice(name, name, EVERY_PLATFORM[name].parameter_model()))
        elif name.partition(":")[0] in EVERY_PLATFORM:
            from virtoll.cli.shell import parse_platform

            platforms.append(parse_platform(name))
        else:
            labels = labels or _labels()
            if name not in labels:
                tuned = name.partition(",")[0] in SETTINGS
                hint = "for a setting give either --tune or --reset" if tuned else ""
                near = choices(name, [*PLATFORMS, *labels], "virtoll list platforms")
                raise UsageError(f"doctor: there is no platform '{name}'; {hint or near}")
            platforms.append(labels[name])
    return platforms


def _labels() -> dict[str, PlatformChoice]:
    """The labels of the experiments that come with Virtoll."""
    from virtoll.cli.loading import load
    from virtoll.experiment.parse import presets

    files = sorted(presets().glob("*.yaml"))
    return {choice.label: choice for file in files for choice in load(str(file)).platforms}


def needs_kernel(choices: Sequence[PlatformChoice]) -> bool:
    """Whether a platform is among these, and a program on this host, that boots the image's kernel."""
    from virtoll.platforms import platform_of

    programs = (f"qemu-system-{platform.machine()}", *_BOOT_THE_KERNEL)
    return any(platform_of(choice).needs_kernel for choice in choices) and any(map(shutil.which, programs))


def host_checks() -> list[Check]:
    """The host's settings, each by looking or trying."""
    tools = _tools()
    checks = [_user(), tools, kernel_check(platform.release()), _cpus(), _cgroups(), _tuning()]
    return checks if inside_lab() or not tools.good else [*checks, _namespaces()]


def try_platforms(
    choices: Sequence[PlatformChoice], say: Callable[[str], None], unprivileged: int | None = None
) -> tuple[Tried, ...]:
    """Each of these platforms, probed inside this lab; ``say`` is told what goes on.

    ``without_root``: an ordinary user's is his own result; root's is what an ordinary user found out, read from the
    descriptor ``unprivileged``.
    """
    from virtoll.pipeline import probe_cache
    from virtoll.pipeline.pinning import choose_pinning
    from virtoll.pipeline.progress import SilentProgress
    from virtoll.pipeline.session import open_run_session
    from virtoll.platforms import EVERY_PLATFORM, platform_of

    rows: list[Tried] = []
    since_ns = time.time_ns()  # others that ask meanwhile share what is tried from now on
    with open_run_session(choose_pinning(1), SilentProgress()) as session:
        for number, choice in enumerate(choices, 1):
            say(f"{number} of {len(choices)}: {choice.label}")
            probe = probe_cache.probe(platform_of(choice), choice, session.site, since_ns=since_ns)
            rows.append(_tried(choice, EVERY_PLATFORM[choice.platform].family, probe))
    if is_host_root() and unprivileged is not None:
        say("as nobody: what works without root")
        reported = answer(unprivileged)
        if isinstance(reported, WithoutRoot):
            rows = [replace(row, without_root=reported) for row in rows]
        else:
            unheard = WithoutRoot(None, "it was not among the answers")
            rows = [replace(row, without_root=reported.get(row.platform, unheard)) for row in rows]
    return tuple(rows)


def _tried(choice: PlatformChoice, family: str, probe: Probe) -> Tried:
    reason, remedy = None, ""
    if not probe.available:
        reason = probe.why or "it does not say why"
        remedy = probe.remedy or f"'virtoll show platform {choice.platform}' has what it needs"
    without_root = NOT_ASKED if is_host_root() else WithoutRoot(probe.available, probe.why, remedy)
    return Tried(
        platform=choice.label,
        kind=choice.platform,
        family=family,
        available=probe.available,
        version=probe.version,
        reason=reason,
        remedy=remedy,
        install=() if probe.available else probe.install,
        without_root=without_root,
    )


def settled(
    findings: Sequence[HypervisorFinding], platforms: Sequence[Tried]
) -> tuple[tuple[HypervisorFinding, ...], tuple[Tried, ...]]:
    """One statement of each hypervisor: what really boots decides, what the machine lacks explains. Pure.

    A finding of a hypervisor none of whose platforms was tried is left out.
    """
    by_name = {finding.check: finding for finding in findings}
    explained = tuple(_explained(attempt, by_name.get(_EXPLAINED_BY.get(attempt.kind, ""))) for attempt in platforms)
    kept = []
    for finding in findings:
        attempts = [attempt for attempt in explained if _EXPLAINED_BY.get(attempt.kind) == finding.check]
        if any(attempt.available for attempt in attempts):
            kept.append(replace(finding, good=True, remedy="", note=finding.note if finding.good else ""))
        elif attempts and finding.good:
            words = f"{finding.found}; {attempts[0].platform}: {attempts[0].reason}"
            kept.append(replace(finding, found=words, good=False, remedy=attempts[0].remedy, note=""))
        elif attempts:
            kept.append(finding)
    return tuple(kept), explained


def _explained(attempt: Tried, finding: HypervisorFinding | None) -> Tried:
    """The platform with what the machine lacks as its reason, where that is why; without KVM no program helps."""
    if attempt.available or finding is None or finding.good:
        return attempt
    if finding.check == "KVM":
        return replace(attempt, reason=f"no guest boots with KVM: {finding.found}", remedy=finding.remedy, install=())
    return attempt if attempt.install else replace(attempt, reason=finding.found, remedy=finding.remedy)


def _user() -> Check:
    if is_host_root():
        return Check("user", "root", True)
    note = f"as root guests can be limited as well: sudo {this_program()} doctor"
    return Check("user", "ordinary user (user namespace)", True, note=note)


def _tools() -> Check:
    """The programs that make a lab."""
    lacking = packages.lacking_tools()
    if lacking is None:
        return Check("tools", "all there", True)
    return Check("tools", lacking.in_words, False, lacking.remedy, blocks=True, install=lacking.debian)


def kernel_check(release: str) -> Check:
    """Whether a kernel of this release (as ``uname -r`` has it) is new enough to measure on."""
    remedy = newer_kernel_needed(release)
    return Check("kernel", release, remedy is None, remedy or "")


def _cpus() -> Check:
    count = len(os.sched_getaffinity(0))
    if count < 2:
        return Check("CPUs", f"{count}, which guest and load share", False, "give this machine more CPUs")
    note = "" if count > 2 else "generator and sink share a CPU; with three or more CPUs each has its own"
    return Check("CPUs", str(count), True, note=note)


def _cgroups() -> Check:
    layout = cgroups.detect()
    if not layout.controllers and layout.unified is None:
        state = "none, so containers run without limits, or not at all"
        return Check("cgroups", state, False, "mount -t cgroup2 cgroup2 /sys/fs/cgroup")
    missing = [name for name in ("memory", "cpu") if name not in layout.controllers]
    kind = layout.version if layout.controllers else "v2"
    if missing:
        state = f"{kind}, without {' and '.join(missing)}, so guests with such limits will not start"
        enabled = " ".join(f"cgroup_enable={name}" for name in missing)
        return Check("cgroups", state, False, f"boot with '{enabled}' on the kernel's command line")
    root = os.access(layout.controllers["memory"], os.W_OK) and os.geteuid() == 0
    writable = root or delegated_folder() is not None
    state = "hybrid (v1 controllers)" if kind == "hybrid" else kind
    return Check("cgroups", state, True, note="" if writable else "no limits on containers without root")


def _tuning() -> Check:
    """A host that is not tuned is as good as any: what the measurements say of it counts."""
    record = in_force()
    if record is None:
        return Check("tuning", "none in force", True, note="'virtoll doctor --tune' makes the host quieter, as root")
    state = f"{', '.join(record.settings)} since {utc(record.since_realtime_ns):%Y-%m-%d %H:%M:%S} UTC"
    return Check("tuning", state, True, note="'virtoll doctor --reset' puts back what was there")


def _namespaces() -> Check:
    reason = probe_namespaces()
    if reason is None:
        return Check("namespaces", "a lab can be made", True)
    why, _, remedy = reason.rpartition("; ")
    return Check("namespaces", why, False, remedy, blocks=True)
