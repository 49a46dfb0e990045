"""Claims of a user's own: a file that is right is judged, and one that is wrong is told in one sentence."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from tests.support import experiments
from tests.support.commands import virtoll
from tests.support.experiments import fake
from tests.support.repository import ROOT

from virtoll.claims import Outcome, load_claims, parse_claims, published_claims
from virtoll.claims.names import unknown_name
from virtoll.cli.runs import claimed_names
from virtoll.errors import UsageError
from virtoll.reference.published import published_values

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
BOMB = "".join(f"- &{name} [{', '.join([f'*{chr(ord(name) - 1)}'] * 8)}]\n" for name in "bcdefghi")
TEST = "{says: is, workload: superpi, against: baseline, share: {at_least: 0.5}}"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two models."""
    base = tmp_path_factory.mktemp("claims")
    file = experiments.write(base, platforms=[fake("model"), fake("slow", cost=1.5)], baseline="model", blocks=3)
    assert virtoll("run", file, "--into", base / "run").returncode == 0
    return base / "run"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    file = tmp_path / "mine.yaml"
    file.write_text(GOOD)
    return file


def test_a_users_claims_are_judged_beside_a_run(run: Path, mine: Path) -> None:
    printed = virtoll("claims", run, "--claims", mine)
    assert printed.returncode == 0, printed.stderr
    lines = printed.stdout.splitlines()
    assert lines[0] == "cheap supported: The slow model computes at half of the model's speed or more."
    assert re.match(r"    slow, .*: 6\d(\.\d)? % of model \(6\d\S* to 6\d\S* %\)$", lines[3]), lines[3]
    assert any(line.startswith("quick refuted: ") for line in lines)
    assert "not measured: never: the run has no value of bzip2" in lines
    assert lines[-1] == "3 claims: 1 refuted, 1 supported, 1 not measured."
    document = json.loads(virtoll("claims", run, "--claims", mine, "--json").stdout)["claims"]
    assert [one["outcome"] for one in document] == ["supported", "refuted", "not measured"]
    (finding,) = document[0]["tests"][0]["findings"]
    assert finding["interval_low"] <= finding["estimate"] <= finding["interval_high"]
    assert document[0]["tests"][0]["asked"] == {"at_least": 0.5, "at_most": None}


