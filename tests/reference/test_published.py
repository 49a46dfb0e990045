"""What the studies published: the files are whole, travel with the package, and ratios of their numbers are right."""

from tests.support.repository import ROOT

import tomllib
from fnmatch import fnmatch
from importlib.resources import files
from pathlib import Path

import pytest
from tests.support import experiments
from tests.support.facts import assert_facts, missing_facts, refused

from virtoll.errors import UsageError
from virtoll.experiment.model import STUDIES
from virtoll.reference.published import (
    RELATIONS,
    PublishedValue,
    load_study,
    published_values,
    read_values,
    study_names,
)
from virtoll.report.reproduction import study_presets

HEADER = "paper,source,platform,scenario,workload,parameters,metric,unit,value,relation,note\n"


def _values(paper: str, **wanted: str) -> tuple[PublishedValue, ...]:
    """The values of a paper whose fields are those given."""
    own = (one for one in published_values() if one.paper == paper)
    return tuple(one for one in own if all(getattr(one, field) == text for field, text in wanted.items()))


def _one(paper: str, **wanted: str) -> PublishedValue:
    (found,) = _values(paper, **wanted)
    return found


def test_an_experiment_may_name_each_study() -> None:
    assert sorted(STUDIES) == sorted(study_names())


def test_the_numbers_are_those_of_the_tables() -> None:
    values = published_values()
    assert len(values) == 365
    assert len([one for one in values if one.source.startswith("Table")]) == 270
    assert {one.relation for one in values if one.source.startswith("Table")} == {"equal"}
    places = [
        (v.paper, v.source, v.platform, v.scenario, v.workload, tuple(v.parameters.items()), v.metric, v.unit)
        for v in values
    ]
    assert len(set(places)) == 365
    reported = {(v.source, v.platform, v.scenario, v.parameters.get("frame"), v.metric): v.value for v in values}
    assert reported["Table 1", "openvz", "neighbour-heavy", "64", "throughput_change"] == -18.2
    assert reported["Table 3", "virtualbox", "neighbour-forward-95", "500", "neighbour_throughput"] == 40.2


def test_a_number_that_is_a_bound_in_the_text_is_one_here() -> None:
    assert {one.relation for one in published_values()} == set(RELATIONS)
    bounds = {one.platform: (one.relation, one.value, one.unit) for one in _values("mattos2012", unit="kpps")}
    assert bounds == {
        "native": ("at_most", 750.0, "kpps"),
        "xen-bridge": ("at_most", 150.0, "kpps"),
        "xen-router": ("at_most", 200.0, "kpps"),
    }
    accepted = _one("schlosser2011", source="Section 4, Figure 4d", metric="offered")
    assert (accepted.platform, accepted.relation, accepted.value) == ("all", "at_most", 600.0)
    dbench = _values("camargos2008", workload="dbench")
    assert {one.platform for one in dbench} == {"kqemu", "kvm", "openvz", "xen"}
    assert {(one.relation, one.value, one.unit) for one in dbench} == {("at_most", 30.0, "percent")}


def test_a_comparison_without_a_number_is_a_ratio_with_the_papers_words() -> None:
    sriov = _one("mattos2012", platform="xen-sriov")
    assert (sriov.metric, sriov.relation, sriov.value) == ("throughput_change", "about", 0.0)
    assert sriov.parameters["against"] == "native"
    assert_facts(sriov.note, "words", "similar", "native Linux")
    same = _one("schlosser2011", source="Section 4, Figure 4d", metric="throughput_change")
    assert same.parameters == {"frame": "64", "sources": "3", "against": "2 sources"}
    assert (same.platform, same.value) == ("raw", 0.0)
    for one in published_values():
        if "against" in one.parameters and one.value == 0:
            assert one.note.startswith("words: "), one


def test_a_theoretical_value_is_of_no_platform() -> None:
    assert not [one for one in _values("mattos2012", platform="native") if one.value == 969]
    link = _one("mattos2012", platform="link")
    assert (link.value, link.scenario) == (969.0, "theoretical")
    assert link.note.startswith("theoretical: ")


