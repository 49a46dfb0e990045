"""The report from every kind of synthetic run: it is made, it is whole, and its numbers are the analysis's."""

import csv
import html
import io
import itertools
import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.cells import cell_len
from tests.support.drawings import render
from tests.support.synthetic_run import REALISTIC, Truth, run_data, write
from tests.support.terminal import answer_text

from virtoll.claims import ThenAndNow, then_and_now
from virtoll.errors import RunFolderError, StorageError
from virtoll.experiment.topology import FUNCTIONAL_ONLY
from virtoll.report import ReportResult, build_report, words
from virtoll.report.answer import rankings
from virtoll.report.exports import export_texts, exports_of
from virtoll.report.figures import FIGURES, figures_of
from virtoll.report.figures.style import KNOWN, platform_styles
from virtoll.report.figures.then_and_now import then_and_now_figures
from virtoll.report.headline import (
    DECIDES_WITHIN,
    control_line,
    decides,
    decides_line,
    detectable_line,
    detects_words,
    family_line,
    platform_words,
    states_line,
)
from virtoll.report.tables import csv_tables
from virtoll.stats.analysis import analyse
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.detectable import Detectable
from virtoll.stats.intervals import Interval
from virtoll.stats.states import TwoStates

KVM = {"qemu-kvm": "/dev/kvm does not exist on <this> host"}
RUNS = {
    "rounds": Truth(REALISTIC, rounds=3, margin=0.25, frame_sizes=(64, 1500)),
    "whole": Truth(REALISTIC, clock_error={"qemu-tcg-e1000": -0.002}),
    "troubled": Truth(
        REALISTIC | {"qemu-kvm": {}},
        unavailable=KVM,
        outlier=("netns", "superpi", 2),
        failures={("runc", "masr", 1): "failed", ("netns", "superpi", 0): "invalid"},
    ),
    "many blocks": Truth({"native": {}, "native-again": {}, "other": {"cpu": 1.3}}, blocks=7, hypervisor=None),
    "interrupted": Truth(REALISTIC, stop_after=30, state="interrupted"),
    "nothing run": Truth(REALISTIC, stop_after=0, state="interrupted"),
    "all failed": Truth(REALISTIC, all_fail=True),
    "one block": Truth(REALISTIC, blocks=1),
    "no baseline": Truth(REALISTIC, baseline=None, control=None),
    "no control": Truth({"native": {}, "runc": {}}, control=None),
    "control differs": Truth({"native": {}, "native-again": {"cpu": 1.5}, "runc": {}}, noise=0.005),
    "wired": Truth(REALISTIC, wired=True),
    "weighed": Truth(REALISTIC, weighed=True),
    "nested": Truth(
        REALISTIC | {"xen": {"packet path": 300.0, "cpu": 40.0}},
        wired=True,
        weighed=True,
        caveats={"xen": ("nested xen", FUNCTIONAL_ONLY)},
        clock_error={"xen": 0.01},
        study="schlosser2011",
    ),
    "as a paper": Truth(
        REALISTIC,
        blocks=4,
        summary="median-drop-first",
        order="paper",
        failures={
            ("runc", "masr", 0): "failed",
            ("netns", "masr", 0): "failed",
            ("netns", "masr", 1): "failed",
            ("netns", "masr", 2): "failed",
        },
    ),
    "listed rates": Truth(
        REALISTIC | {"xen": {"packet path": 300.0}},
        frame_sizes=(68, 1504),
        rates_mbit_per_second=(10.0, 100.0, 400.0, 1000.0),
        sources=(1, 2, 3),
        caveats={"xen": ("nested xen", FUNCTIONAL_ONLY)},
    ),
    "one platform": Truth({"native": {}}, control=None, frame_sizes=(64,)),
    "swept": Truth(
        REALISTIC | {"xen": {"memory": 3.0}},
        threads=(1, 2, 4),
        summary="mean-t95",
        caveats={"xen": ("nested xen", FUNCTIONAL_ONLY)},
    ),
}


@pytest.fixture(scope="module", params=RUNS)
def name(request: pytest.FixtureRequest) -> str:
    """Tests of the same run come one after another, so that its report is made once."""
    return str(request.param)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ReportResult]:
    """The report of each kind of run, made at its first use."""
    made: dict[str, ReportResult] = {}

    def report(name: str) -> ReportResult:
        if name not in made:
            made[name] = build_report(write(tmp_path_factory.mktemp("report") / "run", RUNS[name]))
        return made[name]

    return report