def test_the_page_and_its_tables_have_the_ledger_with_a_users_claims_first(run: Path, mine: Path) -> None:
    reported = virtoll("report", run, "--claims", mine)
    assert reported.returncode == 0, reported.stderr
    assert re.search(r"^claims: 49 claims: .*1 supported.*'virtoll claims' has them$", reported.stdout, re.MULTILINE)
    page = (run / "report" / "index.html").read_text(encoding="utf-8")
    assert 'id="claim-quick"' in page
    assert "<b>&amp;</b> no more" not in page, "markup in a claim is text"
    assert "&lt;b&gt;" in page
    with (run / "report" / "tables" / "claims.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["claim"] for row in rows[:3]] == ["cheap", "quick", "never"]
    assert {row["outcome"] for row in rows[3:]} <= {str(one) for one in Outcome}
    with (run / "report" / "tables" / "claims_findings.csv").open(newline="", encoding="utf-8") as file:
        findings = list(csv.DictReader(file))
    own = next(row for row in findings if row["claim"] == "cheap")
    assert float(own["interval_low"]) <= float(own["estimate"]) <= float(own["interval_high"])
    lacking = next(row for row in findings if row["claim"] == "never")
    assert (lacking["estimate"], lacking["reason"]) == ("", "the run has no value of bzip2")
    assert virtoll("report", run).returncode == 0
    assert "claim-quick" not in (run / "report" / "index.html").read_text(encoding="utf-8")


def test_the_published_claims_are_chosen_by_paper(run: Path) -> None:
    document = json.loads(virtoll("claims", run, "--paper", "mattos2012", "--json").stdout)["claims"]
    assert [one["claim"]["id"] for one in document] == [f"M{number:02d}" for number in range(1, 12)]
    unknown = virtoll("claims", run, "--paper", "popek1974")
    assert unknown.returncode == 2
    assert "popek1974: no such study; choose one of: schlosser2011, mattos2012" in unknown.stderr


def one_claim(tests: str, more: str = "") -> str:
    """A file of one claim with these tests."""
    return f"- id: one\n  source: x\n  says: y\n{more}  tests: [{tests}]\n"


def changed(old: str, new: str) -> str:
    """A file of one claim whose test is right but for this."""
    assert old in TEST
    return one_claim(TEST.replace(old, new))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "the file must be a list of claims"),
        ("id: one\n", "the file must be a list of claims"),
        ("- [", "not valid YAML"),
        ("- just text\n", "claim number 1"),
        (one_claim(TEST).replace("id: one", "id: a b"), "claim a b: key 'id'"),
        ("- id: one\n  source: x\n  says: y\n", "claim one: key 'tests': is missing; add it"),
        (one_claim(""), "claim one: key 'tests'"),
        (one_claim(TEST, "  sagt: z\n"), "claim one: key 'sagt': not known"),
        (changed("workload", "werkload"), "claim one: key 'tests.0.werkload': not known"),
        (changed("at_least: 0.5", "at_least: 2, at_most: 1"), "'at_least' (2) is above 'at_most' (1)"),
        (
            changed("share: {at_least: 0.5}", "holds_for: all"),
            "give one of 'share', 'times_slower' and 'value', got none",
        ),
        (changed("against: baseline, ", ""), "'share' and 'times_slower' need 'against'"),
        (changed("says: is, ", ""), "claim one: key 'tests.0.says': is missing"),
        (changed("baseline", "{}"), "key 'tests.0.against': give what differs"),
        (changed("baseline", "{plattform: x}"), "key 'tests.0.against.plattform': not known"),
        (
            changed("says: is,", "says: is, where: {digits: {at_lest: 1}},"),
            "key 'tests.0.where.digits.at_lest': not known",
        ),
        (changed("says: is,", "says: is, where: {digits: next},"), "give it in 'against.where'"),
        (changed("says: is,", "says: is, platforms: {nic: fast},"), "key 'tests.0.platforms.nic': input should be"),
        (changed("share: {at_least: 0.5}", "times_slower: {at_least: 0}"), "above 0"),
        (one_claim(TEST) * 2, "claim one is there twice"),
        (changed("says: is,", "says: is, workload: masr,"), "line 4: key 'workload' is there twice"),
        (one_claim(TEST, "  note: !!int word\n"), "line 4: 'word' is read as int, and is none"),
        (one_claim(TEST, "  note: !!int x\n"), "line 4: 'x' is read as int"),
        (one_claim(TEST, '  note: "\\ud800"\n'), "line 4: '\\ud800' has half of a character"),
        (one_claim(TEST, "\tnote: x\n"), "line 4: not valid YAML: a tab stands where only spaces can"),
        (one_claim(TEST) + "---\n" + one_claim(TEST), "line 5: not valid YAML"),
        ("[" * 5000, "nested too deeply"),
        ("&a\n- *a\n", "line 1: an alias stands inside of what it is an alias of"),
        ("- &a [x, x, x, x, x, x, x, x]\n" + BOMB, "its aliases make it too large"),
        (one_claim(TEST, f"  note: {list(range(5000))}\n"), "key 'note': must be a text"),
        (changed("0.5", ".nan"), "key 'tests.0.share.at_least': input should be a finite number"),
        (changed("0.5", "1e400"), "key 'tests.0.share.at_least': input should be a finite number"),
        (changed("0.5", "true"), "key 'tests.0.share.at_least': give a number, and not true or false"),
        (changed("superpi", "[]"), "key 'tests.0.workload': must have at least 1"),
        (changed("says: is", "says: ''"), "key 'tests.0.says': must not be empty"),
        (changed("says: is,", "says: is, platforms: runc,"), "give 'baseline' or a mapping, such as {label: runc}"),
        (changed("baseline", "native"), "give 'baseline' or a mapping, such as {platforms: {label: native}}"),
        (changed("says: is,", "says: is, where: {digits: },"), "key 'tests.0.where': 'digits' has no value"),
        (
            changed("says: is,", "says: is, where: {digits: {at_least: 4, at_most: 2}},"),
            "key 'tests.0.where.digits': 'at_least' (4) is above 'at_most' (2)",
        ),
        ("- 7\n", "claim number 1: must be a mapping of keys, got 7"),
    ],
)
def test_a_file_that_is_wrong_is_told_in_one_sentence(text: str, complaint: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_claims(text, "mine.yaml")
    assert str(raised.value).startswith("mine.yaml: ")
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("superpi", "superpie", "key 'tests.0.workload': 'superpie' is not known; is it 'superpi'?"),
        ("says: is,", "says: is, metric: durations,", "key 'tests.0.metric': 'durations' is not known"),
        ("says: is,", "says: is, where: {digit: 4},", "key 'tests.0.where': 'digit' is not known; is it 'digits'?"),
        ("says: is,", "says: is, per: thread,", "key 'tests.0.per': 'thread' is not known"),
        ("says: is,", "says: is, platforms: {product: qemu},", "key 'tests.0.platforms.product': 'qemu' is not known"),
        ("baseline", "{platforms: {but_not: [{family: os}]}}", "'tests.0.against.platforms.but_not.family': 'os' is"),
        ("baseline", "{where: {beside_guest: 1}}", "key 'tests.0.against.where': 'beside_guest' is not known"),
    ],
)
def test_a_name_that_there_is_not_is_refused_and_what_is_near_told(old: str, new: str, complaint: str) -> None:
    assert parse_claims(changed("says: is", "says: is"), "mine.yaml", NAMES)
    with pytest.raises(UsageError) as raised:
        parse_claims(changed(old, new), "mine.yaml", NAMES)
    assert f"mine.yaml: claim one: {'key ' if complaint.startswith(chr(39)) else ''}{complaint}" in str(raised.value)


