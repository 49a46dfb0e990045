"""Two builds or settings in one run: who gets a twin, in which order both run, and what is refused."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import experiments
from tests.support.commands import in_process
from tests.support.experiments import fake
from tests.support.facts import Command, assert_facts, assert_refused, refused
from tests.support.model_runs import measured

from virtoll.errors import LabError, UsageError
from virtoll.experiment.model import Build, Experiment, PlatformChoice
from virtoll.experiment.parse import parse_experiment
from virtoll.experiment.plan import Trial, TrialSeconds, make_plan
from virtoll.experiment.selection import Selection
from virtoll.lab.inside import Lab
from virtoll.pipeline import against
from virtoll.pipeline.execution import experiment_of, extend, resume
from virtoll.pipeline.extension import extended_experiment
from virtoll.pipeline.pinning import pinning_for
from virtoll.pipeline.preview import catalogue
from virtoll.pipeline.progress import SilentProgress
from virtoll.pipeline.session import RunSession, model_session
from virtoll.platforms import PLATFORMS
from virtoll.runfolder.records import AgainstRecord, duration_ns
from virtoll.runfolder.store import RunFolder

pytestmark = pytest.mark.usefixtures("undrawn")
MODELS = [fake("model"), fake("again", seed=2), fake("slow", cost=1.4, seed=3), fake("other", seed=4)]
HOST: dict[str, Any] = {"baseline": "model", "control": "again"}
REAL = ["native", "native-again", "netns", "runc", {"platform": "oci", "runtime": "runc"}, "qemu-tcg", "uml"]


def asked(*settings: str, **changed: Any) -> Experiment:
    """The experiment with these settings, as the command line gives them."""
    selection = Selection(against=settings, platforms=changed.pop("only", ()))
    return parse_experiment(experiments.text(**changed), experiments.FILE, catalogue(), selection)


def program(folder: Path, name: str, says: str = "B") -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\necho {says}\n")
    file.chmod(0o755)
    return file


def twin(experiment: Experiment, label: str) -> PlatformChoice:
    return next(one for one in experiment.platforms if one.label == label)


def quick(_: object, __: object) -> TrialSeconds:
    return TrialSeconds(0.2)


def slow_models(platform: PlatformChoice, _: object) -> TrialSeconds:
    """Three rounds of one of them fit into a block."""
    return TrialSeconds(1.1 if platform.label.startswith("slow") else 0.2)


# Who gets a twin.


def test_a_parameter_is_set_where_a_platform_has_it() -> None:
    found = asked("runtime=crun", platforms=[*REAL, {"platform": "podman", "runtime": "runc"}])
    assert found.pairs == (("oci-runc", "oci-runc.b"), ("podman-runc", "podman-runc.b"))
    assert [one.label for one in found.platforms] == [
        "native",
        "native-again",
        *(one for two in found.pairs for one in two),
    ]
    assert found.unconcerned == ("netns", "runc", "qemu-tcg", "uml")
    assert twin(found, "oci-runc.b").parameters.model_dump()["runtime"] == "crun"
    assert twin(found, "oci-runc").parameters.model_dump()["runtime"] == "runc"
    assert (found.baseline, found.control) == ("native", "native-again")
    assert ("oci-runc.b", "superpi") in found.cells


def test_a_folder_concerns_whoever_starts_a_program_of_it(tmp_path: Path) -> None:
    file = program(tmp_path, "runc")
    program(tmp_path, "native")
    found = asked(str(tmp_path), platforms=REAL)
    assert found.pairs == (("runc", "runc.b"), ("oci-runc", "oci-runc.b"))
    assert twin(found, "runc.b").build == Build((("runc", file),))
    assert twin(found, "runc").build is None


def test_one_program_comes_without_its_neighbours_in_the_folder(tmp_path: Path) -> None:
    file = program(tmp_path, "linux.uml")
    program(tmp_path, "runc")
    assert asked(str(file), platforms=REAL).pairs == (("uml", "uml.b"),)


def test_settings_add_up_whatever_their_order(tmp_path: Path) -> None:
    """Which program a platform starts may be one of its parameters."""
    file = program(tmp_path, "crun")
    platforms = ["native", {"platform": "oci", "runtime": "runc", "label": "any"}]
    for settings in ((str(tmp_path), "runtime=crun"), ("runtime=crun", str(tmp_path))):
        other = twin(asked(*settings, platforms=platforms), "any.b")
        assert other.parameters.model_dump()["runtime"] == "crun"
        assert other.build == Build((("crun", file),))


def test_a_kernel_is_for_machines_that_boot_the_images(tmp_path: Path) -> None:
    package = tmp_path / "kernel.deb"
    package.touch()
    found = asked(f"kernel={package}", platforms=REAL)
    assert found.pairs == (("qemu-tcg", "qemu-tcg.b"),), "User-mode Linux boots its own"
    assert twin(found, "qemu-tcg.b").build == Build(kernel=package)


def test_a_filter_takes_both_sides() -> None:
    found = asked("cost=2", platforms=MODELS, **HOST, only=("slow",), skip=["slow:masr"], workloads=["superpi", "masr"])
    assert found.pairs == (("slow", "slow.b"),)
    assert found.unconcerned == (), "what was not chosen is no news"
    assert {cell for cell in found.cells if cell[0].startswith("slow")} == {("slow", "superpi"), ("slow.b", "superpi")}


def test_a_file_has_the_setting_too_with_paths_next_to_it(tmp_path: Path) -> None:
    file = program(tmp_path / "build", "runc")
    text = experiments.text(platforms=REAL, against=["build", "runtime=crun"])
    found = parse_experiment(text, tmp_path / "example.yaml", catalogue())
    assert found.against == (str(tmp_path / "build"), "runtime=crun")
    assert twin(found, "runc.b").build == Build((("runc", file),))
    other = parse_experiment(text, tmp_path / "example.yaml", catalogue(), Selection(against=("runtime=youki",)))
    assert (other.against, other.pairs) == (("runtime=youki",), (("oci-runc", "oci-runc.b"),)), "in the file's place"


@pytest.mark.parametrize(
    ("settings", "changed", "facts"),
    [
        (("runtme=crun",), {}, ["'runtme=crun'", "'runtime'"]),
        (("nic=crun",), {}, ["'nic=crun'", "qemu-tcg", "'nic'"]),
        (("quux=2",), {}, ["'quux=2'", "runtime"]),
        (("/nowhere/at/all",), {}, ["'/nowhere/at/all'", "KEY=VALUE"]),
        (("/proc/self",), {}, ["'/proc/self'", "linux.uml", "runc"]),
        (("kernel=/proc/version",), {}, ["'kernel=/proc/version'", ".deb"]),
        (("runtime=crun", "/proc/self"), {}, ["'/proc/self'"]),
        (("runtime=crun",), {"order": "paper"}, ["'order: paper'"]),
        (("runtime=crun",), {"scenario": "neighbours", "neighbours": ["idle"]}, ["'scenario: neighbours'"]),
        (("runtime=crun",), {"scenario": "scale", "scale": {"guests": [1]}}, ["'scenario: scale'"]),
        (("runtime=crun",), {"platforms": ["native", "native-again"]}, ["'runtime=crun'"]),
        (("cost=2",), {"platforms": [*MODELS, fake("slow.b")], **HOST}, ["'slow.b'", "slow"]),
    ],
)
def test_what_cannot_be_measured_is_refused(
    settings: tuple[str, ...], changed: dict[str, Any], facts: list[str]
) -> None:
    with refused("--against", *facts, error=UsageError):
        asked(*settings, **{"platforms": REAL, **changed})


def test_a_program_that_cannot_be_executed_is_refused(tmp_path: Path) -> None:
    program(tmp_path, "runc").chmod(0o644)
    with refused("--against", tmp_path / "runc", "chmod +x", error=UsageError):
        asked(str(tmp_path), platforms=REAL)


def test_a_refusal_names_the_files_key_where_the_file_asked() -> None:
    with refused("'against'", "'cost=2'", without=("--against",), error=UsageError):
        experiments.parsed(against=["cost=2"])


def test_a_consolidation_series_has_no_rounds() -> None:
    text = experiments.text(scenario="consolidation", platforms=["netns"], workloads=None)
    with refused("consolidation", "--against", error=UsageError):
        parse_experiment(text, experiments.FILE, catalogue(), Selection(against=("runtime=crun",)))


# In which order both run.


def rounds(trials: Sequence[Trial]) -> dict[tuple[int, str, int], list[str]]:
    """The labels of each round in their order, by block, workload and round."""
    found: dict[tuple[int, str, int], list[str]] = defaultdict(list)
    for trial in trials:
        if not trial.warm_up:
            found[trial.block, str(trial.workload.parameters), trial.round].append(trial.platform.label)
    return found


@given(st.integers(1, 7), st.integers(1, 5), st.integers(0, 2**63 - 1), st.sampled_from([quick, slow_models]))
def test_both_stand_side_by_side_and_each_is_first_as_often(count: int, blocks: int, seed: int, seconds: Any) -> None:
    workloads = ["masr", {"workload": "superpi", "digits": [1000, 2000]}]
    found = asked("cost=2", platforms=MODELS, **HOST, blocks=blocks, rounds=count, seed=seed, workloads=workloads)
    plan = make_plan(found, seconds)
    assert [trial.number for trial in plan.trials] == list(range(len(plan.trials)))
    for first, second in found.pairs:
        leads: dict[tuple[int, str], list[bool]] = defaultdict(list)
        for (block, workload, _), labels in rounds(plan.trials).items():
            assert labels.count(first) == labels.count(second) <= 1
            if first in labels:
                places = labels.index(first), labels.index(second)
                assert abs(places[0] - places[1]) == 1, "nothing stands between them"
                leads[block, workload].append(places[0] < places[1])
        for turns in leads.values():
            assert all(one != other for one, other in pairwise(turns)), "they change places"
        for workload in {name for _, name in leads}:
            whole = [turn for block in range(blocks) for turn in leads[block, workload]]
            assert abs(whole.count(True) - whole.count(False)) <= 1, "over all blocks too"
        for trials in plan.blocks():
            warmed = [trial.platform.label for trial in trials if trial.warm_up]
            assert warmed.count(first) == warmed.count(second) == (0 if count == 1 else len(leads) // blocks)


def test_the_host_is_first_in_the_middle_and_last_of_a_round() -> None:
    plan = make_plan(asked("cost=2", platforms=MODELS, **HOST, blocks=2, rounds=4), quick)
    for labels in rounds(plan.trials).values():
        assert [labels[0], labels[3], labels[-1]] == ["model", "again", "model"]
        assert len(labels) == 7


def test_who_is_first_is_random() -> None:
    firsts = set()
    for seed in range(20):
        trials = make_plan(asked("cost=2", platforms=MODELS, **HOST, rounds=1, seed=seed, blocks=1), quick).trials
        labels = [trial.platform.label for trial in trials]
        firsts.add(labels.index("slow") < labels.index("slow.b"))
    assert firsts == {True, False}


# What a run has of it.


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of models in which B of one costs 10 % more, by the command line."""
    folder = tmp_path_factory.mktemp("against")
    file = experiments.write(
        folder, platforms=[*MODELS[:2], fake("slow", seed=3)], **HOST, rounds=4, blocks=2, workloads=["superpi"]
    )
    ended = in_process("run", file, "--against", "cost=1.1", "--into", folder / "run", runs=folder)
    assert ended.returncode == 0, ended.stderr
    assert_facts(ended.stdout, "slow (A)", "cost=1.1 (B)")
    return folder / "run"


