"""What is relied on of parts of records whose keys are open: the host, the image, the pinning and the experiment.

They are stored as they were reported. What analysis and report take apart is checked when a record is made or read, so
that a damaged line is reported with its place.
"""

from __future__ import annotations

from typing import Any

import msgspec


class _Tools(msgspec.Struct):
    requested: list[str] = msgspec.field(name="wanted")
    packages: dict[str, Any]


class Host(msgspec.Struct):
    """The manifest's host."""

    mitigations: dict[str, str] | None = None


class Image(msgspec.Struct):
    """The manifest's image."""

    tools: _Tools | None = None
    kernel: dict[str, Any] | None = None


class Pinning(msgspec.Struct):
    """The manifest's pinning."""

    guest_cpus: list[int] | None = None


class Experiment(msgspec.Struct):
    """The manifest's experiment."""

    name: str
    guest: dict[str, Any] | None = None
    conditions: list[str] | None = None
    looks: list[tuple[float, float]] | None = None
    needs: list[str] | None = None


def check(name: str, document: dict[str, Any] | None, shape: type[msgspec.Struct]) -> None:
    """Compare a record's field ``name`` with the keys that are relied on; ValueError says which is of another kind."""
    if document is None:
        return
    try:
        msgspec.convert(document, shape)
    except msgspec.ValidationError as error:
        raise ValueError(f"{name}: {error}") from error
