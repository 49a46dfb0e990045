"""From a YAML file to checked claims: the papers', which the package carries, and a user's own."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from virtoll.claims.model import Claim
from virtoll.claims.names import Names, impossible
from virtoll.errors import UsageError, complaint
from virtoll.reference.published import reference_yaml
from virtoll.runfolder.yaml_file import parse_yaml, read_text

if TYPE_CHECKING:
    from collections.abc import Sequence

_KEYS = ", ".join(Claim.model_fields)
# Where a key may have one of several types: the errors that say most of what is wrong, these first.
_TELLING = (("value_error", "too_short"), ("extra_forbidden", "missing"))
_TYPE = re.compile(r"(bool|int|float|str)$|[A-Z]|(list|literal|function-\w+|union)\[")


@cache
def published_claims() -> tuple[Claim, ...]:
    """Every claim of the four studies, in the order of `reference/claims.yaml`."""
    return _claims(reference_yaml("claims.yaml"), "reference/claims.yaml")


def load_claims(path: Path, names: Names | None = None) -> tuple[Claim, ...]:
    """The claims of a user's file; a ``UsageError`` that names file, claim and key where there is anything wrong.

    ``names``: what there is to be measured; a claim that no run of it can meet is refused. None: not looked at.
    """
    return parse_claims(read_text(path), str(path), names)


def parse_claims(text: str, name: str, names: Names | None = None) -> tuple[Claim, ...]:
    """As `load_claims`, from text; ``name`` is only named in complaints."""
    claims = _claims(parse_yaml(text, name), name)
    for claim in claims:
        wrong = None if names is None else impossible(claim, names)
        if wrong is not None:
            raise UsageError(f"{name}: claim {claim.id}: {wrong}")
    return claims


def _claims(document: Any, name: str) -> tuple[Claim, ...]:
    if not isinstance(document, list) or not document:
        raise UsageError(f"{name}: the file must be a list of claims, each with the keys {_KEYS}")
    claims: list[Claim] = []
    for place, entry in enumerate(document):
        where = repr(entry["id"])[1:-1] if isinstance(entry, dict) and isinstance(entry.get("id"), str) else ""
        where = where or f"number {place + 1}"
        try:
            claim = Claim.model_validate(entry)
        except ValidationError as error:
            raise UsageError(f"{name}: claim {where}: {_complaint(error)}") from error
        if claim.id in {earlier.id for earlier in claims}:
            raise UsageError(f"{name}: claim {claim.id} is there twice; give one of them another id")
        claims.append(claim)
    return tuple(claims)


def _complaint(error: ValidationError) -> str:
    """One sentence for one of pydantic's errors: key, what is wrong, what is allowed.

    Where a key may have one of several types there is an error for each; those that say what is wrong go first.
    """
    errors = error.errors(include_url=False)
    first = min(errors, key=lambda fault: ([fault["type"] not in types for types in _TELLING], -len(fault["loc"])))
    key = ".".join(str(part) for part in _named(first["loc"]))
    return complaint(first, key, "docs/claims.md lists the keys")


def _named(location: Sequence[int | str]) -> list[Any]:
    """The keys of a place in the file, without the names of the types that pydantic tried there."""
    return [part for part in location if isinstance(part, int) or not _TYPE.match(part)]
