"""Where models are started: a host that runs nothing, without an image, a network or a peer.

Main function: ``model_site``. A run whose platforms are all models has this site and needs neither root nor a lab.
"""

from __future__ import annotations

import socket
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from virtoll.agent.client import Answer, ChannelMark
from virtoll.errors import GuestError
from virtoll.image import GuestImage, GuestKernel
from virtoll.lab.attachments import Port, Way
from virtoll.lab.cgroups import Group, Limits
from virtoll.lab.network import GuestNetwork, Link
from virtoll.platforms.host import Site

_NOWHERE = Path("/nonexistent")
_NO_IMAGE = GuestImage(
    name="none",
    digest="none",
    root=_NOWHERE,
    initramfs=_NOWHERE,
    kernel=GuestKernel(
        package="none", version="none", sha256="none", release="none", vmlinuz=_NOWHERE, vmlinux=None, modules=()
    ),
    agent=_NOWHERE,
    agent_sha256="",
)


def _refuse() -> NoReturn:
    raise GuestError("a model has no host: nothing can be run there; add a platform that is real")


class ModelHost:
    """A ``GuestHost`` that refuses everything."""

    scratch = _NOWHERE
    name = "a model"
    lab_id = "virtoll-000000000000"
    remote = False
    is_root = False
    cgroup = None

    def run(self, argv: Sequence[str], role: str, deadline_seconds: float = 30.0, stdin: bytes | None = None) -> str:
        """Refused."""
        del argv, role, deadline_seconds, stdin
        _refuse()

    def spawn(
        self,
        argv: Sequence[str],
        role: str,
        *,
        cpus: Sequence[int] = (),
        group: Group | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
        stderr: int = subprocess.DEVNULL,
        pass_fds: Sequence[int] = (),
    ) -> subprocess.Popen[bytes]:
        """Refused."""
        del argv, role, cpus, group, stdin, stdout, stderr, pass_fds
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

    def group(self, name: str, limits: Limits) -> Group | None:
        """Refused."""
        del name, limits
        _refuse()

    def put(self, path: Path) -> Path:
        """Refused."""
        del path
        _refuse()

    def nameless_copy(self, path: Path) -> int:
        """Refused."""
        del path
        _refuse()

    def guest_folder(self, name: str) -> Path:
        """Refused."""
        del name
        _refuse()


class ModelNetwork:
    """A ``HostNetwork`` without a link: a model's frames are numbers."""

    def host_port(self, link: Link) -> None:
        """Nothing to make."""
        del link

    def tap_port(self, link: Link, device: str | None = None) -> Port:
        """Refused."""
        del link, device
        _refuse()

    def raw_port(self, link: Link) -> str:
        """Refused."""
        del link
        _refuse()

    def namespace_port(self, link: Link, pid: int) -> None:
        """Refused."""
        del link, pid
        _refuse()

    def bridge_port(self, link: Link, port: str | None = None) -> str:
        """Refused."""
        del link, port
        _refuse()

    def ways(self, network: GuestNetwork) -> dict[str, Way]:
        """No interface of any host is on a model's links."""
        del network
        return {}

    def reach(self, network: GuestNetwork) -> GuestNetwork:
        """The links as they were planned."""
        return network

    def remove(self, network: GuestNetwork) -> None:
        """Nothing was made."""
        del network

    def back_to_back(self, names: tuple[str, str], macs: tuple[str, str], mtu_bytes: int) -> None:
        """Refused."""
        del names, macs, mtu_bytes
        _refuse()


class ModelPeer:
    """The network peer of a site without a network: it never ends, and each model brings a peer of its own."""

    ended = False

    def __init__(self) -> None:
        """No mark was ever sent."""
        self.channel_marks: deque[ChannelMark] = deque()

    def call(self, op: str, deadline_seconds: float = 60.0, **fields: Any) -> Answer:
        """Refused."""
        del op, deadline_seconds, fields
        _refuse()

    def close(self) -> None:
        """Nothing is open."""


def model_site() -> Site:
    """The site of a run of models alone."""
    return Site(ModelHost(), _NO_IMAGE, ModelPeer(), ModelNetwork(), is_model=True)
