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
from virtoll.report.gate import CheckView, GateView, measured_words
from virtoll.report.headline import host_line

_TRUSTED = "the A/A control and the run folder can be trusted"


@dataclass(frozen=True)
class _Case:
    """`outcome`: the element in it, empty: it passed."""

    group: str
    name: str
    outcome: str = ""
    message: str = ""
    text: str = ""


def junit(given: Exchanged) -> str:
    """The whole document, of one suite."""
    manifest = given.analysis.data.manifest
    cases = list(_checked(given.gate, given.skip_unknown) if given.gate is not None else _measured(given))
    counts = {"tests": str(len(cases))}
    counts |= {f"{one}s": str(sum(case.outcome == one for case in cases)) for one in ("failure", "error")}
    root = ET.Element("testsuites", {"name": "virtoll", **counts})
    suite = ET.SubElement(root, "testsuite", {"name": _name(given), **counts})
    suite.set("skipped", str(sum(case.outcome == "skipped" for case in cases)))
    suite.set("timestamp", units.timestamp(manifest.created_realtime_ns))
    properties = ET.SubElement(suite, "properties")
    for key, value in _properties(given):
        ET.SubElement(properties, "property", {"name": key, "value": one_line(value)})
    for case in cases:
        own = ET.SubElement(suite, "testcase", {"name": one_line(case.name), "classname": one_line(case.group)})
        if case.outcome:
            found = ET.SubElement(own, case.outcome, {"message": one_line(case.message)})
            found.text = units.printable(case.text) or None
        elif case.text:
            ET.SubElement(own, "system-out").text = units.printable(case.text)
    ET.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _name(given: Exchanged) -> str:
    return one_line(f"virtoll {given.analysis.data.manifest.experiment.get('name') or ''}".rstrip())


def _properties(given: Exchanged) -> Iterator[tuple[str, str]]:
    manifest = given.analysis.data.manifest
    yield "run", manifest.run
    yield "virtoll", manifest.virtoll
    yield "question", str(manifest.experiment.get("question") or "")
    yield "baseline", manifest.baseline or "none"
    yield "host", host_line(given.analysis)
    if given.damage:
        yield "damage", damage_line(given.damage)


def _checked(gate: GateView, skip_unknown: bool) -> Iterator[_Case]:
    unknown = "skipped" if skip_unknown else "error"
    if gate.doubts:
        yield _Case("run", _TRUSTED, unknown, gate.doubts[0], "\n".join(gate.doubts))
    else:
        yield _Case("run", _TRUSTED)
    for one in gate.checks:
        name = f"{one.threshold} [{one.task}]"
        text = "\n".join((measured_words(one), *one.rest))
        outcome = {"good": "", "bad": "failure"}.get(one.kind, unknown)
        yield _Case(one.platform, name, outcome, _message(one) if outcome else "", text)


def _message(one: CheckView) -> str:
    return "; ".join(filter(None, (one.outcome, one.value, *one.rest)))


def _measured(given: Exchanged) -> Iterable[_Case]:
    for one in values_of(given.analysis):
        name = one.name.removeprefix(f"{one_line(one.platform)}: ")
        if one.cell is None:
            yield _Case(one.platform, name, "skipped", one.reason)
            continue
        unit, blocks = one.task.metric.unit, one.cell.blocks
        ends = f" ({units.between(one.low, one.high, unit)})" if one.low is not None and one.high is not None else ""
        bound = "at least " if one.lower_bound else ""
        count = f"{blocks} block{'' if blocks == 1 else 's'}"
        yield _Case(
            one.platform,
            name,
            text=f"{bound}{words.estimate(one.cell.median, one.cell.interval, unit)}{ends} in {count}",
        )
