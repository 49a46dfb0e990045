"""Trials that a platform cannot hold are skipped with the reason, and cost no guest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.support import experiments, model_runs
from tests.support.experiments import fake
from tests.support.facts import Fact, assert_facts, missing_facts

from virtoll.experiment.plan import estimate_seconds
from virtoll.pipeline import requirements
from virtoll.pipeline.preview import plan_of, whole_seconds
from virtoll.pipeline.requirements import (
    data_bytes,
    images_of,
    memory_at_once,
    reasons_of,
    unmet,
    why_impossible,
)
from virtoll.platforms import EVERY_PLATFORM, PLATFORMS
from virtoll.platforms.base import GuestRequest, Platform, Probe
from virtoll.platforms.fake.driver import Fake, FakeGuest, FakeParameters
from virtoll.platforms.host import Site
from virtoll.platforms.kernel_settings import KernelSettings
from virtoll.runfolder.facts import Facts
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
    return model_runs.measured(experiments.parsed(**{"baseline": "model", **changed}), into)


def reasons(**changed: Any) -> dict[str, str | None]:
    """Why a platform's trials cannot be, by its label; each has the same reason in all."""
    experiment = experiments.parsed(**{"blocks": 1, **changed})
    found = {(one.platform.label, why_impossible(one, experiment)) for one in plan_of(experiment).trials}
    assert len(dict(found)) == len(found)
    return dict(found)


def assert_reasons(found: Mapping[Any, str | None], expected: Mapping[Any, list[Fact]]) -> None:
    """These entries alone have a reason, with these facts."""
    assert {key for key, reason in found.items() if reason is not None} == set(expected)
    for key, facts in expected.items():
        assert_facts(found[key] or "", *facts)


@pytest.fixture
def demanding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WORKLOADS.loaders, "forkwait", lambda: Demanding)
    monkeypatch.setitem(EVERY_PLATFORM.loaders, "lacking", lambda: Lacking)


def test_a_setting_that_its_kernel_lacks_skips_its_trials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(EVERY_PLATFORM.loaders, "set", lambda: Set)
    folder = measured(
        tmp_path / "run",
        platforms=[fake("model"), {"platform": "set", "clocksource": ["model", "hpet"]}],
        blocks=1,
        workloads=[{"workload": "superpi", "digits": 100}],
    )
    statuses = {(one.platform, one.status) for one in folder.trials()}
    assert statuses == {("model", "ok"), ("set-model", "ok"), ("set-hpet", "skipped")}
    assert_reasons({one.platform: one.reason for one in folder.trials()}, {"set-hpet": ["clocksource", "'hpet'"]})
    boot, *_ = (one for one in folder.boots() if one.status != "ok")
    assert (boot.platform, (boot.facts or Facts()).clock_source) == ("set-hpet", "model")
    assert_facts(boot.reason or "", "clocksource", "'model'", "'hpet'")


def test_missing_memory_skips_the_trials_that_need_it_alone(tmp_path: Path) -> None:
    folder = measured(
        tmp_path / "run",
        platforms=[fake("model"), fake("other")],
        blocks=2,
        workloads=[{"workload": "masr", "size_bytes": ["32MiB", "2GiB"]}],
        guest={"memory": "128MiB"},
    )
    skipped = [one for one in folder.trials() if one.status != "ok"]
    assert {(one.status, one.parameters["size_bytes"]) for one in skipped} == {("skipped", 2 * GIB)}
    for one in skipped:
        assert_facts(one.reason or "", "masr", "2.06 GiB", "128 MiB", "'guest.memory'")
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
    found = {(one.platform, one.parameters["processes"]): one.reason for one in folder.trials()}
    assert len(found) == 6
    assert_reasons(
        found,
        {
            ("model", 1): ["fake", "data directory"],
            ("without", 1): ["lacking", "data directory"],
            ("without", 2): ["forkwait", "io_uring", "lacking", Lacking.lacks["io-uring"]],
        },
    )
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


def far(host: dict[str, str]) -> dict[str, object]:
    """The section of an experiment whose guests are on another host."""
    here = {
        role: {"host": "local", "interfaces": [f"eth{number}"]} for number, role in enumerate(("generator", "sink"))
    }
    return {**here, "hypervisor": {"host": host, "interfaces": ["a", "b"]}}


