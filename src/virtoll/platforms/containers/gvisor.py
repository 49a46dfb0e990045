"""gVisor: a container whose kernel is a program, run by the OCI runtime runsc with the network stack of its own.

``runsc`` reads addresses, routes and permanent neighbours from the network namespace that it is given, once, at its
start, and takes the addresses off; so the links are moved in and set up before. Inside, netlink sets addresses but no
neighbours. It is parked by ``runsc pause``: gVisor itself uses SIGSTOP to hold the processes that the guest's code runs
in, and must not be given it from outside. Sources: ``runsc/sandbox/network.go``, ``pkg/sentry/platform/systrap`` and
``runsc flags`` of the pinned version.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

from virtoll.errors import GuestError
from virtoll.hosts.base import LocalHost
from virtoll.image.third_party import find_runsc
from virtoll.lab.network import GuestNetwork
from virtoll.platforms.attachment import Attached
from virtoll.platforms.base import GuestRequest, Probe
from virtoll.platforms.containers.guest import AGENT, NamespacedGuest, held_namespace
from virtoll.platforms.containers.oci import OciPlatform, oci_configuration, write_bundle
from virtoll.platforms.host import Site


class GVisorParameters(Attached):
    """``gvisor_platform``: how system calls reach gVisor's kernel, by seccomp's traps or by ptrace."""

    gvisor_platform: Literal["systrap", "ptrace"] = "systrap"


class GVisor(OciPlatform[GVisorParameters]):
    """gVisor's runsc."""

    name: ClassVar[str] = "runsc"
    packages: ClassVar[tuple[str, ...]] = ("runsc",)
    title: ClassVar[str] = "container by gVisor's runsc, whose kernel and network stack are a program"
    runtime = "runsc"
    parameter_model = GVisorParameters
    boot_seconds: ClassVar[float] = 1.0
    slowdown: ClassVar[float] = 3.0
    lacks: ClassVar[Mapping[str, str]] = {
        "io-uring": "its kernel answers io_uring_setup with ENOSYS unless runsc is told otherwise",
        "direct-io": "its kernel takes O_DIRECT and goes through its page cache all the same",
    }

    def start(self, request: GuestRequest, site: Site) -> NamespacedGuest:
        """Set the links up in a namespace that is held, then run the container in it."""
        network = site.network
        with contextlib.ExitStack() as held:
            # runsc takes a group that is there as it is, and counts the guest's CPUs and memory by its limits. One
            # that it makes itself it cannot give CPUs to while the lab's own has none.
            if (group := site.this_machine.group(request.name, request.limits(memory=True))) is not None:
                held.callback(group.remove)
            held.callback(network.remove, request.network)
            holder = held.enter_context(held_namespace(site, f"guest {request.name}"))
            for link in request.network.links:
                site.local_ports.namespace_port(link, holder)
            folder = site.this_machine.guest_folder(f"{request.name}-network")
            _set_up(site.this_machine, folder, holder, request.network, request.name)
            configuration = oci_configuration(site, AGENT, request, namespace=f"/proc/{holder}/ns/net")
            guest, _ = self._run(request, site, configuration, [held.pop_all().close])
        runtime, container = self._command(site), request.file_name

        def pause(wanted: bool) -> None:
            site.host.run([*runtime, "pause" if wanted else "resume", container], f"guest {request.name}")

        guest.paused = pause
        return guest

    def probe(self, site: Site) -> Probe:
        """Run a container with a network of its own, because that is what versions differ in."""
        try:
            version = site.host.run([self._binary(), "--version"], "probe").splitlines()[0].replace(" version", "")
        except GuestError as error:
            return Probe(False, None, f"{error}: {self._remedy()}")
        folder = site.host.guest_folder("probe")
        try:
            with held_namespace(site, "probe") as holder:
                configuration = oci_configuration(
                    site, ["/init", "--version"], None, namespace=f"/proc/{holder}/ns/net"
                )
                write_bundle(folder, configuration)
                site.host.run([*self._command(site), "run", "--bundle", str(folder), folder.name], "probe")
        except GuestError as error:
            return Probe(False, version, f"{version} does not start a container here: {error}; {self._remedy()}")
        return Probe(True, version, None)

    def _binary(self) -> str:
        """The one of the cache; else what PATH finds."""
        return str(find_runsc() or self.runtime)

    def _remedy(self) -> str:
        return "'make platforms' builds a version of it that works"

    def _command(self, site: Site) -> list[str]:
        """Marks are prepared frames on a packet socket, hence the two flags that let the guest write to one.

        Without overlay the root is the image's, read-only, as everywhere; the overlay would be in gVisor's memory.
        """
        rootless = [] if site.host.is_root else ["--ignore-cgroups"]
        flags = [f"--platform={self.parameters.gvisor_platform}", "--network=sandbox", "--overlay2=none"]
        raw = ["--net-raw", "--allow-packet-socket-write"]
        return [self._binary(), "--root", str(site.host.scratch / self.runtime), *flags, *raw, *rootless]


def _set_up(lab: LocalHost, folder: Path, holder: int, network: GuestNetwork, name: str) -> None:
    """Addresses and neighbours of the guest's links, in the namespace that process ``holder`` is in."""
    lines = ["link set dev lo up"]
    for link in network.links:
        # Passed through is the lab's own end; what the guest writes as the next hop may be its router's address.
        port = link.lab_interface if link.attachment == "passthrough" else link.port_interface
        lines += [
            f"link set dev {port} up",
            f"address add {link.guest_address}/24 dev {port}",
            f"neighbour replace {link.peer_address} lladdr {link.guest_next_hop_mac} nud permanent dev {port}",
        ]
    batch = folder / "network.txt"
    batch.write_text("\n".join(lines) + "\n", encoding="utf-8")
    lab.run(["nsenter", f"--net=/proc/{holder}/ns/net", "--", "ip", "-batch", str(batch)], f"guest {name}")
