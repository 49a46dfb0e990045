"""What a paper takes over as text: tables as Markdown and LaTeX, and the methods. Figures: `test_paper_figures`."""

import re
import tarfile
from dataclasses import replace
from functools import cache

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.support.analyses import with_parts
from tests.support.facts import assert_facts
from tests.support.made_up_run import Made, made_up_run
from tests.support.marked_up import compiles, latex_rows, markdown_rows, shown
from tests.support.report_tables import csv_rows
from tests.support.repository import RECORDED, ROOT
from tests.support.runs_for_papers import RUNS
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll import __version__, units
from virtoll.experiment.topology import FUNCTIONAL_ONLY
from virtoll.report import ReportResult, build_report, words
from virtoll.report.export_tables import export_tables
from virtoll.report.exports import export_texts, exports_of
from virtoll.report.markup import latex_text, markdown_text
from virtoll.report.methods import AUTHORS, methods_of
from virtoll.report.methods_setting import MOST_WORDS, listed
from virtoll.runfolder.conditions import Condition
from virtoll.runfolder.records import State
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.analysis import Analysis, analyse
from virtoll.system.printable import printable

pytestmark = pytest.mark.usefixtures("undrawn")
ODD = r"od|d_p\l{a}t<b>f&o%r$m#~^`*[x]"
TEXTS = RUNS | {
    "one block": Truth(REALISTIC, blocks=1),
    "no baseline": Truth(REALISTIC, baseline=None, control=None),
    "no control": Truth({"native": {}, "runc": {}}, control=None),
    "all failed": Truth(REALISTIC, all_fail=True),
    "interrupted": Truth(REALISTIC, stop_after=30, state="interrupted"),
    "odd name": Truth({"native": {}, "native-again": {}, ODD: {"cpu": 1.5}}),
    "as a paper": Truth(
        REALISTIC | {"qemu-kvm": {}},
        blocks=4,
        rounds=2,
        order="paper",
        summary="median-drop-first",
        unavailable={"qemu-kvm": "/dev/kvm does not exist"},
        failures={("runc", "masr", 0): "failed", ("netns", "masr", 1): "invalid"},
    ),
}


@cache
def texts_of(name: str) -> tuple[Analysis, dict[str, str]]:
    """The analysis of a kind of run, and its texts by path."""
    data = run_data(TEXTS[name])
    if TEXTS[name].state != "complete":
        data = replace(data, state=State("interrupted", None))
    analysis = analyse(data)
    return analysis, dict(export_texts(exports_of(analysis)))


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> ReportResult:
    """The report of a recorded run of containers."""
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(RECORDED / "runs" / "containers.tar.xz") as packed:
        packed.extractall(folder)
    return build_report(folder / "containers", folder / "report")


def test_a_table_has_the_numbers_of_the_csv() -> None:
    """Each comparison's line of the CSV is a row of the Markdown and of the LaTeX: value, share, interval, verdict."""
    analysis, texts = texts_of("plain")
    tasks = {task.label: task for task in analysis.tasks}
    expected = []
    for row in csv_rows(analysis, "comparisons"):
        task = row["label"]
        name = f"{row['platform']} (A/A)" if row["family"] == "A/A" else row["platform"]
        interval = analysis.estimates[row["platform"], tasks[row["label"]]].interval
        value = words.estimate(float(row["platform_value"]), interval, row["unit"])
        expected.append((task, name, value, told_share(row), row["verdict"]))
    found = markdown_rows(texts["tables/cost.md"])
    told = [tuple(row[:4]) for row in found[1:] if row[-1] != "baseline"]
    assert sorted(told) == sorted(one[:4] for one in expected)
    verdicts = {(row[0], row[1]): row[4] for row in found}
    for task, name, *_, verdict in expected:
        assert verdict in verdicts[task, name]
    written = latex_rows(texts["tables/cost.tex"])
    assert [row[:4] for row in written] == [[latex_text(cell) for cell in row[:4]] for row in found[1:]]
    bases = {row[0]: row[2] for row in found if row[-1] == "baseline"}
    native = {task.label: (analysis.cells["native", task], task.metric.unit) for task in analysis.tasks}
    assert bases == {label: units.value(cell.median, unit) for label, (cell, unit) in native.items()}


HEAVY = Condition("heavy")


