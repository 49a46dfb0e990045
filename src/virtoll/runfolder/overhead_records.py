"""Records of what the instrument itself used (docs/run-folder.md): raw readings."""

from virtoll.runfolder.record import Record


class OverheadReading(Record):
    """CPU time so far (user and system, ns) at one moment of the monotonic clock.

    `controller_cpu_ns`: all threads of the controller. `children_cpu_ns`: programs that it started and that ended.
    `agents_cpu_ns`: agents that belong to the instrument, by role; one that cannot be read is None.
    """

    monotonic_ns: int
    controller_cpu_ns: int
    children_cpu_ns: int
    agents_cpu_ns: dict[str, int | None]


class OverheadSpan(Record):
    """Two readings around something."""

    before: OverheadReading
    after: OverheadReading


class Overhead(Record):
    """Readings around a whole trial, and around each request in it whose answer is what is measured.

    `counters`: whether hops and the guest's processes were read around the latter.
    """

    counters: bool
    trial: OverheadSpan
    measured: tuple[OverheadSpan, ...]
