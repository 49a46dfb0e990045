"""A study reproduced from made-up runs: the joined ledger, runs that do not fit together, and the one page of all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.drawings import files, rendered, smallest_points
from tests.support.facts import assert_facts, missing_facts, refused
from tests.support.made_up_run import Made, made_up_run
from tests.support.report_page import Page, read_page, text_of
from tests.support.specifications import data_of, fields_without_data, legend_of, panels_of, unknown_keys

from virtoll.claims import Outcome
from virtoll.claims.joined import Joined, Ledger, join_ledgers
from virtoll.experiment.parse import presets
from virtoll.experiment.topology import FUNCTIONAL_ONLY
from virtoll.reference.published import load_study, study_names
from virtoll.report.drawing import Drawing
from virtoll.report.figures.style import SMALLEST_POINTS, Width
from virtoll.report.reproduction import named, run_of, together
from virtoll.report.reproduction_page import (
    cautions,
    drawings_of,
    render_reproduction,
    reproduction_document,
    reproduction_lines,
)
from virtoll.report.reproduction_runs import Reproduction, RunOf
from virtoll.report.reproduction_tables import reproduction_tables
from virtoll.runfolder.records import State
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.analysis import RunData, analyse

BASE: dict[str, dict[str, Any]] = {"native": {}, "native-again": {}}
STUDY = load_study("schlosser2011")


def forwards(rates: Mapping[str, float], frame: int = 1504, **changed: Any) -> RunData:
    """A run in which each platform forwards so many frames/s from one source, up to a link of 1 Gbit/s."""
    swept = {"frame_size_bytes": frame, "sweep": "rates", "rates_mbit_per_second": [10, 50, 100, 1000]}
    measured = [Made(label, "forward", swept, value=rate, flat_out=rate * 0.99) for label, rate in rates.items()]
    experiment = {"name": "schlosser2011", "study": "schlosser2011", **changed}
    return made_up_run(BASE | {label: {} for label in rates}, measured, calibrated_rate=1e7, experiment=experiment)


def run(name: str, data: RunData) -> RunOf:
    return run_of(name, Path("/runs") / name, analyse(data), STUDY)


def reproduced(*runs: RunOf) -> Reproduction:
    return together(STUDY, runs, Path("/runs/report"))


def page_of_study(found: Reproduction, drawings: Mapping[str, Drawing] | None = None) -> Page:
    return read_page(render_reproduction(found, drawings or {}, ()))


def claim(found: Reproduction, identifier: str) -> Joined:
    (one,) = (one for one in found.joined if one.claim.id == identifier)
    return one


def on_another_host(data: RunData) -> RunData:
    host = {**data.manifest.host, "fingerprint": "f" * 64, "cpu_model": "Another CPU"}
    return replace(data, manifest=data.manifest.replace(host=host))


ALIKE = {"native": 8e4, "netns": 8e4}
SLOWER = {"native": 8e4, "netns": 2.4e4}
BETWEEN = {"native": 8e4, "netns": 7.2e4}


@pytest.mark.parametrize(
    ("rates", "outcome"),
    [
        ((ALIKE,), Outcome.SUPPORTED),
        ((ALIKE, ALIKE), Outcome.SUPPORTED),
        ((ALIKE, BETWEEN), Outcome.SUPPORTED),
        ((BETWEEN, BETWEEN), Outcome.NOT_DECIDED),
        ((ALIKE, SLOWER), Outcome.REFUTED),
        ((SLOWER, BETWEEN), Outcome.REFUTED),
    ],
)
def test_a_claim_is_refuted_by_any_run_and_else_supported_by_one(
    rates: Sequence[Mapping[str, float]], outcome: Outcome
) -> None:
    found = reproduced(*(run(str(number), forwards(own)) for number, own in enumerate(rates)))
    joined = claim(found, "S01")
    assert joined.outcome is outcome
    assert [name for name, _ in joined.measured] == [str(number) for number in range(len(rates))]
    assert joined.error == pytest.approx(0.05 * len(rates))


def test_a_claim_that_no_run_measured_is_not_measured() -> None:
    joined = claim(reproduced(run("one", forwards(ALIKE)), run("two", forwards(SLOWER))), "S13")
    assert (joined.outcome, joined.measured, joined.error) == (Outcome.NOT_MEASURED, (), 0.0)


def test_only_runs_of_one_host_support_the_tests_of_a_claim_together() -> None:
    """S06: as fast as native with 1500 bytes, and more slowly with 64."""
    large, small = forwards(ALIKE), forwards(SLOWER, frame=68)
    assert claim(reproduced(run("large", large)), "S06").outcome is Outcome.NOT_DECIDED
    assert claim(reproduced(run("large", large), run("small", small)), "S06").outcome is Outcome.SUPPORTED
    elsewhere = run("small", on_another_host(small))
    assert claim(reproduced(run("large", large), elsewhere), "S06").outcome is Outcome.NOT_DECIDED


def test_ledgers_of_other_claims_are_not_joined() -> None:
    own = run("one", forwards(ALIKE)).ledger
    assert join_ledgers([]) == ()
    with refused("claims", error=ValueError):
        join_ledgers([Ledger("one", "here", own), Ledger("two", "here", own[1:])])


def test_two_hosts_are_told_and_each_run_has_its_own() -> None:
    found = reproduced(run("here", forwards(ALIKE)), run("there", on_another_host(forwards(SLOWER))))
    assert claim(found, "S01").outcome is Outcome.REFUTED
    assert any(missing_facts(text, "2 hosts", "here", "there") == [] for text in cautions(found))
    assert_facts(page_of_study(found).text, "Another CPU", "ffffffff", "host 1", "host 2")


def test_a_run_cut_short_of_another_study_or_version_or_missing_is_told() -> None:
    cut = run("cut", replace(forwards(ALIKE), state=State("interrupted", "ended by the user")))
    data = forwards(ALIKE, name="other", study="mattos2012", size="paper")
    other = run("other", replace(data, manifest=data.manifest.replace(virtoll="0.0.9")))
    found = reproduced(cut, replace(other, damage=("trials.jsonl has changed",)))
    told = cautions(found)
    assert found.missing == ("schlosser2011-neighbours",)
    for facts in (
        ("cut:", "interrupted", "ended by the user"),
        ("other:", "mattos2012", "schlosser2011"),
        ("other", "0.0.9"),
        ("cut quick", "other paper"),
        ("other:", "trials.jsonl"),
        found.missing,
    ):
        assert any(missing_facts(text, *facts) == [] for text in told), facts
    page = page_of_study(found).text
    assert [text for text in told if " ".join(text.split()) not in page] == []


def test_no_run_at_all_is_a_page_that_says_so() -> None:
    found = reproduced()
    assert found.missing == STUDY.presets
    page = page_of_study(found)
    assert_facts(page.text, "0 runs")
    assert "figure" not in page.tags


def test_the_numbers_of_each_run_stand_next_to_the_papers() -> None:
    found = reproduced(run("one", forwards(ALIKE)), run("two", forwards(SLOWER)))
    (table,) = (one for one in reproduction_tables(found) if one.name == "then_and_now")
    shares = {(row[0], row[table.header.index("platform")]): row[table.header.index("share")] for row in table.rows}
    assert shares["one", "netns"] == pytest.approx(1.0, rel=0.05)
    assert shares["two", "netns"] == pytest.approx(0.3, rel=0.05)
    cells = {text_of(cell) for cell in page_of_study(found).root.iter("td")}
    for name in ("run one", "run two"):
        assert any(missing_facts(cell, "its successor in kind", "1500 B", name) == [] for cell in cells)
    alone = page_of_study(reproduced(run("one", forwards(ALIKE))))
    assert not any("run one" in text_of(cell) for cell in alone.root.iter("td"))


def test_a_program_gets_the_same() -> None:
    found = reproduced(run("one", forwards(ALIKE)), run("two", forwards(SLOWER)))
    document = reproduction_document(found)
    (s01,) = (one for one in document["claims"] if one["claim"] == "S01")
    assert s01["outcome"] == "refuted"
    assert {name: own["outcome"] for name, own in s01["runs"].items()} == {"one": "supported", "two": "refuted"}
    assert s01["error_at_most"] == pytest.approx(0.1)
    assert document["missing"] == ["schlosser2011-neighbours"]
    assert {one["run"]: one["folder"] for one in document["runs"]} == {"one": "/runs/one", "two": "/runs/two"}
    assert {one["run"] for one in document["then_and_now"]} == {"one", "two"}
    (line,) = (line for line in reproduction_lines(found) if line.startswith("S01"))
    assert_facts(line, "refuted", "one: supported", "two: refuted")


def test_runs_have_the_shortest_names_that_tell_them_apart(tmp_path: Path) -> None:
    folders = [tmp_path / "a" / "schlosser2011", tmp_path / "b" / "schlosser2011", tmp_path / "a" / "other"]
    assert list(named(folders)) == ["a/schlosser2011", "b/schlosser2011", "other"]
    assert list(named([folders[0], folders[0]])) == ["schlosser2011"]


def test_a_study_names_its_presets_and_every_preset_of_a_study_is_named() -> None:
    """schlosser-nested shows that things work, and none of its numbers is a result."""
    of_studies = {name: load_study(name).presets for name in study_names()}
    texts = {path.stem: path.read_text(encoding="utf-8") for path in presets().glob("*.yaml")}
    for name, own in of_studies.items():
        assert [one for one in own if f"\nstudy: {name}\n" not in texts[one]] == []
    named_ones = {one for own in of_studies.values() for one in own}
    assert {name for name, text in texts.items() if "\nstudy:" in text} - named_ones == {"schlosser-nested"}


def data_in(drawing: Drawing) -> list[Mapping[str, Any]]:
    """Every datum of a drawing's panels."""
    return data_of(json.loads(drawing.specification or ""))


