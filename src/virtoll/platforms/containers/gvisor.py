"""gVisor: a container whose kernel is a program, run by the OCI runtime runsc with the network stack of its own.

It takes the addresses off the interfaces of the namespace that it is given. Inside, netlink sets addresses but no
neighbours. It is parked by ``runsc pause``. gVisor itself uses SIGSTOP to hold the processes that the guest's code runs
in, and must not be given it from outside. Sources: ``runsc/sandbox/network.go``, ``pkg/sentry/platform/systrap`` and
``runsc flags`` of the pinned version.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from virtoll.errors import remedy_for
from virtoll.image.third_party import find_runsc
from virtoll.platforms.containers.prepared_network import PreparedNetworkPlatform
from virtoll.platforms.host import Site
from virtoll.platforms.limits import Limited


class GVisorParameters(Limited):
    """``gvisor_platform``: how system calls reach gVisor's kernel, by seccomp's traps or by ptrace."""

    gvisor_platform: Literal["systrap", "ptrace"] = Field(
        default="systrap", description="how system calls reach gVisor's kernel"
    )


class GVisor(PreparedNetworkPlatform[GVisorParameters]):
    """gVisor's runsc."""

    name: ClassVar[str] = "runsc"
    family: ClassVar[str] = "application kernel"
    packages: ClassVar[tuple[str, ...]] = ("runsc",)
    title: ClassVar[str] = "container by gVisor's runsc, whose kernel and network stack are a program"
    remedy: ClassVar[str] = f"{remedy_for('platforms')} builds a version of it that works"
    runtime = "runsc"
    parameter_model = GVisorParameters
    boot_seconds: ClassVar[float] = 1.0
    slowdown: ClassVar[float] = 3.0
    kernel_slowdown: ClassVar[float] = 12.0
    lacks: ClassVar[Mapping[str, str]] = {
        "io-uring": "its kernel answers io_uring_setup with ENOSYS unless runsc's options say otherwise",
        "direct-io": "its kernel takes O_DIRECT and goes through its page cache all the same",
    }

    def find_program(self, name: str) -> Path | None:
        """The one of the cache; else what PATH finds."""
        return find_runsc() or super().find_program(name)

    def _binary(self, site: Site) -> str:
        """Another build of it where there is one here; else the one of the cache; else what PATH finds."""
        return str(site.builds.get(self.runtime) or find_runsc() or self.runtime)

    def _command(self, site: Site) -> list[str]:
        """Marks are prepared frames on a packet socket, hence the two flags that let the guest write to one.

        Without overlay the root is the image's, read-only, as everywhere; the overlay would be in gVisor's memory.
        """
        rootless = [] if site.host.is_root else ["--ignore-cgroups"]
        flags = [f"--platform={self.parameters.gvisor_platform}", "--network=sandbox", "--overlay2=none"]
        raw = ["--net-raw", "--allow-packet-socket-write"]
        return [self._binary(site), "--root", str(site.host.scratch / self.runtime), *flags, *raw, *rootless]
