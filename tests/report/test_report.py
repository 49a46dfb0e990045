"""The report from every kind of synthetic run: it is made, it is whole, and its numbers are the analysis's."""

import csv
import html
import itertools
import json
import math
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from tests.support.drawings import Blank, drawn_by
from tests.support.facts import assert_facts, refused
from tests.support.report_page import Page, columns_of, page_of, read_page, rows_of, text_of
from tests.support.report_runs import RUNS, analysis_of
from tests.support.report_tables import csv_rows
from tests.support.specifications import complaints
from tests.support.synthetic_run import Truth, write
from tests.support.terminal import answer_text

from virtoll.claims import then_and_now
from virtoll.errors import RunFolderError, StorageError
from virtoll.experiment.topology import FUNCTIONAL_ONLY
from virtoll.report import ReportResult, build_report, words
from virtoll.report.answer import rankings
from virtoll.report.build import load_analysis
from virtoll.report.exports import export_texts, exports_of
from virtoll.report.figures import FIGURES, figures_of
from virtoll.report.figures.style import KNOWN, Width, platform_styles
from virtoll.report.headline import DECIDES_WITHIN, level_class
from virtoll.report.report_input import ReportInput
from virtoll.report.section import Section
from virtoll.report.sections import SECTIONS
from virtoll.report.table import Table, shared
from virtoll.report.tables import csv_tables

DRAWN = ("whole", "nested", "listed rates", "swept", "as a paper", "nothing run")
"""Kinds of runs whose figures are drawn. For the others, what is to be drawn is asserted of its specification."""
Reports = Callable[[str], ReportResult]
SMALL = Truth({"native": {}, "native-again": {}, "runc": {}}, frame_sizes=(64,))
NOT_ON_EVERY_PAGE = {"isolation", "routers_beside", "guests-at-once", "over-vcpus"}
"""Figures whose section a run of one guest has not."""


@pytest.fixture(scope="module", params=RUNS)
def name(request: pytest.FixtureRequest) -> str:
    """Tests of the same run come one after another, so that its report is made once."""
    return str(request.param)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """The report of each kind of run, made at its first use."""
    made: dict[str, ReportResult] = {}

    def report(name: str) -> ReportResult:
        if name not in made:
            with nullcontext() if name in DRAWN else drawn_by(Blank):
                made[name] = build_report(write(tmp_path_factory.mktemp("report") / "run", RUNS[name]))
        return made[name]

    return report


