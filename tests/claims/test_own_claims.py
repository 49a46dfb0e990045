"""Claims of a user's own: a file that is right is judged, and one that is wrong is refused."""

from __future__ import annotations

import csv
import errno
import json
import os
import re
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from tests.support import experiments
from tests.support.commands import in_process
from tests.support.experiments import fake
from tests.support.facts import Command, Fact, assert_facts, assert_refused, refused
from tests.support.repository import ROOT

from virtoll.claims import Outcome, load_claims, parse_claims, published_claims
from virtoll.claims.names import impossible
from virtoll.cli.claims import claimed_names
from virtoll.errors import UsageError
from virtoll.reference.published import published_values

pytestmark = pytest.mark.usefixtures("undrawn")
NAMES = claimed_names()
PAGE = ROOT / "docs" / "claims.md"
GOOD = """\
- id: cheap
  source: "a vendor's page"
  says: "The slow model computes at half of the model's speed or more."
  tests:
    - {says: "computes at half of it or more", workload: superpi, against: baseline, share: {at_least: 0.5}}
- id: quick
  source: "our service level"
  says: "It takes at most a nanosecond <b>&amp;</b> no more."
  tests:
    - {says: "takes at most a nanosecond", workload: superpi, value: {at_most: 1, unit: ns}}
- id: never
  source: "nobody"
  says: "It compresses quickly."
  tests:
    - {says: "compresses", workload: bzip2, against: baseline, share: {at_least: 0.9}}
"""
NIC_KINDS = ("'para-virtualised'", "'emulated'", "'passthrough'")
BOMB = "".join(f"- &{name} [{', '.join([f'*{chr(ord(name) - 1)}'] * 8)}]\n" for name in "bcdefghi")
TEST = "{says: is, workload: superpi, against: baseline, share: {at_least: 0.5}}"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two models."""
    base = tmp_path_factory.mktemp("claims")
    file = experiments.write(base, platforms=[fake("model"), fake("slow", cost=1.5)], baseline="model", blocks=3)
    assert in_process("run", file, "--into", base / "run").returncode == 0
    return base / "run"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    file = tmp_path / "mine.yaml"
    file.write_text(GOOD)
    return file


def test_a_users_claims_are_judged(run: Path, mine: Path) -> None:
    printed = in_process("claims", run, "--claims", mine)
    assert printed.returncode == 0, printed.stderr
    lines = printed.stdout.splitlines()
    assert_facts(lines[0], "cheap", "supported")
    assert_facts(lines[3], "slow", "model")
    shares = [float(number) for number in re.findall(r"(\d+(?:\.\d+)?) %?", lines[3].partition(": ")[2])]
    assert shares == pytest.approx([66.7, 66.7, 66.7], abs=3.0), "the share and its interval in %"
    assert any(line.startswith("quick refuted: ") for line in lines)
    assert_facts(printed.stdout, "never", "bzip2")
    assert_facts(lines[-1], "3 claims", "1 refuted", "1 supported", "1 not measured")
    document = json.loads(in_process("claims", run, "--claims", mine, "--json").stdout)["claims"]
    assert [one["outcome"] for one in document] == ["supported", "refuted", "not measured"]
    (finding,) = document[0]["tests"][0]["findings"]
    assert finding["interval_low"] <= finding["estimate"] <= finding["interval_high"]
    assert document[0]["tests"][0]["asked"] == {"at_least": 0.5, "at_most": None}


def test_the_page_and_its_tables_have_the_ledger_with_a_users_claims_first(run: Path, mine: Path) -> None:
    reported = in_process("report", run, "--claims", mine)
    assert reported.returncode == 0, reported.stderr
    assert_facts(reported.stdout, "3 claims", "1 supported", Command("'virtoll claims'"))
    page = (run / "report" / "index.html").read_text(encoding="utf-8")
    assert 'id="claim-quick"' in page
    assert_facts(page, "our service level", "nobody")
    assert "<b>&amp;</b> no more" not in page, "markup in a claim is text"
    assert "&lt;b&gt;" in page
    with (run / "report" / "tables" / "claims.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["claim"] for row in rows] == ["cheap", "quick", "never"], "the experiment names no study"
    assert {row["outcome"] for row in rows} <= {str(one) for one in Outcome}
    with (run / "report" / "tables" / "claims_findings.csv").open(newline="", encoding="utf-8") as file:
        findings = list(csv.DictReader(file))
    own = next(row for row in findings if row["claim"] == "cheap")
    assert float(own["interval_low"]) <= float(own["estimate"]) <= float(own["interval_high"])
    lacking = next(row for row in findings if row["claim"] == "never")
    assert lacking["estimate"] == ""
    assert_facts(lacking["reason"], "bzip2")
    assert in_process("report", run).returncode == 0
    assert "claim-quick" not in (run / "report" / "index.html").read_text(encoding="utf-8")


def test_the_published_claims_are_chosen_by_paper(run: Path) -> None:
    document = json.loads(in_process("claims", run, "--paper", "mattos2012", "--json").stdout)["claims"]
    assert [one["claim"]["id"] for one in document] == [f"M{number:02d}" for number in range(1, 13)]
    unknown = in_process("claims", run, "--paper", "popek1974")
    assert_refused(unknown, "popek1974", "schlosser2011", "mattos2012")


def one_claim(tests: str, more: str = "") -> str:
    """A file of one claim with these tests."""
    return f"- id: one\n  source: x\n  says: y\n{more}  tests: [{tests}]\n"


def changed(old: str, new: str) -> str:
    """A file of one claim whose test is right but for this."""
    assert old in TEST
    return one_claim(TEST.replace(old, new))


def of_test(key: str, old: str, new: str, *facts: Fact) -> ParameterSet:
    """A test that is wrong in this; an empty ``key`` is the test itself."""
    return pytest.param(changed(old, new), ("one", f"tests.0.{key}".removesuffix("."), *facts), id=f"{key} {new}")


def with_more(old: str, *facts: Fact, more: str) -> ParameterSet:
    """A test that has more keys, of which one is wrong."""
    return of_test(old, "says: is,", f"says: is, {more},", *facts)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", ("list", "id", "tests")),
        ("id: one\n", ("list", "id", "tests")),
        ("- [", ("line 1", "YAML")),
        ("- just text\n", (1, "'just text'")),
        ("- 7\n", (1, "mapping", 7)),
        (one_claim(TEST).replace("id: one", "id: a b"), ("a b", "'id'")),
        ("- id: one\n  source: x\n  says: y\n", ("one", "'tests'")),
        (one_claim(""), ("one", "'tests'", 1, 0)),
        (one_claim(TEST, "  sagt: z\n"), ("one", "'sagt'", "docs/claims.md")),
        (one_claim(TEST) * 2, ("one", "twice", "id")),
        (one_claim(TEST, "  note: !!int word\n"), ("line 4", "'word'", "int")),
        (one_claim(TEST, "  note: !!int x\n"), ("line 4", "'x'", "int")),
        (one_claim(TEST, '  note: "\\ud800"\n'), ("line 4", "'\\ud800'")),
        (one_claim(TEST, "\tnote: x\n"), ("line 4", "YAML", "tab", "spaces")),
        (one_claim(TEST, f"  note: {list(range(5000))}\n"), ("one", "'note'", "text")),
        (one_claim(TEST) + "---\n" + one_claim(TEST), ("line 5", "YAML")),
        ("[" * 5000, ("nested", 50)),
        ("&a\n- *a\n", ("line 1", "alias")),
        ("- &a [x, x, x, x, x, x, x, x]\n" + BOMB, ("line 6", "aliases")),
        (changed("says: is,", "says: is, workload: masr,"), ("line 4", "'workload'", "twice")),
        of_test("werkload", "workload", "werkload", "docs/claims.md"),
        of_test("share", "at_least: 0.5", "at_least: 2, at_most: 1", "'at_least'", 2, "'at_most'", 1),
        of_test("", "share: {at_least: 0.5}", "holds_for: all", "'share'", "'times_slower'", "'value'"),
        of_test("", "against: baseline, ", "", "'share'", "'times_slower'", "'against'"),
        of_test("says", "says: is, ", ""),
        of_test("says", "says: is", "says: ''"),
        of_test("against", "baseline", "{}", "'platforms'", "'where'", "'workload'", "'metric'", "'reading'"),
        of_test("against.plattform", "baseline", "{plattform: x}", "docs/claims.md"),
        of_test("against", "baseline", "native", "'baseline'", "{platforms: {label: native}}"),
        of_test("times_slower", "share: {at_least: 0.5}", "times_slower: {at_least: 0}", 0),
        of_test("share.at_least", "0.5", ".nan", "finite", "nan"),
        of_test("share.at_least", "0.5", "1e400", "finite", "inf"),
        of_test("share.at_least", "0.5", "true", "number", "true"),
        of_test("workload", "superpi", "[]", 1, 0),
        with_more("where.digits.at_lest", "docs/claims.md", more="where: {digits: {at_lest: 1}}"),
        with_more("where", "'next'", "against.where", more="where: {digits: next}"),
        with_more("where", "'digits'", "value", more="where: {digits: }"),
        with_more("where.digits", "'at_least'", 4, "'at_most'", 2, more="where: {digits: {at_least: 4, at_most: 2}}"),
        with_more("platforms.nic", *NIC_KINDS, "'fast'", more="platforms: {nic: fast}"),
        with_more("platforms", "'baseline'", "{label: runc}", more="platforms: runc"),
    ],
)
def test_a_wrong_file_is_refused(text: str, facts: tuple[Fact, ...]) -> None:
    with refused("mine.yaml", *facts, error=UsageError) as caught:
        parse_claims(text, "mine.yaml")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("old", "new", "facts"),
    [
        ("superpi", "superpie", ("tests.0.workload", "'superpie'", "'superpi'")),
        ("says: is,", "says: is, metric: durations,", ("tests.0.metric", "'durations'", "'duration'")),
        ("says: is,", "says: is, where: {digit: 4},", ("tests.0.where", "'digit'", "'digits'")),
        ("says: is,", "says: is, per: thread,", ("tests.0.per", "'thread'", "digits", "vcpus")),
        ("says: is,", "says: is, platforms: {product: qemu},", ("tests.0.platforms.product", "'qemu'", "'kqemu'")),
        (
            "baseline",
            "{platforms: {but_not: [{family: os}]}}",
            ("tests.0.against.platforms.but_not.family", "'os'", "os-level"),
        ),
        (
            "baseline",
            "{where: {neighbour_guest: 1}}",
            ("tests.0.against.where", "'neighbour_guest'", "'neighbour_guests'"),
        ),
    ],
)
def test_an_impossible_is_refused_with_those_that_are_near(old: str, new: str, facts: tuple[str, ...]) -> None:
    assert parse_claims(changed("says: is", "says: is"), "mine.yaml", NAMES)
    with refused("mine.yaml", "one", *facts, error=UsageError):
        parse_claims(changed(old, new), "mine.yaml", NAMES)


def test_the_papers_claims_name_only_what_there_is() -> None:
    assert {one.id: impossible(one, NAMES) for one in published_claims() if impossible(one, NAMES)} == {}


def test_anchors_and_merged_keys_are_read_as_yaml_has_them() -> None:
    text = one_claim("&first {says: is, workload: superpi, against: baseline, share: {at_least: 0.5}}")
    text = text.replace("}]", "}, {<<: *first, workload: masr}]")
    ((first, second),) = (one.tests for one in parse_claims(text, "mine.yaml", NAMES))
    assert (first.workload, second.workload) == ("superpi", "masr")
    assert second.share == first.share


def test_what_is_no_file_of_claims_is_refused_before_it_is_read_whole(tmp_path: Path) -> None:
    large, latin = tmp_path / "large.yaml", tmp_path / "latin.yaml"
    large.write_text(one_claim(TEST) * 20_000)
    latin.write_bytes(b"- id: one\n  says: \xe9\n")
    for given, facts in (
        (large, ("1 MiB",)),
        (latin, ("line 2", "UTF-8")),
        (tmp_path, (os.strerror(errno.EISDIR),)),
        (Path("/dev/zero"), ("device",)),
    ):
        with refused(given, *facts, error=UsageError):
            load_claims(given)


def test_an_unusable_file_exits_with_2_and_leaves_the_report_alone(run: Path, tmp_path: Path) -> None:
    page = run / "report" / "index.html"
    before = page.read_bytes()
    wrong, taken, unit = (tmp_path / name for name in ("wrong.yaml", "taken.yaml", "unit.yaml"))
    wrong.write_text("- id: one\n")
    taken.write_text(GOOD.replace("id: cheap", "id: S01"))
    unit.write_text(GOOD.replace("unit: ns", "unit: frames/s"))
    cases: tuple[tuple[Path, tuple[Fact, ...]], ...] = (
        (tmp_path / "none.yaml", ("none.yaml",)),
        (wrong, ("wrong.yaml", "one", "'source'")),
        (taken, ("S01", "twice")),
        (unit, ("'frames/s'", "ns", "ms")),
    )
    for given, facts in cases:
        result = in_process("report", run, "--claims", given)
        assert_refused(result, *facts)
        assert len(result.stderr.splitlines()) == 1
    assert page.read_bytes() == before


def test_the_examples_of_the_page_are_files_of_claims() -> None:
    examples = re.findall(r"^```yaml claims\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    first, second = ([one.id for one in parse_claims(text, "docs/claims.md")] for text in examples)
    assert (first, second) == (["small-cost", "quick-answers", "virtio-pays"], ["disk-of-containers"])


def test_a_users_file_is_read_as_the_published_one_is(mine: Path) -> None:
    assert [one.id for one in load_claims(mine)] == ["cheap", "quick", "never"]


def test_every_published_claim_has_a_quotation_a_place_and_numbers() -> None:
    found = published_claims()
    assert len({one.id for one in found}) == 58
    assert {one.paper for one in found} == {one.paper for one in published_values()}
    for one in found:
        assert one.quotation, one.id
        assert one.source.startswith(("Section", "Table", "Figure")), one.id
        assert one.says.endswith("."), one.id
