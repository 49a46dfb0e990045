"""Compiling Linux x jobs (Camargos et al. 2008, Figure 3; Suresh and Kannan 2014, Figure 3). Processes, files, CPU.

The source is the image's own (Debian's linux-source). The tree is unpacked and configured before the start mark, in the
data directory, or where it is asked for between the marks, by a makefile of Virtoll's. What is timed is make: fork,
exec, many small files, and the compiler. The quick size's tree, a small part of the source, is made once a run beside
the peer and copied, packed, to each guest. Reading the whole archive takes longer than what is timed, and minutes in an
emulator. It is built there too, so that the right objects are known.
"""

from __future__ import annotations

import hashlib
import platform
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from virtoll.agent import turns
from virtoll.agent.client import Caller
from virtoll.errors import GuestCannot
from virtoll.experiment.model import Parameters
from virtoll.workloads.base import Bench, Figures, Measurement, Needs
from virtoll.workloads.network_path import PathParameters, far_end
from virtoll.workloads.packed import ARCHIVE, KERNEL_SOURCE
from virtoll.workloads.programs import ProgramOutput, ProgramWorkload, folder_of_its_own, run, write
from virtoll.workloads.rsync import daemon, fetch, there

_MIB = 2**20
# What make says of an object that it compiles, and not of those that it makes on the way and removes.
_COMPILED = re.compile(r"^  (?:CC|AS)(?: \[M\])? +(\S+\.o)$", re.MULTILINE)
# The same bytes whoever builds it, when and where.
_REPRODUCIBLE = (
    "KBUILD_BUILD_TIMESTAMP=2023-01-01",
    "KBUILD_BUILD_USER=virtoll",
    "KBUILD_BUILD_HOST=guest",
    "KBUILD_BUILD_VERSION=1",
)
# Of the archive, what the smallest configuration of the guest's architecture and that directory needs: a twentieth of
# it. tar refuses a pattern that nothing is like, so each architecture has its own.
_ARCHITECTURES: Final[dict[str, tuple[str, ...]]] = {
    "x86_64": (
        "arch/x86/Kbuild",
        "arch/x86/Makefile*",
        "arch/x86/boot/*",
        "arch/x86/configs/*",
        "arch/x86/entry/*",
        "arch/x86/include/*",
        "arch/x86/kernel/asm-offsets*",
        "arch/x86/realmode/*",
        "arch/x86/tools/*",
    ),
    "aarch64": (
        "arch/arm64/Kbuild",
        "arch/arm64/Makefile*",
        "arch/arm64/boot/Makefile",
        "arch/arm64/boot/dts/*Makefile",
        "arch/arm64/configs/*",
        "arch/arm64/include/*",
        "arch/arm64/kernel/asm-offsets*",
        "arch/arm64/kernel/vdso/*",
        "arch/arm64/tools/*",
        "arch/x86/entry/syscalls/syscall_32.tbl",  # what every architecture's system calls are compared with
        "include/acpi/*",
        "include/clocksource/*",
        "include/kvm/*",
        "lib/vdso/*",
    ),
}
_QUICK_MEMBERS = (
    "Kbuild",
    "Kconfig",
    "Makefile",
    "*/Kconfig*",
    "include/asm-generic/*",
    "include/crypto/*",
    "include/linux/*",
    "include/uapi/*",
    "include/vdso/*",
    "include/video/*",
    "kernel/bounds.c",
    "kernel/configs/*",
    "kernel/time/timeconst.bc",
    "lib/Makefile",
    "lib/math/*",
    "scripts/*",
    "tools/include/*",
)
_PEER_FOLDER = "/tmp/virtoll-kernel"  # noqa: S108 - beside the peer, in a file system of its own
_MAKING, _HASHES, _PACKED = f"{_PEER_FOLDER}-tree", f"{_PEER_FOLDER}.made", "tree.tar.gz"