def paragraphs(analysis: Analysis) -> dict[str, str]:
    """The methods, by topic."""
    return {topic: " ".join(sentences) for topic, sentences in methods_of(analysis).paragraphs}


def told_share(row: dict[str, str]) -> str:
    ends = float(row["low"]), float(row["high"])
    return f"{units.percent_estimate(float(row['share']), ends)} ({words.between(*ends)})"


def isolated() -> Analysis:
    """Two platforms whose guests take twice as long beside a heavy load."""
    measured = [
        Made(label, "superpi", value=value, condition=beside)
        for label in ("native", "netns")
        for value, beside in ((1e9, None), (2e9, HEAVY))
    ]
    return analyse(made_up_run({"native": {}, "netns": {}}, measured, rounds=2))


def test_a_second_metric_of_isolation_is_a_family_of_its_own() -> None:
    analysis = isolated()
    first, second = analysis.isolation.comparisons
    further = replace(second, task=replace(second.task, metric=second.task.metric.replace(primary=False)))
    found = with_parts(analysis, isolation=replace(analysis.isolation, comparisons=(first, further)))
    rows = [row for row in csv_rows(found, "isolation") if row["family"] != "A/A"]
    assert [row["family"] for row in rows] == ["primary", "second"]
    assert [float(row["at_least"]) for row in rows] == [first.at_least, second.at_least]


def test_the_table_of_isolation_has_the_numbers_of_the_csv() -> None:
    analysis = isolated()
    texts = export_texts(exports_of(analysis))
    found = markdown_rows(texts["tables/isolation.md"])[1:]
    (label,) = {task.label for task in analysis.tasks}
    expected = [
        [
            f"{label}, beside {row['condition']}",
            row["platform"],
            units.value(float(row["alone_median"]), row["unit"]),
            told_share(row),
        ]
        for row in csv_rows(analysis, "isolation")
        if row["family"] != "A/A"
    ]
    assert len(expected) == 2
    assert [row[:4] for row in found] == expected
    assert all("slower" in row[4] for row in found)
    assert_facts(texts["tables/isolation.md"], "Holm", analysis.isolation.family)
    assert compiles(texts["tables/isolation.tex"])
    methods = paragraphs(analysis)
    assert_facts(methods["Workloads"], "heavy load, same CPUs")
    assert_facts(methods["Statistics"], "Holm", analysis.isolation.family)


def test_the_table_of_scale_has_the_numbers_of_the_csv() -> None:
    points = [ScalePoint(guests, 1, 256 << 20) for guests in (1, 4)]
    measured = [
        Made(label, "kernel-compile", value=2e9 * slower * point.guests, scale=point)
        for label, slower in (("native", 1.0), ("qemu-tcg", 10.0))
        for point in points
    ]
    analysis = analyse(made_up_run({"native": {}, "qemu-tcg": {}}, measured))
    texts = export_texts(exports_of(analysis))
    assert "tables/cost.md" not in texts
    found = {(row[0].rpartition(", ")[2], row[1]): row[2:] for row in markdown_rows(texts["tables/scale.md"])[1:]}
    for row in csv_rows(analysis, "scale"):
        guests = "1 guest" if row["guests"] == "1" else f"{row['guests']} guests"
        each, together, share, verdict = found[guests, row["platform"]]
        assert each == units.value(float(row["each"]), row["unit"])
        assert together == units.rate(float(row["together"]), row["together_unit"])
        assert share == ("100 %" if row["platform"] == "native" else told_share(row))
        assert row["verdict"] in verdict or verdict == "baseline"
    assert len(found) == 4
    assert compiles(texts["tables/scale.tex"])
    methods = paragraphs(analysis)
    assert_facts(methods["Guests"], "1 guest", "4 guests", "256 MiB")
    assert_facts(methods["Statistics"], "Holm", analysis.at_once.family)


def test_the_table_of_a_papers_summary_has_the_numbers_of_the_csv() -> None:
    analysis, texts = texts_of("swept")
    labels = {(task.workload, task.parameters, task.metric.name): task.label for task in analysis.tasks}
    found = {
        (row[0], row[1].removesuffix(" (A/A)")): row[2:] for row in markdown_rows(texts["tables/paper_summary.md"])
    }
    rows = csv_rows(analysis, "paper_summary")
    assert len(rows) == len(found) - 1
    for row in rows:
        value, spread, rest = found[labels[row["workload"], row["parameters"], row["metric"]], row["platform"]]
        assert value == units.estimate(float(row["centre"]), (float(row["low"]), float(row["high"])), row["unit"])
        assert spread == units.between(float(row["low"]), float(row["high"]), row["unit"])
        assert rest.endswith(f"n = {row['values']}")


