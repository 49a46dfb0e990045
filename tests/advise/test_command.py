"""``virtoll advise`` as a person starts it: words, JSON, the experiment that ``virtoll plan`` takes, and bad input."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from rich.cells import cell_len
from tests.support import experiments
from tests.support.commands import in_process
from tests.support.experiments import fake
from tests.support.facts import assert_facts, assert_refused

from virtoll.advise import Answer
from virtoll.report.advice import file_text
from virtoll.system.printable import printable

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two models."""
    base = tmp_path_factory.mktemp("advise")
    file = experiments.write(base, platforms=[fake("model"), fake("slow", cost=1.5)], baseline="model", blocks=3)
    assert in_process("run", file, "--into", base / "run").returncode == 0
    return base / "run"


def test_the_advice_is_words_of_80_columns_and_the_same_as_json(run: Path) -> None:
    printed = in_process("advise", run, "--need", "superpi duration<1s", changed={"COLUMNS": "80"})
    assert printed.returncode == 0, printed.stderr
    lines = printed.stdout.splitlines()
    assert lines[0] == "need: superpi duration<1s"
    assert_facts(printed.stdout, "model", "slow", Answer.MEETS.value)
    assert [line for line in lines if len(line) > 80] == []
    told = json.loads(in_process("advise", run, "--need", "superpi duration<1s", "--json").stdout)
    assert told["needs"] == ["superpi duration<1s"]
    assert {one["platform"]: one["answer"] for one in told["platforms"]} == dict.fromkeys(
        ("model", "slow"), Answer.MEETS.value
    )
    parts = {"platform", "answer", "alone", "with_neighbours", "guests", "caveat"}  # as docs/report-json.md names them
    assert set(told["platforms"][0]) == parts
    (finding,) = told["platforms"][0]["alone"][0]["findings"]
    assert finding["margin"]["times"] >= finding["margin"]["at_least"] > 1
    assert finding["blocks"] == 3


def test_what_was_not_measured_comes_with_an_experiment_that_runs(run: Path, tmp_path: Path) -> None:
    asked = in_process("advise", run, "--need", "router 64B 1kpps loss<0.1%", "--json")
    assert asked.returncode == 0, asked.stderr
    told = json.loads(asked.stdout)
    assert {one["answer"] for one in told["platforms"]} == {Answer.NOT_MEASURED.value}
    experiment = tmp_path / "advise.yaml"
    experiment.write_text(told["experiments"][0]["text"], encoding="utf-8")
    planned = in_process("plan", experiment)
    assert planned.returncode == 0, planned.stderr
    assert "forward" in planned.stdout
    assert in_process("run", experiment, "--into", tmp_path / "run").returncode == 0
    answered = json.loads(
        in_process("advise", tmp_path / "run", "--need", "router 64B 1kpps loss<0.1%", "--json").stdout
    )
    assert {one["answer"] for one in answered["platforms"]} == {Answer.MEETS.value}
    shown = in_process("advise", run, "--need", "router 64B 1kpps loss<0.1%").stdout
    assert told["experiments"][0]["text"] in shown


@pytest.mark.parametrize("name", ["plain", "x" * 63, "漢字の名前" * 12, "steers\x1b[31ma\x07terminal\u202e"])
def test_the_text_of_an_experiment_is_narrow_and_holds_any_name(name: str) -> None:
    document = {"name": "advise", "platforms": ["native", {"platform": "runc", "label": name}], "baseline": name}
    text = file_text(document)
    assert yaml.safe_load(text) == document
    assert text == printable(text)
    assert max(map(cell_len, text.splitlines())) <= 80
    assert ("{platform: runc" in text) is (name == "plain"), "what fits has as few lines as it can"


def test_a_long_word_of_a_question_is_folded_before_it() -> None:
    question = "Is this met: mariadb-oltp-outside transactions_per_second>1transactions/s?"
    text = file_text({"name": "advise", "question": question})
    assert yaml.safe_load(text)["question"] == question
    assert max(map(cell_len, text.splitlines())) <= 80


def test_what_no_experiment_tells_is_said_to_be_so(run: Path) -> None:
    told = json.loads(in_process("advise", run, "--need", "tcp throughput>1Mbit/s", "--json").stdout)
    _, guests = told["experiments"]
    assert guests["text"] is None
    assert guests["note"]


def test_needs_come_from_a_file_too(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "needs.yaml"
    file.write_text("- superpi duration<1s\n- oltp p99<20ms\n", encoding="utf-8")
    told = json.loads(in_process("advise", run, "--needs", file, "--need", "cpu duration<1s", "--json").stdout)
    assert told["needs"] == ["cpu duration<1s", "superpi duration<1s", "oltp p99<20ms"]


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        ([], ["--need"]),
        (["--need", "kettle duration<1s"], ["'kettle'", "superpi"]),
        (["--need", "superpi duration<1kettle"], ["'kettle'", "ns, us"]),
        (["--need", "superpi digits<1"], ["'digits'", "superpi", "duration"]),
        (["--needs", "nowhere.yaml"], ["nowhere.yaml"]),
    ],
)
def test_bad_input_is_one_line_and_code_2(run: Path, arguments: list[str], facts: list[str]) -> None:
    printed = in_process("advise", run, *arguments)
    assert_refused(printed, "virtoll:", *facts)
    assert printed.stdout == ""
    assert len(printed.stderr.splitlines()) == 1


