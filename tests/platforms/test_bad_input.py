"""Bad input over platforms: one line each, and whatever Virtoll did not make is as before.

What stands elsewhere is not repeated: ESXi's credentials, certificates, reach, datastore and names (``test_esxi``),
libvirt's sockets, rights and names of containers (``test_libvirt``, ``test_libvirt_daemon``), OpenVZ's and VServer's
numbers and names (``test_command_mocks``), hosts that SSH does not reach (``test_far_hypervisor``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support import guests, machine
from tests.support.facts import refused

from virtoll.campaign.session import RunSession
from virtoll.errors import GuestError
from virtoll.experiment.model import Parameters
from virtoll.lab.inside import Lab
from virtoll.lab.network import GuestNetwork
from virtoll.platforms.base import GuestRequest, Platform
from virtoll.platforms.host import Site
from virtoll.platforms.libvirt.connection import Virsh
from virtoll.platforms.libvirt.daemon import lab_daemon
from virtoll.platforms.libvirt.domain_xml import SYSTEM
from virtoll.platforms.xen.driver import Xen, XenParameters

INSIDE_LAB = True
pytestmark = [pytest.mark.lab, pytest.mark.root]

TOO_MUCH = 2**46  # bytes: more than any host of these days has, and less than a machine's address may be
THEIRS = """<domain type="qemu"><name>{name}</name><description>a pet</description><memory>65536</memory>
<os><type>hvm</type></os></domain>"""


@dataclass
class Dom0(Lab):
    """A dom0 by what its ``xl`` says: domains by name, and why it makes none."""

    domains: list[str] = field(default_factory=list)
    refusal: str = ""

    def run(self, argv: Sequence[str], role: str, deadline_seconds: float = 30.0, stdin: bytes | None = None) -> str:
        if argv[0] != "xl":
            return super().run(argv, role, deadline_seconds, stdin)
        if argv[1] == "list":
            return "Name ID Mem VCPUs State Time(s)\nDomain-0 0 1 1 r 1\n" + "".join(f"{one}\n" for one in self.domains)
        if argv[1] == "destroy":
            self.domains.remove(argv[2])
            return ""
        raise GuestError(f"'{' '.join(argv[:2])}' ended with 1: {self.refusal}")


@dataclass
class Case:
    """A start that must be refused; ``seen`` tells what others have, before and after."""

    platform: Platform[Parameters]
    site: Site
    request: GuestRequest
    seen: Callable[[], object]


def name_of(site: Site, request: GuestRequest) -> str:
    return f"{site.host.lab_id}-{request.name.replace('/', '-')}"


def on_dom0(site: Site, refusal: str, *, taken: bool) -> Case:
    wanted = dataclasses.replace(guests.request("xen"), network=GuestNetwork(()))
    dom0 = Dom0(site.host.lab_id, site.host.scratch, domains=["customer"], refusal=refusal)
    if taken:
        dom0.domains.append(name_of(site, wanted))
    elsewhere = dataclasses.replace(site, host=dom0)
    return Case(Xen(XenParameters()), elsewhere, wanted, lambda: list(dom0.domains))


def xen_taken(site: Site, _undo: ExitStack, _folder: Path) -> Case:
    return on_dom0(site, "must not be asked", taken=True)


def xen_without_room(site: Site, _undo: ExitStack, _folder: Path) -> Case:
    return on_dom0(site, "libxl: error: not enough free memory for the domain", taken=False)


def libvirt_without_room(site: Site, _undo: ExitStack, _folder: Path) -> Case:
    wanted = dataclasses.replace(guests.request("libvirt"), memory_bytes=TOO_MUCH)
    return Case(guests.driver("libvirt"), site, wanted, lambda: None)


def by_daemon(site: Site, undo: ExitStack, folder: Path, wanted: GuestRequest, name: str) -> Case:
    """In the lab's daemon somebody has a machine."""
    daemon = lab_daemon(site, "the test")
    undo.callback(daemon.release, "the test")
    virsh = Virsh(site.host, daemon.uri(SYSTEM))
    (folder / "theirs.xml").write_text(THEIRS.format(name=name))
    virsh.run("define", str(folder / "theirs.xml"))
    undo.callback(virsh.run, "undefine", name)
    return Case(guests.driver("libvirt-system"), site, wanted, lambda: virsh.run("dumpxml", name))


def libvirt_system_taken(site: Site, undo: ExitStack, folder: Path) -> Case:
    wanted = guests.request("libvirt-system")
    return by_daemon(site, undo, folder, wanted, name_of(site, wanted))


def libvirt_system_without_room(site: Site, undo: ExitStack, folder: Path) -> Case:
    wanted = dataclasses.replace(guests.request("libvirt-system"), memory_bytes=TOO_MUCH)
    return by_daemon(site, undo, folder, wanted, "customer")


@pytest.mark.parametrize(
    ("prepare", "facts"),
    [
        (xen_taken, ("xl destroy {name}",)),
        (xen_without_room, ("xl create", "not enough free memory")),
        (libvirt_without_room, ("memory",)),
        (libvirt_system_taken, ("{name}", "virsh destroy")),
        (libvirt_system_without_room, ("memory",)),
    ],
)
def test_a_refused_start_leaves_what_others_have(
    run_session: RunSession,
    record: Path,
    tmp_path: Path,
    prepare: Callable[[Site, ExitStack, Path], Case],
    facts: tuple[str, ...],
) -> None:
    with ExitStack() as undo:
        case = prepare(run_session.site, undo, tmp_path)
        before = case.seen(), machine.interfaces(), guests.promised(record)
        name = name_of(case.site, case.request)
        with refused(*(one.format(name=name) for one in facts), error=GuestError):
            case.platform.start(case.request, case.site)
        assert (case.seen(), machine.interfaces(), guests.promised(record)) == before
