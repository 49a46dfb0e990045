"""Slow probes are remembered for as long as nothing changes that they depend on; quick ones are always made."""

from __future__ import annotations

import dataclasses
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.support.facts import Command, assert_facts

from virtoll.agent.client import AgentClient
from virtoll.errors import GuestError
from virtoll.experiment.model import PlatformChoice
from virtoll.experiment.topology import HostAddress
from virtoll.image import GuestImage
from virtoll.lab.inside import Lab, wait_until
from virtoll.pipeline import probe_cache
from virtoll.platforms import EVERY_PLATFORM, platform_of
from virtoll.platforms.base import Probe
from virtoll.platforms.fake.driver import Fake, FakeParameters
from virtoll.platforms.fake.site import model_site
from virtoll.platforms.host import Site


class Counting(Fake):
    """A model that counts how often it is tried, and whose outcome depends on something."""

    def __init__(self, depends: str | None, outcome: Probe) -> None:
        super().__init__(FakeParameters())
        self.depends, self.outcome, self.tried = depends, outcome, 0

    def probe(self, site: Site) -> Probe:  # noqa: ARG002 - the seam's signature
        self.tried += 1
        return self.outcome

    def depends_on(self) -> str | None:
        return self.depends


GOOD, BAD = Probe(True, "QEMU 7.2", None), Probe(False, "QEMU 7.2", "no guest boots")


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VIRTOLL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "probes"


def site(digest: str = "sha256:23") -> Site:
    image = GuestImage(name="tiny", digest=digest, root=Path(), agent=Path(), agent_sha256="")
    return dataclasses.replace(model_site(), host=Lab("virtoll-0123456789ab"), image=image)


def ask(driver: Counting, *, label: str = "x", digest: str = "sha256:23", anew: bool = False, cost: float = 1) -> Probe:
    choice = PlatformChoice(label, "fake", FakeParameters(cost=cost))
    return probe_cache.probe(driver, choice, site(digest), since_ns=time.time_ns() if anew else None)


def test_a_host_that_is_driven_by_its_products_api_holds_no_other_guests() -> None:
    class Other(Counting):
        needs_lab = True

    choice = PlatformChoice("x", "fake", FakeParameters(), host=HostAddress(api="esxi.example.org"))
    driver = Other(None, GOOD)
    refused = probe_cache.probe(driver, choice, site())
    assert not refused.available
    assert_facts(refused.reason or "", "esxi.example.org", "fake")
    assert driver.tried == 0
    model = Counting(None, GOOD)
    assert probe_cache.probe(model, choice, site()) == GOOD, "which is on no host"


def test_a_quick_probe_is_made_every_time(memory: Path) -> None:
    driver = Counting(None, GOOD)
    assert [ask(driver), ask(driver)] == [GOOD, GOOD]
    assert driver.tried == 2
    assert not memory.exists()


def test_a_slow_probe_is_remembered(memory: Path) -> None:
    driver = Counting("/dev/kvm", GOOD)
    assert [ask(driver), ask(driver), ask(driver, label="another")] == [GOOD] * 3
    assert driver.tried == 1
    assert len(list(memory.iterdir())) == 1


@pytest.mark.parametrize("name", ["altered-netns", "altered-qemu-tcg"])
def test_an_altered_guest_is_tried_as_the_real_one(name: str) -> None:
    """Nothing is altered before it runs, so that all of them together are tried once."""
    parameters = EVERY_PLATFORM[name].parameter_model.model_validate({"more_vcpus": 1})
    altered = PlatformChoice("x", name, parameters)
    real = platform_of(altered).tried_as(altered)
    assert real == PlatformChoice("x", name.removeprefix("altered-"), platform_of(real).parameters)
    assert platform_of(real).tried_as(real) is real


def test_what_is_tried_as_another_is_remembered_with_it() -> None:
    class Other(Counting):
        def tried_as(self, choice: PlatformChoice) -> PlatformChoice:
            return dataclasses.replace(choice, parameters=FakeParameters())

    driver = Other("/dev/kvm", GOOD)
    assert [ask(driver, cost=1.5), ask(driver, cost=2)] == [GOOD, GOOD]
    assert driver.tried == 1


def test_a_remembered_no_has_its_date_and_the_remedy() -> None:
    driver = Counting("/dev/kvm", BAD)
    assert ask(driver) == BAD
    remembered = ask(driver)
    assert driver.tried == 1
    assert not remembered.available
    assert_facts(remembered.reason or "", str(BAD.reason), Command("virtoll doctor"))
    assert re.search(r"\b20\d\d-\d\d-\d\d", remembered.reason or ""), "since when"