def test_the_papers_claims_name_only_what_there_is() -> None:
    assert {one.id: unknown_name(one, NAMES) for one in published_claims() if unknown_name(one, NAMES)} == {}


def test_anchors_and_merged_keys_are_read_as_yaml_has_them() -> None:
    text = one_claim("&first {says: is, workload: superpi, against: baseline, share: {at_least: 0.5}}")
    text = text.replace("}]", "}, {<<: *first, workload: masr}]")
    ((first, second),) = (one.tests for one in parse_claims(text, "mine.yaml", NAMES))
    assert (first.workload, second.workload) == ("superpi", "masr")
    assert second.share == first.share


def test_what_is_no_file_of_claims_is_told_before_it_is_read_whole(tmp_path: Path) -> None:
    large, latin = tmp_path / "large.yaml", tmp_path / "latin.yaml"
    large.write_text(one_claim(TEST) * 20_000)
    latin.write_bytes(b"- id: one\n  says: \xe9\n")
    for given, complaint in (
        (large, "is larger than 1 MiB"),
        (latin, "line 2: cannot be read as UTF-8; save it so"),
        (tmp_path, "cannot be read (Is a directory); give"),
        (Path("/dev/zero"), "cannot be read (It is a device or a pipe, and no file); give"),
    ):
        with pytest.raises(UsageError, match=re.escape(f"{given}: {complaint}")):
            load_claims(given)


def test_a_file_that_cannot_be_used_exits_with_2_and_leaves_the_report_alone(run: Path, tmp_path: Path) -> None:
    page = run / "report" / "index.html"
    before = page.read_bytes()
    wrong, taken, unit = (tmp_path / name for name in ("wrong.yaml", "taken.yaml", "unit.yaml"))
    wrong.write_text("- id: one\n")
    taken.write_text(GOOD.replace("id: cheap", "id: S01"))
    unit.write_text(GOOD.replace("unit: ns", "unit: frames/s"))
    for given, complaint in (
        (tmp_path / "none.yaml", "none.yaml: cannot be read"),
        (wrong, "wrong.yaml: claim one: key "),
        (taken, "claim S01 is there twice"),
        (unit, "what is read is in ns, and the claim gives 'frames/s'; give one of ns, "),
    ):
        refused = virtoll("report", run, "--claims", given)
        assert refused.returncode == 2, given
        assert complaint in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
    assert page.read_bytes() == before


def test_the_examples_of_the_page_are_files_of_claims() -> None:
    examples = re.findall(r"^```yaml claims\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    first, second = ([one.id for one in parse_claims(text, "docs/claims.md")] for text in examples)
    assert (first, second) == (["small-cost", "quick-answers", "virtio-pays"], ["disk-of-containers"])


def test_a_users_file_is_read_as_the_published_one_is(mine: Path) -> None:
    assert [one.id for one in load_claims(mine)] == ["cheap", "quick", "never"]


def test_every_published_claim_has_its_words_its_place_and_a_paper_with_numbers() -> None:
    found = published_claims()
    assert len({one.id for one in found}) == 46
    assert {one.paper for one in found} == {one.paper for one in published_values()}
    for one in found:
        assert one.quotation, one.id
        assert one.source.startswith(("Section", "Table", "Figure")), one.id
        assert one.says.endswith("."), one.id
