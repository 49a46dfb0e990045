"""What of this host's settings disturbs a measurement, and the value that disturbs least.

Main types: ``Setting`` (``SETTINGS`` lists them), ``TunedHost`` and ``Wish``. Only reads, below a root that tests
replace; ``tuning`` writes. Meanings: Linux, Documentation/admin-guide/pm (cpufreq, intel_pstate), core-api/irq,
admin-guide/sysctl/kernel.rst, ABI/testing/sysfs-devices-system-cpu. Which settings: as ``pyperf system tune``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from virtoll.host.readings import read_text

_CPU = "/sys/devices/system/cpu"
_ASLR = "/proc/sys/kernel/randomize_va_space"
_SMT = f"{_CPU}/smt/control"


@dataclass(frozen=True)
class CpuRoles:
    """Which CPU does what in a run: ``measured`` are those of guests and generator; all empty where none is pinned."""

    measured: frozenset[int] = frozenset()
    sink: int | None = None


@dataclass(frozen=True)
class TunedHost:
    """A host by its tree; ``roles`` says what its CPUs do in a run, given those that are there."""

    root: Path
    roles: Callable[[tuple[int, ...]], CpuRoles]

    def read(self, path: str) -> str | None:
        """A setting's present value, None where it cannot be read; ``path`` is absolute, as on a real host."""
        return read_text(self.file(path))

    def file(self, path: str) -> Path:
        """Where that path is below the root."""
        return self.root / path.lstrip("/")

    def paths(self, pattern: str) -> list[str]:
        """Those that match, absolute, numbers in their order."""
        paths = (f"/{file.relative_to(self.root)}" for file in self.root.glob(pattern.lstrip("/")))
        return sorted(paths, key=lambda path: (len(path), path))

    def cpus(self) -> tuple[int, ...]:
        """Those that are on."""
        return parse_cpus(self.read(f"{_CPU}/online") or "")

    def siblings(self, cpu: int) -> tuple[int, ...]:
        """The CPUs that are on and share its core, itself included."""
        return parse_cpus(self.read(f"{_CPU}/cpu{cpu}/topology/thread_siblings_list") or str(cpu))


@dataclass(frozen=True)
class Wish:
    """The value of each file that there is to write; ``reason``: what is not wished for, or is to be known beside."""

    values: dict[str, str] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True)
class Setting:
    """One setting: how its wish follows from the host. ``places`` matches each path that it may write, as a whole.

    ``may_vanish``: a file that is not there any more has nothing to be put back. ``after_reset``: what no file can put
    back.
    """

    name: str
    wish: Callable[[TunedHost], Wish]
    places: str
    may_vanish: bool = False
    after_reset: str = ""


def parse_cpus(text: str) -> tuple[int, ...]:
    """``0-2,5`` as (0, 1, 2, 5)."""
    ends = [part.partition("-") for part in text.split(",") if part.strip()]
    return tuple(cpu for first, _, last in ends for cpu in range(int(first), int(last or first) + 1))


def format_cpus(cpus: Iterable[int]) -> str:
    """(0, 1, 2, 5) as ``0-2,5``, which is how the kernel prints it."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1].append(cpu)
        else:
            ranges.append([cpu])
    return ",".join(str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}" for span in ranges)


def _governor(host: TunedHost) -> Wish:
    files = host.paths(f"{_CPU}/cpufreq/policy[0-9]*/scaling_governor")
    if not files:
        return Wish(reason="this kernel has no cpufreq for this machine: there is no governor")
    offered = {path: (host.read(path.replace("_governor", "_available_governors")) or "").split() for path in files}
    able = {path: "performance" for path in files if "performance" in offered[path]}
    missing = len(files) - len(able)
    return Wish(able, f"{missing} of {len(files)} policies offer no governor 'performance'" if missing else "")


def _turbo(host: TunedHost) -> Wish:
    for path, off in ((f"{_CPU}/intel_pstate/no_turbo", "1"), (f"{_CPU}/cpufreq/boost", "0")):
        if host.read(path) is not None:
            return Wish({path: off})
    return Wish(reason="this kernel has no switch for it (neither intel_pstate/no_turbo nor cpufreq/boost)")


def _aslr(host: TunedHost) -> Wish:
    return Wish({_ASLR: "0"}) if host.read(_ASLR) is not None else Wish(reason=f"this kernel has no {_ASLR}")


def _irq(host: TunedHost) -> Wish:
    """Interrupts that may reach a pinned CPU go to the others; the rest stay where they are.

    The list of CPUs can be put back exactly. On which of them it arrives (``effective_affinity_list``) is the kernel's
    choice: x86 leaves an interrupt on its present CPU while the list has it.
    """
    files = host.paths("/proc/irq/[0-9]*/smp_affinity_list")
    if not files:
        return Wish(reason="this kernel lets no interrupt be moved (no /proc/irq/*/smp_affinity_list)")
    gone = set(_secondary(host)) if _smt(host).values else set()
    cpus = tuple(cpu for cpu in host.cpus() if cpu not in gone)
    roles = host.roles(cpus)
    if not roles.measured:
        return Wish(reason="a run pins nothing here: too few CPUs")
    away = set(cpus) - roles.measured
    if not away:
        return Wish(reason="guest and generator have all CPUs; with three or more, interrupts can be moved")
    away = away - {roles.sink} or away
    moving = [path for path in files if not set(parse_cpus(host.read(path) or "")) <= away]
    balancer = any(host.read(path) == "irqbalance" for path in host.paths("/proc/[0-9]*/comm"))
    spoiled = "irqbalance runs and moves them back; stop it (systemctl stop irqbalance)" if balancer else ""
    return Wish(dict.fromkeys(moving, format_cpus(away)), spoiled)


def _smt(host: TunedHost) -> Wish:
    """Off only where the sibling of a pinned CPU is on."""
    state = host.read(_SMT)
    if state is None:
        return Wish(reason="this kernel has no switch for it")
    if state != "on":
        return Wish(reason={"notsupported": "this machine has none"}.get(state, f"the kernel says '{state}'"))
    measured = host.roles(host.cpus()).measured
    if not any(len(host.siblings(cpu)) > 1 for cpu in measured):
        return Wish(reason="no guest's and no generator's CPU shares its core")
    return Wish({_SMT: "off"}, f"CPUs {format_cpus(_secondary(host))} disappear while it is off")


def _secondary(host: TunedHost) -> list[int]:
    """The CPUs that go when SMT is switched off: all but the first of each core."""
    return [cpu for cpu in host.cpus() if cpu != min(host.siblings(cpu))]


# In the order of writing. SMT is last: what the CPUs that it takes away had has been written down by then.
SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("governor", _governor, rf"{_CPU}/cpufreq/policy[0-9]+/scaling_governor"),
        Setting("turbo", _turbo, rf"{_CPU}/(intel_pstate/no_turbo|cpufreq/boost)"),
        Setting("aslr", _aslr, _ASLR),
        Setting(
            "irq",
            _irq,
            r"/proc/irq/[0-9]+/smp_affinity_list",
            may_vanish=True,
            after_reset="on which of these CPUs one arrives is the kernel's choice anew",
        ),
        Setting("smt", _smt, _SMT),
    )
}
