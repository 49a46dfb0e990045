"""The experiment file: a refusal names file, key and what is allowed; presets load; nothing is started."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments
from tests.support.commands import in_process
from tests.support.facts import Command, Fact, assert_facts, assert_refused, refused
from tests.support.refused_experiments import assert_refused as assert_key_refused
from tests.support.refused_experiments import of_file

from virtoll.errors import UsageError
from virtoll.experiment.model import Catalogue, Image
from virtoll.experiment.parse import find_experiment, load_experiment, parse_experiment, presets
from virtoll.pipeline.preview import catalogue

HELD = [{"platform": name, "label": name, "memory_max": "2GiB"} for name in ("native", "native-again")]
REFUSED = [
    of_file("platform", "'platforms'", "workloads", "seed", platform="native"),
    of_file("guest.cpus", "'vcpus'", "memory", guest={"cpus": 1}),
    of_file("scenario", "beside", "dedicated", "neighbours", scenario="beside"),
    of_file("blocks", "many", 1, "100 000", blocks="many"),
    of_file("blocks", 0, 1, "100 000", blocks=0),
    of_file("blocks", 100_001, "100 000", blocks=100_001),
    of_file("seed", -1, 0, seed=-1),
    of_file("guest", 5, "mapping", guest=5),
    of_file("guest.vcpus", 0, 1, 1024, guest={"vcpus": 0}),
    of_file("guest.memory", "1MiB", "64MiB", guest={"memory": "1MiB"}),
    of_file("guest.memory", "lots", "256MiB", guest={"memory": "lots"}),
    of_file("name", "Bad Name", "'.'", "'_'", 63, name="Bad Name"),
    of_file("margin", 0.6, 0.01, 0.5, margin=0.6),
    of_file("margin", 0.005, 0.01, margin=0.005),
    of_file("baseline", "runc", "native", "netns", "'platforms'", baseline="runc"),
    of_file("control", "native-again", "native", "netns", "'platforms'", control="native-again"),
    of_file("control", "netns", "baseline", control="native"),
    of_file("platforms", "native-again", "A/A", "'control'", platforms=["native", HELD[1]]),
    of_file(
        "platforms[1].guest",
        "neighbours",
        platforms=["native", {"platform": "netns", "guest": {"vcpus": 2}}],
        scenario="neighbours",
        neighbours=["idle"],
    ),
]


@pytest.mark.parametrize(("changed", "key", "facts"), REFUSED)
def test_a_refused_key_is_named(changed: dict[str, Any], key: str, facts: tuple[Fact, ...]) -> None:
    assert_key_refused(changed, key, *facts)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", ("mapping", "name", "platforms")),
        ("- a\n", ("mapping", "name", "platforms")),
        ("5\n", ("mapping", "name", "platforms")),
        ("a: [\n", ("line 1", "YAML")),
        ("name: !!int word\n", ("line 1", "'word'", "int")),
        ("a: b: c", ("line 1", "YAML", "':'")),
    ],
)
def test_a_file_that_is_no_yaml_mapping_is_refused(text: str, facts: tuple[str, ...]) -> None:
    with refused(experiments.FILE, *facts, error=UsageError):
        parse_experiment(text, experiments.FILE, catalogue())


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with refused(path, error=UsageError):
        load_experiment(path, catalogue())


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("nothing-alike", ("models", "quick")),
        ("quik", ("'quick'", Command("virtoll list experiments"))),
        ("no/such.yaml", ("YAML",)),
    ],
)
def test_an_unknown_experiment_is_refused_with_those_that_there_are(name: str, facts: tuple[str, ...]) -> None:
    with refused(name, *facts, error=UsageError):
        find_experiment(name)


@pytest.mark.parametrize("path", sorted(presets().glob("*.yaml")), ids=lambda path: path.stem)
def test_the_experiments_that_come_with_virtoll_are_right(path: Path) -> None:
    experiment = load_experiment(find_experiment(path.stem), catalogue())
    assert experiment.name == path.stem
    assert experiment.control is not None
    assert experiment.text == path.read_text(encoding="utf-8")


def test_the_control_is_found_by_what_it_controls() -> None:
    assert experiments.parsed(platforms=["native", "native-again"]).control == "native-again"
    assert experiments.parsed(platforms=["netns", "native-again"], baseline="netns").control is None
    assert experiments.parsed(platforms=HELD).control == "native-again"
    assert experiments.parsed(platforms=["native", HELD[1]], control="native-again").control == "native-again"
    assert experiments.parsed(platforms=["native", "netns"], control="netns").control == "netns"


def test_sizes_may_have_units() -> None:
    assert experiments.parsed(guest={"memory": "256MiB"}).memory_bytes == 256 * 2**20


def needing(image: Image) -> Catalogue:
    """A catalogue whose superpi needs an image, and all others none."""
    known = catalogue()
    return replace(known, images={name: image if name == "superpi" else "tiny" for name in known.workloads})


def test_the_image_is_what_was_asked_for_or_what_the_workloads_need() -> None:
    assert experiments.parsed().image == "tiny"
    assert experiments.parsed(guest={"image": "full"}).image == "full"
    needy = needing("full")
    other, tools = {"workload": "forkwait"}, {"workload": "superpi", "digits": [10, 20]}
    assert experiments.parsed(needy, workloads=[other]).image == "tiny"
    assert experiments.parsed(needy, workloads=[other, "superpi"]).image == "full"
    assert experiments.parsed(needy, workloads=[other, tools]).image == "full"
    with refused("guest.image", "'tiny'", "superpi", "full", "full-non-free", error=UsageError):
        experiments.parsed(needy, workloads=["superpi"], guest={"image": "tiny"})


def test_what_is_not_free_software_must_be_asked_for() -> None:
    needy = needing("full-non-free")
    with refused("superpi", "guest: {image: full-non-free}", error=UsageError):
        experiments.parsed(needy, workloads=["forkwait", "superpi"])
    with refused("guest.image", "'full'", "superpi", "full-non-free", error=UsageError):
        experiments.parsed(needy, workloads=["superpi"], guest={"image": "full"})
    assert experiments.parsed(needy, workloads=["superpi"], guest={"image": "full-non-free"}).image == "full-non-free"
    assert experiments.parsed(needy, workloads=["forkwait"]).image == "tiny"


@pytest.mark.parametrize(
    ("command", "changed", "key"),
    [
        ("run", {"blocks": 0}, "blocks"),
        ("plan", {"blocks": 0}, "blocks"),
        ("run", {"workloads": [{"workload": "ipc-bandwidth", "size_bytes": "32KiB"}]}, "workloads[0]"),
        ("plan", {"workloads": [{"workload": "ipc-bandwidth", "chunk_bytes": 0}]}, "workloads[0].chunk_bytes"),
    ],
)
def test_the_command_line_exits_with_2_and_makes_nothing(
    tmp_path: Path, command: str, changed: dict[str, Any], key: str
) -> None:
    file = experiments.write(tmp_path, **changed)
    finished = in_process(command, file, runs=tmp_path / "runs")
    assert finished.returncode == 2
    first, line, caret = finished.stderr.splitlines()
    assert re.match(rf"{re.escape(str(file))}:\d+:\d+: ", first), first
    assert_facts(first, key)
    assert re.match(r" *\d+ \| .", line)
    assert re.fullmatch(r" +\| +\^+", caret)
    assert finished.stdout == ""
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("command", ["run", "plan"])
def test_an_unknown_experiment_exits_with_2(tmp_path: Path, command: str) -> None:
    assert_refused(in_process(command, "quik", runs=tmp_path / "runs"), "'quik'", "'quick'")
    assert list(tmp_path.iterdir()) == []
