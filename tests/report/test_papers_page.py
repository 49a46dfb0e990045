"""A reproduction's page for the paper's author: his figures and tables in his units, and what of each is absent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.support.by_hand import point, sink, source
from tests.support.drawings import rendered
from tests.support.facts import assert_facts, missing_facts
from tests.support.made_up_run import Made, made_up_run
from tests.support.report_page import Page, read_page, text_of
from tests.support.specifications import data_of, legend_of, panels_of

from virtoll.claims.paper_levels import Lacking, lacking_of
from virtoll.reference.published import load_study
from virtoll.report import paper_words
from virtoll.report.paper_figures import figure_views
from virtoll.report.paper_sizes import size_rows
from virtoll.report.reproduction import run_of, together
from virtoll.report.reproduction_page import drawings_of, render_reproduction
from virtoll.report.reproduction_runs import PaperSize, Reproduction
from virtoll.runfolder.conditions import Condition, NeighbourRecord
from virtoll.runfolder.records import PlannedTrial
from virtoll.stats.analysis import RunData, analyse

BASE: dict[str, dict[str, Any]] = {"native": {}, "native-again": {}}
READ = {"operation": "read", "workers": 1}
FOR_OPENVZ = {"stands_for": "OpenVZ in Linux 2.6.26 (its successors: namespaces)"}


def planned(workload: str, *parameters: Mapping[str, Any]) -> list[PlannedTrial]:
    """Trials of the paper's size."""
    return [PlannedTrial(0, 0, "native", workload, dict(one)) for one in parameters]


def reproduced(study: str, data: RunData, paper: Sequence[PlannedTrial] = ()) -> Reproduction:
    """One run of a study's first preset, with the paper's size where one is given."""
    own = run_of(study, Path("/runs") / study, analyse(data), load_study(study))
    sizes = {study: PaperSize(9, 1, 2**31, tuple(paper))} if paper else {}
    return together(load_study(study), [own], Path("/runs/report"), sizes)


def of_mattos(workload: str, *parameters: Mapping[str, Any], values: tuple[float, float] = (1e9, 2e9)) -> RunData:
    """What native and netns, which stands for OpenVZ, measured; the A/A control as native."""
    made = []
    for label, value in zip(("native", "native-again", "netns"), (values[0], *values), strict=True):
        made += [Made(label, workload, dict(one), value=value) for one in parameters]
    experiment = {"name": "mattos2012", "study": "mattos2012", "size": "quick"}
    return made_up_run(BASE | {"netns": FOR_OPENVZ}, made, experiment=experiment)


def page_of(made: Reproduction, *, drawn: bool = False) -> Page:
    return read_page(render_reproduction(made, drawings_of(made, rendered) if drawn else {}, ()))


def state_of(made: Reproduction, name: str) -> str:
    (state,) = (one.state for one in figure_views(made) if one.figure.title_words == name)
    return state


def cells_of(page: Page, table: str) -> list[list[str]]:
    """The rows of a table of the paper: its columns' heads, and each row's cells."""
    return [[text_of(cell) for cell in row if cell.tag in ("th", "td")] for row in page.part(table).iter("tr")]


def test_the_host_comes_first_then_figures_then_sizes_and_then_claims() -> None:
    page = page_of(reproduced("mattos2012", of_mattos("superpi", {"digits": 65536})))
    order = ["host", "figures", "sizes", "claims", "then-and-now", "runs", "tables"]
    assert [one for one in page.ids if one in order] == order
    assert_facts(page.text_at("host"), "Host:", "native-again against native")
    assert_facts(page.text_at("host"), "OpenVZ", "netns", "successor", "Xen", "nothing")


def test_a_platform_has_the_name_of_the_one_that_it_stands_for() -> None:
    made = reproduced("mattos2012", of_mattos("superpi", {"digits": 65536}))
    drawing = drawings_of(made, rendered)["figure-5-0"]
    assert "now: netns, for OpenVZ" in legend_of(json.loads(drawing.specification or ""))
    assert_facts(page_of(made).text_at("figure-5"), "for OpenVZ")


def test_times_of_mattos_are_in_seconds_with_a_bar_for_native() -> None:
    made = reproduced("mattos2012", of_mattos("superpi", {"digits": 65536}))
    specification = json.loads(drawings_of(made, rendered)["figure-5-0"].specification or "")
    data = {one["platform"]: one["value"] for one in data_of(specification)}
    assert data == {"native": pytest.approx(1, rel=0.05), "netns": pytest.approx(2, rel=0.05)}
    (panel,) = panels_of(specification)
    assert '"title": "s"' in json.dumps(panel)


