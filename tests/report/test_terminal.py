"""The answer in a terminal and as JSON: nothing is wider than it may be, and the numbers are the page's."""

from __future__ import annotations

import csv
import fcntl
import json
import math
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from tests.support.commands import VIRTOLL, environment, in_process
from tests.support.documented import undocumented_keys
from tests.support.facts import assert_facts, assert_refused
from tests.support.made_up_folder import write_run
from tests.support.made_up_run import Made, made_up_run
from tests.support.report_page import read_page, text_of
from tests.support.repository import ROOT
from tests.support.synthetic_records import busy_host
from tests.support.synthetic_run import REALISTIC, Truth, run_data
from tests.support.terminal import answer_text, printed

from virtoll.cli.output import MOST_COLUMNS, columns, say_in_columns
from virtoll.report.sections.explanation.page import explanation_lines
from virtoll.report.sections.isolation.page import isolation_terminal
from virtoll.report.sections.scale.page import at_once_terminal
from virtoll.runfolder.conditions import Condition
from virtoll.runfolder.explain_records import CounterReading, CounterSpan, ObservedTrial
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.analysis import Analysis, RunData, analyse
from virtoll.system.printable import printable

pytestmark = pytest.mark.usefixtures("undrawn")
LONG = "a-label-that-is-as-long-as-an-experiment-lets-it-be-" + "x" * 11
NAMES = [
    LONG,
    "漢字の名前" * 9,
    "[bold red]markup[/] [/nonsense]",
    "steers\x1b[31ma\x07terminal\u202e",
    *(f"runc-{number}-{'with-parameters-' * (number % 4)}" for number in range(16)),
]
NEEDS = ("--need", "superpi duration<150ms", "--need", "masr duration<150ms", "--need", "router 64B 1kpps")
WIDTHS = (40, 80, MOST_COLUMNS)
ONE_BY_ONE = """
import json, os, sys
from virtoll.cli import main, output
for words, variables in json.loads(sys.argv[1]):
    sys.argv = ["virtoll", *words]
    os.environ.update(variables)
    output.console.cache_clear()
    try:
        main()
    except SystemExit as end:
        assert not end.code, words
    print("\\f", end="", flush=True)
"""
"""A process that runs commands as a person starts them, each with more variables; a form feed ends what each says."""
BESIDE, TWO = Condition("heavy", guests=2), ScalePoint(2, 1, 128 << 20)


@cache
def many(kind: str) -> RunData:
    """A run of 20 platforms with such names, of each scenario."""
    platforms: dict[str, dict[str, Any]] = {"native": {}, "native-again": {}}
    platforms |= {name: {"platform": "runc"} for name in NAMES}
    made = []
    for number, label in enumerate(platforms):
        value = 1e8 * 1.3 ** max(number - 1, 0)
        if kind == "at once":
            points = [ScalePoint(1, 1, 128 << 20), TWO]
            made += [Made(label, "superpi", value=value, scale=point) for point in points]
            continue
        made += [Made(label, "superpi", value=value), Made(label, "masr", value=value)]
        if kind == "neighbours":
            made.append(Made(label, "superpi", value=1.5 * value, condition=BESIDE))
    asked = {"thresholds": ["runc-*:superpi slowdown<1.5x"]} if kind == "alone" else {}
    baseline = None if kind == "no baseline" else "native"
    return made_up_run(platforms, made, baseline=baseline, blocks=4, experiment=asked)


@cache
def analysis_of(kind: str) -> Analysis:
    return analyse(many(kind))


def observed_trial(platform: str, repetition: int, system_calls: int) -> ObservedTrial:
    """One job, during which so many system calls were counted."""
    before, after = (CounterReading(time, {"system_calls": time * system_calls}) for time in (0, 1))
    return ObservedTrial(
        platform=platform,
        workload="superpi",
        parameters={"digits": 1000},
        repetition=repetition,
        boot=f"{platform}/{repetition}",
        status="ok",
        reason=None,
        started_realtime_ns=0,
        ended_realtime_ns=1,
        jobs=1,
        spans=(CounterSpan(before, after, None),),
        uncounted={},
    )