def message_of(fails: Callable[[], object]) -> str:
    """The message of a failure."""
    with pytest.raises((GuestError, subprocess.TimeoutExpired, TimeoutError)) as raised:
        fails()
    return str(raised.value)


def never_ready() -> None:
    """An agent's channel that is open, and silent."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        AgentClient(ours.fileno(), ours.fileno(), "qemu-kvm/probe").wait_ready(0.0)


@pytest.mark.parametrize(
    "late",
    [
        never_ready,
        lambda: Lab("virtoll-0123456789ab").run(["sleep", "100"], "test", deadline_seconds=0.05),
        lambda: wait_until(lambda: False, 0.0, "a listener"),
        lambda: subprocess.run(["sleep", "100"], timeout=0.05, check=False),
    ],
    ids=["an agent", "a program", "an event", "a program of a driver's own"],
)
def test_what_took_too_long_is_tried_again(memory: Path, late: Callable[[], object]) -> None:
    """It says that the host was busy, and not that the platform does not work there."""
    driver = Counting("/dev/kvm", Probe(False, "QEMU 7.2", f"no guest boots: {message_of(late)}"))
    assert not ask(driver).available
    assert not ask(driver).available
    assert driver.tried == 2
    driver.outcome = GOOD
    assert [ask(driver), ask(driver)] == [GOOD, GOOD]
    assert driver.tried == 3
    driver.outcome = Probe(False, "QEMU 7.2", message_of(late))
    assert not ask(driver, anew=True).available
    assert not list(memory.glob("*.json")), "what was found before is not known to hold any more"


def test_the_doctor_tries_anew_and_what_it_finds_is_remembered() -> None:
    ask(Counting("/dev/kvm", BAD))
    driver = Counting("/dev/kvm", GOOD)
    assert ask(driver, anew=True) == GOOD
    assert ask(driver) == GOOD
    assert driver.tried == 1


def test_what_was_tried_since_a_doctor_began_is_its_own_too() -> None:
    """As of several at once: one tries, and the others take its outcome."""
    choice = PlatformChoice("x", "fake", FakeParameters())
    began_ns = time.time_ns()
    first = Counting("/dev/kvm", Probe.unusable("1", "no guest boots", "load the module", ["kmod"]))
    second = Counting("/dev/kvm", GOOD)
    found = [probe_cache.probe(one, choice, site(), since_ns=began_ns) for one in (first, second)]
    assert found == [first.outcome] * 2
    assert (first.tried, second.tried) == (1, 0)
    assert probe_cache.probe(second, choice, site(), since_ns=time.time_ns()) == GOOD


def test_doctors_at_once_try_once(memory: Path) -> None:
    """Each holds the lock while it tries; who waited finds the outcome."""
    begun, go = threading.Event(), threading.Event()

    class Slow(Counting):
        def probe(self, site: Site) -> Probe:
            begun.set()
            assert go.wait(60)
            return super().probe(site)

    drivers, since_ns = [Slow("/dev/kvm", GOOD) for _ in range(3)], time.time_ns()
    choice = PlatformChoice("x", "fake", FakeParameters())
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(probe_cache.probe, one, choice, site(), since_ns=since_ns) for one in drivers]
        assert begun.wait(60)
        go.set()
        assert [one.result(60) for one in asked] == [GOOD] * 3
    assert sum(one.tried for one in drivers) == 1
    assert list(memory.glob("*.lock")) == []


@pytest.mark.parametrize("changed", [{"digest": "sha256:5"}, {"cost": 2.0}])
def test_another_image_or_parameter_is_tried(changed: dict[str, Any]) -> None:
    driver = Counting("/dev/kvm", GOOD)
    ask(driver)
    ask(driver, **changed)
    assert driver.tried == 2


def test_another_device_is_tried() -> None:
    ask(Counting("/dev/kvm 10,232", BAD))
    driver = Counting("/dev/kvm 10,232 and a group", GOOD)
    assert ask(driver) == GOOD
    assert driver.tried == 1


@pytest.mark.parametrize("content", ["", "{", "[]", '{"available": true}'])
def test_a_damaged_memory_is_no_memory(memory: Path, content: str) -> None:
    driver = Counting("/dev/kvm", GOOD)
    ask(driver)
    (file,) = memory.iterdir()
    file.write_text(content)
    assert ask(driver) == GOOD
    assert driver.tried == 2
    assert ask(driver) == GOOD
    assert driver.tried == 2
