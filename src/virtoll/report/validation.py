"""The table of what shows that platforms work, as Markdown: runs and the contract tests' own record, side by side.

`validation_table` is made from analyses and from what `read_tests` finds in JUnit XML, as `pytest --junitxml` writes
it. Nothing in it is a result about speed, and a row of a nested host says so.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from xml.etree import ElementTree as ET

from virtoll import units
from virtoll.errors import UsageError
from virtoll.report.words import bracketed, with_semicolons
from virtoll.stats.analysis import Analysis
from virtoll.stats.validation import PlatformValidation, validations_of
from virtoll.system.printable import printable

_NESTED = "nested-"
# What a platform's validation level means in a row without a run of it; any other says nothing there.
_INSTEAD: Mapping[str, str] = MappingProxyType(
    {
        "mock": "mock: never run on the real platform",
        "simulator": "simulator: never run on the real platform",
        "record only": "record only: what others published",
    }
)
_HEADER = (
    "platform",
    "on what",
    "contract tests",
    "ready, median",
    "trials ok",
    "forwarded without loss",
    "outside clock",
)


@dataclass(frozen=True)
class TestedKind:
    """One kind of guest that the contract tests name in brackets: how many of its tests ended in which way."""

    kind: str
    outcomes: Mapping[str, int]

    @property
    def nested(self) -> bool:
        """Whether its host was emulated."""
        return self.kind.startswith(_NESTED)

    @property
    def platform(self) -> str:
        """The kind itself, whatever its host was."""
        return self.kind.removeprefix(_NESTED)

    @property
    def words(self) -> str:
        """'14 passed, 1 skipped (nested-xen-pv)'."""
        counts = ", ".join(f"{count} {outcome}" for outcome, count in self.outcomes.items() if count)
        return f"{counts} ({self.kind})"


def read_tests(text: str, name: str) -> tuple[TestedKind, ...]:
    """The kinds in one JUnit XML file; `name` is for complaints.

    A test of a module `..._guests` counts for the kind in its brackets; any other for its module: `test_esxi` is of the
    kind `esxi`.
    """
    try:
        root = ET.fromstring(text)  # noqa: S314 - written by the tests of this machine, not sent by anybody
    except ET.ParseError as error:
        raise UsageError(f"{name}: not JUnit XML ({error}); give what 'pytest --junitxml FILE' writes") from error
    by_kind: dict[str, dict[str, Counter[str]]] = {}
    for case in root.iter("testcase"):
        module, test = case.get("classname") or "", case.get("name") or ""
        kind = _kind(module, test)
        if kind is not None:
            outcomes = by_kind.setdefault(kind, {}).setdefault(f"{module}.{test.partition('[')[0]}", Counter())
            outcomes[_outcome(case)] += 1
    counts: dict[str, Counter[str]] = {}
    for kind, tests in by_kind.items():
        counts.setdefault(_whole(kind, by_kind), Counter(passed=0, failed=0, skipped=0)).update(
            sum(tests.values(), Counter())
        )
    return tuple(TestedKind(kind, outcomes) for kind, outcomes in counts.items())


def _whole(kind: str, by_kind: Mapping[str, Mapping[str, object]]) -> str:
    """The kind without a test's other parameter: `netns-superpi` is of `netns`, which is in none of the same tests."""
    shorter = [
        other for other in by_kind if kind.startswith(f"{other}-") and not by_kind[other].keys() & by_kind[kind].keys()
    ]
    return max(shorter, key=len, default=kind)


def _kind(module: str, test: str) -> str | None:
    """What a test is of: the name in its brackets, or its module's; None where neither says."""
    module_match, inside = re.search(r"(?:^|\.)test_(\w+)$", module), re.search(r"\[([a-z0-9._-]+)\]$", test)
    if module_match is None:
        return None
    if module_match.group(1).endswith("guests"):
        return inside.group(1) if inside else None
    return module_match.group(1).replace("_", "-")


