"""Where models are started: a host that runs nothing, without an image, a network or a peer.

Main function: ``model_site``. A run whose platforms are all models has this site and needs neither root nor a lab.
"""

from __future__ import annotations

import socket
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from virtoll.agent.client import AgentModel, ChannelMark
from virtoll.agent.request import Request
from virtoll.errors import GuestError
from virtoll.image import GuestImage
from virtoll.lab.attachments import EndpointInterfaces, Port
from virtoll.lab.commands import PLAIN, RUN_SECONDS, Connection, ProcessOptions
from virtoll.lab.data import DataBy, DataVolume
from virtoll.lab.network import GuestNetwork, Link
from virtoll.platforms.host import Site
from virtoll.runfolder.record import Record

_NOWHERE = Path("/nonexistent")
_NO_IMAGE = GuestImage(name="none", digest="none", root=_NOWHERE, agent=_NOWHERE, agent_sha256="")


def _refuse() -> NoReturn:
    raise GuestError("a model has no host: nothing can be run there; add a platform that is real")


class ModelHost:
    """A ``GuestHost`` that refuses everything."""

    scratch = _NOWHERE
    name = "a model"
    lab_id = "virtoll-000000000000"
    is_root = False
    local = None
    connection = Connection(name)

    def run(
        self, argv: Sequence[str], role: str, deadline_seconds: float = RUN_SECONDS, stdin: bytes | None = None
    ) -> str:
        """Refused."""
        del argv, role, deadline_seconds, stdin
        _refuse()

    def spawn(self, argv: Sequence[str], role: str, options: ProcessOptions = PLAIN) -> subprocess.Popen[bytes]:
        """Refused."""
        del argv, role, options
        _refuse()

    def connect(self, path: Path, who: str, deadline_seconds: float = 10.0) -> socket.socket:
        """Refused."""
        del path, who, deadline_seconds
        _refuse()

    def read(self, path: Path) -> bytes:
        """Refused."""
        del path
        _refuse()

    def write(self, path: Path, content: bytes) -> None:
        """Refused."""
        del path, content
        _refuse()

    def guard(self, argv: Sequence[str]) -> Callable[[], None]:
        """Refused."""
        del argv
        _refuse()

    def put(self, path: Path) -> Path:
        """Refused."""
        del path
        _refuse()

    def guest_folder(self, name: str) -> Path:
        """Refused."""
        del name
        _refuse()

    def data_volume(self, by: DataBy, size_bytes: int, promised_bytes: int = 0) -> DataVolume:
        """Refused."""
        del by, size_bytes, promised_bytes
        _refuse()


class ModelNetwork:
    """``Links`` that are none: a model's frames are numbers."""

    local = None
    shapable = None

    def tap_port(self, link: Link, device: str | None = None, *, several_queues: bool = False) -> Port:
        """Refused."""
        del link, device, several_queues
        _refuse()

    def bridge_port(self, link: Link, port: str | None = None) -> str:
        """Refused."""
        del link, port
        _refuse()

    def endpoint_interfaces(self, network: GuestNetwork) -> dict[str, EndpointInterfaces]:
        """No interface of any host is on a model's links."""
        del network
        return {}

    def reach(self, network: GuestNetwork, *, neighbour: int = 0) -> GuestNetwork:
        """The links as they were planned."""
        del neighbour
        return network

    def remove(self, network: GuestNetwork) -> None:
        """Nothing was made."""
        del network


class ModelPeer(AgentModel):
    """The network peer of a site without a network: it never ends, and each model brings a peer of its own."""

    def __init__(self) -> None:
        """No mark was ever sent."""
        self.channel_marks: deque[ChannelMark] = deque()
        self.ended = False

    def answer(self, request: Request[Record]) -> Record:
        """Refused."""
        del request
        _refuse()


def model_site() -> Site:
    """The site of a run of models alone."""
    return Site(ModelHost(), _NO_IMAGE, ModelPeer(), ModelNetwork(), is_model=True)
