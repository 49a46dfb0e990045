#!/usr/bin/env python3
"""Changes the Python that computes what readers believe, one place at a time, and has the tests find each change.

`make mutants-python` (mutmut, `[tool.mutmut]` in pyproject.toml; hours, and it goes on where it was interrupted). Files
of `WHOLE` are taken whole, of the others a share that is drawn by the change itself and `--seed`: an edit elsewhere
moves no other change in or out. A change of prose is left out. mypy votes before the tests, as it does in CI.

`tools/mutants.toml` explains changes that no test can find, each with its reason. One that matches nothing is a
complaint. Prints a Markdown table by file, and each change that is left. Exit codes: 0, 1 where something is left.
"""

import argparse
import difflib
import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MUTANTS = ROOT / "mutants"
EXPLAINED = ROOT / "tools/mutants.toml"
WHOLE = ("intervals", "bounds", "drift", "change_points", "equivalence", "values", "verdicts", "wire", "lines")
_SKIPPED = 34  # mutmut's word for a change that is not tried
_CAUGHT = {1: "tests", 3: "tests", 36: "tests", 24: "tests", -24: "tests", 152: "tests", 255: "tests", 37: "types"}
_PROSE = re.compile(r'"[^"]* [^"]*"')


@dataclass(frozen=True)
class Change:
    """One mutant: where it is, and the lines before and after as one."""

    name: str
    file: Path
    where: str
    before: str
    after: str

    @property
    def is_prose(self) -> bool:
        """Whether only words for people differ."""
        return _PROSE.sub('" "', self.before) == _PROSE.sub('" "', self.after)

    def drawn(self, seed: int) -> float:
        """Uniform in [0, 1), by the change and the seed."""
        told = f"{seed} {self.where} {self.before} {self.after}".encode()
        return int.from_bytes(hashlib.sha256(told).digest()[:8]) / 2**64


class Meta:
    """What mutmut keeps of one file: the outcome of each mutant by its exit code; None: not tried yet."""

    def __init__(self, path: Path) -> None:
        self.path, self.file = path, path.relative_to(MUTANTS).with_suffix("")
        self._all = json.loads(path.read_text())
        self.outcomes: dict[str, int | None] = self._all["exit_code_by_key"]

    def changes(self) -> Iterator[Change]:
        """Of all mutants of the file."""
        spans = json.loads((MUTANTS / f"{self.file}.spans").read_text())["spans"]
        lines = (MUTANTS / self.file).read_text().splitlines()
        for name in self.outcomes:
            own = name.rpartition(".")[2]
            function = own.partition("__mutmut_")[0]
            before, after = (
                [line.strip().replace(f"{function}__mutmut_{which}", function) for line in lines[first - 1 : last]]
                for which, (first, last) in (
                    ("orig", spans[f"{function}__mutmut_orig"]),
                    (own.rpartition("_")[2], spans[own]),
                )
            )
            told = [line for line in difflib.ndiff(before, after) if line[:1] in "+-"]
            removed, added = (" ".join(line[2:] for line in told if line[0] == sign) for sign in "-+")
            where = f"{name.rpartition('.')[0]}.{'.'.join(filter(None, re.split('^x_|ǁ|^x', function)))}"
            yield Change(name, self.file, where, removed, added)

    def write(self) -> None:
        """For mutmut's next run."""
        self.path.write_text(json.dumps(self._all, indent=4))


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
    """Generate, choose, run and tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--share", type=float, default=0.1, help="of the changes of files that are not taken whole")
    parser.add_argument("--seed", type=int, default=1, help="draws them")
    parser.add_argument("--only", default="", help="files whose path holds these words; the others are not tried")
    parser.add_argument("--children", type=int, default=1, help="changes tried side by side")
    parser.add_argument("--again", action="store_true", help="try what was left once more")
    parser.add_argument("--table", action="store_true", help="tell what is known, and try nothing")
    asked = parser.parse_args()
    if not asked.table:
        _generate(asked.children)
    metas = [Meta(path) for path in sorted(MUTANTS.rglob("*.py.meta"))]
    changes = {meta.file: list(meta.changes()) for meta in metas}
    if not asked.table:
        for meta in metas:
            _choose(meta, changes[meta.file], asked)
        _mutmut("run", "--max-children", str(asked.children))
        metas = [Meta(meta.path) for meta in metas]
    return _told(metas, changes, asked.share)


def _mutmut(*arguments: str) -> None:
    """With the programs of this environment first, since mutmut starts mypy by its name, and with the clone's agent."""
    own = Path(sys.executable).parent
    environment = os.environ | {
        "PATH": f"{own}:{os.environ['PATH']}",
        "VIRTOLL_AGENT": str(ROOT / "build/virtoll-agent"),
    }
    subprocess.run([own / "mutmut", *arguments], cwd=ROOT, env=environment, check=True)