def _outcome(case: ET.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"


def validation_table(
    analyses: Sequence[Analysis], tested: Sequence[TestedKind], others: Mapping[str, str] = MappingProxyType({})
) -> tuple[str, ...]:
    """The lines of a Markdown table: a row a platform of each run, then kinds that were tested alone, then `others`.

    `others`: platforms that Virtoll knows, each with its driver's validation level. Where there are tests, those that
    neither they nor a run name get a row that says so: then the table is meant to be whole.
    """
    rows = [row for analysis in analyses for row in validations_of(analysis)]
    lines = [_line(_HEADER), _line(["---"] * len(_HEADER))]
    alone = list(tested)
    for row in rows:
        kinds = _kinds_of(row, rows, tested)
        lines.append(_row(row, kinds, others))
        alone = [test for test in alone if test not in kinds]
    lines += [
        _line([test.kind, _tested_on(test.kind, others), test.words, *["–"] * 4])
        for test in alone
        if test.nested or test.kind in others or _family_of(test.kind, others)
    ]
    if tested:
        named = [row.kind for row in rows] + [test.platform for test in tested]
        lines += _missing_lines(named, others)
    return tuple(lines)


def _missing_lines(named: Sequence[str], others: Mapping[str, str]) -> Iterator[str]:
    """The platforms of which neither the name nor that of a variant is among those named."""
    for platform, level in others.items():
        if platform not in named and not any(name.startswith(f"{platform}-") for name in named):
            yield _line([platform, _INSTEAD.get(level, "in none of these runs and tests"), *["–"] * 5])


def _family_of(kind: str, others: Iterable[str]) -> str | None:
    """The platform whose variant a kind is."""
    return next((platform for platform in others if kind.startswith(f"{platform}-")), None)


def _tested_on(kind: str, others: Mapping[str, str]) -> str:
    if kind.startswith(_NESTED):
        return "nested, in the tests"
    return _INSTEAD.get(others.get(kind) or others.get(_family_of(kind, others) or "", ""), "in the tests alone")


def _kinds_of(
    row: PlatformValidation, rows: Sequence[PlatformValidation], tested: Sequence[TestedKind]
) -> list[TestedKind]:
    """The kind of the platform's own name; without one, its variants that are no other platform's of the runs."""
    here = [test for test in tested if test.nested is (row.caveat is not None)]
    exact = [test for test in here if test.platform == row.platform]
    taken = {other.platform for other in rows}
    variants = [test for test in here if test.platform.startswith(f"{row.platform}-") and test.platform not in taken]
    return exact or variants


def _row(row: PlatformValidation, tested: Sequence[TestedKind], others: Mapping[str, str]) -> str:
    where = f"{row.where}; *{row.caveat}*" if row.caveat else row.where
    name = f"{row.platform}{bracketed(row.version)}"
    tests = "; ".join(test.words for test in tested) or "–"
    if row.why_not is not None:
        reason = with_semicolons(row.why_not, _INSTEAD.get(others.get(row.kind, "")))
        return _line([name, f"not run: {reason}", tests, *["–"] * 4])
    return _line([name, where, tests, _ready(row), _trials(row), _forwarded(row), _marks(row)])


def _ready(row: PlatformValidation) -> str:
    if row.ready is None:
        return "–"
    failed = f", {row.boots['failed']} failed" if row.boots.get("failed") else ""
    return f"{units.nanoseconds(row.ready.median)} ({row.boots['ok']} boots{failed})"


def _trials(row: PlatformValidation) -> str:
    total = sum(row.trials.values())
    if not total:
        return "–"
    rest = ", ".join(f"{count} {status}" for status, count in row.trials.items() if status != "ok")
    return f"{row.trials.get('ok', 0)} of {total}{bracketed(rest)}"


def _forwarded(row: PlatformValidation) -> str:
    forwarded = row.forwarded
    if forwarded is None:
        return "–"
    if forwarded.lost:
        some = f"{forwarded.clean} of {forwarded.points} points" if forwarded.clean else "no point"
        return f"{some} at {units.frame_rate(forwarded.rate)} ({forwarded.lost} of {forwarded.offered} frames lost)"
    return f"{forwarded.offered} frames, at up to {units.frame_rate(forwarded.rate)}"


def _marks(row: PlatformValidation) -> str:
    if not row.marks:
        return "–"
    count = ", ".join(f"{number} by {method}" for method, number in row.marks.items())
    estimate = f", ±{units.nanoseconds(row.error_estimate_ns)}" if row.error_estimate_ns is not None else ""
    return f"{count}{estimate}"


def _line(cells: Sequence[str]) -> str:
    plain = (printable(" ".join(cell.replace("|", "/").split())) for cell in cells)
    return f"| {' | '.join(plain)} |"
