"""Runs that lack something, and names with markup: page, tables and terminal say what is missing, and text is text."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests.support.commands import in_process
from tests.support.drawings import Blank, drawn_by
from tests.support.facts import assert_facts
from tests.support.made_up_folder import write_run
from tests.support.made_up_run import Made, made_up_run
from tests.support.marked_up import compiles, markdown_rows
from tests.support.report_page import read_page, texts_of

from virtoll.report.exports import export_texts, exports_of
from virtoll.stats.analysis import RunData, analyse

LABELS = ("native", "native-again", "runc", "netns")
NAMES = [
    "<script>alert(1)</script>",
    "&amp;",
    "\"double\" 'single' onmouseover=alert(2)",
    "</style></script><!-- ]]>",
    "a, b; \\textbf{c} $x_1^2$ %~#",
    "| [link](javascript:alert(3)) | `code` {{ 7*7 }} {% raw %}",
]


def simple(**changed: object) -> RunData:
    """A run of four platforms and two workloads."""
    made = [Made(label, "superpi", value=1e8) for label in LABELS]
    made += [Made(label, "masr", value=1e8) for label in LABELS]
    return made_up_run({label: {} for label in LABELS}, made, **changed)  # type: ignore[arg-type]


def dead(data: RunData, platform: str) -> RunData:
    """The run in which every trial of a platform failed."""
    ended = "the guest's process ended with 139"
    trials = tuple(
        one.replace(status="failed", reason=ended, clock=None, result=None, check=None)
        if one.platform == platform
        else one
        for one in data.trials
    )
    return replace(data, trials=trials)


def two_hosts() -> RunData:
    """The run in which one platform was measured on another host."""
    made = [Made(label, "superpi", value=1e8) for label in LABELS]
    return made_up_run({label: {} for label in LABELS} | {"netns": {"host": "ssh bench@box"}}, made)


CASES: dict[str, tuple[Callable[[], RunData], tuple[str, ...], tuple[str, ...]]] = {
    "no baseline": (lambda: simple(baseline=None), ("Baseline: none",), ("Baseline: none",)),
    "one block": (lambda: simple(blocks=1), ("1 block",), ("1 block",)),
    "dead platform": (
        lambda: dead(simple(), "runc"),
        ("runc: not measured",),
        ("runc", "not measured", "ended with 139"),
    ),
    "dead baseline": (lambda: dead(simple(), "native"), ("native",), ("native", "ended with 139")),
    "two hosts": (two_hosts, ("netns: not measured",), ("not comparable", "netns", "ssh bench@box", "this machine")),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_missing_is_told_by_page_terminal_and_document(name: str, tmp_path: Path) -> None:
    make, in_terminal, on_page = CASES[name]
    run = write_run(tmp_path / "run", make())
    with drawn_by(Blank):
        reported = in_process("report", run)
    assert (reported.returncode, reported.stderr) == (0, "")
    assert_facts(reported.stdout, *in_terminal)
    page = read_page(run / "report" / "index.html")
    assert_facts(page.text, *on_page)
    assert (page.of_class("cost") == []) is ("baseline" in name)
    assert "baseline" not in name or not re.search("slower|faster|alike", reported.stdout)
    assert in_process("verify", run).returncode == 0
    judged = in_process("claims", run, "--json")
    assert (judged.returncode, judged.stderr) == (0, "")
    outcomes = {one["outcome"] for one in json.loads(judged.stdout)["claims"]}
    assert outcomes <= {"supported", "refuted", "not decided", "not measured"}
    if name in ("no baseline", "one block", "dead baseline"):
        assert not outcomes & {"refuted"}, "nothing is decided that no interval shows"


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """The report of a run whose platforms and question have markup, and its JSON."""
    labels = {"native": {}, "native-again": {}, **{name: {"platform": "runc"} for name in NAMES}}
    made = [Made(label, "superpi", value=1e8 * (1 + number)) for number, label in enumerate(labels)]
    made += [Made(label, "forward", value=1e5 / (1 + number)) for number, label in enumerate(labels)]
    question = {"question": "Is <b>this</b> & \"that\" so? <script>alert('asked')</script>"}
    data = made_up_run(labels, made, blocks=3, experiment=question)
    trials = tuple(
        one.replace(status="failed", reason=f"ended by {NAMES[0]}", clock=None, points=None)
        if one.platform == NAMES[1] and one.block == 0
        else one
        for one in data.trials
    )
    run = write_run(tmp_path_factory.mktemp("marked") / "run", replace(data, trials=trials))
    finished = in_process("report", run, "--json")
    assert finished.returncode == 0, finished.stderr
    return run / "report", json.loads(finished.stdout)


def test_names_with_markup_are_text_on_the_page(marked: tuple[Path, dict[str, object]]) -> None:
    text = (marked[0] / "index.html").read_text(encoding="utf-8")
    page = read_page(text)
    texts = texts_of(page.root)
    for name in (*NAMES, f"ended by {NAMES[0]}", "Is <b>this</b>"):
        assert any(name in one for one in texts), name
    assert not [one for one in page.root.iter("script") if re.match(r"\s*alert\(", one.text or "")]
    assert "<script>alert" not in text
    assert not {name for one in page.root.iter() for name in one.attrib if name.startswith("on")}
    assert not [link for link in page.values("href", "src", "xlink:href") if link.startswith("javascript:")]
    assert "49" not in "".join(one for one in texts if "{{" in one or "}}" in one)


def test_names_with_markup_are_text_in_every_file(marked: tuple[Path, dict[str, object]]) -> None:
    folder, document = marked
    figures = sorted((folder / "figures").glob("*.svg"))
    assert figures
    for figure in figures:
        root = ET.fromstring(figure.read_bytes())
        assert not [one for one in root.iter() if one.tag.endswith("script")], figure.name
    with (folder / "tables" / "cells.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert {row["platform"] for row in rows} == {"native", "native-again", *NAMES}
    assert {row["status"] for row in rows} == {"ok", "failed"}
    markdown = (folder / "tables" / "cost.md").read_text(encoding="utf-8")
    cells = {cell for row in markdown_rows(markdown) for cell in row}
    assert {" ".join(name.split()) for name in NAMES} <= {" ".join(cell.split()) for cell in cells}
    assert compiles((folder / "tables" / "cost.tex").read_text(encoding="utf-8"))
    answer = document["answer"]
    assert isinstance(answer, list)
    placed = {one["platform"] for row in answer for one in row["placed"]}
    assert set(NAMES) <= placed


def test_the_methods_of_a_run_without_a_test_claim_none() -> None:
    made = [Made(label, "superpi", value=1e8) for label in ("native", "runc")]
    data = made_up_run({"native": {}, "runc": {"host": "ssh bench@box"}}, made)
    text = export_texts(exports_of(analyse(data)))["methods.md"]
    assert_facts(text, "runc", "ssh bench@box")
    assert not re.search("Bonferroni|Schuirmann|Holm", text)
