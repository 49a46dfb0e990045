"""``virtoll compare``: what a word names, what is refused, exit codes, and the forms of the answer."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments
from tests.support.commands import virtoll
from tests.support.synthetic_run import Truth, write

from virtoll.advise.slower import slower_limit
from virtoll.cli.compare import compare
from virtoll.errors import UsageError
from virtoll.report.columns import TABLES

ALIKE = ("cpu", "memory", "packet path")


def truth(seed: int, cost: float = 1.0, **changed: Any) -> Truth:
    costs: dict[str, dict[str, float]] = {"native": {}, "native-again": {}, "netns": {}}
    costs["runc"] = dict.fromkeys(ALIKE, cost)
    return replace(Truth(costs, seed=seed, blocks=5, rounds=3), **changed)


def changed_manifest(folder: Path, **changed: Any) -> None:
    """The manifest with other keys; the folder's digests are written for it."""
    manifest = folder / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**content, **changed}))
    (folder / "SHA256SUMS").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of known truth; ``two`` is a real one of the model, of two builds."""
    folder = tmp_path_factory.mktemp("runs")
    write(folder / "old", truth(6))
    write(folder / "new", truth(2))
    write(folder / "slow", truth(3, 1.1))
    write(folder / "short", truth(4, blocks=1))
    other = write(folder / "other-host", truth(5))
    content = json.loads((other / "manifest.json").read_text())
    kernel = {**content["host"], "fingerprint": "0" * 64, "kernel": "6.12.0 #1 SMP x86_64"}
    changed_manifest(other, host=kernel, agent={**(content["agent"] or {}), "sha256": "f" * 64})
    two = experiments.write(
        folder,
        name="two",
        platforms=[experiments.fake("host", seed=1), experiments.fake("box", seed=2)],
        baseline="host",
        workloads=["superpi", "masr"],
        blocks=3,
        rounds=3,
    )
    ran = virtoll("run", two, "--into", folder / "two", "--against", "cost=1.1", "--quiet")
    assert ran.returncode == 0, ran.stderr
    return folder


@pytest.fixture
def compared(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., list[dict[str, Any]]]:
    """Asks for comparisons as JSON, in this process."""

    def ask(*words: str, of: Path = runs, **options: Any) -> list[dict[str, Any]]:
        monkeypatch.setenv("VIRTOLL_RUNS", str(of))
        compare(list(words), as_json=True, **options)
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["comparisons"]
        return found

    return ask


Asked = Callable[..., list[dict[str, Any]]]


def test_two_runs_are_told_side_by_side(runs: Path) -> None:
    finished = virtoll("compare", "old", "slow", runs=runs)
    assert finished.returncode == 0
    assert "B compared with A: 14 comparisons of primary metrics" in finished.stdout
    assert "Unpaired: A and B were measured at two times." in finished.stdout
    assert "experiment: seed: 6 -> 3" in finished.stdout
    rows = [line for line in finished.stdout.splitlines() if line.lstrip().startswith("runc")]
    assert sum("slower" in row for row in rows) >= 6
    assert not [line for line in finished.stdout.splitlines() if "netns" in line and "slower, " in line]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("old", "new", "--fail-if-slower", "25%"), 0, ""),
        (("old", "slow", "--fail-if-slower", "1.01x"), 3, "comparisons are slower by more than was allowed"),
        (("old", "short", "--fail-if-slower", "5%"), 4, "not known of 14 of 14 comparisons"),
        (("old", "short", "--fail-if-slower", "5%", "--allow-unknown"), 0, ""),
        (("old", "slow"), 0, ""),
        (("two", "--fail-if-slower", "5%"), 3, "2 of 2 comparisons"),
        (("two", "--fail-if-slower", "20%"), 0, ""),
    ],
)
def test_the_exit_code_says_what_the_gate_says(runs: Path, words: tuple[str, ...], code: int, said: str) -> None:
    finished = virtoll("compare", *words, runs=runs)
    assert finished.returncode == code, finished.stdout
    assert said in finished.stderr


def test_a_run_of_two_builds_is_paired_and_its_cost_found(compared: Asked) -> None:
    (found,) = compared("two")
    assert found["paired"] is True
    assert {(row["platform"], row["against"]) for row in found["rows"]} == {("box.b", "box")}
    assert [row["verdict"] for row in found["rows"] if row["family"] == "primary"] == ["slower", "slower"]
    for row in found["rows"]:
        assert row["joint_low"] < 1 / 1.1 < row["joint_high"]


def test_platforms_of_one_run_and_of_two(compared: Asked) -> None:
    (one,) = compared("old:netns", "old:runc")
    (two,) = compared("old:netns", "slow:runc")
    assert (one["paired"], two["paired"]) == (True, False)
    assert {row["platform"] for row in two["rows"]} == {"runc"}
    assert "slower" in {row["verdict"] for row in two["rows"]}


def test_a_label_alone_is_of_the_latest_run(compared: Asked, runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "slow", tmp_path / "slow")
    (found,) = compared("netns", "runc", of=tmp_path)
    assert found["paired"] is True
    assert found["first"]["run"] == found["second"]["run"]


def test_the_first_is_compared_with_each_other(compared: Asked) -> None:
    found = compared("old", "new", "slow")
    assert [(one["first"]["name"], one["second"]["name"]) for one in found] == [("A", "B"), ("A", "C")]
    assert {one["level"] for one in found} == {0.025}


def test_what_is_chosen_is_a_family_of_its_own(compared: Asked) -> None:
    (found,) = compared("old", "slow", platform=["runc"], workload=["superpi"])
    primary = [row for row in found["rows"] if row["family"] == "primary"]
    assert [(row["platform"], row["workload"]) for row in primary] == [("runc", "superpi")]
    assert primary[0]["p_adjusted"] == primary[0]["p_value"]


@pytest.mark.parametrize(
    ("words", "options", "said"),
    [
        (("old",), {}, "old is one run, of one build; give a second run"),
        (("old", "old"), {}, "old is there twice"),
        (("old", "nothing"), {}, "nothing is neither a run nor a platform of the latest run"),
        (("old", "old:runsc"), {}, "run old has no platform runsc; it has native, native-again, netns, runc"),
        (("old", "new:runc"), {}, "old is a run and new:runc a platform"),
        (("old:runc",), {}, "give a second platform"),
        (("old", "new"), {"fail_if_slower": "fast"}, "'fast' is no slowdown; give percent, such as '5%'"),
        (("old", "new"), {"by": "feeling"}, "--by feeling: not known; choose one of: cost, values"),
        (("old", "new"), {"despite": ["weather"]}, "--despite weather: not known"),
        (("old", "new"), {"platform": ["runsc"]}, "--platform runsc: there is none to compare; there are netns, runc"),
        (("old", "new"), {"workload": ["dd"]}, "--workload dd: there is none to compare"),
        (("old", "new"), {"markdown": True}, "--markdown and --json"),
        (("old", "new"), {"open_page": True}, "give --output FOLDER"),
        (("old:native", "new:native"), {"by": "cost"}, "native is what the others are measured by"),
        (("old:netns", "old:runc"), {"by": "cost"}, "--by cost is for two runs"),
        (("old", "other-host"), {}, "other host"),
        (("old", "other-host"), {"despite": ["host"]}, "other build of the agent"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(
    compared: Asked, words: tuple[str, ...], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        compared(*words, **options)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_unlike_host_is_named_and_compared_when_asked(runs: Path, compared: Asked) -> None:
    refused = virtoll("compare", "old", "other-host", runs=runs)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "host's kernel: " in refused.stderr
    assert "give --despite host to compare them all the same" in refused.stderr
    (found,) = compared("old", "other-host", despite=["host", "agent"])
    assert [line.partition(":")[0] for line in found["cautions"][:2]] == [
        "Compared in spite of another host",
        "Compared in spite of another agent",
    ]


def test_a_damaged_folder_is_told_and_decides_nothing(runs: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(runs / "two", tmp_path / "two")
    lines = (folder / "boots.jsonl").read_text().splitlines(keepends=True)
    (folder / "boots.jsonl").write_text("".join(lines) + lines[-1])
    finished = virtoll("compare", folder, "--fail-if-slower", "5%", runs=tmp_path)
    assert finished.returncode == 4
    assert "This run folder is not as it was when the run ended: boots.jsonl" in finished.stdout


def test_half_a_run_says_so(runs: Path, tmp_path: Path) -> None:
    write(tmp_path / "half", truth(2, stop_after=200, state="interrupted"))
    shutil.copytree(runs / "old", tmp_path / "old")
    finished = virtoll("compare", "old", "half", runs=tmp_path)
    assert finished.returncode == 0
    assert "is not complete (interrupted): this rests on what it has measured so far." in finished.stdout


def test_a_folder_of_a_later_version_is_one_sentence(runs: Path, tmp_path: Path) -> None:
    later = shutil.copytree(runs / "new", tmp_path / "later")
    changed_manifest(later, format=99)
    finished = virtoll("compare", runs / "old", later, runs=tmp_path)
    assert finished.returncode != 0
    assert "format" in finished.stderr
    assert finished.stderr.count("\n") == 1


def test_markdown_is_a_comment(runs: Path) -> None:
    text = virtoll("compare", "old", "slow", "--markdown", "--fail-if-slower", "5%", runs=runs).stdout
    assert text.startswith("### B compared with A: 14 comparisons")
    assert "| workload | platform | A | B | B is |" in text
    assert "**Thresholds: missed" in text
    assert text.count("<details>") == text.count("</details>") == 2


def test_the_page_has_both_sides(runs: Path, tmp_path: Path) -> None:
    finished = virtoll("compare", "old", "slow", "--output", tmp_path / "page", "--quiet", runs=runs)
    assert finished.returncode == 0
    assert finished.stdout.strip() == str(tmp_path / "page" / "index.html")
    page = (tmp_path / "page" / "index.html").read_text()
    assert "<h1>B compared with A</h1>" in page
    assert "<svg" in page
    assert (tmp_path / "page" / "figures" / "compared-1.pdf").read_bytes().startswith(b"%PDF")
    with (tmp_path / "page" / "tables" / "compared.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == TABLES["compared"].names
    assert {row["verdict"] for row in rows if row["platform"] == "runc"} >= {"slower"}


def test_a_limit_is_percent_or_a_factor() -> None:
    assert slower_limit("5%") == pytest.approx(1.05)
    assert slower_limit(" 1.2x") == pytest.approx(1.2)
    for text in ("5", "0.9x", "1x", "-5%", ""):
        with pytest.raises(ValueError, match="no slowdown"):
            slower_limit(text)
