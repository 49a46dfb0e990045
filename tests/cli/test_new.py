"""``virtoll new``: what it writes loads, it asks on a terminal alone, and it replaces nothing."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
from pathlib import Path

import pytest
from tests.support.commands import DEADLINE_SECONDS, VIRTOLL, environment, virtoll

from virtoll.campaign.preview import catalogue, plan_of
from virtoll.experiment.model import Experiment
from virtoll.experiment.parse import load_experiment
from virtoll.experiment.schema import SCHEMA_FILE

GIVEN = ("--question", "Is it: 'so'?", "--platform", "runc, netns", "--workload", "superpi,forward")


def loaded(file: Path) -> Experiment:
    """What it wrote, as ``virtoll plan`` loads it."""
    experiment = load_experiment(file, catalogue())
    assert plan_of(experiment).trials
    return experiment


def test_options_make_a_commented_experiment_with_baseline_and_control(tmp_path: Path) -> None:
    file = tmp_path / "My router.yaml"
    finished = virtoll("new", file, *GIVEN, "--blocks", "7")
    assert (finished.returncode, finished.stderr) == (0, "")
    added, written = finished.stdout.splitlines()
    assert added.startswith("added: native (the baseline: ")
    assert " and native-again (the A/A control: " in added
    assert written == f"written: {file}; next: virtoll plan {file}"
    made = loaded(file)
    assert (made.name, made.question, made.blocks) == ("my-router", "Is it: 'so'?", 7)
    assert [one.label for one in made.platforms] == ["native", "native-again", "runc", "netns"]
    assert [one.workload for one in made.workloads] == ["superpi", "forward"]
    assert (made.baseline, made.control) == ("native", "native-again")
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[0] == f"# yaml-language-server: $schema={SCHEMA_FILE}"
    assert "  - runc          # container by runc" in lines
    assert "  - superpi  # Super Pi: duration in ns, lower is better" in lines


def test_a_file_is_replaced_only_when_that_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("mine\n", encoding="utf-8")
    refused = virtoll("new", file, *GIVEN)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == f"virtoll: {file} is there already; name another file, or replace it with --force\n"
    assert file.read_text(encoding="utf-8") == "mine\n"
    assert virtoll("new", file, *GIVEN, "--force", "--name", "other").returncode == 0
    assert loaded(file).name == "other"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "there is no terminal to ask on; give --question and --platform and --workload too"),
        (("--question", "q", "--platform", "runc"), "there is no terminal to ask on; give --workload too"),
        ((*GIVEN, "--platform", "kvm"), "platform 'kvm' is not known; did you mean 'qemu-kvm'?"),
        ((*GIVEN, "--name", "A b"), "'A b' is not a name; allowed: small letters, digits,"),
        ((*GIVEN, "--platform", "ssh"), "nothing is written, as it would not load: key 'platforms[4].destination'"),
        ((*GIVEN, "--workload", "lmbench"), "nothing is written, as it would not load: key 'workloads': lmbench runs"),
    ],
    ids=lambda one: " ".join(one[-2:]) if isinstance(one, tuple) else "",
)
def test_what_cannot_be_written_is_one_sentence(tmp_path: Path, words: tuple[str, ...], complaint: str) -> None:
    file = tmp_path / "mine.yaml"
    finished = virtoll("new", file, *words)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr.startswith(f"virtoll: {complaint}")
    assert finished.stderr.count("\n") == 1
    assert not file.exists()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    finished = virtoll("new", tmp_path / "no" / "mine.yaml", *GIVEN)
    assert finished.returncode == 2
    assert finished.stderr.endswith("mine.yaml cannot be written: No such file or directory; name another file\n")


def answered(typed: str, folder: Path, *words: str) -> tuple[int, str]:
    """The exit code of ``virtoll new`` on a terminal in a folder, and all that was shown there."""
    ours, theirs = pty.openpty()
    os.write(ours, typed.encode())
    asking = subprocess.Popen(
        [*VIRTOLL, "new", *words], stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment()
    )
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # EIO: nobody has the other end any more
        while part := os.read(ours, 4096):
            said += part
    os.close(ours)
    return asking.wait(DEADLINE_SECONDS), said.decode()


def test_a_person_is_asked_until_each_answer_is_right(tmp_path: Path) -> None:
    (tmp_path / "taken.yaml").touch()
    answers = ["What costs less?", "docker, nothing", "runc", "superpi", "0", "4", "taken", ""]
    code, shown = answered("".join(f"{one}\n" for one in answers), tmp_path)
    assert code == 0, shown
    assert "platform 'nothing' is not known" in shown
    assert "'0' is no number of blocks; give a whole number from 1 to 1000" in shown
    assert "taken.yaml is there already" in shown
    assert "written: my-experiment.yaml; next: virtoll plan my-experiment.yaml" in shown
    made = loaded(tmp_path / "my-experiment.yaml")
    assert (made.question, made.blocks) == ("What costs less?", 4)
    assert [one.label for one in made.platforms] == ["native", "native-again", "runc"]


def test_a_person_who_gives_up_has_no_file(tmp_path: Path) -> None:
    code, shown = answered("What costs less?\n\x04", tmp_path)
    assert (code, list(tmp_path.iterdir())) == (130, [])
    assert shown.endswith("virtoll: nothing was written\r\n")
