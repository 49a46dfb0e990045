"""An ESXi host for tests inside a lab: VMware's own simulator of its API, and a real machine under QEMU behind each VM.

The simulator (``tools/vcsim``) tells of each power change; what is here starts, stops and continues a machine that is
as the API was reported: memory, CPUs, NIC models and addresses, CD-ROMs and disks from the simulator's datastore, the
serial ports. A NIC's port group decides where its frames go: its uplink is joined by a cable to links of one name of
the lab.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyVmomi import vim
from tests.support.machine import END_SECONDS

from virtoll.image.cache import file_digest
from virtoll.image.third_party import find_vcsim
from virtoll.lab.qemu_monitor import Monitor
from virtoll.platforms.esxi.parameters import EsxiParameters
from virtoll.platforms.esxi.session import Session, open_session, surviving
from virtoll.platforms.esxi.specs import Line
from virtoll.platforms.esxi.switches import network_of

USER, PASSWORD, PASSWORD_VARIABLE = "root", "a secret of the test", "VIRTOLL_TEST_ESXI_PASSWORD"
CABLES = {"vmnic1": "in0", "vmnic2": "out", "vmnic3": "marks"}
DATASTORE = "LocalDS_0"
_MODELS = {"VirtualVmxnet3": "vmxnet3", "VirtualE1000e": "e1000e", "VirtualE1000": "e1000"}
_CONTROLLERS = {"VirtualAHCIController": "ahci"}


class Wire:
    """A serial port's other end: joins the machine's socket to a TCP connection for as long as the machine runs."""

    def __init__(self, port: dict[str, Any], machine: socket.socket) -> None:
        """``port`` is the serial port as the API was reported; a server listens when this returns."""
        self._machine = machine
        self._stop, self._stopper = socket.socketpair()
        host, _, number = port["uri"].removeprefix("tcp://").rpartition(":")
        self._listener = None
        if port["direction"] == "server":
            self._listener = socket.create_server(("127.0.0.1", int(number)), reuse_port=False)
        self._address = (host, int(number))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Every connection ends, as it does on a host that suspends a machine."""
        self._stopper.close()
        self._thread.join(END_SECONDS)

    def _run(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self._stop.close)
            if self._listener is None:
                connection = stack.enter_context(socket.create_connection(self._address, END_SECONDS))
            else:
                stack.enter_context(self._listener)
                if self._stop in select.select([self._listener, self._stop], [], [])[0]:
                    return
                connection = stack.enter_context(self._listener.accept()[0])
            self._pump(connection)

    def _pump(self, connection: socket.socket) -> None:
        others = {connection: self._machine, self._machine: connection}
        while True:
            readable = select.select([*others, self._stop], [], [])[0]
            if self._stop in readable:
                return
            for one in readable:
                with contextlib.suppress(OSError):
                    if content := one.recv(65536):
                        others[one].sendall(content)
                        continue
                return


@dataclass
class Machine:
    """One virtual machine, under QEMU."""

    process: subprocess.Popen[bytes]
    monitor: Monitor
    serial: socket.socket
    port: dict[str, Any]
    taps: list[str]
    command: list[str]
    wire: Wire | None = None