def test_a_run_records_both_sides(finished: Path) -> None:
    folder = RunFolder.open(finished)
    assert folder.manifest.against == AgainstRecord(("cost=1.1",), (("slow", "slow.b"),), {"a": {}, "b": {}})
    assert folder.manifest.command[-2:] == ("--against", "cost=1.1")
    assert {trial.status for trial in folder.trials()} == {"ok"}
    taken = defaultdict(list)
    for trial in folder.trials():
        if trial.clock is not None and not trial.warm_up:
            taken[trial.platform].append(duration_ns(trial.clock) or 0)
    assert len(taken["slow"]) == len(taken["slow.b"]) == 8
    assert 1.07 < median(taken["slow.b"]) / median(taken["slow"]) < 1.13


def test_a_run_is_resumed_and_extended_with_its_twins(finished: Path, tmp_path: Path) -> None:
    experiment = experiment_of(RunFolder.open(finished))
    assert experiment.pairs == (("slow", "slow.b"),)
    run = tmp_path / "run"
    measured(experiment, run)
    lines = (run / "trials.jsonl").read_text().splitlines(keepends=True)
    (run / "trials.jsonl").write_text("".join(lines[:10]))
    RunFolder.open(run).set_state("interrupted", "a test")
    resume(run, SilentProgress())
    extend(run, 3, ["virtoll"], SilentProgress())
    folder = RunFolder.open(run)
    planned = [(one.trial, one.platform) for one in folder.manifest.plan.trials]
    assert [(one.trial, one.platform) for one in folder.trials()] == planned
    assert {label for _, label in planned} == {"model", "again", "slow", "slow.b"}
    assert folder.manifest.against == RunFolder.open(finished).manifest.against


