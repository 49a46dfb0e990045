"""Hooks of the whole suite: modules that run inside a lab, and tests that need root."""

from __future__ import annotations

import os

import pytest

pytest.register_assert_rewrite("tests.support")

from tests.support import inside  # noqa: E402 - its assertions are rewritten as it is imported


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A test of a module that runs in a lab is replaced by its report from there."""
    return True if inside.replay(item, nextitem) else None


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Inside a lab: hand the report out."""
    if _CONFIG:
        inside.keep(report, _CONFIG[0])


def pytest_configure(config: pytest.Config) -> None:
    """Keep the configuration for the hook that is not given it."""
    _CONFIG.append(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests run inside a lab, and which of them are of their module's long form alone.

    Outside, the first test of a module waits for the whole module, which has a deadline of its own.
    """
    for item in items:
        if inside.belongs_inside(item):
            item.add_marker(pytest.mark.inside)
        if inside.runs_elsewhere(item):
            item.add_marker(pytest.mark.timeout(0))
        if getattr(getattr(item, "module", None), "is_extended", lambda _: False)(item):
            item.add_marker(pytest.mark.extended)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that needs root is skipped with a reason where it is missing."""
    if item.get_closest_marker("root") is not None and os.geteuid() != 0:
        pytest.skip("needs root")


_CONFIG: list[pytest.Config] = []
