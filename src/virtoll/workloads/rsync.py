"""rsync of a source tree and of one large file over the network (Camargos et al. 2008, Figure 8).

The paper's client pulled from an rsync daemon: ``rsync -av server::kernel /var/tmp`` (23 741 files, 294 MB) and the
image of an installation disc (433 MB). The client is the guest's rsync, between its marks, and the daemon of the same
image runs at the other end; or the client is the peer's, timed where it runs, and the guest's is the daemon. All files
lie in memory (/tmp), unless one end's are asked for on a disk. They are unpacked once a run beside the peer, and each
trial's sender is given fresh copies of them, untimed.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import ByteSize, Field, ValidationInfo, field_validator

from virtoll.agent.client import Caller
from virtoll.errors import GuestCannot
from virtoll.experiment.model import Image
from virtoll.runfolder.records import duration_ns
from virtoll.workloads.base import DURATION, Bench, Figures, Measurement, Metric, Needs, compared
from virtoll.workloads.network_path import FarEnd, NetworkWorkload, PathParameters, far_end
from virtoll.workloads.packed import ARCHIVE, BLOCK_BYTES, KERNEL_SOURCE, make_packed
from virtoll.workloads.programs import (
    ListeningPort,
    gone_afterwards,
    run,
    serving,
    time_program,
    time_program_outside,
    write,
)

_HOME = "/tmp"  # noqa: S108 - in the guest's or the peer's own, where nobody else is
_MADE = f"{_HOME}/virtoll-rsync-source"
_SENT_NAME, _RECEIVED_NAME = "virtoll-rsync-sent", "virtoll-rsync-received"
_SENT, _RECEIVED = f"{_HOME}/{_SENT_NAME}", f"{_HOME}/{_RECEIVED_NAME}"
_CONFIGURATION = f"{_HOME}/virtoll-rsyncd.conf"
_LOG = f"{_HOME}/virtoll-rsyncd.log"
_PORT = 8730
_READY_SECONDS = 30.0
_UNPACK_SECONDS = 600.0
_PROGRAM_BYTES = 96 * 2**20
_NATIVE_BYTES_PER_SECOND, _NATIVE_FILES_PER_SECOND = 3e8, 2e4
_REGISTERS = "drivers/gpu/drm/amd/include/asic_reg"  # few and large files
_PAPER = 23_842, 293_691_000  # Camargos had 23 741 files of 294 MB
_TREES: dict[str, tuple[tuple[str, ...], int, int]] = {
    # Name: folders of the source (none: all of it), about how many files, and about how many bytes.
    "small": (("lib",), 536, 6_679_824),
    "paper": (
        ("arch", "include", "kernel", "lib", *(f"{_REGISTERS}/{part}" for part in ("bif", "dcn", "gca"))),
        *_PAPER,
    ),
    "whole": ((), 78_669, 1_250_000_000),
}


class RsyncParameters(PathParameters):
    """``direction``: of the files. ``client``: whose rsync opens the connection; the other end's is the daemon.

    ``files``: where the guest's lie: in its memory, or in its data directory, where what it sends is cold.
    ``peer_files``: where the peer's lie: in memory, or on this machine's disk, likewise.
    """

    direction: Literal["to-guest", "from-guest"] = Field(default="to-guest", description="which way the files go")
    client: Literal["guest", "peer"] = Field(
        default="guest", description="whose rsync opens the connection; the other end's is the daemon"
    )
    files: Literal["memory", "disk"] = Field(
        default="memory", description="where the guest's files are: in its memory, or in its data directory"
    )
    peer_files: Literal["memory", "disk"] = Field(
        default="memory", description="where the peer's files are: in memory, or on this machine's disk"
    )

    @field_validator("client", "files", "peer_files")
    @classmethod
    def _has_a_peer(cls, value: str, information: ValidationInfo) -> str:
        if information.data.get("between") == "guests":
            if value == "disk":
                raise ValueError("disk is for 'between: peer' alone: a second guest's data directory is not emptied")
            if value == "peer":
                raise ValueError("peer is for 'between: peer' alone: between guests a guest opens the connection")
        return value

    @property
    def pulls(self) -> bool:
        """Whether the guest is the receiver."""
        return self.direction == "to-guest"


class RsyncTreeParameters(RsyncParameters):
    """``tree``: ``small``: the source's lib (536 files); ``paper``: as many files and bytes as the paper had."""

    tree: Literal["small", "paper", "whole"] = Field(
        default="small", description="small: the kernel source's lib; paper: as many files and bytes as the paper had"
    )