def test_what_the_paper_prints_stands_at_its_share_of_native_here() -> None:
    """Figure 7: his Xen receives as much as native, whose 40 Mbit/s are this run's."""
    given = {"direction": "to-guest", "rate_bits_per_second": 50_000_000}
    made = reproduced("mattos2012", of_mattos("iperf-udp", given, values=(40.0, 20.0)))
    specification = json.loads(drawings_of(made, rendered)["figure-7-1"].specification or "")
    values = {one.get("platform", "then"): one.get("value", one.get("then")) for one in data_of(specification)}
    assert values["native"] == pytest.approx(40, rel=0.05)
    assert values["netns"] == pytest.approx(20, rel=0.05)
    assert values["then"] == pytest.approx(values["native"]), "a change of 0 % of native"


@pytest.mark.parametrize(
    ("paper", "facts"),
    [
        ({"digits": 65536}, ()),
        ({"digits": 4194304}, ("65 536", "4 194 304", "digits")),
    ],
)
def test_a_figure_with_a_value_absent_is_replayed_in_part(paper: Mapping[str, Any], facts: Sequence[str]) -> None:
    made = reproduced("mattos2012", of_mattos("superpi", {"digits": 65536}), planned("superpi", paper))
    state = state_of(made, "Figure 5")
    assert_facts(state, "in part", "Xen", "VMware", *facts)
    assert ("digits" in state) is bool(facts)
    assert missing_facts(state, "OpenVZ") == ["OpenVZ"], "netns is in its place"
    assert_facts(page_of(made).text_at("figure-5"), *facts)


def test_levels_of_the_paper_are_told_in_its_words() -> None:
    given = [{"routers": one, "total_rate_frames_per_second": 20000.0} for one in (1, 2)]
    paper = [{"routers": one, "total_rate_frames_per_second": 130000.0} for one in (1, 2, 3, 4)]
    made = reproduced(
        "mattos2012", of_mattos("virtual-routers", *given, values=(1e4, 1e4)), planned("virtual-routers", *paper)
    )
    assert_facts(state_of(made, "Figure 8"), "in part", "2 of 4 routers", "20 of 130 kpackets/s")
    assert state_of(made, "Figure 9(b)").startswith("not measured")


def test_only_what_is_compared_with_the_papers_size_is_replayed() -> None:
    platforms = {"runc": {}, "kvm": {"platform": "qemu-kvm"}, "virtualbox": {}}
    made = [
        Made(label, "kernel-operations", READ, value=1e9, figures={"operation_time": 200.0})
        for label in ("native", *platforms)
    ]
    data = made_up_run(BASE | platforms, made, experiment={"name": "suresh2014", "study": "suresh2014"})
    paper = planned("kernel-operations", READ)
    assert state_of(reproduced("suresh2014", data, paper), "Table 1") == "replayed by suresh2014"
    assert_facts(state_of(reproduced("suresh2014", data), "Table 1"), "replayed", "none is compared")


def test_the_sizes_of_the_run_stand_next_to_the_papers_in_one_table() -> None:
    data = of_mattos("masr", {"size_bytes": 2**26})
    guest = {"vcpus": 1, "memory_bytes": 2**28}
    manifest = data.manifest.replace(experiment={**data.manifest.experiment, "guest": guest})
    made = reproduced("mattos2012", replace(data, manifest=manifest), planned("masr", {"size_bytes": 2**31}))
    rows = {row.parameter: (row.here, row.paper) for row in size_rows(made)}
    assert rows == {
        "repetitions": ("5", "9"),
        "memory of a guest": ("256 MiB", "2 GiB"),
        "size": ("64 MiB", "2 GiB"),
    }
    assert_facts(page_of(made).text_at("sizes"), "MASR", "64 MiB", "2 GiB", "repetitions")


def test_a_table_of_kernel_operations_is_a_table_in_the_papers_unit() -> None:
    platforms = {"kvm": {"platform": "qemu-kvm", "stands_for": "KVM 76"}}
    made = [
        Made(label, "kernel-operations", READ, value=1e9, figures={"operation_time": time})
        for label, time in {"native": 200.0, "kvm": 400.0}.items()
    ]
    data = made_up_run(BASE | platforms, made, experiment={"name": "suresh2014", "study": "suresh2014"})
    page = page_of(reproduced("suresh2014", data), drawn=True)
    head, *rows = cells_of(page, "table-1")
    assert [text.split()[0] for text in head[1:]] == ["the", "KVM", "VirtualBox", "native", "kvm"]
    (read,) = (row for row in rows if row[0] == "read")
    assert read[1:4] == ["0.1031 µs", "0.1056 µs", "0.1075 µs"]
    assert [text.split(" µs")[0][:3] for text in read[4:]] == ["0.2", "0.4"] or read[4].startswith(("0.19", "0.20"))
    assert page.part("table-1").find(".//figure") is None, "no table is drawn as well"


