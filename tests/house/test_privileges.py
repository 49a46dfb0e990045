"""An ordinary user's test is skipped with the reason that the product gives, and nothing else is skipped."""

from __future__ import annotations

import pytest
from tests.support import privileges

from virtoll.errors import GuestError


@pytest.mark.parametrize(
    ("root", "error", "outcome"),
    [
        (False, GuestError("lxc-start needs root and cgroups; run as root"), pytest.skip.Exception),
        (False, GuestError("netns/1: a CPU quota needs cgroups, and those root"), pytest.skip.Exception),
        (False, GuestError("netns/1: the root file system is full"), GuestError),
        (False, ValueError("needs root"), ValueError),
        (True, GuestError("lxc-start needs root and cgroups; run as root"), GuestError),
    ],
)
def test_only_what_the_product_refuses_an_ordinary_user_is_skipped(
    monkeypatch: pytest.MonkeyPatch, root: bool, error: Exception, outcome: type[BaseException]
) -> None:
    monkeypatch.setattr(privileges, "is_host_root", lambda: root)
    with pytest.raises(outcome, match="root"), privileges.skipping_what_needs_root():
        raise error
