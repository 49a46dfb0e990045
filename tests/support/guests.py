"""Real guests for tests inside a lab: one of each kind that starts here, connected as a run connects it."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.support import accounting, machine
from tests.support.facts import refused
from tests.support.guest_kinds import Kind, known_kinds
from tests.support.timeline import LAB_NUMBER_VARIABLE

from virtoll.agent.client import Caller, TrafficAgents
from virtoll.agent.links import network_request, peer_request
from virtoll.agent.operations.programs import ExecReply, ExecRequest
from virtoll.agent.operations.session import ClocksRequest, FactsRequest
from virtoll.agent.operations.traffic import Traffic
from virtoll.agent.path_counters import HopReader
from virtoll.agent.timekeeper import TimedJob, Timekeeper, await_path
from virtoll.errors import GuestDied, ImageError
from virtoll.experiment.model import Parameters, PlatformChoice
from virtoll.experiment.topology import HostAddress
from virtoll.image import GuestImage, prepare_image
from virtoll.lab import residue
from virtoll.lab.inside import wait_until
from virtoll.lab.launch import LAB_VARIABLE
from virtoll.lab.network import plan_links, with_found_macs
from virtoll.pipeline.data_directory import DataKeeper, find_data_volume
from virtoll.pipeline.pinning import Pinning, choose_pinning
from virtoll.pipeline.progress import SilentProgress
from virtoll.pipeline.session import RunSession, open_run_session
from virtoll.platforms import PLATFORMS, platform_of
from virtoll.platforms.attachment import attach
from virtoll.platforms.base import GuestRequest, Platform
from virtoll.platforms.host import Site
from virtoll.platforms.libvirt.driver import LibvirtGuest
from virtoll.platforms.limits import limit
from virtoll.platforms.managed_guest import ManagedMachine
from virtoll.platforms.process_guest import AgentGuest
from virtoll.platforms.virtualbox import machines
from virtoll.platforms.xen.dom0 import domains
from virtoll.runfolder.facts import Facts
from virtoll.runfolder.records import TrialRecord
from virtoll.workloads import ipc_bandwidth, kernel, traffic
from virtoll.workloads.base import Bench, Measurement, Workload
from virtoll.workloads.forward import Forward, ForwardParameters
from virtoll.workloads.traffic import FrameParameters, TrafficStream

SECOND_NS = 1_000_000_000
HELD_UP = "reached the timekeeper at once"
"""Of a trial whose first mark a busy host held up for longer than its job took: its duration is not known."""
STARVED = "generator and sink had their CPU for"
"""Of a trial whose generator a busy host kept off its CPU: its points are stored, and are no result."""
_TRIES = 20
_IDLE_NS = (50_000_000, 1_000_000_000, 20_000_000_000)


JOBS: dict[str, list[dict[str, Any]]] = {
    "superpi": [{"digits": 2000}],
    "masr": [{"size_bytes": 2**20}],
    "forkwait": [{"processes": 7}, {"processes": 7, "workers": 3}],
    "stream": [{"elements": 10_000, "rounds": 3}],
    "context-switch": [
        {"processes": 3, "working_set_bytes": 4096, "switches": 23},
        {"processes": 2, "switches": 23, "workers": 3},
    ],
    "ipc-bandwidth": [
        *({"channel": one, "size_bytes": 3 * 2**16} for one in get_args(ipc_bandwidth.Channel)),
        *({"channel": one, "size_bytes": 3 * 2**16, "workers": 3} for one in ("pipe", "shared-memory")),
    ],
    "kernel-operations": [
        *({"operation": one, "operations": 7, "batch_operations": 1} for one in kernel.KINDS),
        *({"operation": one, "operations": 7, "batch_operations": 1, "workers": 3} for one in ("pipe", "fork-exit")),
    ],
}
"""The agent's own jobs, small: a few parameters of each."""

# A machine's kernel keeps some fifty MiB for itself: of less, the guest would see too small a part.
MEMORY_BYTES = 256 * 2**20
FEW_FRAMES = 32
"""So many frames of any size fit every queue on any way: the smallest is a packet socket's default buffer of 208 KiB,
where one frame can take 4 KiB. A guest may then be as slow as it likes: what is lost was lost by a fault."""
FEW_PER_SECOND = 2000.0
"""A generator keeps its CPU busy for as long as a point lasts."""
HELD_FRAMES = 100
"""The most frames that are sent however late they are: queues between namespaces hold so many at once."""
CATCH_UP_SECONDS = 30
"""So late they still leave; the agent is given a minute more than a point lasts to answer."""
HANG_SECONDS = 600.0
"""Bounds what cannot end by itself; nobody asserts that it is faster."""
_QUIET_SECONDS = 0.25
_numbers = itertools.count()
_GUESTS = 170  # testbeds have the numbers from 180 on; that of a guest that has ended is free again


