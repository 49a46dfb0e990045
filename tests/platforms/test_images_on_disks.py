"""The image with tools in guests that have no data directory: libvirt's, and those of an emulated host.

That host has the image as a disk, and hands it on to its guests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support import guests
from tests.support.guest_kinds import NESTED

from virtoll import nested
from virtoll.pipeline.session import RunSession
from virtoll.workloads import WORKLOADS

INSIDE_LAB = True
LAB_SECONDS_PER_TEST = 60.0  # what is nested, whose hosts boot first, takes five times as long
pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]
SMALL: dict[str, dict[str, Any]] = {
    "bzip2": {"size_bytes": "64KiB"},
    "sysbench-cpu": {"events": 2},
    "kernel-operations": {"operation": "fork-sh", "operations": 2},
}


def needed_nested_hosts(items: list[pytest.Function]) -> list[nested.NestedKind]:
    """Those that the chosen tests boot, made outside: there is no way to a package mirror from inside."""
    kinds = {str(item.callspec.params["kind"]) for item in items}
    hosts = {NESTED[kind].host for kind in kinds & set(NESTED)}
    return [kind for name, kind in nested.NESTED_HOSTS.items() if f"nested:{name}" in hosts]


@pytest.fixture(scope="module")
def run_session() -> Iterator[RunSession]:
    """The lab's run session with the tools in its image, before a nested host is booted."""
    with guests.session_with_tools() as made:
        yield made


@pytest.mark.parametrize(
    "kind",
    [
        "libvirt-system",
        "libvirt-lxc",
        # Its machine is the daemon's, which reads the disk as another user; and what a machine elsewhere opens is seen
        # in test_tools_image.py.
        *(pytest.param(kind, marks=pytest.mark.extended) for kind in ("libvirt", "nested-kvm")),
        *(pytest.param(kind, marks=pytest.mark.nested) for kind in ("nested-xen-pv", "nested-virtualbox")),
    ],
)
def test_programs_of_the_image_run_there(run_session: RunSession, kind: str) -> None:
    with run_session.site_of(guests.choice(kind)).awake():
        live = guests.start(kind, run_session)
        for name, parameters in SMALL.items():
            workload = WORKLOADS[name].with_parameters(parameters)
            guests.assert_right(guests.measured(workload, lambda: live.bench))
        live.held.stop()
