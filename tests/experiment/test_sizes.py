"""Sizes, filters and the paper's order: what of an experiment is run, and that a run folder keeps it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support import experiments
from tests.support.commands import in_process
from tests.support.experiments import FILE, fake
from tests.support.facts import assert_facts, assert_refused, refused

from virtoll.errors import UsageError
from virtoll.experiment.model import Experiment
from virtoll.experiment.parse import parse_experiment
from virtoll.experiment.plan import Plan
from virtoll.experiment.selection import EVERYTHING, Selection
from virtoll.pipeline.execution import experiment_of, measure, resume
from virtoll.pipeline.preview import catalogue, estimate, plan_of
from virtoll.pipeline.progress import SilentProgress
from virtoll.runfolder.store import RunFolder

pytestmark = pytest.mark.usefixtures("undrawn")
SIZES: dict[str, Any] = {
    "quick": {"blocks": 2},
    "paper": {
        "blocks": 4,
        "order": "paper",
        "summary": "median-drop-first",
        "guest": {"memory": "4GiB"},
        "workloads": [{"workload": "superpi", "digits": 2**22}, {"workload": "masr", "size_bytes": "2GiB"}],
    },
}
BOTH = ["superpi", "masr"]


def sized(selection: Selection = EVERYTHING, **changed: Any) -> Experiment:
    """The example with sizes, and what is chosen of it."""
    document = {"sizes": SIZES, "guest": {"marks": "channel", "memory": "128MiB"}, "workloads": BOTH, **changed}
    return parse_experiment(experiments.text(**document), FILE, catalogue(), selection)


def cells(experiment: Experiment) -> set[tuple[str, str]]:
    return {(trial.platform.label, trial.workload.workload) for trial in plan_of(experiment).trials}


def chosen(**asked: tuple[str, ...]) -> set[tuple[str, str]]:
    platforms = ["native", "native-again", "netns", "runc"]
    return cells(sized(Selection(**asked), platforms=platforms, sizes=None))  # type: ignore[arg-type]


def test_the_quick_size_is_taken_where_there_are_sizes() -> None:
    assert [sized(Selection(size)).size for size in (None, "quick", "paper")] == ["quick", "quick", "paper"]
    quick, paper = sized(), sized(Selection("paper"))
    assert (quick.blocks, quick.order, quick.summary, quick.memory_bytes) == (2, "randomised", None, 128 * 2**20)
    assert (paper.blocks, paper.order, paper.summary, paper.memory_bytes) == (4, "paper", "median-drop-first", 2**32)
    assert paper.marks == "channel", "a size's guest is laid over the file's"
    assert paper.workloads[0].parameters.model_dump() == {"digits": 2**22}
    assert sized(sizes=None).size is None


def test_the_full_size_is_laid_over_the_papers() -> None:
    full = {"blocks": 6, "guest": {"vcpus": 2}, "workloads": ["superpi"]}
    experiment = sized(Selection("full"), sizes={**SIZES, "full": full})
    assert (experiment.size, experiment.blocks, experiment.order) == ("full", 6, "paper")
    assert (experiment.vcpus, experiment.memory_bytes, experiment.marks) == (2, 2**32, "channel")
    assert [choice.workload for choice in experiment.workloads] == ["superpi"]
    assert sized(Selection("paper"), sizes={**SIZES, "full": full}).blocks == 4


@pytest.mark.parametrize(
    ("size", "changed", "facts"),
    [
        ("full", {}, ("'full'", "quick", "paper")),
        ("full", {"sizes": {**SIZES, "full": {"blocks": 0}}}, ("blocks", 0)),
        ("full", {"sizes": {"quick": {}, "paper": {"blocks": 0}, "full": {}}}, ("size full", "blocks", 0)),
        ("full", {"sizes": {"quick": {}, "full": {}}}, ("'sizes'", "quick", "paper")),
        ("big", {}, ("'big'", "quick", "paper")),
        ("paper", {"sizes": None}, ("'sizes'", "'paper'", "'--size'")),
        (None, {"sizes": {"quick": {}}}, ("'sizes'", "quick", "paper")),
        (None, {"sizes": {"quick": 3, "paper": {}}}, ("sizes.quick", "mapping", "platforms")),
        (None, {"sizes": {"quick": {}, "paper": {"seed": 1}}}, ("sizes.paper.seed", "platforms", "blocks")),
        (
            "paper",
            {"sizes": {"quick": {}, "paper": {"workloads": [{"workload": "superpi", "digit": 1}]}}},
            ("size paper", "workloads[0].digit", "'digits'"),
        ),
        (None, {"order": "sequential", "sizes": None}, ("'order'", "'randomised'", "'paper'")),
        (None, {"summary": "mode", "sizes": None}, ("'summary'", "'mean-t95'", "'mean-sd'", "'median-drop-first'")),
    ],
)
def test_a_wrong_size_is_refused(size: str | None, changed: dict[str, Any], facts: tuple[str, ...]) -> None:
    with refused(FILE, *facts, error=UsageError):
        sized(Selection(size), **changed)


def test_the_baseline_and_its_control_stay_unless_they_are_skipped() -> None:
    standing = {("native", "superpi"), ("native-again", "superpi")}
    assert chosen(only=("runc:s*",)) == {*standing, ("runc", "superpi")}
    assert chosen(platforms=("runc",), workloads=("superpi",)) == {*standing, ("runc", "superpi")}
    assert chosen(platforms=("runc",), workloads=("superpi",), skip=("native-again:*",)) == {
        ("native", "superpi"),
        ("runc", "superpi"),
    }
    assert chosen(skip=("n*:*",)) == {("runc", "superpi"), ("runc", "masr")}
    assert ("netns", "masr") not in chosen(skip=("netns:m*",))
    assert len(chosen(skip=("netns:m*",))) == 7


def test_what_is_left_out_is_neither_probed_nor_needed() -> None:
    platforms = ["native", "native-again", "netns"]
    left = sized(Selection(workloads=("superpi",), skip=("n*e*:*",)), platforms=[*platforms, "runc"])
    assert [one.label for one in left.platforms] == ["runc"]
    assert [one.workload for one in left.workloads] == ["superpi"]
    assert (left.baseline, left.control) == (None, None)
    both = ["superpi", "bzip2"]
    assert sized(platforms=platforms, workloads=both).image == "full"
    assert sized(Selection(skip=("*:bzip2",)), platforms=platforms, workloads=both).image == "tiny"


def test_a_platforms_name_takes_all_its_labels() -> None:
    nics = [{"platform": "qemu-tcg", "nic": ["virtio-net", "e1000"]}, "native"]
    taken = cells(sized(Selection(platforms=("qemu-tcg",), workloads=("superpi",)), platforms=nics))
    assert {label for label, _ in taken} == {"native", "qemu-tcg-virtio-net", "qemu-tcg-e1000"}


@pytest.mark.parametrize(
    ("asked", "facts"),
    [
        ({"platforms": ("xen",)}, ("--platform", "'xen'", "native", "native-again", "netns", "runc")),
        ({"workloads": ("pi",)}, ("--workload", "'pi'", "'superpi'", "masr")),
        ({"only": ("runc",)}, ("--only", "'runc'", "PLATFORM:WORKLOAD", "'*:masr'")),
        ({"skip": ("xen*:*",)}, ("--skip", "'xen*:*'", "native", "superpi")),
        ({"only": ("runc:*",), "skip": ("*:*",)}, ("--only 'runc:*'", "--skip '*:*'")),
    ],
)
def test_a_filter_that_fits_nothing_is_refused(asked: dict[str, tuple[str, ...]], facts: tuple[str, ...]) -> None:
    with refused(*facts, error=UsageError):
        chosen(**asked)


def test_skips_of_the_file_add_to_those_of_the_command() -> None:
    platforms, skip = ["native", "native-again", "netns", "runc"], ["netns:m*"]
    quick: dict[str, Any] = {"quick": {}, "paper": {}}
    paper: dict[str, Any] = {"quick": {}, "paper": {"skip": ["runc:*"]}}

    def without(*patterns: str, size: str = "quick") -> set[tuple[str, str]]:
        return cells(sized(Selection(size, skip=patterns), platforms=platforms, sizes=quick))

    assert cells(sized(platforms=platforms, skip=skip)) == without("netns:m*")
    both = sized(Selection(skip=("runc:*",)), platforms=platforms, skip=skip)
    assert cells(both) == without("netns:m*", "runc:*")
    at_paper = sized(Selection("paper"), platforms=platforms, skip=skip, sizes=paper)
    assert cells(at_paper) == without("runc:*", size="paper")


@pytest.mark.parametrize(
    ("patterns", "facts"),
    [
        (["xen*:*"], ("'xen*:*'", "native", "netns", "superpi")),
        (["netns"], ("'netns'", "PLATFORM:WORKLOAD", "'*:masr'")),
        (["*:*"], ("pattern",)),
    ],
)
def test_a_pattern_of_the_file_that_fits_nothing_is_refused(patterns: list[str], facts: tuple[str, ...]) -> None:
    with refused(FILE, "size quick", "'skip'", *facts, error=UsageError):
        sized(skip=patterns)


def test_the_papers_order_is_platform_after_platform_in_one_guest_each() -> None:
    asked = sized(Selection("paper"))
    plan = plan_of(asked)
    got = [(trial.platform.label, trial.workload.workload, trial.block) for trial in plan.trials]
    assert got == [(p, w, b) for p in ("native", "netns") for w in BOTH for b in range(4)]
    assert [trial.number for trial in plan.trials] == list(range(16))
    assert [len(batch) for batch in plan.batches()] == [8, 8]
    mixed = plan_of(sized())
    assert mixed.batches() == mixed.blocks()
    boots = [estimate(Plan(1, plan.trials, order)) for order in ("paper", "randomised")]
    assert boots[0] < boots[1], "a boot a platform, and not one a block"


class StopAfter(SilentProgress):
    """Ends the run the hard way after so many trials."""

    def __init__(self, trials: int) -> None:
        self.left = trials

    def trial_ends(self, trial: object, record: object) -> None:
        del trial, record
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_what_a_platform_stands_for_is_a_text() -> None:
    entry = {"platform": "netns", "limits": ["none", "cgroup"], "stands_for": "OpenVZ 3"}
    assert [one.stands_for for one in sized(platforms=["native", entry]).platforms] == [None, "OpenVZ 3", "OpenVZ 3"]
    with refused("platforms[1].stands_for", 3, "text", error=UsageError):
        sized(platforms=["native", {"platform": "netns", "stands_for": 3}])


def test_resume_keeps_size_filter_and_order(tmp_path: Path) -> None:
    selection = Selection("paper", skip=("other:*",))
    document = experiments.text(
        platforms=[fake("model"), fake("slow", cost=2.0), fake("other")],
        baseline="model",
        workloads=[{"workload": "superpi", "digits": 1000}, {"workload": "forkwait", "processes": 500}],
        sizes={"quick": {"blocks": 1}, "paper": {"blocks": 3, "order": "paper", "summary": "mean-sd"}},
    )
    asked = parse_experiment(document, FILE, catalogue(), selection)
    with pytest.raises(KeyboardInterrupt):
        measure(asked, tmp_path / "run", ["virtoll"], StopAfter(4))
    folder = RunFolder.open(tmp_path / "run")
    described = folder.manifest.experiment
    assert (described["size"], described["order"], described["summary"]) == ("paper", "paper", "mean-sd")
    assert described["selection"]["skip"] == ["other:*"]
    again = experiment_of(folder)
    assert (again.size, again.selection, again.blocks, again.cells) == ("paper", selection, 3, asked.cells)
    resume(tmp_path / "run", SilentProgress())
    folder = RunFolder.open(tmp_path / "run")
    assert [(one.platform, one.block, one.status) for one in folder.trials()] == [
        (platform, block, "ok") for platform in ("model", "slow") for _ in range(2) for block in range(3)
    ]
    assert [boot.platform for boot in folder.boots()] == ["model", "model", "slow"], "one start each, one to resume"


def test_a_selection_is_stored_and_read_again() -> None:
    assert Selection.of_record(EVERYTHING.as_record()) == EVERYTHING
    kept = Selection("paper", ("a",), ("b",), ("c:*",), ("d:*", "e:*"))
    assert Selection.of_record(json.loads(json.dumps(kept.as_record()))) == kept
    options = "--size paper --platform a --workload b --only c:* --skip d:* --skip e:*"
    assert kept.arguments() == options.split()


def test_the_command_line_takes_them(tmp_path: Path) -> None:
    file = tmp_path / "sized.yaml"
    models = [fake("model"), fake("slow", cost=2.0), fake("other")]
    document = experiments.document(platforms=models, baseline="model", sizes=SIZES, workloads=BOTH)
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    options = ("--only", "slow:*", "--workload", "superpi")
    planned = in_process("plan", file, "--json", *options)
    assert planned.returncode == 0, planned.stderr
    plan = json.loads(planned.stdout)
    assert (plan["size"], plan["order"], len(plan["trials"])) == ("quick", "randomised", 4)
    assert plan["disk"]["data_bytes"] == 0
    shown = in_process("plan", file, "--size", "paper", "--platform", "slow").stdout
    assert_facts(shown, "16 trials", "4 repetitions", "order: paper", "tiny")
    ran = in_process("run", file, "--into", tmp_path / "run", *options)
    assert ran.returncode == 0, ran.stderr
    folder = RunFolder.open(tmp_path / "run")
    assert {(one.platform, one.workload) for one in folder.trials()} == {("model", "superpi"), ("slow", "superpi")}
    assert folder.manifest.command[-4:] == ("--workload", "superpi", "--only", "slow:*")
    nowhere = in_process("run", file, "--into", tmp_path / "none", "--platform", "xen")
    assert_refused(nowhere, "--platform", "'xen'", "model", "slow", "other")
    assert not (tmp_path / "none").exists()