def test_a_plan_names_both_sides_to_people_and_to_programs(tmp_path: Path) -> None:
    build = program(tmp_path / "build", "runc").parent
    file = experiments.write(tmp_path, platforms=REAL)
    planned = in_process("plan", file, "--against", build, runs=tmp_path)
    assert_facts(planned.stdout, "runc, oci-runc (A)", f"{build} (B)", "netns, qemu-tcg, uml")
    document = json.loads(in_process("plan", file, "--against", build, "--json", runs=tmp_path).stdout)
    assert document["against"] == {
        "settings": [str(build)],
        "pairs": [["runc", "runc.b"], ["oci-runc", "oci-runc.b"]],
        "unconcerned": ["netns", "qemu-tcg", "uml"],
    }


def test_nothing_is_started_where_no_platform_is_concerned(tmp_path: Path) -> None:
    file = experiments.write(tmp_path, platforms=MODELS, **HOST)
    ended = in_process("run", file, "--against", "kost=2", "--into", tmp_path / "run", runs=tmp_path)
    assert_refused(ended, "--against", "'kost=2'", "'cost'")
    assert ended.stdout == ""
    assert not (tmp_path / "run").exists()


def test_a_threshold_on_a_platform_that_is_left_out_is_not_judged_before(tmp_path: Path) -> None:
    """As with any other choice from an experiment: the gate says that it was not measured."""
    file = experiments.write(
        tmp_path,
        platforms=MODELS,
        **HOST,
        skip=["other:*"],
        thresholds=["slow:superpi slowdown<9x", "none:* slowdown<9x"],
    )
    assert in_process("plan", file, runs=tmp_path).returncode == 2
    text = file.read_text().replace("none:*", "netns:superpi").replace("platforms:\n", "platforms:\n- netns\n")
    file.write_text(text)
    planned = in_process("plan", file, "--against", "cost=2", runs=tmp_path)
    assert (planned.returncode, planned.stderr) == (0, "")


