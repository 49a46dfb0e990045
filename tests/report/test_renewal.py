"""A folder that is made anew: whole or not at all, also for who reads it meanwhile and where the maker is killed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.facts import refused

from virtoll.errors import RunFolderError
from virtoll.report.renewal import renewed
from virtoll.runfolder.sums import SUMS, differences, write_sums

MAKER = """
import itertools, sys
from pathlib import Path
from virtoll.report.renewal import renewed
for number in itertools.count(1):
    with renewed(Path(sys.argv[1])) as new:
        for name in ("index.html", "methods.md", "tables/one.csv", "tables/two.csv"):
            (new / name).parent.mkdir(exist_ok=True)
            (new / name).write_text(str(number))
    print(number, flush=True)
"""
NAMES = ("index.html", "methods.md", "tables/one.csv", "tables/two.csv")
DEADLINE_SECONDS = 60.0


def make(target: Path, text: str, *names: str) -> None:
    """The folder anew, with this in each file."""
    with renewed(target) as new:
        for name in names or NAMES:
            (new / name).parent.mkdir(exist_ok=True)
            (new / name).write_text(text, encoding="utf-8")


def make_half(target: Path) -> None:
    """An interrupt comes when the first file is there."""
    with renewed(target) as new:
        (new / "index.html").write_text("half", encoding="utf-8")
        raise KeyboardInterrupt


def told(target: Path) -> dict[str, str]:
    """Every file with what is in it."""
    files = (one for one in target.rglob("*") if one.is_file() and one.name != SUMS)
    return {str(one.relative_to(target)): one.read_text(encoding="utf-8") for one in files}


def test_it_takes_the_old_ones_place_and_leaves_nothing_beside(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "report"
    for text in ("one", "two", "three"):
        make(target, text)
        assert told(target) == dict.fromkeys(NAMES, text)
        assert list(target.parent.iterdir()) == [target]
    make(target, "four", *NAMES[:3])
    assert told(target) == dict.fromkeys(NAMES[:3], "four"), "what is no longer made is gone with the old one"


def test_each_file_is_on_the_disk_before_it_takes_the_old_ones_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, fsync = set(), os.fsync

    def noted(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(Path(f"/proc/self/fd/{descriptor}").readlink().name)

    monkeypatch.setattr(os, "fsync", noted)
    make(tmp_path / "report", "one")
    assert {Path(name).name for name in (*NAMES, SUMS)} <= synced


def test_an_exception_leaves_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "report"
    for before in ({}, dict.fromkeys(NAMES, "one")):
        with pytest.raises(KeyboardInterrupt):
            make_half(target)
        assert told(target) == before
        assert [one.name for one in tmp_path.iterdir()] == (["report"] if before else [])
        make(target, "one")


def test_what_somebody_else_has_in_it_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("notes", encoding="utf-8")
    for text in ("one", "two"):
        make(tmp_path, text)
        assert told(tmp_path) == {**dict.fromkeys(NAMES, text), "mine/notes.txt": "notes"}


def test_a_link_is_followed_only_where_the_user_named_it(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "report").symlink_to("elsewhere")
    with refused(tmp_path / "report", "link", error=RunFolderError), renewed(tmp_path / "report"):
        pass
    assert list((tmp_path / "elsewhere").iterdir()) == []
    with renewed(tmp_path / "report", may_be_link=True) as new:
        (new / "index.html").write_text("one", encoding="utf-8")
    assert (tmp_path / "report").is_symlink()
    assert told(tmp_path / "elsewhere") == {"index.html": "one"}


def test_one_under_way_is_left_alone_and_what_a_killed_one_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / ".report.new-0123abcd"
    (left / "tables").mkdir(parents=True)
    other = tmp_path / ".reports.new-0123abcd"
    other.mkdir()
    with renewed(tmp_path / "report") as new:
        assert not left.exists()
        (new / "index.html").write_text("first", encoding="utf-8")
        make(tmp_path / "report", "second")
        assert new.exists()
    assert sorted(one.name for one in tmp_path.iterdir()) == [other.name, "report"]


def test_a_new_report_is_no_part_of_a_runs_digests(tmp_path: Path) -> None:
    """A report may be written while the run ends."""
    (tmp_path / "trials.jsonl").write_text("{}\n", encoding="utf-8")
    with renewed(tmp_path / "report") as new:
        (new / "index.html").write_text("page", encoding="utf-8")
        write_sums(tmp_path)
    assert differences(tmp_path) == ()


@pytest.mark.parametrize("seed", range(5))
def test_a_killed_maker_leaves_the_old_one_or_the_new_one(seed: int, tmp_path: Path) -> None:
    """At a moment drawn by lot, after a few are there; who reads meanwhile always finds the page."""
    target, dice = tmp_path / "report", random.Random(seed)
    with subprocess.Popen([sys.executable, "-c", MAKER, str(target)], stdout=subprocess.PIPE) as maker:
        assert maker.stdout is not None
        for _ in range(dice.randint(1, 20)):
            last = int(maker.stdout.readline())
        moment = time.perf_counter() + dice.uniform(0, 0.01)
        while time.perf_counter() < moment:
            assert (target / "index.html").read_text(encoding="utf-8").isdigit()
        maker.kill()
    found = told(target)
    assert found.keys() == set(NAMES)
    assert len(set(found.values())) == 1
    assert int(found["index.html"]) >= last
    make(target, "next")
    assert told(target) == dict.fromkeys(NAMES, "next")
    assert list(tmp_path.iterdir()) == [target]
