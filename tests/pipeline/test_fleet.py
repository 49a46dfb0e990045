"""Which CPU does what, and where a guest measured inside is not what was asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments, model_runs
from tests.support.experiments import fake
from tests.support.facts import assert_facts
from tests.support.model_runs import measured

from virtoll.errors import GuestError, StorageError
from virtoll.host.guest_usage import HostView
from virtoll.lab.cgroups import Limits
from virtoll.lab.data import DataVolume
from virtoll.lab.network import GuestNetwork
from virtoll.pipeline.data_directory import DataKeeper
from virtoll.pipeline.fleet import Fleet
from virtoll.pipeline.guest_check import Mismatch, compare
from virtoll.pipeline.pinning import Pinning, choose_pinning
from virtoll.pipeline.room import ended_for
from virtoll.platforms.base import GuestRequest
from virtoll.platforms.fake.driver import FakeGuest
from virtoll.platforms.fake.site import ModelHost, ModelNetwork, model_site
from virtoll.platforms.host import Site, Sleep
from virtoll.runfolder.facts import Facts

MIB = 2**20


@pytest.mark.parametrize(
    ("vcpus", "allowed", "expected"),
    [
        (1, (0,), Pinning((), None, None)),
        (2, (0, 1), Pinning((), None, None)),
        (1, (0, 1), Pinning((0,), 1, 1)),
        (1, (0, 1, 2), Pinning((0,), 2, 1)),
        (1, (3, 5, 7, 9), Pinning((3,), 9, 7)),
        (2, (0, 1, 2), Pinning((0, 1), 2, 2)),
        (2, (0, 1, 2, 3), Pinning((0, 1), 3, 2)),
    ],
)
def test_a_guests_cpu_is_never_shared_with_its_load(vcpus: int, allowed: tuple[int, ...], expected: Pinning) -> None:
    assert choose_pinning(vcpus, allowed) == expected
    assert not {expected.generator_cpu, expected.sink_cpu} & set(expected.guest_cpus)


@pytest.mark.parametrize(
    ("most", "vcpus", "allowed", "expected"),
    [
        (2, 1, (0, 1, 2), (0,)),
        (2, 2, (0, 1, 2), (0, 1)),
        (2, 2, (0, 1), ()),
        (2, 1, (0, 1), (0,)),  # the larger guest is not pinned, and this one has no more CPUs for that
    ],
)
def test_a_smaller_guest_is_on_the_first_cpus_of_the_largest(
    most: int, vcpus: int, allowed: tuple[int, ...], expected: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(allowed))
    assert choose_pinning(most).guest_of(vcpus) == expected


def found(cpus: tuple[int, ...] = (0,), **facts: Any) -> list[str]:
    wanted = GuestRequest("netns/0", 1, 256 * MIB, cpus, GuestNetwork(()))
    return [one.text for one in compare(wanted, Facts.from_json(facts), HostView())]


def test_what_is_as_asked_or_unknown_is_no_mismatch() -> None:
    assert found() == []
    assert found(cpus_allowed=1, memory_total_bytes=256 * MIB) == []
    assert found(cpus_allowed=1, memory_total_bytes=64 * 1024 * MIB, memory_limit_bytes=256 * MIB) == []
    assert found(memory_total_bytes=205 * MIB) == [], "a small machine's kernel keeps some for itself"
    assert found(cpus=(), cpus_allowed=8) == [], "nothing was pinned"


def test_a_mismatch_has_what_was_asked_and_what_was_found() -> None:
    cases: tuple[tuple[dict[str, Any], int], ...] = (
        ({"cpus_allowed": 2}, 2),
        ({"cpus_online": 2}, 2),  # gVisor shows no mask
    )
    for facts, inside in cases:
        (mismatch,) = found(**facts)
        assert_facts(mismatch, "CPUs", 1, inside)
    assert found(cpus_online=2, cpus_allowed=1) == []
    (mismatch,) = found(memory_total_bytes=512 * MIB)
    assert_facts(mismatch, "memory", "256 MiB", "512 MiB")


HOST = HostView("host", 64 * 1024 * MIB)


def against(host: HostView, quota: float | None = None, **facts: Any) -> list[Mismatch]:
    wanted = GuestRequest("netns/0", 1, 256 * MIB, (0,), GuestNetwork(()), cpu_quota=quota)
    return compare(wanted, Facts.from_json(facts), host)


@pytest.mark.parametrize(
    ("facts", "fatal"),
    [
        ({"boot_id": "own", "memory_installed_bytes": 128 * MIB}, ["256 MiB", "128 MiB"]),
        ({"boot_id": "own", "memory_installed_bytes": 512 * MIB}, ["256 MiB", "512 MiB"]),
        ({"boot_id": "own", "memory_installed_bytes": 255 * MIB, "memory_total_bytes": 180 * MIB}, []),
        ({"boot_id": "own", "memory_total_bytes": 180 * MIB}, ["256 MiB", "180 MiB"]),
        ({"boot_id": "host", "memory_limit_bytes": 128 * MIB}, ["256 MiB", "128 MiB"]),
        ({"boot_id": "host", "memory_installed_bytes": 64 * 1024 * MIB, "memory_limit_bytes": 256 * MIB}, []),
        ({"cpus_allowed": 2}, ["CPUs"]),
    ],
)
def test_another_guest_than_was_asked_for_is_fatal(facts: dict[str, Any], fatal: list[str]) -> None:
    texts = [one.text for one in against(HOST, **facts) if one.fatal]
    assert len(texts) == (1 if fatal else 0)
    assert_facts(" ".join(texts), *fatal)


def test_a_platform_that_enforces_no_size_is_reported_and_believed() -> None:
    (found,) = against(HOST, boot_id="host", memory_total_bytes=64 * 1024 * MIB)
    assert not found.fatal
    assert_facts(found.text, "256 MiB", "65536 MiB")


def test_a_limit_seen_from_outside_counts_for_guests_on_the_hosts_kernel() -> None:
    host = HostView("host", 64 * 1024 * MIB, Limits(memory_bytes=128 * MIB))
    assert [one.fatal for one in against(host, boot_id="host", memory_total_bytes=64 * 1024 * MIB)] == [True]
    assert against(host, boot_id="own", memory_installed_bytes=256 * MIB) == [], "that is the monitor's limit"


def test_a_container_that_hides_its_limit_is_judged_by_the_limit_outside() -> None:
    """As systemd-nspawn does on a host with cgroup v2."""
    whole: dict[str, Any] = {
        "boot_id": "own",
        "memory_installed_bytes": 64 * 1024 * MIB,
        "memory_total_bytes": 63 * 1024 * MIB,
    }
    assert against(HostView("host", 64 * 1024 * MIB, Limits(memory_bytes=256 * MIB)), **whole) == []
    for limits in (Limits(), Limits(memory_bytes=128 * MIB), Limits(memory_bytes=512 * MIB)):
        (text,) = (one.text for one in against(HostView("host", 64 * 1024 * MIB, limits), **whole) if one.fatal)
        assert_facts(text, "256 MiB", "65536 MiB")


@pytest.mark.parametrize(
    ("asked", "inside", "outside", "fatal", "facts"),
    [
        (0.2, (20_000, 100_000), None, [], []),
        (0.2, None, 0.2, [], []),
        (0.2, None, None, [], []),
        (0.2, (50_000, 100_000), None, [True], [0.2, 0.5]),
        (0.5, (50_000, 100_000), 0.25, [True], [0.5, 0.25]),
        (None, None, 0.5, [False], ["CPU quota", 0.5]),
        (None, None, 4.0, [], []),
    ],
)
def test_a_quota_is_compared_inside_and_outside(
    asked: float | None, inside: tuple[int, int] | None, outside: float | None, fatal: list[bool], facts: list[float]
) -> None:
    reported = {"quota_us": inside[0], "period_us": inside[1]} if inside else None
    host = HostView("host", None, Limits(cpu_quota=outside))
    mismatches = against(host, asked, cpu_quota=reported)
    assert [one.fatal for one in mismatches] == fatal
    assert_facts(" ".join(one.text for one in mismatches), *facts)


def test_a_guest_has_its_platforms_own_size(tmp_path: Path) -> None:
    experiment = experiments.parsed(
        baseline="a",
        platforms=[fake("a", seed=1), fake("b", seed=2) | {"guest": {"vcpus": 2, "memory": "512MiB"}}],
        blocks=1,
    )
    folder = measured(experiment, tmp_path / "run")
    given = {boot.platform: boot.requested for boot in folder.boots()}
    assert {label: (one.vcpus, one.memory_bytes) for label, one in given.items() if one is not None} == {
        "a": (1, 256 * MIB),
        "b": (2, 512 * MIB),
    }
    written = {one.label: (one.vcpus, one.memory_bytes) for one in folder.manifest.platforms}
    assert written == {"a": (None, None), "b": (2, 512 * MIB)}


class Refusing(ModelNetwork):
    """A host's network that has no NIC for the guests of one index and more."""

    def __init__(self, first: int) -> None:
        self.first = first

    def reach(self, network: GuestNetwork, *, neighbour: int = 0) -> GuestNetwork:
        del neighbour
        if network.links[0].owner >= self.first:
            raise GuestError("ssh a@b has no NIC for in1, in2; it has: in0, out")
        return network