LOCAL_ONLY = ["runc", "ssh root@far"]
CGROUPS = ["cgroups", "'guest.cpu_quota'", "ssh root@far"]
EVERY_PLACE = ["native", "runc", "qemu-tcg", "xen", "fake"]
OVER_SSH: dict[str, Any] = {"testbed": far({"ssh": "root@far"}), "guest": {"marks": "channel"}}
BY_API: dict[str, Any] = {"testbed": far({"api": "esxi.example.org"}), "guest": {"marks": "channel"}}
QUOTA = {"guest": {"marks": "channel", "cpu_quota": 0.5}}
ESXI = {
    "platform": "esxi",
    "label": "esxi",
    "server": "esxi.example.org",
    "password_from": "env:ESXI_PASSWORD",
    "datastore": "datastore1",
    "port_groups": ["a", "b"],
}


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        ({"platforms": ["native", "uml"], "guest": {"vcpus": 2}}, {"uml": ["uml", 2, "'guest.vcpus'"]}),
        ({"platforms": EVERY_PLACE, **OVER_SSH}, {"runc": LOCAL_ONLY}),
        ({"platforms": EVERY_PLACE, **OVER_SSH, **QUOTA}, {"native": CGROUPS, "runc": LOCAL_ONLY, "qemu-tcg": CGROUPS}),
        (
            {"platforms": EVERY_PLACE, **BY_API, **QUOTA},
            {name: ["esxi.example.org", name] for name in EVERY_PLACE if name != "fake"},
        ),
        (
            {
                "platforms": [{"platform": "native", "label": "native", "memory_max": "64MiB", "cpu_weight": 50}],
                **OVER_SSH,
            },
            {"native": ["cpu_weight", "native", "cgroups", "ssh root@far"]},
        ),
        (
            {
                "platforms": ["native", {"platform": "netns", "guest": {"memory": "4GiB"}}],
                "workloads": [{"workload": "masr", "size_bytes": "2GiB"}],
            },
            {"native": ["256 MiB"]},
        ),
        ({"platforms": [ESXI], "baseline": "esxi", "workloads": ["fio", "bonnie", "zfg"], **BY_API}, {}),
        (
            {"platforms": ["qemu-tcg", "xen", "libvirt"], "baseline": "qemu-tcg", "workloads": ["fio"], **OVER_SSH},
            {"libvirt": ["libvirt", "data directory"]},
        ),
    ],
    ids=[
        "two CPUs for User-mode Linux",
        "over SSH",
        "a quota over SSH",
        "another product's host",
        "cgroup limits over SSH",
        "a platform's own size",
        "files on a datastore",
        "files over SSH",
    ],
)
def test_what_a_platform_cannot_hold_is_known_from_the_plan(
    asked: dict[str, Any], refused: dict[str, list[Fact]]
) -> None:
    assert_reasons(reasons(**asked), refused)


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
    assert_reasons(found, {("copying", "nginx"): ["nginx", "image full", "openvz"]})
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
        if one.condition is not None and not missing_facts(why_impossible(one, asked) or "", "light", "image full")
    }
    assert refused == {("copying", "light", None), ("copying", "light", "copying"), ("runc", "light", "copying")}


def test_containers_of_an_archive_have_tools_and_a_data_directory() -> None:
    """By prlctl the image goes through a pipe: that one alone has the smallest."""
    by_prlctl = {"platform": "openvz", "label": "prlctl", "tool": "prlctl", "ostemplate": "debian-12"}
    workloads = ["nginx", {"workload": "zfg"}]
    asked = experiments.parsed(platforms=["native", "openvz", "vserver", by_prlctl], workloads=workloads, blocks=1)
    refused = {
        (one.platform.label, one.workload.workload) for one in plan_of(asked).trials if why_impossible(one, asked)
    }
    assert refused == {("prlctl", "nginx")}


