"""What is relied on of parts of records that have no fields of their own: an agent's facts, the host, the experiment.

They are stored as they were reported, and further keys are let through. What analysis and report take apart is checked
when a record is read, so that a damaged line is told by its place. `ValueError`: it is not what is reported.
"""

import re
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any

Shape = Mapping[str, Callable[[Any], bool]]


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _named_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _named(value: Any) -> bool:
    return isinstance(value, dict)


def _interfaces(value: Any) -> bool:
    every = isinstance(value, list) and all(isinstance(interface, dict) for interface in value)
    return every and all(isinstance(interface.get("offloads"), dict | None) for interface in value)


def _quota(value: Any) -> bool:
    keys = ("quota_us", "period_us")
    return isinstance(value, dict) and all(type(value.get(key)) is int and value[key] > 0 for key in keys)


def _reach(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    lists = all(value.get(key) is None or _texts(value[key]) for key in ("writable_mounts", "sockets"))
    numbers = all(type(value.get(key)) in (int, NoneType) for key in ("seccomp_mode", "seccomp_filters"))
    texts = all(isinstance(value.get(key), str | None) for key in ("user_map", "security_label", "network_namespace"))
    hexadecimal = value.get("capabilities_bounding_hex")
    attempts = value.get("attempts")
    return lists and numbers and texts and _is_mask(hexadecimal) and (attempts is None or _named_texts(attempts))


def _is_mask(value: Any) -> bool:
    return value is None or (isinstance(value, str) and bool(re.fullmatch("[0-9a-fA-F]{1,16}", value)))


def _tools(value: Any) -> bool:
    return isinstance(value, dict) and _texts(value.get("wanted")) and isinstance(value.get("packages"), dict)


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(number) is int for number in value)


def _pairs(value: Any) -> bool:
    every = isinstance(value, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in value)
    return every and all(type(number) in (int, float) for pair in value for number in pair)


_FACTS: Shape = {
    "cpu_flags": _texts,
    "interfaces": _interfaces,
    "sysctls": _named,
    "cpu_quota": _quota,
    "reach": _reach,
}
_HOST: Shape = {"mitigations": _named_texts}
_IMAGE: Shape = {"tools": _tools, "kernel": _named}
_PINNING: Shape = {"guest_cpus": _numbers}
_EXPERIMENT: Shape = {"guest": _named, "conditions": _texts, "looks": _pairs, "needs": _texts}


def facts(value: dict[str, Any]) -> dict[str, Any]:
    """An agent's facts of its guest."""
    return _checked(value, _FACTS)


def host(value: dict[str, Any]) -> dict[str, Any]:
    """The manifest's host."""
    return _checked(value, _HOST)


def image(value: dict[str, Any]) -> dict[str, Any]:
    """The manifest's image."""
    return _checked(value, _IMAGE)


def pinning(value: dict[str, Any]) -> dict[str, Any]:
    """The manifest's pinning."""
    return _checked(value, _PINNING)


def experiment(value: dict[str, Any]) -> dict[str, Any]:
    """The manifest's experiment, which has a name."""
    if not isinstance(value.get("name"), str):
        raise ValueError("name is not as it is reported")
    return _checked(value, _EXPERIMENT)


def _checked(value: dict[str, Any], shape: Shape) -> dict[str, Any]:
    for key, fits in shape.items():
        if value.get(key) is not None and not fits(value[key]):
            raise ValueError(f"{key} is not as it is reported")
    return value
