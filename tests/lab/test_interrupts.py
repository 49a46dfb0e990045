"""Interrupts that come at a bad moment are handled after it."""

from __future__ import annotations

import contextlib
import selectors
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.facts import Command, refused
from tests.support.machine import ENDING_SIGNALS

from virtoll.cli import measuring
from virtoll.errors import Interrupted
from virtoll.lab import interrupts
from virtoll.lab.interfaces import Interfaces


@pytest.fixture(params=ENDING_SIGNALS, ids=lambda number: number.name)
def number(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """A signal that raises ``KeyboardInterrupt`` where the main thread is, as while a run goes on."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(request.param, interrupt)
    yield request.param
    signal.signal(request.param, previous)


def test_an_interrupt_waits_for_the_kernels_reply(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It comes each time that pyroute2's event loop waits, which does not survive an exception everywhere."""
    select = selectors.EpollSelector.select
    interfaces = Interfaces()
    waits = 0

    def select_interrupted(selector: selectors.EpollSelector, timeout: float | None = None) -> object:
        nonlocal waits
        waits += 1
        signal.raise_signal(number)
        return select(selector, timeout)

    monkeypatch.setattr(selectors.EpollSelector, "select", select_interrupted)
    with pytest.raises(KeyboardInterrupt):
        interfaces.there("lo")
    monkeypatch.undo()
    assert waits > 1, "it has waited on"
    assert interfaces.index("lo") == 1
    interfaces.close()
    assert caplog.records == []


def test_what_is_deferred_comes_at_the_end_and_once(number: signal.Signals) -> None:
    done = []

    def work() -> None:
        with interrupts.deferred():
            signal.raise_signal(number)
            signal.raise_signal(number)
            done.append("all of it")
            raise ValueError

    with pytest.raises(KeyboardInterrupt) as raised:
        work()
    assert done == ["all of it"]
    assert isinstance(raised.value.__context__, ValueError)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


def test_signals_that_come_together_are_one_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python prints a traceback of one that has come when its handler is taken away."""
    lost: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)

    def all_at_once() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
        for each in ENDING_SIGNALS:
            signal.pthread_kill(threading.get_ident(), each)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)

    with interrupts.interruptible(), pytest.raises(KeyboardInterrupt):
        all_at_once()
    assert lost == []


def test_an_interrupt_that_was_lost_is_raised_again_until_the_run_ends(number: signal.Signals) -> None:
    with interrupts.interruptible():
        interrupts.check()
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
    interrupts.check()


def test_a_second_signal_waits_until_the_runs_state_is_stored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: signal.Signals
) -> None:
    """It would end the process before, and the run would be taken for a killed one."""
    stored = []

    def store(_folder: Path, reason: str) -> bool:
        signal.raise_signal(number)
        stored.append(reason)
        return True

    # No public seam lies between the signal and the state that is stored.
    monkeypatch.setattr(measuring, "_interrupted", store)
    with refused(Command(f"virtoll resume {tmp_path / 'run'}"), error=Interrupted):
        # The same: what runs below it is a lambda here.
        measuring.with_progress(lambda _: signal.raise_signal(number), tmp_path / "run")
    assert len(stored) == 1


def test_other_threads_are_never_interrupted(number: signal.Signals) -> None:
    done = []

    def work() -> None:
        with interrupts.deferred():
            done.append("all of it")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == ["all of it"]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
