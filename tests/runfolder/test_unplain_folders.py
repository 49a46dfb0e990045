"""A run folder of somebody else's making: links, pipes and second names in it change nothing elsewhere."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.support import experiments
from tests.support.commands import in_process, output_of
from tests.support.facts import assert_refused, refused

from virtoll.errors import RunFolderError
from virtoll.pipeline.execution import measure
from virtoll.pipeline.progress import SilentProgress
from virtoll.runfolder import jsonlines
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.sums import differences

pytestmark = pytest.mark.usefixtures("undrawn")
THERE = b"what stands elsewhere\n"
NEW = (".writer", "SHA256SUMS.new", "manifest.json.new", "state.json.new")
FILES = (*NEW, "trials.jsonl", "boots.jsonl", "state.json")
FOLDERS = ("report", "evidence", "explain")
WRITERS = (("resume",), ("extend", "--blocks", "+1"), ("explain",), ("report",), ("pack", "--output", "packed"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two blocks, to be copied."""
    folder = tmp_path_factory.mktemp("plain") / "run"
    models = [experiments.fake("model"), experiments.fake("slow", cost=2)]
    wanted = experiments.parsed(platforms=models, baseline="model", blocks=2)
    measure(wanted, folder, ["virtoll"], SilentProgress())
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder and a file of the victim's."""
    folder = tmp_path / "elsewhere"
    (folder / "tables").mkdir(parents=True)
    for name in ("file", "index.html", "tables/mine.csv"):
        (folder / name).write_bytes(THERE)
    return folder


def content(folder: Path) -> dict[str, bytes]:
    """Every file below, byte for byte."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def moved(path: Path, elsewhere: Path) -> Path:
    """What is there is elsewhere now, or else a file of somebody's own; where it is."""
    target = elsewhere / path.name
    if path.exists():
        path.rename(target)
    elif path.name in FOLDERS:
        target.mkdir()
        (target / "file").write_bytes(THERE)
    else:
        target.write_bytes(THERE)
    return target


@pytest.mark.parametrize("command", WRITERS, ids=lambda words: words[0])
@pytest.mark.parametrize("name", [*FILES, *FOLDERS])
def test_a_link_at_a_fixed_name_is_refused(name: str, command: tuple[str, ...], run: Path, elsewhere: Path) -> None:
    place = run / name
    place.symlink_to(moved(place, elsewhere))
    before, then = content(run), content(elsewhere)
    assert_refused(in_process(command[0], run, *command[1:]), place, "link")
    assert place.is_symlink()
    assert content(elsewhere) == then
    assert content(run) == before
    assert not Path("packed").exists()


@pytest.mark.parametrize("command", WRITERS, ids=lambda words: words[0])
@pytest.mark.parametrize("name", [".writer", "trials.jsonl", "evidence/console.txt"])
def test_a_second_name_is_refused(name: str, command: tuple[str, ...], run: Path, elsewhere: Path) -> None:
    (run / name).hardlink_to(moved(run / name, elsewhere))
    before, then = content(run), content(elsewhere)
    assert_refused(in_process(command[0], run, *command[1:]), run / name, "hard link", "'cp -r'")
    assert (content(run), content(elsewhere)) == (before, then)


@pytest.mark.parametrize("command", WRITERS, ids=lambda words: words[0])
@pytest.mark.parametrize("name", [".writer", "evidence/console.txt"])
def test_a_pipe_is_refused(name: str, command: tuple[str, ...], run: Path) -> None:
    os.mkfifo(run / name)
    assert_refused(in_process(command[0], run, *command[1:]), run / name, "pipe")
    assert (run / name).is_fifo()


@pytest.mark.parametrize("name", ["tables", "figures", "index.html"])
def test_a_link_in_the_report_is_refused(name: str, run: Path, elsewhere: Path) -> None:
    (run / "report").mkdir()
    (run / "report" / name).symlink_to(elsewhere / name)
    assert_refused(in_process("report", run), run / "report" / name, "link")
    assert set(content(elsewhere).values()) == {THERE}
    assert (run / "report" / name).is_symlink()


def test_what_somebody_else_has_in_the_report_stays(run: Path) -> None:
    for _ in range(2):
        output_of("report", run)
        for name in ("mine.txt", "tables/mine.csv", "figures/mine.svg"):
            (run / "report" / name).write_bytes(THERE)
    output_of("report", run)
    kept = content(run / "report")
    assert [kept[name] for name in ("mine.txt", "tables/mine.csv", "figures/mine.svg")] == [THERE] * 3
    assert {"index.html", "tables/cells.csv", "SHA256SUMS"} <= set(kept)
    assert differences(run) == ()


def test_a_link_that_comes_while_a_run_is_written_is_not_followed(run: Path, elsewhere: Path) -> None:
    """Each name is opened below its open folder: what comes after the first look changes nothing elsewhere."""
    folder = RunFolder.open(run)
    for name in ("trials.jsonl", "SHA256SUMS.new", "manifest.json.new"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(elsewhere / "file")
    with refused(run / "trials.jsonl", "link", error=RunFolderError):
        jsonlines.append(run / "trials.jsonl", b"{}\n")
    with refused(run / "trials.jsonl", "link", error=RunFolderError):
        jsonlines.repair(run / "trials.jsonl")
    for name in ("SHA256SUMS", "manifest.json"):
        jsonlines.replace(run / name, {"plain": True})
        assert not (run / f"{name}.new").is_symlink()
    for name in ("evidence", "explain"):
        shutil.rmtree(run / name, ignore_errors=True)
        (run / name).symlink_to(elsewhere)
    with refused(run / "evidence", "link", error=RunFolderError):
        folder.keep_evidence("native-0", {"console.txt": b"a console"})
    with refused(run / "explain", "link", error=RunFolderError):
        folder.explanations.set_state("running", None)
    assert set(content(elsewhere).values()) == {THERE}
    assert sorted(content(elsewhere)) == ["file", "index.html", "tables/mine.csv"]
