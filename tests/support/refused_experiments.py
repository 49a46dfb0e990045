"""Experiments whose file is refused: what is wrong in them, the key that is at fault, and the facts of the message."""

from __future__ import annotations

from typing import Any

import pytest
from _pytest.mark import ParameterSet
from tests.support import experiments
from tests.support.facts import Fact, refused

from virtoll.errors import UsageError

QEMU = {"platform": "qemu-tcg"}
DEVICES = ["0000:01:00.0", "0000:01:00.1"]
FAR: dict[str, Any] = {"host": {"ssh": "bench@peer"}}
TESTBED = {
    "generator": FAR | {"interfaces": ["eth1"]},
    "sink": FAR | {"interfaces": ["eth2"]},
    "hypervisor": {"host": "local", "interfaces": ["enp1s0", "enp2s0"]},
}
SECOND = {"ssh": "bench@second"}
SEVERAL = {
    "generator": [FAR | {"interfaces": ["eth1"]}, {"host": SECOND, "interfaces": ["eth1"]}],
    "sink": FAR | {"interfaces": ["eth2"]},
    "hypervisor": {"host": "local", "interfaces": ["enp1s0", "enp2s0", "enp3s0"]},
}
"""Two generators on hosts of their own."""


def of_file(key: str, *facts: Fact, **changed: Any) -> ParameterSet:
    """The example with these keys changed."""
    return pytest.param(changed, key, facts, id=f"{key} {facts[0]}")


def of_platform(name: str, key: str, *facts: Fact, **parameters: Any) -> ParameterSet:
    """A platform after native; an empty ``key`` is the entry itself."""
    entries = ["native", {"platform": name, **parameters}]
    return of_file(_below("platforms[1]", key), *facts, platforms=entries)


def of_machine(key: str, *facts: Fact, **parameters: Any) -> ParameterSet:
    """The same of QEMU."""
    return of_platform("qemu-tcg", key, *facts, **parameters)


def of_workload(name: str, key: str, *facts: Fact, **parameters: Any) -> ParameterSet:
    """A workload, alone."""
    return of_file(_below("workloads[0]", key), *facts, workloads=[{"workload": name, **parameters}])


def of_forwarding(key: str, *facts: Fact, testbed: Any = None, **parameters: Any) -> ParameterSet:
    """The same of forward, on a testbed or here."""
    workload = {"workload": "forward", **parameters}
    return of_file(_below("workloads[0]", key), *facts, workloads=[workload], testbed=testbed)


def assert_refused(changed: dict[str, Any], key: str, *facts: Fact) -> None:
    """The example so changed is refused for this key alone, in one line with these facts, the key and the file."""
    with refused(experiments.FILE, key, *facts, error=UsageError) as caught:
        experiments.parsed(**changed)
    assert isinstance(caught.value, UsageError)
    assert [problem.key for problem in caught.value.problems] == [key]
    assert caught.value.exit_code == 2


def _below(entry: str, key: str) -> str:
    return f"{entry}.{key}" if key else entry
