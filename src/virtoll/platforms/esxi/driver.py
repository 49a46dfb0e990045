"""VMware ESXi: a machine that boots the image from a CD-ROM, driven by the host's own API.

A guest is one virtual machine and one folder on the datastore, and with ``uplinks`` a virtual switch for each. The
machine's second serial port, which the host joins to a TCP connection, is the agent's channel. Its first is the
console, a file on the datastore. Parked means suspended. docs/platforms/esxi.md has the rights, and what was tried.

Main type: ``Esxi``. What talks to a host is imported where that is done: VMware's library takes long to import.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from virtoll.agent.client import AgentClient
from virtoll.errors import GuestError, ImageError, remedy_for
from virtoll.image import GuestImage, boot_disk
from virtoll.lab.data import DataBy, DataVolume
from virtoll.lab.network import GuestNetwork
from virtoll.platforms.base import GuestRequest, GuestStartError, Platform, Probe, Validation
from virtoll.platforms.esxi.data_disk import DESCRIPTOR_FILE, EXTENT_FILE, MEDIUM, DatastoreVolume
from virtoll.platforms.esxi.parameters import EsxiParameters
from virtoll.platforms.host import Site
from virtoll.platforms.managed_guest import ManagedMachine
from virtoll.platforms.process_guest import root_disk

if TYPE_CHECKING:
    from virtoll.platforms.esxi.datastore import Datastore
    from virtoll.platforms.esxi.serial import SerialLine
    from virtoll.platforms.esxi.session import Session

_MIB = 2**20
_SERIAL_SECONDS = 60.0
_NAME_CHARACTERS = 80  # of a virtual machine's name


@dataclass(kw_only=True)
class EsxiMachine(ManagedMachine):
    """A machine of an ESXi host; ``console`` fetches its console's file."""

    console: Callable[[], bytes] = bytes
    data: DataVolume | None = None

    def evidence(self) -> dict[str, bytes]:
        """The console from the datastore, and what came over the channel that was not the protocol."""
        evidence = super().evidence()
        return {**evidence, "console.txt": self.console() + evidence["console.txt"]}


