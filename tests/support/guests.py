"""Real guests for tests inside a lab: one of each kind that starts here, connected as a run connects it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support import machine

from virtoll.agent import Ends
from virtoll.experiment import PlatformChoice
from virtoll.fleet import choose_pinning
from virtoll.ground import Ground, open_ground
from virtoll.hops import HopReader
from virtoll.lab.network import plan_links
from virtoll.platforms import PLATFORMS
from virtoll.platforms.base import AgentGuest, GuestRequest, Platform, Site, network_request, peer_request
from virtoll.progress import SilentProgress
from virtoll.run import make_platform
from virtoll.timekeeper import Timekeeper, await_path
from virtoll.workloads.base import Bench

# Every kind of guest that starts on a host without KVM: its platform and its parameters.
KINDS: dict[str, tuple[str, dict[str, str]]] = {
    "native": ("native", {}),
    "native-again": ("native-again", {}),
    "netns": ("netns", {}),
    "runc": ("runc", {}),
    "qemu-tcg": ("qemu-tcg", {"nic": "virtio-net"}),
    "qemu-tcg-e1000": ("qemu-tcg", {"nic": "e1000"}),
    "qemu-tcg-serial": ("qemu-tcg", {"channel": "serial"}),
}
MEMORY_BYTES = 128 * 2**20
_numbers = itertools.count()


@dataclass
class Connected:
    """A guest with its network up, and what a workload is given."""

    kind: str
    guest: AgentGuest
    bench: Bench
    site: Site

    @property
    def emulated(self) -> bool:
        """Whether it has a kernel of its own."""
        return self.kind.startswith("qemu")

    def processes(self) -> machine.Family:
        """Its processes on this host."""
        return machine.family(self.guest.process.pid)

    def agent_process(self) -> machine.Process:
        """What is to be killed so that the guest is dead: its agent, or the machine."""
        family = self.processes()
        found = family.processes[0] if self.emulated else family.find("/init")
        assert found is not None, family
        return found

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
    name, parameters = KINDS.get(kind, (kind, {}))
    return make_platform(PlatformChoice(kind, name, PLATFORMS[name].parameter_model.model_validate(parameters)))


def request(kind: str, deadline_seconds: float = 120.0) -> GuestRequest:
    """What a guest is given; each has links of its own."""
    number = next(_numbers)
    pinning = choose_pinning(1)
    return GuestRequest(f"{kind}/{number}", 1, MEMORY_BYTES, pinning.guest_cpus, plan_links(number), deadline_seconds)


def start(kind: str, on: Ground) -> Connected:
    """Start a guest and connect it, as the fleet does."""
    assert on.site is not None
    wanted = request(kind)
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
        guest.agent, Ends.of_one(guest.peer), timekeeper, wanted.network, pinning.generator_cpu, pinning.sink_cpu,
        itertools.count(1), hops,
    )  # fmt: skip
    return Connected(kind, guest, bench, on.site)
