"""Another platform's guest, started as always and altered where the instrument cannot see it.

Whatever is measured on it is measured as on any guest: nothing else of Virtoll knows these platforms. So what
``virtoll selftest`` finds, the instrument has found.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, TypeVar

from virtoll.agent.client import Caller
from virtoll.agent.operations.network import NetworkReply, NetworkRequest
from virtoll.agent.operations.programs import EndRequest, ExecRequest, SpawnRequest
from virtoll.errors import GuestError
from virtoll.experiment.model import PlatformChoice
from virtoll.host.guest_usage import GuestProcesses
from virtoll.lab.data import DataBy
from virtoll.lab.shaping import Shape
from virtoll.platforms.altered.agent import AlteredAgent
from virtoll.platforms.altered.parameters import AlteredMachineParameters, AlteredParameters
from virtoll.platforms.base import Guest, GuestRequest, Platform, Probe, Validation
from virtoll.platforms.containers.netns import NetworkNamespace
from virtoll.platforms.host import Site
from virtoll.platforms.qemu.driver import QemuGuest, QemuTcg

_AGENT = "/proc/1/exe"  # in the guest
_PROGRAM = "altered-router"
_OUTPUT = "/tmp/altered-router.json"  # noqa: S108 - in the guest, where nobody else is
_QUOTA_PERIOD_MICROSECONDS = 10_000  # a job of 200 ms sees 20 of them
_PROGRAM_NS = 10_000_000_000

P = TypeVar("P", bound=AlteredParameters)


class AlteredGuest(Guest):
    """A real guest behind an agent that may not tell the truth, with links and a router that may not be right."""

    def __init__(self, real: Guest, parameters: AlteredParameters, request: GuestRequest, site: Site) -> None:
        self._real, self._request, self._wanted = real, request, parameters
        self._undo = contextlib.ExitStack()
        step_ns = parameters.reported_clock_step_milliseconds * 1_000_000
        altered = AlteredAgent(real.agent, parameters.reported_clock_rate, step_ns)
        if parameters.forwards_by_program:
            altered.configured, altered.kernel_forwards = self._forward, False
        self.agent: Caller = altered
        self.peer, self.attachment, self.network, self.flushes = real.peer, real.attachment, real.network, real.flushes
        self.spawned_monotonic_ns, self.ready_monotonic_ns = real.spawned_monotonic_ns, real.ready_monotonic_ns
        self.executed_monotonic_ns = real.executed_monotonic_ns
        try:
            if parameters.link_mbit:
                shape = Shape(rate_bits_per_second=parameters.link_mbit * 1_000_000)
                for link in request.network.traffic:
                    self._undo.enter_context(site.local_ports.shaped(link, shape))
            if isinstance(parameters, AlteredMachineParameters):
                self._alter_machine(parameters)
        except GuestError:
            self.stop()
            raise

    def park(self) -> None:
        """As the real one."""
        self._real.park()

    def resume(self) -> None:
        """As the real one."""
        self._real.resume()

    def stop(self) -> None:
        """End the program that forwards, then the real guest."""
        with contextlib.suppress(GuestError):
            self._real.resume()  # it may be parked, and is asked for its program's end
        try:
            self._undo.close()
        finally:
            self._real.stop()

    def evidence(self) -> dict[str, bytes]:
        """The real one's."""
        return self._real.evidence()

    def host_processes(self) -> GuestProcesses | None:
        """The real one's."""
        return self._real.host_processes()

    def own_counters(self) -> Mapping[str, int]:
        """The real one's."""
        return self._real.own_counters()

    def _alter_machine(self, parameters: AlteredMachineParameters) -> None:
        if parameters.clock_rate != 1:
            parts = round((parameters.clock_rate - 1) * 1_000_000)
            _execute(self._real.agent, [_AGENT, "clock-rate", str(parts)])
        if parameters.disk_mib_per_second and isinstance(self._real, QemuGuest):
            self._real.limit_data_disk(parameters.disk_mib_per_second << 20)

    def _forward(self, request: NetworkRequest, reply: NetworkReply) -> None:
        """Start the program that forwards from the first source's link to the sink's."""
        names = {
            interface.mac: state.name for interface, state in zip(request.interfaces, reply.interfaces, strict=True)
        }
        source, sink, parameters = self._request.network.sources[0], self._request.network.sink, self._wanted
        argv = [
            *(_AGENT, "wire", "forward", "--from", names[source.guest_mac], "--to", names[sink.guest_mac]),
            *("--source-mac", sink.guest_mac, "--destination-mac", sink.peer_mac),
            *("--drop-every", str(parameters.drop_every), "--duplicate-every", str(parameters.duplicate_every)),
            *("--swap-every", str(parameters.swap_every), "--delay-us", str(parameters.delay_microseconds)),
        ]
        self._real.agent.ask(SpawnRequest(name=_PROGRAM, argv=tuple(argv), output=_OUTPUT))
        self._undo.callback(self._end_program)

    def _end_program(self) -> None:
        ended = self._real.agent.ask(EndRequest(name=_PROGRAM, timeout_ns=_PROGRAM_NS, limit_bytes=1 << 16))
        if ended.by_itself:
            raise GuestError(
                f"{self._request.name}: its router ended by itself: {ended.output.decode(errors='replace')}"
            )


