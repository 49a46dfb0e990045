"""What a product holds is ended, and promised to be ended: should the controller die, or its end not be seen.

Main functions: ``until_gone`` (looks whether it is), ``promised`` (withdraws the promise only then).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from virtoll.errors import GuestError, HostUnreachable, ProgramMissing
from virtoll.hosts.base import CommandRunner, GuestHost
from virtoll.platforms.process_guest import GuestRemains

_LOOK_AGAIN_SECONDS = 0.2


def promised(host: GuestHost, argv: list[str], end: Callable[[], object]) -> Callable[[], None]:
    """``end``, or ``argv`` should the controller die before it has ended; also if it fails."""
    withdraw = host.guard(argv)

    def do() -> None:
        end()
        withdraw()

    return do


def until_gone(
    host: CommandRunner, left: Callable[[], str], patience_seconds: float, end: Callable[[], object] = lambda: None
) -> None:
    """Look and do ``end`` until nothing is ``left``, which is in words; ``GuestRemains`` with them after so long.

    A look that fails is repeated: over a connection to a busy host an answer can be lost (ssh ends with 255).
    """
    begun, complaint = time.monotonic(), ""
    while True:
        try:
            if not left():
                return
            end()
        except (HostUnreachable, ProgramMissing):
            raise
        except GuestError as error:
            complaint = f" ({error})"
        if time.monotonic() - begun > patience_seconds:
            break
        time.sleep(_LOOK_AGAIN_SECONDS)
    if remains := left():
        raise GuestRemains(f"{host.name} still has {remains} after {patience_seconds:g} s{complaint}")
