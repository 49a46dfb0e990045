"""This host as a run's manifest has it: what distinguishes two hosts.

Everything is read from /proc, /sys and a few files of /etc and /var (below `root`, so that tests can give a tree of
their own). What the host does not offer is None, never zero. Meanings: Linux, Documentation/filesystems/proc.rst,
Documentation/ABI/testing.

Main type: `HostBlock` (the JSON of docs/run-folder.md). Starts no program and changes nothing.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import TypedDict

from virtoll.host.processor import CLOCK_SOURCES, cpu_model, hypervisor
from virtoll.host.readings import memory_bytes, read_text
from virtoll.host.tuning import in_force
from virtoll.lab.disks import DISKS, place_of_device

_CPU = Path("sys/devices/system/cpu")


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
    timer_hz: int | None  # ticks of the kernel's timer a second
    io_schedulers: dict[str, str]  # of each disk, by its name in /sys/block
    data_disk: str | None  # the block device under guests' data directories; None: they are on no one device
    root: bool
    os: str | None
    mitigations: dict[str, str]
    packages: dict[str, str]
    tuned: list[str] | None  # settings under 'virtoll doctor --tune'; None: none


def describe_host(packages: Collection[str] = (), root: Path = Path("/")) -> HostBlock:
    """The host's block for the manifest; about 10 ms, most of it the list of installed packages.

    ``packages``: names of the Debian packages whose versions belong in it.
    """
    kernel = os.uname()
    cpus = os.sysconf("SC_NPROCESSORS_ONLN")
    machine_id = read_text(root / "etc/machine-id") or ""
    block = HostBlock(
        fingerprint="",
        hostname_hash=_hash([machine_id, kernel.nodename])[:16],
        kernel=f"{kernel.release} {kernel.version} {kernel.machine}",
        cpu_model=cpu_model(root),
        cpus=cpus,
        memory_bytes=memory_bytes(root, "MemTotal"),
        hypervisor=hypervisor(root),
        clock_source=read_text(root / CLOCK_SOURCES / "current_clocksource"),
        timer_hz=_timer_hz(root, kernel.release),
        io_schedulers=_io_schedulers(root),
        data_disk=_device_under(DISKS, root),
        root=os.geteuid() == 0,
        os=_os_name(root),
        mitigations=_mitigations(root),
        packages=_package_versions(root, packages),
        tuned=tuned.settings if (tuned := in_force(root=root)) is not None else None,
    )
    identity = (block["kernel"], block["cpu_model"], cpus, block["hypervisor"], block["mitigations"])
    block["fingerprint"] = _hash([machine_id, kernel.nodename, *identity])
    return block


def _hash(values: list[object]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _timer_hz(root: Path, release: str) -> int | None:
    """CONFIG_HZ of the running kernel, by its own copy of its configuration or the distribution's."""
    try:
        text = gzip.decompress((root / "proc/config.gz").read_bytes()).decode("utf-8", "replace")
    except (OSError, EOFError, gzip.BadGzipFile):
        text = read_text(root / f"boot/config-{release}") or ""
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name == "CONFIG_HZ" and value.isdigit():
            return int(value)
    return None


def _io_schedulers(root: Path) -> dict[str, str]:
    """The scheduler in force, which the kernel has in brackets, of each device that has a choice; not of loop files."""
    schedulers = {}
    for file in sorted((root / "sys/block").glob("*/queue/scheduler")):
        _, opened, rest = (read_text(file) or "").partition("[")
        if opened and not file.parent.parent.name.startswith(("loop", "ram")):
            schedulers[file.parent.parent.name] = rest.partition("]")[0]
    return schedulers


def _device_under(folder: Path, root: Path) -> str | None:
    """The name of the block device that a folder is on: a disk, a partition, or a logical volume (``dm-0``)."""
    try:
        return place_of_device(folder, root / "sys/dev/block").resolve(strict=True).name
    except OSError:
        return None


def _os_name(root: Path) -> str | None:
    for line in (read_text(root / "etc/os-release") or "").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return None


def _mitigations(root: Path) -> dict[str, str]:
    """The kernel's answer to each known CPU vulnerability."""
    files = sorted((root / _CPU / "vulnerabilities").glob("*"))
    return {file.name: text for file in files if (text := read_text(file)) is not None}


def _package_versions(root: Path, packages: Collection[str]) -> dict[str, str]:
    """Versions of those packages that are installed, from dpkg's own file."""
    versions = {}
    for stanza in (read_text(root / "var/lib/dpkg/status") or "").split("\n\n"):
        name = stanza.partition("\n")[0].removeprefix("Package: ")
        if name in packages and "\nStatus: install ok installed\n" in stanza:
            versions[name] = stanza.partition("\nVersion: ")[2].partition("\n")[0]
    return dict(sorted(versions.items()))
