"""Hooks of the whole suite: modules that run inside a lab, and tests that need root."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

pytest.register_assert_rewrite("tests.support")

from tests.support import failures, guests, inside, quick  # noqa: E402 - their assertions are rewritten as they are imported
from tests.support.privileges import skipping_what_needs_root  # noqa: E402
from tests.support.timeline import Timeline  # noqa: E402

from virtoll.cli.doctor_unprivileged import is_host_root  # noqa: E402
from virtoll.host.packages import search_system_folders  # noqa: E402
from virtoll.lab.launch import inside_lab  # noqa: E402
from virtoll.pipeline.session import RunSession  # noqa: E402

search_system_folders()  # as each start of the command does
os.umask(0o022)  # tests make files that an ordinary user reads; those of another umask set it


@pytest.fixture(scope="module")
def run_session() -> Iterator[RunSession]:
    """The lab's run session, one a module, on the image that has busybox; with another image a module has its own."""
    with guests.run_session() as made:
        yield made


@pytest.fixture(scope="session", autouse=True)
def one_drawer() -> Iterator[None]:
    """One process draws all reports that tests make in their own process, from the first report to the session's end.

    It takes a second to start. `test_drawer` tests the processes that the product starts and ends.
    """
    if inside_lab() is not None:  # no test there makes a report in its own process
        yield
        return
    from tests.support.drawings import drawn_by_one_process

    with drawn_by_one_process():
        yield


@pytest.fixture(scope="module")
def undrawn() -> Iterator[None]:
    """Reports have blank figures: drawing takes most of a report's time, and these tests look at no figure."""
    from tests.support.drawings import Blank, drawn_by

    with drawn_by(Blank):
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """The labs run in the background, and begin before the first test."""
    inside.start_all(session)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A test of a module that runs in a lab is replaced by its report from there."""
    return True if inside.replay(item, nextitem) else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Of a session that runs labs alone, only the modules that run in labs are imported."""
    if collection_path.suffix != ".py" or not config.option.markexpr.startswith("inside"):
        return None
    return None if "INSIDE_LAB" in collection_path.read_text(encoding="utf-8") else True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Each phase's report has what it cost, and that of a failure what the test ran last."""
    report = yield
    _TIMELINE.measure(report)
    failures.add_section(report, getattr(item, "funcargs", {}))
    return report


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Inside a lab: hand the report out. Outside: write when the test ran."""
    if not _CONFIG:
        return
    inside.keep(report, _CONFIG[0])
    if not hasattr(_CONFIG[0], "workerinput"):
        _TIMELINE.write(report)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the suite."""
    parser.addoption("--compile-only", action="store_true", help="compile all test modules, which each process reads")
    parser.addoption("--quick", action="store_true", help="unit tests alone, what a change most likely breaks first")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """With ``--compile-only``: that, and no test."""
    if not config.option.compile_only:
        return None
    from tests.support.rewriting import compile_tests

    return compile_tests(config)


def pytest_configure(config: pytest.Config) -> None:
    """Keep the configuration for the hook that is not given it."""
    _CONFIG.append(config)
    failures.watch()
    # How long an example takes says something of this machine alone.
    hypothesis.settings.register_profile(
        "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("untimed")


def pytest_sessionfinish() -> None:
    """However a session ends, by its last test or by Ctrl-C, no lab outlives it."""
    inside.end_all()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Say which tests run inside a lab, and which of them are of their module's long form alone.

    Outside, a test waits for its whole lab, which has a deadline of its own. Those come last: their labs run in the
    background meanwhile. Tests that wait for guests come first, so that the others, which only compute, keep all CPUs
    busy to the end.
    """
    for item in items:
        if inside.belongs_inside(item):
            item.add_marker(pytest.mark.inside)
        if inside.runs_elsewhere(item):
            item.add_marker(pytest.mark.timeout(0))
        if getattr(getattr(item, "module", None), "is_extended", lambda _: False)(item):
            item.add_marker(pytest.mark.extended)
    if inside_lab() is None:
        items.sort(key=lambda item: (inside.belongs_inside(item), not _waits(item)))
    if config.option.quick:
        config.hook.pytest_deselected(items=quick.choose(items))


def _waits(item: pytest.Item) -> bool:
    """Whether a test waits for guests, labs or a browser more than it computes."""
    marked = any(item.get_closest_marker(name) is not None for name in ("lab", "slow", "network"))
    return marked or "browser" in getattr(item, "fixturenames", ())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """A test that needs root is skipped with a reason where it is missing, as one for which no time is left."""
    failures.forget()
    if item.config.option.quick:
        quick.skip_if_late()
    if item.get_closest_marker("root") is not None and not is_host_root():
        pytest.skip("needs root")
    with skipping_what_needs_root():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """What Virtoll refuses an ordinary user is no failure of the user's test."""
    with skipping_what_needs_root():
        return (yield)


_CONFIG: list[pytest.Config] = []
_TIMELINE = Timeline()
