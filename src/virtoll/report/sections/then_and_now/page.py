"""Then and now, as text: the papers' numbers beside the run's, on the page.

No numbers are computed here: they come from ``claims/then_and_now.py``. What the run says of claims is in ``claims``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from virtoll.claims.published_rows import Then
from virtoll.claims.then_and_now import Correspondence, Now, PublishedAnswer
from virtoll.reference.published import PublishedValue, Study
from virtoll.report import words
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import Shown, TableRow
from virtoll.stats.ratios import Ratio

RELATION_WORDS = {"equal": "", "at_most": "at most ", "at_least": "at least ", "about": "about "}
_BARE_HOST = "the bare host"


@dataclass(frozen=True)
class PublishedView:
    """One question: what, of which of the paper's platforms, its share, and answers (here, how it stands, share).

    `workloads`: what was measured of it.
    """

    what: str
    name: str
    version: str
    then: Shown
    notes: tuple[str, ...]
    nows: tuple[tuple[str, str, Shown], ...]
    workloads: tuple[str, ...] = ()


@dataclass(frozen=True)
class PaperView:
    """One paper's part of the section: its rows by table or figure, and how shares are derived that are not plain."""

    study: Study
    sources: tuple[tuple[str, tuple[PublishedView, ...]], ...]
    how: tuple[str, ...]


def then_and_now_values(source: ReportInput) -> dict[str, Any] | None:
    """What the template prints; None if nothing of any paper was measured and the experiment names none."""
    then_and_now, manifest = source.then_and_now, source.analysis.data.manifest
    if not then_and_now.rows and then_and_now.study is None:
        return None
    studies = {row.study.name: row.study for row in then_and_now.rows}
    if then_and_now.study is not None:
        studies = {then_and_now.study.name: then_and_now.study, **studies}
    forwards = any(pair[0].workload == "forward" for row in then_and_now.rows for pair in row.question.then.values)
    return {
        "papers": [_paper(study, then_and_now.of(name)) for name, study in studies.items()],
        "here": words.with_commas(*map(manifest.host.get, ("cpu_model", "kernel", "os"))),
        "virtual": manifest.testbed is None and forwards,
        "named": then_and_now.study,
        "missing": sorted(then_and_now.untold.items(), key=lambda item: -item[1]),
        "other": list(_other_rows(then_and_now.study.values if then_and_now.study is not None else ())),
    }


def share_words(then: Then) -> str:
    """'98 %', 'at most 30 %', '24 to 26 %'; the paper's words if it has no number."""
    if then.low is None or then.high is None:
        return then.words
    ends = words.joined(words.share(then.low), words.share(then.high))
    return f"{RELATION_WORDS[then.relation]}{ends}"


def place(row: PublishedAnswer) -> str:
    """The paper's platform in words."""
    return row.platform.name if row.platform is not None else _BARE_HOST


def said_then(row: PublishedAnswer) -> str:
    """The paper's share in words, as a pointer shows it."""
    return f"then, {place(row)}, {row.question.what}: {share_words(row.question.then)}"


def said_now(row: PublishedAnswer, now: Now) -> str:
    """A platform's share in words, as a pointer shows it."""
    shown = _now(now.ratio)
    share = words.with_commas(shown.main, shown.small, shown.but)
    return f"now, {now.ratio.platform}, {row.question.what}: {share}"


def _paper(study: Study, rows: Sequence[PublishedAnswer]) -> PaperView:
    sources: dict[str, list[PublishedView]] = {}
    for row in rows:
        views = sources.setdefault(row.question.source, [])
        views.append(published_view(row, known=any(place(row) == view.name for view in views)))
    how = dict.fromkeys(f"{row.question.source}: {row.question.how}" for row in rows if row.question.how)
    return PaperView(study, tuple((source, tuple(views)) for source, views in sources.items()), tuple(how))


def published_view(row: PublishedAnswer, *, known: bool) -> PublishedView:
    """A question with its answers as text; `known`: the version of the paper's platform stands in a row above."""
    question = row.question
    printed = [printed_words(value, base) for value, base in question.then.values]
    small = printed[0] if len(printed) == 1 else ""
    hint = "; ".join(printed)
    text = question.then.words if question.then.low is not None else ""
    version = row.platform.version if row.platform is not None and not known else ""
    return PublishedView(
        question.what,
        place(row),
        version,
        Shown(share_words(question.then), small, hint=hint, words=text),
        question.then.notes,
        tuple((now.ratio.platform, _standing(now), _now(now.ratio)) for now in row.nows),
        workloads=question.now.workloads,
    )


def printed_words(value: PublishedValue, base: PublishedValue | None) -> str:
    """A number and what it is relative to: '0.1056 us; native 0.1031 us', 'throughput change -18.2 %'."""
    text = f"{RELATION_WORDS[value.relation]}{_number(value)}"
    if value.unit in ("percent", "ratio"):
        text = f"{value.metric.replace('_', ' ')} {text}"
    if base is None:
        return text
    what = base.platform if base.platform != value.platform else ""
    what = what or (base.metric.rsplit("_", 1)[-1] if base.metric != value.metric else "")
    what = what or (base.scenario.replace("-", " ") if base.scenario != value.scenario else "")
    return f"{text}; {f'{what} ' if what else ''}{_number(base)}"


def _number(value: PublishedValue) -> str:
    unit = {"percent": " %", "ratio": ""}.get(value.unit, f" {value.unit}")
    return f"{value.value:g}{unit}"


def _standing(now: Now) -> str:
    standing = "" if now.standing in (Correspondence.PRODUCT, Correspondence.BARE_HOST) else str(now.standing)
    return words.with_commas(standing, now.ratio.task, now.ratio.under)


def _now(ratio: Ratio) -> Shown:
    assert ratio.estimate is not None, "then_and_now takes none without"
    of_what = "itself alone" if ratio.against == "alone" else ratio.against
    against = f"of {of_what}" if of_what else ""
    interval, but = ratio.interval, ratio.reason
    ends = times = kind = ""
    if interval is not None:
        ends = words.ends(interval.low, interval.high)
    elif ratio.blocks == 1:
        ends, but = "one block", ""
    if ratio.functional:
        kind, but = "caveat", "functional only"
    elif interval is not None and not ratio.unit:
        times = words.times(ratio.estimate, interval.low, interval.high)
        kind = "".join(direction for direction in ("slower", "faster") if direction in times)
    small = words.with_commas(against, ends)
    return Shown(words.share(ratio.estimate, interval), small, kind, ratio.reason, but, words=times)


def _other_rows(values: Iterable[PublishedValue]) -> Iterable[TableRow]:
    """Every printed number, gathered by table and platform, each with its note."""
    gathered: dict[tuple[str, str, str], dict[str, str]] = {}
    for value in values:
        where = ", ".join(f"{key.replace('_', ' ')} {text}" for key, text in value.parameters.items())
        metric = f"{value.metric.replace('_', ' ')} {RELATION_WORDS[value.relation]}{_number(value)}"
        note = f"[{value.note}]" if value.note else ""
        texts = gathered.setdefault((value.source, value.scenario, value.platform), {})
        texts[f"{metric}{words.bracketed(where)}"] = note
    for (source, scenario, platform), texts in gathered.items():
        notes = " ".join(dict.fromkeys(filter(None, texts.values())))
        yield TableRow(source, (Shown(scenario), Shown(platform), Shown("; ".join(texts), notes)))
