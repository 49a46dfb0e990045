"""This host: its fingerprint for the manifest, and its state between trials.

Everything is read from /proc, /sys and a few files of /etc and /var (below `root`, so that tests can give a tree of
their own). What the host does not offer is None, never zero. Meanings: Linux, Documentation/filesystems/proc.rst,
Documentation/accounting/psi.rst, Documentation/admin-guide/abi-testing (cpufreq, thermal, thermal_throttle), and
Documentation/ABI/testing/dev-kmsg.

Main types: `HostBlock` and `FitnessSample` (the JSON of docs/run-folder.md), `FitnessSampler`. Must not: judge whether
the host is fit (that is the analysis), start a program, or change anything.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self, TypedDict

# Packages whose versions tell two runs apart.
PACKAGES = (
    "crun",
    "docker.io",
    "ipxe-qemu",
    "libc6",
    "lxc",
    "podman",
    "qemu-system-arm",
    "qemu-system-x86",
    "runc",
    "runsc",
    "seabios",
    "systemd-container",
    "user-mode-linux",
)

_CPU = Path("sys/devices/system/cpu")
_CLOCK_SOURCES = Path("sys/devices/system/clocksource/clocksource0")
_HYPERVISOR_CLOCKS = {
    "kvm-clock": "kvm",
    "xen": "xen",
    "hyperv_clocksource_tsc_page": "hyperv",
    "hyperv_clocksource_msr": "hyperv",
}
_KERNEL_MESSAGE_BYTES = 8192  # the kernel's own limit for one record of /dev/kmsg
_KERNEL_MESSAGES_AT_ONCE = 200


class HostBlock(TypedDict):
    """The "host" of manifest.json."""

    fingerprint: str  # sha256 (hex) over what identifies host, kernel and CPU
    hostname_hash: str
    kernel: str
    cpu_model: str | None
    cpus: int
    memory_bytes: int | None
    hypervisor: str | None
    clock_source: str | None
    root: bool
    os: str | None
    mitigations: dict[str, str]
    packages: dict[str, str]


class PressureTotals(TypedDict):
    """Time in which some task waited for a resource, in microseconds since boot (/proc/pressure)."""

    cpu_some_us: int | None
    memory_some_us: int | None
    io_some_us: int | None


class FitnessSample(TypedDict):
    """One line of fitness.jsonl; counters are cumulative since the host's boot."""

    monotonic_ns: int
    realtime_ns: int
    after_trial: int | None
    steal_ns: int | None
    busy_ns: int | None
    idle_ns: int | None
    load_1m: float | None
    pressure: PressureTotals | None
    swap_in_pages: int | None
    swap_out_pages: int | None
    frequency_khz: list[int] | None
    temperature_millicelsius: list[int] | None
    throttle_count: int | None
    kernel_messages: list[str]
    memory_available_bytes: int | None


def describe_host(root: Path = Path("/")) -> HostBlock:
    """The host's block for the manifest; about 10 ms, most of it the list of installed packages."""
    kernel = os.uname()
    cpus = os.sysconf("SC_NPROCESSORS_ONLN")
    machine_id = _text(root / "etc/machine-id") or ""
    block = HostBlock(
        fingerprint="",
        hostname_hash=_hash([machine_id, kernel.nodename])[:16],
        kernel=f"{kernel.release} {kernel.version} {kernel.machine}",
        cpu_model=_cpu_field(root, "model name"),
        cpus=cpus,
        memory_bytes=_memory(root, "MemTotal"),
        hypervisor=_hypervisor(root),
        clock_source=_text(root / _CLOCK_SOURCES / "current_clocksource"),
        root=os.geteuid() == 0,
        os=_os_name(root),
        mitigations=_mitigations(root),
        packages=_package_versions(root),
    )
    identity = (block["kernel"], block["cpu_model"], cpus, block["hypervisor"], block["mitigations"])
    block["fingerprint"] = _hash([machine_id, kernel.nodename, *identity])
    return block


