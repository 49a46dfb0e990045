"""Boots a nested host: a whole hypervisor host under QEMU's emulation, inside the lab, on taps of the lab.

Main types: ``NestedMachine`` and the context manager ``nested_machine``. The host's management NIC leads to the lab and
nowhere else; its key is made for this one boot. It ends with the lab, however that ends.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from virtoll.errors import GuestError
from virtoll.hosts.base import LocalHost
from virtoll.hosts.ssh import ssh_command
from virtoll.image import initramfs
from virtoll.image.cache import file_digest
from virtoll.lab.commands import Connection, ProcessOptions
from virtoll.lab.inside import end_process, wait_until
from virtoll.lab.local_network import Network
from virtoll.lab.network import GuestNetwork, plan_links
from virtoll.lab.priority import preferred
from virtoll.lab.qemu_monitor import Monitor
from virtoll.nested.build import NestedImage
from virtoll.nested.kinds import DISK_DRIVER

FIRST_OWNER = 180  # of the links that lead to nested hosts: guests have the numbers below
SOURCES = SINKS = 3
_BOOT_SECONDS = 1200.0  # bounds a host that hangs; one that ends is noticed at once
_NICENESS = -5  # three times an ordinary program's weight: what else runs here goes on
_MTU_BYTES = 1500
_DISK_DEVICE = Path("/dev/vda")


@dataclass
class NestedMachine:
    """A host that answers over its ``connection``. ``links``: its NICs, as guests of the lab have
    them (``guest_mac`` is the NIC's); ``baked``: files that it has from the start, by their SHA-256.
    """

    image: NestedImage
    number: int
    links: GuestNetwork
    process: subprocess.Popen[bytes]
    monitor: Monitor
    console: Path
    connection: Connection
    baked: Mapping[str, Path] = field(default_factory=dict)

    def park(self) -> None:
        """Stop its virtual CPUs: it uses none of this machine's CPU time any more."""
        self.monitor.execute("stop")

    def resume(self) -> None:
        """Let it go on."""
        self.monitor.execute("cont")


@contextlib.contextmanager
def nested_machine(
    image: NestedImage, number: int, lab: LocalHost, files: Sequence[Path], network: Network, disk: Path | None = None
) -> Iterator[NestedMachine]:
    """Boot a nested host and wait until it takes commands; ``GuestError`` with the end of its console when it does not.

    ``number`` counts the nested hosts of a lab; ``files`` are those that it shall have from the start. ``disk`` is one
    that its memory could not hold: it has it as a disk, read-only, if its kind has the driver.
    """
    folder = lab.guest_folder(f"nested-{image.kind.name}")
    links = plan_links(FIRST_OWNER + number, SOURCES, _MTU_BYTES, sinks=SINKS)
    tap = f"m{number}"
    by_digest = {file_digest(path): path for path in files}
    baked = {digest: Path("/virtoll/files") / digest for digest in by_digest}
    if disk is not None and DISK_DRIVER in image.kind.modules:
        baked[file_digest(disk)] = _DISK_DEVICE
    else:
        disk = None
    key = _key(lab, folder)
    _write_root(folder / "initrd", image.root, _boot_archive(number, key, by_digest))
    with contextlib.ExitStack() as stack:
        lab.run(["ip", "tuntap", "add", "dev", tap, "mode", "tap"], "management NIC")
        stack.callback(_quietly, lambda: lab.run(["ip", "link", "del", tap], "management NIC"))
        lab.run(["ip", "address", "add", f"10.63.{number}.1/24", "dev", tap], "management NIC")
        lab.run(["ip", "link", "set", tap, "up"], "management NIC")
        stack.callback(network.remove, links)
        taps = [(tap, _management_mac(number))]
        taps += [(network.tap_port(link).interface or "", link.guest_mac) for link in links.links]
        ours, theirs = socket.socketpair()
        with theirs:
            process = lab.spawn(
                _command(image, folder, taps, theirs.fileno(), disk),
                f"nested host {image.kind.name}",
                ProcessOptions(pass_fds=(theirs.fileno(),), stderr=subprocess.PIPE),
            )
        assert process.stderr is not None
        stack.callback(process.stderr.close)
        stack.callback(end_process, process)
        monitor = Monitor(ours, f"nested host {image.kind.name}")
        stack.callback(monitor.close)
        connection = _connection(image, number, folder)
        machine = NestedMachine(
            image, number, links, process, monitor, console=folder / "console.txt", connection=connection, baked=baked
        )
        # It stays preferred: its own programs wait for each other in seconds of this machine (Xen gives a script 40).
        # Nothing that is measured on it is a result, and it is stopped while others are measured.
        stack.enter_context(preferred([process.pid], _NICENESS))
        _await_login(machine, lab)
        yield machine


def _command(
    image: NestedImage, folder: Path, taps: Sequence[tuple[str, str]], monitor: int, disk: Path | None
) -> list[str]:
    kind = image.kind
    words = f"console={kind.console} quiet net.ifnames=0 cryptomgr.notests {kind.kernel_arguments}".rstrip()
    argv = [
        *image.emulator.argv,
        "-accel",
        "tcg,thread=multi",
        "-M",
        "q35",
        "-cpu",
        kind.cpu,
        "-smp",
        str(kind.cpus),
        "-m",
        f"{kind.memory_mib}M",
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
        "-chardev",
        f"file,id=console,path={folder / 'console.txt'}",
        "-serial",
        "chardev:console",
        "-chardev",
        f"socket,id=monitor,fd={monitor}",
        "-mon",
        "chardev=monitor,mode=control",
    ]
    for device in (*kind.devices, "virtio-rng-pci"):
        argv += ["-device", device]
    if image.hypervisor is not None:
        # Multiboot: the first module is dom0's kernel with its arguments; no comma may be among them.
        modules = f"{image.kernel} {words},{folder / 'initrd'}"
        argv += ["-kernel", str(image.hypervisor), "-append", kind.hypervisor_arguments, "-initrd", modules]
    else:
        argv += ["-kernel", str(image.kernel), "-append", words, "-initrd", str(folder / "initrd")]
    for number, (tap, mac) in enumerate(taps):
        argv += ["-netdev", f"tap,id=n{number},ifname={tap},script=no,downscript=no"]
        argv += ["-device", f"virtio-net-pci,netdev=n{number},mac={mac},romfile="]
    if disk is not None:
        argv += ["-drive", f"if=none,id=image,format=raw,readonly=on,file={disk}"]
        argv += ["-device", "virtio-blk-pci,drive=image"]
    return argv


def _management_mac(number: int) -> str:
    return f"02:76:74:06:00:{number:02x}"


def _key(lab: LocalHost, folder: Path) -> str:
    """A key pair for this boot alone; the public half."""
    lab.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "virtoll", "-f", str(folder / "key")], "key")
    return (folder / "key.pub").read_text(encoding="utf-8")


