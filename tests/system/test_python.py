"""Every Python that Virtoll starts ignores the current directory and the ``PYTHON*`` variables."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.commands import VIRTOLL, environment
from tests.support.experiments import fake, write
from tests.support.repository import ROOT

import virtoll
from virtoll.system.python import isolated, isolated_script

PACKAGE = Path(virtoll.__file__).parent
STARTER = PACKAGE / "system" / "python.py"
TOOLS = ROOT / "tools"
NAMES = ("json", "types", "signal", "re", "typing", "runpy", "sitecustomize", "usercustomize", "virtoll/__init__")


def arguments_with_python(file: Path) -> list[str]:
    """The places in a file where this Python is a word of an argument list, as ``file:line``."""
    text = file.read_text(encoding="utf-8")
    return [
        f"{file}:{node.lineno}"
        for node in ast.walk(ast.parse(text if "executable" in text else ""))
        if isinstance(node, ast.List | ast.Tuple)
        and any(isinstance(word, ast.Attribute) and word.attr == "executable" for word in node.elts)
    ]


def modules_without_isolation(file: Path) -> list[str]:
    """The argument lists of a file that say ``python -m`` and not ``-I``, as ``file:line``."""
    places = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.List | ast.Tuple) or not node.elts:
            continue
        words = [word.value for word in node.elts if isinstance(word, ast.Constant)]
        starts_python = not isinstance(node.elts[0], ast.Constant | ast.Starred)
        if "-m" in words and "-I" not in words and starts_python:
            places.append(f"{file}:{node.lineno}")
    return places


def test_one_function_starts_python() -> None:
    places = [place for file in PACKAGE.rglob("*.py") for place in arguments_with_python(file)]
    assert places
    assert {place.rpartition(":")[0] for place in places} == {str(STARTER)}


def test_no_other_module_starts_processes_of_python() -> None:
    texts = {file: file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py")}
    assert [str(file) for file, text in texts.items() if "multiprocessing" in text or "ProcessPool" in text] == []


def test_tools_start_modules_in_isolation() -> None:
    assert [place for file in TOOLS.rglob("*.py") for place in modules_without_isolation(file)] == []


@pytest.mark.parametrize("line", ['run(["python3", "-m", "x"])', "run([python, '-m', 'venv'])"])
def test_the_scan_sees_a_list_without_isolation(line: str, tmp_path: Path) -> None:
    file = tmp_path / "tool.py"
    file.write_text(line, encoding="utf-8")
    assert bool(modules_without_isolation(file)) == ("[python," in line)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder in which each module that Python would import notes that it was."""
    folder = tmp_path / "hostile"
    for name in NAMES:
        file = folder / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"open({str(tmp_path / 'executed')!r}, 'a').write(__name__ + ' ')", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"PYTHONPATH": "."},
        {"PYTHONPATH": ":"},
        {"PYTHONPATH": "HOSTILE"},
        {"PYTHONHOME": "HOSTILE"},
        {"PYTHONUSERBASE": "HOSTILE"},
        {"PYTHONINSPECT": "1"},
        {"PYTHONWARNINGS": "error"},
    ],
    ids=str,
)
def test_nothing_of_the_current_directory_or_the_variables_is_executed(
    variables: dict[str, str], hostile: Path, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text("import json, types, signal, sys; print(sys.argv[1:], sys.flags.isolated)", encoding="utf-8")
    chosen = {key: value.replace("HOSTILE", str(hostile)) for key, value in variables.items()}
    for command in (isolated("virtoll", "--version"), isolated_script(script, "--version")):
        finished = subprocess.run(
            command, cwd=hostile, env=environment(**chosen), capture_output=True, text=True, check=False
        )
        assert finished.returncode == 0, finished.stderr
        assert finished.stdout in (f"virtoll {virtoll.__version__}\n", "['--version'] 1\n")
    assert not (tmp_path / "executed").exists()


def test_a_run_from_a_hostile_directory_executes_nothing_of_it(hostile: Path, tmp_path: Path) -> None:
    experiment = write(tmp_path, platforms=[fake("a"), fake("b")], baseline="a", blocks=2)
    starter = [str(Path(sys.executable).with_name("virtoll"))]
    variables = environment(VIRTOLL_STATE=str(tmp_path / "state"))
    measuring = ["campaign", "block", str(experiment), "--block", "1-2", "--into", str(tmp_path)]
    for words in (measuring, ["resume", str(tmp_path / "blocks-1-2")], ["clean"]):
        finished = subprocess.run(
            [*starter, *words], cwd=hostile, env=variables, capture_output=True, text=True, check=False
        )
        assert finished.returncode == 0, finished.stderr
    assert not (tmp_path / "executed").exists()


def test_a_module_that_was_started_by_name_leaves_the_current_directory(hostile: Path, tmp_path: Path) -> None:
    shutil.rmtree(hostile / "virtoll")
    for name in ("runpy", "types", "re", "typing", "sitecustomize", "usercustomize"):  # Python's own start needs these
        (hostile / f"{name}.py").unlink()
    (hostile / "yaml.py").write_text((hostile / "json.py").read_text(encoding="utf-8"), encoding="utf-8")
    (hostile / "json.py").unlink()
    (hostile / "signal.py").unlink()
    finished = subprocess.run(
        [*VIRTOLL, "plan", "quick"], cwd=hostile, env=environment(), capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert not (tmp_path / "executed").exists()


def test_the_package_itself_is_started_whichever_is_installed(tmp_path: Path) -> None:
    copy = tmp_path / "place" / "virtoll"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "bin"))
    (copy / "__init__.py").write_text("__version__ = 'of the copy'\n", encoding="utf-8")
    (tmp_path / "place" / "neighbour.py").write_text("import virtoll; print(virtoll.__version__)", encoding="utf-8")
    command = [sys.executable, "-I", str(copy / "system" / "python.py"), "neighbour"]
    finished = subprocess.run(command, cwd="/", env=dict(os.environ), capture_output=True, text=True, check=False)
    assert finished.stdout == "of the copy\n", finished.stderr


def test_packages_that_this_process_finds_elsewhere_are_found_last(hostile: Path, tmp_path: Path) -> None:
    """As where an environment module sets PYTHONPATH: what Virtoll needs may be there alone."""
    elsewhere, open_to_all = tmp_path / "elsewhere", tmp_path / "open"
    for folder in (elsewhere, open_to_all):
        folder.mkdir()
        (folder / f"only_{folder.name}.py").write_text("", encoding="utf-8")
    elsewhere.chmod(0o755)
    open_to_all.chmod(0o777)
    (elsewhere / "json.py").write_text((hostile / "json.py").read_text(encoding="utf-8"), encoding="utf-8")
    places = [str(elsewhere), str(open_to_all), str(hostile), "", "relative"]
    script = tmp_path / "script.py"
    script.write_text("import json, sys; print(json.dumps(sys.path))", encoding="utf-8")
    program = (
        "import subprocess, sys; from pathlib import Path; from virtoll.system.python import isolated_script\n"
        f"sys.path += {places}\n"
        f"print(subprocess.run(isolated_script(Path({str(script)!r})), capture_output=True, text=True).stdout)"
    )
    command = [sys.executable, "-I", "-c", program]
    finished = subprocess.run(command, cwd=hostile, env=environment(), capture_output=True, text=True, check=True)
    searched = json.loads(finished.stdout)
    assert searched[-1] == str(elsewhere)
    assert not {str(open_to_all), str(hostile), "", "relative"} & set(searched)
    assert not (tmp_path / "executed").exists()