def _execute(agent: Caller, argv: Sequence[str]) -> None:
    done = agent.ask(ExecRequest(argv=tuple(argv), timeout_ns=_PROGRAM_NS, limit_bytes=1 << 16))
    if done.status != 0:
        complaint = done.stderr.decode(errors="replace").strip() or f"exit code {done.status}"
        raise GuestError(f"{' '.join(argv)}: {complaint}")


class _Altered(Platform[P]):
    """What both share; ``real`` starts the guest."""

    family: ClassVar[str] = "altered"
    validation: ClassVar[Validation] = "model"
    without_root: ClassVar[str] = "as the platform that is altered"
    real: ClassVar[type[NetworkNamespace | QemuTcg]]

    @property
    def needs_kernel(self) -> bool:
        """As the real one's do."""
        return self._platform().needs_kernel

    def probe(self, site: Site) -> Probe:
        """As the real one."""
        return self._platform().probe(site)

    def depends_on(self) -> str | None:
        """As the real one."""
        return self._platform().depends_on()

    def tried_as(self, choice: PlatformChoice) -> PlatformChoice:
        """The real one: nothing is altered before a guest runs."""
        real = self._platform()
        return replace(choice, platform=real.name, parameters=real.parameters)

    def start(self, request: GuestRequest, site: Site) -> AlteredGuest:
        """Start the real guest by another request, and alter it."""
        parameters = self.parameters
        real_request = request
        if isinstance(parameters, AlteredMachineParameters):
            real_request = replace(real_request, memory_bytes=round(request.memory_bytes * parameters.memory_share))
        if parameters.more_vcpus:
            vcpus = request.vcpus + parameters.more_vcpus
            real_request = replace(real_request, vcpus=vcpus, cpus=_more_cpus(request.cpus, vcpus))
        if parameters.cpu_share < 1:
            quota = parameters.cpu_share * request.vcpus
            real_request = replace(real_request, cpu_quota=quota, cpu_period_microseconds=_QUOTA_PERIOD_MICROSECONDS)
        return AlteredGuest(self._platform().start(real_request, site), parameters, request, site)

    def _platform(self) -> NetworkNamespace | QemuTcg:
        return self.real.with_parameters({})


class AlteredNamespace(_Altered[AlteredParameters]):
    """``netns``, altered."""

    name: ClassVar[str] = "altered-netns"
    title: ClassVar[str] = "bare Linux namespaces with a known fault, for virtoll selftest"
    parameter_model = AlteredParameters
    real: ClassVar[type[NetworkNamespace | QemuTcg]] = NetworkNamespace
    boot_seconds: ClassVar[float] = NetworkNamespace.boot_seconds
    slowdown: ClassVar[float] = NetworkNamespace.slowdown
    data_by: ClassVar[DataBy] = NetworkNamespace.data_by


class AlteredQemu(_Altered[AlteredMachineParameters]):
    """``qemu-tcg``, altered."""

    name: ClassVar[str] = "altered-qemu-tcg"
    title: ClassVar[str] = "QEMU with a known fault, for virtoll selftest"
    parameter_model = AlteredMachineParameters
    real: ClassVar[type[NetworkNamespace | QemuTcg]] = QemuTcg
    boot_seconds: ClassVar[float] = QemuTcg.boot_seconds
    slowdown: ClassVar[float] = QemuTcg.slowdown
    data_by: ClassVar[DataBy] = QemuTcg.data_by
    quota_by_cgroup: ClassVar[bool] = True


def _more_cpus(cpus: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The same host CPUs and others, as many as there are; none where nothing is pinned."""
    others = sorted(os.sched_getaffinity(0) - set(cpus))
    return (*cpus, *others)[:count] if cpus else ()
