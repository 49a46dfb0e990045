"""Copies of the repository in which faults are put, and which test runs which line of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coverage import CoverageData
from tools.mutants import plugin

ROOT: Final = Path(__file__).resolve().parents[2]
PROGRAMS: Final = Path(sys.executable).parent
WORK: Final = ROOT / "build" / "mutants"
DATA: Final = WORK / "coverage"
TIMELINE: Final = WORK / "timeline.jsonl"
SHORT: Final = "not nested and not extended"
_START: Final = "import coverage\ncoverage.process_startup()\n"


def make_tree(name: str) -> Path:
    """A copy of all files of the repository as they are now, with what was built for it."""
    tree = WORK / name
    shutil.rmtree(tree, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for path in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / path).is_file() or (ROOT / path).is_symlink():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, tree / path, follow_symlinks=False)
    (tree / ".venv").symlink_to(ROOT / ".venv")
    (tree / "build").mkdir()
    shutil.copy2(ROOT / "build" / "virtoll-agent", tree / "build")
    identity = ("-c", "user.name=mutants", "-c", "user.email=mutants@localhost")
    for command in (["init", "--quiet"], ["add", "--all"], [*identity, "commit", "--quiet", "--message", name]):
        subprocess.run(["git", *command], cwd=tree, check=True)
    return tree


def _environment(tree: Path) -> dict[str, str]:
    """In which Python finds the package of the tree first."""
    return {**os.environ, "PYTHONPATH": str(tree / "src")}


def pytest_in(
    tree: Path,
    arguments: Sequence[str],
    *,
    variables: Mapping[str, str] | None = None,
    deadline_seconds: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run pytest in a tree."""
    environment = {**_environment(tree), **(variables or {})}
    command: list[str | Path] = [PROGRAMS / "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=deadline_seconds
    )


def write_tables(tree: Path) -> None:
    """What `make tables` writes, from a tree's own code."""
    subprocess.run([sys.executable, "tools/tables.py"], cwd=tree, env=_environment(tree), check=True)


def types_fit(tree: Path) -> bool:
    """Whether mypy finds nothing in a tree's package."""
    done = subprocess.run([PROGRAMS / "mypy", "src"], cwd=tree, capture_output=True, check=False)
    return done.returncode == 0


def measure_coverage(tests: Sequence[str], workers: int) -> None:
    """Run these tests, or all, labs included, and store which lines each runs; tests that fail there count too."""
    tree = make_tree("covered")
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    TIMELINE.unlink(missing_ok=True)
    configuration = tree / "coveragerc"
    configuration.write_text(
        "[run]\n"
        f"source = {tree / 'src' / 'virtoll'}\n"
        f"data_file = {DATA / 'data'}\n"
        "parallel = true\n"
        f"context = ${{{plugin.TEST_VARIABLE}-}}\n"
    )
    (tree / "src" / "sitecustomize.py").write_text(_START)
    shutil.copy2(Path(plugin.__file__), tree / "src" / "mutant_coverage.py")
    variables = {
        "COVERAGE_PROCESS_START": str(configuration),
        "PYTEST_PLUGINS": "mutant_coverage",
        "VIRTOLL_TEST_TIMELINE": str(TIMELINE),
    }
    for arguments in (
        ["-m", f"not inside and {SHORT}", f"--numprocesses={workers}", "--dist=worksteal"],
        ["-m", f"inside and {SHORT}"],
    ):
        print(pytest_in(tree, [*arguments, *tests], variables=variables).stdout[-2000:], flush=True)
    subprocess.run(
        [PROGRAMS / "coverage", "combine", f"--rcfile={configuration}", "--quiet", str(DATA)],
        check=True,
        cwd=DATA,
    )


@dataclass(frozen=True)
class Runner:
    """A test that runs a line, whether it runs in a lab, and how many seconds it took."""

    test: str
    in_lab: bool
    seconds: float


class Coverage:
    """Which tests run which lines, as `measure_coverage` stored it."""

    def __init__(self) -> None:
        self._data = CoverageData(str(DATA / "data"))
        self._data.read()
        self._seconds: dict[str, float] = {}
        self._in_lab: set[str] = set()
        for line in TIMELINE.read_text(encoding="utf-8").splitlines():
            phase = json.loads(line)
            test = phase["test"]
            self._seconds[test] = self._seconds.get(test, 0.0) + phase["stop"] - phase["start"]
            if phase["lane"].startswith("lab "):
                self._in_lab.add(test)

    def runners(self, file: str, lines: tuple[int, int] | None = None) -> list[Runner]:
        """The tests that run one of these lines of a file, or any line of it, quick ones first."""
        measured = WORK / "covered" / "src" / "virtoll" / file
        by_line = self._data.contexts_by_lineno(str(measured))
        if lines is None:
            tests = self._tests_of(list(by_line.values()))
        else:
            tests = self._tests_of([by_line.get(line, []) for line in range(lines[0], lines[1] + 1)])
        runners = [Runner(test, test in self._in_lab, self._seconds[test]) for test in tests]
        return sorted(runners, key=lambda runner: (runner.seconds, runner.test))

    def modules(self, runners: Sequence[Runner]) -> list[Runner]:
        """The modules of these tests, each with the seconds of all its tests, quick ones first."""
        in_lab = {runner.test.partition("::")[0]: runner.in_lab for runner in runners}
        seconds = dict.fromkeys(in_lab, 0.0)
        for test, taken in self._seconds.items():
            module = test.partition("::")[0]
            if module in seconds:
                seconds[module] += taken
        found = (Runner(module, in_lab[module], taken) for module, taken in seconds.items())
        return sorted(found, key=lambda runner: (runner.seconds, runner.test))

    def _tests_of(self, contexts: Sequence[Sequence[str]]) -> set[str]:
        """Coverage joins a process's own context and that of its test by a bar. Tests run tests of their own, too."""
        parts = {part for line in contexts for context in line for part in context.split("|")}
        return parts & self._seconds.keys()