def beside(load: Literal["heavy", "forward"], share: float, *, rate_share: float | None = None) -> list[Made]:
    """Native and netns with 64-byte frames, alone and beside one guest, which takes so much of it."""
    condition = Condition(load, guests=1, affinity="apart", rate_share=rate_share)
    made = []
    for label in ("native", "netns"):
        made.append(Made(label, "forward", {"frame_size_bytes": 68}, value=1e6))
        made.append(Made(label, "forward", {"frame_size_bytes": 68}, value=1e6 * share, condition=condition))
    return made


def of_schlosser(made: list[Made]) -> RunData:
    experiment = {"name": "schlosser2011", "study": "schlosser2011"}
    platforms = BASE | {"netns": {"stands_for": "OpenVZ 3.0.22 (its successors: namespaces)"}}
    return made_up_run(platforms, made, calibrated_rate=1e8, experiment=experiment)


def test_schlossers_table_1_has_changes_by_the_papers_sizes() -> None:
    page = page_of(reproduced("schlosser2011", of_schlosser(beside("heavy", 0.8))))
    head, *rows = cells_of(page, "table-1")
    (ours,) = (row for row in rows if len(row) > 1 and row[0] == "64" and row[-1] != "–")
    assert [text for text in head if text.startswith(("KVM", "netns"))] == ["KVM then", "netns now, for OpenVZ"]
    assert ours[-1].startswith(("−20", "−19", "-20", "-19"))
    assert ours[head.index("KVM then")] == "-0.4 %"


def test_schlossers_tables_2_and_3_have_what_went_in_and_came_out() -> None:
    data = of_schlosser(beside("forward", 0.8, rate_share=0.5))
    sent = 100_000
    steps = {"first_sent_monotonic_ns": 0, "last_sent_monotonic_ns": 1_000_000_000}
    own = point(sent, [source(intended=sent + 1, **steps)], [sink(forwarded=sent // 2, lost=sent // 2 + 1)])
    neighbour = NeighbourRecord("netns/0/2", "netns", (), (0, 1), traffic=own.replace(frame_size_bytes=68))
    trials = tuple(trial.replace(neighbours=(neighbour,)) for trial in data.with_neighbours)
    page = page_of(reproduced("schlosser2011", replace(data, with_neighbours=trials)))
    head, *rows = cells_of(page, "table-2")
    (ours,) = (row for row in rows if len(row) > 1 and row[0] == "64" and row[-1] != "–")
    assert ours[head.index("KVM then")] == "37.1 in, 37 out"
    assert ours[head.index("the bare host then")] == "153 in, 153 out"
    into, out = (float(text.split()[0]) for text in ours[-1].split(", "))
    assert into == pytest.approx(2 * out, rel=0.05)
    assert "table-3" not in page.ids, "of 95 % nothing was measured"


def test_words_of_sizes_platforms_and_frames() -> None:
    short = paper_words.short_name
    assert short("OpenVZ in Linux 2.6.26 (its successors: namespaces)") == "OpenVZ"
    assert short("KVM (kvm-72), where there is no hardware virtualisation") == "KVM"
    assert short("Linux-VServer 2.2 and OpenVZ 5.1 (their successors)") == "Linux-VServer and OpenVZ"
    assert short("VMware ESX 3.5 (full virtualisation)") == "VMware ESX"
    assert paper_words.as_the_paper_counts("IP forwarding 68 B, 1504 B, 100 B") == "IP forwarding 64 B, 1500 B, 100 B"
    text = paper_words.level_text
    assert text("digits", 4194304) == "4 194 304 (2^22) digits"
    assert text("total_rate_frames_per_second", 130000.0) == "130 kpackets/s"
    assert text("rate_bits_per_second", 957087379) == "957 Mbit/s"
    assert text("transmitters", 1) == "1 sender"
    assert text("frame_size_bytes", 504) == "500 B"


def test_only_values_that_the_paper_has_and_the_run_has_not_are_lacking() -> None:
    here = {"threads": (1, 2), "rounds": (3,), "point_milliseconds": (100,)}
    paper = {"threads": (1, 2, 4), "rounds": (3,), "point_milliseconds": (1000,), "pattern": ("read",)}
    assert list(lacking_of(here, paper)) == [Lacking("threads", (1, 2), (1, 2, 4))]
