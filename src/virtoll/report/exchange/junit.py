"""JUnit XML, as Jenkins, GitLab and others read it: a test case for each check of a gate.

A missed threshold is a failure; what cannot be told is an error, or skipped where that is asked for. Without thresholds
each metric that the plan asks is a test case, skipped where it has no result.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from virtoll import units
from virtoll.report import words
from virtoll.report.answer import damage_line
from virtoll.report.exchange.values import Exchanged, one_line, values_of
from virtoll.report.gate import GateView
from virtoll.report.headline import host_line
from virtoll.system.printable import printable

_TRUSTED = "the A/A control and the run folder can be trusted"


@dataclass(frozen=True)
class _Case:
    """`outcome`: the element in it, empty: it passed."""

    group: str
    name: str
    outcome: str = ""
    message: str = ""
    text: str = ""


def junit(exchanged: Exchanged) -> str:
    """The whole document, of one suite."""
    manifest = exchanged.analysis.data.manifest
    if exchanged.gate is None:
        cases = list(_measured(exchanged))
    else:
        cases = list(_checked(exchanged.gate, exchanged.skip_unknown))
    outcomes = [case.outcome for case in cases]
    failures, errors, skipped = (str(outcomes.count(outcome)) for outcome in ("failure", "error", "skipped"))
    counts = {"tests": str(len(cases)), "failures": failures, "errors": errors}
    root = ET.Element("testsuites", {"name": "virtoll", **counts})
    name = one_line(f"virtoll {manifest.experiment.get('name') or ''}".rstrip())
    suite = ET.SubElement(root, "testsuite", {"name": name, **counts})
    suite.set("skipped", skipped)
    suite.set("timestamp", units.timestamp(manifest.created_realtime_ns))
    properties = ET.SubElement(suite, "properties")
    for key, value in _properties(exchanged):
        ET.SubElement(properties, "property", {"name": key, "value": one_line(value)})
    for case in cases:
        element = ET.SubElement(suite, "testcase", {"name": one_line(case.name), "classname": one_line(case.group)})
        if case.outcome:
            outcome = ET.SubElement(element, case.outcome, {"message": one_line(case.message)})
            outcome.text = printable(case.text) or None
        elif case.text:
            ET.SubElement(element, "system-out").text = printable(case.text)
    ET.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _properties(exchanged: Exchanged) -> Iterator[tuple[str, str]]:
    manifest = exchanged.analysis.data.manifest
    yield "run", manifest.run
    yield "virtoll", manifest.virtoll
    yield "question", str(manifest.experiment.get("question") or "")
    yield "baseline", manifest.baseline or "none"
    yield "host", host_line(exchanged.analysis)
    if exchanged.damage:
        yield "damage", damage_line(exchanged.damage)


def _checked(gate: GateView, skip_unknown: bool) -> Iterator[_Case]:
    unknown = "skipped" if skip_unknown else "error"
    if gate.doubts:
        yield _Case("run", _TRUSTED, unknown, gate.doubts[0], "\n".join(gate.doubts))
    else:
        yield _Case("run", _TRUSTED)
    for check in gate.checks:
        name = f"{check.threshold} [{check.task}]"
        text = "\n".join((check.measured, *check.rest))
        outcome = {"good": "", "bad": "failure"}.get(check.kind, unknown)
        message = words.with_semicolons(check.outcome, check.value, *check.rest) if outcome else ""
        yield _Case(check.platform, name, outcome, message, text)


def _measured(exchanged: Exchanged) -> Iterable[_Case]:
    for value in values_of(exchanged.analysis):
        name = value.name.removeprefix(f"{one_line(value.platform)}: ")
        if value.cell is None:
            yield _Case(value.platform, name, "skipped", value.reason)
            continue
        unit, blocks = value.task.metric.unit, value.cell.blocks
        ends = (
            f" ({units.between(value.low, value.high, unit)})"
            if value.low is not None and value.high is not None
            else ""
        )
        bound = "at least " if value.lower_bound else ""
        count = words.counted(blocks, "block")
        yield _Case(
            value.platform,
            name,
            text=f"{bound}{words.estimate(value.cell.median, value.cell.interval, unit)}{ends} in {count}",
        )
