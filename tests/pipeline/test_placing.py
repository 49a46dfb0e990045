"""A merged run is put in its place as a whole: what is there and is not Virtoll's stays, and a kill leaves one run."""

from __future__ import annotations

import ctypes
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.campaign_parts import experiment, measured, merged
from tests.support.commands import environment
from tests.support.facts import refused
from tests.support.model_runs import measured as measured_run
from tests.support.repository import ROOT

from virtoll.errors import RunFolderError, StorageError, UsageError
from virtoll.pipeline.preview import plan_of
from virtoll.report import build_report
from virtoll.runfolder import placing
from virtoll.runfolder.overview import state_now
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.sums import differences
from virtoll.runfolder.writer import writing


def test_two_merges_at_once_are_refused(parts: Path) -> None:
    place = parts.parent / "run"
    with writing(place), refused(place, error=RunFolderError):
        merged(parts)
    assert merged(parts).blocks == 24


def test_links_of_parts_are_not_followed(parts: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("mine")
    (parts / "block-3/evidence/native").mkdir()
    (parts / "block-3/evidence/native/console.txt").symlink_to(tmp_path / "secret")
    with refused("console.txt", "link", error=UsageError):
        merged(parts)
    assert not (parts.parent / "run").exists()


@pytest.mark.parametrize("name", [".run.new-merge", ".run.old-merge", "run/evidence", "run/report", "run/.writer"])
def test_a_link_where_a_merge_writes_is_refused(name: str, parts: Path, tmp_path: Path) -> None:
    merged(parts)
    mine = tmp_path / "elsewhere" / "mine"
    mine.parent.mkdir()
    mine.write_text("mine")
    place = parts.parent / name
    shutil.rmtree(place, ignore_errors=True)
    place.symlink_to(mine.parent)
    with refused(place.name, "link", error=UsageError):
        merged(parts)
    assert place.is_symlink()
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("name", ["evidence/mine.txt", "report/tables/mine.csv", "notes.txt"])
def test_a_merge_removes_nothing_that_virtoll_did_not_make(name: str, parts: Path) -> None:
    run = merged(parts).folder
    if name.startswith("report"):
        build_report(run)
        assert merged(parts).folder == run, "a report is made again"
        build_report(run)
    (run / name).write_text("mine")
    with refused(name, error=UsageError):
        merged(parts)
    assert (run / name).read_text() == "mine"


def test_a_place_that_holds_something_else_is_refused(parts: Path) -> None:
    place = parts.parent / "run"
    place.mkdir()
    (place / "notes.txt").write_text("mine")
    with refused(place, "files", error=UsageError):
        merged(parts)
    shutil.rmtree(place)
    measured_run(experiment(blocks=1), place)
    with refused(place, "another run", error=UsageError):
        merged(parts)


KILLED_AT = """
import os, re, signal, sys
step, what = int(sys.argv.pop(1)), sys.argv.pop(1)
calls, PLACE = [], re.compile(r"/[.]?run([.]new-merge|[.]old-merge)?(/|$)")
def counted(event, arguments):
    if event in ("open", "os.rename", "os.mkdir", "os.rmdir", "os.remove") and PLACE.search(str(arguments[0])):
        calls.append(event)
        if len(calls) == step:
            os.kill(os.getpid(), signal.SIGKILL)
from virtoll.cli import main
if what == "exchanged":
    from virtoll.runfolder import placing
    def put(new, target, aside=None, put=placing.put):
        put(new, target, aside)
        os.kill(os.getpid(), signal.SIGKILL)
    placing.put = put
else:
    sys.addaudithook(counted)
main()
"""


def killed_merge(parts: Path, into: Path, step: int, what: str = "calls") -> int:
    """The exit code of a merge that is killed at a call of this number, or once the runs were exchanged."""
    command = [sys.executable, "-c", KILLED_AT, str(step), what, "campaign", "merge", str(parts), "--into", str(into)]
    return subprocess.run(command, env=environment(), cwd=ROOT, capture_output=True, check=False).returncode


@pytest.mark.parametrize("old", [False, True])
def test_a_kill_in_the_middle_of_a_merge_leaves_the_old_run_or_the_new(tmp_path: Path, old: bool) -> None:
    """SIGKILL at some of the calls that open, make, rename and remove files, and just after the exchange."""
    small, parts, into = experiment(blocks=3), tmp_path / "parts", tmp_path / "run"
    for block in (1, 2):
        measured(parts, block, of=small)
    if old:
        merged(parts, partial=True)
    measured(parts, 3, of=small)
    before = RunFolder.open(into).trials() if old else None
    for step in (6, 15, 31):
        if killed_merge(parts, into, step) != -signal.SIGKILL:
            break
        there = RunFolder.open(into).trials() if (into / "manifest.json").exists() else None
        if there != before:
            assert differences(into) == ()
            assert len(there or ()) == len(plan_of(small).trials)
            break
    assert killed_merge(parts, into, 0, "exchanged") == -signal.SIGKILL
    assert (state_now(into), differences(into)) == ("complete", ())
    assert (merged(parts).blocks, differences(into)) == (3, ())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts", "run"], "a killed merge left something"


def test_a_file_system_without_exchange_keeps_the_old_run_next_to_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two renames: after a kill between them both are whole, and the next merge takes the old one back."""

    def fill_disk() -> None:
        raise OSError(28, "No space left on device")

    class Without:
        """A C library whose file system has no exchange."""

        def renameat2(self, *_: object) -> int:
            ctypes.set_errno(22)
            return -1

    monkeypatch.setattr(placing, "_libc", Without())  # the call that only some file systems have
    target = tmp_path / "run"
    for content in ("first", "second"):
        with placing.placed(target) as new:
            (new / "manifest.json").write_text(content)
    assert (target / "manifest.json").read_text() == "second"
    target.rename(tmp_path / ".run.old-merge")
    with refused(target, "No space left", error=StorageError), placing.placed(target):
        fill_disk()
    assert (target / "manifest.json").read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
