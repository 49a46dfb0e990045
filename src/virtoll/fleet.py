"""The guests of one block: all started before its first trial, parked between trials, ended after its last.

Main types: ``Fleet`` (starts, hands out, replaces, ends guests and writes their boot records), ``LiveGuest`` (one of
them with its network and timekeeper) and ``Pinning`` (which CPU does what). A block is one boot of each platform, so
that the variation from boot to boot is inside the interval and not hidden below it (DESIGN 10).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from virtoll.agent import Answer, Caller
from virtoll.errors import GuestError, StorageError
from virtoll.experiment import Experiment, PlatformChoice
from virtoll.hops import HopReader
from virtoll.lab.network import GuestNetwork, Link, plan_links
from virtoll.plan import Trial
from virtoll.platforms.base import Guest, GuestRequest, GuestStartError, Platform, Site, network_request, peer_request
from virtoll.progress import Progress
from virtoll.samples import RunFolder
from virtoll.timekeeper import Timekeeper, echo_request
from virtoll.workloads.base import Bench

_STARTS_PER_BLOCK = 3
_ETHERNET_HEADER_BYTES = 14
_STANDARD_MTU_BYTES = 1500
_PATH_DEADLINE_SECONDS = 15.0
_ECHO_TIMEOUT_NS = 250_000_000


@dataclass(frozen=True)
class Pinning:
    """Host CPUs: the guest's, the generator's and the sink's; empty or None where there are too few to pin."""

    guest_cpus: tuple[int, ...]
    generator_cpu: int | None
    sink_cpu: int | None


def choose_pinning(vcpus: int, allowed: tuple[int, ...] | None = None) -> Pinning:
    """Guests on the first CPUs, the generator on the last, the sink on the last but one where that is not a guest's.

    On two CPUs generator and sink share one: the guest's is never shared with its load.
    """
    cpus = allowed if allowed is not None else tuple(sorted(os.sched_getaffinity(0)))
    if len(cpus) < vcpus + 1:
        return Pinning((), None, None)
    return Pinning(cpus[:vcpus], cpus[-1], cpus[-2] if len(cpus) >= vcpus + 2 else cpus[-1])


