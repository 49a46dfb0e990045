"""One thread at a time: who waits for its guest lets another one work, unless it keeps the turn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from virtoll.agent import turns

PATIENCE_SECONDS = 60.0


def other_works(within: Callable[[], AbstractContextManager[None]]) -> bool:
    """Whether another thread gets the turn while this one, which has it, waits so."""
    worked = threading.Event()

    def work() -> None:
        with turns.taken():
            worked.set()

    thread = threading.Thread(target=work)
    with turns.taken():
        thread.start()
        with within():
            early = worked.wait(PATIENCE_SECONDS if within is turns.given_up else 0.05)
    thread.join(PATIENCE_SECONDS)
    assert worked.is_set(), "the turn was free afterwards"
    return early


def kept_while_it_waits() -> AbstractContextManager[None]:
    """A wait within which the turn is kept."""

    class Both:
        def __enter__(self) -> None:
            self.kept, self.waits = turns.kept(), turns.given_up()
            self.kept.__enter__()
            self.waits.__enter__()

        def __exit__(self, *_: object) -> None:
            self.waits.__exit__(None, None, None)
            self.kept.__exit__(None, None, None)

    return Both()


def test_who_waits_lets_another_one_work() -> None:
    assert other_works(turns.given_up)


def test_a_turn_that_is_kept_is_not_given_up_by_waiting() -> None:
    assert not other_works(kept_while_it_waits)


@pytest.mark.parametrize("wait", [turns.given_up, turns.kept])
def test_a_wait_that_fails_has_the_turn_again(wait: Callable[[], AbstractContextManager[None]]) -> None:
    with turns.taken():
        with pytest.raises(OSError, match="gone"), wait():
            raise OSError("gone")
        assert not other_thread_gets_it(0.05)
    assert other_thread_gets_it(PATIENCE_SECONDS)


def other_thread_gets_it(seconds: float) -> bool:
    """Whether another thread gets the turn within so long."""
    worked = threading.Event()

    def work() -> None:
        with turns.taken():
            worked.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return worked.wait(seconds)


@pytest.mark.parametrize("wait", [turns.given_up, turns.kept])
def test_for_a_thread_without_a_turn_nothing_changes(wait: Callable[[], AbstractContextManager[None]]) -> None:
    """Also while another thread has it."""
    begun, done = threading.Event(), threading.Event()

    def work() -> None:
        with turns.taken():
            begun.set()
            done.wait(PATIENCE_SECONDS)

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait(PATIENCE_SECONDS)
    with wait():
        done.set()
    thread.join(PATIENCE_SECONDS)
    assert other_works(turns.given_up)