class Page(HTMLParser):
    """Collects what a page loads, its headings, its ids, and whether its elements are closed in order."""

    VOID = frozenset({"meta", "br", "img", "link", "hr", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.ids += [value for key, value in attrs if key == "id" and value]
        self.loads += [value for key, value in attrs if key in {"src", "srcset", "data", "poster"} and value]
        if tag == "link":
            self.loads.append(given.get("href") or "")
        if tag == "a":
            self.links.append(given.get("href") or "")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


def test_a_report_is_whole_and_loads_nothing(name: str, reports: Callable[[str], ReportResult]) -> None:
    built = reports(name)
    text = built.path.read_text(encoding="utf-8")
    page = Page(text)
    text = re.sub(r"<script\b.*?</script>", "", text, flags=re.DOTALL)
    assert page.open == []
    assert page.loads == []
    assert not re.search(r"@import|url\(\s*['\"]?(?!#)", text)
    assert len(page.ids) == len(set(page.ids))
    assert page.tags.count("h1") == 1
    assert page.tags.count("svg") == len(list((built.path.parent / "figures").glob("*.svg")))
    for link in page.links:
        assert link.removeprefix("#") in page.ids if link.startswith("#") else (built.path.parent / link).is_file()
    own = {
        "isolation": False,
        "routers_beside": False,
        "guests-at-once": False,
        "over-vcpus": False,
    }  # with a section of their own, or without one
    own |= dict.fromkeys(("listed_rates", "sources"), bool(RUNS[name].rates_mbit_per_second))
    own |= {one: FIGURES[one].why_not(built.analysis) is None for one in ("scaling", "guests", "consolidation")}
    for figure in FIGURES:
        assert (f"figure-{figure}" in page.ids) is own.get(figure, True)
    missing = [one for one in FIGURES.values() if one.why_not(built.analysis) is not None]
    assert all(f"{one.title} (" in html.unescape(text) for one in missing), "said at the end"
    series = {figure for figure in figures_of(built.analysis) if figure not in FIGURES}
    assert {figure for figure in series if f"figure-{figure}" not in page.ids} == set()
    assert any(figure.startswith("bars-") for figure in series) is ('id="paper-summary"' in text)
    assert ("parameters" in page.ids) is any(figure.startswith("curves-") for figure in series)
    assert "None" not in re.sub(r"<pre>.*?</pre>|<svg.*?</svg>", "", text, flags=re.DOTALL)
    assert not re.search(r"<[a-z][^>]* title=", text), "no finger and no key finds what only a pointer shows"
    described = re.findall(r'<svg role="img"[^>]* aria-describedby="([^"]+)"', text)
    assert len(described) == page.tags.count("svg")
    assert set(described) <= set(page.ids)


def test_every_figure_is_drawn_from_every_run(name: str, reports: Callable[[str], ReportResult]) -> None:
    built = reports(name)
    for figure, spec in figures_of(built.analysis).items():
        file = built.path.parent / "figures" / figure
        drawn = spec.why_not(built.analysis) is None
        assert file.with_suffix(".svg").exists() is drawn
        if drawn:
            assert "<svg" in file.with_suffix(".svg").read_text(encoding="utf-8")
            assert file.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
            assert len(spec.caption(built.analysis)) > 60


MISSING = {
    "This run is not complete": {"interrupted", "nothing run"},
    "No trial gave a value": {"all failed", "nothing run"},
    "Only one block was measured": {"interrupted", "one block"},
    "This run has no baseline": {"no baseline"},
    "There is no A/A control": {"no control", "one platform"},
    "Do not trust this run": {"control differs"},
    "/dev/kvm does not exist on &lt;this&gt; host": {"troubled"},
    "the guest&#39;s process ended during the job": {"troubled", "as a paper", "all failed"},
}


def test_what_is_missing_is_said_where_it_is_missing(name: str, reports: Callable[[str], ReportResult]) -> None:
    text = reports(name).path.read_text(encoding="utf-8")
    assert {sentence for sentence in MISSING if sentence in text} == {
        sentence for sentence, runs in MISSING.items() if name in runs
    }


def test_a_long_reason_is_short_in_the_answer_and_whole_below(tmp_path: Path) -> None:
    reason = f"no guest boots with kvm here: qemu-system-x86_64: kvm.c:3183: {20 * 'Assertion '}failed"
    truth = Truth({"native": {}, "runc": {}, "qemu-kvm": {}}, control=None, unavailable={"qemu-kvm": reason})
    text = build_report(write(tmp_path / "run", truth)).path.read_text(encoding="utf-8")
    answer, below = text[text.index('<section id="verdict"') :].split("<details", 1)
    assert "qemu-kvm (no guest boots with kvm here: qemu-system-x86_64:" in answer
    assert reason not in answer
    assert 'The whole reason is under <a href="#trials">Trials</a>.' in answer
    assert reason in below


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", RUNS["whole"])
    one, two = build_report(folder, tmp_path / "one"), build_report(folder, tmp_path / "two")
    specs = figures_of(one.analysis, then_and_now(one.analysis))
    drawn = sum(spec.why_not(one.analysis) is None for spec in specs.values())
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    texts = len(list(csv_tables(one.analysis, one.ledger, then_and_now(one.analysis)))) + len(
        export_texts(exports_of(one.analysis))
    )
    assert len(files) == 2 + 2 * drawn + texts, "the page, its list of files, figures, tables"
    for file in files:
        assert (one.path.parent / file).read_bytes() == (two.path.parent / file).read_bytes(), file


def test_the_pages_numbers_are_the_analysiss(reports: Callable[[str], ReportResult]) -> None:
    built = reports("whole")
    text = built.path.read_text(encoding="utf-8").replace("\u00a0", " ")
    for one in built.analysis.comparisons:
        assert one.share is not None
        assert one.interval is not None
        assert f"<b>{words.said(one).head}</b>" in text
        assert words.share(one.share) in text
    for found in built.analysis.detectable:
        assert words.smallest(found.factor) in text
    assert "relative numbers only" in text
    assert all(word in text for word in ("image tools package fio", "3.33-3", "image tools packages"))
    assert "zlib1g" not in text
    rows = list(csv.DictReader((built.path.parent / "tables" / "cells.csv").open()))
    assert len(rows) == len(built.analysis.data.trials)
    values = {(int(row["trial"]), row["metric"]): float(row["value"]) for row in rows}
    for observation in built.analysis.observations:
        assert values[observation.trial, observation.task.metric.name] == observation.value
    points = list(csv.DictReader((built.path.parent / "tables" / "points.csv").open()))
    assert all(int(row["offered_frames"]) == int(row["forwarded_frames"]) + int(row["lost_frames"]) for row in points)


def test_why_a_verdict_is_as_it_is_is_text(reports: Callable[[str], ReportResult]) -> None:
    built = reports("troubled")
    text = html.unescape(built.path.read_text(encoding="utf-8")).replace("\u00a0", " ")
    reasons = {one.reason for one in built.analysis.comparisons if one.share is not None}
    assert len(reasons) > 2
    assert {one for one in reasons if one not in text} == set()


@pytest.mark.parametrize("name", ["rounds", "control differs", "one block"])
def test_the_noise_is_green_where_the_run_can_decide(name: str, reports: Callable[[str], ReportResult]) -> None:
    built = reports(name)
    text = built.path.read_text(encoding="utf-8").replace("\u00a0", " ")
    found = re.search(r'<p id="noise" class="note ([^"]*)">(.*?)</p>', text, flags=re.DOTALL)
    assert found is not None
    largest = max((one.factor for one in built.analysis.detectable if one.metric.primary), default=math.inf)
    assert (found[1] == "good") is (largest <= DECIDES_WITHIN and not built.analysis.alarms)
    assert (f"above a factor of {DECIDES_WITHIN:g}: " in found[2]) is (largest < math.inf)
    assert text.index('class="ranking"') < found.start() if 'class="ranking"' in text else name == "one block"


def test_a_limit_above_half_as_much_again_is_not_good() -> None:
    analysis = analyse(run_data(RUNS["rounds"]))
    metric = next(task.metric for task in analysis.tasks if task.metric.primary)

    def noise(*limits: float, primary: bool = True) -> tuple[bool, str, str]:
        every = [Detectable(f"f{place}", metric, one, 1.0, 900.0, 4) for place, one in enumerate(limits)]
        own = tuple(replace(one, metric=replace(metric, primary=primary)) for one in every)
        found = replace(analysis, detectable=own)
        return decides(found), decides_line(found), detects_words(found)

    good = "No limit is above a factor of 1.5: this run decides larger differences."
    assert noise(1.04, DECIDES_WITHIN) == (True, good, "differences above a factor of 1.04 to 1.5")
    few = "1 of 2 limits is above a factor of 1.5: a difference below its limit is mostly missed."
    assert noise(1.04, 1.51)[:2] == (False, few)
    assert noise(1.04, 2, 3)[1].startswith("2 of 3 limits are above")
    assert noise(2.19, 2.19) == (
        False,
        few.replace("1 of 2 limits", "Every limit"),
        "differences above a factor of 2.2",
    )
    assert noise() == noise(1.04, primary=False) == (False, "", "")
    doubtful = replace(analyse(run_data(RUNS["control differs"])), detectable=analysis.detectable)
    assert (decides(analysis), decides(doubtful)) == (True, False)


def test_a_brand_is_in_every_table_figure_and_verdict(reports: Callable[[str], ReportResult]) -> None:
    built = reports("nested")
    text = built.path.read_text(encoding="utf-8").replace("\u00a0", " ")
    assert f"† {FUNCTIONAL_ONLY} (xen on nested xen)" in text
    assert "Nested: functional only (21 of 21 trials ok)" in text
    for table in (built.path.parent / "tables").glob("*.csv"):
        rows = list(csv.DictReader(table.open()))
        reported = {row["platform"]: row["caveat"] for row in rows if "platform" in row}
        assert all(caveat == (FUNCTIONAL_ONLY if platform == "xen" else "") for platform, caveat in reported.items())
        assert "platform" not in (rows[0] if rows else {}) or "caveat" in rows[0], table.name
    facts = {row["fact"]: row for row in csv.DictReader((built.path.parent / "tables" / "equivalence.csv").open())}
    assert (facts["caveat"]["xen"], facts["caveat"]["netns"]) == (FUNCTIONAL_ONLY, "")
    printed = answer_text(built.analysis, 120)
    assert printed.count("xen: functional only") == len(rankings(built.analysis)) > 1
    assert f"† {FUNCTIONAL_ONLY} (xen on nested xen)" in printed


def test_figures_name_the_branded_and_mark_them(
    reports: Callable[[str], ReportResult],
) -> None:
    """The name with its sign, and the legend that says what the sign means."""
    analysis = reports("nested").analysis
    drawn = {name: spec for name, spec in FIGURES.items() if spec.why_not(analysis) is None}
    others = {"scaling", "guests-at-once", "over-vcpus", "isolation", "routers_beside", "listed_rates", "sources"}
    assert set(FIGURES) - set(drawn) == others, "no table of routes, no guests side by side, no list of rates"
    listed = reports("listed rates").analysis
    of_runs = [(name, spec, analysis) for name, spec in drawn.items()]
    of_runs += [(name, FIGURES[name], listed) for name in ("listed_rates", "sources")]
    swept = reports("swept").analysis
    of_runs += [(name, spec, swept) for name, spec in figures_of(swept).items() if name not in FIGURES]
    assert {"bars-1", "curves-stream-threads"} <= {name for name, _, _ in of_runs}
    for name, spec, drawn_from in of_runs:
        svg = render(name, spec, drawn_from).svg
        if name != "consolidation":  # its series are of platforms without a caveat
            assert "xen †" in svg, name
            assert f"† ×  {FUNCTIONAL_ONLY}" in re.sub(r"\s+<", "<", svg), name
    beside = then_and_now_figures(then_and_now(analysis))
    assert list(beside) == ["then-and-now-schlosser2011"]
    for name, spec in beside.items():
        assert "now: xen †" in render(name, spec, analysis).svg, name
    plain = replace(analysis, caveats={}, comparisons=tuple(replace(one, caveat=None) for one in analysis.comparisons))
    for name in ("cost", "forwarding"):
        assert "†" not in render(name, FIGURES[name], plain).svg, name


def test_a_list_of_rates_is_in_mbit_per_second_on_page_and_in_tables(
    reports: Callable[[str], ReportResult],
) -> None:
    built = reports("listed rates")
    text = built.path.read_text(encoding="utf-8")
    assert "Offered against forwarded, in Mbit/s" in text
    assert "Maximum by number of sources" in text
    tables = built.path.parent / "tables"
    rows = list(csv.DictReader((tables / "listed_rates.csv").open(encoding="utf-8", newline="")))
    native = [
        row for row in rows if (row["platform"], row["frame_size_bytes"], row["sources"]) == ("native", "68", "1")
    ]
    assert [row["target_mbit_per_second"] for row in native] == ["10.0", "100.0", "400.0", "1000.0", ""]
    assert [row["flat_out"] for row in native] == ["0", "0", "0", "0", "1"]
    first = native[0]
    assert float(first["offered_mean_mbit_per_second"]) == pytest.approx(10.0, rel=0.01)
    low, high = (float(first[f"forwarded_{end}_mbit_per_second"]) for end in ("low", "high"))
    assert low <= float(first["forwarded_mean_mbit_per_second"]) <= high
    assert {row["caveat"] for row in rows if row["platform"] == "xen"} == {FUNCTIONAL_ONLY}
    bars = list(csv.DictReader((tables / "sources.csv").open(encoding="utf-8", newline="")))
    assert {row["sources"] for row in bars} == {"1", "2", "3"}
    for table in ("listed_rates.csv", "sources.csv"):
        assert not (reports("whole").path.parent / "tables" / table).exists(), "its sweep rises"


def test_the_papers_shares_stand_beside_and_all_claims(reports: Callable[[str], ReportResult]) -> None:
    built = reports("nested")
    text = built.path.read_text(encoding="utf-8").replace("\u00a0", " ")
    assert "Sun Fire X4150" in text
    rows = list(csv.DictReader((built.path.parent / "tables" / "then_and_now.csv").open()))
    small = [row for row in rows if row["source"] == "Tables 2 and 3"]
    assert [(row["paper_platform"], row["platform"], row["stands_for_it_as"]) for row in small] == [
        ("openvz", "netns", "its successor in kind"),
        ("openvz", "runc", "its successor in kind"),
        ("xen", "xen", "the product"),
    ]
    assert [row["caveat"] for row in small] == ["", "", FUNCTIONAL_ONLY]
    assert float(small[2]["paper_share_low"]) == pytest.approx(37.1 / 153.1)
    assert float(small[2]["paper_share_high"]) == pytest.approx(72.0 / 274.9)
    assert "25: no platform of this run stands for KVM" in text
    assert "Every number that the paper prints" in text
    assert "throughput change at most -10 % (frame small, sources 1)" in html.unescape(text)
    claims = list(csv.DictReader((built.path.parent / "tables" / "claims.csv").open()))
    assert len(claims) == 46
    for claim in claims:
        assert claim["says"] in html.unescape(text)
    other = reports("whole").path.read_text(encoding="utf-8")
    assert 'id="then-and-now"' in other  # whatever the experiment names: it forwarded 64 and 1500 bytes
    assert "Every number that the paper prints" not in other
    assert 'id="then-and-now"' not in reports("nothing run").path.read_text(encoding="utf-8")


def test_the_answer_fits_a_terminal(name: str) -> None:
    text = answer_text(analyse(run_data(RUNS[name])))
    assert max(map(cell_len, text.splitlines())) <= 80
    assert "Host:" in text
    if name == "whole":
        assert re.search(r"qemu-tcg-e1000 +[\d.]+ .?frames/s  \d+ times slower, at least \d", text)
        assert re.search(r"^ +1.* native +[\d.]+ .?frames/s  baseline *$", text, re.MULTILINE)
        assert not re.search(r"[=~]", text)


def test_many_workloads_stay_readable() -> None:
    """Twelve sizes of a metric are one phrase of the verdict, and one line each of the terminal's table."""
    analysis = analyse(run_data(RUNS["one block"]))
    task = analysis.tasks[0]
    tasks = tuple(replace(task, size=f"size {number}") for number in range(12))
    platform = analysis.comparisons[0].platform
    some = next(one for one in analysis.comparisons if (one.platform, one.verdict) == (platform, Verdict.UNKNOWN))
    found = replace(
        analysis,
        tasks=tasks,
        comparisons=tuple(replace(some, task=one, share=0.5 + number / 10) for number, one in enumerate(tasks)),
    )
    phrases = next(one for one in platform_words(found) if one.platform == platform).phrases
    known = "2.0 times slower to 1.6 times faster"
    assert phrases == (f"Not known, only one block has both values: {task.metric.title} in 12 sizes ({known})",)
    titled = (replace(one, metric=replace(one.metric, title=f"metric {number}")) for number, one in enumerate(tasks))
    many = replace(
        found, comparisons=tuple(replace(one, task=task) for one, task in zip(found.comparisons, titled, strict=True))
    )
    phrases = next(one for one in platform_words(many) if one.platform == platform).phrases
    lead = "Not known, only one block has both values"
    assert phrases == (f"{lead}: 12 comparisons ({known}), one by one in the table of slowdowns",)
    other = replace(task, workload="another")
    wide = replace(found, tasks=tuple(replace(other, workload=f"another-{number}") for number in range(9)))
    wide = replace(wide, comparisons=tuple(replace(some, task=task) for task in wide.tasks))
    assert len(rankings(wide)) == 9
    assert max(map(cell_len, answer_text(wide).splitlines())) <= 80


@pytest.mark.parametrize("harness_ns", [1_700_000, None])
def test_the_harness_has_a_column_where_it_was_measured(tmp_path: Path, harness_ns: int | None) -> None:
    write(tmp_path, Truth(REALISTIC, weighed=True))
    boots = [json.loads(line) for line in (tmp_path / "boots.jsonl").read_text(encoding="utf-8").splitlines()]
    for boot in boots:
        if boot["platform"] == "runc" and harness_ns is not None:
            boot["executed_monotonic_ns"] = boot["spawn_monotonic_ns"] + harness_ns
    (tmp_path / "boots.jsonl").write_text("".join(json.dumps(boot) + "\n" for boot in boots), encoding="utf-8")
    build_report(tmp_path)
    page = (tmp_path / "report/index.html").read_text(encoding="utf-8")
    with (tmp_path / "report/tables/guests.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    if harness_ns is None:
        assert "arness" not in page
        assert "harness_ns" not in rows[0]
        return
    assert "of it harness" in page
    assert "1.70 ms" in page
    reported = {row["platform"]: row["harness_ns"] for row in rows}
    assert (reported["runc"], reported["native"]) == ("1700000", "")


SOME = next(one for one in analyse(run_data(RUNS["whole"])).comparisons if one.platform == "runc")


def told(verdict: Verdict, share: float, **known: object) -> Comparison:
    """A comparison with these numbers alone."""
    empty = Comparison(SOME.platform, SOME.task, verdict, share=share)
    return replace(empty, **known)  # type: ignore[arg-type]


def test_cpu_time_is_more_or_less_and_not_slower() -> None:
    metric = replace(SOME.task.metric, source="cpu_points")
    task = replace(SOME.task, metric=metric)
    more = replace(told(Verdict.SLOWER, 1 / 26.4, at_least=18.9), task=task)
    less = replace(told(Verdict.FASTER, 1.124, at_least=1.12), task=task)
    assert [words.said(one).text for one in (more, less)] == [
        "26 times more, at least 18",
        "12 % less, at least 12 %",
    ]
    wide = Interval(0.5, 1.5, 0.95, "t")
    unknown = replace(told(Verdict.UNKNOWN, 0.9, simultaneous=wide), platform="netns", task=task)
    found = replace(analyse(run_data(RUNS["whole"])), comparisons=(unknown,))
    (phrase,) = next(one.phrases for one in platform_words(found) if one.platform == "netns")
    assert phrase.endswith("(2.0 times more to 1.5 times less)")


@pytest.mark.parametrize(
    ("comparison", "text", "short"),
    [
        (told(Verdict.SLOWER, 1 / 26.4, at_least=18.9), "26 times slower, at least 18", ("26× slower", "≥18×")),
        (told(Verdict.SLOWER, 1 / 2.34, at_least=1.99), "2.3 times slower, at least 1.9", ("2.3× slower", "≥1.9×")),
        (told(Verdict.SLOWER, 1 / 130.2, at_least=104.0), "130 times slower, at least 100", ("130× slower", "≥100×")),
        (told(Verdict.SLOWER, 1 / 1.124, at_least=1.0489), "12 % slower, at least 4.8 %", ("12% slower", "≥4.8%")),
        (told(Verdict.FASTER, 1.124, at_least=1.12), "12 % faster, at least 12 %", ("12% faster", "≥12%")),
        (told(Verdict.SLOWER, 1 / 1.2, at_least=1.0), "20 % slower, at least a little", ("20% slower", "")),
        (told(Verdict.ALIKE, 0.98, margin=0.1), "alike within 10 %", ("alike", "within 10%")),
        (
            told(Verdict.UNKNOWN, 0.9, simultaneous=Interval(0.664, 1.144, 0.95, "t")),
            "not known (1.6 times slower to 15 % faster)",
            ("not known", "1.6× slower–15% faster"),
        ),
        (
            told(Verdict.UNKNOWN, 0.9, simultaneous=Interval(0.21, 40.2, 0.95, "t")),
            "not known (4.8 times slower to 41 times faster)",
            ("not known", "4.8× slower–41× faster"),
        ),
        (
            told(Verdict.UNKNOWN, 1.0, simultaneous=Interval(1e-300, 1.0004, 0.95, "t")),
            "not known (over 1000 times slower to 1 % faster)",
            ("not known", "over 1000× slower–1% faster"),
        ),
        (
            told(Verdict.UNKNOWN, 0.9),
            "not known (11 % slower in one block)",
            ("not known", "11% slower in one block"),
        ),
        (told(Verdict.UNKNOWN, 0.9, caveat="two lower bounds"), "no verdict (two lower bounds)", ("no verdict", "")),
        (told(Verdict.NOT_MEASURED, 1.0), "not measured", ("–", "")),
        (told(Verdict.FUNCTIONAL, 0.1, caveat=FUNCTIONAL_ONLY), "functional only", ("functional only", "")),
    ],
)
def test_a_verdict_has_the_same_words_everywhere(comparison: Comparison, text: str, short: tuple[str, str]) -> None:
    found = words.said(comparison)
    assert (found.text, (found.short_head, found.short_tail)) == (text, short)


def test_a_bound_is_never_more_than_what_was_shown() -> None:
    """Whatever is printed as 'at least' is rounded down."""
    for number in range(1, 400):
        least = 1.013**number
        bound = words.said(told(Verdict.SLOWER, 1 / (least * 1.6), at_least=least)).tail.removeprefix("at least ")
        assert bound == "a little" or float(bound) <= least + 1e-9


def test_a_detectable_difference_is_a_factor_or_beyond_words() -> None:
    assert [words.smallest(one) for one in (1.004, 1.274, 1.99, 3.52, 48.0, 16_200.0)] == [
        "1.01",
        "1.27",
        "2.0",
        "3.5",
        "48",
        "more than 100",
    ]


def test_what_a_run_can_see_and_its_families_are_sentences() -> None:
    analysis = analyse(run_data(RUNS["rounds"]))
    assert control_line(analysis).startswith("The host against itself (native-again against native): ")
    assert "Do not trust" not in control_line(analysis)
    assert "packet path" in detectable_line(analysis)
    assert "does not mean no difference" in detectable_line(analysis)
    primary = next(task.metric for task in analysis.tasks if task.workload == "forward")
    second = replace(primary, name="cpu_per_frame", primary=False)
    both = (
        Detectable("os-level", primary, 1.14, 1.1, 1.2, 4),
        Detectable("emulated", primary, 1.5, 1.4, 3.0, 4),
        Detectable("os-level", second, 3.5, 2.0, 9.0, 4),
    )
    beside = detectable_line(replace(analysis, detectable=both))
    assert "os-level platforms packet path 1.14; emulated platforms packet path 1.5." in beside
    assert detectable_line(replace(analysis, detectable=both[2:])) == ""
    assert family_line(analysis).startswith(
        "3 blocks of 3 rounds. Verdicts are corrected (Holm) over 20 comparisons of primary metrics."
    )
    assert states_line(analysis) == ""
    task = next(task for task in analysis.tasks if task.workload == "superpi")
    unsteady = replace(analysis, two_states=(TwoStates(task, 1.45, 0.3),))
    assert states_line(unsteady).startswith(
        "The host itself has two speeds in Super Pi 16384 digits (30 % of its trials are about 45 % slower)."
    )
    many = replace(analysis, two_states=tuple(TwoStates(task, 1.1 + n / 10, 0.3) for n in range(9)))
    assert "about 1.9 times slower), " in states_line(many).partition("(30 %")[2]
    assert states_line(many).count(" slower)") == 4
    assert ", and 5 more. No difference" in states_line(many)
    shown = analyse(run_data(RUNS["control differs"]))
    assert control_line(shown).startswith("Do not trust this run: the host differs from itself in ")
    assert re.search(r"Super Pi 16384 digits \((1\.5 times|\d\d %) slower, at least", control_line(shown))


def test_what_is_not_known_comes_with_what_is_possible() -> None:
    analysis = analyse(run_data(RUNS["whole"]))
    own, together = Interval(0.15, 0.25, 0.95, "t"), Interval(0.03, 1.25, 0.95, "t")
    some = told(Verdict.UNKNOWN, 0.2, interval=own, simultaneous=together)
    found = replace(analysis, comparisons=(some,))
    (phrase,) = next(one for one in platform_words(found) if one.platform == some.platform).phrases
    assert phrase == f"Not known: {some.task.metric.title} {some.task.size} (34 times slower to 25 % faster)"
    table = next(table for table in csv_tables(found) if table.name == "comparisons")
    row = dict(zip(table.header, table.rows[-1], strict=True))
    assert (row["verdict"], row["share"], row["low"], row["high"]) == ("not known", 0.2, 0.15, 0.25)
    assert (row["family"], row["at_least"], row["margin"]) == ("primary", None, None)
    assert table.rows[0][table.header.index("family")] == "A/A"


def test_two_lower_bounds_have_no_verdict_and_two_platforms_with_losses_have_one() -> None:
    costs = {"native": {"packet path": 0.4}, "netns": {"packet path": 0.5}, "qemu-tcg": {"packet path": 5.0}}
    analysis = analyse(run_data(Truth(costs, control=None, frame_sizes=(64,))))
    task = next(task for task in analysis.tasks if task.workload == "forward")
    lossless, lossy = analysis.comparison("netns", task), analysis.comparison("qemu-tcg", task)
    assert lossless is not None
    assert lossy is not None
    assert (lossless.verdict, lossless.p_value, lossless.caveat) == (Verdict.UNKNOWN, None, "two lower bounds")
    assert lossy.verdict is Verdict.SLOWER
    assert "netns: no verdict (two lower bounds)" in answer_text(analysis)


def test_the_cost_figure_tells_verdicts_by_the_filling() -> None:
    analysis = analyse(run_data(RUNS["rounds"]))
    svg = render("cost", FIGURES["cost"], analysis).svg
    for meaning in ("slower or faster", "alike within 25 %", "not known", "within 25 % of native"):
        assert f">{meaning}<" in svg, meaning
    assert "Half filled: alike" in FIGURES["cost"].caption(analysis)


def test_a_share_with_its_interval_is_a_factor_and_nothing_where_it_holds_one() -> None:
    assert words.times(0.4, 0.35, 0.45) == "2.5 times slower, at least 2.2"
    assert words.times(1.2, 1.1, 1.3) == "20 % faster, at least 10 %"
    assert words.times(0.9, 0.8, 1.01) == ""
    assert words.times(0.2, 0.0, 0.25) == "5.0 times slower, at least 4.0", "open at one end"


def test_then_and_now_is_drawn_with_the_papers_open_and_the_runs_filled() -> None:
    analysis = analyse(run_data(Truth(REALISTIC)))
    ((name, spec),) = then_and_now_figures(then_and_now(analysis)).items()
    svg = render(name, spec, analysis).svg
    for text in ("Tables 2 and 3", "maximum forwarding rate, 64 B, one source, OpenVZ", "now: netns, successor"):
        assert f">{text}<" in svg, text
    assert "Sun Fire X4150" in spec.caption(analysis)
    assert then_and_now_figures(ThenAndNow()) == {}


def test_a_report_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", RUNS["one platform"])
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="file: is no folder"):
        build_report(folder, tmp_path / "file")
    with pytest.raises(StorageError, match="cannot write the report"):
        build_report(folder, tmp_path / "file" / "below")
    assert (tmp_path / "file").read_text() == ""


def test_each_platform_has_its_own_look() -> None:
    platforms = ["native", "native-again", "netns", "runc", "qemu-tcg-virtio-net", "qemu-tcg-e1000", "a", "b", "c"]
    styles = platform_styles(platforms)
    assert styles["netns"] == KNOWN["netns"]
    looks = [(style.colour, style.marker) for style in styles.values()]
    assert len(set(looks)) == len(looks)
    twenty = list(platform_styles([f"platform {number}" for number in range(20)]).values())
    assert len({(style.colour, style.marker) for style in twenty}) == 20
    assert all(one.marker != other.marker for one, other in itertools.pairwise(twenty))


def test_a_papers_summary_has_a_table_of_its_own(reports: Callable[[str], ReportResult]) -> None:
    report = reports("as a paper")
    page = report.path.read_text(encoding="utf-8")
    assert "As the paper summarised: median, the first repetition dropped" in page
    assert "Camargos et al. 2008 (four repetitions, so of three)" in page
    assert "The trials ran platform after platform" in page
    assert "platforms: OpenVZ (its successors): netns, runc." in page
    rows = list(csv.DictReader(io.StringIO((report.path.parent / "tables" / "paper_summary.csv").read_text())))
    of = {(row["platform"], row["workload"]): row for row in rows}
    assert (of["runc", "masr"]["values"], of["runc", "masr"]["dropped"]) == ("2", "1")
    assert ("netns", "masr") not in of  # one value, and that is dropped: missing, and not zero
    assert float(of["native", "superpi"]["share_of_baseline"]) == 1
    assert {row["summary"] for row in rows} == {"median-drop-first"}
    other = reports("whole")
    assert "As the paper summarised" not in other.path.read_text(encoding="utf-8")
    assert not (other.path.parent / "tables" / "paper_summary.csv").exists()
    assert "order: paper" in answer_text(report.analysis)


def test_a_figure_can_have_a_section_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One file and one line add it: no template names it."""
    spec = replace(FIGURES["cost"], title="Phases of the start", section="Start of the guests")
    monkeypatch.setitem(FIGURES, "start", spec)
    built = build_report(write(tmp_path / "run", RUNS["whole"]))
    page = Page(built.path.read_text(encoding="utf-8"))
    assert {"start-of-the-guests", "figure-start"} <= set(page.ids)
    assert "#start-of-the-guests" in page.links
    assert (built.path.parent / "figures" / "start.svg").is_file()


def test_warm_ups_are_no_planned_trials(tmp_path: Path) -> None:
    """They are in no value, and in no count of what was to give one."""
    folder = write(tmp_path / "run", Truth(REALISTIC))
    document = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    planned = document["plan"]["trials"]
    count = len(planned)
    document["plan"]["trials"] = [{**planned[0], "trial": count, "warm_up": True}, *planned]
    (folder / "manifest.json").write_text(json.dumps(document), encoding="utf-8")
    page = build_report(folder).path.read_text(encoding="utf-8")
    assert f"values from {count} of {count} planned trials" in page


def test_what_should_be_equal_and_is_not_marks_the_comparison(tmp_path: Path) -> None:
    """In the table, the page, the terminal and the file; other platforms are not marked."""
    folder = write(tmp_path / "run", Truth(REALISTIC))
    lines = [json.loads(line) for line in (folder / "boots.jsonl").read_text(encoding="utf-8").splitlines()]
    for line in lines:
        line["mismatches"] = ["CPU quota: none asked, found 0.5"] if line["platform"] == "runc" else []
    (folder / "boots.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    made = build_report(folder)
    assert made.analysis.unlike == {"runc": ("CPU quota",)}
    page = made.path.read_text(encoding="utf-8")
    assert "other CPU quota" in page
    assert "Not equal to native although it should be (runc: CPU quota)" in page
    (table,) = (one for one in csv_tables(made.analysis) if one.name == "comparisons")
    rows = list(csv.DictReader(io.StringIO(table.text())))
    assert {row["platform"] for row in rows if row["unlike_facts"]} == {"runc"}
