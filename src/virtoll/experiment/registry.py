"""Classes by name, each imported when it is first asked for: of all that there are, an experiment uses a few."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Generic, TypeVar

Entry_co = TypeVar("Entry_co", covariant=True)
Part = TypeVar("Part")


class Registry(Mapping[str, Entry_co], Generic[Entry_co]):
    """A mapping in the order of ``loaders``: name -> a function that imports the entry's module and returns it.

    Names are known without an import; an entry is loaded when it is looked up.
    """

    def __init__(self, loaders: Mapping[str, Callable[[], Entry_co]]) -> None:
        self.loaders = dict(loaders)

    @classmethod
    def of_classes(cls, package: str, places: Mapping[str, str]) -> Registry[Entry_co]:
        """Classes of a package: name -> ``module:Class`` below it."""
        return cls({name: partial(_class_at, package, place) for name, place in places.items()})

    def __getitem__(self, name: str) -> Entry_co:
        """The entry; its module is imported now, if it was not before."""
        return self.loaders[name]()

    def __contains__(self, name: object) -> bool:
        """Whether there is such an entry; nothing is imported."""
        return name in self.loaders

    def __iter__(self) -> Iterator[str]:
        """The names; nothing is imported."""
        return iter(self.loaders)

    def __len__(self) -> int:
        """How many there are; nothing is imported."""
        return len(self.loaders)

    def each(self, part_of: Callable[[Entry_co], Part]) -> Registry[Part]:
        """The same names, each with a part of its entry, which is loaded when that is looked up."""
        return Registry({name: partial(self._part, name, part_of) for name in self.loaders})

    def _part(self, name: str, part_of: Callable[[Entry_co], Part]) -> Part:
        return part_of(self[name])


def _class_at(package: str, place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"{package}.{module}"), name)
