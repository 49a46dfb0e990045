"""Real guests for tests inside a lab: one of each kind that starts here, connected as a run connects it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.support import machine

from virtoll.experiment import PlatformChoice
from virtoll.fleet import await_path, choose_pinning
from virtoll.ground import Ground, open_ground
from virtoll.hops import HopReader
from virtoll.lab.network import plan_links
from virtoll.platforms import PLATFORMS
from virtoll.platforms.base import AgentGuest, GuestRequest, Platform, Site, network_request, peer_request
from virtoll.progress import SilentProgress
from virtoll.run import make_platform
from virtoll.timekeeper import Timekeeper
from virtoll.workloads.base import Bench


@dataclass(frozen=True)
class Kind:
    """A kind of guest that starts on a host without KVM: its platform, its parameters, and what is known of it.

    ``kernel``: whose kernel it says it has: the host's, the image's, or another. ``slow``: instructions are translated.
    ``bounded``: it dies when it uses more memory than it was given. ``grouped``: it is in a cgroup below the lab's.
    ``variant``: differs from another kind in a device alone, so that what does not depend on it is not tried twice.
    """

    platform: str
    parameters: dict[str, Any] = field(default_factory=dict)
    kernel: Literal["host", "image", "other"] = "host"
    attachment: str = "bridge"
    slow: bool = False
    bounded: bool = True
    grouped: bool = False
    variant: bool = False


KINDS: dict[str, Kind] = {
    "native": Kind("native", attachment="veth", bounded=False),
    "native-again": Kind("native-again", attachment="veth", bounded=False, variant=True),
    "netns": Kind("netns", bounded=False),
    "netns-cgroup": Kind("netns", {"limits": "cgroup"}, grouped=True),
    "runc": Kind("runc", grouped=True),
    "podman": Kind("podman", grouped=True),
    "podman-crun": Kind("podman", {"runtime": "crun"}, grouped=True),
    "docker": Kind("docker", grouped=True),
    "uml-raw": Kind("uml", kernel="other"),
    "uml-tap": Kind("uml", {"transport": "tap"}, kernel="other", variant=True),
    "qemu-tcg": Kind("qemu-tcg", {"nic": "virtio-net"}, kernel="image", slow=True),
    "qemu-tcg-e1000": Kind("qemu-tcg", {"nic": "e1000"}, kernel="image", slow=True, variant=True),
    "qemu-tcg-serial": Kind("qemu-tcg", {"channel": "serial"}, kernel="image", slow=True, variant=True),
}
# A machine's kernel keeps some fifty MiB for itself: of less, the guest would see too small a part.
MEMORY_BYTES = 256 * 2**20
_numbers = itertools.count()


@dataclass
class Connected:
    """A guest with its network up, and what a workload is given."""

    name: str
    guest: AgentGuest
    bench: Bench
    site: Site
    wanted: GuestRequest

    @property
    def kind(self) -> Kind:
        """What is known of its kind."""
        return KINDS[self.name]

    def processes(self) -> machine.Family:
        """Its processes on this host; an engine's are not below the process that asked it."""
        return machine.family(self.guest.process.pid, *filter(None, [self.guest.inner_group]))

    def agent_process(self) -> machine.Process:
        """What is to be killed so that the guest is dead: its agent, or where that is no process here, its first."""
        family = self.processes()
        # By its number: the command lines of those that start it name the agent as well.
        return family.find(inner_pid=1) or family.find("/init", "--seat") or family.processes[0]

    def cpu_ticks(self) -> int:
        """CPU time that its processes have used."""
        fields = [
            Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            for process in self.processes().processes
        ]
        return sum(int(words[11]) + int(words[12]) for words in fields)


@contextlib.contextmanager
def ground() -> Iterator[Ground]:
    """The lab's ground with busybox in its image."""
    with open_ground(choose_pinning(1), SilentProgress(), "debug") as made:
        yield made


def driver(kind: str) -> Platform:
    """The driver of a kind of guest."""
    known = KINDS.get(kind, Kind(kind))
    model = PLATFORMS[known.platform].parameter_model
    return make_platform(PlatformChoice(kind, known.platform, model.model_validate(known.parameters)))


def request(kind: str, deadline_seconds: float = 120.0, cpu_quota: float | None = None) -> GuestRequest:
    """What a guest is given; each has links of its own."""
    number = next(_numbers)
    return GuestRequest(
        f"{kind}/{number}", 1, MEMORY_BYTES, choose_pinning(1).guest_cpus, plan_links(number), deadline_seconds,
        cpu_quota,
    )  # fmt: skip


def start(kind: str, on: Ground, wanted: GuestRequest | None = None) -> Connected:
    """Start a guest and connect it, as the fleet does."""
    assert on.site is not None
    wanted = request(kind) if wanted is None else wanted
    guest = driver(kind).start(wanted, on.site)
    assert isinstance(guest, AgentGuest)
    guest.peer.call("network", **peer_request(wanted.network))
    answer = guest.agent.call("network", **network_request(wanted.network))
    for link in wanted.network.links:
        await_path(guest.peer, link)
    marks = wanted.network.marks
    assert marks is not None
    names = {entry["mac"]: entry["name"] for entry in answer["interfaces"]}
    timekeeper = Timekeeper(guest.agent, guest.peer, marks, names[marks.guest_mac], next(_numbers))
    pinning = on.pinning
    ports = on.site.require_network().ports(wanted.network)
    hops = HopReader(guest.peer, guest.agent, on.site.counters, wanted.network, names, ports)
    bench = Bench(
        guest.agent, guest.peer, timekeeper, wanted.network, pinning.generator_cpu, pinning.sink_cpu,
        itertools.count(1), hops,
    )  # fmt: skip
    return Connected(kind, guest, bench, on.site, wanted)
