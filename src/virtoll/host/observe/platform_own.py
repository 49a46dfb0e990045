"""What a platform itself counts of its guest, such as the blocks of code that an emulator translated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from virtoll.errors import GuestError
from virtoll.host.observe.base import CounterObserver

_FLUSHES = "translation_flushes"


class PlatformCounters(CounterObserver):
    """By the guest's own interface; a model's too."""

    name: ClassVar[str] = "platform"
    counts: ClassVar[tuple[str, ...]] = ("translated_blocks", "invalidated_blocks", _FLUSHES)

    def applies(self) -> bool:
        """Where it counts anything; a platform that counts nothing has nothing to miss."""
        try:
            return bool(self.watched.platform())
        except GuestError:
            return True

    def available(self) -> str | None:
        """Where it answers."""
        try:
            self.watched.platform()
        except GuestError as error:
            return str(error)
        return None

    def read(self) -> dict[str, int]:
        """As the platform says."""
        return dict(self.watched.platform())

    def read_again(self, before: Mapping[str, int]) -> dict[str, int]:
        """Without the blocks where all were dropped meanwhile: those that are there were translated since."""
        counters = self.read()
        if counters.get(_FLUSHES) != before.get(_FLUSHES):
            self.uncounted["translated_blocks"] = "the emulator dropped all that it had translated meanwhile"
            counters.pop("translated_blocks", None)
        return counters