def test_the_papers_figures_are_drawn_with_its_values_as_hollow_marks() -> None:
    found = reproduced(run("one", forwards(ALIKE)))
    drawings = drawings_of(found, rendered)
    assert list(drawings) == ["figure-3-0", "figure-3-1", "figure-4-0", "then-and-now-1"]
    drawn = {name: json.loads(drawing.specification or "") for name, drawing in drawings.items()}
    assert {name: fields_without_data(one) for name, one in drawn.items()} == {name: set() for name in drawings}
    assert {name: unknown_keys(one) for name, one in drawn.items()} == {name: [] for name in drawings}
    page = page_of_study(found, drawings)
    assert [one for one in page.ids if one.startswith("figure-") and one.removeprefix("figure-") in drawings] == [
        f"figure-{name}" for name in drawings
    ]
    assert "figures/figure-4-0.svg" in page.values("href")
    data = data_in(drawings["figure-3-1"])
    assert [one["value"] for one in data if one.get("platform") == "netns"] == [pytest.approx(100, abs=5)]
    assert {one["name"]: one["then"] for one in data if "then" in one}["OpenVZ"] == 100
    assert any(missing_facts(one["said"], "OpenVZ", "1500 B", "100 %") == [] for one in data if "then" in one)
    assert ">OpenVZ<" in drawings["figure-3-1"].page
    legend = legend_of(json.loads(drawings["figure-3-1"].specification or ""))
    assert "now: netns" in legend
    assert any(label.startswith("then") for label in legend)


