"""The instrument against itself: generator and sink with nothing between, before the first block and at the end.

Main type: ``Calibrator``. For each shape of frames that the experiment asks for it stores one point flat out and one
paced. Flat out is the ceiling: a router that comes near it is not what set the rate. Paced is the floor of the latency.
Two more, with few frames and with many, tell the CPU time that a frame takes at generator and sink. All are over veth
pairs inside the peer's own namespace, or in one of a testbed's host, with the same back end, sink
and CPUs. It interprets nothing: ``stats/ceilings.py``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from virtoll.agent.client import Caller, TrafficAgents
from virtoll.agent.hand_over import HandOverReader
from virtoll.agent.links import bare_interfaces
from virtoll.errors import GuestError
from virtoll.experiment.model import Experiment, WorkloadChoice
from virtoll.hosts.remote_peer import Apart
from virtoll.pipeline.pinning import Pinning
from virtoll.pipeline.preview import CALIBRATION_POINT_NS, CPU_PAIRS, CPU_POINT_NS, shapes
from virtoll.platforms.host import Site
from virtoll.runfolder.frame_shape import FrameShape
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.traffic_records import CalibrationRecord, Point
from virtoll.workloads.frame_cost import Meter
from virtoll.workloads.retakes import retaken_unobserved
from virtoll.workloads.starvation import why_no_result
from virtoll.workloads.traffic import BACKENDS, FrameParameters, Lane, TrafficStream, send

FLOOR_RATE_FRAMES_PER_SECOND = 10_000.0
_CPU_RATE_FRAMES_PER_SECOND = 100_000.0
_STANDARD_MTU_BYTES = 1500
# RFC 2544, C.2.2, and RFC 5180, 8: addresses of source and sink for benchmarks of network devices.
_ADDRESSES = {4: ("198.18.0.1", "198.18.0.2"), 6: ("2001:2::1", "2001:2::2")}


@dataclass
class Calibrator:
    """Calibrates one run. ``note`` remembers what trials really used, so that the end calibrates that too."""

    experiment: Experiment
    site: Site
    folder: RunFolder
    pinning: Pinning
    tags: Iterator[int]
    _pairs: int = 0
    _used: dict[FrameParameters, None] = field(default_factory=dict)
    _done: set[FrameParameters] = field(default_factory=set)

    def note(self, workload: WorkloadChoice, record: TrialRecord) -> None:
        """Remember the back ends of the points in the record of a trial of this workload."""
        parameters = workload.parameters
        if not isinstance(parameters, FrameParameters):
            return
        for point in record.points or ():
            if point.backend in BACKENDS:
                self._used[parameters.shape().model_copy(update={"backend": point.backend})] = None

    def run(self, when: Literal["start", "end"]) -> None:
        """Measure every shape and store a line for each; a failure is stored with its reason and costs nothing else."""
        unmeasured = list(shapes(self.experiment.workloads))
        unmeasured += [shape for shape in self._used if when == "end" and shape not in self._done]
        for shape in unmeasured:
            points: tuple[Point, ...] = ()
            cpu: tuple[Point, ...] | None = None
            reason: str | None = None
            try:
                measured, metered = self._measure(shape)
                reason = why_no_result([*measured, *metered])
                points = tuple(measured)
                cpu = tuple(metered) or None
                self._done.update(shape.model_copy(update={"backend": point.backend}) for point in points)
            except GuestError as error:
                reason = str(error)
            self.folder.append(
                CalibrationRecord(
                    when=when,
                    realtime_ns=time.time_ns(),
                    parameters=shape.model_dump(mode="json"),
                    status="failed" if reason else "ok",
                    reason=reason,
                    points=points,
                    way="testbed" if self.site.far else "lab",
                    cpu_points=cpu,
                )
            )

    def _measure(self, shape: FrameParameters) -> tuple[list[Point], list[Point]]:
        """As the agents answered: flat out and paced; and those for the CPU time, none where that is another host's."""
        peer, stream = self._apart(shape) if self.site.far else self._inside(shape)
        ends = TrafficAgents.of_one(peer)

        def measure(rate: float | None) -> Point:
            return send(ends, stream, shape, self._tag(), CALIBRATION_POINT_NS, rate, histograms=True)

        points = [retaken_unobserved(partial(measure, rate)) for rate in (None, FLOOR_RATE_FRAMES_PER_SECOND)]
        if self.site.far:
            return points, []
        meter = Meter(ends, stream, shape, self.pinning.cpus, self._tag, CPU_POINT_NS)
        rate = _CPU_RATE_FRAMES_PER_SECOND / shape.streams
        return points, [point for _ in range(CPU_PAIRS) for point in meter.points(rate)]

    def _tag(self) -> int:
        return next(self.tags) % 2**16

    def _apart(self, shape: FrameParameters) -> tuple[Caller, TrafficStream]:
        """The testbed's host, as many pairs in a namespace of its own: what it reaches without any NIC."""
        far = self.site.far
        if far is None or len(far.ends.agents) > 1:
            raise GuestError(
                "generator and sink are on two hosts, and every path between them crosses this machine; "
                "measure each there with 'virtoll wire calibrate'"
            )
        host = Apart(far.ends.generator, shape.sources)
        pairs = [host.stream_ends(number) for number in range(shape.sources)]
        return host, self._stream([(into[0], out[0], into[1], out[1]) for into, out in pairs], shape)

    def _stream(self, pairs: Sequence[tuple[str, str, str, str]], shape: FrameShape) -> TrafficStream:
        """From names and MAC addresses of both ends of each pair."""
        addresses, ways = _ADDRESSES[shape.ip_version], list(pairs)
        if shape.both_directions:
            ways += [(other, name, other_mac, mac) for name, other, mac, other_mac in pairs]
        lanes = tuple(Lane(name, mac, other_mac, *addresses) for name, _, mac, other_mac in ways)
        arrives_at, pinning = tuple(way[1] for way in ways), self.pinning
        return TrafficStream(lanes, arrives_at, pinning.generator_cpu, pinning.sink_cpu, hand_overs=self._hand_overs())

    def _hand_overs(self) -> HandOverReader | None:
        """Of the CPUs that its frames go by; none where those are another host's."""
        if self.site.counters is None or self.site.far is not None:
            return None
        return HandOverReader(self.site.counters, self.pinning.in_order())

    def _inside(self, shape: FrameParameters) -> tuple[Caller, TrafficStream]:
        """As many pairs as there are sources, made at first use and kept: they end with the peer's namespace."""
        mtu = max([_STANDARD_MTU_BYTES, *(shape.mtu_bytes for shape in shapes(self.experiment.workloads))])
        for number in range(self._pairs, shape.sources):
            names, macs = _names(number), _macs(number)
            self.site.local_ports.back_to_back(names, macs, mtu)
            self.site.peer.ask(bare_interfaces((mac, mtu) for mac in macs))
            for name in names:
                self.site.local_ports.receive_at_peer(name, self.pinning.guest_cpus)  # as a guest's links
            self._pairs = number + 1
        pairs = [(*_names(number), *_macs(number)) for number in range(shape.sources)]
        return self.site.peer, self._stream(pairs, shape)


def _names(number: int) -> tuple[str, str]:
    return f"cal{number}out", f"cal{number}in"


def _macs(number: int) -> tuple[str, str]:
    return f"02:76:74:03:00:{2 * number:02x}", f"02:76:74:03:00:{2 * number + 1:02x}"
