"""``virtoll new``: what it writes loads, it asks on a terminal alone, and it replaces nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.commands import in_process
from tests.support.dialogue import answered
from tests.support.facts import assert_facts, assert_refused

from virtoll.experiment.model import Experiment
from virtoll.experiment.parse import load_experiment
from virtoll.experiment.schema import SCHEMA_FILE
from virtoll.pipeline.preview import catalogue, plan_of

GIVEN = ("--question", "Is it: 'so'?", "--platform", "runc, netns", "--workload", "superpi,forward")


def loaded(file: Path) -> Experiment:
    """What it wrote, as ``virtoll plan`` loads it."""
    experiment = load_experiment(file, catalogue())
    assert plan_of(experiment).trials
    return experiment


def test_options_make_a_commented_experiment_with_baseline_and_control(tmp_path: Path) -> None:
    file = tmp_path / "My router.yaml"
    finished = in_process("new", file, *GIVEN, "--blocks", "7")
    assert (finished.returncode, finished.stderr) == (0, "")
    added, written = finished.stdout.splitlines()
    assert_facts(added, "native", "baseline", "native-again", "A/A control")
    assert_facts(written, file, f"virtoll plan {file}")
    made = loaded(file)
    assert (made.name, made.question, made.blocks) == ("my-router", "Is it: 'so'?", 7)
    assert [one.label for one in made.platforms] == ["native", "native-again", "runc", "netns"]
    assert [one.workload for one in made.workloads] == ["superpi", "forward"]
    assert (made.baseline, made.control) == ("native", "native-again")
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[0] == f"# yaml-language-server: $schema={SCHEMA_FILE}"
    comments = dict(re.findall(r"^  - (\S+) +# (.+)$", "\n".join(lines), re.MULTILINE))
    assert_facts(comments["runc"], "container")
    assert_facts(comments["superpi"], "Super Pi", "ns", "lower")


def test_a_file_is_replaced_only_when_that_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("mine\n", encoding="utf-8")
    finished = in_process("new", file, *GIVEN)
    assert_refused(finished, file, "--force")
    assert finished.stdout == ""
    assert file.read_text(encoding="utf-8") == "mine\n"
    assert in_process("new", file, *GIVEN, "--force", "--name", "other").returncode == 0
    assert loaded(file).name == "other"


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        ((), ("terminal", "--question", "--platform", "--workload")),
        (("--question", "q", "--platform", "runc"), ("terminal", "--workload")),
        ((*GIVEN, "--platform", "kvm"), ("'kvm'", "'qemu-kvm'")),
        ((*GIVEN, "--name", "A b"), ("'A b'", "small letters", "digits")),
        ((*GIVEN, "--platform", "ssh"), ("'platforms[4].destination'",)),
        ((*GIVEN, "--workload", "lmbench"), ("'workloads'", "lmbench")),
    ],
    ids=lambda one: " ".join(one[-2:]),
)
def test_what_would_not_load_is_not_written(tmp_path: Path, words: tuple[str, ...], facts: tuple[str, ...]) -> None:
    file = tmp_path / "mine.yaml"
    finished = in_process("new", file, *words)
    assert_refused(finished, *facts)
    assert (finished.stdout, finished.stderr.count("\n")) == ("", 1)
    assert not file.exists()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = tmp_path / "no" / "mine.yaml"
    assert_refused(in_process("new", file, *GIVEN), file)


def test_a_person_is_asked_until_each_answer_is_right(tmp_path: Path) -> None:
    (tmp_path / "taken.yaml").touch()
    answers = ["What costs less?", "docker, nothing", "runc", "superpi", "0", "4", "taken", ""]
    code, shown = answered("".join(f"{one}\n" for one in answers), tmp_path)
    assert code == 0, shown
    assert_facts(shown, "'nothing'", "'0'", "from 1 to 1000", "taken.yaml", "virtoll plan my-experiment.yaml")
    made = loaded(tmp_path / "my-experiment.yaml")
    assert (made.question, made.blocks) == ("What costs less?", 4)
    assert [one.label for one in made.platforms] == ["native", "native-again", "runc"]


def test_a_person_who_gives_up_has_no_file(tmp_path: Path) -> None:
    code, shown = answered("What costs less?\n\x04", tmp_path)
    assert (code, list(tmp_path.iterdir())) == (130, [])
    assert "virtoll: " in shown