@dataclass
class Connected:
    """A guest with its network up, and what a workload is given."""

    name: str
    held: AgentGuest | ManagedMachine
    bench: Bench
    site: Site
    wanted: GuestRequest

    data: DataKeeper | None = None

    def emptied(self) -> Bench:
        """The bench with an empty data directory, as at a trial's start."""
        assert self.data is not None
        return replace(self.bench, data=self.data.empty(), data_state=self.data.state)

    @property
    def guest(self) -> AgentGuest | LibvirtGuest:
        """A guest whose processes are this machine's; ``held`` is also one that a product holds elsewhere."""
        assert isinstance(self.held, AgentGuest | LibvirtGuest)
        return self.held

    @property
    def kind(self) -> Kind:
        """What is known of its kind."""
        return known_kinds()[self.name]

    @property
    def grouped(self) -> bool:
        """Whether it is in a cgroup below the lab's: an ordinary user's lab has none."""
        return self.kind.grouped and self.site.this_machine.cgroup is not None

    @property
    def bounded(self) -> bool:
        """Whether it dies when it uses more memory than it was given."""
        return self.kind.bounded and self.kind.grouped == self.grouped

    def processes(self) -> machine.Family:
        """Its processes on this host; an engine's are not below the process that asked it."""
        found = self.guest.host_processes()
        assert found is not None
        return machine.family(found.started, *filter(None, [found.inner]))

    def agent_process(self) -> machine.Process:
        """What is to be killed so that the guest is dead: its agent, or where that is no process here, its first."""
        family = self.processes()
        if isinstance(self.held, LibvirtGuest) and (machine_itself := family.find("-no-user-config")):
            return machine_itself
        if self.kind.platform == "runsc" and (sandbox := family.find("boot")):  # its kernel, in which its agent is
            return sandbox
        return family.find("/init", "--role", inner_pid=1) or family.find("/init", "--role") or family.processes[0]

    def frames_at_port(self) -> int:
        """How many frames have come as far as its port towards the generator, by the port's own counter."""
        port = self.bench.network.sources[0].lab_interface
        return int(Path(f"/sys/class/net/{port}/statistics/rx_packets").read_text())

    def wait_for_quiet(self) -> None:
        """Until no interface on the way counts a frame for a while; in a link's first seconds kernels report groups."""

        def is_quiet() -> bool:
            before = self._counted_packets()
            time.sleep(_QUIET_SECONDS)
            return self._counted_packets() == before

        wait_until(is_quiet, HANG_SECONDS, "a way on which nobody speaks")

    def _counted_packets(self) -> dict[tuple[str, str], int]:
        return {
            (where, name): counters["rx_packets"] + counters["tx_packets"]
            for where, found in self.bench.hops.read().counted.items()
            for name, counters in (found or {}).items()
        }

    def pids(self) -> list[int]:
        """Its processes' numbers."""
        return [process.pid for process in self.processes().processes]

    def cpu_time_ns(self) -> int:
        """CPU time that its processes have used."""
        return accounting.cpu_time_ns(self.pids())


def pinning() -> Pinning:
    """The first CPU for guests and the last for the generator, the other way round in every other lab.

    Labs run side by side, and no CPU is to have all guests.
    """
    cpus = sorted(os.sched_getaffinity(0))
    if int(os.environ.get(LAB_NUMBER_VARIABLE, "0")) % 2:
        cpus.reverse()
    return choose_pinning(1, tuple(cpus))


@contextlib.contextmanager
def run_session() -> Iterator[RunSession]:
    """The lab's run session with busybox in its image; its sinks wait two seconds for residual frames, as RFC 2544
    does.

    Its generators send few frames however late: a CPU that does other work for as long as a point lasts costs none.
    """
    asked = TrafficStream.request

    def request(
        self: TrafficStream, wanted: FrameParameters, tag: int, duration_ns: int, rate: float | None
    ) -> Traffic:
        made = asked(self, wanted, tag, duration_ns, rate)
        if rate is not None and rate * duration_ns <= HELD_FRAMES * SECOND_NS:
            return made.replace(catch_up_ns=CATCH_UP_SECONDS * SECOND_NS)
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(traffic, "RESIDUAL_NS", 2 * SECOND_NS)
        patch.setattr(TrafficStream, "request", request)
        with open_run_session(pinning(), SilentProgress(), "debug") as made:
            yield made


def measured(workload: Workload[Parameters], bench: Callable[[], Bench]) -> Measurement:
    """A workload's measurement, made again while a busy host held up its first mark or its generator.

    Jobs in tests are so short, and hosts of tests so busy, that this happens now and then.
    """
    for _ in range(_TRIES):
        found = workload.measure(bench())
        if found.problem is None or not any(words in found.problem for words in (HELD_UP, STARVED)):
            break
    return found


