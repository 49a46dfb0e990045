"""``virtoll list`` in a line an entry, and ``virtoll show`` with all of one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.support.commands import in_process
from tests.support.facts import assert_facts, assert_refused
from tests.support.repository import ROOT, load_tool

from virtoll.cli.show import page_of
from virtoll.experiment.describe import describe
from virtoll.experiment.parse import load_experiment, presets
from virtoll.pipeline.preview import catalogue, plan_of
from virtoll.platforms import EVERY_PLATFORM, PLATFORMS
from virtoll.workloads import WORKLOADS

tables: ModuleType = load_tool("tables")
NARROW = {"COLUMNS": "80"}
EXPERIMENTS = sorted(path.stem for path in presets().glob("*.yaml"))
MODELS = {
    **{f"platform {name}": kind.parameter_model for name, kind in EVERY_PLATFORM.items()},
    **{f"workload {name}": kind.parameter_model for name, kind in WORKLOADS.items()},
}
_OF_PYTHON = re.compile(r"\b(tuple|list|dict|Literal|Annotated|NoneType|None|int|str|bool|float|ByteSize)\b[\[(]?")


@pytest.mark.parametrize(
    ("what", "names"), [("platforms", PLATFORMS), ("workloads", WORKLOADS), ("experiments", EXPERIMENTS)]
)
def test_a_list_has_a_line_an_entry_in_80_columns(what: str, names: Any) -> None:
    head, *lines = in_process("list", what, changed=NARROW).stdout.splitlines()
    assert head.startswith("name ")
    assert [line.split()[0] for line in lines] == list(names)
    assert max(map(len, lines)) <= 80
    assert all(len(line.split()) > 2 or line.split()[0] in line.split(None, 1)[1] for line in lines), "it says what"


def test_an_experiment_is_listed_with_its_size_and_question() -> None:
    rows = {row["name"]: row for row in json.loads(in_process("list", "experiments", "--json").stdout)}
    quick = rows["quick"]
    assert (quick["platforms"], quick["workloads"]) == (6, 5)
    (line,) = [line for line in in_process("list", "experiments").stdout.splitlines() if line.startswith("quick ")]
    assert re.fullmatch(rf"quick +6 x 5 +{re.escape(quick['question'])}", line)


@pytest.mark.parametrize("named", MODELS)
def test_every_key_has_a_meaning_and_no_type_of_python(named: str) -> None:
    for one in describe(MODELS[named]):
        assert one.meaning or named.startswith("platform altered-"), one.name
        assert not one.meaning.endswith("."), one.name
        shown = f"{one.allowed} {one.default}"
        assert not _OF_PYTHON.search(re.sub(r"'[^']*'|a list", "", shown)), shown


@pytest.mark.parametrize("name", PLATFORMS)
def test_the_page_of_a_platform_is_there(name: str) -> None:
    page = tables.platform_page(name)
    assert page_of(name) == (None if page is None else str(page.relative_to(ROOT)))


def test_all_of_a_platform_is_shown() -> None:
    shown = in_process("show", "platform", "qemu-tcg", changed=NARROW).stdout
    assert shown.startswith("qemu-tcg: ")
    assert max(map(len, shown.splitlines())) <= 80
    for one in describe(PLATFORMS["qemu-tcg"].parameter_model):
        assert f"\n  {one.name}\n" in shown
        assert_facts(shown, *one.allowed.split()[:1])
    assert re.search(r"\n  page +docs/platforms/qemu.md\n", shown)
    document = json.loads(in_process("show", "platform", "qemu-tcg", "--json").stdout)
    assert (document["version"], document["name"], document["page"]) == (1, "qemu-tcg", "docs/platforms/qemu.md")
    (nic,) = (one for one in document["parameters"] if one["name"] == "nic")
    assert_facts(nic["meaning"], "NIC")


def test_what_a_platform_stands_for_comes_from_the_studies() -> None:
    document = json.loads(in_process("show", "platform", "uml", "--json").stdout)
    assert any(one.startswith("Xen 3.2") for one in document["stands_for"])
    assert document["lacks"].keys() == {"address-space"}


def test_all_of_a_workload_is_shown() -> None:
    shown = in_process("show", "workload", "fio").stdout
    facts = dict(re.findall(r"^  (\w[\w ]*?)  +(.+)$", shown, re.MULTILINE))
    assert facts["as in"] == "Suresh 2014"
    assert_facts(facts["metric of verdicts"], "duration", "ns", "lower")
    assert_facts(facts["further metrics"], "bytes_per_second", "B/s", "higher", "operations_per_second")
    assert_facts(facts["image"], "full")
    assert_facts(facts["needs"], "16 MiB")
    document = json.loads(in_process("show", "workload", "fio", "--json").stdout)
    assert document["metrics"][0] == {"name": "duration", "unit": "ns", "better": "lower"}
    assert document["needs"]["data_bytes"] == 16 * 2**20


def test_all_of_an_experiment_is_shown_and_its_file_can_be_copied(tmp_path: Path) -> None:
    shown = in_process("show", "experiment", "quick").stdout
    facts = dict(re.findall(r"^  (\w[\w ]*?)  +(.+)$", shown, re.MULTILINE))
    assert_facts(facts["compared with"], "native", "native-again")
    assert_facts(facts["blocks"], 5, "3 rounds")
    assert "\n  qemu-tcg-virtio-net (qemu-tcg)\n" in shown
    assert "\n  masr: size_bytes 48MiB\n" in shown
    copy = tmp_path / "mine.yaml"
    copy.write_text(in_process("show", "experiment", "quick", "--yaml").stdout, encoding="utf-8")
    assert copy.read_bytes() == (presets() / "quick.yaml").read_bytes()
    trials = plan_of(load_experiment(copy, catalogue())).trials
    document = json.loads(in_process("show", "experiment", copy, "--json").stdout)
    assert (document["trials"], document["blocks"], document["control"]) == (len(trials), 5, "native-again")
    paper = json.loads(in_process("show", "experiment", "camargos2008", "--size", "paper", "--json").stdout)
    assert (paper["size"], paper["order"], paper["study"]) == ("paper", "paper", "camargos2008")


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (("platform", "kvm"), ("'kvm'", "'qemu-kvm'", "virtoll list platforms")),
        (("workload", "mysql"), ("'mysql'", "'mariadb-oltp'", "virtoll list workloads")),
        (("experiment", "quik"), ("'quik'", "'quick'", "virtoll list experiments")),
        (("experiment", "quick", "--yaml", "--json"), ("--yaml", "--json", "--size")),
    ],
    ids=" ".join,
)
def test_unknown_names_and_unfit_options_are_refused(words: tuple[str, ...], facts: tuple[str, ...]) -> None:
    finished = in_process("show", *words)
    assert_refused(finished, *facts)
    assert finished.stdout == ""