@dataclass(frozen=True)
class _Size:
    """What is unpacked (nothing: all of it), how it is configured, what is built (nothing: what make builds by itself,
    which is the kernel, its boot image and its modules); native times; room in bytes.

    ``made_at_peer``: the tree is made once next to the peer, and the guest gets a copy.
    """

    members: tuple[str, ...]  # of every architecture; the guest's are its own besides
    configured: tuple[str, ...]
    targets: tuple[str, ...]
    made_at_peer: bool
    native_seconds: float
    prepare_seconds: float
    memory_bytes: int
    data_bytes: int


_SIZES: Final[dict[str, _Size]] = {
    "quick": _Size(
        members=_QUICK_MEMBERS,
        configured=("tinyconfig", "prepare"),
        targets=("lib/math/",),
        made_at_peer=True,
        native_seconds=2.0,
        prepare_seconds=2.0,
        memory_bytes=24 * _MIB,
        data_bytes=128 * _MIB,
    ),
    "paper": _Size(
        members=(),
        configured=("defconfig",),
        targets=(),
        made_at_peer=False,
        native_seconds=1000.0,
        prepare_seconds=30.0,
        memory_bytes=160 * _MIB,
        data_bytes=2600 * _MIB,
    ),
}
_MAKING_SECONDS = 1800.0


class KernelCompileParameters(Parameters):
    """``size``: *quick* builds the directory lib/math/ of the smallest configuration, *paper* all of defconfig.

    All is what plain ``make`` builds: the kernel, its boot image and its modules.
    ``jobs``: how many commands make runs at once; ``vcpus``: as many as the guest has virtual CPUs. The studies gave
    one to eight cores. ``timed``: the build alone, or what Suresh timed: unpacking (at paper size configuring too),
    then the build.
    """

    size: Literal["quick", "paper"] = Field(
        default="quick", description="quick: lib/math/ of the smallest configuration; paper: all of defconfig"
    )
    jobs: Annotated[int, Field(ge=1, le=1024)] | Literal["vcpus"] = Field(
        default=1, description="commands that make runs at once; vcpus: as many as the guest has CPUs"
    )
    timed: Literal["build", "unpack-and-build"] = Field(
        default="build", description="the build alone, or unpacking too"
    )