@dataclass
class EsxiHost:
    """A simulated host; ``machines`` are those that are on, by name, ``seen`` the events with their machines.

    ``still``: machines with a disk that are switched on do not go on from there: whoever waits for one is met waiting.
    """

    address: str
    process: subprocess.Popen[bytes]
    folder: Path
    bridge: str = "b{guest}{role}"
    machines: dict[str, Machine] = field(default_factory=dict)
    seen: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    still: bool = False

    def parameters(self, **changed: Any) -> dict[str, Any]:
        """An experiment's entry that names this host."""
        own = {
            "server": self.address,
            "user": USER,
            "password_from": f"env:{PASSWORD_VARIABLE}",
            "verify": "off",
            "datastore": DATASTORE,
            "uplinks": list(CABLES),
        }
        return {key: value for key, value in {**own, **changed}.items() if value is not None}

    def serve(self) -> None:
        """Take events until the simulator ends; what goes wrong is kept, and the simulator goes on."""
        assert self.process.stdout is not None
        assert self.process.stdin is not None
        for line in self.process.stdout:
            event = json.loads(line)
            self.seen.append((event["event"], event["machine"]))
            try:
                getattr(self, f"_{event['event']}")(event["machine"])
            except Exception as error:  # noqa: BLE001 - told by the test
                self.failures.append(f"{event['event']}: {error!r}")
            with contextlib.suppress(OSError):
                self.process.stdin.write(b"\n")
                self.process.stdin.flush()

    def _on(self, reported: dict[str, Any]) -> None:
        name = reported["name"]
        for drive in reported["cdroms"]:
            drive["sha256"] = file_digest(Path(drive["file"]))
        console, port = reported["serials"]
        monitor, monitor_end = socket.socketpair()
        serial, serial_end = socket.socketpair()
        # Its kernel panics where an emulator waits long for a CPU as it boots.
        command = ["nice", "-n", "-10", "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-machine", "pc"]
        command += ["-nodefaults", "-no-reboot"]
        command += ["-display", "none", "-boot", "d", "-m", f"{reported['memory_mib']}M"]
        command += ["-smp", str(reported["cpus"]), "-serial", f"file:{console['file']}"]
        command += [*cdrom_arguments(reported["cdroms"]), *disk_arguments(reported["disks"] or [])]
        command += ["-S"] if self.still and reported["disks"] else []
        command += ["-chardev", f"socket,id=serial,fd={serial_end.fileno()}", "-serial", "chardev:serial"]
        command += ["-chardev", f"socket,id=monitor,fd={monitor_end.fileno()}", "-mon", "chardev=monitor,mode=control"]
        taps = []
        for number, nic in enumerate(reported["nics"] or []):
            taps.append(self._cable(nic))
            command += ["-netdev", f"tap,id=n{number},ifname={taps[-1]},script=no,downscript=no"]
            command += ["-device", f"{_MODELS[nic['model']]},netdev=n{number},mac={nic['mac']},romfile="]
        with (self.folder / f"{name}.qemu").open("wb") as said, serial_end, monitor_end:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
                pass_fds=(serial_end.fileno(), monitor_end.fileno()),
            )
        self.machines[name] = Machine(process, Monitor(monitor, name), serial, port, taps, command)
        self.machines[name].wire = Wire(port, serial)

    def _suspend(self, reported: dict[str, Any]) -> None:
        machine = self.machines[reported["name"]]
        machine.monitor.execute("stop")
        assert machine.wire is not None
        machine.wire.close()

    def _resume(self, reported: dict[str, Any]) -> None:
        machine = self.machines[reported["name"]]
        machine.wire = Wire(machine.port, machine.serial)
        machine.monitor.execute("cont")

    def _off(self, reported: dict[str, Any]) -> None:
        machine = self.machines.pop(reported["name"])
        machine.process.kill()
        machine.process.wait()
        if machine.wire is not None:
            machine.wire.close()
        machine.serial.close()
        with contextlib.suppress(Exception):
            machine.monitor.close()
        for tap in machine.taps:
            subprocess.run(["ip", "link", "del", tap], check=False, capture_output=True)

    def _remove(self, reported: dict[str, Any]) -> None:
        assert reported["name"] not in self.machines, "a machine was destroyed that is on"

    def _cable(self, nic: dict[str, Any]) -> str:
        """A tap in the bridge that the uplink of the NIC's port group is joined to by a cable: in a lab, or any."""
        guest = int(nic["mac"].split(":")[4], 16)
        role = CABLES[nic["network"].rpartition("-")[2]]
        tap = f"e{guest}{role}"
        for line in (
            f"tuntap add dev {tap} mode tap",
            f"link set {tap} mtu 1500 master {self.bridge.format(guest=guest, role=role)}",
            f"link set {tap} up",
        ):
            subprocess.run(["ip", *line.split()], check=True, capture_output=True)
        return tap


def cdrom_arguments(reported: list[dict[str, Any]]) -> list[str]:
    """CD-ROM drives at the first IDE channel, by their numbers there.

    One alone is only booted from: it is at a controller that the firmware reads by DMA, which takes 2 s of CPU less.
    """
    channel, words = "ide.0", []
    if len(reported) == 1:
        channel, words = "boot.0", ["-device", "ahci,id=boot"]
    for one in reported:
        unit = one["unit"]
        words += ["-drive", f"if=none,id=cd{unit},format=raw,media=cdrom,readonly=on,file={one['file']}"]
        words += ["-device", f"ide-cd,bus={channel},unit={unit},drive=cd{unit}"]
    return words