class RsyncFileParameters(RsyncParameters):
    """``size_bytes``: quick 32 MiB, a multiple of 64 KiB; the paper's file had 433 MB."""

    size_bytes: ByteSize = Field(
        default=ByteSize(32 * 2**20),
        ge=BLOCK_BYTES,
        le=2**34,
        multiple_of=BLOCK_BYTES,
        description="size of the file; the paper's had 433 MB",
    )


@dataclass(frozen=True)
class Listing:
    """What rsync counts in a folder: regular files and their bytes."""

    files: int
    bytes: int

    def __str__(self) -> str:
        """As the check value."""
        return f"{self.files} files of {self.bytes} bytes"


Rsync_co = TypeVar("Rsync_co", bound=RsyncParameters, covariant=True)


class _Rsync(NetworkWorkload[Rsync_co]):
    """What both share: the sender is made ready, the guest's rsync is timed, and the receiver is compared with it."""

    metrics: ClassVar[tuple[Metric, ...]] = (DURATION, Metric("throughput", "Mbit/s", "higher", "figures"))
    image: ClassVar[Image] = "full"
    packages: ClassVar[tuple[str, ...]] = ("rsync", "xz-utils", KERNEL_SOURCE)

    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """About how many files and bytes: for estimates, deadlines and needs only."""

    @abstractmethod
    def make(self, maker: Caller) -> str:
        """Make the files beside the peer, if they are not there; their folder."""

    def needs(self) -> Needs:
        """Files in memory, of which a machine's /tmp is at most half, or on a disk."""
        files, size = self.sizes()
        taken = size + files * 4096
        needs = replace(super().needs(), peer_data_bytes=taken if self.parameters.peer_files == "disk" else 0)
        if self.parameters.files == "disk":
            return replace(needs, memory_bytes=_PROGRAM_BYTES, data_bytes=taken)
        return replace(needs, memory_bytes=2 * taken + _PROGRAM_BYTES, data_bytes=0)

    def native_seconds(self) -> float:
        """About how long it takes on a bare host, in seconds: for estimates and deadlines only."""
        files, size = self.sizes()
        return 0.1 + files / _NATIVE_FILES_PER_SECOND + self.parameters.transfer_seconds(size, _NATIVE_BYTES_PER_SECOND)

    def estimate_seconds(self, slowdown: float) -> float:
        """Timed once, and as much for what is made ready and compared."""
        return 0.5 + 3 * self.native_seconds() * slowdown

    def measure(self, bench: Bench) -> Measurement:
        """Make ready, time the client's rsync, compare both ends."""
        parameters = self.parameters
        seconds = 60.0 + 300.0 * self.native_seconds()
        maker = bench.programs
        if maker is None:
            raise GuestCannot(
                "its files are made by the network peer, which is on another host, where the image is not; reach it "
                "by SSH ('testbed.generator'), or take this workload out"
            )
        folder = self.make(maker)
        with self._home_of_peer(bench) as home, far_end(bench, parameters) as end:
            received = f"{home}/{_RECEIVED_NAME}"
            if parameters.pulls and home != _HOME:
                copy = f"{home}/{_SENT_NAME}"
                run(maker, ["cp", "--archive", folder, copy], seconds)
                folder = copy
            with daemon(maker, folder, received):
                if end.far is None:
                    return self._between(bench, end, folder, received)
                with gone_afterwards(end.agent, _SENT, seconds=seconds):
                    if parameters.pulls:
                        pull(end.agent, end.far, _SENT, seconds)
                    with daemon(end.agent, _SENT):
                        return self._between(bench, end, _SENT, received)

    @contextlib.contextmanager
    def _home_of_peer(self, bench: Bench) -> Iterator[str]:
        """Where the peer's files lie; a folder on a disk is empty before and after."""
        if self.parameters.peer_files == "memory":
            yield _HOME
            return
        if bench.peer_files is None:
            raise GuestCannot("the peer has no disk for its files here; leave 'peer_files' out")
        yield bench.peer_files.empty().path
        bench.peer_files.empty()

    def _between(self, bench: Bench, end: FarEnd, folder: str, other_received: str) -> Measurement:
        """One transfer; ``folder`` is what the other end sends from, ``other_received`` where it receives."""
        other, guest, parameters = end.require_programs(), bench.guest, self.parameters
        seconds, pulls = 60.0 + 300.0 * self.native_seconds(), parameters.pulls
        home = bench.data.path if parameters.files == "disk" else _HOME
        sent = folder if pulls else f"{home}/{_SENT_NAME}"
        received = f"{home}/{_RECEIVED_NAME}" if pulls else other_received
        sender, receiver = (other, guest) if pulls else (guest, other)
        run(receiver, ["rm", "-rf", received], seconds)
        with contextlib.ExitStack() as stack:
            stack.enter_context(gone_afterwards(receiver, received, seconds=seconds))
            if not pulls:
                stack.enter_context(gone_afterwards(guest, sent, seconds=seconds))
                pull(guest, end.near, sent, seconds)
            client, address = guest, end.address
            if parameters.client == "peer":
                client, address = other, bench.network.sources[0].guest_address
                stack.enter_context(daemon(guest, sent, received))
            if client is receiver:
                ends = (_module(address, "sent"), f"{received}/")
            else:
                run(receiver, ["mkdir", received])
                ends = (f"{sent}/", _module(address, "received"))
            states = self._settled(bench)
            argv = ["rsync", "--archive", "--stats", *ends]
            if client is guest:
                timed, program, problem = time_program(bench, argv, seconds)
            else:
                timed, program, problem = time_program_outside(bench, client, argv, seconds)
            result: dict[str, Any] = {
                "argv": argv,
                "status": program.status,
                "output": program.output,
                "complaints": program.complaints,
                "shaped_by": end.shaped_by,
                "figures": None,
                **states,
            }
            if problem is not None:
                return Measurement(timed.clock, result, None, None, problem)
            try:
                figures = parse(program.output)
            except ValueError as error:
                return Measurement(timed.clock, result, None, None, f"what rsync printed cannot be read: {error}")
            took_ns = duration_ns(timed.clock)
            if took_ns is not None and took_ns > 0:
                figures["throughput"] = 8e3 * figures["file_bytes"] / took_ns
            result["figures"] = figures
            expected = f"{listing(sender, sent, seconds)}, differing: 0"
            files = listing(receiver, received, seconds)
            # With --checksum both ends read every file again and compare hashes, not times and sizes.
            again = ["rsync", "--archive", "--checksum", "--dry-run", "--itemize-changes", *ends]
            value = f"{files}, differing: {len(run(client, again, seconds).splitlines())}"
        check, problem = compared(value, expected, timed.problem)
        return Measurement(timed.clock, result, check, None, problem)

    def _settled(self, bench: Bench) -> dict[str, Any]:
        """What is on a disk is written there and in no page cache; the states, for the record."""
        states: dict[str, Any] = {}
        if self.parameters.files == "disk":
            states["state"] = bench.data_state(True)
        if self.parameters.peer_files == "disk" and bench.peer_files is not None:
            states["peer_state"] = bench.peer_files.state(True)
        return states