class Esxi(Platform[EsxiParameters]):
    """The driver."""

    name: ClassVar[str] = "esxi"
    without_root: ClassVar[str] = "no"
    remote_hosts: ClassVar[bool] = True
    cleaned_by_api: ClassVar[bool] = True
    family: ClassVar[str] = "hardware-assisted"
    validation: ClassVar[Validation] = "simulator"
    title: ClassVar[str] = "VMware ESXi"
    parameter_model = EsxiParameters
    boot_seconds: ClassVar[float] = 12.0
    slowdown: ClassVar[float] = 1.2
    data_by: ClassVar[DataBy] = "disk"

    def depends_on(self) -> str | None:
        """None: what a host out there answers is asked anew each time."""
        return None

    def remove_leftovers_by_api(self, alive: frozenset[str]) -> list[str]:
        """By the API of the host that the parameters name."""
        from virtoll.platforms.esxi.leftovers import remove_leftovers_by_api

        return remove_leftovers_by_api(self.parameters, alive)

    @property
    def needs_kernel(self) -> bool:
        """Its machines boot it."""
        return True

    def probe(self, site: Site) -> Probe:
        """Log in and start a guest without network; what the host says decides."""
        if self.parameters.server is None:
            return Probe.unusable(
                None, "no ESXi host is named", "'virtoll show platform esxi' has the keys of an experiment"
            )
        if find_spec("pyVmomi") is None:
            return Probe.unusable(None, "VMware's library pyvmomi is missing", remedy_for("pyvmomi"))
        from virtoll.platforms.esxi.datastore import Datastore
        from virtoll.platforms.esxi.session import open_session

        version = None
        try:
            with open_session(self.parameters) as session:
                version = session.version
                Datastore(session)
            self._start(GuestRequest("probe-esxi", 1, 128 * _MIB, (), GuestNetwork(()), 120.0), site).stop()
        except GuestError as error:
            return Probe(False, version, str(error))
        return Probe(True, version, None)

    def start(self, request: GuestRequest, site: Site) -> EsxiMachine:
        """Make a machine with a NIC for each link, boot the image in it and wait for its agent."""
        network = site.network
        try:
            for link in request.network.links:
                network.bridge_port(link)
            guest = self._start(request, site)
        except GuestError:
            network.remove(request.network)
            raise
        guest.cleanup.insert(0, lambda: network.remove(request.network))
        return guest

    def _start(self, request: GuestRequest, site: Site) -> EsxiMachine:
        lab_id = site.host.lab_id
        from virtoll.platforms.esxi.datastore import Datastore
        from virtoll.platforms.esxi.leftovers import command
        from virtoll.platforms.esxi.serial import open_line
        from virtoll.platforms.esxi.session import open_session
        from virtoll.platforms.esxi.switches import port_groups

        name = f"{lab_id}-{request.file_name}"[:_NAME_CHARACTERS]
        files = _files(self.parameters, site.image, request.data_disk_path)
        held = _Held(self.parameters, name, site.host.guard(command(self.parameters, name)))
        try:
            with open_session(self.parameters) as session:
                self._require(session, name, request, sum(source.stat().st_size for source in files.values()))
                held.serial = open_line(self.parameters, request.name, _taken(session))
                held.made = True
                groups = port_groups(session, lab_id, request.network.links)
                store = Datastore(session)
                store.make_folder(name)
                _upload(store, name, files)
                machine = self._make(session, name, request, groups, held.serial, files=files)
                data = _moved(request.data, store)
                spawned = time.monotonic_ns()
                session.finish(machine.PowerOn())
            descriptor = held.serial.connect(_SERIAL_SECONDS).detach()
        except BaseException as error:
            evidence = {"console.txt": held.console()} if held.made else {}
            held.end()
            if isinstance(error, GuestError):
                raise GuestStartError(str(error), evidence) from error
            raise
        agent = AgentClient(descriptor, descriptor, request.name)
        guest = EsxiMachine(
            agent=agent,
            peer=site.peer,
            host=site.host,
            attachment=request.network.attachment,
            spawned_monotonic_ns=spawned,
            pause=held.suspend,
            unpause=lambda: held.resume(descriptor),
            destroy=held.end,
            console=held.console,
            data=data,
        )
        guest.wait_ready(request.deadline_seconds)
        return guest

    def _require(self, session: Session, name: str, request: GuestRequest, disk_bytes: int) -> None:
        """Everything that can be refused before anything is made there."""
        from virtoll.platforms.esxi.datastore import Datastore

        if session.machine(name) is not None:
            raise GuestError(
                f"{self.parameters.server}: a machine named {name} is there already; remove it or rename it"
            )
        threads = int(session.host.hardware.cpuInfo.numCpuThreads)
        beyond = [cpu for cpu in request.cpus if cpu >= threads]
        if beyond:
            raise GuestError(
                f"{self.parameters.server} has {threads} CPUs, and the guest is to be pinned on CPU {beyond[0]}"
            )
        store = Datastore(session)
        if name in store.folders(name):
            raise GuestError(f"datastore: {store.path(name)} is there already; remove it or rename it")
        # Beside the disks: room for what is swapped and for what is suspended, as much as its memory each.
        store.require(disk_bytes + 2 * request.memory_bytes)

    def _make(
        self,
        session: Session,
        name: str,
        request: GuestRequest,
        groups: dict[str, str],
        serial: SerialLine,
        *,
        files: Mapping[str, Path],
    ) -> Any:
        from virtoll.platforms.esxi.specs import ROOT_FILE, machine_spec
        from virtoll.platforms.esxi.switches import network_of

        networks = {link: network_of(session, group) for link, group in groups.items()}
        disk = files.get(EXTENT_FILE)
        spec = machine_spec(
            name,
            request,
            self.parameters,
            networks,
            serial.line,
            cpu_mhz=int(session.host.summary.hardware.cpuMhz),
            root=ROOT_FILE in files,
            data_disk_bytes=disk.stat().st_size if disk is not None else None,
        )
        return session.finish(session.centre.vmFolder.CreateVM_Task(config=spec, pool=session.pool, host=session.host))


