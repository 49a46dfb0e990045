"""What an ESXi host refuses, what it has of a machine, and what is cleared away there, by VMware's own simulator.

No machine is switched on here that would have to boot; guests are in ``test_esxi.py``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim
from tests.support import experiments, guests, machine
from tests.support import guest_contract as contract
from tests.support.commands import virtoll
from tests.support.esxi import (
    DATASTORE,
    PASSWORD,
    PASSWORD_VARIABLE,
    USER,
    EsxiHost,
    bare_machine,
    esxi_host,
    inventory,
    machine_named,
    session_of,
)
from tests.support.facts import Fact, assert_facts, assert_refused, refused
from tests.support.present import present
from typer.testing import CliRunner

from virtoll.cli import app
from virtoll.errors import GuestError, UsageError
from virtoll.image import boot_disk
from virtoll.image.cache import file_digest
from virtoll.lab.data import disk_bytes
from virtoll.lab.inside import Lab
from virtoll.lab.network import plan_links
from virtoll.pipeline.session import RunSession
from virtoll.platforms.base import GuestStartError
from virtoll.platforms.esxi import Esxi, leftovers
from virtoll.platforms.esxi.data_disk import DESCRIPTOR_FILE, EXTENT_FILE
from virtoll.platforms.esxi.datastore import Datastore
from virtoll.platforms.esxi.leftovers import remove_leftovers_by_api
from virtoll.platforms.esxi.parameters import EsxiParameters
from virtoll.platforms.esxi.serial import open_line
from virtoll.platforms.esxi.session import open_session
from virtoll.platforms.esxi.specs import BOOT_FILE, ROOT_FILE, TAG, Line, kernel_line, machine_spec
from virtoll.platforms.esxi.switches import network_of, port_groups
from virtoll.platforms.host import Site
from virtoll.platforms.process_guest import root_disk

INSIDE_LAB = "esxi"
pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("record")]

ETHERNET = vim.vm.device.VirtualEthernetCard


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EsxiHost]:
    with esxi_host(tmp_path_factory.mktemp("esxi")) as started:
        yield started


@pytest.fixture(scope="module")
def as_found(host: EsxiHost) -> tuple[dict[str, Any], set[str]]:
    """What is on the host and in the lab when the first of these tests begins."""
    return inventory(host), machine.interfaces()


@pytest.fixture
def unchanged(host: EsxiHost, as_found: tuple[dict[str, Any], set[str]]) -> Iterator[None]:
    """Whatever was refused, nothing on the host or in the lab is other than before."""
    yield
    assert (inventory(host), machine.interfaces()) == as_found


def refusal(run_session: RunSession, parameters: dict[str, Any], site: Site | None = None, **changed: Any) -> str:
    """Why a guest with these parameters is refused; ``site``: another than the session's."""
    wanted = dataclasses.replace(guests.request("netns"), **changed)
    with pytest.raises(GuestError) as raised:
        Esxi(EsxiParameters.model_validate(parameters)).start(wanted, site or run_session.site)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("changed", "facts"),
    [
        ({"user": "nobody"}, ("nobody", "'user'", "'password_from'")),
        ({"password_from": "env:VIRTOLL_TEST_NO_SUCH"}, ("VIRTOLL_TEST_NO_SUCH", "export")),
        ({"password_from": "file:/nowhere/password"}, ("/nowhere/password", "No such file")),
        ({"server": "127.0.0.1:1"}, ("127.0.0.1:1", "Connection refused")),
        ({"server": "no-such-host.invalid"}, ("no-such-host.invalid",)),
        ({"verify": "on"}, ("certificate", "'thumbprint'")),
        ({"thumbprint": "00:" * 31 + "00"}, ("certificate", "thumbprint")),
        ({"datastore": "elsewhere"}, ("datastore", "elsewhere", "LocalDS_0")),
        ({"uplinks": ["vmnic1", "vmnic2", "vmnic9"]}, ("vmnic9", "vmnic0, vmnic1")),
        ({"uplinks": ["vmnic0", "vmnic2", "vmnic3"]}, ("vmnic0", "vSwitch0")),
        ({"uplinks": ["vmnic1"]}, ("uplinks", 1, 3, "in0, out, marks")),
        ({"uplinks": None, "port_groups": ["VM Network", "b", "c"]}, ("port_groups", "b", "VM Network")),
        ({"serial": "call", "callback": "192.0.2.1"}, ("callback", "192.0.2.1", "this machine")),
    ],
)
def test_a_fault_of_the_host_is_named(
    run_session: RunSession, host: EsxiHost, changed: dict[str, Any], facts: tuple[Fact, ...]
) -> None:
    assert_facts(refusal(run_session, host.parameters(**changed)), *facts)


