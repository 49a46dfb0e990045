"""What a product holds is ended, and promised to be ended: should the controller die, or its end not be seen.

Main functions: ``until_gone`` (looks whether it is), ``promised`` (withdraws the promise only then). Main type:
``PromisedEnd`` (an end of several commands).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from virtoll.errors import GuestError, HostUnreachable, ProgramMissing
from virtoll.hosts.base import CommandRunner, GuestHost
from virtoll.platforms.process_guest import GuestRemains

END_SECONDS = 60.0
"""How long a ``PromisedEnd`` is patient."""
_LOOK_AGAIN_SECONDS = 0.2
_STEP_SECONDS = 120.0


def promised(host: GuestHost, argv: list[str], end: Callable[[], object], *then: list[str]) -> Callable[[], None]:
    """``end``; or ``argv`` and ``then``, in this order, should the controller die before, or ``end`` fail."""
    withdrawals = [host.guard(command) for command in reversed([argv, *then])]

    def do() -> None:
        end()
        for withdraw in reversed(withdrawals):
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


@dataclass
class PromisedEnd:
    """Commands that end what a product holds, promised before it is made: a context, at whose exit they are run.

    Each may fail because the thing is gone already. So ``left`` is asked then: what is still there, in words, or an
    empty text. Only once nothing is, the promises are withdrawn. Otherwise they stay, and the exit is a
    ``GuestRemains``, which also says why the start failed, where it did.
    """

    host: GuestHost
    role: str
    left: Callable[[], str]
    _steps: list[Sequence[str]] = field(default_factory=list)
    _withdraw: list[Callable[[], None]] = field(default_factory=list)

    def promise(self, *steps: Sequence[str]) -> None:
        """Have these run at the end, in this order and before all that was promised earlier."""
        for argv in reversed(steps):
            self._withdraw.append(self.host.guard(argv))
            self._steps.insert(0, argv)

    def __enter__(self) -> Self:
        """Nothing is promised yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it; ``GuestRemains`` when it stays."""
        try:
            self._end()
        except GuestError as remains:
            if not isinstance(error, GuestError):
                raise
            raise GuestRemains(f"{error}; {remains}") from error

    def _end(self) -> None:
        with contextlib.suppress(GuestError):
            self._run()
        until_gone(self.host, self.left, END_SECONDS, self._run)
        for withdraw in reversed(self._withdraw):
            withdraw()

    def _run(self) -> None:
        complaints = []
        for argv in self._steps:
            try:
                self.host.run(argv, self.role, _STEP_SECONDS)
            except GuestError as error:
                complaints.append(str(error))
        if complaints:
            raise GuestError("; ".join(complaints))
