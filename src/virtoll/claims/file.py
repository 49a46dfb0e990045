"""From a YAML file to checked claims: the papers', which the package carries, and a user's own."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from virtoll.claims.model import Claim
from virtoll.errors import UsageError, complaint
from virtoll.reference.published import reference_yaml

if TYPE_CHECKING:
    from collections.abc import Sequence

_KEYS = ", ".join(Claim.model_fields)
_TELLING = ("extra_forbidden", "value_error", "missing")
_TYPE = re.compile(r"(bool|int|float|str)$|[A-Z]|(list|literal|function-\w+|union)\[")


@cache
def published_claims() -> tuple[Claim, ...]:
    """Every claim of the four studies, in the order of `reference/claims.yaml`."""
    return _claims(reference_yaml("claims.yaml"), "reference/claims.yaml")


def load_claims(path: Path) -> tuple[Claim, ...]:
    """The claims of a user's file; a ``UsageError`` that names file, claim and key where there is anything wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read ({error}); give a readable UTF-8 YAML file") from error
    return parse_claims(text, str(path))


def parse_claims(text: str, name: str) -> tuple[Claim, ...]:
    """As `load_claims`, from text; ``name`` is only named in complaints."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"{name}: not valid YAML ({' '.join(str(error).split())}); correct it") from error
    return _claims(document, name)


def _claims(document: Any, name: str) -> tuple[Claim, ...]:
    if not isinstance(document, list) or not document:
        raise UsageError(f"{name}: the file must be a list of claims, each with the keys {_KEYS}")
    found: list[Claim] = []
    for place, given in enumerate(document):
        where = given["id"] if isinstance(given, dict) and isinstance(given.get("id"), str) else f"number {place + 1}"
        try:
            claim = Claim.model_validate(given)
        except ValidationError as error:
            raise UsageError(f"{name}: claim {where}: {_complaint(error)}") from error
        if claim.id in {one.id for one in found}:
            raise UsageError(f"{name}: claim {claim.id} is there twice; give one of them another id")
        found.append(claim)
    return tuple(found)


def _complaint(error: ValidationError) -> str:
    """One sentence for one of pydantic's errors: key, what is wrong, what is allowed.

    Where a key may have one of several types there is an error for each; those that say what is wrong go first.
    """
    found = error.errors(include_url=False)
    first = min(found, key=lambda one: (one["type"] not in _TELLING, -len(one["loc"])))
    key = ".".join(str(part) for part in _named(first["loc"]))
    return complaint(first, key, "docs/claims.md lists the keys")


def _named(location: Sequence[int | str]) -> list[Any]:
    """The keys of a place in the file, without the names of the types that pydantic tried there."""
    return [part for part in location if isinstance(part, int) or not _TYPE.match(part)]
