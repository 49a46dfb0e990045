"""libvirt's XML by libvirt's own schema, what is refused, and virsh held and asked, with its driver for tests."""

from __future__ import annotations

import platform
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree as ET

import pytest
from pydantic import ValidationError
from tests.support.facts import assert_facts, refused

from virtoll.errors import GuestError, HostUnreachable
from virtoll.hosts.base import GuestHost
from virtoll.lab.inside import Lab
from virtoll.lab.network import GuestNetwork, plan_links
from virtoll.platforms import promises
from virtoll.platforms.base import GuestRequest
from virtoll.platforms.fake.site import model_site
from virtoll.platforms.libvirt.connection import DEBIAN, Virsh, held_virsh
from virtoll.platforms.libvirt.domain_xml import (
    CONTAINERS,
    EMBEDDED,
    SYSTEM,
    TAG,
    TEST,
    XEN,
    GuestFiles,
    LibvirtParameters,
    domain,
)
from virtoll.platforms.libvirt.driver import Libvirt, domains, remove_ours
from virtoll.platforms.process_guest import GuestRemains

needs_virsh = pytest.mark.skipif(shutil.which("virsh") is None, reason="virsh is not installed")
PLACES = GuestFiles(
    Path("/a & b/agent"),
    Path("/a/console"),
    Path("/k<ernel"),
    Path("/initramfs"),
    Path("/root"),
    {"/usr": Path("/im & age/usr")},
)
REQUEST = GuestRequest("guest/1", 2, 2**28, (0, 1), plan_links(3), cpu_quota=0.5)


@needs_virsh
@pytest.mark.parametrize("disk", [None, Path("/i/disk & more.erofs")], ids=["memory", "disk"])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"channel": "serial", "nic": "e1000e"},
        {"uri": SYSTEM, "domain_type": "kvm", "machine": "pc"},
        {"uri": CONTAINERS},
        {"uri": XEN},
        {"uri": XEN, "machine": "xenpvh"},
    ],
    ids=str,
)
def test_a_domain_is_valid_by_libvirts_schema(given: dict[str, str], disk: Path | None, tmp_path: Path) -> None:
    bridges = {link.name: link.bridge for link in REQUEST.network.links}
    wanted = LibvirtParameters.model_validate(given)
    text = domain("virtoll-x", REQUEST, wanted, replace(PLACES, disk=disk), bridges)
    on_disk = disk is not None and not wanted.container
    device = "/dev/vda" if wanted.emulated else "/dev/xvda"
    assert (f"virtoll.root={device} " in text) == on_disk
    assert ("xen_blkfront,erofs" in text) == (on_disk and not wanted.emulated)
    read_only = ET.fromstring(text).findall("devices/disk/readonly")
    assert len(read_only) == int(on_disk)
    mounts = ET.fromstring(text).findall("devices/filesystem[@type='mount']")
    places = [(one.find("target"), one.find("readonly")) for one in mounts]
    shown = [(at.get("dir"), told is not None) for at, told in places if at is not None]
    assert shown == ([("/", True), ("/usr", True)] if wanted.container else [])
    for link in REQUEST.network.links:
        assert link.guest_mac in text
        assert f'<target dev="{link.port_interface}"' in text
    reported = re.findall(r"<(\w*quota)>50000<", text)
    assert reported == {SYSTEM: ["global_quota"], CONTAINERS: ["quota"]}.get(given.get("uri", ""), [])
    assert f'<domain type="{LibvirtParameters.model_validate(given).kind}"' in text
    assert_valid(text, tmp_path)


