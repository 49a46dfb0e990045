"""What works on this host and what does not, found out by trying; each "no" has its reason and its remedy.

Main types: ``Check``. ``host_checks`` looks at the host from outside the lab, ``platform_checks`` probes every
platform inside. It must not change anything.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from virtoll.cli.doctor_hypervisors import hypervisor_checks, this_machine
from virtoll.cli.doctor_unprivileged import answer, is_host_root
from virtoll.host.tuning import in_force
from virtoll.lab import cgroups
from virtoll.lab.launch import inside_lab, probe_namespaces

if TYPE_CHECKING:
    from virtoll.platforms.base import Probe

_TOOLS = ("setpriv", "unshare", "mount", "ip", "nsenter")
_MINIMUM_KERNEL = (5, 10)
"""What all that is measured needs; what later kernels add (threaded NAPI, live frames) is done without there."""


@dataclass(frozen=True)
class Check:
    """One property of the host; ``blocks`` means that nothing can be measured without it."""

    check: str
    found: str
    good: bool
    remedy: str
    blocks: bool = False

    def as_row(self) -> dict[str, Any]:
        """As a table's row."""
        return {key: value for key, value in asdict(self).items() if key != "blocks"}


def host_checks() -> list[Check]:
    """The host's settings, each by looking or trying."""
    checks = [_user(), _tools(), kernel_check(platform.release()), _cpus(), _cgroups(), _kvm(), _tuning()]
    return checks if inside_lab() else [*checks, _namespaces()]


def hypervisors_here() -> list[dict[str, Any]]:
    """What this machine lacks for each hypervisor; looked at from outside the lab, which has a /run of its own."""
    return [asdict(one) for one in hypervisor_checks(this_machine())]


def platform_checks(unprivileged: int | None = None) -> list[dict[str, Any]]:
    """Every platform with its default parameters, probed inside this lab.

    ``without_root``: ``yes``, ``no: REASON`` or ``not tried: REASON``. An ordinary user's is his own result; root's is
    what an ordinary user found out, read from the descriptor ``unprivileged``.
    """
    from virtoll.campaign import probe_cache
    from virtoll.campaign.pinning import choose_pinning
    from virtoll.campaign.progress import SilentProgress
    from virtoll.campaign.session import open_run_session
    from virtoll.experiment.model import PlatformChoice
    from virtoll.platforms import PLATFORMS, platform_of

    rows: list[dict[str, Any]] = []
    with open_run_session(choose_pinning(1), SilentProgress()) as session:
        for name, kind in PLATFORMS.items():
            choice = PlatformChoice(name, name, kind.parameter_model())
            probe = probe_cache.probe(platform_of(choice), choice, session.site, anew=True)
            rows.append(
                {
                    "platform": name,
                    "available": probe.available,
                    "without_root": _in_words(probe),
                    "version": probe.version,
                    "reason": probe.reason,
                }
            )
    if is_host_root():
        found = answer(unprivileged) if unprivileged is not None else "nobody was asked"
        for row in rows:
            reported = found if isinstance(found, str) else found.get(row["platform"], "it was not among the answers")
            row["without_root"] = reported if reported.startswith(("yes", "no: ")) else f"not tried: {reported}"
    return rows


def _in_words(probe: Probe) -> str:
    return "yes" if probe.available else f"no: {probe.reason}"


def _user() -> Check:
    root = is_host_root()
    return Check(
        "user",
        "root" if root else "ordinary user (user namespace)",
        True,
        "" if root else "as root cgroup limits can be set on guests as well",
    )


def _tools() -> Check:
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    found = f"missing: {', '.join(missing)}" if missing else "all there"
    return Check(
        "tools",
        found,
        not missing,
        "'virtoll setup' installs them, or names what brings them" if missing else "",
        bool(missing),
    )


def kernel_check(release: str) -> Check:
    """Whether a kernel of this release (as ``uname -r`` has it) is new enough to measure on."""
    numbers = tuple(int(part) for part in release.split("-", maxsplit=1)[0].split(".")[:2] if part.isdigit())
    good = numbers >= _MINIMUM_KERNEL
    least = ".".join(map(str, _MINIMUM_KERNEL))
    return Check("kernel", release, good, "" if good else f"boot a kernel of Linux {least} or newer")


def _cpus() -> Check:
    count = len(os.sched_getaffinity(0))
    remedy = ""
    if count < 2:
        remedy = "nothing is pinned: guest and load share the CPU; give the machine more CPUs"
    elif count < 3:
        remedy = "generator and sink share a CPU; with three or more each has its own"
    return Check("CPUs", str(count), count >= 2, remedy)


def _cgroups() -> Check:
    layout = cgroups.detect()
    if not layout.controllers and layout.unified is None:
        return Check(
            "cgroups", "none", False, "mount the cgroup file system; containers run without limits or not at all"
        )
    missing = [name for name in ("memory", "cpu") if name not in layout.controllers]
    kind = layout.version if layout.controllers else "v2"
    if missing:
        remedy = (
            "guests with CPU or memory limits will not start; enable these cgroup controllers (kernel command line "
            "cgroup_enable=memory, or mount their v1 hierarchies)"
        )
        return Check("cgroups", f"{kind}, without {' and '.join(missing)}", False, remedy)
    writable = os.access(layout.controllers["memory"], os.W_OK) and os.geteuid() == 0
    found = "hybrid (v1 controllers)" if kind == "hybrid" else kind
    return Check("cgroups", found, True, "" if writable else "no limits on containers without root")


def _kvm() -> Check:
    device = Path("/dev/kvm")
    if not device.exists():
        remedy = (
            "switch on VT-x or AMD-V in the firmware and load kvm_intel or kvm_amd (a virtual machine: allow nesting)"
        )
        return Check("/dev/kvm", "not there", False, remedy)
    if not os.access(device, os.R_OK | os.W_OK):
        return Check(
            "/dev/kvm", "not accessible", False, "join the group kvm (usermod --append --groups kvm USER), log in again"
        )
    return Check("/dev/kvm", "there and accessible", True, "whether a guest boots is tried by the platform qemu-kvm")


def _tuning() -> Check:
    """A host that is not tuned is as good as any: what the measurements say of it counts."""
    record = in_force()
    if record is None:
        return Check("tuning", "none in force", True, "'virtoll doctor --tune' makes the host quieter, as root")
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(record.since_realtime_ns / 1e9))
    found = f"{', '.join(record.settings)} since {since}"
    return Check("tuning", found, True, "'virtoll doctor --reset' puts back what was there")


def _namespaces() -> Check:
    reason = probe_namespaces()
    return Check(
        "namespaces",
        "a lab can be made" if reason is None else reason,
        reason is None,
        reason or "",
        reason is not None,
    )
