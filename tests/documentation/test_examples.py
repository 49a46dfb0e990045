"""Every example of the README and the documentation does what its page says, as far as this machine can tell.

An experiment, or a part of one, is planned. A command line is taken by the parser, and run where it only reads. Python
runs. What a block is an example of stands after its language (CONTRIBUTING.md, "Write a page").
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import typer.testing
import yaml
from tests.support.commands import environment
from tests.support.examples import Block, blocks, commands_of, inline_commands, misunderstood, words_of
from tests.support.made_up_folder import write_run
from tests.support.made_up_run import Made, made_up_run
from tests.support.repository import ROOT

from virtoll.api.needs import parts_of
from virtoll.claims import parse_claims
from virtoll.cli import app
from virtoll.cli.claims import claimed_names
from virtoll.errors import UsageError, VirtollError
from virtoll.experiment.parse import load_experiment
from virtoll.pipeline.preview import catalogue, plan_of
from virtoll.report.exchange import FORMATS

KINDS = {
    "": {""},  # a terminal's text, a drawing, or a list of commands with what each does
    "console": {"", "elsewhere"},
    "sh": {"", "elsewhere"},
    "python": {"", "elsewhere"},
    "yaml": {"", "ci", "claims", "needs"},
    "json": {""},
    "latex": {""},
    "text": {""},
}
READING = {
    "advise",
    "claims",
    "export",
    "gate",
    "help",
    "history",
    "list",
    "pack",
    "plan",
    "query",
    "show",
    "unpack",
    "verify",
}
"""Commands that start no guest and are done in a moment."""
REST = {
    "name": "example",
    "question": "What is there?",
    "platforms": ["native", "native-again", "runc"],
    "blocks": 3,
    "workloads": ["superpi"],
}
"""What a part of an experiment is no example of."""
BLOCKS = [one for one in blocks() if not one.language.startswith("{")]


def of(*languages: str) -> list[Block]:
    """The blocks in these languages."""
    return [one for one in BLOCKS if one.language in languages]


def write(folder: Path, name: str, text: str) -> Path:
    """A file of this text."""
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def ci_lines(value: object) -> Iterator[str]:
    """Every line of a CI's file that starts Virtoll, wherever it stands in it."""
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from ci_lines(one)
    elif isinstance(value, str):
        yield from (line for line in value.splitlines() if line.startswith("virtoll "))


def lines_of(block: Block) -> list[str]:
    """The command lines of Virtoll's in any block that has some."""
    if block.language == "yaml":
        return list(ci_lines(yaml.safe_load(block.text))) if block.kind == "ci" else []
    return list(commands_of(block)) if block.language in {"", "console", "sh"} else []


def test_what_each_block_is_an_example_of_is_said() -> None:
    assert [
        f"{one.name}: {one.language} {one.kind}" for one in BLOCKS if one.kind not in KINDS.get(one.language, ())
    ] == []


def whole(block: Block) -> str:
    """An experiment of what a page shows of one: the rest of it is ``REST``, and the host to compare with."""
    shown = yaml.safe_load(block.text) or {}  # a comment alone
    if "name" in shown:
        return block.text
    platforms = shown.get("platforms", REST["platforms"])
    if "baseline" not in shown and not any("native" in str(one) for one in platforms):
        platforms = ["native", "native-again", *platforms]
    return yaml.safe_dump({**REST, **shown, "platforms": platforms}, sort_keys=False)


def test_an_experiment_of_a_page_can_be_planned(tmp_path: Path) -> None:
    """Also one with hosts or products that this machine has not: a plan asks none of them."""
    shown = [block for block in of("yaml") if not block.kind]
    assert len(shown) > 15
    refused = {}
    for block in shown:
        file = write(tmp_path, "example.yaml", whole(block))
        try:
            assert plan_of(load_experiment(file, catalogue())).trials, block.name
        except UsageError as error:
            refused[block.name] = str(error)
    assert refused == {}


def test_claims_and_needs_of_a_page_are_taken() -> None:
    for block in of("yaml"):
        if block.kind == "claims":
            assert parse_claims(block.text, block.name, claimed_names())
        if block.kind == "needs":
            assert parts_of(yaml.safe_load(block.text))


def test_a_command_line_of_a_page_is_understood() -> None:
    lines = [(block.name, line) for block in BLOCKS for line in lines_of(block)]
    assert len(lines) > 60
    wrong = [f"{name}: {line}: {why}" for name, line in lines if (why := misunderstood(words_of(line)))]
    assert wrong == []


def test_a_command_in_a_sentence_is_understood() -> None:
    """It may leave out what a sentence does not need: a run, or the value of its last option."""
    found = [(page, line, misunderstood(words_of(line))) for page, line in inline_commands()]
    assert len(found) > 80
    left_out = re.compile(r"^Missing parameter: |requires an argument\.$")
    assert [one for one in found if one[2] and not left_out.search(one[2])] == []


def test_a_wrong_command_line_is_found() -> None:
    assert misunderstood(["run", "quick", "--frobnicate"])
    assert misunderstood(["nested", "upp", "xen"])
    assert not misunderstood(words_of("virtoll nested up xen  # a comment"))


