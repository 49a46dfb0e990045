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
from tests.support.commands import in_process
from tests.support.facts import assert_facts, assert_refused, refused
from tests.support.model_runs import measured
from tests.support.synthetic_records import busy_host
from tests.support.synthetic_run import Truth, write

from virtoll.advise.slower import slower_limit
from virtoll.cli.compare import compare
from virtoll.errors import UsageError
from virtoll.report.tables import TABLES

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
    busy_host(write(folder / "busy", truth(3, 1.1)))
    two = experiments.parsed(
        name="two",
        platforms=[experiments.fake("host", seed=1), experiments.fake("box", seed=2)],
        baseline="host",
        workloads=["superpi", "masr"],
        blocks=3,
        rounds=3,
        against=["cost=1.1"],
    )
    measured(two, folder / "two")
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


def test_two_runs_are_shown_side_by_side(runs: Path) -> None:
    finished = in_process("compare", "old", "slow", runs=runs)
    assert finished.returncode == 0
    assert_facts(finished.stdout, "14 comparisons", "Unpaired", "seed: 6 -> 3")
    rows = [line for line in finished.stdout.splitlines() if line.lstrip().startswith("runc")]
    assert sum("slower" in row for row in rows) >= 6
    assert not [line for line in finished.stdout.splitlines() if "netns" in line and "slower, " in line]


@pytest.mark.parametrize(
    ("words", "code", "facts"),
    [
        (("old", "new", "--fail-if-slower", "25%"), 0, ()),
        (("old", "slow", "--fail-if-slower", "1.01x"), 3, ("comparisons",)),
        (("old", "short", "--fail-if-slower", "5%"), 4, ("14 of 14 comparisons",)),
        (("old", "short", "--fail-if-slower", "5%", "--allow-unknown"), 0, ()),
        (("old", "slow"), 0, ()),
        (("old", "busy", "--fail-if-slower", "1.01x"), 4, ("14 of 14 comparisons",)),
        (("busy", "new", "--fail-if-slower", "25%"), 4, ("14 of 14 comparisons",)),
        (("old", "busy", "--fail-if-slower", "1.01x", "--allow-unknown"), 0, ()),
        (("busy:netns", "busy:runc", "--fail-if-slower", "1.01x"), 3, ()),
        (("two", "--fail-if-slower", "5%"), 3, ("2 of 2 comparisons",)),
        (("two", "--fail-if-slower", "20%"), 0, ()),
    ],
)
def test_the_exit_code_says_what_the_gate_says(
    runs: Path, words: tuple[str, ...], code: int, facts: tuple[str, ...]
) -> None:
    assert_refused(in_process("compare", *words, runs=runs), *facts, code=code)


@pytest.mark.parametrize("words", [(), ("--markdown",)])
def test_both_hosts_are_stated_before_any_difference(runs: Path, words: tuple[str, ...]) -> None:
    text = in_process("compare", "old", "busy", *words, "--fail-if-slower", "5%", runs=runs).stdout
    before = text[: text.index("netns")]
    assert_facts(before, "Host of A: degraded", "0.200", "Host of B: unfit", "7.00", "The host of B")


def test_the_hosts_are_in_json_and_on_the_page(compared: Asked, tmp_path: Path) -> None:
    (found,) = compared("old", "busy", output=tmp_path / "page")
    quiet, busy = (found[side]["fitness"] for side in ("first", "second"))
    loads = [{one["name"]: one["value"] for one in side["readings"]}["other load"] for side in (quiet, busy)]
    assert [quiet["level"], busy["level"], *loads] == ["degraded", "unfit", 0.2, 7.0]
    for text in (busy["words"], " ".join(busy["reasons"])):
        assert_facts(text, "other load", "7.00")
    assert_facts(found["cautions"][0], "unfit", "load")
    page = (tmp_path / "page" / "index.html").read_text()
    assert page.index("Host of B: unfit") < page.index("primary metrics")
    (fair,) = compared("old", "new")
    assert not [caution for caution in fair["cautions"] if "unfit" in caution]


