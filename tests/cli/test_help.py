"""The top of the command line: help, its topics, and what shells are offered."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
from syrupy.assertion import SnapshotAssertion
from tests.support.commands import VIRTOLL, environment, in_process
from tests.support.facts import assert_refused
from tests.support.repository import ROOT
from typer.core import TyperArgument, TyperGroup

from virtoll import errors
from virtoll.cli import app, topics
from virtoll.cli.groups import USES, Commands, summary

SOURCE = ROOT / "src" / "virtoll"
NARROW = {"COLUMNS": "80"}


def every_command(group: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """All that help lists, groups too, with their names."""
    found = []
    for name, one in group.commands.items():
        if not one.hidden:
            found.append(((*path, name), one))
            found += every_command(one, (*path, name)) if isinstance(one, TyperGroup) else []
    return found


GROUP: Any = typer.main.get_command(app)
COMMANDS = every_command(GROUP)


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=lambda one: " ".join(one) if isinstance(one, tuple) else "")
def test_a_value_is_named_as_a_reader_gives_it(path: tuple[str, ...], command: Any) -> None:
    for one in command.params:
        if isinstance(one, TyperArgument) or not one.is_flag:
            assert one.metavar, f"{' '.join(path)} {one.name}: give a metavar"
            assert one.help, f"{' '.join(path)} {one.name}: give a help"


def test_each_command_has_one_whole_sentence_in_80_columns() -> None:
    shown = in_process("-h", changed=NARROW).stdout
    for (*group, name), command in COMMANDS:
        assert summary(command).endswith("."), name
        assert "..." not in summary(command)
        if not group:
            assert re.search(rf"^  {name} +{re.escape(summary(command))}$", shown, re.MULTILINE), name
    assert re.findall(r"^([A-Z].*):$", shown, re.MULTILINE) == ["Options", *USES]


def test_help_is_reached_by_all_its_ways() -> None:
    asked = [in_process(*way) for way in ((), ("-h",), ("--help",), ("help",))]
    assert [(one.returncode, one.stderr) for one in asked] == [(0, "")] * 4
    assert len({one.stdout for one in asked}) == 1
    below = [in_process(*way) for way in (("help", "image", "show"), ("image", "show", "-h"))]
    assert below[0].stdout == below[1].stdout
    group = in_process("list")
    assert (group.returncode, group.stdout) == (0, in_process("help", "list").stdout)


def test_no_hidden_command_is_in_the_help() -> None:
    hidden = {name for name, one in GROUP.commands.items() if one.hidden}
    assert "in-lab-run" in hidden
    assert not hidden & set(re.findall(r"^  (\S+)", in_process("-h").stdout, re.MULTILINE))


@pytest.mark.parametrize("words", [(), ("image", "show")], ids=" ".join)
def test_a_page_of_help(words: tuple[str, ...], snapshot: SnapshotAssertion) -> None:
    assert in_process("help", *words, changed=NARROW).stdout == snapshot


@pytest.mark.parametrize(
    ("names", "facts"),
    [
        (("nothing",), ("'nothing'", "run", "exit-codes")),
        (("image", "eat"), ("virtoll image", "'eat'", "build", "list", "show", "sbom")),
        (("run", "fast"), ("virtoll run", "'fast'")),
    ],
)
def test_help_on_an_unknown_command_is_refused(names: tuple[str, ...], facts: tuple[str, ...]) -> None:
    finished = in_process("help", *names)
    assert_refused(finished, *facts)
    assert finished.stdout == ""


def test_the_topics_have_all_codes_and_variables() -> None:
    codes, variables = in_process("help", "exit-codes").stdout, in_process("help", "environment").stdout
    assert [int(code) for code in re.findall(r"^  (\d+)$", codes, re.MULTILINE)] == [
        one.code for one in topics.EXIT_CODES
    ]
    assert re.findall(r"^  (\w+)$", variables, re.MULTILINE) == [one.name for one in topics.ENVIRONMENT]


def test_every_error_has_a_documented_exit_code() -> None:
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.VirtollError)]
    assert len(kinds) > 10
    assert {one.exit_code for one in kinds} <= {one.code for one in topics.EXIT_CODES}


def _variables_of(text: str) -> set[str]:
    """Virtoll's own variables, and whatever is asked of ``os.environ`` by a literal name."""
    found = set(re.findall(r"\bVIRTOLL_[A-Z_]+\b", text))
    for node in ast.walk(ast.parse(text if "os.environ" in text else "")):
        asked = node.args[0] if isinstance(node, ast.Call) and node.args else None
        if isinstance(asked, ast.Constant) and ast.unparse(node).startswith("os.environ."):
            found.add(str(asked.value))
    return found


def test_no_variable_is_undocumented() -> None:
    known = {one.name for one in topics.ENVIRONMENT} | topics.INTERNAL
    named = set()
    for path in SOURCE.rglob("*.py"):
        if path.name not in {"topics.py", "help.py"}:
            named |= _variables_of(path.read_text(encoding="utf-8"))
    assert named - known == set()
    assert {one for one in known if one.startswith("VIRTOLL_")} <= named, "what nothing reads is documented"


