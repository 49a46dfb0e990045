#!/usr/bin/env python3
"""Changes the Python that computes what readers believe, one place at a time, and has the tests find each change.

`make mutants-python` (mutmut; hours). `FILES` names each file with the tests that are to find its changes. A change of
prose is not tried. mutmut knows no changes of constants of a module, of class bodies and of functions with a decorator.

`tools/mutants.toml` explains changes that no test can find, each with its reason. One that matches nothing is a
complaint. Prints a Markdown table by file, and each change that is left. Exit codes: 0, 1 where something is left.
"""

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build/mutants"
EXPLAINED = ROOT / "tools/mutants.toml"
_SKIPPED = 34  # mutmut's number for a change that is not tried
_LATE = {36, 24, -24, 152}  # a test took far longer than without the change
_FOUND = {1, 3, 255, *_LATE}
_PATIENCE_SECONDS = 20  # what a test may take longer, where it took too long at first: the machine may have been busy
_PROSE = re.compile(r'"[^"]* [^"]*"')


@dataclass(frozen=True)
class Tried:
    """What is tried of a file: the tests, of `tests/`, that are to find its changes.

    `functions`: those that are meant; none: all.
    """

    tests: tuple[str, ...]
    functions: frozenset[str] = frozenset()


def _whole(*tests: str) -> Tried:
    return Tried(tests)


FILES: Mapping[str, Tried] = {
    "agent/client": _whole("test_agent_client_played.py"),
    "agent/lines": _whole("test_agent_lines.py"),
    "agent/messages": _whole("test_messages.py"),
    "agent/path_counters": _whole("test_path_counters.py"),
    "agent/pi": _whole("test_pi.py"),
    "agent/timekeeper": _whole("test_timekeeper.py"),
    "stats/across_hosts": _whole("stats/test_across_hosts.py"),
    "stats/analysis": _whole("stats/test_whole_analysis.py"),
    "stats/between_runs": _whole("stats/test_between_runs_by_hand.py"),
    "stats/bounded_rates": _whole("stats/test_bounded_rates.py"),
    "stats/bounds": _whole("stats/test_bounds.py"),
    "stats/cautions": _whole("stats/test_cautions.py"),
    "stats/caveats": _whole("stats/test_brands.py"),
    "stats/ceilings": _whole("stats/test_ceilings.py"),
    "stats/change_points": _whole("stats/test_change_points_by_hand.py"),
    "stats/changes": _whole("stats/test_changes.py"),
    "stats/clocks": _whole("stats/test_clocks.py"),
    "stats/comparability": _whole("stats/test_comparability.py"),
    "stats/compare": _whole("stats/test_verdicts.py", "stats/test_shares.py"),
    "stats/conditional_throughput": _whole("stats/test_goals_found.py"),
    "stats/consolidation": _whole("stats/test_consolidation_by_hand.py"),
    "stats/cpu_over_parameters": _whole("stats/test_over_parameters.py"),
    "stats/detectable": _whole("stats/test_detectable.py"),
    "stats/drift": _whole("stats/test_drift.py"),
    "stats/equivalence": _whole("stats/test_equivalence.py"),
    "stats/explanation": _whole("stats/test_explanation.py"),
    "stats/fitness": _whole("stats/test_fitness.py"),
    "stats/foreseen": _whole("stats/test_remaining.py"),
    "stats/frame_cost": _whole("stats/test_frame_cost_by_hand.py"),
    "stats/guests": _whole("stats/test_guests.py"),
    "stats/guests_at_once": _whole("stats/test_guests_at_once.py"),
    "stats/history": _whole("stats/test_series_of_runs.py"),
    "stats/hops": _whole("stats/test_hops.py"),
    "stats/intervals": _whole("stats/test_intervals.py"),
    "stats/isolation": _whole("stats/test_isolation.py"),
    "stats/listed_rates": _whole("stats/test_listed_rates_by_hand.py"),
    "stats/looks": _whole("stats/test_looks.py"),
    "stats/noise": _whole("stats/test_noise.py"),
    "stats/observer": _whole("stats/test_observer.py"),
    "stats/order": _whole("stats/test_order.py"),
    "stats/over_parameters": _whole("stats/test_over_parameters.py"),
    "stats/papers": _whole("stats/test_papers.py"),
    "stats/pause_frames": _whole("stats/test_pause_frames.py"),
    "stats/ranking": _whole("stats/test_ranking.py"),
    "stats/reach": _whole("stats/test_reach.py"),
    "stats/remaining": _whole("stats/test_remaining.py"),
    "stats/routers_beside": _whole("stats/test_routers_beside.py"),
    "stats/scaling": _whole("stats/test_scaling.py"),
    "stats/states": _whole("stats/test_states.py"),
    "stats/summaries": _whole("stats/test_summaries.py"),
    "stats/sweeps": _whole("stats/test_sweeps.py"),
    "stats/validation": _whole("test_validation.py"),
    "stats/values": _whole("stats/test_values.py", "stats/test_rates.py", "stats/test_wire_by_hand.py"),
    "stats/verdicts": _whole("stats/test_verdicts.py"),
    "stats/wire": _whole("stats/test_wire_by_hand.py"),
    "workloads/traffic": Tried(("test_books.py",), frozenset(("unbalanced", "_unbalanced", "_late"))),
}


