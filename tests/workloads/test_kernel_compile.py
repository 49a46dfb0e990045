"""Compiling Linux: the tree beside the peer and its copy, the objects that must come out, jobs, and unpacking."""

from __future__ import annotations

import subprocess
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.facts import Fact, refused
from tests.support.workload_trials import ProgramGuest, assert_problem, measure, result_of, trial_bench

from virtoll.agent import turns
from virtoll.errors import GuestCannot
from virtoll.pipeline.requirements import unmet
from virtoll.pipeline.threads import at_once
from virtoll.workloads import WORKLOADS, kernel_compile
from virtoll.workloads.base import Bench

FOLDER = "/data/virtoll-kernel"
GONE = ["rm", "-rf", FOLDER]
# As make of Linux 6.1 prints it.
COMPILED = """make: Entering directory '/data/virtoll-kernel/linux-source-6.1'
  CALL    scripts/checksyscalls.sh
  CC      lib/math/gcd.o
  AS      lib/math/thing.o
  AR      lib/math/lib.a
"""
OBJECTS = ("lib/math/gcd.o", "lib/math/thing.o")


def hashed(folder: str, *digits: str) -> str:
    """What sha256sum says of the objects."""
    lines = [f"{digit * 64}  {folder}/linux-source-6.1/{name}\n" for digit, name in zip(digits, OBJECTS, strict=False)]
    return "".join(lines)


def beside(made: bool = True, guests: int = 1) -> ProgramGuest:
    """The image's programs beside the peer, where the tree and its objects are made, or are there already."""
    right = {"stdout": hashed("/tmp/virtoll-kernel", "a", "b")}
    return ProgramGuest({"find": [{"stdout": "x"}] * guests if made else [{}, right], "cat": [right] * guests})


def compiling(*digits: str, listed: str = "\n".join(OBJECTS), kind: type[ProgramGuest] = ProgramGuest) -> ProgramGuest:
    """A guest that compiles two objects, in another order than beside the peer."""
    lines = hashed(FOLDER, *digits).splitlines(keepends=True)
    finds = [{"stdout": listed}, {"stdout": "".join(lines[::-1])}]
    return kind({"find": finds}, timed={"stdout": COMPILED})


def whole(printed: str = COMPILED, objects: tuple[str, ...] = OBJECTS, left: str = "") -> ProgramGuest:
    """A guest that compiles a whole kernel; ``left``: what make says when it is asked again."""
    programs = {"find": [{"stdout": "\n".join(objects)}], "make": [{}, {}, {"stdout": left}]}
    return ProgramGuest(programs, timed={"stdout": printed})


def quick_bench(guest: ProgramGuest, programs: ProgramGuest | None = None) -> Bench:
    return trial_bench(guest, ProgramGuest(), programs or beside())


def built(guest: ProgramGuest) -> list[list[str]]:
    return [argv for argv in guest.ran if argv[0] == "make"]


@pytest.mark.parametrize("made", [False, True])
def test_the_quick_tree_is_made_once_beside_the_peer_and_copied(made: bool) -> None:
    guest, programs = compiling("a", "b"), beside(made)
    result = result_of(measure("kernel-compile", quick_bench(guest, programs), jobs=2))
    assert result["figures"]["objects"] == sorted(OBJECTS)
    assert [argv[-1] for argv in built(programs)] == ([] if made else ["tinyconfig", "prepare", "lib/math/"])
    unpacked = {member for argv in programs.ran if "--extract" in argv for member in argv}
    needed = {f"linux-source-6.1/{name}" for name in ("Makefile", "lib/Makefile", "lib/math/*")}
    assert unpacked & needed == (set() if made else needed)
    written = [argv[-1] for argv in programs.ran if argv[0] == "tee"]
    assert written == ([] if made else ["/tmp/virtoll-kernel.made"]) + ["/tmp/virtoll-rsyncd.conf"]
    deleted = [argv for argv in programs.ran if argv[-1] == "-delete"]
    assert made == (not deleted), "what was built there does not go along"
    copied = next(argv for argv in guest.ran if argv[0] == "rsync")
    assert copied[-1] == f"{FOLDER}/"
    assert [argv[-2:] for argv in built(guest)] == [["KBUILD_BUILD_VERSION=1", "lib/math/"]]
    assert guest.ran[-1] == GONE
    assert programs.servers == {}


def test_guests_at_once_fetch_the_tree_one_after_another() -> None:
    """Who starts a guest's programs waits for them, so that the other one could go on."""
    fetching: list[ProgramGuest] = []
    at_a_time: list[int] = []
    second = threading.Event()

    class Fetching(ProgramGuest):
        def run(self, argv: list[str]) -> dict[str, Any]:
            if argv[0] == "rsync":
                fetching.append(self)
                if len(fetching) > 1:
                    second.set()
                with turns.given_up():
                    second.wait(0.05)
                at_a_time.append(len(fetching))
                fetching.remove(self)
            return super().run(argv)

    programs = beside(guests=2)
    benches = [quick_bench(compiling("a", "b", kind=Fetching), programs) for _ in range(2)]
    for measured in at_once([partial(measure, "kernel-compile", bench) for bench in benches]):
        assert result_of(measured)["figures"]["objects"] == sorted(OBJECTS)
    assert at_a_time == [1, 1]