@pytest.mark.usefixtures("unchanged")
def test_a_password_that_others_may_read_is_refused(run_session: RunSession, host: EsxiHost, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text(f"{PASSWORD}\n", encoding="utf-8")
    secret.chmod(0o644)
    parameters = host.parameters(password_from=f"file:{secret}")
    assert_facts(refusal(run_session, parameters), secret, "chmod 0600")
    secret.chmod(0o600)
    with open_session(EsxiParameters.model_validate(parameters)) as session:
        assert session.version


def test_a_certificate_is_trusted_by_its_thumbprint(run_session: RunSession, host: EsxiHost) -> None:
    shown = re.search(r"\b((?:[0-9A-F]{2}:){31}[0-9A-F]{2})\b", refusal(run_session, host.parameters(verify="on")))
    assert shown is not None
    with open_session(EsxiParameters.model_validate(host.parameters(verify="on", thumbprint=shown[1]))) as session:
        assert session.version


@pytest.mark.usefixtures("unchanged")
def test_what_does_not_fit_is_refused_before_anything_is_uploaded(run_session: RunSession, host: EsxiHost) -> None:
    assert_facts(refusal(run_session, host.parameters(), cpus=(500,)), "CPUs", "CPU 500")
    taken = guests.request("netns")
    assert isinstance(run_session.site.host, Lab)
    name = f"{run_session.site.host.lab_id}-{taken.name.replace('/', '-')}"
    with session_of(host) as session:
        theirs = bare_machine(session, name, "somebody else's")
        assert_facts(refusal(run_session, host.parameters(), name=taken.name), "machine", name)
        assert session.machine(name) is not None, "what Virtoll did not make is not touched"
        session.finish(theirs.Destroy_Task())
        Datastore(session).make_folder(name)
        assert_facts(refusal(run_session, host.parameters(), name=taken.name), f"[{DATASTORE}] {name}")
        assert Datastore(session).folders(name) == [name]
        Datastore(session).remove_folder(name)


@pytest.mark.parametrize(
    ("argument", "facts"),
    [
        (f"-free={2**20}", ("LocalDS_0", "1 MiB")),
        ("-faults=CreateVM_Task=RestrictedVersion", ("licence", "API")),
        ("-faults=AddPortGroup=NoPermission", ("VirtualMachine.Inventory.Create", "docs/platforms/esxi.md")),
        ("-faults=PowerOnVM_Task=SystemError", ("SystemError",)),
    ],
)
def test_a_host_that_refuses_is_left_as_it_was(
    run_session: RunSession, tmp_path: Path, argument: str, facts: tuple[str, ...]
) -> None:
    with esxi_host(tmp_path, argument) as other:
        before = inventory(other), machine.interfaces()
        assert_facts(refusal(run_session, other.parameters()), *facts)
        assert (inventory(other), machine.interfaces()) == before
        assert not other.machines
        assert guests.promised() == []


@pytest.mark.usefixtures("unchanged")
def test_a_guest_that_is_not_ready_in_time_is_removed(with_tools: Site, host: EsxiHost) -> None:
    """Its image with tools was in a drive of its own behind the one that boots; its channel, at a port of its own."""
    wanted, parameters = guests.request("netns", 0.001), EsxiParameters.model_validate(host.parameters())
    with session_of(host) as session:
        bare_machine(session, "other", TAG, channel=Line("127.0.0.1", parameters.serial_port, listens=True))
    with pytest.raises(GuestStartError) as raised:
        Esxi(parameters).start(wanted, with_tools)
    assert_facts(str(raised.value), wanted.name, "0.001 s")
    assert "console.txt" in raised.value.evidence
    (vm,) = (vm for event, vm in host.seen if event == "on")
    image = with_tools.image
    boot = boot_disk(image, kernel_line(parameters, root=True, data=False), drives=True)
    assert [(drive["unit"], Path(drive["file"]).name, drive["sha256"]) for drive in vm["cdroms"]] == [
        (0, BOOT_FILE, file_digest(boot)),
        (1, ROOT_FILE, file_digest(root_disk(image))),
    ]
    assert vm["serials"][1]["uri"] == Line("127.0.0.1", parameters.serial_port + 1, listens=True).uri
    with session_of(host) as session:
        session.finish(machine_named(session, "other").Destroy_Task())


@pytest.mark.parametrize("serial", ["listen", "call"])
def test_a_channel_goes_on_over_a_new_connection(host: EsxiHost, serial: str) -> None:
    """A host ends the connection as it suspends a machine, and makes another as the machine goes on."""
    callback = {"callback": "127.0.0.1"} if serial == "call" else {}
    line = open_line(EsxiParameters.model_validate(host.parameters(serial=serial, **callback)), "a guest", set())
    address = ("127.0.0.1", line.line.port)
    with contextlib.closing(line), contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(address)) if serial == "listen" else None

        def connected(connect: Callable[[], object]) -> socket.socket:
            """The host's end of a new connection."""
            calling = socket.create_connection(address) if listener is None else None
            connect()
            return stack.enter_context(calling or present(listener).accept()[0])

        ours: list[socket.socket] = []
        theirs = connected(lambda: ours.append(stack.enter_context(line.connect(machine.END_SECONDS))))
        theirs.close()
        assert ours[0].recv(1) == b""
        theirs = connected(lambda: line.reconnect(ours[0].fileno(), machine.END_SECONDS))
        theirs.sendall(b"again")
        assert ours[0].recv(5) == b"again"


