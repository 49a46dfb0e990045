"""How a nested host is booted, held and ended, against a lab that keeps what it is asked for."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.cpio_archive import read_archive
from tests.support.facts import refused
from tests.support.qmp import MonitorStub

import virtoll.nested.machine
from virtoll.errors import GuestError
from virtoll.image.cache import file_digest
from virtoll.lab.attachments import Port
from virtoll.lab.commands import ProcessOptions
from virtoll.lab.network import GuestNetwork, Link
from virtoll.nested import NESTED_HOSTS, NestedImage, NestedKind, nested_machine
from virtoll.nested.emulator import Emulator

PUBLIC_KEY = "ssh-ed25519 AAAA virtoll\n"
ROOT = b"an archive of an odd length"
NUMBER = 2
ADDRESS = "10.63.2.2"
BOOT_SECONDS = 1200.0
ROLES = ("key", "management NIC", *NESTED_HOSTS)
"""What a run's record says that its commands were for: a kind's is its login."""
MANAGEMENT_MAC = "02:76:74:06:00:02"


class RecordedLab:
    """Runs nothing: it keeps command lines, and starts ``program`` in the place of each."""

    def __init__(self, folder: Path, program: Sequence[str]) -> None:
        self.folder = folder
        self.program = program
        self.commands: list[list[str]] = []
        self.started: list[list[str]] = []
        self.monitors: list[MonitorStub] = []

    def guest_folder(self, name: str) -> Path:
        made = self.folder / name
        made.mkdir()
        return made

    def run(self, argv: Sequence[str], role: str, deadline_seconds: float = 30.0) -> str:
        assert role.removeprefix("login to nested host ") in ("key", "management NIC", *NESTED_HOSTS), (
            "what a record says that it was for"
        )
        assert deadline_seconds > 0
        self.commands.append(list(argv))
        if argv[0] == "ssh-keygen":
            Path(argv[-1] + ".pub").write_text(PUBLIC_KEY)
        return ""

    def spawn(self, argv: Sequence[str], role: str, options: ProcessOptions) -> subprocess.Popen[bytes]:
        assert role.removeprefix("nested host ") in NESTED_HOSTS
        self.started.append(list(argv))
        (monitor,) = options.pass_fds
        self.monitors.append(MonitorStub(socket.socket(fileno=os.dup(monitor))))
        return subprocess.Popen(self.program, stderr=options.stderr, start_new_session=True)


class RecordedNetwork:
    """A tap for each link, and which links were removed."""

    def __init__(self) -> None:
        self.taps: list[str] = []
        self.removed: list[GuestNetwork] = []

    def tap_port(self, link: Link) -> Port:
        self.taps.append(f"tap-{link.name}")
        return Port(interface=self.taps[-1])

    def remove(self, network: GuestNetwork) -> None:
        self.removed.append(network)


@pytest.fixture
def network() -> RecordedNetwork:
    return RecordedNetwork()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[RecordedLab]:
    made = RecordedLab(tmp_path, ["sleep", "infinity"])
    yield made
    for monitor in made.monitors:
        monitor.join()


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int]]]:
    """An SSH server at each address; gives those that were asked. One that is silent would not be waited for long."""
    asked: list[tuple[str, int]] = []
    sockets: list[socket.socket] = []

    def connection(address: tuple[str, int], timeout: float) -> socket.socket:  # noqa: ARG001
        asked.append(address)
        ours, theirs = socket.socketpair()
        with theirs:
            theirs.sendall(b"SSH-2.0-dropbear_2022.83\r\n")
        sockets.append(ours)
        return ours

    monkeypatch.setattr(socket, "create_connection", connection)
    yield asked
    assert {one.gettimeout() for one in sockets} == {10.0}


def image_of(kind: NestedKind, folder: Path) -> NestedImage:
    root = folder / "root.cpio"
    root.write_bytes(ROOT)
    emulator = Emulator(Path("/emulator"), {"qemu-system-x86": "11.1"}, mended=True)
    hypervisor = Path("/cache/xen") if kind.hypervisor else None
    return NestedImage(kind, Path("/cache/vmlinux"), root, hypervisor, {}, emulator)


def booted(kind: NestedKind, lab: RecordedLab, network: Any, **given: Any) -> Any:
    options = {"files": (), **given}
    return nested_machine(image_of(kind, lab.folder), NUMBER, lab, network=network, **options)  # type: ignore[arg-type]


def values(argv: Sequence[str], option: str) -> list[str]:
    """What stands behind each of these options."""
    return [argv[place + 1] for place, word in enumerate(argv) if word == option]


def test_a_host_is_booted_by_its_kernel(lab: RecordedLab, network: RecordedNetwork, answering: list[Any]) -> None:
    kind = NESTED_HOSTS["kvm"]
    with booted(kind, lab, network) as machine:
        assert (machine.number, machine.image.kind, machine.process.poll()) == (NUMBER, kind, None)
    (argv,) = lab.started
    assert argv[0] == "/emulator/lib/ld-linux-x86-64.so.2"
    assert values(argv, "-kernel") == ["/cache/vmlinux"]
    assert values(argv, "-initrd") == [str(lab.folder / "nested-kvm/initrd")]
    words = "console=ttyS0 quiet net.ifnames=0 cryptomgr.notests"
    assert values(argv, "-append") == [words]
    shape = [values(argv, option) for option in ("-accel", "-M", "-cpu", "-smp", "-m")]
    assert shape == [["tcg,thread=multi"], ["q35"], [kind.cpu], ["1"], ["2048M"]]
    assert {"-nodefaults", "-no-user-config", "-no-reboot"} <= set(argv)
    assert values(argv, "-mon") == ["chardev=monitor,mode=control"], "its monitor speaks QMP"
    assert answering == [(ADDRESS, 22)]


def test_a_host_is_booted_by_its_hypervisor(lab: RecordedLab, network: RecordedNetwork, answering: list[Any]) -> None:
    """Xen is the kernel, and dom0's kernel with its words and the root are its modules."""
    kind = NESTED_HOSTS["xen-pci"]
    with booted(kind, lab, network):
        (argv,) = lab.started
    assert values(argv, "-kernel") == ["/cache/xen"]
    assert values(argv, "-append") == [kind.hypervisor_arguments]
    (modules,) = values(argv, "-initrd")
    dom0, initrd = modules.split(",")
    assert dom0 == "/cache/vmlinux console=hvc0 quiet net.ifnames=0 cryptomgr.notests"
    assert initrd == str(lab.folder / "nested-xen-pci/initrd")
    assert values(argv, "-device")[:2] == ["intel-iommu", "virtio-rng-pci"], "the IOMMU comes before what is behind it"
    assert answering


