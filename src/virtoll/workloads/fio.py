"""fio: reading and writing one file in blocks, in order or at random. Disk, block layer, system calls.

Stands for random reading, writing and both in a file of 5 GB at 32 KB (Suresh and Kannan 2014, 4.4.2, Figure 4), which
no test of bonnie++ is by itself. The work is given and the time is measured. Source of the figures: fio's own JSON.
"""

from __future__ import annotations

import json
import re
from typing import ClassVar, Literal, Self

from pydantic import ByteSize, Field, ValidationInfo, field_validator, model_validator

from virtoll.errors import GuestCannot
from virtoll.experiment.model import Parameters
from virtoll.workloads.base import DURATION, Bench, Figures, Metric, Needs
from virtoll.workloads.on_disk import OPERATIONS, RATE, DiskWorkload, require_direct
from virtoll.workloads.programs import ProgramOutput, attempt, run

_FILE = "virtoll-fio"
_ABSENT = re.compile(r"not implemented|not permitted|not supported|not loadable|err(or)?=(38|1|95)\b", re.IGNORECASE)
_NATIVE_OPERATIONS_PER_SECOND = 8e3
_NATIVE_BYTES_PER_SECOND = 2e8


class FioParameters(Parameters):
    """``pattern``: fio's ``rw``. ``size_bytes``: of the file, all of which is read or written once.

    Quick 16 MiB at 4 KiB; Suresh and Kannan's 5 GB at 32 KiB, ``randread``, ``randwrite`` and ``randrw``. ``synced``:
    what was written is flushed to the disk before the end mark. ``depth``: requests at once, of asynchronous engines.
    ``direct``: past the guest's page cache. ``jobs``: threads at once, each with a part of the file of its own.
    """

    pattern: Literal["read", "write", "randread", "randwrite", "readwrite", "randrw"] = Field(
        default="randread", description="order of reads and writes, fio's rw"
    )
    size_bytes: ByteSize = Field(
        default=ByteSize(16 * 2**20),
        ge=4096,
        le=2**40,
        description="size of the file, all of which is read or written once",
    )
    block_bytes: ByteSize = Field(
        default=ByteSize(4096), ge=512, le=2**26, validate_default=True, description="size of a request"
    )
    engine: Literal["psync", "sync", "libaio", "io_uring"] = Field(
        default="psync", description="how requests are made, fio's ioengine"
    )
    depth: int = Field(default=1, ge=1, le=1024, description="requests at once, of asynchronous engines")
    direct: bool = Field(default=False, description="whether requests go past the guest's page cache")
    synced: bool = Field(
        default=True, description="whether what was written is flushed to the disk before the end mark"
    )
    jobs: int = Field(default=1, ge=1, le=256, description="threads at once, each with its own part of the file")

    @model_validator(mode="after")
    def _parts_are_alike(self) -> Self:
        if self.size_bytes % (self.jobs * self.block_bytes) != 0:
            raise ValueError("size_bytes must be a multiple of block_bytes times jobs: all jobs have parts of one size")
        return self

    @field_validator("block_bytes")
    @classmethod
    def _fits(cls, value: int, information: ValidationInfo) -> int:
        size = information.data.get("size_bytes")
        if size is not None and size % value != 0:
            raise ValueError("size_bytes must be a multiple of it")
        return value

    @field_validator("depth")
    @classmethod
    def _is_asynchronous(cls, value: int, information: ValidationInfo) -> int:
        if value > 1 and information.data.get("engine") in ("psync", "sync"):
            raise ValueError("more than 1 is for engine: libaio and engine: io_uring")
        return value