def two_models(tmp_path: Path, site: Site) -> Fleet:
    """A fleet of two models, whose seeds are 1 and 2, in one block."""
    platforms = [fake("a", seed=1), fake("b", seed=2)]
    experiment = experiments.parsed(baseline="a", platforms=platforms, blocks=1)
    return model_runs.fleet(experiment, measured(experiment, tmp_path / "run"), site)


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Seeds of the models that were stopped."""
    seeds: list[int] = []
    monkeypatch.setattr(FakeGuest, "stop", lambda guest: seeds.append(guest.world.parameters.seed))
    return seeds


def test_a_guest_that_cannot_be_planned_costs_its_own_trials_only(tmp_path: Path, stopped: list[int]) -> None:
    """Links that its host has no NIC for: an accepted experiment led to that, and killed the run."""
    fleet = two_models(tmp_path, replace(model_site(), network=Refusing(1)))
    before = len(fleet.starts.folder.boots())
    stopped.clear()
    with fleet:
        assert fleet.guest("a") is not None
        assert fleet.guest("b") is None
        assert_facts(fleet.why_absent("b"), "in1, in2")
    made = {(boot.platform, boot.status, boot.requested is None) for boot in fleet.starts.folder.boots()[before:]}
    assert made == {("a", "ok", False), ("b", "failed", True)}
    assert stopped == [1]


@pytest.mark.parametrize("error", [StorageError("no room"), KeyboardInterrupt()], ids=["disk full", "interrupted"])
def test_what_ends_the_run_while_guests_start_ends_those_that_are_up(
    error: BaseException, tmp_path: Path, stopped: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = two_models(tmp_path, model_site())
    stopped.clear()
    park = FakeGuest.park

    def end_the_run(guest: FakeGuest) -> None:
        if guest.world.parameters.seed == fleet.block[-1].platform.parameters.model_dump()["seed"]:
            raise error
        park(guest)

    monkeypatch.setattr(FakeGuest, "park", end_the_run)
    with pytest.raises(type(error)), fleet:
        raise AssertionError("the block must not begin")
    assert sorted(stopped) == [1, 2]


@pytest.mark.parametrize(
    ("lacking", "held", "ended"),
    [
        (0, {"a": 5}, []),
        (3, {"a": 1, "b": 4, "c": 2}, ["b"]),
        (5, {"a": 1, "b": 4, "c": 2}, ["b", "c"]),
        (8, {"a": 1, "b": 4, "c": 2}, []),  # it would not help
        (1, {}, []),
    ],
)
def test_guests_that_hold_most_are_ended_for_another_and_none_in_vain(
    lacking: int, held: dict[str, int], ended: list[str]
) -> None:
    assert ended_for(lacking, held) == ended


def test_a_guest_that_holds_what_another_needs_is_started_anew_later(
    tmp_path: Path, stopped: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both hold 300 MiB once they are up; the host has 1100 MiB, of which 512 are its own."""
    fleet, up = two_models(tmp_path, model_site()), set[str]()
    before, total, each = len(fleet.starts.folder.boots()), 1100 * MIB, 300 * MIB
    monkeypatch.setattr(ModelHost, "local", object())
    # The host's memory follows the guests that are up, which the fleet alone knows.
    monkeypatch.setattr("virtoll.pipeline.room.available_bytes", lambda: total - each * len([*fleet.pool.everyone()]))
    monkeypatch.setattr("virtoll.pipeline.guest_pool.held_bytes", lambda _: each)
    stopped.clear()
    with fleet:
        assert stopped == [], "256 MiB are there for the second one"
        total = 1000 * MIB
        for label in ("a", "b", "a"):
            live = fleet.guest(label)
            assert live is not None
            up.add(live.boot)
            assert [guest.label for guest in fleet.pool.everyone()] == [label]
        total = 200 * MIB
        assert fleet.guest("a") is not None
        assert fleet.guest("b") is not None, "it is tried all the same"
    assert up == {"a/0", "b/0/2", "a/0/2"}
    assert stopped == [2, 1, 2, 1, 2]
    assert [boot.status for boot in fleet.starts.folder.boots()[before:]] == ["ok"] * 5