def disk_arguments(reported: list[dict[str, Any]]) -> list[str]:
    """Disks on controllers that QEMU has too, each the extent that its descriptor on the datastore names."""
    words = []
    for controller in {one["controller"] for one in reported}:
        words += ["-device", f"{_CONTROLLERS[controller]},id={controller}"]
    for one in reported:
        name, place = f"disk{one['unit']}", f"{one['controller']}.{one['unit']}"
        words += ["-drive", f"if=none,id={name},format=raw,file={extent(Path(one['file']))}"]
        words += ["-device", f"ide-hd,bus={place},drive={name}"]
    return words


def extent(descriptor: Path) -> Path:
    """The only extent of a VMDK of ESXi, which is as large as the descriptor says."""
    said = descriptor.read_text(encoding="ascii")
    assert said.startswith("# Disk DescriptorFile\n")
    assert 'createType="vmfs"' in said
    ((sectors, name),) = re.findall(r'^RW (\d+) VMFS "([^"/]+)"$', said, re.MULTILINE)
    file = descriptor.with_name(name)
    assert file.stat().st_size == int(sectors) * 512
    return file


@contextlib.contextmanager
def esxi_host(folder: Path, *arguments: str) -> Iterator[EsxiHost]:
    """A host that lives as long as the block; ``arguments`` are further ones of the simulator."""
    program = find_vcsim()
    assert program is not None, "the simulator is not in the cache: make setup-dev"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ[PASSWORD_VARIABLE] = PASSWORD
    with (
        (folder / "vcsim.txt").open("wb") as said,
        subprocess.Popen(
            [str(program), "-user", USER, "-password", PASSWORD, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            start_new_session=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
            process.stdin.write(b"\n")
            process.stdin.flush()
            host = EsxiHost(ready["url"], process, folder)
            server = threading.Thread(target=host.serve, daemon=True)
            server.start()
            yield host
            assert host.failures == []
            process.stdin.close()
            server.join(END_SECONDS)
            assert not server.is_alive(), "the simulator ends with its input"
        finally:
            process.kill()


def session_of(host: EsxiHost) -> contextlib.AbstractContextManager[Session]:
    """A session with the host, as the driver has them."""
    return open_session(EsxiParameters.model_validate(host.parameters()))


def machine_named(session: Session, name: str) -> Any:
    """A virtual machine that is there."""
    found = session.machine(name)
    assert found is not None, name
    return found


def bare_machine(
    session: Session, name: str, note: str, networks: tuple[str, ...] = (), channel: Line | None = None
) -> Any:
    """A virtual machine that is never switched on; ``channel``: that of its serial port, where it has one."""
    cards = []
    if channel is not None:
        uri = vim.vm.device.VirtualSerialPort.URIBackingInfo(direction="server", serviceURI=channel.uri)
        port = vim.vm.device.VirtualSerialPort(key=-20, backing=uri, yieldOnPoll=True)
        cards.append(vim.vm.device.VirtualDeviceSpec(operation="add", device=port))
    for at, one in enumerate(networks):
        network = network_of(session, one)
        backing = vim.vm.device.VirtualEthernetCard.NetworkBackingInfo(deviceName=network.name, network=network)
        card = vim.vm.device.VirtualE1000(
            key=-at - 1, backing=backing, addressType="manual", macAddress=f"02:00:00:00:00:0{at}"
        )
        cards.append(vim.vm.device.VirtualDeviceSpec(operation="add", device=card))
    spec = vim.vm.ConfigSpec(
        name=name,
        annotation=note,
        guestId="otherLinux64Guest",
        memoryMB=4,
        numCPUs=1,
        files=vim.vm.FileInfo(vmPathName=f"[{DATASTORE}] {name}/{name}.vmx"),
        deviceChange=cards,
    )
    return session.finish(session.centre.vmFolder.CreateVM_Task(config=spec, pool=session.pool))


def inventory(host: EsxiHost) -> dict[str, Any]:
    """Everything that a guest may leave on a host: machines, switches, port groups, files."""
    with session_of(host) as session:
        network = session.host.configManager.networkSystem.networkInfo
        found = {
            "machines": {
                one[0]: state
                for one, state in surviving(session.machines().items(), lambda one: str(one[1].runtime.powerState))
            },
            "switches": [one.name for one in network.vswitch],
            "port groups": [one.spec.name for one in network.portgroup],
            "networks": list(session.networks()),
        }
        (store,) = session.centre.datastoreFolder.childEntity
        folder = Path(store.summary.url)
    found["files"] = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
    return found