def assert_valid(text: str, folder: Path) -> None:
    """By libvirt's own schema."""
    (folder / "domain.xml").write_text(text)
    command = ["virt-xml-validate", str(folder / "domain.xml"), "domain"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "xmllint" in done.stderr:
        pytest.skip("virt-xml-validate needs xmllint: apt-get install libxml2-utils")
    assert done.returncode == 0, done.stderr


@needs_virsh
@pytest.mark.parametrize("domain_type", ["qemu", "kvm"])
def test_a_domain_of_arm_is_valid_by_libvirts_schema(
    domain_type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    bridges = {link.name: link.bridge for link in REQUEST.network.links}
    text = domain("x", REQUEST, LibvirtParameters.model_validate({"domain_type": domain_type}), PLACES, bridges)
    top = ET.fromstring(text)
    kind, line = top.find("os/type"), top.findtext("os/cmdline") or ""
    assert kind is not None
    assert (kind.get("arch"), kind.get("machine")) == ("aarch64", "virt")
    assert line.startswith("console=ttyAMA0 ")
    assert [one.get("version") for one in top.findall("features/gic")] == (["3"] if domain_type == "qemu" else [])
    assert_valid(text, tmp_path)


@pytest.mark.parametrize(("cpus", "expected"), [((0, 1), "0,1"), ((), None)])
def test_a_container_has_the_cpus_that_it_was_given(cpus: tuple[int, ...], expected: str | None) -> None:
    bridges = {link.name: link.bridge for link in REQUEST.network.links}
    wanted = LibvirtParameters.model_validate({"uri": CONTAINERS})
    vcpu = ET.fromstring(domain("x", replace(REQUEST, cpus=cpus), wanted, PLACES, bridges)).find("vcpu")
    assert vcpu is not None
    assert vcpu.get("cpuset") == expected


def test_a_domain_of_xen_has_its_console_for_a_channel() -> None:
    bridges = {link.name: link.bridge for link in REQUEST.network.links}
    for machine, kind in (("xenpv", "linux"), ("xenpvh", "xenpvh")):
        wanted = LibvirtParameters.model_validate({"uri": XEN, "machine": machine})
        top = ET.fromstring(domain("x", replace(REQUEST, cpu_quota=None), wanted, PLACES, bridges))
        assert top.findtext("os/type") == kind
        assert "virtoll.channel=/dev/hvc0 virtoll.modules=xen_netfront" in (top.findtext("os/cmdline") or "")
        assert [one.tag for one in top.findall("devices/*")] == ["console", *["interface"] * len(bridges)]
        assert [one.get("cpuset") for one in top.findall("cputune/*")] == ["0,1", "0,1"]


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({"uri": CONTAINERS, "nic": "e1000"}, ("'nic'", CONTAINERS)),
        ({"uri": XEN, "domain_type": "kvm"}, ("'domain_type'", XEN)),
        ({"uri": XEN, "machine": "q35"}, ("machine q35", XEN, "xenpv, xenpvh")),
        ({"machine": "xenpv"}, ("machine xenpv", EMBEDDED, "q35, pc, virt")),
        ({"machine": "virt", "channel": "serial"}, ("machine virt", "serial")),
        ({"uri": CONTAINERS, "machine": "pc"}, ("machine pc", CONTAINERS)),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(given: dict[str, str], facts: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError) as raised:
        LibvirtParameters.model_validate(given)
    assert_facts(str(raised.value), *facts)


@dataclass
class Elsewhere:
    """A host of another kind, as far as a refusal asks."""

    name: str = "ssh root@far"
    here: bool = False
    is_root: bool = True
    cgroup: str | None = "virtoll-000000000000"

    @property
    def local(self) -> Elsewhere | None:
        return self if self.here else None


@pytest.mark.parametrize(
    ("uri", "host", "facts"),
    [
        (TEST, Elsewhere(), ("tests",)),
        (EMBEDDED, Elsewhere(), (SYSTEM, "ssh root@far")),
        (CONTAINERS, Elsewhere(), (SYSTEM, "ssh root@far")),
        (XEN, Elsewhere(here=True), ("'host'",)),
        (CONTAINERS, Elsewhere(here=True, cgroup=None), ("root", "cgroups")),
        (SYSTEM, Elsewhere(here=True, is_root=False), ("root",)),
        (EMBEDDED, Elsewhere(here=True, is_root=False), ("root",)),
    ],
)
def test_a_host_that_cannot_have_the_driver_is_refused(uri: str, host: Elsewhere, facts: tuple[str, ...]) -> None:
    site = replace(model_site(), host=cast("GuestHost", host))
    found = Libvirt(LibvirtParameters(uri=uri)).probe(site)
    assert not found.available
    assert_facts(found.reason or "", uri, *facts)
    assert "\n" not in (found.reason or "")


@pytest.mark.parametrize("uri", ["esx://box/", "test:////etc/passwd", "qemu+ssh://box/system", "nonsense"])
def test_what_is_not_driven_is_refused(uri: str) -> None:
    with pytest.raises(ValidationError) as raised:
        LibvirtParameters(uri=uri)
    assert_facts(str(raised.value), uri, EMBEDDED, SYSTEM, CONTAINERS, XEN, TEST)


@pytest.fixture
def shell(tmp_path: Path) -> Virsh:
    return held_virsh(Lab("virtoll-000000000000", tmp_path), "test:///default", "guest", tmp_path)


@needs_virsh
def test_a_domain_is_made_parked_and_destroyed_over_a_held_virsh(shell: Virsh, tmp_path: Path) -> None:
    xml = tmp_path / "with a blank.xml"
    xml.write_text("<domain type='test'><name>one</name><memory>8192</memory><os><type>hvm</type></os></domain>")
    try:
        shell.run("create", str(xml))
        shell.run("suspend", "one")
        assert shell.run("domstate", "one").strip() == "paused"
        shell.run("resume", "one")
        assert shell.run("domstate", "one").strip() == "running"
        with refused("'one'", error=GuestError):
            shell.run("create", str(xml))
        shell.run("destroy", "one")
        with refused("'one'", error=GuestError):
            shell.run("domstate", "one")
    finally:
        shell.close()
    with refused("virsh", error=GuestError):
        shell.run("list")


@needs_virsh
def test_only_what_a_dead_lab_made_is_destroyed(shell: Virsh, tmp_path: Path) -> None:
    """By name and description; a domain that somebody defined stays, whatever it is called."""
    dead, alive = "virtoll-00000000dead", "virtoll-0000000a11fe"
    made = {f"{dead}-one": TAG, f"{alive}-one": TAG, f"{dead}-theirs": "a pet", "virtoll-notes": TAG}
    try:
        for name, note in made.items():
            xml = tmp_path / f"{name}.xml"
            xml.write_text(
                f"<domain type='test'><name>{name}</name><description>{note}; and more</description>"
                "<memory>8192</memory><os><type>hvm</type></os></domain>"
            )
            shell.run("create", str(xml))
        before = set(domains(shell))
        assert set(made) < before, "and the one that the driver for tests has from the start"
        assert remove_ours(shell, frozenset({alive})) == [f"libvirt domain {dead}-one"]
        assert set(domains(shell)) == before - {f"{dead}-one"}
        assert remove_ours(shell, frozenset({alive})) == []
    finally:
        shell.close()


@dataclass
class AsNobody(Lab):
    """This machine, asked by a user without rights."""

    def run(self, argv: Sequence[str], role: str, deadline_seconds: float = 30.0, stdin: bytes | None = None) -> str:
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", *argv]
        return super().run(command, role, deadline_seconds, stdin)


@needs_virsh
@pytest.mark.root
def test_a_refused_connection_has_virshs_words_and_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as there, socket.socket(socket.AF_UNIX) as daemon:
        Path(there).chmod(0o755)
        closed = f"{there}/closed"
        daemon.bind(closed)
        daemon.listen()
        Path(closed).chmod(0o600)
        lab = Lab("virtoll-000000000000", Path(there))

        with refused(f"{there}/none", "No such file", "daemon", "this machine", error=GuestError):
            Virsh(lab, f"qemu:///system?socket={there}/none").run("list")
        nobody = AsNobody("virtoll-000000000000", Path(there))
        with refused("qemu:///system", "Permission denied", "root", "this machine", error=GuestError):
            Virsh(nobody, f"qemu:///system?socket={closed}").run("list")
        monkeypatch.setenv("PATH", there)
        found = Libvirt(LibvirtParameters()).probe(replace(model_site(), host=lab))
        assert_facts(found.reason or "", "virsh")
        assert found.install == DEBIAN


def test_the_quota_of_an_embedded_driver_is_not_in_the_domain() -> None:
    bridges = {link.name: link.bridge for link in REQUEST.network.links}
    bare = replace(REQUEST, cpus=())
    assert "cputune" not in domain("x", bare, LibvirtParameters(), PLACES, bridges)


class Far(Lab):
    """Another machine, whose daemon makes domains of which no console can be had; ``undying``: they do not go either.

    ``unreachable``: from the first ``destroy`` on.
    """

    def __init__(self, scratch: Path, *, undying: bool = False, unreachable: bool = False) -> None:
        super().__init__("virtoll-000000000000", scratch)
        self.undying, self.unreachable = undying, unreachable
        self.there: list[str] = []
        self.asked: list[str] = []
        self.promised: list[list[str]] = []

    @property
    def local(self) -> Any:
        return None

    def run(self, argv: Sequence[str], role: str, deadline_seconds: float = 30.0, stdin: bytes | None = None) -> str:
        del role, deadline_seconds, stdin
        command = argv[4]
        self.asked.append(command)
        if self.unreachable and "destroy" in self.asked:
            raise HostUnreachable("ssh root@far", "Connection refused", "look at its network")
        if command == "create":
            assert self.promised, "what is made is promised to be ended before"
            self.there = [f"{self.lab_id}-one"]
            raise GuestError("'virsh create' did not end within 180 s")
        if command == "destroy":
            if self.undying:
                raise GuestError("'virsh destroy' ended with 1: Device or resource busy")
            self.there.remove(argv[-1])
        return "".join(f"{one}\n" for one in self.there)

    def guard(self, argv: Sequence[str]) -> Callable[[], None]:
        one = list(argv)
        self.promised.append(one)
        return lambda: self.promised.remove(one)


def failed_start(host: Far) -> GuestError:
    """What is said of a domain that was made, and whose start failed."""
    image = SimpleNamespace(
        kernel=SimpleNamespace(vmlinuz=Path("/i/vmlinuz"), vmlinux=None),
        machine_initramfs=Path("/i/initramfs"),
        needs_disk=False,
    )
    site = replace(model_site(), host=host, image=cast("Any", image))
    with pytest.raises(GuestError) as raised:
        Libvirt(LibvirtParameters(uri=SYSTEM)).start(GuestRequest("one", 1, 2**28, (), GuestNetwork(())), site)
    assert_facts(str(raised.value), "180 s")
    return raised.value


def test_a_domain_that_goes_is_promised_no_more(tmp_path: Path) -> None:
    host = Far(tmp_path)
    assert not isinstance(failed_start(host), GuestRemains)
    assert host.asked == ["list", "create", "destroy", "list"]
    assert (host.there, host.promised) == ([], [])


def test_a_domain_that_stays_is_named_and_stays_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promises, "END_SECONDS", 0.0)
    host = Far(tmp_path, undying=True)
    error = failed_start(host)
    assert isinstance(error, GuestRemains)
    assert_facts(str(error), "domain virtoll-000000000000-one", "0 s", "Device or resource busy")
    assert host.promised == [["virsh", "--quiet", "--connect", SYSTEM, "destroy", "virtoll-000000000000-one"]]


def test_a_host_that_is_gone_is_not_waited_for_and_the_promise_stays(tmp_path: Path) -> None:
    host = Far(tmp_path, unreachable=True)
    assert_facts(str(failed_start(host)), "ssh root@far", "Connection refused")
    assert host.asked == ["list", "create", "destroy", "list"]
    assert len(host.promised) == 1