@dataclass(frozen=True)
class Change:
    """One mutant: in which function it is, the lines before and after, and what came of it; None: not tried."""

    where: str
    before: str
    after: str
    found: bool | None

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from others, whatever else is edited."""
        return self.where, self.before, self.after

    @property
    def is_prose(self) -> bool:
        """Whether only words for people differ."""
        return _PROSE.sub('" "', self.before) == _PROSE.sub('" "', self.after)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """For mutmut's runs, of which this file is a plugin: quick modules first, since the first failure decides.

    A module stays in one piece, for what its tests share is made once.
    """
    kept = Path("mutmut-stats.json")
    if kept.is_file():
        took = json.loads(kept.read_text())["duration_by_test"]
        whole: Counter[Path] = Counter()
        for item in items:
            whole[item.path] += took.get(item.nodeid, 0.0)
        items.sort(key=lambda item: (whole[item.path], str(item.path), took.get(item.nodeid, 0.0)))


def main() -> int:
    """Each file that was asked for, then the table of all that are known."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="as stats/bounds; without any, all")
    parser.add_argument("--children", type=int, default=1, help="changes tried side by side")
    parser.add_argument("--left", action="store_true", help="try only what the last run did not find")
    parser.add_argument("--table", action="store_true", help="tell what the last runs found, and try nothing")
    asked = parser.parse_args()
    if unknown := set(asked.files) - FILES.keys():
        parser.error(f"{min(unknown)} is no file of these: {', '.join(FILES)}")
    for file in [] if asked.table else asked.files or FILES:
        _try(file, asked.children, known=_known(file) if asked.left else {})
    return _told(asked.files or FILES)


def _known(file: str) -> dict[tuple[str, str, str], bool | None]:
    """What the last run found, by change; empty before the first."""
    if not _results(file).is_file():
        return {}
    changes = [Change(**one) for one in json.loads(_results(file).read_text())]
    return {change.key: change.found for change in changes}


def _try(file: str, children: int, known: Mapping[tuple[str, str, str], bool | None]) -> None:
    """All that is to be tried of one file but what is known to be found; what came of it is kept in `build/mutants`."""
    WORK.mkdir(parents=True, exist_ok=True)
    for folder in ("src", "tests", "tools", "benches"):
        if not (WORK / folder).is_symlink():
            (WORK / folder).symlink_to(ROOT / folder)
    source = f"src/virtoll/{file}.py"
    _configure(file, source, patience_seconds=1)
    for old in ("mutmut-stats.json", f"{source}.meta", source):
        (WORK / "mutants" / old).unlink(missing_ok=True)
    program = (
        "from pathlib import Path; import mutmut.__main__ as it; Path('mutants').mkdir(exist_ok=True);"
        f"it.copy_src_dir(); it.copy_also_copy_files(); it.setup_source_paths(); it.create_mutants({children})"
    )
    _run([sys.executable, "-c", program])
    meta = WORK / "mutants" / f"{source}.meta"
    whole = json.loads(meta.read_text())
    for name, change in _changes(source, whole["exit_code_by_key"]):
        tried = _is_meant(file, change) and not known.get(change.key)
        whole["exit_code_by_key"][name] = None if tried else _SKIPPED
    meta.write_text(json.dumps(whole))
    run: list[str | Path] = [Path(sys.executable).parent / "mutmut", "run", "--max-children", str(children)]
    _run(run)
    whole = json.loads(meta.read_text())
    if late := [name for name, outcome in whole["exit_code_by_key"].items() if outcome in _LATE]:
        whole["exit_code_by_key"] |= dict.fromkeys(late)
        meta.write_text(json.dumps(whole))
        _configure(file, source, _PATIENCE_SECONDS)
        _run(run)
    outcomes = json.loads(meta.read_text())["exit_code_by_key"]
    meant = [change for _, change in _changes(source, outcomes) if _is_meant(file, change)]
    kept = [asdict(replace(change, found=known.get(change.key) or change.found)) for change in meant]
    _results(file).write_text(json.dumps(kept, indent=1, ensure_ascii=False))


