"""What an ordinary user's tests cannot do: they are skipped with the reason that Virtoll itself gives."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import pytest

from virtoll.cli.doctor_unprivileged import is_host_root
from virtoll.errors import VirtollError

_NEEDS_ROOT = re.compile(r"\b(as|needs?|those|without) root\b")


@contextlib.contextmanager
def skipping_what_needs_root() -> Iterator[None]:
    """Skip where an error says that root is needed, unless this is root: then it is a failure.

    ``tests/lab/test_rootless.py`` has what works without root.
    """
    try:
        yield
    except VirtollError as error:
        skip_without_root(str(error))
        raise


def skip_without_root(reason: str | None) -> None:
    """Skip where a reason that Virtoll gives says that root is needed, unless this is root."""
    if reason is not None and _NEEDS_ROOT.search(reason) and not is_host_root():
        pytest.skip(reason)
