"""ZFG, zero file generator (Mattos et al. 2012, IV.C): a file of zeros written ten times. Disk: continuous writing.

Between two rounds other data are written and flushed, as the paper does, "to guarantee that the time elapsed in each
round is actually the time spent by the virtual machine to write the file on the disk" and not into a buffer of the
hypervisor's. What the paper draws is the mean time of a round, without what is written between. The tool was never
published; this is the agent's own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from pydantic import ByteSize, Field

from virtoll.experiment.model import Parameters
from virtoll.runfolder.records import outside_ns
from virtoll.workloads.base import Bench, Measurement, Metric, Needs, TimedJobWorkload
from virtoll.workloads.on_disk import RATE

ROUND_TIME = Metric("round_time", "ns", "lower", "figures")
_NATIVE_BYTES_PER_SECOND = 2e8


class ZfgParameters(Parameters):
    """``rounds`` times a file of ``size_bytes``: quick 3 x 32 MiB, the paper's 10 x 2 GB.

    ``dump_bytes``: what is written between two rounds; the paper does not say how much. ``synced``: each round ends
    with ``fsync``, as part of its time; the paper does not say so.
    """

    size_bytes: ByteSize = Field(
        default=ByteSize(32 * 2**20), ge=1, le=2**40, description="size of the file of zeros; the paper's is 2GB"
    )
    rounds: int = Field(default=3, ge=1, le=1000, description="how often it is written; the paper's number is 10")
    dump_bytes: ByteSize = Field(
        default=ByteSize(8 * 2**20), ge=1, le=2**40, description="what is written between two rounds"
    )
    synced: bool = Field(default=True, description="whether each round ends with fsync, as part of its time")


class Zfg(TimedJobWorkload[ZfgParameters]):
    """The check value is the number of rounds, and of zeros that are read back from the last one."""

    name: ClassVar[str] = "zfg"
    job: ClassVar[str] = "zfg"
    title: ClassVar[str] = "ZFG"
    about: ClassVar[str] = "a file of zeros written again and again"
    origin: ClassVar[str] = "Mattos 2012"
    resource: ClassVar[str] = "disk"
    parameter_model = ZfgParameters
    metrics: ClassVar[tuple[Metric, ...]] = (ROUND_TIME, RATE)

    def native_seconds(self) -> float:
        """About 200 MB/s, written and flushed."""
        parameters = self.parameters
        return parameters.rounds * (parameters.size_bytes + parameters.dump_bytes) / _NATIVE_BYTES_PER_SECOND

    def needs(self) -> Needs:
        """Room for one round and the dump."""
        parameters = self.parameters
        return Needs(data_bytes=int(parameters.size_bytes) + int(parameters.dump_bytes))

    def expected_check(self) -> str | None:
        """All rounds, and nothing but zeros in a file of that size."""
        parameters = self.parameters
        return f"{parameters.rounds} rounds, {int(parameters.size_bytes)} zeros"

    def job_parameters(self, bench: Bench) -> dict[str, object]:
        """Where to write, too."""
        return {**super().job_parameters(bench), "path": bench.data.path}

    def measure(self, bench: Bench) -> Measurement:
        """The rounds between the marks; ``round_time`` is their mean, without the dumps.

        The guest says which part of the time between the marks they took, and the clock outside how long that was.
        """
        state = bench.data_state(True)
        measured = super().measure(bench)
        result = dict(measured.result or {})
        figures = dict.fromkeys((ROUND_TIME.name, RATE.name))
        rounds_ns = sum(result["write_ns"]) + sum(result["sync_ns"])
        taken_ns = outside_ns(measured.clock, rounds_ns) if measured.clock is not None else None
        if taken_ns:
            round_ns = taken_ns / len(result["write_ns"])
            figures = {ROUND_TIME.name: round_ns, RATE.name: result["size_bytes"] * 1e9 / round_ns}
        return replace(measured, result={**result, "figures": figures, "state": state})