@pytest.mark.parametrize("text", ["needs: 1\n", "[]\n", "- 1\n", "- [\n", "- &a [*a]\n"])
def test_a_file_of_needs_that_is_none_is_told(run: Path, tmp_path: Path, text: str) -> None:
    file = tmp_path / "needs.yaml"
    file.write_text(text, encoding="utf-8")
    assert_refused(in_process("advise", run, "--needs", file), file)


NEEDS = ["superpi duration<1s", "router 64B 1kpps loss<0.1%"]


@pytest.fixture(scope="module")
def needing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two models, whose experiment has needs: of one it measured nothing."""
    base = tmp_path_factory.mktemp("needing")
    models = [fake("model"), fake("slow", cost=1.5)]
    file = experiments.write(base, platforms=models, baseline="model", blocks=3, needs=NEEDS)
    printed = in_process("run", file, "--into", base / "run")
    assert printed.returncode == 0, printed.stderr
    need = f"need: {' + '.join(NEEDS)}\n"
    assert need in printed.stdout
    assert_facts(printed.stdout.partition(need)[2].partition("\n")[0], Answer.OPEN.value, "model, slow")
    return base / "run"


def page_of(run: Path) -> str:
    return (run / "report" / "index.html").read_text(encoding="utf-8")


def test_the_needs_of_an_experiment_are_kept_and_answered(needing: Path) -> None:
    manifest = json.loads((needing / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["experiment"]["needs"] == NEEDS
    assert in_process("report", needing).returncode == 0
    page = page_of(needing)
    assert '<section id="advice"' in page
    assert '<a href="#advice">Your need</a>' in page
    assert '<li><span data-platform="model">model</span>, <span data-platform="slow">slow</span>: superpi' in page
    assert "<summary>not measured" in page
    asked = json.loads(in_process("advise", needing, "--json").stdout)
    assert asked["needs"] == NEEDS
    assert json.loads(in_process("report", needing, "--json").stdout)["advice"] == asked


def test_a_need_of_the_report_replaces_the_experiments_needs(needing: Path) -> None:
    printed = in_process("report", needing, "--need", "superpi duration<1s")
    assert printed.returncode == 0, printed.stderr
    need = "need: superpi duration<1s\n"
    assert need in printed.stdout
    assert_facts(printed.stdout.partition(need)[2].partition("\n")[0], Answer.MEETS.value, "model, slow")
    page = page_of(needing)
    (section,) = page.split('<section id="advice"')[1:]
    section = section.split("</section>")[0]
    assert section.count(f'<td class="text wrap good">{Answer.MEETS.value}</td>') == 2
    assert_facts(section, "times", "at least", "3 blocks, 3 trials", "superpi duration&lt;1s?")


def test_without_needs_there_is_no_section_but_a_line_how_to_ask(run: Path) -> None:
    printed = in_process("report", run)
    assert printed.returncode == 0, printed.stderr
    assert "need:" not in printed.stdout
    assert '<section id="advice"' not in page_of(run)
    assert '--need "router' in page_of(run)
    assert json.loads(in_process("report", run, "--json").stdout)["advice"] is None


@pytest.mark.parametrize(
    ("needs", "facts"),
    [
        (["kettle duration<1s"], ["key 'needs'", "'kettle duration<1s'", "'kettle'"]),
        (["superpi digits<1"], ["key 'needs'", "'superpi digits<1'", "'digits'"]),
        ([1], ["key 'needs[0]'"]),
        ("superpi duration<1s", ["key 'needs'"]),
    ],
)
def test_a_wrong_need_of_an_experiment_is_told_when_it_is_read(tmp_path: Path, needs: object, facts: list[str]) -> None:
    file = experiments.write(tmp_path, platforms=[fake("model")], baseline="model", needs=needs)
    for printed in (in_process("plan", file), in_process("run", file, "--into", tmp_path / "run")):
        assert_refused(printed, file, *facts)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("needs", "facts"),
    [(["kettle boils<1s"], ["manifest.json", "experiment.needs", "'kettle boils<1s'"]), ([1], ["needs"])],
)
def test_a_need_of_a_run_that_cannot_be_understood_is_told(
    needing: Path, tmp_path: Path, needs: object, facts: list[str]
) -> None:
    copy = tmp_path / "run"
    shutil.copytree(needing, copy)
    manifest = json.loads((copy / "manifest.json").read_text(encoding="utf-8"))
    manifest["experiment"]["needs"] = needs
    (copy / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert_refused(in_process("report", copy), *facts)
