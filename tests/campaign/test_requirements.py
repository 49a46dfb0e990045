"""Trials that a platform cannot hold are skipped with the reason, and cost no guest."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.support import experiments
from tests.support.experiments import fake

from virtoll.campaign import pipeline, requirements
from virtoll.campaign.preview import plan_of
from virtoll.campaign.progress import SilentProgress
from virtoll.campaign.requirements import data_bytes, images_of, memory_at_once, unmet, why_impossible
from virtoll.platforms import EVERY_PLATFORM, PLATFORMS
from virtoll.platforms.base import GuestRequest, Platform, Probe
from virtoll.platforms.fake.driver import Fake, FakeGuest, FakeParameters
from virtoll.platforms.host import Site
from virtoll.platforms.kernel_settings import KernelSettings
from virtoll.runfolder.store import RunFolder
from virtoll.workloads import WORKLOADS
from virtoll.workloads.base import FEATURES, Needs
from virtoll.workloads.forkwait import ForkWait

GIB = 2**30


class Demanding(ForkWait):
    """forkwait that says it needs more than it does: so many GiB of data, or a feature."""

    name: ClassVar[str] = "forkwait"

    def needs(self) -> Needs:
        wanted = self.parameters.processes
        if wanted == 1:
            return Needs(data_bytes=2 * GIB)
        return Needs(features=frozenset({"io-uring"})) if wanted == 2 else Needs()


class Lacking(Fake):
    """The model without io_uring."""

    name: ClassVar[str] = "lacking"
    lacks: ClassVar[dict[str, str]] = {"io-uring": "its model knows none"}


class SetParameters(KernelSettings, FakeParameters):
    """A model whose kernel has settings."""


class Set(Platform[SetParameters]):
    """The model with a kernel that always counts by 'model'."""

    name: ClassVar[str] = "set"
    family: ClassVar[str] = "model"
    title: ClassVar[str] = "a model"
    parameter_model = SetParameters
    boot_seconds: ClassVar[float] = 0.0
    slowdown: ClassVar[float] = 0.0
    needs_lab: ClassVar[bool] = False

    def probe(self, site: Site) -> Probe:
        return Fake(FakeParameters()).probe(site)

    def start(self, request: GuestRequest, site: Site) -> FakeGuest:
        return Fake(FakeParameters()).start(request, site)


class Watched(Fake):
    """The model; keeps what it was asked to start."""

    asked: ClassVar[list[GuestRequest]] = []

    def start(self, request: GuestRequest, site: Site) -> FakeGuest:
        self.asked.append(request)
        return super().start(request, site)


def measured(into: Path, **changed: Any) -> RunFolder:
    pipeline.measure(experiments.parsed(**{"baseline": "model", **changed}), into, ["virtoll"], SilentProgress())
    return RunFolder.open(into)


@pytest.fixture
def demanding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WORKLOADS.loaders, "forkwait", lambda: Demanding)
    monkeypatch.setitem(EVERY_PLATFORM.loaders, "lacking", lambda: Lacking)


def test_a_setting_that_its_kernel_has_not_skips_its_trials_and_is_stored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(EVERY_PLATFORM.loaders, "set", lambda: Set)
    folder = measured(
        tmp_path / "run",
        platforms=[fake("model"), {"platform": "set", "clocksource": ["model", "hpet"]}],
        blocks=1,
        workloads=[{"workload": "superpi", "digits": 100}],
    )
    said = (
        "clocksource: its kernel counts by 'model' and not by 'hpet'; it has: none that it reports; name one of these"
    )
    found = {(one.platform, one.status, one.reason) for one in folder.trials()}
    refused = f"its guest could not be started: {said}"
    assert found == {("model", "ok", None), ("set-model", "ok", None), ("set-hpet", "skipped", refused)}
    boots = [one for one in folder.boots() if one.platform == "set-hpet"]
    assert {(one.status, one.reason, (one.facts or {})["clock_source"]) for one in boots} == {("failed", said, "model")}


def test_memory_that_the_guest_has_not_skips_those_trials_alone(tmp_path: Path) -> None:
    folder = measured(
        tmp_path / "run",
        platforms=[fake("model"), fake("other")],
        blocks=2,
        workloads=[{"workload": "masr", "size_bytes": ["32MiB", "2GiB"]}],
        guest={"memory": "128MiB"},
    )
    skipped = [one for one in folder.trials() if one.status != "ok"]
    assert {(one.status, one.parameters["size_bytes"]) for one in skipped} == {("skipped", 2 * GIB)}
    assert {one.reason for one in skipped} == {
        "masr needs 2.06 GiB of memory with these parameters, and the guest is given 128 MiB ('guest.memory')"
    }
    assert len(skipped) == 4
    assert len(folder.boots()) == 4, "the same guests ran the other trials"


def test_a_platform_of_which_nothing_is_left_is_not_started(tmp_path: Path) -> None:
    folder = measured(
        tmp_path / "run", platforms=[fake("model")], workloads=[{"workload": "masr", "size_bytes": "2GiB"}], blocks=1
    )
    assert [one.status for one in folder.trials()] == ["skipped"]
    assert folder.boots() == ()


@pytest.mark.usefixtures("demanding")
def test_a_feature_that_is_lacking_and_a_disk_that_is_not_there(tmp_path: Path) -> None:
    folder = measured(
        tmp_path / "run",
        blocks=1,
        platforms=[fake("model"), {"platform": "lacking", "label": "without"}],
        workloads=[{"workload": "forkwait", "processes": [1, 2, 3]}],
    )
    reasons = {(one.platform, one.parameters["processes"]): one.reason for one in folder.trials()}
    no_disk = "{} carries no data directory on its host's disk; choose another platform for this workload"
    assert reasons == {
        ("model", 1): no_disk.format("fake"),
        ("without", 1): no_disk.format("lacking"),
        ("model", 2): None,
        ("without", 2): "forkwait needs asynchronous input and output by io_uring, which lacking has not: "
        "its model knows none",
        ("model", 3): None,
        ("without", 3): None,
    }
    assert len(folder.boots()) == 2


@pytest.mark.usefixtures("demanding")
def test_what_a_plan_takes_is_every_guests_largest_at_one_time() -> None:
    def taken(order: str) -> tuple[int, Counter[int]]:
        workloads = [{"workload": "forkwait", "processes": [1, 3]}]
        asked = experiments.parsed(platforms=["native", "netns"], workloads=workloads, order=order, blocks=3)
        plan = plan_of(asked)
        return data_bytes(plan), memory_at_once(plan, asked)

    assert taken("randomised") == (4 * GIB, Counter({GIB // 4: 2})), "both guests are up at one time"
    assert taken("paper") == (2 * GIB, Counter({GIB // 4: 1}))


def test_all_guests_have_the_links_of_the_workload_that_needs_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EVERY_PLATFORM.loaders, "fake", lambda: Watched)
    monkeypatch.setattr(Watched, "asked", [])
    quick = {"first_rate_frames_per_second": 1e6, "point_milliseconds": 10}
    forward: list[dict[str, object]] = [
        {"sources": 1, "frame_size_bytes": 1518},
        {"sources": 3},
        {"sources": 2, "egress": "each"},
    ]
    workloads = [*({"workload": "forward", **quick, **one} for one in forward), {"workload": "superpi", "digits": 10}]
    measured(tmp_path / "run", platforms=[fake("model"), fake("other")], workloads=workloads, blocks=1)
    assert [len(one.network.sources) for one in Watched.asked] == [3, 3]
    assert [[link.name for link in one.network.sinks] for one in Watched.asked] == [["out", "out1"]] * 2
    assert {link.mtu_bytes for one in Watched.asked for link in one.network.traffic} == {1500}


def test_two_cpus_are_too_many_for_user_mode_linux_alone() -> None:
    asked = experiments.parsed(platforms=["native", "uml"], guest={"vcpus": 2}, blocks=1)
    reasons = {one.platform.label: why_impossible(one, asked) for one in plan_of(asked).trials}
    assert reasons == {
        "native": None,
        "uml": "uml gives a guest at most one CPU, and it is to have 2 ('guest.vcpus')",
    }


def far(host: dict[str, str]) -> dict[str, object]:
    """The section of an experiment whose guests are on another host."""
    here = {
        role: {"host": "local", "interfaces": [f"eth{number}"]} for number, role in enumerate(("generator", "sink"))
    }
    return {**here, "hypervisor": {"host": host, "interfaces": ["a", "b"]}}


@pytest.mark.parametrize(
    ("host", "changed", "reasons"),
    [
        (
            {"ssh": "root@far"},
            {},
            {
                "native": None,
                "runc": "runc runs on this machine only; run Virtoll on ssh root@far itself",
                "qemu-tcg": None,
                "xen": None,
                "fake": None,
            },
        ),
        (
            {"ssh": "root@far"},
            {"cpu_quota": 0.5},
            {
                "native": "native has its CPU quota by cgroups of this machine; leave 'guest.cpu_quota' out on "
                "ssh root@far",
                "runc": "runc runs on this machine only; run Virtoll on ssh root@far itself",
                "qemu-tcg": "qemu-tcg has its CPU quota by cgroups of this machine; leave 'guest.cpu_quota' out on "
                "ssh root@far",
                "xen": None,
                "fake": None,
            },
        ),
        (
            {"api": "esxi.example.org"},
            {"cpu_quota": 0.5},
            {
                "native": "esxi.example.org holds the guests of its own product alone; take native out",
                "qemu-tcg": "esxi.example.org holds the guests of its own product alone; take qemu-tcg out",
                "xen": "esxi.example.org holds the guests of its own product alone; take xen out",
                "fake": None,
            },
        ),
    ],
)
def test_what_cannot_be_on_another_host_is_known_from_the_plan(
    host: dict[str, str], changed: dict[str, float], reasons: dict[str, str | None]
) -> None:
    guest = {"marks": "channel", **changed}
    asked = experiments.parsed(platforms=list(reasons), testbed=far(host), guest=guest, blocks=1)
    assert {one.platform.label: why_impossible(one, asked) for one in plan_of(asked).trials} == reasons


def test_limits_of_its_own_are_not_for_a_host_elsewhere() -> None:
    native = {"platform": "native", "label": "native", "memory_max": "64MiB", "cpu_weight": 50}
    asked = experiments.parsed(
        platforms=[native], testbed=far({"ssh": "root@far"}), guest={"marks": "channel"}, blocks=1
    )
    reasons = {why_impossible(one, asked) for one in plan_of(asked).trials}
    assert reasons == {"cpu_weight: native has it by cgroups of this machine; leave it out on ssh root@far"}


def test_needs_are_held_against_a_platforms_own_size() -> None:
    asked = experiments.parsed(
        platforms=["native", {"platform": "netns", "guest": {"memory": "4GiB"}}],
        workloads=[{"workload": "masr", "size_bytes": "2GiB"}],
        blocks=1,
    )
    reasons = {one.platform.label: why_impossible(one, asked) for one in plan_of(asked).trials}
    assert reasons["netns-4gib"] is None
    assert reasons["native"] is not None
    assert "given 256 MiB" in reasons["native"]


def test_a_machine_of_esxi_has_files_on_its_datastore() -> None:
    esxi = {
        "platform": "esxi",
        "label": "esxi",
        "server": "esxi.example.org",
        "password_from": "env:ESXI_PASSWORD",
        "datastore": "datastore1",
        "port_groups": ["a", "b"],
    }
    asked = experiments.parsed(
        platforms=[esxi],
        testbed=far({"api": "esxi.example.org"}),
        guest={"marks": "channel"},
        workloads=[{"workload": "fio"}, {"workload": "bonnie"}, {"workload": "zfg"}],
        blocks=1,
        baseline="esxi",
    )
    assert {why_impossible(one, asked) for one in plan_of(asked).trials} == {None}


def test_guests_on_another_host_have_their_files_there() -> None:
    asked = experiments.parsed(
        platforms=["qemu-tcg", "xen", "libvirt"],
        testbed=far({"ssh": "root@far"}),
        guest={"marks": "channel"},
        workloads=[{"workload": "fio"}],
        blocks=1,
        baseline="qemu-tcg",
    )
    assert {one.platform.label: why_impossible(one, asked) for one in plan_of(asked).trials} == {
        "qemu-tcg": None,
        "xen": None,
        "libvirt": "libvirt carries no data directory on its host's disk; choose another platform for this workload",
    }


COPYING: dict[str, object] = {"platform": "openvz", "tool": "prlctl", "ostemplate": "debian-12", "label": "copying"}
"""Guests whose image is copied as a whole."""
NOT_COPYING = [
    {"platform": "libvirt", "uri": f"{driver}:///system", "label": driver} for driver in ("qemu", "lxc", "xen")
]


def test_guests_that_copy_an_image_run_no_program_of_a_large_one() -> None:
    """What needs no program runs there all the same, from the smallest image."""
    asked = experiments.parsed(
        platforms=["native", COPYING, *NOT_COPYING], workloads=["superpi", "nginx"], blocks=1, guest={"image": "full"}
    )
    found = {(one.platform.label, one.workload.workload): why_impossible(one, asked) for one in plan_of(asked).trials}
    refused = {place: reason for place, reason in found.items() if reason is not None}
    assert refused == {
        ("copying", "nginx"): "nginx runs a program of the image full, which is too large for openvz: it copies an "
        "image as a whole; take another platform for it"
    }
    assert images_of(asked) == ("full", "tiny")
    for platforms, workloads in ((["native", "runc"], ["nginx"]), (["native", COPYING], ["superpi"])):
        assert len(images_of(experiments.parsed(platforms=platforms, workloads=workloads))) == 1


def test_neither_does_a_load_in_a_guest_beside_the_measured_one() -> None:
    asked = experiments.parsed(
        scenario="neighbours",
        platforms=["runc", COPYING],
        baseline="runc",
        workloads=["superpi"],
        neighbours=["idle", "light", {"load": "light", "platform": "copying"}],
        blocks=1,
    )
    refused = {
        (one.platform.label, one.condition.load, one.condition.platform)
        for one in plan_of(asked).trials
        if one.condition is not None
        and "the load light runs a program of the image full" in str(why_impossible(one, asked))
    }
    assert refused == {("copying", "light", None), ("copying", "light", "copying"), ("runc", "light", "copying")}


def test_containers_of_an_archive_have_the_image_with_tools_and_a_data_directory() -> None:
    """By prlctl the image goes through a pipe: that one alone has the smallest."""
    by_prlctl = {"platform": "openvz", "label": "prlctl", "tool": "prlctl", "ostemplate": "debian-12"}
    workloads = ["nginx", {"workload": "zfg"}]
    asked = experiments.parsed(platforms=["native", "openvz", "vserver", by_prlctl], workloads=workloads, blocks=1)
    refused = {
        (one.platform.label, one.workload.workload) for one in plan_of(asked).trials if why_impossible(one, asked)
    }
    assert refused == {("prlctl", "nginx")}


def test_a_limit_of_its_own_is_what_a_guest_is_given() -> None:
    asked = experiments.parsed(
        platforms=["runc", {"platform": "runc", "label": "small", "memory_max": "64MiB"}],
        baseline="runc",
        workloads=[{"workload": "bzip2", "size_bytes": 64 * 2**20}],
        blocks=1,
    )
    reasons = {trial.platform.label: why_impossible(trial, asked) for trial in plan_of(asked).trials}
    assert reasons["small"] is not None
    assert reasons["small"].endswith("and the guest is given 64 MiB ('memory_max')")
    assert reasons["runc"] is None or reasons["runc"].endswith("('guest.memory')")


def test_one_server_for_all_is_measured_on_the_bare_host_alone() -> None:
    asked = experiments.parsed(
        platforms=["native", "native-again", "netns"],
        scenario="scale",
        scale={"guests": [2]},
        workloads=[{"workload": "mariadb-oltp", "server": ["own", "shared"]}],
        blocks=1,
    )
    refused = {
        (one.platform.label, one.workload.parameters.model_dump()["server"]): why_impossible(one, asked)
        for one in plan_of(asked).trials
    }
    said = refused.pop(("netns", "shared"))
    assert said is not None
    assert said.startswith("mariadb-oltp with these parameters is a reference on the bare host")
    assert set(refused.values()) == {None}


@pytest.mark.parametrize(("file_system", "fits"), [("ext4", True), ("tmpfs", False)])
def test_files_in_memory_count_as_the_guests(monkeypatch: pytest.MonkeyPatch, file_system: str, *, fits: bool) -> None:
    """A folder guest's files are in its own memory there; a machine's disk is in its host's."""
    monkeypatch.setattr(requirements, "file_system_of", lambda _: file_system)
    asked = experiments.parsed(
        platforms=["native", "runc", "uml"],
        guest={"memory": "101MiB"},
        workloads=[{"workload": "mariadb-oltp", "rows": 10_000}],
        blocks=1,
    )
    reasons = {one.platform.label: why_impossible(one, asked) for one in plan_of(asked).trials}
    assert reasons["uml"] is None
    assert (reasons["runc"] is None, reasons["native"] is None) == (fits, fits)
    if not fits:
        assert "of it for files that are in memory on its host (/var/tmp is a tmpfs)" in str(reasons["runc"])


