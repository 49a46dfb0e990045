"""A lab as it is seen from inside: its namespaces, its mounts, programs run and started in it, another root."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.facts import assert_refused, refused

from virtoll.errors import GuestError
from virtoll.image import prepare_image
from virtoll.image.clone import built_agent
from virtoll.lab.commands import PIPED, ProcessOptions
from virtoll.lab.enter import Bind, Enter, ExecutionReport
from virtoll.lab.init import SCRATCH
from virtoll.lab.inside import Lab, end_process, this_lab, wait_until

INSIDE_LAB = True
pytestmark = pytest.mark.lab


def test_it_is_alone() -> None:
    assert os.getppid() == 1
    assert {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()} == {1, os.getpid()}
    names = [line.partition(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]]
    assert names == ["lo"]
    assert {entry.name for entry in Path("/sys/class/net").iterdir()} == {"lo"}
    assert "LOWER_UP" in subprocess.run(["ip", "link", "show", "lo"], capture_output=True, text=True, check=True).stdout


def test_temporary_files_go_with_it() -> None:
    assert {entry.name for entry in Path("/run").iterdir()} <= {"virtoll", "mount"}
    assert os.environ["TMPDIR"] == str(SCRATCH / "tmp")
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    kinds = {line.split()[4]: line.split(" - ")[1].split()[0] for line in mounts}
    assert kinds["/run"] == "tmpfs"
    assert kinds["/sys"] == "sysfs"


def test_cgroups_are_still_there() -> None:
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    assert any(line.split()[4].startswith("/sys/fs/cgroup") for line in mounts)


def test_programs_are_recorded_and_their_failures_named() -> None:
    recorded: list[tuple[str, list[str], int | None]] = []

    def record(role: str, argv: Sequence[str], code: int | None) -> None:
        recorded.append((role, list(argv), code))

    lab = this_lab(record)
    assert lab.run(["echo", "a b"], "test") == "a b\n"
    with refused("7: the last line", error=GuestError):
        lab.run(["sh", "-c", "echo first >&2; echo the last line >&2; exit 7"], "test")
    with refused("sleep 100", "0.1 s", error=GuestError):
        lab.run(["sleep", "100"], "test", deadline_seconds=0.1)
    with refused("no-such-program", "not found", "install", error=GuestError):
        lab.run(["no-such-program"], "test")
    with refused("it: error: the cause", error=GuestError) as raised:
        lab.run(["sh", "-c", "echo begun; echo it: error: the cause >&2; echo Context >&2; exit 1"], "test")
    assert str(raised.value).endswith("1: it: error: the cause")
    assert [(entry[1][0], entry[2]) for entry in recorded] == [("echo", 0), ("sh", 7), ("sleep", None), ("sh", 1)]
    assert {entry[0] for entry in recorded} == {"test"}


def test_a_folder_of_path_that_may_not_be_read_hides_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """execvp(3) then says of what is missing that it is forbidden, as it says of this file."""
    forbidden = tmp_path / "forbidden"
    forbidden.write_text("not a program")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with refused("forbidden", "not found", "install", error=GuestError):
        this_lab().run(["forbidden"], "test")


def test_a_program_is_pinned_from_its_first_instruction() -> None:
    cpu = max(os.sched_getaffinity(0))
    options = ProcessOptions(cpus=(cpu,), stdout=subprocess.PIPE)
    lab = this_lab()
    lab.agent = built_agent()
    process = lab.spawn(["grep", "Cpus_allowed_list", "/proc/self/status"], "test", options)
    out, _ = process.communicate()
    assert out.split() == [b"Cpus_allowed_list:", str(cpu).encode()]
    with refused("no-such-program", "not found", error=GuestError):
        this_lab().spawn(["no-such-program"], "test")


@pytest.mark.parametrize("script", ["exec sleep 100", "trap '' TERM; while :; do sleep 1; done"])
def test_a_process_is_ended_with_its_session(script: str) -> None:
    process = this_lab().spawn(["sh", "-c", f"sleep 1000 & echo; {script}"], "test", PIPED)
    assert process.stdout is not None
    process.stdout.readline()
    end_process(process, patience_seconds=0.2)
    assert process.returncode in (-signal.SIGTERM, -signal.SIGKILL)
    assert process.stdout.read() == b"", "nobody of its session holds the pipe"
    end_process(process)


def test_guests_have_folders_of_their_own() -> None:
    lab = Lab("virtoll-0123456789ab")
    folders = {lab.guest_folder("netns") for _ in range(3)}
    assert len(folders) == 3
    assert all(folder.is_dir() and folder.is_relative_to(SCRATCH) for folder in folders)


def test_what_is_awaited_is_named() -> None:
    wait_until(lambda: True, 0.0, "nothing")
    with refused("the moon's rise", "0.05 s", error=GuestError):
        wait_until(lambda: False, 0.05, "the moon's rise")


def entered(around: Enter, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    command = [*around.prefix(built_agent()), *argv]
    return subprocess.run(command, capture_output=True, text=True, check=check)


def test_another_root_has_a_folder_of_the_hosts_where_it_is_asked_for(tmp_path: Path) -> None:
    image = prepare_image("debug", offline=True)
    (tmp_path / "a=b").mkdir()
    (tmp_path / "a=b" / "file").write_text("the host's\n")
    shares = (Bind(tmp_path / "a=b", Path("/data")),)
    around = Enter(namespaces=("mount",), root=image.root, shares=shares)
    said = entered(around, "/bin/busybox", "sh", "-c", "cat /data/file; echo written > /data/new")
    assert said.stdout == "the host's\n"
    assert (tmp_path / "a=b" / "new").read_text() == "written\n"
    assert list((image.root / "data").iterdir()) == []


def test_another_root_has_the_kernels_file_systems_and_is_not_written_to() -> None:
    image = prepare_image("debug", offline=True)
    before = sorted(str(path) for path in image.root.rglob("*"))
    script = "ls -d /proc/1 /sys/kernel /dev/null /dev/pts; ls /; echo x > /tmp/new && echo y > /dev/null; cat /tmp/new"
    around = Enter(namespaces=("mount",), root=image.root)
    said = entered(around, "/bin/busybox", "sh", "-c", script).stdout.split()
    assert said[:4] == ["/dev/null", "/dev/pts", "/proc/1", "/sys/kernel"]
    assert set(said[4:-1]) == {"bin", "data", "dev", "init", "proc", "run", "sys", "tmp", "usr"}
    assert said[-1] == "x"
    assert sorted(str(path) for path in image.root.rglob("*")) == before


def test_a_root_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    finished = entered(Enter(namespaces=("mount",), root=tmp_path), "/init", check=False)
    assert_refused(finished, tmp_path / "proc", "No such file", code=1)


def test_a_program_says_when_it_is_executed_and_its_start_needs_the_agent() -> None:
    lab = Lab("virtoll-0123456789ab", agent=built_agent())
    with ExecutionReport() as report:
        assert report.executed_monotonic_ns() is None
        before = time.monotonic_ns()
        enter = Enter(report=report.descriptor)
        options = ProcessOptions(enter=enter, stdout=subprocess.PIPE, pass_fds=(report.descriptor,))
        process = lab.spawn(["ls", "/proc/self/fd"], "test", options)
        said, _ = process.communicate()
        executed = report.executed_monotonic_ns()
        assert executed is not None
        assert before < executed < time.monotonic_ns()
        assert str(report.descriptor) not in said.decode().split()
    with refused("ls", "make agent", error=GuestError):
        Lab("virtoll-0123456789ab").spawn(["ls"], "test", ProcessOptions(cpus=(0,)))