# Which programs differ.


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Experiment, RunSession, Path, Path]:
    """An experiment with two builds of runc, a session, and their files."""
    own, other = program(tmp_path / "own", "runc", "A"), program(tmp_path / "other", "runc")
    monkeypatch.setenv("PATH", str(tmp_path / "own"))
    experiment = asked(str(tmp_path / "other"), platforms=["native", "runc"])
    return experiment, model_session(pinning_for(experiment)), own, other


class Stored:
    """As much of a stored manifest as is compared."""

    run = "example-1"

    def __init__(self, record: AgainstRecord | None) -> None:
        self.against = record


def test_the_programs_of_both_sides_are_stored_by_their_digests(
    builds: tuple[Experiment, RunSession, Path, Path],
) -> None:
    experiment, session, own, other = builds
    record = against.record_of(experiment, session)
    assert record is not None
    assert record.programs == {
        side: {"runc": hashlib.sha256(file.read_bytes()).hexdigest()} for side, file in (("a", own), ("b", other))
    }
    own.unlink()
    without = against.record_of(experiment, session)
    assert without is not None
    assert without.programs["a"] == {}, "what is not there is missing"


@pytest.mark.parametrize("side", ["A", "B"])
def test_a_program_that_changed_is_refused(builds: tuple[Experiment, RunSession, Path, Path], side: str) -> None:
    experiment, session, own, other = builds
    stored: Any = Stored(against.record_of(experiment, session))
    against.refuse_changed(stored, experiment, session)
    against.refuse_change_meanwhile(stored, experiment, session)
    program(*{"A": (own.parent, "runc"), "B": (other.parent, "runc")}[side], says="another")
    changed = against.record_of(experiment, session)
    assert changed is not None
    digests = [one.programs[side.lower()]["runc"][:12] for one in (stored.against, changed)]
    facts = ("runc", f"side {side}", *(f"SHA-256 {digest}" for digest in digests))
    with refused("example-1", "extend", *facts, error=UsageError):
        against.refuse_changed(stored, experiment, session, "extend")
    with refused(Command("virtoll resume"), *facts, error=LabError):
        against.refuse_change_meanwhile(stored, experiment, session)


