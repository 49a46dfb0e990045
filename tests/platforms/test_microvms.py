"""Firecracker's and Cloud Hypervisor's drivers against a mock that speaks their documents, and what they refuse."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.support import guests, machine
from tests.support.facts import assert_facts, refused
from tests.support.guest_kinds import KINDS, Kind
from tests.support.guests import Connected
from tests.support.present import present
from tests.support.repository import ROOT

from virtoll.agent.operations.session import ClocksRequest
from virtoll.errors import GuestDied
from virtoll.pipeline.session import RunSession
from virtoll.platforms.base import GuestStartError
from virtoll.platforms.host import Site
from virtoll.platforms.microvm import driver
from virtoll.platforms.process_guest import AgentGuest

INSIDE_LAB = "guests"
pytestmark = [pytest.mark.lab]

PRODUCTS = ("firecracker", "cloud-hypervisor")
# What each driver is to send, in this order; the documents' rules are applied by the mock.
EXCHANGE = {
    "firecracker": [
        ("PUT", "/machine-config"),
        ("PUT", "/boot-source"),
        ("PUT", "/drives/root"),
        ("PUT", "/network-interfaces/in0"),
        ("PUT", "/network-interfaces/out"),
        ("PUT", "/network-interfaces/marks"),
        ("PUT", "/actions"),
        ("PATCH", "/vm"),
        ("PATCH", "/vm"),
    ],
    "cloud-hypervisor": [
        ("PUT", "/api/v1/vm.create"),
        ("PUT", "/api/v1/vm.boot"),
        ("PUT", "/api/v1/vm.pause"),
        ("PUT", "/api/v1/vm.resume"),
    ],
}


@pytest.fixture
def mock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """A kind for each product whose binary is the mock, by its name."""
    names = {}
    for product in PRODUCTS:
        binary = tmp_path / product
        lines = [
            f"#!{sys.executable}",
            "import sys",
            f"sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'src')!r}]",
            "from tests.support.microvm_mock import main",
            f"main({product!r}, sys.argv[1:])",
        ]
        binary.write_text("\n".join(lines) + "\n", encoding="utf-8")
        binary.chmod(0o755)
        names[product] = f"{product}-mock"
        kind = Kind(product, {"binary": str(binary), "root": "disk"}, kernel="image", slow=True)
        monkeypatch.setitem(KINDS, names[product], kind)
    return names


def requests(live: Connected) -> list[tuple[str, str]]:
    """What the mock was asked."""
    api = present(getattr(live.guest, "api", None))
    lines = (api.path.parent / "requests.jsonl").read_text(encoding="utf-8").splitlines()
    return [(method, path) for method, path, _ in map(json.loads, lines)]


def through_the_whole_path(live: Connected, product: str) -> None:
    """From a guest that has started to one that was parked and goes on, by the document's requests alone."""
    facts = guests.facts(live)
    assert facts.root_filesystem == "erofs"
    assert facts.agent_sha256 == live.site.image.agent_sha256
    guests.assert_forwards(live)
    _, timed = guests.timed_idle(live.bench.timekeeper)
    assert timed.problem is None
    live.guest.park()
    live.guest.resume()
    assert live.guest.agent.ask(ClocksRequest(), guests.HANG_SECONDS).monotonic_ns
    assert requests(live) == EXCHANGE[product]


def assert_gone(live: Connected, family: machine.Family) -> None:
    family.await_end()
    assert not machine.interfaces() & {link.port_interface for link in live.bench.network.links}


def test_the_whole_path_runs_by_the_document(run_session: RunSession, mock: dict[str, str]) -> None:
    live = guests.start(mock["cloud-hypervisor"], run_session)
    family = live.processes()
    through_the_whole_path(live, "cloud-hypervisor")
    live.guest.stop()
    assert_gone(live, family)


def test_a_monitor_that_is_killed_on_the_way_is_noticed(run_session: RunSession, mock: dict[str, str]) -> None:
    live = guests.start(mock["firecracker"], run_session)
    family = live.processes()
    through_the_whole_path(live, "firecracker")
    assert isinstance(live.guest, AgentGuest)
    os.killpg(live.guest.process.pid, signal.SIGKILL)
    guests.assert_found_dead(live)
    with refused("PATCH /vm", error=GuestDied):
        live.guest.park()
    assert set(live.guest.evidence()) == {"console.txt", "monitor.txt"}
    live.guest.stop()
    assert_gone(live, family)


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_refused_boot_is_one_sentence(
    run_session: RunSession, site: Site, mock: dict[str, str], monkeypatch: pytest.MonkeyPatch, product: str
) -> None:
    del run_session
    monkeypatch.setenv("MOCK_REFUSES", "Error creating KVM object: no such ioctl")
    wanted = guests.request(mock[product])
    with pytest.raises(GuestStartError) as raised:
        guests.driver(mock[product]).start(wanted, site)
    assert "\n" not in str(raised.value)
    assert_facts(str(raised.value), 400, "Error creating KVM object")
    assert "monitor.txt" in raised.value.evidence
    assert not machine.interfaces() & {link.port_interface for link in wanted.network.links}
    found = guests.driver(mock[product]).probe(site)
    assert not found.available
    if os.access(driver.KVM_DEVICE, os.R_OK | os.W_OK):
        assert_facts(present(found.reason), "Error creating KVM object")


@pytest.mark.parametrize("product", PRODUCTS)
def test_without_binary_or_kvm_it_says_what_is_missing(
    site: Site, mock: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, product: str
) -> None:
    found = guests.driver(product).probe(dataclasses.replace(site))
    if not found.available and found.version is None:
        assert_facts(found.reason or "", product, _title(product), "'binary'")
    monkeypatch.setattr(driver, "KVM_DEVICE", tmp_path / "kvm")
    found = guests.driver(mock[product]).probe(site)
    assert (found.available, found.version) == (False, f"{product} mock 1")
    assert_facts(found.reason or "", _title(product), tmp_path / "kvm")


def _title(product: str) -> str:
    return " ".join(word.capitalize() for word in product.split("-"))
