"""Who writes a run: one process, which others see and name, and which nobody stops who may only read the folder."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.commands import environment
from tests.support.facts import assert_facts, refused
from tests.support.repository import ROOT

from virtoll.errors import RunFolderError
from virtoll.runfolder import jsonlines
from virtoll.runfolder.jsonlines import replace
from virtoll.runfolder.overview import state_now
from virtoll.runfolder.plain import entries
from virtoll.runfolder.taken_over import WRITER
from virtoll.runfolder.writer import is_written, writer_words, writing

NOBODY, GROUP = 65534, 65533
HOLDER = """
import fcntl, os, sys
held = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(held, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
WRITES = """
import sys
from pathlib import Path
from virtoll.runfolder.writer import writing
with writing(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to act as another user")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that is under way, by a path that other users can follow."""
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o755)
    Path("run").mkdir(0o755)
    jsonlines.replace(Path("run/state.json"), {"state": "running", "reason": None})
    return Path("run")


def started(script: str, path: Path) -> subprocess.Popen[str]:
    """A process that holds something until its standard input ends."""
    command = [sys.executable, "-c", script, str(path.absolute())]
    process = subprocess.Popen(
        command, env=environment(), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def as_another(work: Callable[[], object], user: int = NOBODY, group: int = GROUP) -> str:
    """What a call gives to another user, in words."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(group, group, group)
            os.setresuid(user, user, user)
            os.umask(0o002)
            answer = repr(work())
        except BaseException as error:  # noqa: BLE001 - its words are the answer
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as file:
        return file.read()


def hold(folder: Path) -> None:
    with writing(folder):
        pass


def test_a_lock_of_the_folder_stops_nobody(run: Path) -> None:
    with started(HOLDER, run) as holder:
        assert not is_written(run)
        assert state_now(run) == "killed"
        with writing(run):
            assert is_written(run)
            assert stat.S_IMODE((run / WRITER).stat().st_mode) == 0o600
        holder.communicate()
    assert not (run / WRITER).exists()


def test_the_process_that_writes_is_named(run: Path) -> None:
    with started(WRITES, run) as process:
        assert str(process.pid) in str(writer_words(run))
        with refused(run, process.pid, error=RunFolderError):
            hold(run)
        assert state_now(run) == "running"
        process.kill()
        process.communicate()
    assert (run / WRITER).exists()
    assert state_now(run) == "killed"
    hold(run)
    assert not (run / WRITER).exists()


def test_a_writer_on_another_host_is_named_by_its_word(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lock is seen through the disk, and not in this kernel's list, which no setting names."""
    monkeypatch.setattr("virtoll.runfolder.writer._LOCKS", run / "none")  # this kernel's list
    with started(WRITES, run) as process:
        assert_facts(str(writer_words(run)), process.pid, os.uname().nodename)
        process.communicate()


@as_root
def test_another_user_sees_who_writes_and_stops_nobody(run: Path) -> None:
    with started(WRITES, run) as process:
        assert as_another(lambda: state_now(run)) == "'running'"
        assert str(process.pid) in as_another(lambda: writer_words(run))
        assert as_another(lambda: os.open(run / WRITER, os.O_RDONLY)).startswith("PermissionError")
        process.kill()
        process.communicate()
    assert as_another(lambda: state_now(run)) == "'killed'"


@as_root
def test_a_disk_of_several_hosts_is_believed_where_the_file_is_there(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader who may not open the file cannot tell a killed writer of another host from one that lives."""
    # No disk of this machine is one of several hosts.
    monkeypatch.setattr("virtoll.runfolder.writer._LOCAL", frozenset())
    (run / WRITER).touch(0o600)
    assert as_another(lambda: state_now(run)) == "'running'"
    assert state_now(run) == "killed"


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("state.json")])
def test_what_is_no_file_in_its_place_is_refused(make: Callable[[Path], None], run: Path) -> None:
    make(run / WRITER)
    with refused(run / WRITER, error=RunFolderError):
        hold(run)
    assert not is_written(run)
    assert (run / WRITER).lstat().st_mode


@as_root
def test_another_users_file_in_its_place_is_refused(run: Path) -> None:
    (run / WRITER).touch()
    os.chown(run / WRITER, NOBODY, GROUP)
    with refused(run / WRITER, "nobody", error=RunFolderError):
        hold(run)
    assert (run / WRITER).stat().st_uid == NOBODY


@as_root
def test_a_folder_that_a_group_shares_is_written_by_each_of_it(run: Path) -> None:
    """What is checked: plain entries, and nobody else's lock. Files of others are read, appended to and replaced."""
    os.chown(run, NOBODY, GROUP)
    run.chmod(0o2775)
    (run / "state.json").chmod(0o664)
    os.chown(run / "state.json", NOBODY, GROUP)

    def write() -> None:
        with writing(run):
            jsonlines.append(run / "trials.jsonl", jsonlines.encode({"by": os.geteuid()}))
            jsonlines.replace(run / "state.json", {"state": "interrupted", "reason": None})
            jsonlines.make_folder(run / "evidence" / str(os.geteuid()), run)

    for user in (1001, 1002, NOBODY):
        assert as_another(write, user) == "None"
    assert [line for _, line in jsonlines.read(run / "trials.jsonl")] == [
        b'{"by":1001}',
        b'{"by":1002}',
        b'{"by":65534}',
    ]
    assert {status.st_gid for _, status in entries(run)} == {GROUP}
    (run / "evidence" / "1001" / "link").symlink_to("/etc/passwd")
    assert_facts(as_another(write, 1002), "RunFolderError", "evidence/1001/link")


def test_a_folder_without_a_bottom_is_refused(run: Path) -> None:
    deep = run.joinpath(*["below"] * 40)
    deep.mkdir(parents=True)
    with refused(run, 16, error=RunFolderError):
        hold(run)
    shutil.rmtree(run / "below")
    hold(run)


def test_a_text_is_stored_as_a_person_reads_it(tmp_path: Path) -> None:
    replace(tmp_path / "it.json", {"question": "Größe?"})
    assert '"Größe?"' in (tmp_path / "it.json").read_text(encoding="utf-8")