@pytest.mark.usefixtures("answering")
def test_kernel_arguments_of_a_kind_are_at_the_end(lab: RecordedLab, network: RecordedNetwork) -> None:
    with booted(NESTED_HOSTS["virtualbox"], lab, network):
        (argv,) = lab.started
    assert values(argv, "-append")[0].endswith(" cryptomgr.notests tsc=reliable highres=off nohz=off")


@pytest.mark.usefixtures("answering")
def test_its_nics_are_taps_of_the_lab_and_gone_with_it(lab: RecordedLab, network: RecordedNetwork) -> None:
    with booted(NESTED_HOSTS["kvm"], lab, network) as machine:
        links = machine.links
        (argv,) = lab.started
        assert network.removed == []
    made = [
        ["ip", "tuntap", "add", "dev", "m2", "mode", "tap"],
        ["ip", "address", "add", "10.63.2.1/24", "dev", "m2"],
        ["ip", "link", "set", "m2", "up"],
    ]
    assert [line for line in lab.commands if line[0] == "ip"] == [*made, ["ip", "link", "del", "m2"]]
    assert {link.owner for link in links.links} == {182}, "guests have the numbers below 180"
    assert {link.mtu_bytes for link in links.links} == {1500}
    assert [link.name for link in links.links if link.role == "source"] == ["in0", "in1", "in2"]
    assert len([link for link in links.links if link.role == "sink"]) == 3
    assert network.removed == [links]
    taps = ["m2", *(f"tap-{link.name}" for link in links.links)]
    macs = [MANAGEMENT_MAC, *(link.guest_mac for link in links.links)]
    nets = [f"tap,id=n{number},ifname={tap},script=no,downscript=no" for number, tap in enumerate(taps)]
    assert values(argv, "-netdev") == nets
    nics = [f"virtio-net-pci,netdev=n{number},mac={mac},romfile=" for number, mac in enumerate(macs)]
    assert [device for device in values(argv, "-device") if "netdev" in device] == nics


@pytest.mark.usefixtures("answering")
def test_its_root_has_its_address_its_key_and_its_files(
    lab: RecordedLab, network: RecordedNetwork, tmp_path: Path
) -> None:
    carried = tmp_path / "agent"
    carried.write_bytes(b"an agent")
    digest = file_digest(carried)
    with booted(NESTED_HOSTS["kvm"], lab, network, files=[carried]) as machine:
        assert machine.baked == {digest: Path("/virtoll/files") / digest}
    root = (lab.folder / "nested-kvm/initrd").read_bytes()
    assert root.startswith(ROOT)
    start = 512  # the next archive begins at a multiple of so many bytes
    assert root[len(ROOT) : start] == bytes(start - len(ROOT))
    entries = {entry.path: entry for entry in read_archive(root[start:])}
    assert entries["root/.ssh/authorized_keys"].content == PUBLIC_KEY.encode()
    settings = entries["virtoll/boot.sh"].content.decode().split()
    assert settings == [f"MANAGEMENT_MAC={MANAGEMENT_MAC}", f"MANAGEMENT_ADDRESS={ADDRESS}/24"]
    assert entries[f"virtoll/files/{digest}"].content == b"an agent"
    assert entries[f"virtoll/files/{digest}"].mode & 0o111