@dataclass
class LiveGuest:
    """A guest that is up, with what is needed to measure it; ``boot`` is its record's id."""

    boot: str
    guest: Guest
    network: GuestNetwork
    timekeeper: Timekeeper
    hops: HopReader
    wire: Caller

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Let the guest run for the length of the context; parked again after an orderly end only.

        It must answer at both ends: frames that a dead guest did not forward are not frames that were lost.
        """
        self.guest.resume()
        self.guest.agent.call("clocks")
        yield
        self.guest.agent.call("clocks")
        self.guest.park()

    def bench(self, pinning: Pinning, tags: Iterator[int]) -> Bench:
        """What a workload is given."""
        return Bench(
            self.guest.agent,
            self.wire,
            self.timekeeper,
            self.network,
            pinning.generator_cpu,
            pinning.sink_cpu,
            tags,
            self.hops,
        )


@dataclass
class Fleet:
    """The guests of one block; a context manager. A guest that dies is started anew, at most three times a block.

    ``boots`` counts the starts of each platform in each block, over all sessions of the run.
    """

    experiment: Experiment
    block: tuple[Trial, ...]
    folder: RunFolder
    site: Site | None
    pinning: Pinning
    platforms: Mapping[str, type[Platform]]
    progress: Progress
    boots: Counter[tuple[str, int]]
    _live: dict[str, LiveGuest] = field(default_factory=dict)
    _starts: dict[str, int] = field(default_factory=dict)
    _absent: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        """Start one guest of each platform that has a trial in this block, in the plan's order, and park it."""
        for choice in dict.fromkeys(trial.platform for trial in self.block):
            self._start(choice)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every guest."""
        for live in self._live.values():
            with contextlib.suppress(GuestError, OSError):
                live.guest.stop()
        self._live.clear()

    def guest(self, label: str) -> LiveGuest | None:
        """The platform's guest, started anew when the last one was lost.

        None when it cannot be had (``why_absent``).
        """
        if label not in self._live and self._starts.get(label, 0) < _STARTS_PER_BLOCK:
            self._start(next(trial.platform for trial in self.block if trial.platform.label == label))
        return self._live.get(label)

    def why_absent(self, label: str) -> str:
        """Why ``guest`` gave None, in one sentence."""
        return self._absent.get(label, "its guest could not be started")

    def lose(self, label: str, error: GuestError, folder_name: str) -> list[str]:
        """A guest failed in a trial: keep its evidence, end it; returns the evidence's paths in the run folder."""
        live = self._live.pop(label, None)
        self._absent[label] = f"its guest was lost and not started again: {error}"
        if live is None:
            return []
        paths = self._keep(folder_name, live.guest.evidence())
        with contextlib.suppress(GuestError, OSError):
            live.guest.stop()
        return paths

    def _start(self, choice: PlatformChoice) -> None:
        """Start one guest, measure what it is, park it, and write its boot record; failure is recorded, not raised."""
        number = self.block[0].block
        self.boots[choice.label, number] += 1
        attempt = self.boots[choice.label, number]
        self._starts[choice.label] = self._starts.get(choice.label, 0) + 1
        boot = f"{choice.label}/{number}" + (f"/{attempt}" if attempt > 1 else "")
        self.progress.message(f"starting {boot}")
        request = self._request(choice, boot)
        guest: Guest | None = None
        record: dict[str, Any] = {
            "boot": boot, "platform": choice.label, "block": number, "attempt": attempt, "status": "ok", "reason": None,
            "spawn_monotonic_ns": None, "ready_monotonic_ns": None, "facts": None, "mismatches": [], "attachment": None,
            "requested": {
                "vcpus": request.vcpus, "memory_bytes": request.memory_bytes, "cpus": list(request.cpus),
                "cpu_quota": request.cpu_quota,
                "interface_macs": [link.guest_mac for link in request.network.links],
            },
            "evidence": [],
        }  # fmt: skip
        try:
            guest = self.platforms[choice.platform](choice.parameters).start(request, self.site)
            record.update(
                attachment=guest.attachment,
                spawn_monotonic_ns=guest.spawned_monotonic_ns,
                ready_monotonic_ns=guest.ready_monotonic_ns,
            )
            timekeeper, hops = self._connect(guest, request.network)
            record["facts"] = guest.agent.call("facts")
            record["mismatches"] = mismatches(request, record["facts"])
            guest.park()
            self._live[choice.label] = LiveGuest(boot, guest, request.network, timekeeper, hops, self._wire(guest))
        except GuestError as error:
            found = error.evidence if isinstance(error, GuestStartError) else guest.evidence() if guest else {}
            record.update(status="failed", reason=str(error), evidence=self._keep(boot.replace("/", "-"), found))
            self._absent[choice.label] = f"its guest could not be started: {error}"
            if guest is not None:
                with contextlib.suppress(GuestError, OSError):
                    guest.stop()
        self.folder.append_boot(record)

    def _request(self, choice: PlatformChoice, boot: str) -> GuestRequest:
        index = next(n for n, other in enumerate(self.experiment.platforms) if other.label == choice.label)
        sizes = self._frame_parameters("largest_frame_bytes")
        mtu = max([_STANDARD_MTU_BYTES, *(size - _ETHERNET_HEADER_BYTES for size in sizes)])
        sources = max([1, *self._frame_parameters("sources")])
        network = plan_links(index, sources, mtu, marks=self.experiment.marks == "icmp")
        if self.site and self.site.far:
            network = self.site.far.reach(network)
        return GuestRequest(
            boot, self.experiment.vcpus, self.experiment.memory_bytes, self.pinning.guest_cpus, network,
            cpu_quota=self.experiment.cpu_quota,
        )  # fmt: skip

    def _frame_parameters(self, key: str) -> list[int]:
        """What the experiment's workloads ask of the network: the values of one parameter, where they have it."""
        values = [getattr(choice.parameters, key, None) for choice in self.experiment.workloads]
        return [int(value) for value in values if value is not None]

    def _connect(self, guest: Guest, network: GuestNetwork) -> tuple[Timekeeper, HopReader]:
        """Set the network up on both sides, each by its own agent; then the timekeeper listens on the guest's link."""
        marks = tuple(one for one in network.links if one.trunk is None)
        guest.peer.call("network", **peer_request(GuestNetwork(marks)))
        wire = self._wire(guest)
        if len(marks) < len(network.links):
            wire.call("network", **peer_request(GuestNetwork(tuple(one for one in network.links if one.trunk))))
        answer: Answer = guest.agent.call("network", **network_request(network))
        names = {entry["mac"]: entry["name"] for entry in answer["interfaces"]}
        link = network.marks
        for each in network.links:
            await_path(wire if each.trunk else guest.peer, each)
        identifier = (os.getpid() + self.boots.total()) % 2**16
        timekeeper = Timekeeper(guest.agent, guest.peer, link, names[link.guest_mac] if link else "", identifier)
        lab = self.site.counters if self.site else None
        ports = self.site.network.ports(network) if self.site and self.site.network else {}
        return timekeeper, HopReader(wire, guest.agent, lab, network, names, ports)

    def _wire(self, guest: Guest) -> Caller:
        """Who generates and counts for a guest: its peer, or the testbed's other host."""
        return self.site.far.agent if self.site and self.site.far else guest.peer

    def _keep(self, name: str, found: Mapping[str, bytes]) -> list[str]:
        """Store evidence files; returns their paths relative to the run folder."""
        folder = self.folder.path / "evidence" / name
        paths = []
        for file, content in found.items():
            try:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / file).write_bytes(content)
            except OSError as error:
                raise StorageError(
                    f"cannot write {folder / file}: {error.strerror or error}. What was stored before is whole; "
                    "make room or fix the permission, then `virtoll resume` this run."
                ) from error
            paths.append(f"evidence/{name}/{file}")
        return paths


