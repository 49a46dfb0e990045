"""VMware ESXi: the driver against VMware's own simulator of the API, with a real machine under QEMU behind each VM.

What this does not show is ESXi itself: docs/platforms/esxi.md says what was tried on what.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim
from tests.support import guest_contract as contract
from tests.support import guests
from tests.support.esxi import DATASTORE, PASSWORD, EsxiHost, esxi_host, extent, inventory, machine_named, session_of
from tests.support.guest_kinds import ADDED, machine
from tests.support.guests import SECOND_NS, Connected
from tests.support.present import present
from tests.support.tools_image import WORD

from virtoll.agent.operations.session import ClocksRequest
from virtoll.agent.timekeeper import echo_request
from virtoll.lab.inside import wait_until
from virtoll.pipeline.session import RunSession
from virtoll.platforms.esxi import leftovers
from virtoll.platforms.esxi.data_disk import DESCRIPTOR_FILE
from virtoll.platforms.esxi.parameters import EsxiParameters
from virtoll.platforms.esxi.specs import BOOT_FILE, ROOT_FILE
from virtoll.platforms.process_guest import root_disk

INSIDE_LAB = "esxi"
pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("record")]

BOOT_SECONDS = 900.0  # firmware and a CD-ROM drive, all of it translated
ETHERNET = vim.vm.device.VirtualEthernetCard
VARIANTS: dict[str, dict[str, Any]] = {
    "vmxnet3": {
        "serial": "call",
        "callback": "127.0.0.1",
        "memory_reservation": "full",
        "latency_sensitivity": "high",
        "cpu_reservation_mhz": 500,
    },
    "e1000e": {"nic": "e1000e"},
}


def is_extended(item: pytest.Function) -> bool:
    """Of the second model, the image with tools and a host that listens.

    ``test_esxi_host`` finds by the API, the files there and the channel alone what these machines would.
    """
    return getattr(item, "callspec", None) is not None and item.callspec.params.get("live") == "e1000e"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EsxiHost]:
    with esxi_host(tmp_path_factory.mktemp("esxi")) as started:
        for name, parameters in VARIANTS.items():
            variant = name != "vmxnet3"
            ADDED[f"esxi-{name}"] = machine(
                "esxi", started.parameters(**parameters), variant=variant, ready_seconds=BOOT_SECONDS
            )
        yield started


@pytest.fixture(scope="module", params=list(VARIANTS))
def live(request: pytest.FixtureRequest, run_session: RunSession, host: EsxiHost) -> Iterator[Connected]:
    """One guest for all tests of its kind, the second on an image with tools; the last test ends it."""
    before = inventory(host)
    name, session = f"esxi-{request.param}", run_session
    if ADDED[name].variant:
        session = dataclasses.replace(run_session, site=request.getfixturevalue("with_tools"), sites=None)
    with guests.running(name, session, data_bytes=contract.ROOM_BYTES) as started:
        yield started
    assert inventory(host) == before


@contract.checks((*contract.EVERYWHERE, contract.forwards_in_both_directions_at_once))
def test_it_keeps_the_contract(live: Connected, check: contract.Check) -> None:
    check(live)


@contract.checks((contract.is_timed_over_the_channel, contract.returns_data_byte_for_byte, *contract.OF_DATA))
def test_one_variant_keeps_the_rest_of_the_contract(live: Connected, check: contract.Check) -> None:
    contract.skip_variant(live)
    check(live)


def test_what_is_synced_in_its_data_directory_is_on_the_datastore(live: Connected, host: EsxiHost) -> None:
    contract.skip_variant(live)
    assert present(live.wanted.data).descriptor is None, "the room here is given back once its disk was uploaded"
    live.emptied()
    written = (live.site.image.root / "bin/busybox").read_bytes()
    guests.output_of(live.held.agent, "/bin/dd", "if=/bin/busybox", "of=/data/copy", "conv=fsync")
    ((_, reported),) = [one for one in host.seen if one[0] == "on" and one[1]["name"] in host.machines]
    (disk,) = reported["disks"]
    assert written[: 2**16] in extent(Path(disk["file"])).read_bytes()


def test_the_host_was_told_what_the_experiment_says(live: Connected, host: EsxiHost) -> None:
    (name,) = host.machines
    reported = next(machine for event, machine in host.seen if event == "on" and machine["name"] == name)
    model = {"vmxnet3": "VirtualVmxnet3", "e1000e": "VirtualE1000e", "e1000": "VirtualE1000"}
    parameters = EsxiParameters.model_validate(live.kind.parameters)
    lab = name[:20]
    assert [nic["model"] for nic in reported["nics"]] == [model[parameters.nic]] * 3
    assert [nic["mac"] for nic in reported["nics"]] == [link.guest_mac for link in live.bench.network.links]
    assert [nic["network"] for nic in reported["nics"]] == [f"{lab}-vmnic{number}" for number in (1, 2, 3)]
    assert reported["memory_mib"] == 256
    disks = [(one["controller"], one["unit"], Path(one["file"]).name) for one in reported["disks"] or []]
    assert disks == [("VirtualAHCIController", 0, DESCRIPTOR_FILE)]
    with session_of(host) as session:
        config = machine_named(session, name).config
        assert leftovers.is_ours(session.machine(name))
        high = parameters.latency_sensitivity == "high"
        assert config.latencySensitivity.level == parameters.latency_sensitivity
        assert config.memoryAllocation.reservation == (256 if high else 0)
        assert config.cpuAllocation.reservation == (500 if high else 0)
        assert config.cpuAllocation.limit == -1
        assert list(config.cpuAffinity.affinitySet) == list(live.wanted.cpus)
        network = session.host.configManager.networkSystem.networkInfo
        made = [one for one in network.vswitch if one.name.startswith(lab)]
        assert [(one.name, list(one.spec.bridge.nicDevice), one.spec.mtu) for one in made] == [
            (f"{lab}-{uplink}", [uplink], 1500) for uplink in ("vmnic1", "vmnic2", "vmnic3")
        ]
        groups = [one.spec for one in network.portgroup if one.spec.name.startswith(lab)]
        assert len(groups) == 3
        for group in groups:
            security = group.policy.security
            assert security.allowPromiscuous
            assert security.macChanges
            assert security.forgedTransmits


def test_parked_it_is_suspended_and_then_goes_on_over_a_new_connection(live: Connected, host: EsxiHost) -> None:
    link = present(live.bench.network.marks)
    (name,) = host.machines

    def answers() -> bool:
        return bool(live.held.peer.ask(echo_request(link, 1, SECOND_NS // 2), guests.HANG_SECONDS).round_trip_ns)

    def state() -> str:
        with session_of(host) as session:
            return str(machine_named(session, name).runtime.powerState)

    wait_until(answers, guests.HANG_SECONDS, "an echo")
    live.held.park()
    live.held.park()
    assert state() == "suspended"
    assert asked(host, name, "query-status")["status"] == "paused"
    threads = virtual_cpus(host, name)
    wait_until(lambda: all(state == "S" for state, _ in ran(threads)), guests.HANG_SECONDS, "the rest of its CPUs")
    before = ran(threads)
    assert not answers()
    assert ran(threads) == before
    live.held.resume()
    assert state() == "poweredOn"
    wait_until(answers, guests.HANG_SECONDS, "an echo after it was continued")
    assert live.held.agent.ask(ClocksRequest(), guests.HANG_SECONDS).monotonic_ns
    assert ran(threads) != before
    assert [event for event, machine in host.seen if machine["name"] == name] == ["on", "suspend", "resume"]


def asked(host: EsxiHost, name: str, command: str) -> Any:
    """What the monitor of the machine behind a VM answers."""
    return host.machines[name].monitor.execute(command)


def virtual_cpus(host: EsxiHost, name: str) -> list[Path]:
    """The threads that are the CPUs of the machine behind a VM."""
    tasks = Path(f"/proc/{host.machines[name].process.pid}/task")
    return [tasks / str(one["thread-id"]) for one in asked(host, name, "query-cpus-fast")]


def ran(threads: list[Path]) -> list[tuple[str, int]]:
    """State and CPU time in ns of threads, as the kernel accounts it."""
    return [
        ((one / "stat").read_text().rpartition(")")[2].split()[0], int((one / "schedstat").read_text().split()[0]))
        for one in threads
    ]


@pytest.mark.parametrize("live", ["e1000e"], indirect=True, scope="module")
def test_an_image_with_tools_is_a_cd_rom_of_its_own(live: Connected, host: EsxiHost) -> None:
    """The second drive behind the one that boots; a program of it runs, and it cannot be written to.

    The data directory is a disk beside it.
    """
    (name,) = host.machines
    with session_of(host) as session:
        devices = machine_named(session, name).config.hardware.device
        drives: list[Any] = [one for one in devices if isinstance(one, vim.vm.device.VirtualCdrom)]
        assert [(one.unitNumber, one.controllerKey, one.backing.fileName) for one in drives] == [
            (unit, 200, f"[{DATASTORE}] {name}/{file}") for unit, file in enumerate((BOOT_FILE, ROOT_FILE))
        ]
        (store,) = session.centre.datastoreFolder.childEntity
        uploaded = Path(store.summary.url) / name / ROOT_FILE
        assert uploaded.read_bytes() == root_disk(live.site.image).read_bytes()
    for argv, status, said in (
        (("cat", WORD), 0, "from word\n"),
        (("grep", "/dev/sr1 / erofs ro", "/proc/mounts"), 0, "/dev/sr1 / erofs ro"),
        (("touch", f"{WORD}s"), 1, "Read-only file system"),
        (("grep", "/dev/sda /data ext4 rw", "/proc/mounts"), 0, "/dev/sda /data ext4 rw"),
        (("dd", f"if={WORD}", "of=/data/copy", "conv=fsync"), 0, ""),
    ):
        ended = guests.execute(live.held.agent, "/usr/bin/busybox", *argv)
        assert (ended.status, said in (ended.stdout + ended.stderr).decode()) == (status, True)


def test_killed_it_is_noticed_and_its_console_is_kept(live: Connected, host: EsxiHost) -> None:
    """What the janitor would run has no password in it, and is withdrawn with the guest's orderly end."""
    (argv,) = guests.promised()
    assert "virtoll.platforms.esxi.leftovers" in argv
    assert PASSWORD not in " ".join(argv)
    (machine,) = host.machines.values()
    machine.process.kill()
    guests.assert_found_dead(live)
    assert live.held.evidence()["console.txt"]
    live.held.stop()
    assert not host.machines
    assert guests.promised() == []


@pytest.mark.nested
def test_a_machine_with_e1000_forwards(run_session: RunSession, host: EsxiHost) -> None:
    """The third model, on the whole way: the other two have all tests."""
    ADDED["esxi-e1000"] = dataclasses.replace(ADDED["esxi-vmxnet3"], parameters=host.parameters(nic="e1000"))
    with guests.running("esxi-e1000", run_session) as live:
        (machine,) = host.machines.values()
        assert sum(word.startswith("e1000,") for word in machine.command) == 3
        contract.forwards_a_low_rate_without_loss(live)
