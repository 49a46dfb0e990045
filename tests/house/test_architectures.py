"""Each machine that a wheel is for has all that Virtoll looks up by architecture, or is told that there is none."""

from __future__ import annotations

import os
import platform
import re
import tomllib
from pathlib import Path

import pytest
from tests.support.facts import assert_facts, refused
from tests.support.repository import ROOT
from tools import deb as packager

from virtoll.errors import ImageError
from virtoll.host import packages
from virtoll.host.observe import perf
from virtoll.image import debian
from virtoll.image.elf import MACHINES
from virtoll.image.kernel_source import locked_kernels
from virtoll.lab.network import GuestNetwork
from virtoll.nested.build import prepare_nested_host
from virtoll.nested.kinds import NESTED_HOSTS
from virtoll.platforms import PLATFORMS
from virtoll.platforms.base import GuestRequest
from virtoll.platforms.qemu.command import MACHINES as MACHINE_TYPES
from virtoll.platforms.qemu.command import Boot, MachineEnds, QemuParameters, machine_command
from virtoll.workloads.kernel_compile import members_of

DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}


def become(monkeypatch: pytest.MonkeyPatch, machine: str) -> None:
    """As if this machine were of that architecture, for whoever asks."""
    real = os.uname()
    said = os.uname_result((*real[:4], machine))
    monkeypatch.setattr(os, "uname", lambda: said)
    monkeypatch.setattr(platform, "machine", lambda: machine)


def test_wheels_are_for_the_machines_that_are_named_here() -> None:
    assert set(MACHINES.values()) == set(DEBIAN)


@pytest.mark.parametrize("machine", DEBIAN)
def test_everything_that_goes_by_architecture_has_this_one(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    become(monkeypatch, machine)
    assert debian.architecture() == packager.ARCHITECTURES[machine] == DEBIAN[machine]
    kernel = locked_kernels()[DEBIAN[machine]]
    assert re.fullmatch(r"[0-9a-f]{64}", kernel.sha256)
    assert kernel.bytes > 10_000_000
    assert kernel.package.endswith(f"-{DEBIAN[machine]}")
    assert all(url.endswith(f"_{DEBIAN[machine]}.deb") for url in kernel.urls)
    assert packages.EMULATORS[machine].programs == (f"qemu-system-{machine}",)
    assert MACHINE_TYPES[machine]
    assert machine in perf._SYSTEM_CALL  # asking for a counter would need that machine
    assert any(re.fullmatch(r"arch/\w+/Makefile\*", member) for member in members_of(("Kbuild",), machine))
    assert members_of((), machine) == ()


def test_a_machine_of_arm_has_the_newest_interrupt_controller() -> None:
    """The first one serves eight CPUs."""
    wanted = QemuParameters(machine="virt")
    request = GuestRequest("x", 16, 2**28, (), GuestNetwork(()))
    argv = machine_command(wanted, request, Boot(Path("/k"), Path("/i")), Path("/c"), MachineEnds(3, 4))
    assert argv[argv.index("-machine") + 1] == "virt,gic-version=max"


def test_the_locks_differ() -> None:
    kernels = locked_kernels()
    assert len({one.sha256 for one in kernels.values()}) == len(kernels) == len(DEBIAN)


def test_the_agent_is_linked_statically_on_each() -> None:
    settings = tomllib.loads((ROOT / ".cargo/config.toml").read_text(encoding="utf-8"))
    for machine in DEBIAN:
        flags = settings["target"][f"{machine}-unknown-linux-gnu"]["rustflags"]
        assert flags == ["-C", "target-feature=+crt-static"]


def test_user_mode_linux_is_for_x86_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    become(monkeypatch, "aarch64")
    kind = PLATFORMS["uml"]
    found = kind(kind.parameter_model()).probe(None)  # type: ignore[arg-type]  # it looks at nothing there
    assert not found.available
    assert found.install == ()
    assert_facts(found.why or "", "x86_64", "aarch64")


def test_nested_hosts_are_for_x86_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    become(monkeypatch, "aarch64")
    with refused("x86-64", "arm64", error=ImageError):
        prepare_nested_host(NESTED_HOSTS["kvm"], offline=True)