class KernelCompile(ProgramWorkload[KernelCompileParameters]):
    """The check value is how many of the objects that make said it compiles are there. Quick: with their hash, which is
    that of the same objects built beside the peer. Paper: and how many are left to do.
    """

    name: ClassVar[str] = "kernel-compile"
    title: ClassVar[str] = "compiling Linux"
    about: ClassVar[str] = "a Linux kernel, or a part of it, compiled"
    origin: ClassVar[str] = "Camargos 2008, Suresh 2014"
    resource: ClassVar[str] = "application"
    parameter_model = KernelCompileParameters
    limit_bytes: ClassVar[int] = 2 * _MIB
    packages: ClassVar[tuple[str, ...]] = (
        "bc",
        "bison",
        "flex",
        "gcc",
        "libc6-dev",
        "libelf-dev",
        "libssl-dev",
        "make",
        "rsync",
        "xz-utils",
        KERNEL_SOURCE,
    )
    most_slowdown: ClassVar[float] = 15.0

    def native_seconds(self) -> float:
        """On one core; how much more jobs help is what is measured."""
        size = self._size()
        return size.native_seconds + (size.prepare_seconds if self._unpacks else 0.0)

    def needs(self) -> Needs:
        """What no build goes without: a compiler's memory for each job; and the unpacked source with its objects.

        Linking all of the kernel may take more than compiling its largest file: that is found by trying.
        """
        size, jobs, a_job = self._size(), self.parameters.jobs, 32 * _MIB
        if jobs == "vcpus":
            return Needs(size.memory_bytes, memory_bytes_a_vcpu=a_job, data_bytes=size.data_bytes)
        return Needs(size.memory_bytes + a_job * jobs, data_bytes=size.data_bytes)

    def estimate_seconds(self, slowdown: float) -> float:
        """Making the tree, and the build."""
        size = self._size()
        return (size.prepare_seconds + size.native_seconds) * min(slowdown, self.most_slowdown)

    def measure(self, bench: Bench) -> Measurement:
        """The tree is gone afterwards, also when the trial fails."""
        with folder_of_its_own(bench.guest, _folder(bench), 900.0):
            return super().measure(bench)

    def prepare(self, bench: Bench) -> str | None:
        """A fresh tree, configured; the hash of the right objects, where they were built beside the peer."""
        size, folder, guest = self._size(), _folder(bench), bench.guest
        seconds = 60.0 + 200.0 * size.prepare_seconds
        if not size.made_at_peer and self._unpacks:
            run(guest, ["cksum", ARCHIVE], seconds)  # into the page cache, as the tree is otherwise
            first = unpack_command(folder, members_of(size.members, platform.machine()))
            write(guest, _makefile(folder), makefile(folder, first, (*size.configured, "all")))
            return None
        if not size.made_at_peer:
            self._make_tree(guest, folder, size, seconds, self._jobs(bench))
            return None
        maker = bench.programs
        if maker is None:
            raise GuestCannot(
                "its source is unpacked on the host of the network peer, on a host without the image; reach it by SSH "
                "('testbed.generator'), ask for 'size: paper', or take this workload out"
            )
        if not there(maker, _HASHES):
            self._make_at_peer(maker, size)
        with turns.kept(), far_end(bench, PathParameters()) as end, daemon(maker, _PEER_FOLDER):
            fetch(guest, end.near, folder, seconds)
        packed = f"{folder}/{_PACKED}"
        unpack = ["tar", "--extract", "--gzip", "--file", packed, "--directory", folder, "--no-same-owner"]
        if self._unpacks:
            write(guest, _makefile(folder), makefile(folder, unpack, size.targets))
        else:
            run(guest, unpack, seconds)
            run(guest, ["rm", packed])
        return _digest(run(maker, ["cat", _HASHES]))

    def _make_tree(self, maker: Caller, folder: str, size: _Size, seconds: float, jobs: int) -> None:
        """Unpack and configure."""
        run(maker, unpack_command(folder, members_of(size.members, platform.machine())), seconds)
        for target in size.configured:
            run(maker, make_command(folder, (target,), jobs), seconds, self.limit_bytes)

    def _make_at_peer(self, maker: Caller, size: _Size) -> None:
        """The packed tree for all of the run's guests, and the hashes of the objects that it was built to once."""
        run(maker, ["rm", "-rf", _MAKING, _PEER_FOLDER])
        run(maker, ["mkdir", _MAKING, _PEER_FOLDER])
        self._make_tree(maker, _MAKING, size, _MAKING_SECONDS, 1)
        run(maker, make_command(_MAKING, size.targets, 1), _MAKING_SECONDS, self.limit_bytes)
        hashes = run(maker, hash_command(_MAKING, size.targets))
        made = ["find", *_below(_MAKING, size.targets), "-regex", r".*\.\(a\|cmd\|mod\|o\)", "-type", "f", "-delete"]
        run(maker, made)
        pack = ["tar", "--create", "--use-compress-program", "gzip --fast", "--file", f"{_PEER_FOLDER}/{_PACKED}"]
        run(maker, [*pack, "--directory", _MAKING, KERNEL_SOURCE], _MAKING_SECONDS)
        run(maker, ["rm", "-rf", _MAKING])
        write(maker, _HASHES, hashes)

    def command(self, bench: Bench) -> list[str]:
        """The build, or the makefile that unpacks before it."""
        folder = _folder(bench)
        if self._unpacks:
            return ["make", "--file", _makefile(folder), f"--jobs={self._jobs(bench)}", *_REPRODUCIBLE]
        return make_command(folder, self._size().targets, self._jobs(bench))

    def figures(self, program: ProgramOutput) -> Figures:
        """The objects that it compiled, by its own words: of the tree's own tools it says the whole path."""
        objects = sorted({name.rpartition(f"/{KERNEL_SOURCE}/")[2] for name in _COMPILED.findall(program.output)})
        if not objects:
            raise ValueError("no object was compiled")
        return {"objects": objects}

    def check(self, bench: Bench, figures: Figures) -> str:
        """Look for the objects; then hash them, or have make say what is left to do."""
        folder, size = _folder(bench), self._size()
        guest, tree = bench.guest, f"{folder}/{KERNEL_SOURCE}"
        listed = ["find", tree, "-name", "*.o", "-type", "f", "-size", "+0", "-printf", "%P\\n"]
        objects = set(run(guest, listed, 300.0, self.limit_bytes).splitlines())
        compiled = f"{len(objects.intersection(figures['objects']))} objects"
        if size.made_at_peer:
            return f"{compiled}, {_digest(run(guest, hash_command(folder, size.targets), 300.0))}"
        build = make_command(folder, size.targets, self._jobs(bench))
        again = run(guest, build, self.deadline_seconds(), self.limit_bytes)
        return f"{compiled}, {_left(len(_COMPILED.findall(again)))}"

    def _jobs(self, bench: Bench) -> int:
        return bench.vcpus if self.parameters.jobs == "vcpus" else self.parameters.jobs

    def _size(self) -> _Size:
        return _SIZES[self.parameters.size]

    @property
    def _unpacks(self) -> bool:
        """Whether unpacking is timed."""
        return self.parameters.timed == "unpack-and-build"

    def expected(self, prepared: str | None, figures: Figures) -> str | None:
        """All that it said: the same objects as beside the peer, or nothing left."""
        return f"{len(figures['objects'])} objects, {prepared or _left(0)}"