def test_a_note_says_what_the_numbers_are() -> None:
    analysis, texts = texts_of("nested")
    for text in (shown(texts["tables/cost.md"]), texts["tables/cost.tex"].replace(r"\,\%", " %")):
        assert_facts(text, "Holm", analysis.family, "95 %", "functional only", "xen", "nested xen")
        assert analysis.data.manifest.run in text
    assert r"xen $\dagger$" in texts["tables/cost.tex"]
    one, medians = (texts_of(run)[1]["tables/cost.md"] for run in ("one block", "no baseline"))
    assert "Holm" not in one
    assert ("Holm" in medians, "verdict |" in medians) == (False, False)
    assert "tables/cost.md" not in texts_of("all failed")[1]
    assert_facts(texts_of("interrupted")[1]["tables/cost.md"], "interrupted")


@pytest.mark.parametrize("run", TEXTS)
def test_tables_and_methods_are_well_formed(run: str) -> None:
    analysis, texts = texts_of(run)
    for name, text in texts.items():
        assert "None" not in text, name
        if name.endswith(".tex"):
            assert compiles(text), name
    for table in export_tables(analysis):
        rows = markdown_rows(texts[f"tables/{table.name}.md"])
        assert {len(row) for row in rows} == {1 + len(table.columns)}
        written = latex_rows(texts[f"tables/{table.name}.tex"])
        assert {len(row) for row in written} == {1 + len(table.columns)}
        assert texts[f"tables/{table.name}.tex"].count(r"\label{tab:virtoll-") == texts[
            f"tables/{table.name}.tex"
        ].count(r"\caption{")


def test_markup_in_a_name_is_text() -> None:
    _, texts = texts_of("odd name")
    assert {row[1] for row in markdown_rows(texts["tables/cost.md"])[1:]} == {"native", "native-again (A/A)", ODD}
    assert r"od\textbar{}d\_p\textbackslash{}l\{a\}t\textless{}b\textgreater{}f\&o\%r\$m\#" in texts["tables/cost.tex"]
    assert ODD in shown(texts["methods.md"])


@given(st.text())
def test_any_text_stands_as_it_is(text: str) -> None:
    line = printable(" ".join(text.split()))
    assert shown(markdown_text(text)).replace("&amp;", "&") == line.replace("&amp;", "&")
    assert compiles(latex_text(text))


def test_units_and_letters_in_latex() -> None:
    assert latex_text("12 % of 64 B at 3.2 kframes/s, −5 ppm (-2 to x-3)") == (
        r"12\,\% of 64\,B at 3.2\,kframes/s, $-$5\,ppm ($-$2 to x-3)"
    )
    assert latex_text("Schuß für 2 x é – 漢") == r"Schu[U+00DF] f\"{u}r 2 x \'{e} -- [U+6F22]"
    assert latex_text("--flag `x` a,,b 26 times") == r"-{}-flag {}`{}x{}`{} a,{},b 26 times"


def test_the_methods_say_host_design_and_versions() -> None:
    analysis, texts = texts_of("plain")
    manifest, methods = analysis.data.manifest, paragraphs(analysis)
    assert_facts(methods["Host"], "Synthetic CPU @ 2.50GHz", "2 CPUs", "24 GiB", "kvm", "CPU 0", "CPU 1")
    assert_facts(methods["Host"], "Debian GNU/Linux 12", "6.1.0-56-amd64", "governor", "turbo", "multithreading")
    assert_facts(methods["Design"], manifest.plan.seed, "3 blocks", len(manifest.plan.trials))
    assert_facts(methods["Statistics"], "Holm's", "5 %", analysis.family, "10 %")
    assert_facts(methods["Instrument"], AUTHORS, "0.1.0", manifest.run)
    assert_facts(methods["Platforms"], *(entry.version or entry.label for entry in manifest.platforms))
    shown_text = shown(texts["methods.md"])
    assert all(text in shown_text for text in methods.values())