def test_the_text_of_schlosser_has_the_totals_of_up_to_three_sources() -> None:
    totals = {
        (one.parameters["frame"], one.parameters["sources"]): (one.value, one.unit)
        for one in _values("schlosser2011", source="Section 4, Figure 4", platform="raw")
    }
    sizes = ("500", "1000", "1500")
    assert totals == {(size, str(n)): (float(n), "Gbit/s") for size in sizes for n in (1, 2, 3)}


@pytest.mark.parametrize("name", study_names())
def test_every_platform_that_a_number_is_of_is_one_of_the_studys(name: str) -> None:
    study = load_study(name)
    known = {one.key for one in study.platforms} | {study.baseline, "all", "link"}
    assert {one.platform for one in study.values} <= known
    assert len({one.written for one in study.platforms}) == len(study.platforms)
    assert study.platform(study.platforms[0].key) is study.platforms[0]


def test_a_note_says_what_it_is() -> None:
    kinds = ("words", "contradiction", "uncertain", "theoretical", "remark")
    noted = [one for one in published_values() if one.note]
    assert all(one.note.startswith(tuple(f"{kind}: " for kind in kinds)) and one.note.endswith(".") for one in noted)
    readme = (ROOT / "reference" / "README.md").read_text()
    assert all(f"| `{kind}:` |" in readme for kind in kinds)
    uncertain = [(one.source, one.platform, one.value) for one in noted if "uncertain: " in one.note]
    assert uncertain == [
        ("Table 1", "kvm", -0.4),
        ("Table 1", "vmware-e1000", -2.7),
        ("Table 1", "vmware-vmxnet3", -0.5),
        ("Table 3", "xen", 50.9),
        ("Table 3", "raw", 275.9),
    ]


def test_both_sides_of_a_contradiction_say_so() -> None:
    vmxnet3 = _values("schlosser2011", platform="vmware-vmxnet3")
    (table,) = (one for one in vmxnet3 if not missing_facts(one.note, "contradiction", "200 Mbit/s"))
    assert (table.source, table.metric, table.value) == ("Table 3", "neighbour_throughput", 268.4)
    text = [one for one in vmxnet3 if (one.source, one.scenario) == ("Section 5, Figure 5", table.scenario)]
    assert [(one.metric, one.relation, one.value) for one in text] == [
        ("neighbour_throughput", "about", 200.0),
        ("neighbour_loss", "about", 20.0),
    ]
    assert all("contradiction: " in one.note for one in text)
    kvm = _values("suresh2014", source="Table 2", platform="kvm")
    (triad,) = (one for one in kvm if not missing_facts(one.note, "76 %"))
    assert (triad.parameters, triad.value) == ({"kernel": "triad", "threads": "2"}, 10190.0)


def test_a_relation_or_a_form_that_is_not_known_is_refused() -> None:
    row = "p,Table 1,kvm,dedicated,forward,frame=64,throughput,Mbit/s,600,{}\n"
    note = "words: 'a bound'."
    (one,) = read_values(HEADER + row.format(f"at_most,{note}"))
    assert (one.value, one.relation, one.note) == (600.0, "at_most", note)
    for relation in ("below", ""):
        with refused("line 2", repr(relation), *RELATIONS, error=ValueError):
            read_values(HEADER + row.format(f"{relation},"))
    for cells in ("equal", "equal,one, two"):
        with refused("line 2", "columns", error=ValueError):
            read_values(HEADER + row.format(cells))


def test_the_package_carries_the_files() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["virtoll"]
    folder = files("virtoll").joinpath("reference")
    carried = [one for one in folder.iterdir() if one.name.endswith((".csv", ".yaml"))]
    names = {"published.csv", "claims.yaml", "figures.yaml", "studies.yaml", "rows.yaml"}
    assert {one.name for one in carried} == names
    for one in carried:
        assert any(fnmatch(f"reference/{one.name}", pattern) for pattern in patterns), one.name
    assert (ROOT / "reference" / "published.csv").is_file()


def test_an_experiment_names_a_study_that_there_is() -> None:
    assert experiments.parsed(study="schlosser2011").study in study_names()
    assert experiments.parsed().study is None
    with refused("'study'", "'schloser'", "'schlosser2011'", error=UsageError):
        experiments.parsed(study="schloser")
    with refused("schloser", *study_names(), error=UsageError):
        study_presets("schloser")
