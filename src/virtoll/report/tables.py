"""The report's tables as CSV: raw values per trial, comparisons, points, clock, facts. Column names hold the units."""

from collections.abc import Iterator, Sequence

from virtoll.claims import NO_PAPER, Judged, ThenAndNow
from virtoll.report.claims import claims_tables
from virtoll.report.csv_table import CsvTable, Row
from virtoll.report.guest_tables import guest_tables
from virtoll.report.hosts import hosts_tables
from virtoll.report.papers import paper_tables
from virtoll.report.report_input import ReportInput
from virtoll.report.sections import SECTIONS
from virtoll.report.then_and_now import then_and_now_tables
from virtoll.stats.analysis import Analysis


def csv_tables(analysis: Analysis, ledger: Sequence[Judged] = (), beside: ThenAndNow = NO_PAPER) -> Iterator[CsvTable]:
    """Every table of the report, each made when it is asked for: those of a large run take 30 MB together.

    `ledger`: what the run says about claims; `beside`: what the papers have of it.
    """
    yield _clock(analysis)
    yield from guest_tables(analysis)
    yield _equivalence(analysis)
    yield from hosts_tables(analysis)
    for section in SECTIONS:
        yield from section.csv_tables(ReportInput(analysis, ledger, beside))
    yield from then_and_now_tables(beside)
    yield from claims_tables(ledger) if ledger else ()
    yield from paper_tables(analysis)


def _clock(analysis: Analysis) -> CsvTable:
    header = (
        "trial",
        "block",
        "platform",
        "workload",
        "method",
        "outside_ns",
        "guest_ns",
        "error_estimate_ns",
        "relative_error",
        "relative_estimate",
        "within_estimate",
        "caveat",
    )
    readings = sorted((one for clock in analysis.clocks for one in clock.readings), key=lambda one: one.trial)
    rows = tuple(
        (
            one.trial,
            one.block + 1,
            one.platform,
            one.workload,
            one.method,
            one.outside_ns,
            one.guest_ns,
            one.error_estimate_ns,
            one.error,
            one.estimate,
            int(one.within),
            analysis.caveats.get(one.platform),
        )
        for one in readings
    )
    return CsvTable("clock", header, rows)


def _equivalence(analysis: Analysis) -> CsvTable:
    report = analysis.equivalence
    caveats = tuple(analysis.caveats.get(platform) for platform in report.platforms)
    rows: list[Row] = [("caveat", int(len(set(caveats)) <= 1), *caveats)]
    rows += [(row.name, int(row.equal), *(row.values.get(one) for one in report.platforms)) for row in report.rows]
    return CsvTable("equivalence", ("fact", "equal", *report.platforms), tuple(rows))