class RsyncTree(_Rsync[RsyncTreeParameters]):
    """Many small files; the check value is their number and size at the receiving end, and how many differ."""

    name: ClassVar[str] = "rsync-tree"
    title: ClassVar[str] = "rsync of a source tree"
    about: ClassVar[str] = "many small files moved by rsync"
    origin: ClassVar[str] = "Camargos 2008"
    parameter_model = RsyncTreeParameters

    def sizes(self) -> tuple[int, int]:
        """As counted once."""
        _, files, size = _TREES[self.parameters.tree]
        return files, size

    def make(self, maker: Caller) -> str:
        """Unpack the folders; once a run, since the archive is read from its beginning to its end."""
        tree = self.parameters.tree
        folder = f"{_MADE}/tree-{tree}"
        folders, _, _ = _TREES[tree]
        if not there(maker, f"{folder}.made"):
            run(maker, ["mkdir", "-p", folder])
            members = [f"{KERNEL_SOURCE}/{name}" for name in folders] or [KERNEL_SOURCE]
            archive = ["tar", "--extract", "--file", ARCHIVE, "--directory", folder, "--no-same-owner"]
            run(maker, [*archive, *members], _UNPACK_SECONDS)
            run(maker, ["touch", f"{folder}.made"])
        return folder


class RsyncFile(_Rsync[RsyncFileParameters]):
    """One large file of packed data."""

    name: ClassVar[str] = "rsync-file"
    title: ClassVar[str] = "rsync of a large file"
    about: ClassVar[str] = "one large file moved by rsync"
    origin: ClassVar[str] = "Camargos 2008"
    parameter_model = RsyncFileParameters

    def sizes(self) -> tuple[int, int]:
        """One file."""
        return 1, int(self.parameters.size_bytes)

    def make(self, maker: Caller) -> str:
        """Once a run."""
        size = int(self.parameters.size_bytes)
        folder = f"{_MADE}/file-{size}"
        if not there(maker, f"{folder}.made"):
            run(maker, ["mkdir", "-p", folder])
            run(maker, ["rm", "-f", f"{folder}/file"])
            make_packed(maker, f"{folder}/file", size, _UNPACK_SECONDS)
            run(maker, ["touch", f"{folder}.made"])
        return folder