def offered(*words: str, runs: Path, shell: str = "bash") -> list[str]:
    """What a shell is told after these words, the last of which is begun."""
    line = " ".join(["virtoll", *words])
    asked = {
        "_VIRTOLL_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words)),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    finished = in_process(runs=runs, changed=asked)
    assert (finished.returncode, finished.stderr) == (0, "")
    return finished.stdout.split("\n")[:-1] if finished.stdout.strip() else []


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs folder with two runs that have a manifest, for their names alone."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("20260101T000000Z-a-0001", "20260201T000000Z-b-0002"):
        (folder / name).mkdir()
        (folder / name / "manifest.json").write_text("{}")
    return folder


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("run", "qui"), ["quick"]),
        (("resume", ""), ["latest", "20260201T000000Z-b-0002", "20260101T000000Z-a-0001"]),
        (("run", "models", "--platform", "model-c"), ["model-cost-25", "model-clock-2"]),
        (("run", "models", "--only", "model-loss-1:forw"), ["model-loss-1:forward"]),
        (("plan", "quick", "--workload", "su"), ["superpi"]),
        (("reproduce", "ma"), ["mattos2012"]),
        (("image", "show", "deb"), ["debug"]),
        (("shell", "runs"), ["runsc"]),
        (("show", "platform", "qemu"), ["qemu-tcg", "qemu-kvm"]),
        (("show", "workload", "net"), ["netperf-tcp-stream", "netperf-tcp-rr"]),
        (("new", "--workload", "super"), ["superpi"]),
        (("run", "--si"), ["--size"]),
        (("explain", "latest", "--platform", ""), []),  # its manifest cannot be read: nothing is said of it
    ],
    ids=" ".join,
)
def test_a_shell_is_offered_what_fits(words: tuple[str, ...], expected: list[str], runs: Path) -> None:
    assert offered(*words, runs=runs) == expected


def test_fish_and_zsh_are_offered_the_same_with_its_words(runs: Path) -> None:
    meaning = summary(GROUP.commands["verify"])
    (line,) = offered("verif", runs=runs, shell="fish")
    assert line.startswith(f"verify\t{meaning[:20]}")
    (line,) = offered("verif", runs=runs, shell="zsh")
    assert line.startswith(f'_arguments \'*: :(("verify":"{meaning[:20]}')


def test_a_file_is_offered_where_its_folder_was_typed(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("")
    assert offered("plan", f"{tmp_path}/m", runs=runs) == [f"{tmp_path}/mine.yaml"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell: str) -> None:
    finished = in_process("completion", shell)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert f"_VIRTOLL_COMPLETE=complete_{shell}" in finished.stdout
    checker = shutil.which(shell)
    if checker is not None:
        subprocess.run([checker, "-n"], input=finished.stdout, text=True, check=True)


def test_another_shell_is_refused() -> None:
    finished = in_process("completion", "tcsh")
    assert_refused(finished, "'tcsh'", "bash", "zsh", "fish")
    assert finished.stdout == ""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("virtoll run qui", ["quick"]),
        ("virtoll run models --only model-loss-1:forw", ["forward"]),  # bash has split it at the colon
        ("virtoll run --size=pap", ["paper"]),
        ("virtoll help exit", ["exit-codes"]),
        ("virtoll report qui", []),
        ("virtoll run models --only *:forw", ["forward"]),
    ],
)
def test_the_real_bash_completes(line: str, expected: list[str], tmp_path: Path) -> None:
    """By the script, with Bash's own variables set as at a tabulator."""
    caller = tmp_path / "virtoll"
    caller.write_text(f'#!/bin/sh\nexec {shlex.join(VIRTOLL)} "$@"\n')
    caller.chmod(0o755)
    program = f"""
{in_process("completion", "bash").stdout}
COMP_LINE='{line}' COMP_POINT={len(line)}
_virtoll_completion '{caller}'
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    (tmp_path / "quick-`touch y`").mkdir()
    (tmp_path / "quick-`touch y`" / "manifest.json").write_text("{}")
    (tmp_path / "*:forward`touch y`").write_text("")  # as a pattern it would be what a word with a * stands for
    answer = subprocess.run(
        ["bash", "--norc", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=environment(VIRTOLL_RUNS=str(tmp_path)),
        cwd=tmp_path,
    )
    assert answer.stdout.split() == expected, answer.stderr


NOT_PLAIN = (
    "x`touch y`",
    "x$(touch y)",
    "x'y",
    "x y",
    "x;y",
    "x*",
    "x\\$(touch y)",
    "x\ny",
    "x|y",
    "~x",
    "-x",
    "x\x1by",
)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_name_that_a_shell_would_run_is_not_offered(shell: str, tmp_path: Path) -> None:
    for name in (*NOT_PLAIN, "x-1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text("{}")
        (tmp_path / f"{name}.yaml").write_text("")
    assert [one.strip('"') for one in offered("report", "x", runs=tmp_path, shell=shell) if "touch" in one] == []
    found = "".join(offered("report", "x", runs=tmp_path, shell=shell))
    assert "x-1" in found
    assert not [name for name in NOT_PLAIN if name in found]
    files = "".join(offered("plan", f"{tmp_path}/x", runs=tmp_path, shell=shell))
    assert f"{tmp_path}/x-1.yaml" in files
    assert not [name for name in NOT_PLAIN if f"{name}.yaml" in files]


def test_a_group_is_one_of_ours() -> None:
    """So that a new one has the same help, also by -h."""
    groups = [one for _, one in COMMANDS if isinstance(one, TyperGroup)]
    assert groups
    assert all(isinstance(one, Commands) for one in groups)