def test_a_drawing_keeps_what_all_figures_promise() -> None:
    """What is a platform's says so, text is large enough, nothing is wider than the page, and bytes are the same."""
    found = reproduced(run("one", forwards(ALIKE)))
    drawings = drawings_of(found, rendered)
    again = drawings_of(found, rendered)
    assert [files(one) for one in drawings.values()] == [files(one) for one in again.values()]
    for name, drawing in drawings.items():
        for datum in data_in(drawing):
            if datum.get("value") is not None:
                assert {"platform", "workload", "said"} <= datum.keys(), name
                assert str(datum["platform"]) in str(datum["said"]), name
        assert smallest_points(json.loads(drawing.specification or ""), Width.PAGE) >= SMALLEST_POINTS - 0.01, name


def test_lines_are_drawn_over_the_rates_that_were_offered() -> None:
    given = {"frame_size_bytes": 1504, "sweep": "rates", "rates_mbit_per_second": [100, 1000]}
    made = [
        Made(label, "forward", given, value=rate, flat_out=rate)
        for label, rate in {"native": 1e5, "netns": 5e4}.items()
    ]
    experiment = {"name": "schlosser2011", "study": "schlosser2011"}
    data = made_up_run(BASE | {"netns": {}}, made, calibrated_rate=1e6, experiment=experiment)
    drawing = drawings_of(reproduced(run("one", data)), rendered)["figure-3-0"]
    own = [one for one in data_in(drawing) if one["platform"] == "netns"]
    assert [one["place"] for one in own] == sorted(one["place"] for one in own)
    assert len(own) == 2
    assert own[0]["value"] == pytest.approx(100, rel=0.02)


def test_a_missing_value_is_a_gap_in_a_line_that_the_paper_has_whole() -> None:
    """Figure 12 of Camargos: with four guests at once nothing was measured on runc."""
    made = [
        Made(label, "kernel-compile", {}, value=seconds * 1e9, scale=ScalePoint(n, 1, 2**28))
        for label, seconds in {"native": 10.0, "runc": 12.0}.items()
        for n in (1, 2, 4, 8)
        if (label, n) != ("runc", 4)
    ]
    made += [Made("uml", "kernel-compile", {}, value=20e9, scale=ScalePoint(4, 1, 2**28))]
    study = load_study("camargos2008")
    own = run_of("one", Path("/runs/one"), analyse(made_up_run(BASE | {"runc": {}, "uml": {}}, made)), study)
    drawing = drawings_of(together(study, [own], Path("/runs/report")), rendered)["figure-12-0"]
    data = data_in(drawing)
    values = {one["place"]: one["value"] for one in data if one.get("platform") == "runc"}
    assert {place for place, value in values.items() if value is None} == {4}
    assert [values[place] for place in (1, 2, 8)] == [pytest.approx(100 / 1.2, rel=0.05)] * 3
    assert [(one["place"], one["then"], one["name"]) for one in data if "then" in one] == [
        (place, 100, "≈ Linux-VServer") for place in (1, 2, 4, 8)
    ]