def there(agent: Caller, path: str) -> bool:
    """Whether a path in /tmp, or one below it, is there."""
    return run(agent, ["find", _HOME, "-maxdepth", "2", "-path", path, "-printf", "x"]) == "x"


def _module(address: str, name: str) -> str:
    return f"rsync://{address}:{_PORT}/{name}/"


def pull(agent: Caller, address: str, into: str, seconds: float) -> None:
    """A fresh copy of what the daemon at ``address`` sends."""
    run(agent, ["rm", "-rf", into], seconds)
    fetch(agent, address, into, seconds)


def fetch(agent: Caller, address: str, into: str, seconds: float) -> None:
    """What the daemon at ``address`` sends, besides what is there."""
    run(agent, ["rsync", "--archive", _module(address, "sent"), f"{into}/"], seconds)


def configuration(folder: str, received: str) -> str:
    """The daemon's: a module to read from and one to write to, by nobody's name and without a look-up of names."""
    return "\n".join(
        [
            "use chroot = no",
            "reverse lookup = no",
            "uid = 0",
            "gid = 0",
            "max connections = 4",
            "[sent]",
            f"path = {folder}",
            "read only = yes",
            "[received]",
            f"path = {received}",
            "read only = no",
            "",
        ]
    )


@contextlib.contextmanager
def daemon(agent: Caller, folder: str, received: str = _RECEIVED) -> Iterator[None]:
    """An rsync daemon beside ``agent`` for the length of the context: it sends ``folder``, and takes ``received``."""
    write(agent, _CONFIGURATION, configuration(folder, received))
    argv = ["rsync", "--daemon", "--no-detach", f"--config={_CONFIGURATION}", f"--port={_PORT}", "--ipv4"]
    with serving(agent, argv, _LOG, ListeningPort("tcp", _PORT).listening(), _READY_SECONDS):
        yield


def listing(agent: Caller, folder: str, seconds: float) -> Listing:
    """Files and bytes below a folder, as rsync counts them without sending anything."""
    return _listed(run(agent, ["rsync", "--archive", "--dry-run", "--stats", f"{folder}/", "/nowhere/"], seconds))


def _listed(output: str) -> Listing:
    figures = parse(output)
    return Listing(figures["files"], figures["file_bytes"])


def parse(output: str) -> Figures:
    """What ``rsync --stats`` says; ValueError where a line is missing.

    ``Number of files: 574 (reg: 537, dir: 37)``, ``Total file size: 9,123,456 bytes``, ``Total bytes received: 9,401``.
    """
    lines = dict(line.split(": ", 1) for line in output.splitlines() if ": " in line)

    def number(text: str) -> int:
        return int(text.split(maxsplit=1)[0].rstrip(",)").replace(",", ""))

    try:
        kinds = lines["Number of files"].partition("reg: ")[2]
        return {
            "files": number(kinds) if kinds else 0,
            "file_bytes": number(lines["Total file size"]),
            "files_transferred": number(lines["Number of regular files transferred"]),
            "wire_bytes_sent": number(lines["Total bytes sent"]),
            "wire_bytes_received": number(lines["Total bytes received"]),
        }
    except KeyError as error:
        raise ValueError(f"no line {error}") from error