def _configure(file: str, source: str, patience_seconds: int) -> None:
    """What mutmut reads: one file is changed, its tests are run, and each may take so much longer than without."""
    (WORK / "pyproject.toml").write_text(
        (ROOT / "pyproject.toml").read_text()
        + f"""
[tool.mutmut]
source_paths = ["src"]
only_mutate = ["{source}"]
also_copy = ["tools", "benches"]
pytest_add_cli_args = ["-p", "tools.mutants", "--numprocesses=0"]
pytest_add_cli_args_test_selection = {json.dumps([f"tests/{one}" for one in FILES[file].tests])}
timeout_multiplier = 1.5
timeout_constant = {patience_seconds}
track_dependencies = false
on_dependency_change = "ignore"
"""
    )


def _is_meant(file: str, change: Change) -> bool:
    functions = FILES[file].functions
    return not change.is_prose and (not functions or change.where.rpartition(".")[2] in functions)


def _results(file: str) -> Path:
    return WORK / f"{file.replace('/', '-')}.json"


def _run(argv: list[str | Path]) -> None:
    environment = {"VIRTOLL_AGENT": str(ROOT / "build/virtoll-agent"), **os.environ}
    done = subprocess.run(argv, cwd=WORK, env=environment, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}")


def _changes(source: str, outcomes: Mapping[str, int | None]) -> Iterator[tuple[str, Change]]:
    """All of a file, by mutmut's names, with what came of each."""
    spans = json.loads((WORK / "mutants" / f"{source}.spans").read_text())["spans"]
    lines = (WORK / "mutants" / source).read_text().splitlines()
    for name, outcome in outcomes.items():
        mutant = name.rpartition(".")[2]
        function = mutant.partition("__mutmut_")[0]
        before, after = (
            [line.strip().replace(one, function) for line in lines[spans[one][0] - 1 : spans[one][1]]]
            for one in (f"{function}__mutmut_orig", mutant)
        )
        told = [line for line in difflib.ndiff(before, after) if line[:1] in "+-"]
        removed, added = (" ".join(line[2:] for line in told if line[0] == sign) for sign in "-+")
        where = f"{name.rpartition('.')[0]}.{'.'.join(filter(None, re.split('^x_|ǁ|^x', function)))}"
        yield name, Change(where, removed, added, None if outcome == _SKIPPED else outcome in _FOUND)


def _told(files: Iterable[str]) -> int:
    """Print table and what is left; 1 where something is, or where an explanation matches nothing."""
    reasons = {(one["where"], one["before"], one["after"]) for one in tomllib.loads(EXPLAINED.read_text())["explained"]}
    left: list[Change] = []
    unused: set[tuple[str, str, str]] = set()
    total: Counter[str] = Counter()
    print("| file | changes | tried | found | explained | left |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for file in files:
        if not _results(file).is_file():
            continue
        changes = [Change(**one) for one in json.loads(_results(file).read_text())]
        module = f"virtoll.{file.replace('/', '.')}."
        unused |= {key for key in reasons if key[0].startswith(module)} - {change.key for change in changes}
        count: Counter[str] = Counter(changes=len(changes))
        for change in changes:
            if change.found is not None:
                fate = "found" if change.found else "explained" if change.key in reasons else "left"
                count.update(("tried", fate))
                left += [change] if fate == "left" else []
        print(_row(f"`{file}`", count))
        total.update(count)
    print(_row("all", total))
    for change in left:
        print(f"\n{change.where}\n- {change.before}\n+ {change.after}")
    for where, before, after in sorted(unused):
        print(f"\n{EXPLAINED.name} explains a change that is not there: {where}\n- {before}\n+ {after}")
    return 1 if left or unused else 0


def _row(title: str, count: Counter[str]) -> str:
    numbers = [str(count[key]) for key in ("changes", "tried", "found", "explained", "left")]
    return f"| {' | '.join([title, *numbers])} |"


if __name__ == "__main__":
    sys.exit(main())
