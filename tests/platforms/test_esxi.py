"""VMware ESXi: the driver against VMware's own simulator of the API, with a real machine under QEMU behind each VM.

What this does not show is ESXi itself: docs/platforms/esxi.md says what was tried on what.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim
from tests.platforms import test_guests as contract
from tests.support import guests
from tests.support.esxi import DATASTORE, PASSWORD_VARIABLE, EsxiHost, esxi_host
from tests.support.guests import ALL_KINDS, Connected, Kind

from virtoll.errors import GuestError
from virtoll.ground import Ground
from virtoll.lab import residue
from virtoll.lab.inside import wait_until
from virtoll.platforms.base import GuestStartError
from virtoll.platforms.esxi import Esxi, leftovers, remove_leftovers
from virtoll.platforms.esxi.parameters import EsxiParameters
from virtoll.platforms.esxi.session import Session, open_session
from virtoll.timekeeper import echo_request

INSIDE_LAB = True
pytestmark = [pytest.mark.lab, pytest.mark.root]

SECOND_NS = 1_000_000_000
VARIANTS: dict[str, dict[str, Any]] = {
    "vmxnet3": {},
    "e1000e": {"nic": "e1000e", "serial": "call", "callback": "127.0.0.1"},
    "e1000": {"nic": "e1000", "memory_reservation": "full", "latency_sensitivity": "high", "cpu_reservation_mhz": 500},
}


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with guests.ground() as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lab's record, which says what is to be undone should this process die."""
    folder = tmp_path_factory.mktemp("record")
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.environ[residue.RECORD_VARIABLE] = str(descriptor)
    yield folder
    del os.environ[residue.RECORD_VARIABLE]
    os.close(descriptor)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EsxiHost]:
    with esxi_host(tmp_path_factory.mktemp("esxi")) as started:
        for name, parameters in VARIANTS.items():
            ALL_KINDS[f"esxi-{name}"] = Kind(
                "esxi", started.parameters(**parameters), kernel="image", vlans=True, slow=True, variant=name != "vmxnet3"
            )
        yield started


@pytest.fixture(scope="module", params=list(VARIANTS))
def live(request: pytest.FixtureRequest, ground: Ground, host: EsxiHost) -> Iterator[Connected]:
    """One guest for all tests of its kind; the last test ends it."""
    before = inventory(host)
    started = guests.start(f"esxi-{request.param}", ground)
    yield started
    started.held.stop()
    assert inventory(host) == before


def inventory(host: EsxiHost) -> dict[str, Any]:
    """Everything that a guest may leave on a host: machines, switches, port groups, files."""
    with session_of(host) as session:
        network = session.host.configManager.networkSystem.networkInfo
        found = {
            "machines": {one.name: str(one.runtime.powerState) for one in session.machines()},
            "switches": [one.name for one in network.vswitch],
            "port groups": [one.spec.name for one in network.portgroup],
            "networks": [one.name for one in session.centre.networkFolder.childEntity],
        }
        (store,) = session.centre.datastoreFolder.childEntity
        folder = Path(store.summary.url)
    found["files"] = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
    return found


def session_of(host: EsxiHost) -> contextlib.AbstractContextManager[Session]:
    return open_session(EsxiParameters.model_validate(host.parameters()))


def test_it_is_ready_and_says_what_it_is(live: Connected) -> None:
    contract.test_it_is_ready_and_says_what_it_is(live)


def test_a_low_rate_is_forwarded_without_loss_and_the_books_balance(live: Connected) -> None:
    contract.test_a_low_rate_is_forwarded_without_loss_and_the_books_balance(live)


def test_it_forwards_the_other_way_as_well(live: Connected) -> None:
    contract.test_it_forwards_the_other_way_as_well(live)


def test_a_job_is_timed_from_outside(live: Connected) -> None:
    contract.test_a_job_is_timed_from_outside(live)


def test_a_job_is_timed_over_the_channel(live: Connected) -> None:
    contract.skip_variant(live)
    contract.test_a_job_is_timed_over_the_channel(live)


def test_data_goes_in_and_comes_back_byte_for_byte(live: Connected) -> None:
    contract.skip_variant(live)
    contract.test_data_goes_in_and_comes_back_byte_for_byte(live)
