"""The lab's own libvirtd: what it refuses, another's domain in it, and that it is gone with the last that needed it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import guests, machine
from tests.support.facts import Command, assert_facts, refused

from virtoll.errors import GuestError
from virtoll.host.packages import how_to_install
from virtoll.lab import residue
from virtoll.lab.inside import Lab, wait_until
from virtoll.platforms.host import Site
from virtoll.platforms.libvirt.connection import DEBIAN, Virsh
from virtoll.platforms.libvirt.daemon import Daemon, lab_daemon
from virtoll.platforms.libvirt.domain_xml import CONTAINERS, SYSTEM, TAG, LibvirtParameters
from virtoll.platforms.libvirt.driver import Libvirt, domains, remove_leftovers

INSIDE_LAB = True
pytestmark = [pytest.mark.lab, pytest.mark.root]

TOO_MUCH = 2**46  # bytes: more than any host of these days has, and less than a machine's address may be
THEIRS = """<domain type="lxc"><name>{name}</name><description>{note}</description><memory>8192</memory>
<os><type>exe</type><init>/init</init></os></domain>"""


@pytest.fixture
def daemon(site: Site) -> Iterator[Daemon]:
    held = lab_daemon(site, "the test")
    yield held
    held.release("the test")


def define(daemon: Daemon, folder: Path, name: str, note: str) -> None:
    """A domain that somebody else has, not running."""
    (folder / "theirs.xml").write_text(THEIRS.format(name=name, note=note))
    Virsh(daemon.lab, daemon.uri(CONTAINERS)).run("define", str(folder / "theirs.xml"))


def test_a_driver_that_is_not_installed_is_named(site: Site, daemon: Daemon) -> None:
    with refused("nosuch:///system", "driver", error=GuestError):
        Virsh(site.host, daemon.uri("nosuch:///system")).run("list")


def test_a_name_that_is_taken_is_refused_and_what_has_it_stays(site: Site, daemon: Daemon, tmp_path: Path) -> None:
    wanted = guests.request("libvirt-lxc")
    assert isinstance(site.host, Lab)
    name = f"{site.host.lab_id}-{wanted.name.replace('/', '-')}"
    define(daemon, tmp_path, name, "a pet")
    virsh = Virsh(site.host, daemon.uri(CONTAINERS))
    before = virsh.run("dumpxml", name)
    with refused(f"domain {name}", "virsh destroy", error=GuestError):
        guests.driver("libvirt-lxc").start(wanted, site)
    assert virsh.run("dumpxml", name) == before
    assert not machine.interfaces() & {link.port_interface for link in wanted.network.links}
    virsh.run("undefine", name)


@pytest.mark.parametrize("kind", ["libvirt", "libvirt-system"])
def test_a_guest_without_room_is_refused_and_leaves_nothing(
    site: Site, daemon: Daemon, record: Path, tmp_path: Path, kind: str
) -> None:
    define(daemon, tmp_path, "customer", "a pet")
    virsh = Virsh(site.host, daemon.uri(CONTAINERS))
    before = virsh.run("dumpxml", "customer"), machine.interfaces(), guests.promised(record)
    with refused("memory", error=GuestError):
        guests.driver(kind).start(replace(guests.request(kind), memory_bytes=TOO_MUCH), site)
    assert (virsh.run("dumpxml", "customer"), machine.interfaces(), guests.promised(record)) == before
    virsh.run("undefine", "customer")


def test_leftovers_are_told_from_what_another_has(site: Site, daemon: Daemon, tmp_path: Path) -> None:
    define(daemon, tmp_path, "virtoll-00000000dead-theirs", "a pet")
    define(daemon, tmp_path, "pet", TAG)
    assert remove_leftovers(site.host, uri=daemon.uri(CONTAINERS)) == []
    virsh = Virsh(site.host, daemon.uri(CONTAINERS))
    assert set(domains(virsh)) == {"pet", "virtoll-00000000dead-theirs"}
    for name in domains(virsh):
        virsh.run("undefine", name)


def test_a_root_that_cannot_be_used_is_refused_and_leaves_nothing(site: Site, daemon: Daemon) -> None:
    (daemon.root / "init").rename(daemon.root / "elsewhere")
    try:
        with refused(error=GuestError):
            guests.driver("libvirt-lxc").start(guests.request("libvirt-lxc"), site)
    finally:
        (daemon.root / "elsewhere").rename(daemon.root / "init")
    assert domains(Virsh(site.host, daemon.uri(CONTAINERS))) == []


def test_it_ends_with_the_last_that_needs_it(site: Site) -> None:
    first, second = lab_daemon(site, "one"), lab_daemon(site, "two")
    assert first is second
    assert first.group is not None
    first.release("one")
    assert first.process.poll() is None
    second.release("two")
    assert first.process.poll() is not None
    wait_until(lambda: groups(first) == [], guests.HANG_SECONDS, "the end of its groups")
    with refused("Failed to connect socket", error=GuestError):
        Virsh(site.host, first.uri(SYSTEM)).run("list")


def groups(daemon: Daemon) -> list[Path]:
    """The lab's cgroup folders."""
    return [below for top in residue.cgroup_folders(daemon.lab.lab_id) for below in top.glob("*/") if below.is_dir()]


def test_without_libvirtd_it_says_what_to_install(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "virsh"
    program.symlink_to("/usr/bin/virsh")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = Libvirt(LibvirtParameters(uri=CONTAINERS)).probe(site)
    assert_facts(found.reason or "", "lxc", CONTAINERS, "libvirtd", Command(how_to_install(*DEBIAN)))
