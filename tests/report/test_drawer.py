"""The process that draws: what it gives, and how it and a report end where one of both is killed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.drawings import Blank, drawn_by, files, rendered
from tests.support.facts import assert_refused, refused
from tests.support.specifications import complaints
from tests.support.synthetic_run import Truth, write

from virtoll.errors import DrawingError, RunFolderError
from virtoll.lab.inside import with_descendants
from virtoll.report import build, build_report
from virtoll.report.drawing import Drawer
from virtoll.report.figures.practice import practice
from virtoll.report.figures.style import Specification, Width

RUN = Truth({"native": {}, "netns": {}}, control=None, frame_sizes=(64,))
DEADLINE_SECONDS = 120.0

REPORT_OF = """
import sys
from pathlib import Path
from virtoll.report.drawing import Drawer
with Drawer() as drawer:
    print(drawer.pid, flush=True)
    sys.stdin.read()
"""

FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
from virtoll.cli import main
main()
"""


@pytest.fixture(autouse=True)
def started_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each report starts a process of its own, as outside of tests."""
    monkeypatch.setattr(build, "Drawer", Drawer)


def test_the_converter_has_nothing_to_warn_of(capfd: pytest.CaptureFixture[str]) -> None:
    assert [complaints(practice(width), capfd) for width in Width] == [[] for _ in Width]


def titled(text: str) -> Any:
    """What draws a panel with this title."""

    def draw(width: Width) -> Specification:
        return practice(width) | {"title": text}

    return draw


def end_of(pidfd: int) -> bool:
    """Whether a process ends before the deadline."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(1000 * DEADLINE_SECONDS))


def children() -> set[int]:
    """All processes below this one."""
    return set(with_descendants([os.getpid()])[1:])


def reported(run: Path) -> Path:
    """A run with an old report, whose figures no test looks at."""
    with drawn_by(Blank):
        build_report(write(run, RUN))
    return run


def all_of(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, and its bytes."""
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


@contextmanager
def killed_at_its_start() -> Iterator[None]:
    """The first process that is started within is killed as soon as it is there."""
    before, ended = children(), threading.Event()

    def kill() -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not ended.is_set() and time.monotonic() < deadline:
            for pid in children() - before:
                os.kill(pid, signal.SIGKILL)
                return

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_it_draws_what_is_drawn_here_in_the_order_asked_for() -> None:
    texts = ["one", "<two> & more", "three\x1b[2J"]
    with Drawer() as drawer:
        drawings = {text: drawer.rendered("figure", titled(text), in_a_column=True) for text in texts}
        for text, drawing in drawings.items():
            here = rendered("figure", titled(text), in_a_column=True)
            assert files(drawing) == files(here)
            assert (drawing.specification, drawing.narrow) == (here.specification, here.narrow)
    assert ">one<" in drawings["one"].page
    assert ">three\\x1b[2J<" in drawings["three\x1b[2J"].svg


def test_it_outlives_a_wrong_figure_and_an_interrupt_and_no_kill() -> None:
    with Drawer() as drawer:
        wrong = drawer.rendered("wrong", lambda _: {"mark": "no such mark", "data": {"values": []}})
        right = drawer.rendered("right", titled("right"))
        with pytest.raises(ValueError, match="figure wrong"):
            _ = wrong.page
        assert ">right<" in right.page
        os.kill(drawer.pid, signal.SIGINT)
        assert drawer.rendered("uninterrupted", practice).pdf
        os.kill(drawer.pid, signal.SIGKILL)
        for name in ("cost", "order"):
            drawing = drawer.rendered(name, practice)
            with refused(f"figure {name}", "SIGKILL", error=DrawingError):
                _ = drawing.page


def test_it_ends_with_the_context_and_whoever_still_waits_is_told() -> None:
    with Drawer() as drawer:
        drawings = [drawer.rendered(f"figure-{number}", practice) for number in range(20)]
    assert drawer.pid not in children()
    with refused("figure-19", error=DrawingError):
        _ = drawings[-1].page


def test_it_ends_with_who_started_it_however_that_ends() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", REPORT_OF], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        pidfd = os.pidfd_open(int(started.stdout.readline()))
        try:
            started.kill()
            assert end_of(pidfd)
        finally:
            os.close(pidfd)


def test_a_run_that_cannot_be_read_leaves_no_process(tmp_path: Path) -> None:
    before = children()
    with pytest.raises(RunFolderError):
        build_report(tmp_path)
    assert children() == before
    assert list(tmp_path.iterdir()) == []


def test_a_report_whose_figures_are_not_drawn_leaves_the_old_one(tmp_path: Path) -> None:
    run = reported(tmp_path / "run")
    report = run / "report"
    (run / "trials.jsonl").write_bytes(b"".join((run / "trials.jsonl").read_bytes().splitlines(keepends=True)[:-1]))
    before, processes = all_of(run), children()
    with killed_at_its_start(), refused("figure", "SIGKILL", error=DrawingError):
        build_report(run)
    assert all_of(run) == before
    assert children() == processes
    build_report(run)
    assert all_of(report) != {name.partition("/")[2]: one for name, one in before.items() if name.startswith("report/")}


def test_a_report_that_has_no_room_leaves_the_old_one(tmp_path: Path) -> None:
    """The command's largest file is as short as if the disk were full."""
    run = reported(tmp_path / "run")
    before = all_of(run)
    command = [sys.executable, "-c", FULL, "report", str(run)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert_refused(done, run / "report", "File too large", code=1)
    assert all_of(run) == before