def test_a_machine_is_not_started_in_less_memory_than_its_kernel_starts_in() -> None:
    """Camargos' Table 4 gives 32 guests less than today's kernel needs; one guest alone is refused alike."""
    asked = experiments.parsed(
        platforms=["native", "runc", "uml", "qemu-tcg"],
        scenario="scale",
        scale={"guests": [16, 32], "memory": {16: "202MiB", 32: "101MiB"}},
        workloads=[{"workload": "mariadb-oltp", "rows": 10_000}],
        blocks=1,
    )
    refused = {
        (one.platform.label, one.scale.guests): reason
        for one in plan_of(asked).trials
        if one.scale is not None and (reason := why_impossible(one, asked)) is not None
    }
    assert refused == {
        ("qemu-tcg", 32): "no guest of qemu-tcg with the image full starts in 101 MiB of memory: its kernel and its "
        "initramfs take 108 MiB ('guest.memory')"
    }
    for memory, starts in (("64MiB", False), ("94MiB", False), ("95MiB", True)):
        alone = experiments.parsed(
            platforms=["native", "qemu-tcg"],
            guest={"memory": memory},
            workloads=[{"workload": "superpi", "digits": 1024}],
            blocks=1,
        )
        reasons = {one.platform.label: why_impossible(one, alone) for one in plan_of(alone).trials}
        assert (reasons["qemu-tcg"] is None) is starts
        assert reasons["native"] is None or "qemu" not in reasons["native"]


def test_needs_are_told_one_at_a_time() -> None:
    uring = Needs(vcpus=2, memory_bytes=GIB, features=frozenset({"io-uring"}))
    why = unmet("w", uring, (1, 2 * GIB), "runsc", PLATFORMS["runsc"].lacks)
    assert why == "w needs 2 CPUs, and the guest is given 1 ('guest.vcpus')"
    why = unmet("w", uring, (2, 2 * GIB), "runsc", PLATFORMS["runsc"].lacks)
    assert why is not None
    assert "which runsc has not" in why
    assert unmet("w", uring, (2, GIB), "netns", PLATFORMS["netns"].lacks) is None
    assert unmet("w", uring, None, "ssh", {}) is None, "how large a guest is that is only found is not known"


def test_platforms_lack_only_what_workloads_can_need() -> None:
    for kind in PLATFORMS.values():
        assert set(kind.lacks) <= set(FEATURES), kind.name
        assert all(kind.lacks.values())
    assert set(PLATFORMS["runsc"].lacks) == {"io-uring", "direct-io"}
    assert set(PLATFORMS["uml"].lacks) == {"address-space"}
    assert PLATFORMS["uml"].max_vcpus == 1