def table(built: ReportResult, name: str) -> list[dict[str, str]]:
    """The rows of one of its files."""
    with (built.path.parent / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_a_report_is_whole_and_loads_nothing(name: str, reports: Reports) -> None:
    built = reports(name)
    text = built.path.read_text(encoding="utf-8")
    page, folder = read_page(text), built.path.parent
    assert page.values("src", "srcset", "data", "poster", "title") == []
    assert page.tags.count("link") == 0
    text = re.sub(r"<script\b.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"@import|url\(\s*['\"]?(?!#)", text)
    assert len(page.ids) == len(set(page.ids))
    assert page.tags.count("h1") == 1
    assert page.tags.count("svg") == len(list((folder / "figures").glob("*.svg")))
    for link in page.values("href"):
        assert link.removeprefix("#") in page.ids if link.startswith("#") else (folder / link).is_file()
    assert "None" not in re.sub(r"<pre>.*?</pre>|<svg.*?</svg>", "", text, flags=re.DOTALL)
    described = [one.get("aria-describedby", "") for one in page.root.iter("svg") if one.get("role") == "img"]
    assert len(described) == page.tags.count("svg")
    assert set(described) <= set(page.ids)


def test_every_figure_is_drawn_and_stands_on_the_page(name: str, reports: Reports) -> None:
    built = reports(name)
    page = read_page(built.path)
    for figure, spec in figures_of(ReportInput(built.analysis)).items():
        file = built.path.parent / "figures" / figure
        drawn = spec.why_not(built.analysis) is None
        assert file.with_suffix(".svg").exists() is drawn
        if drawn:
            assert "<svg" in file.with_suffix(".svg").read_text(encoding="utf-8")
            assert file.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
            assert len(spec.caption(built.analysis)) > 60
        else:
            assert spec.title in page.text, "which figures are missing"
        optional = {"listed_rates", "sources", "scaling", "guests", "consolidation"}
        shown = figure not in NOT_ON_EVERY_PAGE and (drawn or figure not in optional)
        assert (f"figure-{figure}" in page.ids) is shown, figure
    series = figures_of(ReportInput(built.analysis)).keys() - FIGURES.keys()
    assert any(figure.startswith("bars-") for figure in series) is ("paper-summary" in page.ids)
    assert any(figure.startswith("curves-") for figure in series) is ("parameters" in page.ids)


def test_the_converter_takes_every_figure(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    analysis = analysis_of(name)
    for figure, spec in figures_of(ReportInput(analysis)).items():
        if name not in DRAWN and spec.why_not(analysis) is None:
            narrow = spec.in_a_column(analysis) or spec.stacks
            for width in (Width.PAGE, Width.COLUMN)[: 1 + narrow]:
                assert complaints(spec.draw(analysis, width), capfd) == [], (figure, width)


MISSING = {
    "trials": {"interrupted", "nothing run"},
    "values": {"all failed", "nothing run"},
    "comparisons": {"no baseline", "all failed", "nothing run", "one platform"},
    "trust": {"control differs", "as a paper"},
    "/dev/kvm does not exist": {"troubled"},
    "process ended during": {"troubled", "as a paper", "all failed"},
}


def missing_from(page: Page) -> set[str]:
    """What the page says is missing; of a whole run's page nothing."""
    verdict = page.part("verdict")
    found = {
        "trials": "virtoll resume" in text_of(verdict),
        "values": any(one.find("a[@href='#trials']") is not None for one in page.of_class("note", "bad")),
        "comparisons": not page.of_class("cost"),
        "trust": any("alarm" in one.get("class", "") for one in verdict),
        "/dev/kvm does not exist": "/dev/kvm does not exist on <this> host" in page.text,
        "process ended during": "the guest's process ended during the job" in page.text,
    }
    return {what for what, stated in found.items() if stated}


def test_what_is_missing_is_said_where_it_is_missing(name: str, reports: Reports) -> None:
    assert missing_from(read_page(reports(name).path)) == {what for what, runs in MISSING.items() if name in runs}


def test_a_long_reason_is_short_in_the_answer_and_whole_below(tmp_path: Path) -> None:
    reason = f"no guest boots with kvm here: qemu-system-x86_64: kvm.c:3183: {20 * 'Assertion '}failed"
    truth = Truth({"native": {}, "runc": {}, "qemu-kvm": {}}, control=None, unavailable={"qemu-kvm": reason})
    page = page_of(load_analysis(write(tmp_path / "run", truth)))
    verdict = list(page.part("verdict"))
    ranking = next(place for place, one in enumerate(verdict) if one.find("table[@class='ranking']") is not None)
    below = verdict[ranking + 1]
    assert_facts(text_of(below), "qemu-kvm", "qemu-system-x86_64")
    assert reason not in text_of(below)
    assert [one.get("href") for one in below.iter("a")] == ["#trials"]
    assert reason in page.text_at("trials")


def test_the_same_run_gives_the_same_bytes(reports: Reports, tmp_path: Path) -> None:
    one = reports("whole")
    two = build_report(one.path.parents[1], tmp_path / "two")
    source = ReportInput(one.analysis, one.ledger)
    specs = figures_of(source)
    drawn = sum(spec.why_not(one.analysis) is None for spec in specs.values())
    files = sorted(path.relative_to(two.path.parent) for path in two.path.parent.rglob("*") if path.is_file())
    tables, texts = csv_tables(source), export_texts(exports_of(one.analysis))
    assert len(files) == 2 + 2 * drawn + len(list(tables)) + len(texts), "the page, its list of files, figures, tables"
    for file in files:
        assert (one.path.parent / file).read_bytes() == (two.path.parent / file).read_bytes(), file


def test_the_pages_numbers_are_those_of_the_analysis(reports: Reports) -> None:
    built = reports("whole")
    page = read_page(built.path)
    (cost,) = page.of_class("cost")
    head, *rows = rows_of(cost)
    cells = {(row[0], label.split()[0]): cell for row in rows for label, cell in zip(head, row, strict=True)}
    for one in built.analysis.comparisons:
        assert one.share is not None
        assert one.interval is not None
        assert words.said(one).head in cells[one.task.label, one.platform]
        assert words.share(one.share, one.interval) in cells[one.task.label, one.platform]
    for found in built.analysis.detectable:
        assert words.smallest(found.factor) in page.text_at("method")
    assert_facts(page.text, "image tools package fio", "3.33-3")
    assert "zlib1g" not in page.text
    trials = table(built, "cells")
    assert len(trials) == len(built.analysis.data.trials)
    values = {(int(row["trial"]), row["metric"]): float(row["value"]) for row in trials}
    for observation in built.analysis.observations:
        assert values[observation.trial, observation.task.metric.name] == observation.value
    for row in table(built, "points"):
        assert int(row["offered_frames"]) == int(row["forwarded_frames"]) + int(row["lost_frames"])


def test_why_a_verdict_is_as_it_is_is_text(reports: Reports) -> None:
    built = reports("troubled")
    reasons = {one.reason for one in built.analysis.comparisons if one.share is not None}
    assert len(reasons) > 2
    text = read_page(built.path).text_at("cost")
    assert {one for one in reasons if " ".join(one.split()) not in text} == set()


@pytest.mark.parametrize("run", ["rounds", "control differs", "one block"])
def test_the_noise_is_green_where_the_run_can_decide(run: str, reports: Reports) -> None:
    built = reports(run)
    page = read_page(built.path)
    noise = page.part("noise")
    largest = max((one.factor for one in built.analysis.detectable if one.metric.primary), default=math.inf)
    good = largest <= DECIDES_WITHIN and not built.analysis.alarms
    assert noise.get("class", "").split() == ["note", "good"][: 1 + good]
    if largest < math.inf:
        assert_facts(text_of(noise), f"{DECIDES_WITHIN:g}")
    order = [one.get("id") or one.get("class") for one in page.root.iter()]
    assert run == "one block" or order.index("ranking") < order.index("noise")


def test_a_brand_is_in_every_table_figure_and_verdict(reports: Reports) -> None:
    built = reports("nested")
    page = read_page(built.path)
    (note,) = page.of_class("note", "caveat")
    assert_facts(text_of(note), "†", FUNCTIONAL_ONLY, "xen", "nested xen")
    (verdicts,) = page.of_class("verdicts")
    of_xen = next(text for name, text in itertools.pairwise(map(text_of, verdicts)) if name.startswith("xen"))
    assert_facts(of_xen, "functional only", "21")
    for file in (built.path.parent / "tables").glob("*.csv"):
        rows = table(built, file.stem)
        reported = {row["platform"]: row["caveat"] for row in rows if "platform" in row}
        assert all(caveat == (FUNCTIONAL_ONLY if platform == "xen" else "") for platform, caveat in reported.items())
        assert "platform" not in (rows[0] if rows else {}) or "caveat" in rows[0], file.name
    facts = {row["fact"]: row for row in table(built, "equivalence")}
    assert (facts["caveat"]["xen"], facts["caveat"]["netns"]) == (FUNCTIONAL_ONLY, "")
    printed = answer_text(built.analysis, 120)
    assert printed.count("xen: functional only") == len(rankings(built.analysis)) > 1
    assert_facts(printed, f"† {FUNCTIONAL_ONLY}", "nested xen")


def drawn(built: ReportResult) -> dict[str, str]:
    """The files of its figures, by name."""
    files = (built.path.parent / "figures").glob("*.svg")
    return {file.stem: file.read_text(encoding="utf-8") for file in files}


def test_figures_name_the_branded_and_mark_them(reports: Reports) -> None:
    """The name with its sign, and the legend that says what the sign means."""
    nested, listed, swept = (drawn(reports(run)) for run in ("nested", "listed rates", "swept"))
    others = {"scaling", "guests-at-once", "over-vcpus", "isolation", "routers_beside", "listed_rates", "sources"}
    assert set(FIGURES) - set(nested) == others, "no table of routes, no guests side by side, no list of rates"
    (beside,) = nested.keys() - FIGURES.keys()
    assert beside == "then-and-now-schlosser2011"
    assert "now: xen †" in nested.pop(beside)
    of_runs = nested | {name: listed[name] for name in ("listed_rates", "sources")}
    of_runs |= {name: svg for name, svg in swept.items() if name in ("bars-1", "curves-stream-threads")}
    assert len(of_runs) == len(nested) + 4
    del of_runs["consolidation"]  # its series are of platforms without a caveat
    for name, svg in of_runs.items():
        assert "xen †" in svg, name
        assert f"† ×  {FUNCTIONAL_ONLY}" in re.sub(r"\s+<", "<", svg), name
    plain = drawn(reports("whole"))
    assert [name for name, svg in plain.items() if "†" in svg] == []


def test_a_list_of_rates_is_in_mbit_per_second_on_page_and_in_tables(reports: Reports) -> None:
    built = reports("listed rates")
    page = read_page(built.path)
    for figure in ("listed_rates", "sources"):
        assert "Mbit/s" in page.text_at(f"figure-{figure}")
    rows = table(built, "listed_rates")
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
    assert {row["sources"] for row in table(built, "sources")} == {"1", "2", "3"}
    for name in ("listed_rates.csv", "sources.csv"):
        assert not (reports("whole").path.parent / "tables" / name).exists(), "its sweep rises"


def test_the_papers_shares_stand_beside_and_all_claims(reports: Reports) -> None:
    built = reports("nested")
    page = read_page(built.path)
    small = [row for row in table(built, "then_and_now") if row["source"] == "Tables 2 and 3"]
    assert [(row["paper_platform"], row["platform"], row["stands_for_it_as"]) for row in small] == [
        ("openvz", "netns", "its successor in kind"),
        ("openvz", "runc", "its successor in kind"),
        ("xen", "xen", "the product"),
    ]
    assert [row["caveat"] for row in small] == ["", "", FUNCTIONAL_ONLY]
    assert float(small[2]["paper_share_low"]) == pytest.approx(37.1 / 153.1)
    assert float(small[2]["paper_share_high"]) == pytest.approx(72.0 / 274.9)
    section = page.part("then-and-now")
    assert_facts(text_of(section), "Sun Fire X4150", "-10 %", "frame small", "sources 1")
    assert any({"25:", "KVM"} <= set(text_of(one).split()) for one in section.iter("li"))
    claims = table(built, "claims")
    assert len(claims) == 58
    for claim in claims:
        assert " ".join(claim["says"].split()) in page.text_at("claims")


@pytest.mark.parametrize("kind", ["whole", "nothing run"])
def test_a_run_whose_experiment_names_no_study_says_nothing_of_papers(reports: Reports, kind: str) -> None:
    """It forwarded as the papers did, and nobody asked."""
    built = reports(kind)
    page = read_page(built.path)
    assert not {"then-and-now", "claims"}.intersection(page.ids)
    assert built.ledger == ()
    assert not [table.name for table in built.path.parent.glob("tables/*") if "claims" in table.name]
    assert not (built.path.parent / "tables" / "then_and_now.csv").exists()


def test_each_reading_of_the_host_is_marked_by_its_level() -> None:
    analysis = analysis_of("whole")
    table = next(page_of(analysis).part("host").iter("table"))
    cells = [row[-1] for row in table.iter("tr") if row[-1].tag == "td"]
    levels = [finding.level for finding in analysis.fitness.findings]
    assert len(cells) == len(levels) > 3
    for cell, level in zip(cells, levels, strict=True):
        assert cell.get("class") == ("missing" if level is None else level_class(level))
        assert text_of(cell) == ("–" if level is None else str(level))


def test_the_answer_fits_a_terminal(name: str) -> None:
    text = answer_text(analysis_of(name))
    assert max(map(cell_len, text.splitlines())) <= 80
    assert_facts(text, str(analysis_of(name).fitness.level))
    if name == "whole":
        native, slow = (re.findall(rf"^.*\b{one} .*$", text, re.MULTILINE) for one in ("native", "qemu-tcg-e1000"))
        assert any("frames/s" in line and "baseline" in line for line in native)
        assert any(re.search(r"frames/s .*\d+ .*\d", line) and "slower" in line for line in slow)
        assert not re.search(r"[=~]", text)


@pytest.mark.parametrize("harness_ns", [1_700_000, None])
def test_the_harness_has_a_column_where_it_was_measured(tmp_path: Path, harness_ns: int | None) -> None:
    write(tmp_path, replace(SMALL, weighed=True))
    boots = [json.loads(line) for line in (tmp_path / "boots.jsonl").read_text(encoding="utf-8").splitlines()]
    for boot in boots:
        if boot["platform"] == "runc" and harness_ns is not None:
            boot["executed_monotonic_ns"] = boot["spawn_monotonic_ns"] + harness_ns
    (tmp_path / "boots.jsonl").write_text("".join(json.dumps(boot) + "\n" for boot in boots), encoding="utf-8")
    analysis = load_analysis(tmp_path)
    shown = next(page_of(analysis).part("guests").iter("table"))
    rows = csv_rows(analysis, "guests")
    if harness_ns is None:
        assert "harness" not in text_of(shown)
        assert "harness_ns" not in rows[0]
        return
    (of_runc,) = (cell for platform, cell in columns_of(shown, "platform", "of it harness") if platform == "runc")
    assert_facts(of_runc, "1.70 ms")
    assert {row["platform"]: row["harness_ns"] for row in rows} == {"native": "", "native-again": "", "runc": "1700000"}


def test_a_report_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", RUNS["one platform"])
    (tmp_path / "file").write_text("")
    with refused(tmp_path / "file", error=RunFolderError):
        build_report(folder, tmp_path / "file")
    with refused(tmp_path / "file" / "below", error=StorageError):
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


def test_a_papers_summary_has_a_table_of_its_own(reports: Reports) -> None:
    report, other = reports("as a paper"), reports("whole")
    page = read_page(report.path)
    assert_facts(page.text_at("paper-summary"), "median", "Camargos et al. 2008")
    (order,) = page.of_class("alarm")
    assert_facts(text_of(order), "order: paper")
    assert_facts(page.text, "OpenVZ", "netns, runc")
    rows = table(report, "paper_summary")
    of = {(row["platform"], row["workload"]): row for row in rows}
    assert (of["runc", "masr"]["values"], of["runc", "masr"]["dropped"]) == ("2", "1")
    assert ("netns", "masr") not in of  # one value, and that is dropped: missing, and not zero
    assert float(of["native", "superpi"]["share_of_baseline"]) == 1
    (summary,) = page.part("paper-summary").iter("table")
    for native, runc in columns_of(summary, "native", "runc"):
        assert (native.count("%"), runc.count("%")) == (0, 1), "a share, of all but what it is a share of"
    assert {row["summary"] for row in rows} == {"median-drop-first"}
    assert "paper-summary" not in read_page(other.path).ids
    assert not (other.path.parent / "tables" / "paper_summary.csv").exists()
    assert_facts(answer_text(report.analysis), "order: paper")


def test_a_section_is_added_by_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It brings its table and figure; without a template of its own the figure stands under its title."""
    figure = replace(FIGURES["cost"], title="Phases of the start")
    table = Table[str](
        "starts", "a platform", lambda source: source.analysis.platforms, (shared("platform", lambda label: label),)
    )
    section = Section("start", lambda _: {}, title="Start of the guests", tables=(table,), figures={"start": figure})
    for module in ("page", "tables", "figures"):
        monkeypatch.setattr(f"virtoll.report.{module}.SECTIONS", (*SECTIONS, section))
    built = build_report(write(tmp_path / "run", SMALL))
    page = read_page(built.path)
    assert {"start", "figure-start"} <= set(page.ids)
    assert "#start" in page.values("href")
    assert (built.path.parent / "figures" / "start.svg").is_file()
    assert (built.path.parent / "tables" / "starts.csv").read_text().split() == ["platform", *SMALL.costs]


def test_warm_ups_are_no_planned_trials(tmp_path: Path) -> None:
    """They are in no value, and in no count of what was to give one."""
    folder = write(tmp_path / "run", SMALL)
    document = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    planned = document["plan"]["trials"]
    count = len(planned)
    document["plan"]["trials"] = [{**planned[0], "trial": count, "warm_up": True}, *planned]
    (folder / "manifest.json").write_text(json.dumps(document), encoding="utf-8")
    header = text_of(next(page_of(load_analysis(folder)).root.iter("header")))
    assert_facts(header, f"{count} of {count}")
    assert str(count + 1) not in header.split()


def test_what_should_be_equal_and_is_not_marks_the_comparison(tmp_path: Path) -> None:
    """In the table, the page, the terminal and the file; other platforms are not marked."""
    folder = write(tmp_path / "run", SMALL)
    lines = [json.loads(line) for line in (folder / "boots.jsonl").read_text(encoding="utf-8").splitlines()]
    for line in lines:
        line["mismatches"] = ["CPU quota: none asked, found 0.5"] if line["platform"] == "runc" else []
    (folder / "boots.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    analysis = load_analysis(folder)
    assert analysis.unlike == {"runc": ("CPU quota",)}
    page = page_of(analysis)
    (cost,) = page.of_class("cost")
    for runc, again in columns_of(cost, "runc", "native-again"):
        assert ("CPU quota" in runc, "CPU quota" in again) == (True, False)
    assert any({"runc:", "CPU", "quota"} <= set(re.findall(r"[\w:]+", text_of(one))) for one in page.part("verdict"))
    assert {row["platform"] for row in csv_rows(analysis, "comparisons") if row["unlike_facts"]} == {"runc"}


def test_then_and_now_is_drawn_with_the_papers_open_and_the_runs_filled(reports: Reports) -> None:
    analysis = reports("nested").analysis
    figures = figures_of(ReportInput(analysis, then_and_now=then_and_now(analysis)))
    (name,) = figures.keys() - figures_of(ReportInput(analysis)).keys()
    svg = html.unescape(drawn(reports("nested"))[name])
    shown = " ".join(re.findall(r"<(?:text|tspan)[^>]*>([^<]*)", svg))
    assert_facts(shown, "Tables 2 and 3", "maximum forwarding rate", "OpenVZ", "now: netns")
    assert_facts(figures[name].caption(analysis), "Sun Fire X4150")
