"""``--verbose``: a log on the standard error of what is started and waited for; without it there is none."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from tests.support.commands import virtoll
from tests.support.experiments import fake, write
from tests.support.facts import assert_facts

from virtoll.lab.commands import ConnectedHost
from virtoll.lab.debug import LOGGER, VERBOSE_VARIABLE
from virtoll.lab.inside import wait_until


def test_what_is_started_and_waited_for_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(VERBOSE_VARIABLE, "1")
    with caplog.at_level(logging.DEBUG, LOGGER):
        ConnectedHost().run(["true"], "a test", deadline_seconds=60)
        ConnectedHost().spawn(["true"], "a test").wait()
        wait_until(lambda: True, 5, "the test's end")
    run, ended, started, awaited = caplog.messages
    assert_facts(run, "60 s", "['true']")
    assert_facts(ended, 0, "true")
    assert_facts(started, "['true']")
    assert_facts(awaited, "5 s", "the test's end")


def test_nothing_is_logged_unless_somebody_asked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(VERBOSE_VARIABLE, raising=False)
    with caplog.at_level(logging.DEBUG, LOGGER):
        ConnectedHost().run(["true"], "a test")
    assert caplog.messages == []


@pytest.mark.parametrize("option", ["-v", "--verbose"])
def test_a_run_logs_itself_to_the_standard_error(option: str, tmp_path: Path) -> None:
    file = write(tmp_path, platforms=[fake("a"), fake("b")], baseline="a", blocks=1)
    finished = virtoll("run", file, "--quiet", option, runs=tmp_path / "runs")
    assert finished.returncode == 0, finished.stderr
    assert re.search(
        rf"^\S+ \S+ virtoll\[\d+\]: \S+: \['run', '{file}', '--quiet', '{option}'\]$", finished.stderr, re.MULTILINE
    )
    assert "virtoll[" not in finished.stdout
