"""The look at what a process holds finds a leak, and none where there is none."""

from __future__ import annotations

import os
import random
import sys

import pytest
from benches.survive.endurance import MOST_KIB_AN_HOUR, Use, growth, model, roles_of, rows, use_of
from tests.support.facts import assert_facts
from tests.support.machine import Family, Process


def looks(files_a_minute: float = 0.0, kib_a_minute: float = 0.0, minutes: int = 60) -> list[Use]:
    """A process that is looked at every ten seconds, with some noise."""
    noise = random.Random(1)
    return [
        Use(at, round(40_000 + kib_a_minute * at / 60 + noise.gauss(0, 200)), round(20 + files_a_minute * at / 60), 3)
        for at in range(0, minutes * 60, 10)
    ]


@pytest.mark.parametrize(
    ("uses", "steady"),
    [
        (looks(), True),
        (looks(files_a_minute=0.05), False),
        (looks(kib_a_minute=2 * MOST_KIB_AN_HOUR / 60), False),
    ],
    ids=["nothing grows", "three files an hour", "two MiB an hour"],
)
def test_what_grows_is_found(uses: list[Use], steady: bool) -> None:
    ((line, found),) = rows({"controller": uses})
    assert found is steady, line
    assert line.startswith("| controller | ")


def test_a_slope_is_reported_with_its_interval() -> None:
    found = growth([(one.seconds, one.memory_kib) for one in looks(kib_a_minute=10)])
    assert found is not None
    assert found.low < 600 < found.high
    assert growth([(0.0, 1.0), (10.0, 1.0)]) is None, "one minute is too little"


def test_open_files_of_a_process_are_counted() -> None:
    before = use_of(os.getpid(), 0.0)
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(5)]
    after = use_of(os.getpid(), 1.0)
    for one in opened:
        os.close(one)
    assert before is not None
    assert after is not None
    assert after.files - before.files == 5
    assert after.memory_kib > 1000
    assert use_of(2**22 + 1, 0.0) is None, "there is no such process"


def test_lasting_processes_are_known_by_their_words() -> None:
    def process(pid: int, *argv: str) -> Process:
        return Process(pid, 0, 1, argv)

    seen = Family(
        (
            process(10, sys.executable, "-m", "virtoll", "run", "x.yaml"),
            process(11, sys.executable, "-m", "virtoll.lab.init", "in-lab-run"),
            process(12, sys.executable, "-m", "virtoll", "in-lab-run"),
            process(13, "virtoll-agent", "--role", "peer", "--channel", "stdio"),
            process(14, "virtoll-agent", "--role", "guest"),
        ),
        frozenset(),
        frozenset(),
    )
    assert roles_of(seen) == {
        "launcher": 10,
        "PID 1 of the lab": 11,
        "controller in the lab": 12,
        "agent of the peer": 13,
    }


def test_campaigns_of_the_model_leave_nothing_open(capsys: pytest.CaptureFixture[str]) -> None:
    assert model(0.5, seed=1) == 0
    assert_facts(capsys.readouterr().out, "0 trials")
