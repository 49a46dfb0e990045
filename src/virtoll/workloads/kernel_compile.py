"""Compiling Linux x jobs (Camargos et al. 2008, Figure 3; Suresh and Kannan 2014, Figure 3). Processes, files, CPU.

The source is the image's own (Debian's linux-source). Unpacking and configuring it are before the start mark, in the
data directory; what is timed is make: fork, exec, many small files, and the compiler.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from virtoll.experiment import Parameters
from virtoll.workloads.base import Bench, Measurement, Needs
from virtoll.workloads.programs import ProgramWorkload, Said, run

_VERSION = "linux-source-6.1"
_ARCHIVE = f"/usr/src/{_VERSION}.tar.xz"
_MIB = 2**20
# What make says of an object that it compiles, and not of those that it makes on the way and removes.
_COMPILED = re.compile(r"^  (?:CC|AS)      (\S+\.o)$", re.MULTILINE)
# The same bytes whoever builds it, when and where.
_REPRODUCIBLE = (
    "KBUILD_BUILD_TIMESTAMP=2023-01-01", "KBUILD_BUILD_USER=virtoll", "KBUILD_BUILD_HOST=guest",
    "KBUILD_BUILD_VERSION=1",
)  # fmt: skip
# Of the archive, what the configuration and the directory lib/ need: an eighth of it.
_LIB_MEMBERS = (
    "Kbuild", "Kconfig", "Makefile", "*/Kconfig*", "arch/x86/*", "include/*", "init/*", "kernel/*", "lib/*",
    "scripts/*", "security/*", "tools/*", "usr/*",
)  # fmt: skip


@dataclass(frozen=True)
class _Size:
    """What is unpacked (nothing: all of it), how it is configured, what is built; native times; room in bytes."""

    members: tuple[str, ...]
    configured: tuple[str, ...]
    target: str
    native_seconds: float
    prepare_seconds: float
    memory_bytes: int
    data_bytes: int


_SIZES: Final[dict[str, _Size]] = {
    "quick": _Size(_LIB_MEMBERS, ("tinyconfig", "prepare"), "lib/", 4.0, 16.0, 160 * _MIB, 220 * _MIB),
    "paper": _Size((), ("defconfig",), "vmlinux", 1000.0, 30.0, 700 * _MIB, 2600 * _MIB),
}


class KernelCompileParameters(Parameters):
    """``size``: *quick* builds the directory lib/ of the smallest configuration, *paper* a whole kernel (defconfig).

    ``jobs``: how many commands make runs at once; the studies gave one to eight cores.
    """

    size: Literal["quick", "paper"] = "quick"
    jobs: int = Field(default=1, ge=1, le=1024)


class KernelCompile(ProgramWorkload):
    """The check value is how many of the objects that make said it compiles are there, and how many are left to do."""

    name: ClassVar[str] = "kernel-compile"
    title: ClassVar[str] = "compiling Linux"
    resource: ClassVar[str] = "application"
    parameter_model: ClassVar[type[Parameters]] = KernelCompileParameters
    limit_bytes: ClassVar[int] = 2 * _MIB

    def native_seconds(self, parameters: Parameters) -> float:
        """On one core; how much more jobs help is what is measured."""
        return _size(parameters).native_seconds

    def needs(self, parameters: Parameters) -> Needs:
        """A compiler's memory for each job, and the unpacked source with its objects."""
        size = _size(parameters)
        return Needs(size.memory_bytes + 32 * _MIB * _checked(parameters).jobs, data_bytes=size.data_bytes)

    def estimate_seconds(self, parameters: Parameters, slowdown: float) -> float:
        """Unpacking takes longer than what is timed in the quick size."""
        size = _size(parameters)
        return (size.prepare_seconds + size.native_seconds) * slowdown

    def measure(self, bench: Bench, parameters: Parameters) -> Measurement:
        """The tree is gone afterwards, also when the trial fails."""
        try:
            return super().measure(bench, parameters)
        finally:
            if not bench.guest.ended:
                run(bench.guest, ["rm", "-rf", _folder(bench)], 900.0)

    def prepare(self, bench: Bench, parameters: Parameters) -> str | None:
        """A fresh tree, configured."""
        size, folder, guest = _size(parameters), _folder(bench), bench.guest
        seconds = 60.0 + 200.0 * size.prepare_seconds
        run(guest, ["rm", "-rf", folder], 900.0)
        run(guest, ["mkdir", folder])
        run(guest, unpack_command(folder, size.members), seconds)
        for target in size.configured:
            run(guest, make_command(folder, target, _checked(parameters).jobs), seconds, self.limit_bytes)
        return None

    def command(self, bench: Bench, parameters: Parameters) -> list[str]:
        """The build."""
        return make_command(_folder(bench), _size(parameters).target, _checked(parameters).jobs)

    def figures(self, said: Said) -> dict[str, Any]:
        """The objects that it compiled, by its own words."""
        objects = sorted(set(_COMPILED.findall(said.output)))
        if not objects:
            raise ValueError("no object was compiled")
        return {"objects": objects}

    def check(self, bench: Bench, parameters: Parameters, figures: dict[str, Any]) -> str:
        """Look for the objects, have make say what is left to do, and keep a hash of each object."""
        folder = _folder(bench)
        guest, tree = bench.guest, f"{folder}/{_VERSION}"
        listed = ["find", tree, "-name", "*.o", "-type", "f", "-size", "+0", "-printf", "%P\\n"]
        there = set(run(guest, listed, 300.0, self.limit_bytes).splitlines())
        again = run(guest, self.command(bench, parameters), self.deadline_seconds(parameters), self.limit_bytes)
        found = len(there.intersection(figures["objects"]))
        return f"{found} objects, {len(_COMPILED.findall(again))} left to do"

    def expected(self, parameters: Parameters, prepared: str | None, figures: dict[str, Any]) -> str | None:
        """All that it said, and nothing left."""
        del parameters, prepared
        return f"{len(figures['objects'])} objects, 0 left to do"


def unpack_command(folder: str, members: tuple[str, ...]) -> list[str]:
    """All of the archive, or the members that match."""
    wanted = ["--wildcards", *(f"{_VERSION}/{member}" for member in members)] if members else []
    return ["tar", "--extract", "--file", _ARCHIVE, "--directory", folder, "--no-same-owner", *wanted]


def make_command(folder: str, target: str, jobs: int) -> list[str]:
    """make in the unpacked tree."""
    return ["make", "--directory", f"{folder}/{_VERSION}", f"--jobs={jobs}", *_REPRODUCIBLE, target]


def _folder(bench: Bench) -> str:
    return f"{bench.data.path}/virtoll-kernel"


def _size(parameters: Parameters) -> _Size:
    return _SIZES[_checked(parameters).size]


def _checked(parameters: Parameters) -> KernelCompileParameters:
    if not isinstance(parameters, KernelCompileParameters):
        raise TypeError("KernelCompileParameters expected")
    return parameters
