"""The parameters of workloads: a run has few sets of them, in thousands of records. Equal sets read are one object.

Main type: `SharedParameters`. Main function: `shared`, by which records with parameters have it.
"""

import json
import marshal
from collections.abc import Mapping
from typing import Any

_MOST = 4096
_KNOWN: dict[bytes, "SharedParameters"] = {}


class SharedParameters(dict[str, Any]):
    """One set; not to be changed. `canonical`: its text, made once."""

    __slots__ = ("canonical",)

    canonical: str


def canonical_text(parameters: Mapping[str, Any]) -> str:
    """Parameters as JSON text with sorted keys: equal sets give equal text."""
    return json.dumps(parameters, sort_keys=True, ensure_ascii=False)


def shared(parameters: dict[str, Any]) -> SharedParameters:
    """The one object for this set of parameters."""
    if isinstance(parameters, SharedParameters):
        return parameters
    # Of what JSON holds, equal bytes are of equal sets with equal types (1, 1.0 and True are not alike).
    written = marshal.dumps(parameters, 2)  # version 2 knows no references, which would tell equal sets apart
    known = _KNOWN.get(written)
    if known is None:
        if len(_KNOWN) >= _MOST:
            _KNOWN.clear()
        known = _KNOWN[written] = SharedParameters(parameters)
        known.canonical = canonical_text(parameters)
    return known