def await_path(peer: Caller, link: Link) -> None:
    """Wait until the guest answers an echo on a link: a carrier is not yet a path.

    QEMU's e1000, for one, takes no frame in for a second of its own time after its driver has switched it on.
    """
    deadline = time.monotonic() + _PATH_DEADLINE_SECONDS
    while time.monotonic() < deadline:
        answer = peer.call("path-delay", count=1, timeout_ns=_ECHO_TIMEOUT_NS, **echo_request(link))
        if answer["round_trip_ns"]:
            return
    raise GuestError(f"its link {link.name} answered no echo within {_PATH_DEADLINE_SECONDS:g} s")


def mismatches(request: GuestRequest, facts: Mapping[str, Any]) -> list[str]:
    """Where the guest, measured inside, is not what was asked for; what it does not tell is no mismatch.

    Memory: what the guest sees as its own, its total or the limit set on it; a kernel keeps up to a fifth of a small
    machine for itself, so only less than 80 % or more than 101 % counts.
    """
    found = []
    cpus, total, limit = (facts.get(key) for key in ("cpus_allowed", "memory_total_bytes", "memory_limit_bytes"))
    cpus = facts.get("cpus_online") if cpus is None else cpus  # gVisor tells no mask
    if request.cpus and cpus is not None and _count(cpus) != request.vcpus:
        found.append(f"CPUs: asked {request.vcpus}, usable inside {_count(cpus)}")
    seen = min((value for value in (total, limit) if value), default=None)
    if seen is not None and not 0.8 * request.memory_bytes <= seen <= 1.01 * request.memory_bytes:
        found.append(f"memory: asked {request.memory_bytes >> 20} MiB, inside {seen >> 20} MiB")
    return found


def _count(cpus: Any) -> int:
    """A number of CPUs from a count or a list of them."""
    return len(cpus) if isinstance(cpus, list) else int(cpus)
