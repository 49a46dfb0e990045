"""Inside the trees that `tools.mutants` makes: says which test runs, so that coverage stores which lines it runs.

It is copied into a tree's `src` and loaded by PYTEST_PLUGINS, in labs and workers as well. `sitecustomize.py` there has
started coverage already, in each process that Python starts.
"""

import os
from collections.abc import Generator

import coverage
import pytest

TEST_VARIABLE = "MUTANT_TEST"
"""The test that runs: children have it as their context."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Each test is a context of its own."""
    running = coverage.Coverage.current()
    os.environ[TEST_VARIABLE] = item.nodeid
    if running is not None:
        running.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        del os.environ[TEST_VARIABLE]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """A worker ends without the functions that Python calls at its exit."""
    running = coverage.Coverage.current()
    if running is not None:
        running.save()
