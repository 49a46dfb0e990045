"""How guests are confined: what QEMU is told, and what every guest of the host's kernel has in common."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from virtoll.lab.network import GuestNetwork
from virtoll.platforms import PLATFORMS
from virtoll.platforms.base import GuestRequest
from virtoll.platforms.containers.confinement import NEEDED, NEEDED_MASK, OPEN, Confined, read_only_paths
from virtoll.platforms.containers.guest import AGENT
from virtoll.platforms.containers.gvisor import GVisor, GVisorParameters
from virtoll.platforms.containers.oci import Runc
from virtoll.platforms.host import Site
from virtoll.platforms.qemu.command import QemuParameters, confinement
from virtoll.stats.reach import capability_names

OLD = "-runas user     change to user id user just before starting the VM\n"
NEWEST = """\
-run-with [async-teardown=on|off][,chroot=dir]
          [,exit-with-parent=on|off][,user=username|uid:gid]
                Set miscellaneous QEMU process lifecycle options:
-msg [timestamp=on|off][,guest-name=on|off]
"""
NEW = "-run-with [async-teardown=on|off][,chroot=dir][user=username|uid:gid]\n"
STRICT = QemuParameters()


def test_qemu_leaves_root_as_its_version_is_told() -> None:
    filters = "on,obsolete=deny,spawn=deny,resourcecontrol=deny"
    assert confinement(STRICT, OLD, root=True) == ["-sandbox", filters, "-runas", "65534:65534"]
    for told in (NEW, NEWEST):
        assert confinement(STRICT, told, root=True) == ["-sandbox", filters, "-run-with", "user=65534:65534"]


def test_qemu_that_leaves_nobody_may_become_nobody_else() -> None:
    expected = ["-sandbox", "on,obsolete=deny,spawn=deny,resourcecontrol=deny,elevateprivileges=deny"]
    assert confinement(STRICT, OLD, root=False) == expected
    handed_in = QemuParameters.model_construct(**{**STRICT.model_dump(), "vfio": ("0000:00:01.0",)})
    assert confinement(handed_in, OLD, root=True) == expected


def test_an_open_qemu_is_told_nothing() -> None:
    assert confinement(QemuParameters(isolation="open"), OLD, root=True) == []


@pytest.mark.parametrize("name", ["netns", "runc", "crun", "oci", "nspawn", "lxc", "podman", "docker"])
def test_guests_of_the_hosts_kernel_are_confined_by_default(name: str) -> None:
    model = PLATFORMS[name].parameter_model
    assert issubclass(model, Confined)
    assert model().strict
    assert not model.model_validate({"isolation": "open"}).strict


def test_what_is_kept_is_named_and_counted_alike() -> None:
    """By its names for runtimes, and by its mask for bare namespaces; nothing that takes a host is among it."""
    told = capability_names(f"{NEEDED_MASK:x}") or ""
    assert {f"CAP_{name}" for name in told.partition(": ")[2].split()} == set(NEEDED)
    assert not {"CAP_SYS_ADMIN", "CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_MKNOD", "CAP_SYS_PTRACE"} & set(NEEDED)
    assert set(NEEDED) < set(OPEN)


def test_all_settings_but_the_networks_are_read_only() -> None:
    paths = read_only_paths()
    assert {"/proc/sys/kernel", "/proc/sys/vm", "/proc/sysrq-trigger"} <= set(paths)
    assert "/proc/sys/net" not in paths


@pytest.mark.parametrize(
    ("driver", "cgroup", "expected"),
    [
        (Runc(Confined()), None, ["/init", "enter", "--cpus", "1,2", "--"]),
        (Runc(Confined()), "lab", []),
        (GVisor(GVisorParameters()), None, []),
    ],
)
def test_without_a_cgroup_a_container_takes_its_cpus_itself(
    driver: Runc | GVisor, cgroup: str | None, expected: list[str]
) -> None:
    """From runc 1.3.1 on a container has all CPUs that its cgroup leaves it, whichever runc was started on.

    gVisor's own kernel numbers the guest's CPUs from 0.
    """
    site = cast("Site", SimpleNamespace(this_machine=SimpleNamespace(cgroup=cgroup)))
    request = GuestRequest("one", 2, 128 << 20, (1, 2), GuestNetwork(()), 1.0)
    assert list(driver.agent_command(site, request)) == [*expected, *AGENT]
