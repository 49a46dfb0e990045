"""What a person sees while a run goes on: a live display on a terminal, plain lines elsewhere.

Main types: ``PlainProgress``, ``LiveProgress``, ``Names`` of trials, and ``waiting`` for what has no trials.
They show, and decide nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from virtoll import units
from virtoll.experiment.plan import Trial
from virtoll.pipeline.progress import describe, outcome
from virtoll.runfolder.records import TrialRecord


class Names:
    """What the trials of a run are called: what they run as its report names it, which goes by the whole plan."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is the run's, which is looked at when the first trial is named."""
        self._folder = folder

    def __call__(self, trial: Trial) -> str:
        """'block 1 round 2 netns, IP forwarding 64 B'."""
        parameters = trial.workload.parameters.model_dump(mode="json")
        return describe(trial, self.work(trial.workload.workload, parameters))

    def work(self, workload: str, parameters: Mapping[str, Any]) -> str:
        """'IP forwarding 64 B'; the workload's own name where the plan has no such trial."""
        from virtoll.stats.values import canonical

        return self._works.get((workload, canonical(parameters)), workload)

    @cached_property
    def _works(self) -> dict[tuple[str, str], str]:
        from virtoll.runfolder.store import RunFolder
        from virtoll.stats.values import works_of

        return works_of(RunFolder.open(self._folder).manifest)


class PlainProgress:
    """One line a trial, for logs and pipes."""

    def __init__(self, console: Console, names: Names) -> None:
        """``console`` is where the lines go."""
        self._console = console
        self._names = names
        self._pace = _Pace()

    def message(self, text: str) -> None:
        """A line of its own."""
        self._print(text)

    def begin(self, done: int, total: int, estimated_seconds: float) -> None:
        """Says how much there is to do."""
        self._pace.begin(done, total, estimated_seconds)
        self._print(f"{total - done} trials to run, about {units.time_to_come(estimated_seconds)}")

    def trial_begins(self, trial: Trial) -> None:
        """Nothing: the line comes with the result."""

    def trial_ends(self, trial: Trial, record: TrialRecord) -> None:
        """The trial, its result, and how long the rest will take."""
        self._pace.step()
        left = units.time_to_come(self._pace.seconds_left())
        self._print(f"{self._pace.done}/{self._pace.total} {self._names(trial)}: {outcome(record)} ({left} left)")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class LiveProgress:
    """A bar with the trial under way, the time left and the last results."""

    def __init__(self, console: Console, names: Names) -> None:
        """``console`` is a terminal; the display is shown by ``shown``."""
        self._names = names
        columns = (
            BarColumn(bar_width=None, table_column=Column(ratio=1)),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[left]}", table_column=Column(no_wrap=True)),
        )
        self._bar = Progress(*columns, console=console, expand=True)
        self._what = Text("setting up", no_wrap=True, overflow="ellipsis")
        self._task = self._bar.add_task("", total=None, left="")
        self._last: list[Text] = []
        self._live = Live(console=console, refresh_per_second=4, get_renderable=self._render)
        self._pace = _Pace()

    @contextmanager
    def shown(self) -> Iterator[LiveProgress]:
        """Show the display for the length of the context."""
        with self._live:
            yield self

    def message(self, text: str) -> None:
        """What is being done, in the line above the bar."""
        self._shows(text)

    def begin(self, done: int, total: int, estimated_seconds: float) -> None:
        """Sets the bar's length."""
        self._pace.begin(done, total, estimated_seconds)
        self._bar.update(self._task, total=total, completed=done, left=f"{units.time_to_come(estimated_seconds)} left")

    def trial_begins(self, trial: Trial) -> None:
        """Names the trial under way."""
        self._shows(self._names(trial))

    def trial_ends(self, trial: Trial, record: TrialRecord) -> None:
        """Moves the bar and shows the result among the last four."""
        self._pace.step()
        colour = {"ok": "green", "skipped": "yellow"}.get(record.status, "red")
        self._last = [*self._last[-3:], Text(f"{self._names(trial)}: {outcome(record)}", style=colour)]
        left = units.time_to_come(self._pace.seconds_left())
        self._bar.update(self._task, completed=self._pace.done, left=f"{left} left")

    def _render(self) -> Group:
        return Group(*self._last, self._what, self._bar)

    def _shows(self, text: str) -> None:
        """What goes on, in a line of its own that is cut to the terminal's width: the numbers keep theirs."""
        self._what = Text(text, no_wrap=True, overflow="ellipsis")


@contextmanager
def waiting(console: Console) -> Iterator[Callable[[str], None]]:
    """What shows on a terminal, in one line, what goes on; elsewhere it shows nothing."""
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("") as line:
        yield lambda text: line.update(Text(text, no_wrap=True, overflow="ellipsis"))


class _Pace:
    """Time left: the estimate at first, more and more the pace that was really kept."""

    def __init__(self) -> None:
        self.done = self.total = self._already = 0
        self._estimated = 0.0
        self._started = time.monotonic()

    def begin(self, done: int, total: int, estimated_seconds: float) -> None:
        self.done, self.total, self._already = done, total, done
        self._estimated, self._started = estimated_seconds, time.monotonic()

    def step(self) -> None:
        self.done += 1

    def seconds_left(self) -> float:
        all_of_it = max(1, self.total - self._already)
        share = (self.done - self._already) / all_of_it
        elapsed = time.monotonic() - self._started
        by_pace = elapsed / share if share else self._estimated
        return max(0.0, share * by_pace + (1 - share) * self._estimated - elapsed) if share < 1 else 0.0