@pytest.fixture(scope="module", params=["alone", "neighbours", "at once", "no baseline"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("terminal") / "run", many(kind))


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[str, Any]:
    """The document of its report."""
    return document(folder)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three platforms: one slower, one alike, and one of which nothing is known."""
    made = [
        Made("native", "superpi", value=1e8),
        Made("native-again", "superpi", value=1e8),
        Made("runc", "superpi", value=2e8),
        Made("netns", "superpi", value=1e8),
        Made("lxc", "superpi", value=1.2e8, spread=0.12),
    ]
    asked = {"thresholds": ["runc:superpi slowdown<1.5x"]}
    data = made_up_run({one.platform: {} for one in made}, made, blocks=5, experiment=asked)
    return write_run(tmp_path_factory.mktemp("small") / "run", data)


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_wider_than_the_terminal(kind: str, width: int) -> None:
    analysis = analysis_of(kind)
    text = answer_text(analysis, width) + printed(isolation_terminal(analysis, width), width)
    if kind == "at once":
        text = printed(at_once_terminal(analysis, width), width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert "\x1b" not in text
    assert "\x07" not in text
    letters = re.sub(r"\s", "", text)
    for name in (LONG, NAMES[1], "[bold", r"steers\x1b[31ma"):
        if width > WIDTHS[0]:
            assert name[:5] in letters, "a name is folded, and no letter of it is lost"


def test_guests_at_once_have_a_column_for_each_platform_that_has_the_task() -> None:
    asked = {"superpi": ["native", "runc"], "masr": ["native", "netns"]}
    made = [Made(label, workload, scale=TWO) for workload, labels in asked.items() for label in labels]
    platforms: dict[str, dict[str, Any]] = {"native": {}, "runc": {}, "netns": {}}
    analysis = analyse(made_up_run(platforms, made, blocks=3))
    lines = printed(at_once_terminal(analysis, 100), 100).splitlines()
    heads = [line.split() for line, rule in pairwise(lines) if rule.startswith("─")]
    assert [[word for word in head if word in platforms] for head in heads] == list(asked.values())


@pytest.mark.parametrize("shape", [REALISTIC, {"native": {}}])
def test_a_name_that_is_folded_is_whole(shape: dict[str, dict[str, float]]) -> None:
    text = answer_text(analyse(run_data(Truth(shape | {LONG: {"cpu": 3.0}}, frame_sizes=(64,)))))
    assert max(map(cell_len, text.splitlines())) <= 80
    pieces = re.findall(r"[ax][a-x-]{5,}", text)
    assert LONG in "".join(pieces)


@pytest.mark.parametrize("kind", ["alone"], indirect=True)
def test_what_is_piped_has_no_escape_and_80_columns(small: Path, folder: Path) -> None:
    """Neither is there a terminal to ask how wide it is; the page's address alone is never folded."""
    reported, *others = piped(["report", small], ["claims", folder], ["advise", folder, *NEEDS])
    assert "missed" in reported, "its threshold"
    for said in (reported, *others):
        assert not {"\x1b", "\x07"} & set(said)
        assert 60 < widest(said) <= 80


def test_why_it_costs_that_is_folded_and_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    data = many("alone")
    observed = [
        observed_trial(label, repetition, 1000 * number + repetition)
        for number, label in enumerate(["native", *NAMES])
        for repetition in range(3)
    ]
    analysis = analyse(replace(data, observed=tuple(observed)))
    for line in explanation_lines(analysis):
        say_in_columns(line)
    said = capsys.readouterr().out
    assert max(map(cell_len, said.splitlines())) <= columns()
    assert not {"\x1b", "\x07", "\u202e"} & set(said)
    text = "".join(said.split())
    assert all(name in text for name in (LONG, NAMES[1], r"steers\x1b[31ma\x07terminal\u202e:"))


def one_by_one(*commands: tuple[list[str | Path], dict[str, str]]) -> list[str]:
    """The process that runs these commands, each with these variables."""
    document = [([str(word) for word in words], variables) for words, variables in commands]
    return [sys.executable, "-c", ONE_BY_ONE, json.dumps(document)]


def unsized() -> dict[str, str]:
    """The environment of a process, in which nothing says how wide it prints or whether in colours."""
    return {key: value for key, value in environment().items() if key not in ("COLUMNS", "NO_COLOR")}


def widest(said: str) -> int:
    """The columns of the widest line but the page's address."""
    return max(cell_len(line) for line in said.splitlines() if not line.startswith("report: "))


def piped(*commands: list[str | Path]) -> list[str]:
    """What each of the commands writes to a pipe, with no terminal in sight."""
    argv = one_by_one(*((words, {}) for words in commands))
    finished = subprocess.run(argv, capture_output=True, env=unsized(), cwd=ROOT, check=False, stdin=subprocess.DEVNULL)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.decode().split("\f")[:-1]


def on_a_terminal(columns: int, *commands: tuple[list[str | Path], dict[str, str]]) -> list[str]:
    """What each of the commands prints on a pseudo-terminal of so many columns."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(
        one_by_one(*commands),
        stdin=its,
        stdout=its,
        stderr=its,
        env=unsized() | {"TERM": "xterm-256color"},
        cwd=ROOT,
    ) as process:
        os.close(its)
        said = b"".join(_all_of(ours))
    os.close(ours)
    assert process.returncode == 0, said
    return said.decode().split("\f")[:-1]


def _all_of(terminal: int) -> Iterator[bytes]:
    """What is written to it until nobody has it open any more, which Linux tells by EIO."""
    while True:
        try:
            yield os.read(terminal, 65536)
        except OSError:
            return


@pytest.mark.parametrize("kind", ["alone"], indirect=True)
def test_a_terminal_has_colours_and_its_own_width(small: Path, folder: Path) -> None:
    plainly = {"NO_COLOR": "1"}
    coloured, report, claims, advice = on_a_terminal(
        60,
        (["report", small], {}),
        (["report", small], plainly),
        (["claims", folder], plainly),
        (["advise", folder, *NEEDS], plainly),
    )
    assert re.search("\x1b\\[31m2\\.0", coloured)
    without_links, links = re.subn("\x1b\\]8;[^\x1b]*\x1b\\\\", "", coloured)
    assert links == 2, "the page's path is a link: where it begins and where it ends"
    plain = re.sub("\x1b\\[[0-9;]*m", "", without_links)
    assert plain == report, "neither coloured nor bold"
    assert not {"\x1b", "\x07", "\u202e"} & set(report + claims + advice)
    words, _, file = advice.partition("name: advise")
    assert max(map(widest, (report, claims, words))) <= 60
    assert widest(file) <= 80, "the text of a file is never folded"
    letters = "".join(words.split())
    assert all(name in letters for name in (LONG, NAMES[1], r"steers\x1b[31ma\x07terminal\u202e"))
    wide = in_process("report", small, changed={"COLUMNS": "400"}).stdout
    assert 80 < widest(wide) <= MOST_COLUMNS
    assert re.sub(r"\s+", " ", wide) in re.sub(r"\s+", " ", report)


def document(run: Path) -> dict[str, Any]:
    """The JSON of its report; in strict JSON there is neither NaN nor infinity."""
    finished = in_process("report", run, "--json")
    assert finished.returncode == 0, finished.stderr

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return dict(json.loads(finished.stdout, parse_constant=refuse))


def rows_of(run: Path, table: str) -> list[dict[str, str]]:
    file = run / "report" / "tables" / f"{table}.csv"
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def as_csv(value: object) -> str:
    """A value as a table has it, which may be read in a terminal; the document is data, and has it as it is."""
    return "" if value is None else printable(str(value))


def test_the_document_has_the_numbers_of_the_pages_tables(folder: Path, told: dict[str, Any]) -> None:
    found = told
    for table in ("comparisons", "isolation", "neighbours", "scale", "groups"):
        rows = rows_of(folder, table)
        assert len(found[table]) == len(rows)
        for ours, its in zip(found[table], rows, strict=True):
            for column, text in its.items():
                if ours.get(f"{column}_open"):
                    assert (ours[column], math.isinf(float(text))) == (None, True)
                else:
                    assert as_csv(ours[column]) == text, (table, column)
    of = {(row["claim"], row["test"]): row for row in rows_of(folder, "claims_findings") if row["estimate"]}
    for claim in found["claims"]:
        for number, test in enumerate(claim["tests"]):
            row = of.get((claim["claim"]["id"], str(number)))
            assert row is None or row["estimate"] in {as_csv(one["estimate"]) for one in test["findings"]}


def test_the_document_has_the_answer(small: Path) -> None:
    found = document(small)
    assert (found["schema"], found["version"]) == ("virtoll-report", 1)
    run = found["run"]
    assert (run["baseline"], run["whole"], run["differences"], run["state"]) == ("native", True, [], "complete")
    (answer,) = found["answer"]
    of = {one["platform"]: one for one in answer["placed"]}
    assert list(of)[-1] == "runc"
    assert {label: one["verdict"] for label, one in of.items()} == {
        "native": "baseline",
        "netns": "alike",
        "lxc": "not known",
        "runc": "slower",
    }
    slow = of["runc"]
    assert (slow["first_place"], slow["last_place"]) == (4, 4)
    assert slow["share_low"] <= slow["share"] <= slow["share_high"] < 1
    assert slow["at_least_factor"] == pytest.approx(1 / slow["share_high"])
    assert (of["native"]["at_least_factor"], of["netns"]["margin_share"]) == (None, 0.05)
    (unknown,) = found["not_known"]
    assert unknown["platform"] == "lxc"
    assert unknown["more_blocks"] >= 1
    assert unknown["more_seconds"] > unknown["more_blocks"]
    assert found["fitness"]["level"] in ("fit", "degraded", "unfit")
    assert {one["value"] for one in found["fitness"]["readings"] if one["name"] == "throttling"} == {None}
    assert found["caveats"] == []
    medians = {one["platform"]: one for one in found["medians"]}
    assert medians["runc"]["low"] <= medians["runc"]["median"] <= medians["runc"]["high"]
    assert found["claims"] == [], "its experiment names no study"


def test_an_end_of_an_interval_that_is_open_is_null_and_said(tmp_path: Path) -> None:
    """Two lower bounds against each other: neither end of a claim's share is known."""
    costs = {"native": {"packet path": 0.4}, "netns": {"packet path": 0.5}, "qemu-tcg": {"packet path": 5.0}}
    data = run_data(Truth(costs, control=None, frame_sizes=(64, 1500), study="schlosser2011"))
    found = document(write_run(tmp_path / "run", data))
    bounds = {(one["platform"], one["workload"]) for one in found["medians"] if one["lower_bound"]}
    assert ("native", "forward") in bounds
    placed = [one for answer in found["answer"] for one in answer["placed"] if answer["workload"] == "forward"]
    native = next(one for one in placed if one["platform"] == "native")
    assert (native["share_high"], native["share_high_open"], native["share_low_open"]) == (None, True, False)
    findings = [one for claim in found["claims"] for test in claim["tests"] for one in test["findings"]]
    open_ends = [one for one in findings if one["interval_low_open"] or one["interval_high_open"]]
    assert open_ends
    for one in open_ends:
        assert (one["interval_low"] is None) is one["interval_low_open"]
        assert (one["interval_high"] is None) is one["interval_high_open"]


def test_the_page_of_the_document_names_every_key(told: dict[str, Any]) -> None:
    """docs/report-json.md is the schema: a key that comes or goes is told there."""
    assert undocumented_keys(told) == set()


@pytest.mark.parametrize("kind", ["alone"], indirect=True)
def test_thresholds_are_near_the_answer_and_in_the_document(told: dict[str, Any], folder: Path) -> None:
    """Of a pattern each platform that it takes in; what was asked of one run alone is not among them."""
    found = {one["platform"]: one["outcome"] for one in told["gate"]["checks"]}
    assert list(found) == NAMES[4:]
    assert "missed" in found.values()
    assert told["gate"]["outcome"] == "missed"
    page = read_page(folder / "report" / "index.html")
    assert page.text_at("thresholds").count("runc-*:superpi slowdown<1.5x") == len(found)
    places = [page.ids.index(part) for part in ("verdict", "thresholds", "cost")]
    assert places == sorted(places)


def test_an_unfit_host_stands_before_the_ranking_with_what_helps(small: Path, tmp_path: Path) -> None:
    busy = tmp_path / "busy"
    shutil.copytree(small, busy)
    busy_host(busy)
    printed = in_process("report", busy).stdout
    before, _, ranking = printed.partition("native ")
    assert_facts(" ".join(before.split()), "unfit", "doctor --noise", "doctor --tune")
    assert_facts(ranking, "Host: unfit", "other load 7.00")
    page = (busy / "report" / "index.html").read_text()
    assert page.index("virtoll doctor --tune") < page.index('class="ranking')


def test_terminal_and_page_say_the_same(small: Path) -> None:
    printed_answer = in_process("report", small).stdout
    page = read_page(small / "report" / "index.html")
    (ranking,) = page.of_class("ranking")
    for text in (printed_answer, text_of(ranking)):
        assert_facts(text, "2.0", "slower", "1.9", "alike", "5 %", "not known")
    unknown = re.search(r"lxc in Super Pi \S+ digits.*?(\d+) more blocks", " ".join(printed_answer.split()))
    assert unknown is not None
    assert int(unknown[1]) >= 1


def test_what_the_standard_output_cannot_take_is_one_line(small: Path) -> None:
    """A full disk behind `>`; a pipe whose reader has left is no news."""
    with Path("/dev/full").open("wb") as full:
        for command in (["show", "schema"], ["advise", small, "--need", "superpi duration<1s"]):
            argv = [*VIRTOLL, *map(str, command)]
            done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, env=environment(), text=True, check=False)
            assert_refused(done, "standard output", "No space left", code=1)
            assert done.stderr.count("\n") == 1
    with subprocess.Popen(
        [*VIRTOLL, "show", "schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as begun:
        assert begun.stdout is not None
        assert begun.stderr is not None
        begun.stdout.read(1)
        begun.stdout.close()
        assert begun.stderr.read() == b""
