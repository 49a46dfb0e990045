"""A merged run is analysed by its hosts: each counts once, and one that differs from the others is flagged."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support.campaign_parts import changed, changed_lines, merged
from tests.support.facts import Command, assert_facts

from virtoll.report import load_analysis, report_document
from virtoll.report.answer import notes
from virtoll.report.headline import host_words
from virtoll.report.methods import methods_of
from virtoll.report.page import render_page
from virtoll.report.report_input import ReportInput
from virtoll.report.tables import TABLES, csv_tables
from virtoll.runfolder.store import RunFolder


def slower(_: int, trial: dict[str, Any]) -> None:
    """What the platform 'slow' took for Super Pi, 1.3 times as long."""
    if (trial["platform"], trial["workload"]) == ("slow", "superpi"):
        marks = trial["clock"]["marks"]
        marks["end_ns"] = int(marks["start_ns"] + (marks["end_ns"] - marks["start_ns"]) * 1.3)


@pytest.fixture(scope="module")
def several(campaign: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same campaign by six hosts, of which the fourth has a slower 'slow'."""
    parts = Path(shutil.copytree(campaign, tmp_path_factory.mktemp("several") / "parts"))
    for path in sorted(parts.iterdir()):
        first = RunFolder.open(path).manifest.plan.trials[0].block
        changed(path, {"fingerprint": f"{first % 6}" * 64})
        if first % 6 == 3:
            changed_lines(path, "trials.jsonl", slower)
    return merged(parts).folder


def test_a_merged_run_is_read_with_the_state_of_each_host(parts: Path) -> None:
    """What one host's counter is beyond another's is no growth."""

    def swapped(_: int, record: dict[str, Any]) -> None:
        record["swap_in_pages"] = (record["swap_in_pages"] or 0) + 10**9

    changed_lines(parts / "block-2", "fitness.jsonl", swapped)
    changed(parts / "block-2", {"fingerprint": "e" * 64})
    fitness = load_analysis(merged(parts).folder).fitness
    swap = next(one.value for one in fitness.findings if one.threshold.name == "swap")
    assert swap is None or swap < 10**8


def test_the_host_is_a_level_of_the_analysis(several: Path) -> None:
    analysis = load_analysis(several)
    found = analysis.across_hosts
    assert [host.name for host in found.hosts] == [f"host-{number}" for number in range(1, 7)]
    assert found.hosts[3].blocks == (3, 9, 15, 21)
    assert {(one.host, one.platform, one.task.workload) for one in found.flagged} == {("host-4", "slow", "superpi")}
    assert found.flagged[0].factor == pytest.approx(1 / 1.3, rel=0.05)
    one = next(one for one in analysis.comparisons if one.task.workload == "superpi")
    assert (len(one.pairs), len(one.hosts), str(one.verdict)) == (24, 6, "slower")
    assert one.interval is not None
    assert one.interval.high - one.interval.low > 0.04, "wider than 24 blocks of one host would have it"
    remedy = Command("virtoll campaign merge --without-host host-4")
    assert_facts(" ".join(notes(analysis)), "6 hosts", "host-4", "slow", "Super Pi 1000", remedy)
    assert analysis.drift is None, "hosts measure at the same time: there is no trend over a run"
    assert not analysis.extendable


def test_page_tables_and_methods_have_the_hosts(several: Path) -> None:
    analysis = load_analysis(several)
    page = render_page(ReportInput(analysis), {}).replace("\u00a0", " ")
    section = page.partition('id="hosts-title"')[2].partition("</section>")[0]
    assert all(f'<th scope="row">host-{number}</th>' in section for number in range(1, 7))
    assert "4, 10, 16, 22" in section
    assert '<td class="text wrap warn">slow' in section
    tables = {table.name: table.records() for table in csv_tables(ReportInput(analysis))}
    (flagged,) = (row for row in tables["hosts"] if row["stands_out"])
    assert (flagged["host"], flagged["platform"], flagged["blocks"]) == ("host-4", "slow", 4)
    others = [abs(math.log(row["factor"])) for row in tables["hosts"] if row is not flagged]
    assert abs(math.log(flagged["factor"])) > 2 * max(others)
    assert len(tables["host_variation"]) == sum(one.task.metric.primary for one in analysis.comparisons)
    for name in ("hosts", "host_variation"):
        assert [one.name for one in TABLES[name].columns] == list(tables[name][0])
    document = report_document(analysis, (), several, several / "index.html", ())
    assert [one["blocks"] for one in document["run"]["hosts"]][3] == [4, 10, 16, 22]
    assert document["hosts"] == tables["hosts"]
    assert document["run"]["merged"]["missing"] == []
    json.dumps(document)
    assert_facts(host_words(analysis), 6)
    methods = " ".join(sentence for _, said in methods_of(analysis).paragraphs for sentence in said)
    assert_facts(methods, "6 hosts", "host-4", "Super Pi 1000")


def test_a_run_of_one_host_has_no_table_of_hosts(parts: Path) -> None:
    analysis = load_analysis(merged(parts).folder)
    assert not {"hosts", "host_variation"} & {table.name for table in csv_tables(ReportInput(analysis))}
    assert not analysis.across_hosts.variations
    page = render_page(ReportInput(analysis), {})
    assert 'id="hosts-title"' in page, "the run was merged of parts"
    alone = load_analysis(parts / "block-1")
    assert 'id="hosts-title"' not in render_page(ReportInput(alone), {})
