"""The guests of one block that are up, by what they are for.

Main types: ``Role`` and ``GuestPool``. Must not: start guests, which ``guest_start.py`` does.
"""

from __future__ import annotations

import contextlib
import typing
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from virtoll.errors import GuestError
from virtoll.pipeline.data_directory import DataKeeper
from virtoll.pipeline.live_guest import LiveGuest, Placement
from virtoll.pipeline.progress import Progress
from virtoll.pipeline.room import ended_for, held_bytes, lacking_bytes
from virtoll.platforms.base import Guest
from virtoll.platforms.host import Site
from virtoll.runfolder.conditions import Affinity

Use = Literal["neighbour", "side by side", "measured", "at once"]
_USES: Final[tuple[Use, ...]] = typing.get_args(Use)
"""In the order in which guests are ended."""


@dataclass(frozen=True)
class Role:
    """What guests of a platform are for; those of one role are ended together.

    ``affinity``: of guests side by side. ``place``: of neighbours.
    """

    use: Use
    label: str
    affinity: Affinity | None = None
    place: Placement | None = None

    def gives_way(self, kept: tuple[str, ...], affinity: Affinity | None) -> bool:
        """Whether its guests may be ended for one of the labels ``kept``, or for guests side by side of an affinity."""
        if self.use == "side by side" and affinity not in (None, self.affinity):
            return True
        return self.use != "at once" and self.label not in kept


@dataclass
class GuestPool:
    """The guests of one block that are up; ``tries``: starts of measured guests, failed ones of others, and groups."""

    progress: Progress
    tries: Counter[Role] = field(default_factory=Counter)
    _up: dict[Role, list[LiveGuest]] = field(default_factory=dict)

    def of(self, role: Role) -> list[LiveGuest]:
        """The guests of a role in the order of their starts; one that is added is in the pool."""
        return self._up.setdefault(role, [])

    def everyone(self, *uses: Use) -> Iterator[LiveGuest]:
        """The guests that are up for these uses, or for any, in the order in which they are ended."""
        for use in uses or _USES:
            for role in [role for role in self._up if role.use == use]:
                yield from self._up[role]

    def take(self, role: Role) -> list[LiveGuest]:
        """The guests of a role, which are in the pool no longer and still to be ended."""
        return self._up.pop(role, [])

    def take_side_by_side(self, label: str) -> list[LiveGuest]:
        """As ``take``, of a platform's guests next to its measured one, whatever their affinity."""
        roles = [role for role in self._up if role.use == "side by side" and role.label == label]
        return [live for role in roles for live in self.take(role)]

    def end(self, live: LiveGuest) -> None:
        """End one guest."""
        end_guest(live.guest, live.site, live.data, self.progress)

    def end_role(self, role: Role) -> None:
        """End the guests of a role; what interrupts that leaves all of them in the pool."""
        for live in self.of(role):
            self.end(live)
        self.take(role)

    def end_all(self) -> None:
        """End every guest, as ``end_role``."""
        for live in self.everyone():
            self.end(live)
        self._up.clear()

    def make_room(
        self,
        site: Site,
        memory_bytes: int,
        kept: tuple[str, ...],
        affinity: Affinity | None = None,
        *,
        up: LiveGuest | None = None,
    ) -> None:
        """End guests that give way until this machine has so much memory for one of ``kept[0]``.

        Those that hold most come first, and none is ended if all of them would not be enough; that they are started
        again is no try. ``up``: the guest that needs it, if it is up already and holds some of it.
        """
        lacking = lacking_bytes(memory_bytes) if site.host.local is not None else 0
        if lacking and up is not None:
            lacking -= held_bytes(up.guest)
        if lacking <= 0:
            return
        held = {}
        for role in sorted(self._up, key=lambda role: _USES.index(role.use), reverse=True):
            if role.gives_way(kept, affinity):
                held[role] = sum(held_bytes(live.guest) for live in self._up[role])
        for role in ended_for(lacking, held):
            for live in self._up[role]:
                self.progress.message(f"ending {live.boot}: its memory is needed for {kept[0]}")
                self.end(live)
            self.take(role)
            if role.use == "measured":
                self.tries[role] -= 1


def end_guest(guest: Guest, site: Site, data: DataKeeper | None, progress: Progress) -> None:
    """What cannot be removed costs no trial, and is reported; the room for its data is on its host as well."""
    try:
        with site.awake(), contextlib.ExitStack() as undo:
            if data is not None:
                undo.callback(data.volume.remove)
            guest.stop()
    except (GuestError, OSError) as error:
        progress.message(f"the end of a guest: {error}")