@dataclass
class ListedHost:
    """A host that can be stopped; the list has its calls."""

    calls: list[str]

    def park(self) -> None:
        """Noted."""
        self.calls.append("park")

    def resume(self) -> None:
        """Noted."""
        self.calls.append("resume")


def test_a_host_sleeps_while_no_guest_of_any_image_needs_it() -> None:
    calls: list[str] = []

    site = replace(model_site(), sleep=Sleep(ListedHost(calls)))
    other = replace(site, image=replace(site.image, name="tiny"))
    with site.awake():
        with other.awake():
            pass
        assert calls == ["resume"]
    assert calls == ["resume", "park"]


def test_what_a_guest_had_on_its_host_is_removed_before_the_host_sleeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A nested host that is stopped answers nothing: its guests' data directories were asked away in vain."""
    calls: list[str] = []

    class Room(DataVolume):
        disk_path = None

        def resident(self) -> int:
            return 0

        def evict(self) -> int:
            return 0

        def remove(self) -> None:
            calls.append("remove")

    fleet = two_models(tmp_path, replace(model_site(), sleep=Sleep(ListedHost(calls))))
    monkeypatch.setattr(FakeGuest, "stop", lambda _: calls.append("stop"))
    with fleet:
        live = fleet.guest("a")
        assert live is not None
        live.data = DataKeeper(live.guest.agent, Room(MIB, "ext4"))
        calls.clear()
    ended = calls.index("remove")
    assert calls[ended - 2 : ended + 2] == ["resume", "stop", "remove", "park"]