@pytest.mark.parametrize(
    ("guest", "facts"),
    [
        (compiling("a", "b", listed=OBJECTS[0]), ("1 objects", "2 objects")),
        (compiling("a", "c"), ("2 objects", "sha256")),
        (compiling("a"), ("2 objects", "sha256")),
    ],
)
def test_objects_are_the_same_as_those_built_beside_the_peer(guest: ProgramGuest, facts: tuple[Fact, ...]) -> None:
    assert_problem(measure("kernel-compile", quick_bench(guest)), *facts)
    assert guest.ran[-1] == GONE


def test_a_build_that_compiled_nothing_is_a_problem() -> None:
    assert_problem(measure("kernel-compile", whole("make: nothing to be done"), size="paper"), "make", "object")


def test_a_tree_needs_a_place_beside_the_peer() -> None:
    guest = ProgramGuest()
    with refused("'testbed.generator'", "'size: paper'", error=GuestCannot):
        measure("kernel-compile", trial_bench(guest, ProgramGuest()))
    assert guest.ran[-1] == GONE


def test_the_papers_size_is_a_whole_kernel_made_in_the_guest() -> None:
    """make names the objects of its own tools with their whole paths, and marks those of modules."""
    assert kernel_compile.unpack_command("/data/x", ())[-1] == "--no-same-owner"
    tool, module = "tools/objtool/check.o", "net/ipv4/netfilter/iptable_nat.o"
    printed = f"{COMPILED}  CC      {FOLDER}/linux-source-6.1/{tool}\n  CC [M]  {module}\n"
    guest = whole(printed, (*OBJECTS, tool, module))
    measured = measure("kernel-compile", guest, size="paper", jobs=8)
    assert len(result_of(measured)["figures"]["objects"]) == 4
    assert measured.check is not None
    assert measured.check.value.split(", ")[0] == "4 objects"
    assert [argv[-1] for argv in built(guest)] == ["defconfig", *["KBUILD_BUILD_VERSION=1"] * 2], "plain make"
    assert all("--jobs=8" in argv for argv in built(guest))


def test_a_job_for_each_virtual_cpu() -> None:
    guest = whole()
    measure("kernel-compile", trial_bench(guest, vcpus=4), size="paper", jobs="vcpus", timed="unpack-and-build")
    assert len(built(guest)) == 2
    assert all("--jobs=4" in argv for argv in built(guest)), "the build, and the one that says what is left to do"
    needs, eight = (
        WORKLOADS["kernel-compile"].with_parameters({"size": "paper", "jobs": jobs}).needs() for jobs in ("vcpus", 8)
    )
    assert needs.memory_bytes + 8 * needs.memory_bytes_a_vcpu == eight.memory_bytes
    assert unmet("kernel-compile", needs, (8, eight.memory_bytes), "model", {}) is None
    assert unmet("kernel-compile", needs, (8, eight.memory_bytes - 1), "model", {}) is not None


def test_a_kernel_that_is_compiled_again_was_not_done() -> None:
    guest = whole(left="  CC      lib/math/gcd.o\n")
    assert_problem(measure("kernel-compile", guest, size="paper"), "1 left", "0 left")


def test_unpacking_the_copy_can_be_timed_with_the_build() -> None:
    guest = compiling("a", "b")
    result = result_of(measure("kernel-compile", quick_bench(guest), jobs=2, timed="unpack-and-build"))
    assert result["argv"][:4] == ["make", "--file", f"{FOLDER}/unpack-and-build.mk", "--jobs=2"]
    assert "tar" not in guest.names, "before the mark nothing is unpacked"


def test_unpacking_the_whole_archive_can_be_timed_with_the_build() -> None:
    guest = whole()
    measured = measure("kernel-compile", guest, size="paper", jobs=8, timed="unpack-and-build")
    result_of(measured)
    assert "--directory" in built(guest)[-1], "what is left to do is asked of the build alone"


def test_the_makefile_unpacks_configures_and_builds_by_as_many_jobs(tmp_path: Path) -> None:
    """By the real make, on a small tree whose own makefile says what it is asked."""
    folder, tree = tmp_path / "a folder", tmp_path / "packed" / "linux-source-6.1"
    folder.mkdir()
    tree.mkdir(parents=True)
    recipe = "@echo $@ $(filter -j%,$(MAKEFLAGS)) $(KBUILD_BUILD_USER) >>recorded"
    (tree / "Makefile").write_text(f"all: one two\n\t{recipe}\none two: ; sleep 0\ndefconfig:\n\t{recipe}\n")
    unpack = ["cp", "-r", str(tree), str(folder)]
    (folder / "it.mk").write_text(kernel_compile.makefile(str(folder), unpack, ("defconfig", "all")))
    argv = ["make", "--file", str(folder / "it.mk"), "--jobs=3", "KBUILD_BUILD_USER=virtoll"]
    subprocess.run(argv, check=True, capture_output=True)
    lines = (folder / "linux-source-6.1" / "recorded").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["defconfig", "all"]
    assert all(line.split()[-2:] == ["-j3", "virtoll"] for line in lines)