class Fio(DiskWorkload[FioParameters]):
    """The check value is how many bytes fio read and wrote, and its error count."""

    name: ClassVar[str] = "fio"
    title: ClassVar[str] = "fio"
    about: ClassVar[str] = "reads and writes of one file by fio"
    origin: ClassVar[str] = "Suresh 2014"
    resource: ClassVar[str] = "disk"
    parameter_model = FioParameters
    metrics: ClassVar[tuple[Metric, ...]] = (DURATION, RATE, OPERATIONS)
    packages: ClassVar[tuple[str, ...]] = ("fio",)
    most_slowdown: ClassVar[float] = 4.0

    def native_seconds(self) -> float:
        """The slower of 8 000 requests and 200 MB a second, and as much for laying the file out."""
        parameters = self.parameters
        requests = parameters.size_bytes / parameters.block_bytes / _NATIVE_OPERATIONS_PER_SECOND
        return 0.3 + requests + 2 * parameters.size_bytes / _NATIVE_BYTES_PER_SECOND

    def data_bytes(self) -> int:
        """The file."""
        return int(self.parameters.size_bytes)

    def needs(self) -> Needs:
        """Room, the engine, and O_DIRECT that is heeded."""
        parameters = self.parameters
        features = {"io-uring"} if parameters.engine == "io_uring" else set()
        features |= {"direct-io"} if parameters.direct else set()
        return Needs(data_bytes=self.data_bytes(), features=frozenset(features))

    def command(self, bench: Bench) -> list[str]:
        """All of the file once. The page cache was emptied before: fio's own way (``invalidate``) is switched off.

        Several jobs are reported as one, with the sums of what they did.
        """
        parameters = self.parameters
        if parameters.jobs == 1:
            return _command(bench, parameters)
        part = int(parameters.size_bytes) // parameters.jobs
        together = [f"--numjobs={parameters.jobs}", f"--offset_increment={part}", "--group_reporting"]
        return [*_command(bench, parameters.model_copy(update={"size_bytes": part})), *together]

    def prepare(self, bench: Bench) -> str | None:
        """Try what the guest may lack, then lay the file out, whatever the pattern: its blocks are there already."""
        parameters = self.parameters
        if parameters.direct:
            require_direct(bench)
        if parameters.engine in ("libaio", "io_uring"):
            _require_engine(bench, parameters)
        run(bench.guest, [*_command(bench, parameters), "--create_only=1"], self.deadline_seconds())
        return None

    def figures(self, program: ProgramOutput) -> Figures:
        """Bytes, requests, rates and latencies by the guest's clock."""
        return parse(program.output)

    def check(self, bench: Bench, figures: Figures) -> str:
        """What fio counted."""
        del bench
        return f"{figures['read_bytes'] + figures['written_bytes']} bytes, error {figures['error']}"

    def expected_check(self) -> str | None:
        """All of the file."""
        return f"{int(self.parameters.size_bytes)} bytes, error 0"


def parse(output: str) -> Figures:
    """Figures of fio 3's only job or group of jobs: bytes, requests, B/s, 1/s, ns; ValueError for any other report.

    What fio says before its report is left out; latencies are of reading and writing together where both were done.
    """
    start = output.find("{\n")
    try:
        document, _ = json.JSONDecoder().raw_decode(output[max(start, 0) :])
        (job,) = document["jobs"]
        sides = [job[side] for side in ("read", "write") if job[side]["total_ios"]]
        requests = sum(side["total_ios"] for side in sides)
        waited_ns = sum(side["lat_ns"]["mean"] * side["total_ios"] for side in sides)
        slow_ns = [side["clat_ns"].get("percentile", {}).get("99.000000", 0) for side in sides]
        return {
            "bytes_per_second": sum(side["bw_bytes"] for side in sides),
            "operations_per_second": sum(side["iops"] for side in sides),
            "read_bytes": job["read"]["io_bytes"],
            "written_bytes": job["write"]["io_bytes"],
            "requests": requests,
            "error": job["error"],
            "latency_mean_ns": waited_ns / requests if requests else None,
            "latency_p99_ns": max(slow_ns, default=0) or None,
            "runtime_ms": job["job_runtime"],
        }
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"it is no report of fio 3 in JSON ({type(error).__name__}: {error})") from error


def _command(bench: Bench, parameters: FioParameters) -> list[str]:
    return [
        "fio",
        "--name=virtoll",
        f"--filename={bench.data.path}/{_FILE}",
        f"--rw={parameters.pattern}",
        f"--size={int(parameters.size_bytes)}",
        f"--bs={int(parameters.block_bytes)}",
        f"--ioengine={parameters.engine}",
        f"--iodepth={parameters.depth}",
        f"--direct={int(parameters.direct)}",
        f"--end_fsync={int(parameters.synced)}",
        "--overwrite=1",
        "--fallocate=none",
        "--invalidate=0",
        "--randseed=1",
        "--thread",
        "--eta=never",
        "--output-format=json",
    ]


def _require_engine(bench: Bench, parameters: FioParameters) -> None:
    """One block by the engine; ``GuestCannot`` where the guest's kernel has it not, or a filter forbids it."""
    file = f"{bench.data.path}/virtoll-engine"
    block = {"pattern": "write", "size_bytes": parameters.block_bytes, "depth": 1}
    argv = [word for word in _command(bench, parameters.model_copy(update=block)) if not word.startswith("--filename=")]
    program = attempt(bench.guest, [*argv, f"--filename={file}"])
    run(bench.guest, ["rm", "-f", file])
    lines = [line.strip() for line in f"{program.complaints}\n{program.output}".splitlines() if _ABSENT.search(line)]
    if program.status != 0 and lines:
        raise GuestCannot(f"this guest has no {parameters.engine}: {lines[0][:200]}; choose engine: psync")
