"""A run for other programs: each format is read back by its own grammar, and has the analysis's numbers."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tests.support.facts import assert_facts
from tests.support.repository import ROOT
from tests.support.synthetic_run import Truth, run_data

from virtoll.advise.gate import judge_gate, parse_threshold
from virtoll.api.needs import known_workloads
from virtoll.report import GateView
from virtoll.report.exchange import FORMATS, Exchanged
from virtoll.report.exchange.values import one_line, results_of, values_of
from virtoll.report.gate import gate_view
from virtoll.report.headline import host_line
from virtoll.stats.analysis import Analysis, analyse
from virtoll.system.printable import printable

ODD = 'od|d<b>&"q"\\x\x1b[31m @me #1'
MISSING = "/dev/kvm does not exist"
# Elements of junit-10.xsd (jenkinsci/xunit-plugin): attributes that must be there, those that may, and what is inside.
JUNIT = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": (
        {"name"},
        {"time", "classname", "group"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    **{name: (set(), {"type", "message"}, set()) for name in ("skipped", "error", "failure")},
    "system-out": (set(), set(), set()),
}


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    """Twice as slow under a name that is hard to write, and one platform that this host has not."""
    costs = {"native": {}, "native-again": {}, ODD: {"cpu": 2.0}, "qemu-kvm": {}}
    return analyse(run_data(Truth(costs, blocks=4, unavailable={"qemu-kvm": MISSING})))


def gate(analysis: Analysis, *texts: str) -> GateView:
    known = known_workloads()
    return gate_view(judge_gate(analysis, [parse_threshold(one, known) for one in texts]))


def parsed(text: str) -> ET.Element:
    """The document, whose elements and attributes are JUnit's."""
    root = ET.fromstring(text)
    for one in root.iter():
        needed, allowed, inside = JUNIT[one.tag]
        assert needed <= one.attrib.keys() <= needed | allowed, one.tag
        assert {child.tag for child in one} <= inside, one.tag
    for counted in (root, root[0]):
        assert int(counted.get("tests", "")) == len(root.findall(".//testcase"))
        assert int(counted.get("failures", "")) == len(root.findall(".//failure"))
        assert int(counted.get("errors", "")) == len(root.findall(".//error"))
    assert int(root[0].get("skipped", "")) == len(root.findall(".//skipped"))
    return root


def families_of(text: str) -> dict[str, Metric]:
    """By name, as Prometheus' own reader has them; it refuses what is no OpenMetrics."""
    return {one.name: one for one in text_string_to_metric_families(text)}  # type: ignore[no-untyped-call]


def steers(text: str) -> bool:
    return any(unicodedata.category(one)[0] == "C" for one in text if one != "\n")


def test_without_thresholds_each_metric_is_a_test_case(analysis: Analysis) -> None:
    root = parsed(FORMATS["junit"](Exchanged(analysis)))
    cases = {(one.get("classname"), one.get("name")): one for one in root.iter("testcase")}
    assert len(cases) == len(values_of(analysis))
    skipped = {key: one.find("skipped") for key, one in cases.items() if one.find("skipped") is not None}
    assert {platform for platform, _ in skipped} == {"qemu-kvm"}
    assert all(one is not None and MISSING in one.get("message", "") for one in skipped.values())
    assert {platform for platform, _ in cases} == {"native", "native-again", one_line(ODD), "qemu-kvm"}


def test_each_check_is_a_test_case(analysis: Analysis) -> None:
    found = gate(analysis, "*:superpi slowdown<1.5x", "native:superpi slowdown<9x", "native:superpi duration<100s")
    assert [one.outcome for one in found.checks] == ["missed", "cannot tell", "cannot tell", "met"]
    root = parsed(FORMATS["junit"](Exchanged(analysis, found)))
    inside = [[child.tag for child in one] for one in root.iter("testcase")]
    assert inside == [[], ["failure"], ["error"], ["error"], ["system-out"]]
    (message,) = (one.get("message", "") for one in root.iter("failure"))
    assert_facts(message, "missed")
    allowed = parsed(FORMATS["junit"](Exchanged(analysis, found, skip_unknown=True)))
    assert (len(allowed.findall(".//skipped")), len(allowed.findall(".//error"))) == (2, 0)