@pytest.mark.usefixtures("answering")
def test_its_commands_run_by_its_own_key_each_by_itself(lab: RecordedLab, network: RecordedNetwork) -> None:
    with booted(NESTED_HOSTS["kvm"], lab, network) as machine:
        prefix = machine.connection.prefix
    assert prefix[:4] == ("ssh", "-F", "/dev/null", "-T")
    assert prefix[-2:] == (f"root@{ADDRESS}", "--")
    assert values(prefix, "-o") == [
        "BatchMode=yes",
        "ConnectTimeout=60",
        "ForwardAgent=no",
        "ForwardX11=no",
        f"IdentityFile={lab.folder / 'nested-kvm/key'}",
        "IdentitiesOnly=yes",
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "LogLevel=ERROR",
        "HostKeyAlgorithms=ssh-ed25519",
        "ControlPath=none",
    ]
    assert machine.connection.name == "nested kvm"
    assert machine.connection.quoted
    assert [*prefix, "true"] in lab.commands


@pytest.mark.usefixtures("answering")
@pytest.mark.parametrize("has_driver", [True, False])
def test_a_disk_is_for_kinds_that_have_its_driver(
    lab: RecordedLab, network: RecordedNetwork, tmp_path: Path, *, has_driver: bool
) -> None:
    disk = tmp_path / "image"
    disk.write_bytes(b"a large image")
    kind = NESTED_HOSTS["kvm"] if has_driver else replace(NESTED_HOSTS["kvm"], modules=("virtio_net",))
    with booted(kind, lab, network, disk=disk) as machine:
        (argv,) = lab.started
    drive = [f"if=none,id=image,format=raw,readonly=on,file={disk}"]
    assert values(argv, "-drive") == (drive if has_driver else [])
    assert ("virtio-blk-pci,drive=image" in argv) == has_driver
    assert machine.baked == ({file_digest(disk): Path("/dev/vda")} if has_driver else {})


@pytest.mark.usefixtures("answering")
def test_it_is_parked_and_resumed_by_its_monitor_and_ends(lab: RecordedLab, network: RecordedNetwork) -> None:
    with booted(NESTED_HOSTS["kvm"], lab, network) as machine:
        machine.park()
        machine.resume()
        assert machine.process.poll() is None
    assert lab.monitors[0].commands == ["qmp_capabilities", "stop", "cont"]
    assert machine.process.poll() is not None
    assert machine.process.stderr.closed
    assert machine.monitor.who == "nested host kvm"


@pytest.mark.usefixtures("answering")
def test_it_comes_before_other_programs_as_long_as_it_is_up(
    lab: RecordedLab, network: RecordedNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[list[int], int]] = []

    @contextlib.contextmanager
    def preferred(pids: list[int], niceness: int) -> Iterator[None]:
        asked.append((pids, niceness))
        yield
        asked.clear()

    monkeypatch.setattr(virtoll.nested.machine, "preferred", preferred)
    with booted(NESTED_HOSTS["kvm"], lab, network) as machine:
        assert asked == [([machine.process.pid], -5)]
    assert asked == []


def test_one_that_ends_says_its_last_words_and_leaves_nothing(
    lab: RecordedLab, network: RecordedNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(address: tuple[str, int], timeout: float) -> socket.socket:
        raise ConnectionRefusedError(address, timeout)

    monkeypatch.setattr(socket, "create_connection", nobody)
    console = lab.folder / "nested-xen/console.txt"
    lines = r"(XEN) early\n\n(XEN) before last\n(XEN) Panic on CPU 0\n"
    lab.program = ["sh", "-c", f"printf '{lines}' >{console}; echo qemu: fatal >&2"]
    facts = ("nested host xen", "Panic on CPU 0", "before last", "qemu: fatal")
    with refused(*facts, error=GuestError) as refusal, booted(NESTED_HOSTS["xen"], lab, network):
        pass
    assert "early" not in str(refusal.value), "three lines are enough"
    assert lab.commands[-1] == ["ip", "link", "del", "m2"]
    assert len(network.removed) == 1


def test_a_login_that_fails_is_reported_as_such(
    lab: RecordedLab, network: RecordedNetwork, answering: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = lab.run

    def fails(argv: Sequence[str], role: str, deadline_seconds: float = 30.0) -> str:
        if argv[0] == "ssh":
            raise GuestError("Permission denied (publickey)")
        return run(argv, role, deadline_seconds)

    monkeypatch.setattr(lab, "run", fails)
    with refused("nested host kvm", "Permission denied (publickey)", error=GuestError):  # noqa: SIM117
        with booted(NESTED_HOSTS["kvm"], lab, network):
            pass
    assert answering
    assert len(network.removed) == 1