def test_a_folder_that_is_gone_or_concerns_others_is_refused(finished: Path, tmp_path: Path) -> None:
    manifest = json.loads((finished / "manifest.json").read_text())
    (tmp_path / "run").mkdir()
    (tmp_path / "run/state.json").write_text('{"state": "complete", "reason": null}')
    for record, facts in (
        ({"settings": ["/nowhere/at/all"]}, ["/nowhere/at/all"]),
        ({"pairs": [["other", "other.b"]]}, ["cost=1.1", "other", "slow"]),
    ):
        changed = {**manifest, "against": {**manifest["against"], **record}}
        (tmp_path / "run/manifest.json").write_text(json.dumps(changed))
        with refused("run", *facts, error=UsageError):
            extended_experiment(RunFolder.open(tmp_path / "run"), 3)


def test_the_other_programs_come_before_path_in_a_folder_of_their_own(tmp_path: Path) -> None:
    file = program(tmp_path / "other", "runc", "from B")
    program(tmp_path / "other", "ls", "no ls")
    (tmp_path / "scratch").mkdir()
    here = Lab("virtoll-0123456789ab", scratch=tmp_path / "scratch")
    there, third = here.with_programs({"runc": file}), here.with_programs({"runc": file})
    assert there.run(["runc"], "test") == "from B\n"
    assert there.run(["sh", "-c", "runc"], "test") == "from B\n", "what a program starts by its name, too"
    assert "no ls" not in there.run(["ls", "/"], "test"), "nothing else of that folder is in view"
    assert Path(there.which("runc") or "").resolve() == file
    assert here.which("runc") != there.which("runc")
    assert len({here.scratch, there.scratch, third.scratch}) == 3


def test_each_platform_lists_the_programs_that_a_build_may_replace() -> None:
    """One that serves all guests of its host, a daemon, is none of them."""
    names = ("native", "netns", "runc", "crun", "runsc", "oci", "nspawn", "lxc", "podman", "docker", "uml", "libvirt")
    found = {name: PLATFORMS[name].with_parameters({}).programs for name in names}
    assert {name: programs[0] for name, programs in found.items() if len(programs) == 1} == {
        **{name: name for name in ("runc", "crun", "runsc")},
        "oci": "runc",
        "nspawn": "systemd-nspawn",
        "lxc": "lxc-start",
        "uml": "linux.uml",
    }
    assert found["podman"] == ("podman", "runc")
    assert {name for name, programs in found.items() if not programs} == {"native", "netns", "docker", "libvirt"}
    emulator, named, path = (
        PLATFORMS[name].with_parameters(given).programs
        for name, given in (("qemu-tcg", {}), ("firecracker", {}), ("firecracker", {"binary": "/opt/firecracker"}))
    )
    assert (emulator[0].startswith("qemu-system-"), named, path) == (True, ("firecracker",), ())