def test_a_comment_has_question_thresholds_ranking_and_host(analysis: Analysis) -> None:
    text = FORMATS["markdown"](Exchanged(analysis, gate(analysis, "*:superpi slowdown<1.5x")))
    assert_facts(text, "missed")
    assert str(analysis.data.manifest.experiment["question"]).split("?")[0] in text
    assert host_line(analysis).split(":")[0] in text
    rows = [re.split(r"(?<!\\)\|", line) for line in text.splitlines() if line.startswith("|")]
    assert {len(row) for row in rows} == {6, 7}  # of thresholds four cells, of the ranking five
    assert "<b>" not in text
    assert "@" not in text
    assert not steers(text)
    assert re.search(r"\| [0-9.]+ m?s \| [0-9.]+ times", text)


def test_medians_for_benchmark_services(analysis: Analysis) -> None:
    made = {name: json.loads(FORMATS[name](Exchanged(analysis))) for name in FORMATS if name.startswith("github")}
    smaller, bigger = made["github-action-benchmark-smaller"], made["github-action-benchmark-bigger"]
    told = {one["name"]: one["value"] for one in (*smaller, *bigger)}
    assert len(told) == len(smaller) + len(bigger)
    assert told == {one.name: cell.median for one, cell in results_of(analysis)}
    assert smaller
    assert bigger
    assert {one["unit"] for one in smaller} == {"ns"}
    assert not any("kvm" in name or steers(name) for name in told)
    measures = json.loads(FORMATS["bencher"](Exchanged(analysis)))
    assert sum(map(len, measures.values())) == len(told)
    assert max(map(len, measures)) <= 1024
    for found in measures.values():
        for name, one in found.items():
            assert len(name) <= 64
            assert one.get("lower_value", 0) <= one["value"] <= one.get("upper_value", one["value"])


def test_openmetrics_are_gauges_in_base_units(analysis: Analysis) -> None:
    text = FORMATS["openmetrics"](Exchanged(analysis))
    families = families_of(text)
    assert {one.type for one in families.values()} == {"gauge"}
    assert all(one.name.endswith(f"_{one.unit}") for one in families.values())
    seconds = {
        (one.labels["platform"], one.labels["workload"], one.labels["parameters"]): one.value
        for one in families["virtoll_duration_seconds"].samples
    }
    durations = {
        (printable(one.platform), one.task.workload, one.task.parameters): cell.median * 1e-9
        for one, cell in results_of(analysis)
        if one.task.metric.name == "duration"
    }
    assert seconds == durations
    (name,) = {platform for platform, _, _ in seconds} - {"native", "native-again"}
    assert name == printable(ODD)
    low, high = (families[f"virtoll_duration_{end}_seconds"].samples for end in ("low", "high"))
    assert len(low) == len(high) == len(seconds)


def test_where_nothing_was_measured_nothing_is_zero() -> None:
    nothing = Exchanged(analyse(run_data(Truth({"native": {}, "runc": {}}, control=None, all_fail=True))))
    assert json.loads(FORMATS["bencher"](nothing)) == {}
    assert list(families_of(FORMATS["openmetrics"](nothing))) == ["virtoll_run_begun_timestamp_seconds"]
    root = parsed(FORMATS["junit"](nothing))
    assert len(root.findall(".//skipped")) == len(root.findall(".//testcase")) > 0
    assert "|" not in FORMATS["markdown"](nothing), "no ranking"


def test_the_page_of_gates_has_every_format() -> None:
    text = (Path(ROOT) / "docs" / "gate.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z-]+)` \| ", text, re.MULTILINE) == list(FORMATS)