def test_a_platforms_limit_is_its_guests_size() -> None:
    found = reasons(
        platforms=["runc", {"platform": "runc", "label": "small", "memory_max": "64MiB"}],
        baseline="runc",
        workloads=[{"workload": "bzip2", "size_bytes": 64 * 2**20}],
    )
    assert_facts(found["small"] or "", "64 MiB", "'memory_max'")
    assert_facts(found["runc"] or "'guest.memory'", "'guest.memory'")


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
    assert_reasons(refused, {("netns", "shared"): ["mariadb-oltp", "bare host"]})


@pytest.mark.parametrize(("file_system", "fits"), [("ext4", True), ("tmpfs", False)])
def test_files_in_memory_count_as_the_guests(monkeypatch: pytest.MonkeyPatch, file_system: str, *, fits: bool) -> None:
    """A folder guest's files are in its own memory there; a machine's disk is in its host's."""
    monkeypatch.setattr(requirements, "file_system_of", lambda _: file_system)
    found = reasons(
        platforms=["native", "runc", "uml"],
        guest={"memory": "101MiB"},
        workloads=[{"workload": "mariadb-oltp", "rows": 10_000}],
    )
    assert_reasons(found, {} if fits else {name: ["/var/tmp", "tmpfs"] for name in ("native", "runc")})


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
    assert_reasons(refused, {("qemu-tcg", 32): ["qemu-tcg", "image full", "101 MiB", "108 MiB", "'guest.memory'"]})
    for memory, starts in (("64MiB", False), ("94MiB", False), ("95MiB", True)):
        job = {"workload": "superpi", "digits": 1024}
        alone = reasons(platforms=["native", "qemu-tcg"], guest={"memory": memory}, workloads=[job])
        assert (alone["qemu-tcg"] is None) is starts
        assert alone["native"] is None or "qemu" not in alone["native"]


def test_one_need_is_named_at_a_time() -> None:
    uring = Needs(vcpus=2, memory_bytes=GIB, features=frozenset({"io-uring"}))
    why = unmet("w", uring, (1, 2 * GIB), "runsc", PLATFORMS["runsc"].lacks)
    assert_facts(why or "", "2 CPUs", 1, "'guest.vcpus'")
    assert missing_facts(why or "", "io_uring")
    why = unmet("w", uring, (2, 2 * GIB), "runsc", PLATFORMS["runsc"].lacks)
    assert_facts(why or "", "io_uring", "runsc")
    assert unmet("w", uring, (2, GIB), "netns", PLATFORMS["netns"].lacks) is None
    assert unmet("w", uring, None, "ssh", {}) is None, "how large a guest is that is only found is not known"


def test_platforms_lack_only_what_workloads_can_need() -> None:
    for kind in PLATFORMS.values():
        assert set(kind.lacks) <= set(FEATURES), kind.name
        assert all(kind.lacks.values())
    assert set(PLATFORMS["runsc"].lacks) == {"io-uring", "direct-io"}
    assert set(PLATFORMS["uml"].lacks) == {"address-space"}
    assert PLATFORMS["uml"].max_vcpus == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"scenario": "neighbours", "neighbours": ["idle", {"load": "light", "guests": 31, "memory": "900GiB"}]},
        {"scenario": "scale", "scale": {"guests": [1, 2, 128], "memory": {1: "256MiB", 2: "256MiB", 128: "900GiB"}}},
        {"workloads": ["forkwait", {"workload": "masr", "size_bytes": ["1MiB", "8GiB"]}]},
        {"platforms": ["native", "uml"], "guest": {"vcpus": 2}},
    ],
    ids=["neighbours", "scale", "sizes", "platforms"],
)
def test_trials_of_a_cell_differ_in_their_place_alone(changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found once a cell is what each of its trials would say; what memory is free would change meanwhile."""
    monkeypatch.setattr(requirements, "available_bytes", lambda: 8 * GIB)
    experiment = experiments.parsed(**{"rounds": 2, "blocks": 2, **changed})
    plan = plan_of(experiment)
    each = {trial.number: why_impossible(trial, experiment) for trial in plan.trials}
    assert reasons_of(plan, experiment) == each
    reasons = set(each.values())
    assert None in reasons
    assert len(reasons) > 1
    assert estimate_seconds(plan, whole_seconds, lambda _: 0.0) == pytest.approx(sum(map(whole_seconds, plan.trials)))