def timed_idle(keeper: Timekeeper) -> tuple[int, TimedJob]:
    """A guest at rest, timed, and for how many ns: longer than a busy host holds up its first mark (``HELD_UP``)."""
    for wanted_ns in _IDLE_NS:
        found = keeper.time_job("idle", {"duration_ns": wanted_ns}, HANG_SECONDS)
        if found.problem is None or HELD_UP not in found.problem:
            break
    return wanted_ns, found


def assert_right(measured: Measurement) -> dict[str, Any]:
    """A trial without a problem whose answer was checked and is right; its result is returned."""
    assert measured.problem is None
    assert measured.check is not None
    assert measured.check.ok, measured.check
    return measured.result or {}


def assert_forwards(live: Connected) -> None:
    """A few frames pass it, and none is lost."""
    point = Forward(few_frames()).point(live.bench, FEW_PER_SECOND)
    (arrived,) = point.sink.per_source
    assert arrived.forwarded_frames > 0
    assert arrived.lost_frames == 0


def right_or_disturbed(trial: TrialRecord) -> bool:
    """Nothing may be wrong but what a busy host does.

    Jobs this short begin too far apart, a mark is held up for longer, or the generator is kept off its CPU.
    """
    reason = trial.reason or ""
    if STARVED in reason:
        return trial.status in ("invalid", "failed")
    disturbed = any(words in reason for words in (" apart, ", HELD_UP))
    return trial.status == "ok" or (trial.status == "invalid" and disturbed)


def execute(agent: Caller, *argv: str, limit_bytes: int = 2**24, **given: Any) -> ExecReply:
    """What a program in the guest did; ``given``: further fields of the request."""
    request = ExecRequest(argv=argv, timeout_ns=int(HANG_SECONDS * SECOND_NS), limit_bytes=limit_bytes, **given)
    return agent.ask(request, HANG_SECONDS)


def output_of(agent: Caller, *argv: str) -> str:
    """What a program in the guest wrote, which ended well."""
    ended = execute(agent, *argv)
    assert ended.status == 0, ended
    return ended.stdout.decode()


def cached_image(name: str) -> GuestImage:
    """An image that is in the cache: there is no way to a package mirror from inside a lab."""
    try:
        return prepare_image(name, kernel=True, offline=True)
    except ImageError as error:
        pytest.skip(f"{error} (or make tools)")


def full_image() -> GuestImage:
    """The image with the tools, where it is built."""
    return cached_image("full")


@contextlib.contextmanager
def session_with_tools() -> Iterator[RunSession]:
    """The lab's run session with the tools in its image."""
    with run_session() as made:
        made.site.image = full_image()
        yield made


def assert_found_dead(live: Connected) -> None:
    """The next request ends with the guest's death, which is noticed long before the request's deadline."""
    with refused(error=GuestDied, without=(f"{HANG_SECONDS:g} s",)):
        live.held.agent.ask(ClocksRequest(), HANG_SECONDS)


def few_frames(**shape: Any) -> ForwardParameters:
    """A point of ``FEW_FRAMES`` at ``FEW_PER_SECOND``, of frames of this shape."""
    return ForwardParameters(point_milliseconds=round(1000 * FEW_FRAMES / FEW_PER_SECOND), **shape)


def facts(live: Connected) -> Facts:
    """What a guest says of itself; a translated one reads and hashes all its files for a while."""
    return live.held.agent.ask(FactsRequest(), HANG_SECONDS)


@contextlib.contextmanager
def lab_record(folder: Path) -> Iterator[Path]:
    """A lab's record in a folder, where what is to be undone should this process die is noted."""
    folder.chmod(0o700)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.environ[residue.RECORD_VARIABLE] = str(descriptor)
    try:
        yield folder
    finally:
        del os.environ[residue.RECORD_VARIABLE]
        os.close(descriptor)


def promised(folder: Path | None = None) -> list[list[str]]:
    """The clean-ups that this lab's record holds, newest first; ``folder``: its folder, without it the one in force."""
    if folder is None:
        folder = Path(f"/proc/self/fd/{os.environ[residue.RECORD_VARIABLE]}").readlink()
    return residue.noted_commands(folder, os.environ[LAB_VARIABLE])


def choice(kind: str) -> PlatformChoice:
    """A kind of guest as an experiment's entry."""
    known = known_kinds().get(kind, Kind(kind))
    model = PLATFORMS[known.platform].parameter_model
    host = HostAddress.model_validate(known.host) if known.host else None
    return PlatformChoice(kind, known.platform, model.model_validate(known.parameters), host)


def driver(kind: str) -> Platform[Parameters]:
    """The driver of a kind of guest."""
    return platform_of(choice(kind))