@pytest.mark.parametrize("disk", ["root", "data"])
def test_room_is_needed_for_every_disk_and_a_failed_start_returns_it(
    run_session: RunSession, with_tools: Site, tmp_path: Path, disk: str
) -> None:
    """A data disk is counted whole, though the file here has holes."""
    root = disk == "root"
    site = with_tools if root else run_session.site
    boot = boot_disk(site.image, kernel_line(EsxiParameters(), root=root, data=not root), drives=True)
    least = boot.stat().st_size + 2 * guests.MEMORY_BYTES
    free = least + 1 if root else least + disk_bytes(contract.ROOM_BYTES) - 1
    for number, (argument, fact) in enumerate(
        ((f"-free={free}", f"{free // 2**20} MiB"), ("-faults=PowerOnVM_Task=SystemError", "SystemError"))
    ):
        room = None if root else run_session.site.host.data_volume("disk", contract.ROOM_BYTES)
        with esxi_host(tmp_path / str(number), argument) as other:
            before = inventory(other)
            assert_facts(refusal(run_session, other.parameters(), site, data=room), fact)
            assert inventory(other) == before
        if room is not None:
            room.remove()


@pytest.mark.usefixtures("unchanged")
def test_what_dead_labs_left_is_removed_and_nothing_else(host: EsxiHost) -> None:
    dead, alive = "virtoll-00000000dead", "virtoll-0000000a11fe"
    parameters = EsxiParameters.model_validate(host.parameters())
    with session_of(host) as session:
        for lab in (dead, alive):
            groups = port_groups(session, lab, plan_links(0).links[:1])
            session.parameters = parameters.model_copy(update={"uplinks": ("vmnic2",)})
            bare_machine(session, f"{lab}-one", f"{TAG}; and more", tuple(groups.values()))
        bare_machine(session, f"{dead}-theirs", "a machine of somebody who likes the name")
        for name in (f"{dead}-folder", "virtoll-notes"):
            Datastore(session).make_folder(name)
        for name in (f"{dead}-one", f"{dead}-folder"):
            for file in (ROOT_FILE, EXTENT_FILE, DESCRIPTOR_FILE):
                Datastore(session).upload(Path(__file__), f"{name}/{file}")
    removed = remove_leftovers_by_api(parameters, frozenset({alive}))
    assert removed == [f"machine {dead}-one", f"folder [{DATASTORE}] {dead}-folder"]
    with session_of(host) as session:
        left = set(session.machines())
        switches = {one.name for one in session.host.configManager.networkSystem.networkInfo.vswitch}
        assert {f"{alive}-one", f"{dead}-theirs"} <= left
        assert f"{alive}-vmnic2" in switches
        assert f"{dead}-vmnic1" not in switches
        session.finish(machine_named(session, f"{dead}-theirs").Destroy_Task())
        assert Datastore(session).folders("virtoll-") == [f"{alive}-one", "virtoll-notes"]
        Datastore(session).remove_folder("virtoll-notes")
        port_groups(session, dead, plan_links(0).links[:1])  # its machine is gone already
    removed = remove_leftovers_by_api(parameters)
    assert removed == [f"machine {alive}-one", f"virtual switch {dead}-vmnic1"]


