"""Records of observed trials (docs/run-folder.md), and the words of what they count.

An observed trial says what a guest made its host do, and is never a result: it has no duration and no rate. Raw
readings only, nothing subtracted. A counter that was not read is missing, with the reason in `uncounted`.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

from virtoll.runfolder.campaign_records import Moment
from virtoll.runfolder.record import Record
from virtoll.runfolder.records import Status


class CounterReading(Record):
    """All counters at about one moment, each counted from some fixed moment on; by name (`COUNTERS`)."""

    monotonic_ns: int
    counted: dict[str, int]


class CounterSpan(Record):
    """Readings around one request whose answer is what is measured.

    `forwarded_frames`: what arrived in it, of traffic; None for a job, and where no point of the trial belongs to it.
    """

    before: CounterReading
    after: CounterReading
    forwarded_frames: int | None = None


class ObservedTrial(Record):
    """One trial with observers on, whatever its end; `host` and `caveat` as in `PlatformEntry`.

    `repetition`: of its platform, workload and parameters, from 0; those of one repetition stood side by side.
    `jobs`: how often the job ran in all spans together; None for traffic. `cpus`: the host's that its guest is pinned
    to. `uncounted`: why a counter is missing, by its name or by the name of the observer that would have read it.
    """

    platform: str
    workload: str
    parameters: dict[str, Any]
    repetition: int
    boot: str | None
    status: Status
    reason: str | None
    started_realtime_ns: Moment
    ended_realtime_ns: Moment
    jobs: int | None
    spans: tuple[CounterSpan, ...]
    uncounted: dict[str, str]
    cpus: tuple[int, ...] = ()
    evidence: tuple[str, ...] = ()
    host: str | None = None
    caveat: str | None = None


Whose = Literal["guest", "kernel threads", "CPUs", "platform"]
"""Whose a counter is: of the guest's processes and its platform's daemons; of threads of the host's kernel that work
for it alone; of all that ran on the guest's CPUs; what the platform itself counts of the guest.
"""


@dataclass(frozen=True)
class Counter:
    """One counter in words: `plural` follows a number ("2.1 context switches"); `unit` "" for events, else ns, bytes.

    `of_family`: there is one for each kind, named `<name>:<kind>`, and `plural` has the place of the kind.
    """

    plural: str
    whose: Whose
    unit: Literal["", "ns", "bytes"] = ""
    of_family: bool = False

    def words(self, kind: str) -> str:
        """What follows a number; `kind` only of a family."""
        return self.plural.format(kind=kind)


COUNTERS: Final = {
    "system_calls": Counter("system calls", "guest"),
    "context_switches": Counter("context switches", "guest"),
    "voluntary_switches": Counter("voluntary context switches", "guest"),
    "involuntary_switches": Counter("involuntary context switches", "guest"),
    "minor_faults": Counter("minor page faults", "guest"),
    "major_faults": Counter("major page faults", "guest"),
    "migrations": Counter("moves to another CPU", "guest"),
    "cpu_ns": Counter("of CPU time", "guest", "ns"),
    "waited_ns": Counter("of waiting for a CPU", "guest", "ns"),
    "read_calls": Counter("calls of read", "guest"),
    "write_calls": Counter("calls of write", "guest"),
    "read_bytes": Counter("copied by read", "guest", "bytes"),
    "written_bytes": Counter("copied by write", "guest", "bytes"),
    "frame_copies": Counter("copies of a frame or message to a program", "guest"),
    "instructions": Counter("instructions", "guest"),
    "cycles": Counter("cycles", "guest"),
    "cache_misses": Counter("cache misses", "guest"),
    "branch_misses": Counter("branch misses", "guest"),
    "throttled_periods": Counter("throttled periods", "guest"),
    "throttled_ns": Counter("of throttling by its cgroup", "guest", "ns"),
    "kernel_thread_switches": Counter("context switches of kernel threads", "kernel threads"),
    "kernel_thread_ns": Counter("of kernel threads' CPU time", "kernel threads", "ns"),
    "softirqs": Counter("softirqs {kind}", "CPUs", of_family=True),
    "interrupts": Counter("interrupts {kind}", "CPUs", of_family=True),
    "softirq_ns": Counter("of softirq time", "CPUs", "ns"),
    "interrupt_ns": Counter("of interrupt time", "CPUs", "ns"),
    "steal_ns": Counter("of steal time", "CPUs", "ns"),
    "frames_received": Counter("frames taken in by the host's interfaces", "CPUs"),
    "frames_sent": Counter("frames given to the host's interfaces", "CPUs"),
    "kvm": Counter("KVM {kind}", "platform", of_family=True),
    "translated_blocks": Counter("translated blocks", "platform"),
    "invalidated_blocks": Counter("invalidated blocks", "platform"),
    "translation_flushes": Counter("flushes of all translated blocks", "platform"),
}
"""In the order in which ties are told."""


def counter(name: str) -> tuple[Counter, str]:
    """A counter's entry and its kind ('' where it is of no family); KeyError for a name that is not there."""
    family, _, kind = name.partition(":")
    return COUNTERS[family], kind