def test_what_ci_exports_is_a_form_that_there_is() -> None:
    lines = [line for block in of("yaml") if block.kind == "ci" for line in lines_of(block)]
    assert {line.split()[1] for line in lines} >= {"run", "export"}
    named = [form for line in lines for form in re.findall(r"--format (\S+)", line)]
    assert named
    assert [form for form in named if form not in {*FORMATS, "parquet"}] == []


def test_a_target_that_a_page_names_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for block in of("", "console", "sh"):
        named = re.findall(r"^(?:\$ )?make ([a-z-]+)", block.text, re.MULTILINE)
        assert [one for one in named if one not in targets] == [], block.name


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs with a made-up one, of what pages ask for: small, so that it is read in a moment."""
    folder = tmp_path_factory.mktemp("runs")
    asked: list[tuple[str, dict[str, int], float]] = [("forward", {"frame_size_bytes": 64}, 1e6), ("superpi", {}, 3e7)]
    factors = {"native": 1.0, "native-again": 1.0, "runc": 2.0, "qemu-tcg": 40.0}
    made = [
        Made(label, workload, parameters, value=size / factor if workload == "forward" else size * factor)
        for workload, parameters, size in asked
        for label, factor in factors.items()
    ]
    write_run(folder / "20261126T120000Z-quick-1a2b", made_up_run({label: {} for label in factors}, made))
    return folder


def files_for(line: str, page: Path, folder: Path) -> None:
    """The user's files that a line names, as the page has them: experiments, after these options claims or needs."""
    words = words_of(line)
    for option, word in zip(["", *words], words, strict=False):
        if word.endswith(".yaml"):
            kind = {"--claims": "claims", "--needs": "needs"}.get(option, "")
            own = [one.text for one in of("yaml") if one.page == page and one.kind == kind]
            whole = [one for one in own if kind or one.startswith("name:")]
            needs = yaml.safe_dump(["router 64B 200kpps loss<0.1%"])
            write(folder, word, (whole or [needs if kind == "needs" else yaml.safe_dump(REST)])[0])


def test_a_command_that_only_reads_ends_well(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a finished run: those that a reader copies from a console."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIRTOLL_RUNS", str(runs))
    monkeypatch.setenv("VIRTOLL_CACHE", str(tmp_path / "cache"))
    ended: dict[str, int] = {}
    for block in of("console"):
        for line in lines_of(block):
            words = words_of(line)
            if words[0] in READING and not block.kind and not any(word.isupper() for word in words):
                files_for(line, block.page, tmp_path)
                done = typer.testing.CliRunner().invoke(app, words)
                told = done.exception
                code = told.exit_code if isinstance(told, VirtollError) else done.exit_code
                assert code == 0 or words[0] == "gate", (block.name, line, done.output, told)
                ended[words[0]] = code
    assert ended.keys() >= {"advise", "claims", "export", "gate", "query"}
    assert ended["gate"] in {0, 3, 4}


def test_what_a_command_prints_for_programs_is_described(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys of docs/report-json.md, "Other commands", are those of its document or of the members of its list."""
    monkeypatch.setenv("VIRTOLL_RUNS", str(runs))
    text = (ROOT / "docs" / "report-json.md").read_text(encoding="utf-8").partition("\n## Other commands\n")[2]
    named = {"platform": "runc", "workload": "superpi", "experiment": "quick", "plan": "quick", "verify": "latest"}
    named["compare"] = "latest:runc latest:qemu-tcg"
    record = {"campaign": "c", "experiment": "quick", "blocks": 3, "created_realtime_ns": 1}
    (tmp_path / "campaign.json").write_text(json.dumps(record))
    named["status"] = str(tmp_path)
    rows = re.findall(r"^\| `([a-z ]+)` \| (.+) \|$", text, re.MULTILINE)
    assert len(rows) > 10
    for command, words in rows:
        asked = [word for one in command.split() if one in named for word in named[one].split()]
        given = [*command.split(), *asked, "--json"]
        document = json.loads(typer.testing.CliRunner().invoke(app, given).stdout)
        first = document[0] if isinstance(document, list) else document
        assert set(first) == set(re.findall(r"`([a-z_]+)`", words)), command


def test_python_for_elsewhere_is_python() -> None:
    for block in of("python"):
        compile(block.text, block.name, "exec")


def test_python_of_a_page_runs(runs: Path, tmp_path: Path) -> None:
    """The blocks of a page one after the other, in a folder of its own"""
    programs: Mapping[Path, list[str]] = {
        page: [one.text for one in of("python") if one.page == page and not one.kind]
        for page in {one.page for one in of("python")} - {ROOT / "docs" / "python.md"}
    }
    for page, own in programs.items():
        folder = tmp_path / page.stem
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", "\n".join(own)],
            cwd=folder,
            env=environment(VIRTOLL_RUNS=str(runs), VIRTOLL_CACHE=str(tmp_path / "cache")),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (page, done.stderr)