class FitnessSampler:
    """Gives one record of the host's state a call (under 5 ms); also a context manager.

    Kernel messages are those since the sampler was made; where /dev/kmsg may not be read there are none.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        """Opens the kernel's messages at their end; finds which files this host has."""
        self._root = root
        self._frequencies = sorted((root / _CPU).glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
        self._temperatures = sorted((root / "sys/class/thermal").glob("thermal_zone*/temp"))
        self._throttles = sorted((root / _CPU).glob("cpu[0-9]*/thermal_throttle/core_throttle_count"))
        self._messages = _open_at_end(root / "dev/kmsg")

    def sample(self, after_trial: int | None) -> FitnessSample:
        """The state now; `after_trial` is the trial that ended just before, None before the first."""
        busy_ns, idle_ns, steal_ns = _processor_times(self._root)
        paging = _table(self._root / "proc/vmstat")
        throttles = _numbers(self._throttles)
        return FitnessSample(
            monotonic_ns=time.monotonic_ns(),
            realtime_ns=time.time_ns(),
            after_trial=after_trial,
            steal_ns=steal_ns,
            busy_ns=busy_ns,
            idle_ns=idle_ns,
            load_1m=_load(self._root),
            pressure=_pressure(self._root),
            swap_in_pages=paging.get("pswpin"),
            swap_out_pages=paging.get("pswpout"),
            frequency_khz=_numbers(self._frequencies),
            temperature_millicelsius=_numbers(self._temperatures),
            throttle_count=None if throttles is None else sum(throttles),
            kernel_messages=list(self._new_messages()),
            memory_available_bytes=_memory(self._root, "MemAvailable"),
        )

    def close(self) -> None:
        """Closes the kernel's messages; a later sample has none."""
        if self._messages is not None:
            os.close(self._messages)
            self._messages = None

    def __enter__(self) -> Self:
        """Nothing more to do than what the constructor did."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes."""
        self.close()

    def _new_messages(self) -> Iterator[str]:
        """Texts of the kernel's messages since the last call, without level, number and time."""
        for _ in range(_KERNEL_MESSAGES_AT_ONCE):
            if self._messages is None:
                return
            try:
                record = os.read(self._messages, _KERNEL_MESSAGE_BYTES)
            except OSError as error:
                if error.errno == errno.EPIPE:  # messages were overwritten before they were read: go on with the next
                    continue
                return
            if not record:
                return
            for line in record.decode(errors="replace").splitlines():
                if not line.startswith(" "):  # continuation lines are the record's device properties
                    yield line.partition(";")[2] or line


def _text(path: Path) -> str | None:
    """A small file's text without white space at its ends, or None where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _numbers(paths: list[Path]) -> list[int] | None:
    """The numbers in small files; None where there are no files or none can be read now."""
    texts = [_text(path) for path in paths]
    numbers = [int(text) for text in texts if text is not None and text.lstrip("-").isdigit()]
    return numbers or None


def _table(path: Path) -> dict[str, int]:
    """`name number` lines, as in /proc/vmstat; what is not of that form is left out."""
    rows = (line.split() for line in (_text(path) or "").splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def _hash(values: list[object]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _memory(root: Path, field: str) -> int | None:
    """A field of /proc/meminfo in bytes."""
    for line in (_text(root / "proc/meminfo") or "").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return None


def _cpu_field(root: Path, field: str) -> str | None:
    """A field of the first processor in /proc/cpuinfo."""
    for line in (_text(root / "proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == field:
            return value.strip()
    return None


def _hypervisor(root: Path) -> str | None:
    """What this host itself runs under, from the most to the least telling source; None on bare metal."""
    named = _text(root / "sys/hypervisor/type")
    if named:
        return named
    if "hypervisor" not in (_cpu_field(root, "flags") or "").split():
        return None
    for clock in (_text(root / _CLOCK_SOURCES / "available_clocksource") or "").split():
        if clock in _HYPERVISOR_CLOCKS:
            return _HYPERVISOR_CLOCKS[clock]
    return _text(root / "sys/class/dmi/id/sys_vendor") or "unknown"


def _os_name(root: Path) -> str | None:
    for line in (_text(root / "etc/os-release") or "").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return None


def _mitigations(root: Path) -> dict[str, str]:
    """The kernel's answer to each known CPU vulnerability."""
    files = sorted((root / _CPU / "vulnerabilities").glob("*"))
    return {file.name: text for file in files if (text := _text(file)) is not None}


def _package_versions(root: Path) -> dict[str, str]:
    """Versions of the installed packages among `PACKAGES`, from dpkg's own file."""
    versions = {}
    for stanza in (_text(root / "var/lib/dpkg/status") or "").split("\n\n"):
        name = stanza.partition("\n")[0].removeprefix("Package: ")
        if name in PACKAGES and "\nStatus: install ok installed\n" in stanza:
            versions[name] = stanza.partition("\nVersion: ")[2].partition("\n")[0]
    return dict(sorted(versions.items()))


def _processor_times(root: Path) -> tuple[int | None, int | None, int | None]:
    """(busy, idle, stolen) of all processors together in ns; waiting for input or output counts as idle.

    Guests' time is within user time already, stolen time is neither busy nor idle.
    """
    first = (_text(root / "proc/stat") or "").partition("\n")[0].split()
    if len(first) < 9 or first[0] != "cpu":
        return None, None, None
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    user, nice, system, idle, io_wait, interrupt, soft_interrupt, steal = (int(word) * tick_ns for word in first[1:9])
    return user + nice + system + interrupt + soft_interrupt, idle + io_wait, steal


def _load(root: Path) -> float | None:
    text = _text(root / "proc/loadavg")
    return float(text.split()[0]) if text else None


def _pressure(root: Path) -> PressureTotals | None:
    """Totals of the "some" lines; None where the kernel was built or booted without pressure stall information."""
    cpu, memory, io = (_pressure_total(root / "proc/pressure" / resource) for resource in ("cpu", "memory", "io"))
    if cpu is None and memory is None and io is None:
        return None
    return PressureTotals(cpu_some_us=cpu, memory_some_us=memory, io_some_us=io)


def _pressure_total(path: Path) -> int | None:
    for line in (_text(path) or "").splitlines():
        if line.startswith("some "):
            return int(line.rpartition("total=")[2])
    return None


def _open_at_end(path: Path) -> int | None:
    """A non-blocking descriptor behind the last kernel message, or None where it may not be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    os.lseek(descriptor, 0, os.SEEK_END)
    return descriptor
