"""Which platforms work without root: what the doctor says as an ordinary user is what a run as that user finds."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments
from tests.support.commands import DEADLINE_SECONDS, virtoll
from tests.support.facts import assert_facts, missing_facts
from tests.support.guests import right_or_disturbed
from tests.support.playground import Playground, playground
from tests.support.real_run import measuring

from virtoll.errors import ImageError
from virtoll.image import prepare_image
from virtoll.platforms import PLATFORMS
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.store import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.timeout(1800)]


@pytest.fixture
def place() -> Iterator[Playground]:
    if os.geteuid() != 0:
        pytest.skip("needs root: it makes mount namespaces and becomes another user")
    with playground(root=False) as made:
        yield made


BOOTING = ("uml", "qemu-tcg", "libvirt")
"""Boot a kernel here in some seconds: the ordinary user's own doctor and runs try them, and root's does not."""
QUICK = tuple(name for name in PLATFORMS if name not in BOOTING)


def assert_says_what_works(document: dict[str, Any]) -> None:
    """Every platform that was asked for was tried, as root and as nobody; each finding has its reason and remedy."""
    assert (document["schema"], document["version"]) == ("virtoll-doctor", 2)
    platforms = {row["platform"]: row for row in document["platforms"]}
    assert tuple(platforms) == QUICK
    assert document["works"] == all(row["available"] for row in platforms.values())
    assert platforms["native"]["available"]
    for row in platforms.values():
        assert row["available"] == (row["reason"] is None) == (row["remedy"] == ""), row
        assert row["without_root"]["works"] or row["without_root"]["reason"], row
    checks = {row["check"]: row for row in document["host"]}
    assert {"user", "tools", "kernel", "CPUs", "cgroups", "tuning"} <= set(checks)
    for row in (*checks.values(), *document["hypervisors"]):
        assert row["found"], row
        assert row["good"] != bool(row["remedy"]), row
    hypervisors = {row["check"]: row["good"] for row in document["hypervisors"]}
    assert list(hypervisors) == ["KVM", "Xen", "VirtualBox", "VMware ESXi", "OpenVZ", "Linux-VServer"]
    of_kvm = ("qemu-kvm", "firecracker", "cloud-hypervisor")
    assert hypervisors["KVM"] == any(platforms[name]["available"] for name in of_kvm), "what boots decides"


def measured(place: Playground, file: Path, *options: str) -> RunFolder:
    """The one block of an experiment, measured as an ordinary user without a report."""
    command, folder = measuring(file)
    run = place.run(*command, *options)
    assert run.process.returncode == 0, run.said
    return RunFolder.open(folder)


def test_what_the_doctor_says_of_an_ordinary_user_is_so(place: Playground) -> None:
    """Root's doctor tries each platform as nobody too; the user's own doctor and the user's run find the same.

    What the user's doctor boots, the run boots only to measure. QEMU alone is beside a guest in the next test.
    """
    document = json.loads(virtoll("doctor", "--json", *QUICK).stdout)
    assert_says_what_works(document)
    rows = {row["platform"]: row["without_root"] for row in document["platforms"]}
    tried = rows["native"]["works"] is not None  # not in a clone that only root may read, such as one in /root
    names = ("netns", "docker", "uml", "libvirt") if tried else ()
    doctor = place.run("doctor", *names, "--json", silence_seconds=DEADLINE_SECONDS)
    asked, _ = json.JSONDecoder().raw_decode(doctor.said, doctor.said.index("{"))
    user = {row["check"]: row["found"] for row in asked["host"]}["user"]
    assert_facts(user, "ordinary user")
    own = {row["platform"]: row for row in asked["platforms"]}
    assert (own["netns"]["available"], own["docker"]["available"]) == (True, False)
    assert_facts(own["docker"]["reason"], "root")
    for row in own.values():
        assert row["without_root"]["works"] == row["available"], row
    if tried:
        assert doctor.process.returncode == 1, "docker needs root"
        if next(row["available"] for row in document["platforms"] if row["platform"] == "docker"):
            assert own["docker"]["reason"] == rows["docker"]["reason"]
        rows |= {name: own[name]["without_root"] for name in ("uml", "libvirt")}
    else:
        rows = {name: row["without_root"] for name, row in own.items()}
    assert rows["native"]["works"]
    assert rows["netns"]["works"]
    real = [
        name
        for name, kind in PLATFORMS.items()
        if kind.needs_lab
        and kind.validation != "record only"
        and not kind.parameter_model.pre_provisioned
        and name != "qemu-tcg"
    ]
    file = experiments.write(
        place.runs,
        platforms=[*real, {"platform": "netns", "label": "half", "cpu_max": 0.5}],
        guest={"vcpus": 1, "memory": "128MiB"},
        blocks=1,
        workloads=[{"workload": "forkwait", "processes": 200}],
    )
    run = measured(place, file)
    found = {trial.platform: trial for trial in run.latest_trials()}
    half = found.pop("half")
    assert half.status == "skipped"
    assert_facts(half.reason or "", "cpu_max", "root")
    assert set(found) == set(real)
    for name, trial in found.items():
        assert trial.status == ("ok" if rows[name]["works"] else "skipped"), (name, trial.reason)
    weighed = {footprint.platform: footprint for footprint in run.footprints() if footprint.when == "idle"}
    assert set(weighed) == {name for name in real if rows[name]["works"]}
    for footprint in weighed.values():
        assert footprint.processes, footprint.platform
        assert all(process.pss_bytes for process in footprint.processes), "its own processes' memory may be read"
        assert footprint.charged_bytes is None, "an ordinary user's guests have no cgroup of their own"


def lacks_cpu(trial: TrialRecord) -> bool:
    """Its generator, which may not come first, had too little of a busy CPU, and the trial says so."""
    return trial.status != "ok" and not missing_facts(trial.reason or "", "generator and sink", "CPU", "95%")


def test_an_ordinary_users_guest_has_others_with_loads_beside_it(place: Playground) -> None:
    """Programs in a namespace and in a machine, and frames that are counted: all without root."""
    try:
        prepare_image("full", offline=True)
    except ImageError as error:
        pytest.skip(f"{error} (or make tools)")
    forward, light = {"load": "forward", "rate_share": 0.5}, {"load": "light", "platform": "qemu-tcg"}
    file = experiments.write(
        place.runs,
        scenario="neighbours",
        platforms=["netns", "qemu-tcg"],
        baseline="netns",
        neighbours=["idle", "light", light, forward],
        guest={"vcpus": 1, "memory": "128MiB"},
        blocks=1,
        workloads=[{"workload": "forkwait", "processes": 500}],
    )
    trials = measured(place, file, "--platform", "netns").latest_trials()
    starved = {trial.condition.load for trial in trials if trial.condition is not None and lacks_cpu(trial)}
    assert starved <= {"forward"}
    finished = [trial for trial in trials if not lacks_cpu(trial)]
    assert [(one.condition, one.status, one.reason) for one in finished if not right_or_disturbed(one)] == []
    found = [(trial.condition.load, one) for trial in finished if trial.condition for one in trial.neighbours]
    assert {(load, one.platform, one.argv[:1]) for load, one in found} | {(load, "netns", ()) for load in starved} == {
        ("idle", "netns", ()),
        ("light", "netns", ("stress",)),
        ("light", "qemu-tcg", ("stress",)),
        ("forward", "netns", ()),
    }
    for load, one in found:
        assert (one.traffic is not None) == (load == "forward")
        if one.traffic is not None:
            assert sum(each.forwarded_frames for each in one.traffic.sink.per_source) > 0


def test_an_ordinary_users_guests_do_the_same_at_once(place: Playground) -> None:
    file = experiments.write(
        place.runs,
        scenario="scale",
        scale={"guests": [2]},
        platforms=["native", "netns", "runc"],
        guest={"vcpus": 1, "memory": "128MiB"},
        blocks=1,
        workloads=[{"workload": "superpi", "digits": 20_000}],
    )
    trials = measured(place, file).latest_trials()
    assert sorted(one.platform for one in trials) == ["native", "netns", "runc"]
    for trial in trials:
        assert right_or_disturbed(trial), trial.reason
        assert len({one.boot for one in trial.members}) == 2
        assert all(one.check is not None and one.check.ok for one in trial.members)
        assert all(one.host_cpu is not None and one.host_cpu.after is not None for one in trial.members)
