"""What nested hosts are made of is as it was when all their guests last kept the contract.

No test without such a host can see what a flag of its CPU or a program that is left away does to a hypervisor. So
whoever changes one runs ``make test-nested``, and after that ``make snapshots``.
"""

from __future__ import annotations

from dataclasses import asdict

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.support.guest_kinds import NESTED
from tests.support.repository import ROOT

from virtoll.nested import NESTED_HOSTS, NestedKind

ALL = list(NESTED_HOSTS.values())
FLAGS = {"xen-hvm": "`xen`'s", "xen-pci": "`xen`'s"}


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_a_host_is_what_its_guests_last_ran_on(kind: NestedKind, snapshot: SnapshotAssertion) -> None:
    assert asdict(kind) == snapshot


def test_each_host_is_known_by_its_name_and_has_guests_in_tests() -> None:
    assert {f"nested:{name}" for name in NESTED_HOSTS} == {guest.host for guest in NESTED.values()}
    assert [kind.name for kind in ALL] == list(NESTED_HOSTS)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_the_documentation_says_how_large_it_is(kind: NestedKind) -> None:
    page = (ROOT / "docs/nested-hosts.md").read_text(encoding="utf-8")
    (row,) = (line.split(" | ") for line in page.splitlines() if line.startswith(f"| `{kind.name}` | "))
    flags, cpus, memory = row[2:5]
    assert flags == FLAGS.get(kind.name, f"`{kind.cpu}`")
    assert (cpus.lstrip("[")[0], memory) == (str(kind.cpus), f"{kind.memory_mib // 1024} GiB")