def _generate(children: int) -> None:
    """What mutmut does first, with the outcomes of functions that did not change."""
    program = (
        "from pathlib import Path; import mutmut.__main__ as it; Path('mutants').mkdir(exist_ok=True);"
        f"it.copy_src_dir(); it.copy_also_copy_files(); it.setup_source_paths(); it.create_mutants({children})"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def _choose(meta: Meta, changes: Sequence[Change], asked: argparse.Namespace) -> None:
    share = 1.0 if meta.file.stem in WHOLE else asked.share
    for change in changes:
        known = meta.outcomes[change.name]
        if change.is_prose or asked.only not in str(change.file) or change.drawn(asked.seed) >= share:
            meta.outcomes[change.name] = _SKIPPED if known is None else known
        elif known == _SKIPPED or (asked.again and known not in _CAUGHT):
            meta.outcomes[change.name] = None
    meta.write()


def _told(metas: Sequence[Meta], changes: Mapping[Path, Sequence[Change]], share: float) -> int:
    """Print table and what is left; 1 where something is, or where an explanation matches nothing."""
    reasons = {(one["where"], one["before"], one["after"]): one["why"] for one in _explanations()}
    used: set[tuple[str, str, str]] = set()
    left: list[Change] = []
    print("| file | changes | tried | by types | by tests | explained | left |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    total: Counter[str] = Counter()
    for meta in metas:
        count: Counter[str] = Counter()
        for change in changes[meta.file]:
            known, key = meta.outcomes[change.name], (change.where, change.before, change.after)
            count["all"] += not change.is_prose
            if known is None or known == _SKIPPED:
                used |= {key} & set(reasons)
                continue
            fate = _CAUGHT.get(known) or ("explained" if key in reasons else "left")
            used |= {key} & set(reasons)
            left += [change] if fate == "left" else []
            count.update(("tried", fate))
        if count["tried"]:
            print(_row(f"`{meta.file.relative_to('src/virtoll')}`", count))
        total.update(count)
    print(_row("all", total))
    print(f"\nShare of files that are not taken whole: {share:.0%}.")
    for change in left:
        print(f"\n{change.where} ({change.name.rpartition('_')[2]})\n- {change.before}\n+ {change.after}")
    unused = [key for key in reasons if key not in used and any(change.where == key[0] for change in _all(changes))]
    for where, before, after in unused:
        print(f"\n{EXPLAINED.name} explains a change that is not there: {where}\n- {before}\n+ {after}")
    return 1 if left or unused else 0


def _all(changes: Mapping[Path, Sequence[Change]]) -> Iterator[Change]:
    for own in changes.values():
        yield from own


def _row(title: str, count: Counter[str]) -> str:
    numbers = [str(count[key]) for key in ("all", "tried", "types", "tests", "explained", "left")]
    return f"| {' | '.join([title, *numbers])} |"


def _explanations() -> list[dict[str, str]]:
    found: list[dict[str, str]] = (
        tomllib.loads(EXPLAINED.read_text()).get("explained", []) if EXPLAINED.is_file() else []
    )
    return found


if __name__ == "__main__":
    sys.exit(main())