def _digest(hashes: str) -> str:
    """One hash of what sha256sum said, in whichever order, without the folder that the tree is in."""
    lines = sorted(f"{line[:64]} {line.partition(KERNEL_SOURCE)[2]}\n" for line in hashes.splitlines())
    return f"sha256 {hashlib.sha256(''.join(lines).encode()).hexdigest()[:16]}"


def hash_command(folder: str, targets: tuple[str, ...]) -> list[str]:
    """The hash of each object of these directories."""
    return ["find", *_below(folder, targets), "-name", "*.o", "-type", "f", "-exec", "sha256sum", "{}", "+"]


def _below(folder: str, targets: tuple[str, ...]) -> list[str]:
    return [f"{folder}/{KERNEL_SOURCE}/{target}" for target in targets]


def members_of(members: tuple[str, ...], machine: str) -> tuple[str, ...]:
    """With those of an architecture (``uname -m``: a guest's is its host's); all of the archive stays all of it."""
    return (*members, *_ARCHITECTURES.get(machine, ())) if members else ()


def unpack_command(folder: str, members: tuple[str, ...]) -> list[str]:
    """All of the archive, or the members that match."""
    command = ["tar", "--extract", "--file", ARCHIVE, "--directory", folder, "--no-same-owner"]
    if members:
        command += ["--wildcards", *(f"{KERNEL_SOURCE}/{member}" for member in members)]
    return command


def make_command(folder: str, targets: tuple[str, ...], jobs: int) -> list[str]:
    """make in the unpacked tree."""
    return ["make", "--directory", f"{folder}/{KERNEL_SOURCE}", f"--jobs={jobs}", *_REPRODUCIBLE, *targets]


def makefile(folder: str, unpack: Sequence[str], targets: Sequence[str]) -> str:
    """A makefile that runs a program, and then builds targets of the tree that it unpacked, one after another.

    What is built has the jobs, and the names to write down, that the makefile itself is made with.
    """
    tree = shlex.quote(f"{folder}/{KERNEL_SOURCE}")
    recipe = [shlex.join(unpack), *(f"$(MAKE) --directory {tree} {target}" for target in targets)]
    return "all:\n" + "".join(f"\t{line}\n" for line in recipe)


def _left(objects: int) -> str:
    return f"{objects} left to do"


def _makefile(folder: str) -> str:
    return f"{folder}/unpack-and-build.mk"


def _folder(bench: Bench) -> str:
    return f"{bench.data.path}/virtoll-kernel"