@pytest.mark.usefixtures("unchanged")
def test_clean_host_with_an_experiments_file_removes_what_is_ours_alone(host: EsxiHost, tmp_path: Path) -> None:
    """By the command line: the file has the credentials, its entries name one host, which is asked once."""
    dead, alive = "virtoll-00000000dead", "virtoll-0000000a11fe"
    with session_of(host) as session:
        for name, note in ((f"{dead}-one", TAG), (f"{alive}-one", TAG), (f"{dead}-theirs", "a pet"), ("pet", TAG)):
            bare_machine(session, name, note)
    entry = {"platform": "esxi", **host.parameters(nic=["vmxnet3", "e1000"])}
    file = experiments.write(tmp_path, platforms=[entry], baseline="esxi-vmxnet3")
    variables = {
        PASSWORD_VARIABLE: PASSWORD,
        "VIRTOLL_STATE": str(tmp_path / "state"),
        "VIRTOLL_CACHE": str(tmp_path / "cache"),
    }
    agent = [sys.executable, "-c", "import sys; print('there', flush=True); sys.stdin.read()", f"/tmp/{alive}/agent"]
    with subprocess.Popen(agent, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as living:
        present(living.stdout).readline()
        locked_out = virtoll("clean", "--host", file, changed={**variables, PASSWORD_VARIABLE: "wrong"})
        finished = virtoll("clean", "--host", file, changed=variables)
    assert_refused(locked_out, USER, "'user'", "'password_from'")
    assert len(locked_out.stderr.strip().splitlines()) == 1
    assert finished.returncode == 0, finished.stderr
    (line,) = finished.stdout.splitlines()
    assert_facts(line, f"machine {dead}-one", "esxi-vmxnet3")
    with session_of(host) as session:
        assert {f"{alive}-one", f"{dead}-theirs", "pet"} <= set(session.machines())
        for name in (f"{alive}-one", f"{dead}-theirs", "pet"):
            session.finish(machine_named(session, name).Destroy_Task())


def test_a_file_without_a_host_to_clean_is_refused(tmp_path: Path) -> None:
    with refused("esxi", "'local'", error=UsageError):
        CliRunner().invoke(app, ["clean", "--host", str(experiments.write(tmp_path))], catch_exceptions=False)


MODELS = {"vmxnet3": "VirtualVmxnet3", "e1000e": "VirtualE1000e", "e1000": "VirtualE1000"}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("nic", MODELS)
def test_each_nic_is_the_device_that_was_asked_for(run_session: RunSession, host: EsxiHost, nic: str) -> None:
    """As the host then has it: class, address, whether it is connected from the start, its port group.

    The image has its driver.
    """
    assert f"{nic}.ko" in {file.name for file in run_session.site.image.kernel.modules}
    parameters = EsxiParameters.model_validate(host.parameters(nic=nic))
    wanted, lab = guests.request("netns"), "virtoll-0123456789ab"
    links_wanted = wanted.network.links
    with session_of(host) as session:
        groups = port_groups(session, lab, links_wanted)
        networks = {link.name: network_of(session, groups[link.name]) for link in links_wanted}
        Datastore(session).make_folder(f"{lab}-nic")
        spec = machine_spec(f"{lab}-nic", wanted, parameters, networks, Line("127.0.0.1", 20000, True), cpu_mhz=2000)
        spec.deviceChange = [one for one in spec.deviceChange if isinstance(one.device, ETHERNET)]
        made = session.finish(session.centre.vmFolder.CreateVM_Task(config=spec, pool=session.pool))
        cards: list[Any] = [one for one in made.config.hardware.device if isinstance(one, ETHERNET)]
        assert [type(one).__name__.rpartition(".")[2] for one in cards] == [MODELS[nic]] * len(links_wanted)
        assert [one.macAddress for one in cards] == [link.guest_mac for link in links_wanted]
        assert {one.addressType for one in cards} == {"manual"}
        assert [one.backing.deviceName for one in cards] == [groups[link.name] for link in links_wanted]
        assert all(one.connectable.startConnected for one in cards)
        assert made.config.memoryAllocation.reservation == made.config.cpuAllocation.reservation == 0
        assert made.config.latencySensitivity.level == "normal"
        leftovers.remove_machine(session, f"{lab}-nic")


@pytest.mark.usefixtures("unchanged")
def test_switches_stay_until_their_last_guest_has_gone(host: EsxiHost) -> None:
    lab = "virtoll-0123456789ab"
    with session_of(host) as session:
        groups = port_groups(session, lab, plan_links(0).links)
        assert port_groups(session, lab, plan_links(1).links) == groups
        for name in ("one", "two"):
            bare_machine(session, f"{lab}-{name}", TAG, tuple(groups.values()))
        leftovers.remove_machine(session, f"{lab}-one")
        assert set(groups.values()) <= set(session.networks())
        leftovers.remove_machine(session, f"{lab}-two")