def test_platforms_of_one_run_on_a_busy_host_state_it_once(runs: Path) -> None:
    text = in_process("compare", "busy:netns", "busy:runc", runs=runs).stdout
    assert text.count("unfit") == 1


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
    ("words", "options", "facts"),
    [
        (("old",), {}, ("old", "second run")),
        (("old", "old"), {}, ("old", "twice")),
        (("old", "nothing"), {}, ("nothing",)),
        (("old", "old:runsc"), {}, ("old", "runsc", "native-again", "netns", "runc")),
        (("old", "new:runc"), {}, ("old", "new:runc")),
        (("old:runc",), {}, ("second platform",)),
        (("old", "new"), {"fail_if_slower": "fast"}, ("'fast'", "'5%'")),
        (("old", "new"), {"by": "feeling"}, ("--by", "feeling", "cost", "values")),
        (("old", "new"), {"despite": ["weather"]}, ("--despite", "weather", "host")),
        (("old", "new"), {"platform": ["runsc"]}, ("--platform", "runsc", "netns", "runc")),
        (("old", "new"), {"workload": ["dd"]}, ("--workload", "dd", "superpi")),
        (("old", "new"), {"markdown": True}, ("--markdown", "--json")),
        (("old", "new"), {"open_page": True}, ("--output",)),
        (("old:native", "new:native"), {"by": "cost"}, ("native",)),
        (("old:netns", "old:runc"), {"by": "cost"}, ("--by cost", "two runs")),
        (("old", "other-host"), {}, ("kernel", "6.12.0", "--despite host")),
        (("old", "other-host"), {"despite": ["host"]}, ("--despite agent",)),
    ],
)
def test_what_cannot_be_compared_is_refused(
    compared: Asked, words: tuple[str, ...], options: dict[str, Any], facts: tuple[str, ...]
) -> None:
    with refused(*facts, error=UsageError):
        compared(*words, **options)


def test_an_unlike_host_is_compared_when_that_is_asked_for(compared: Asked) -> None:
    (found,) = compared("old", "other-host", despite=["host", "agent"])
    for caution, fact in zip(found["cautions"][:2], ("host", "agent"), strict=True):
        assert_facts(caution, fact)


def test_a_damaged_folder_is_named_and_decides_nothing(runs: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(runs / "two", tmp_path / "two")
    lines = (folder / "boots.jsonl").read_text().splitlines(keepends=True)
    (folder / "boots.jsonl").write_text("".join(lines) + lines[-1])
    finished = in_process("compare", folder, "--fail-if-slower", "5%", runs=tmp_path)
    assert finished.returncode == 4
    assert_facts(finished.stdout, "boots.jsonl")


def test_half_a_run_says_so(runs: Path, tmp_path: Path) -> None:
    write(tmp_path / "half", truth(2, stop_after=200, state="interrupted"))
    shutil.copytree(runs / "old", tmp_path / "old")
    finished = in_process("compare", "old", "half", runs=tmp_path)
    assert finished.returncode == 0
    assert_facts(finished.stdout, "interrupted")


def test_a_folder_of_a_later_version_is_refused(runs: Path, tmp_path: Path) -> None:
    later = shutil.copytree(runs / "new", tmp_path / "later")
    changed_manifest(later, format=99)
    finished = in_process("compare", runs / "old", later, runs=tmp_path)
    assert_refused(finished, "format", 99)
    assert finished.stderr.count("\n") == 1


def test_markdown_is_a_comment(runs: Path) -> None:
    text = in_process("compare", "old", "slow", "--markdown", "--fail-if-slower", "5%", runs=runs).stdout
    heading, *lines = text.splitlines()
    assert heading.startswith("### ")
    assert_facts(heading, "14 comparisons")
    assert any(line.split(" | ")[:4] == ["| workload", "platform", "A", "B"] for line in lines)
    assert_facts(text, "missed")
    assert text.count("<details>") == text.count("</details>") == 2


def test_the_page_has_both_sides(runs: Path, tmp_path: Path) -> None:
    finished = in_process("compare", "old", "slow", "--output", tmp_path / "page", "--quiet", runs=runs)
    assert finished.returncode == 0
    assert finished.stdout.strip() == str(tmp_path / "page" / "index.html")
    page = (tmp_path / "page" / "index.html").read_text()
    assert "<svg" in page
    assert (tmp_path / "page" / "figures" / "compared-1.pdf").read_bytes().startswith(b"%PDF")
    with (tmp_path / "page" / "tables" / "compared.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == TABLES["compared"].header
    assert {row["verdict"] for row in rows if row["platform"] == "runc"} >= {"slower"}


def test_a_limit_is_percent_or_a_factor() -> None:
    assert slower_limit("5%") == pytest.approx(1.05)
    assert slower_limit(" 1.2x") == pytest.approx(1.2)
    for text in ("5", "0.9x", "1x", "-5%", ""):
        with pytest.raises(ValueError, match=f"'{text}'"):
            slower_limit(text)