def _files(parameters: EsxiParameters, image: GuestImage, data_disk: Path | None) -> dict[str, Path]:
    """The files of this machine that its drives are made of, by the names that they get on the datastore."""
    from virtoll.platforms.esxi.specs import BOOT_FILE, ROOT_FILE, kernel_line

    root, data = image.needs_disk, data_disk is not None
    try:
        files = {BOOT_FILE: boot_disk(image, kernel_line(parameters, root=root, data=data), drives=root or data)}
    except ImageError as error:
        raise GuestError(str(error)) from error
    if root:
        files[ROOT_FILE] = root_disk(image)
    if data_disk is not None:
        files[EXTENT_FILE] = data_disk
    return files


def _upload(store: Datastore, folder: str, files: Mapping[str, Path]) -> None:
    """Put them there, and the data disk's descriptor."""
    for file, source in files.items():
        store.upload(source, f"{folder}/{file}")
    if (disk := files.get(EXTENT_FILE)) is not None:
        store.write(f"{folder}/{DESCRIPTOR_FILE}", MEDIUM.descriptor(disk.stat().st_size).encode("ascii"))


def _moved(room: DataVolume | None, store: Datastore) -> DatastoreVolume | None:
    """The data directory's room on the datastore, where it was uploaded to; what it took here is given back."""
    if room is None:
        return None
    room.remove()
    return DatastoreVolume(room.size_bytes, store.file_system)


@dataclass
class _Held:
    """What is done with a machine, each time in a session of its own; ``made``: something of it may be there.

    ``withdraw`` ends the promise that it is removed should this process die: only once it has been removed.
    """

    parameters: EsxiParameters
    name: str
    withdraw: Callable[[], object]
    serial: SerialLine | None = None
    made: bool = False

    def suspend(self) -> None:
        """The machine's memory goes to the datastore, and its processes on the host end."""
        from virtoll.platforms.esxi.session import open_session

        with open_session(self.parameters) as session:
            session.finish(self._machine(session).Suspend())

    def resume(self, descriptor: int) -> None:
        """The machine goes on, and its serial port is connected anew."""
        from pyVmomi import vim

        from virtoll.platforms.esxi.session import open_session

        with open_session(self.parameters) as session:
            machine = self._machine(session)
            if machine.runtime.powerState == vim.VirtualMachine.PowerState.suspended:
                session.finish(machine.PowerOn())
        if self.serial is not None:
            self.serial.reconnect(descriptor, _SERIAL_SECONDS)

    def end(self) -> None:
        """Nothing of it is left there; where the host does not answer, the janitor is left to try again."""
        from virtoll.platforms.esxi.leftovers import remove_machine
        from virtoll.platforms.esxi.session import open_session

        if self.serial is not None:
            self.serial.close()
        with contextlib.suppress(GuestError):
            if self.made:
                with open_session(self.parameters) as session:
                    remove_machine(session, self.name)
            self.withdraw()

    def console(self) -> bytes:
        """What its kernel said; empty where it is unavailable."""
        from virtoll.platforms.esxi.datastore import Datastore
        from virtoll.platforms.esxi.session import open_session
        from virtoll.platforms.esxi.specs import CONSOLE_FILE

        with contextlib.suppress(GuestError), open_session(self.parameters) as session:
            return Datastore(session).download(f"{self.name}/{CONSOLE_FILE}")
        return b""

    def _machine(self, session: Session) -> Any:
        machine = session.machine(self.name)
        if machine is None:
            raise GuestError(f"{self.parameters.server}: {self.name} is gone; somebody else removed it")
        return machine


def _taken(session: Session) -> set[int]:
    """Ports that the host listens at for serial ports of its machines."""
    from pyVmomi import vim

    from virtoll.platforms.esxi.serial import taken_ports
    from virtoll.platforms.esxi.session import surviving

    uris = []
    for _, config in surviving(session.machines().values(), lambda machine: machine.config):
        for device in config.hardware.device if config is not None else ():
            backing = device.backing if isinstance(device, vim.vm.device.VirtualSerialPort) else None
            if isinstance(backing, vim.vm.device.VirtualSerialPort.URIBackingInfo) and backing.direction == "server":
                uris.append(str(backing.serviceURI))
    return taken_ports(uris)
