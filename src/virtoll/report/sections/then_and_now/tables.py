"""`then_and_now.csv`: a row for each answer of the run to a paper's number."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from virtoll.claims.published_rows import Question
from virtoll.claims.then_and_now import Correspondence, PublishedAnswer
from virtoll.reference.published import Study
from virtoll.report.sections.then_and_now.page import printed_words
from virtoll.report.table import Table, number, shared, text
from virtoll.stats.ratios import Ratio


@dataclass(frozen=True)
class Answer:
    """A question of a paper's numbers, and a platform of the run that answers it."""

    study: Study
    question: Question
    standing: Correspondence
    ratio: Ratio


def answers_of(rows: Iterable[PublishedAnswer]) -> Iterator[Answer]:
    """Each answer of the run, question by question."""
    for then_and_now in rows:
        for now in then_and_now.nows:
            yield Answer(then_and_now.study, then_and_now.question, now.standing, now.ratio)


def _printed(answer: Answer) -> str | None:
    return "; ".join(printed_words(*pair) for pair in answer.question.then.values) or None


ANSWERS: Final = Table[Answer](
    "then_and_now",
    "a number that a paper prints, and a platform of the run beside it",
    lambda source: answers_of(source.then_and_now.rows),
    (
        shared("paper", lambda answer: answer.study.name),
        shared("source", lambda answer: answer.question.source),
        text("what", "what the number says", lambda answer: answer.question.what),
        text("paper_platform", "the paper's platform", lambda answer: answer.question.platform),
        number(
            "paper_share_low",
            "share",
            "the published share, or the low end of it",
            lambda answer: answer.question.then.low,
        ),
        number(
            "paper_share_high",
            "share",
            "the same, or the high end",
            lambda answer: answer.question.then.high,
        ),
        text(
            "paper_relation",
            "equal, at least, at most or about",
            lambda answer: answer.question.then.relation,
        ),
        text(
            "paper_words",
            "the text's own words, where it prints no number",
            lambda answer: answer.question.then.words or None,
        ),
        text("paper_values", "the printed numbers that the share is of", _printed),
        text(
            "paper_note",
            "what must be known of them",
            lambda answer: " ".join(answer.question.then.notes) or None,
        ),
        shared("platform", lambda answer: answer.ratio.platform),
        text(
            "stands_for_it_as",
            "the same product, its successor, or what is here in its place",
            lambda answer: str(answer.standing),
        ),
        shared("task", lambda answer: answer.ratio.task),
        shared("under", lambda answer: answer.ratio.under or None),
        shared("against", lambda answer: answer.ratio.against or None),
        shared("blocks", lambda answer: answer.ratio.blocks),
        shared("share", lambda answer: answer.ratio.estimate),
        shared("interval_low", lambda answer: answer.ratio.interval and answer.ratio.interval.low),
        shared("interval_high", lambda answer: answer.ratio.interval and answer.ratio.interval.high),
        text(
            "interval_method",
            "how the interval was made",
            lambda answer: answer.ratio.interval and answer.ratio.interval.method,
        ),
        shared("reason", lambda answer: answer.ratio.reason or None),
        shared("caveat", lambda answer: answer.ratio.caveat),
    ),
    optional=True,
)