def test_parts_in_which_platforms_stand_side_by_side_are_one_drawing() -> None:
    """Figure 5 of Mattos: (a) the processor, (b) memory."""
    made = [
        Made(label, workload, {}, value=slower * 1e9)
        for label, slower in {"native": 1.0, "runc": 2.0}.items()
        for workload in ("superpi", "masr")
    ]
    study = load_study("mattos2012")
    own = run_of("one", Path("/runs/one"), analyse(made_up_run(BASE | {"runc": {}}, made)), study)
    found = together(study, [own], Path("/runs/report"))
    drawings = drawings_of(found, rendered)
    assert list(drawings) == ["figure-5-0"]
    panels = panels_of(json.loads(drawings["figure-5-0"].specification or ""))
    for panel, facts in zip(panels, (("(a)", "Super Pi"), ("(b)", "MASR")), strict=True):
        assert_facts(" ".join(panel["title"]), *facts)
    data = [(one["platform"], one["value"]) for one in data_in(drawings["figure-5-0"])]
    assert data == [("native", pytest.approx(1.0, rel=0.05)), ("runc", pytest.approx(2.0, rel=0.05))] * 2
    page = page_of_study(found, drawings)
    assert_facts(page.text_at("figures"), "5(a)", "Super Pi", "5(b)", "MASR")
    summaries = [text_of(one) for one in page.part("figures").iter("summary")]
    assert [sum(part in one for one in summaries) for part in ("5(a)", "5(b)")] == [1, 1]


def test_what_has_a_caveat_is_open_and_the_legend_says_why() -> None:
    measured = [
        Made(label, "forward", {"frame_size_bytes": 1504}, value=rate, flat_out=rate)
        for label, rate in {"native": 1e6, "netns": 1e6, "uml": 5e5}.items()
    ]
    platforms = BASE | {"netns": {}, "uml": {"host": "nested xen", "caveat": FUNCTIONAL_ONLY}}
    found = reproduced(run("one", made_up_run(platforms, measured, calibrated_rate=1e7)))
    drawing = drawings_of(found, rendered)["figure-3-1"]
    assert [one["platform"] for one in data_in(drawing) if one.get("caveat")] == ["uml"]
    assert f"†  {FUNCTIONAL_ONLY}" in legend_of(json.loads(drawing.specification or ""))
    assert FUNCTIONAL_ONLY in render_reproduction(found, {}, ())


@pytest.mark.parametrize(
    ("rates", "host", "kind"),
    [
        (ALIKE, {}, None),
        (SLOWER, {}, "slower"),
        ({"native": 4e4, "netns": 8e4}, {}, "faster"),
        (SLOWER, {"host": "nested xen", "caveat": FUNCTIONAL_ONLY}, "caveat"),
    ],
)
def test_a_cell_of_then_and_now_is_marked_by_what_was_found(
    rates: Mapping[str, float], host: dict[str, Any], kind: str | None
) -> None:
    data = forwards(rates)
    platforms = (one.replace(**host) if one.label == "netns" else one for one in data.manifest.platforms)
    manifest = data.manifest.replace(platforms=tuple(platforms))
    found = reproduced(run("one", replace(data, manifest=manifest)))
    body = page_of_study(found).part("then-and-now")
    marked = [
        one.get("class")
        for one in body.iter("td")
        if one.find("b") is not None and "of" not in one.get("class", "").split()
    ]
    assert marked
    assert set(marked) == {kind}


def test_then_and_now_is_drawn_for_each_run_by_itself() -> None:
    found = reproduced(run("one", forwards(ALIKE)), run("two", forwards(SLOWER)))
    drawings = drawings_of(found, rendered)
    assert_facts(page_of_study(found, drawings).text_at("figure-then-and-now-2"), "run two")
    for name, share in (("then-and-now-1", 100), ("then-and-now-2", 30)):
        values = [one["value"] for one in data_in(drawings[name]) if one.get("platform") == "netns"]
        assert values
        assert values == [pytest.approx(share, rel=0.05)] * len(values)


def test_what_two_runs_measured_of_a_figure_is_in_panels_of_its_own() -> None:
    found = reproduced(run("one", forwards(ALIKE)), run("two", on_another_host(forwards(SLOWER))))
    own = panels_of(json.loads(drawings_of(found, rendered)["figure-3-1"].specification or ""))
    assert [panel["title"] for panel in own] == [["run one"], ["run two"]]
    values = [[one["value"] for one in panel["data"]["values"] if one.get("platform") == "netns"] for panel in own]
    assert [round(one[0], -1) for one in values] == [100, 30]