def _boot_archive(number: int, key: str, files: Mapping[str, Path]) -> bytes:
    """What is unpacked over the nested host's root: address, key, and files by their SHA-256."""
    settings = f"MANAGEMENT_MAC={_management_mac(number)}\nMANAGEMENT_ADDRESS={_address(number)}/24\n"
    programs = [initramfs.program(f"virtoll/files/{digest}", path.read_bytes()) for digest, path in files.items()]
    return initramfs.write_archive(
        [
            initramfs.folder("root"),
            initramfs.folder("root/.ssh"),
            initramfs.plain_file("root/.ssh/authorized_keys", key.encode()),
            initramfs.folder("virtoll"),
            initramfs.plain_file("virtoll/boot.sh", settings.encode()),
            initramfs.folder("virtoll/files"),
            *programs,
        ]
    )


def _write_root(target: Path, root: Path, more: bytes) -> None:
    with target.open("wb") as file, root.open("rb") as source:
        shutil.copyfileobj(source, file, 1 << 20)
        file.write(bytes(-file.tell() % 512))
        file.write(more)


def _connection(image: NestedImage, number: int, folder: Path) -> Connection:
    """How its commands run, once it lets them in (``_await_login``): by its own key, each by itself.

    ``folder`` holds the host's files. A connection that commands share loses some: dropbear 2022.83 closes a channel
    that opens while another's program ends (its issue 173), and ``ssh`` then ends with 255 and without a word. At most
    five may log in at one time.
    """
    ssh = ssh_command(
        f"IdentityFile={folder / 'key'}",
        "IdentitiesOnly=yes",
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "LogLevel=ERROR",
        "HostKeyAlgorithms=ssh-ed25519",
        "ControlPath=none",
        connect_seconds=60,
        configuration=Path("/dev/null"),
    )
    return Connection(f"nested {image.kind.name}", (*ssh, f"root@{_address(number)}", "--"), quoted=True)


def _address(number: int) -> str:
    return f"10.63.{number}.2"


def _await_login(machine: NestedMachine, lab: LocalHost) -> None:
    """Wait for the SSH server, and see that it lets a command in."""
    address, kind = _address(machine.number), machine.image.kind.name
    _await(machine, lambda: _answers(address), "its SSH server")
    try:
        lab.run([*machine.connection.prefix, "true"], f"login to nested host {kind}", _BOOT_SECONDS)
    except GuestError as error:
        raise GuestError(f"nested host {kind}: the login failed: {error}") from error


def _await(machine: NestedMachine, condition: object, awaited: str) -> None:
    """Until it holds; with the end of the console when the machine ends or takes too long."""
    assert callable(condition)
    who = f"nested host {machine.image.kind.name}"
    try:
        wait_until(lambda: condition() or machine.process.poll() is not None, _BOOT_SECONDS, awaited)
        if machine.process.poll() is not None:
            raise GuestError("QEMU ended")
    except GuestError as error:
        ended = machine.process.poll() is not None
        assert machine.process.stderr is not None
        complaints = machine.process.stderr.read() if ended else b""
        console = machine.console.read_bytes() if machine.console.exists() else b""
        text = (console + complaints).decode(errors="replace")
        last = [line.strip() for line in text.splitlines() if line.strip()][-3:]
        raise GuestError(f"{who} did not come up: {error}; it said last: {' / '.join(last) or 'nothing'}") from error


def _answers(address: str) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, 22), timeout=1.0) as connection:
        connection.settimeout(10.0)
        return connection.recv(4) == b"SSH-"
    return False


def _quietly(action: object) -> None:
    assert callable(action)
    with contextlib.suppress(GuestError):
        action()