def request(kind: str, deadline_seconds: float | None = None, cpu_quota: float | None = None) -> GuestRequest:
    """What a guest is given; each has links of its own."""
    if deadline_seconds is None:
        deadline_seconds = known_kinds().get(kind, Kind(kind)).ready_seconds
    number = next(_numbers)
    network = attach(plan_links(number % _GUESTS), choice(kind).parameters)
    wanted = GuestRequest(
        name=f"{kind}/{number}",
        vcpus=1,
        memory_bytes=MEMORY_BYTES,
        cpus=pinning().guest_cpus,
        network=network,
        deadline_seconds=deadline_seconds,
        cpu_quota=cpu_quota,
    )
    return limit(wanted, choice(kind).parameters)


def start(kind: str, on: RunSession, wanted: GuestRequest | None = None, data_bytes: int = 0) -> Connected:
    """Start a guest and connect it, as the fleet does; with a data directory where ``data_bytes`` is not 0."""
    site = on.site_of(choice(kind))
    assert site.network is not None
    wanted = request(kind) if wanted is None else wanted
    room, refusal = find_data_volume(type(driver(kind)), site, data_bytes, 0)
    assert refusal is None
    wanted = replace(wanted, data=room)
    if site.host.local is None and all(link.trunk is None for link in wanted.network.links):
        wanted = replace(wanted, network=site.network.reach(wanted.network), cpus=site.pinned(1, ()))
    guest = driver(kind).start(wanted, site)
    assert isinstance(guest, AgentGuest | ManagedMachine)
    if (
        wanted.network.attachment == "passthrough" and site.host.local is None
    ):  # its NICs came with addresses of their own
        inside = guest.agent.ask(FactsRequest(), HANG_SECONDS).interfaces
        found = with_found_macs(wanted.network, [one.mac for one in inside if one.mac is not None])
        wanted = replace(wanted, network=found)
    guest.peer.ask(peer_request(wanted.network))
    configured = guest.agent.ask(network_request(wanted.network))
    for link in wanted.network.links:
        await_path(guest.peer, link)
    marks = wanted.network.marks
    assert marks is not None
    names = {one.mac: one.name for one in configured.interfaces if one.mac is not None}
    timekeeper = Timekeeper(guest.agent, guest.peer, marks, names[marks.guest_mac], next(_numbers))
    endpoints = site.network.endpoint_interfaces(wanted.network)
    hops = HopReader(guest.peer, guest.agent, site.counters, wanted.network, names, endpoints)
    bench = Bench(
        guest=guest.agent,
        peer=TrafficAgents.of_one(guest.peer),
        timekeeper=timekeeper,
        network=wanted.network,
        generator_cpu=on.pinning.generator_cpu,
        sink_cpu=on.pinning.sink_cpu,
        tags=itertools.count(1),
        hops=hops,
    )
    data = None
    if room is not None:
        guest.cleanup.insert(0, room.remove)
        data = DataKeeper(guest.agent, guest.data or room, guest.flushes)
    return Connected(kind, guest, bench, site, wanted, data)


@contextlib.contextmanager
def running(kind: str, on: RunSession, wanted: GuestRequest | None = None, data_bytes: int = 0) -> Iterator[Connected]:
    """The same for as long as the block."""
    live = start(kind, on, wanted, data_bytes)
    try:
        yield live
    finally:
        live.held.stop()


def kill(live: Connected) -> None:
    """Have the guest die at once, by what its host has for it, behind its driver's back."""
    site, name = live.site.host, live.kind.platform
    if name.startswith("qemu"):
        running = [line for line in site.run(["ps"], "look").splitlines() if live.bench.network.sink.guest_mac in line]
        site.run(["kill", "-KILL", *(line.split()[0] for line in running if "{" not in line)], "kill")
    elif name == "virtualbox":
        running = [pid for pid, machine_name in machines(site) if machine_name == domain_of(live)]
        site.run(["kill", "-KILL", *running], "kill")
    elif name == "xen":
        site.run(["xl", "destroy", domain_of(live)], "kill")
    else:
        raise NotImplementedError(f"how to kill a guest of {name}")


def left_of(live: Connected) -> list[str]:
    """What its product still knows of it, on its host."""
    if live.kind.platform.startswith("qemu"):
        processes = live.site.host.run(["ps"], "look").splitlines()
        return [line for line in processes if any(link.guest_mac in line for link in live.bench.network.links)]
    if live.kind.platform == "virtualbox":
        return [name for _, name in machines(live.site.host) if name == domain_of(live)]
    if live.kind.platform == "xen":
        return [name for name in domains(live.site.host) if name == domain_of(live)]
    raise NotImplementedError(f"what {live.kind.platform} has left")


def domain_of(live: Connected) -> str:
    """The name that Xen knows it by."""
    return f"{live.site.host.lab_id}-{live.wanted.name.replace('/', '-')}"