def test_the_methods_leave_out_what_is_not_there() -> None:
    one, none, nested, failed, cut = (
        paragraphs(texts_of(run)[0]) for run in ("one block", "no baseline", "nested", "as a paper", "interrupted")
    )
    for text in (one["Statistics"], none["Statistics"]):
        assert not re.search("Bonferroni|Schuirmann|Holm", text)
    assert "A/A" not in none["Deviations and doubts"]
    assert_facts(nested["Deviations and doubts"], FUNCTIONAL_ONLY, "xen")
    assert_facts(nested["Platforms"], "xen", "nested xen")
    assert "randomised" not in failed["Design"]
    assert_facts(failed["Design"], "2 of netns", "2 of runc")
    assert_facts(failed["Platforms"], "qemu-kvm")
    assert_facts(cut["Design"], "interrupted")


def test_a_record_without_a_host_says_so() -> None:
    analysis, _ = texts_of("plain")
    data = analysis.data
    manifest = data.manifest.replace(host={"fingerprint": "ab"}, image=None, agent=None, pinning=None)
    host = paragraphs(replace(analysis, data=replace(data, manifest=manifest)))["Host"]
    assert host.count("not recorded") == 2, "CPU and kernel"
    for absent in ("None", "memory", "hypervisor", "virtual machine", "pinned", "image", "build", "vulnerabilities"):
        assert absent not in host, absent


def test_an_older_record_has_its_tables_and_methods(old: ReportResult) -> None:
    """What its record has not is not said, and its page shows the paragraphs."""
    folder = old.path.parent
    texts = export_texts(exports_of(old.analysis))
    assert {name: (folder / name).read_text(encoding="utf-8") for name in texts} == dict(texts)
    assert {"methods.md", "methods.tex", "tables/cost.md", "tables/cost.tex"} == set(texts)
    methods = paragraphs(old.analysis)
    assert_facts(methods["Host"], "AMD EPYC", "6.18.44-fc-v657", "x86_64")
    assert_facts(methods["Platforms"], "runc 1.1.5+ds1", "netns-cgroup", "limits cgroup")
    for absent in ("tuned", "ticks"):
        assert absent not in methods["Host"]
    assert all(compiles(text) for name, text in texts.items() if name.endswith(".tex"))
    page = old.path.read_text(encoding="utf-8")
    for name in texts:
        assert f'href="{name}"' in page
    for row in markdown_rows(texts["tables/cost.md"])[1:]:
        assert row[2] in page.replace("\u00a0", " ")


def test_the_files_that_the_documentation_names_are_there(old: ReportResult) -> None:
    """Those of its LaTeX, and each name of its table that such a run has."""
    section = (ROOT / "docs" / "results.md").read_text(encoding="utf-8").partition("## What to take into a paper\n")[2]
    section = section.partition("\n## ")[0]
    named = re.findall(r"\\(?:input|includegraphics)\{([^}]+)\}", section)
    assert len(named) == 3
    assert [name for name in named if not (old.path.parents[1] / name).is_file()] == []
    known = {f"tables/{name}" for name in ("cost", "isolation", "scale", "paper_summary")}
    assert {one.removesuffix(".md") for one in re.findall(r"`(tables/[a-z_]+\.md)`", section)} == known


@pytest.mark.parametrize("run", TEXTS)
def test_a_sentence_of_the_methods_is_short(run: str) -> None:
    for topic, sentences in methods_of(texts_of(run)[0]).paragraphs:
        for sentence in sentences:
            assert len(sentence.split()) <= MOST_WORDS, (topic, sentence)
            assert sentence.endswith("."), (topic, sentence)


def test_a_long_list_becomes_several_sentences() -> None:
    items = [f"item{number} of many" for number in range(20)]
    found = list(listed("There were", items, "There were as well"))
    assert len(found) > 2
    assert all(len(sentence.split()) <= MOST_WORDS for sentence in found)
    assert re.findall(r"item\d+ of many", " ".join(found)) == items
    assert list(listed("None", [])) == []


def test_the_citation_is_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert cited["version"] == __version__
    methods = methods_of(analyse(run_data(Truth(REALISTIC))))
    assert re.search(rf"^  version = \{{{re.escape(methods.version)}\}},$", methods.citation, re.MULTILINE)
    assert f'version = "{cited["version"]}"' in project
    assert f'license = "{cited["license"]} AND ' in project  # a wheel carries the agent's libraries too
    assert [one["name"] for one in cited["authors"]] == [AUTHORS]
