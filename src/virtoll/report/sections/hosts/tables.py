"""`hosts.csv`: how each host of a merged run differs from the others; `host_variation.csv`: how each ratio varies."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from virtoll.report.report_input import ReportInput
from virtoll.report.table import Table, answer, count, number, shared, text
from virtoll.stats.across_hosts import Deviation, HostBlocks, Variation


@dataclass(frozen=True)
class HostDeviation:
    """A host against the others, with what the host is."""

    deviation: Deviation
    host: HostBlocks


def _deviations(source: ReportInput) -> Iterator[HostDeviation]:
    across = source.analysis.across_hosts
    hosts = {host.name: host for host in across.hosts}
    for deviation in across.deviations:
        yield HostDeviation(deviation, hosts[deviation.host])


DEVIATIONS: Final = Table[HostDeviation](
    "hosts",
    "a host of a merged run and a ratio, or a value of the bare host, against the other hosts",
    _deviations,
    (
        text("host", "the host's stand-in name in this run", lambda row: row.host.name),
        text("fingerprint", "what identifies host, kernel and CPU, as a hash", lambda row: row.host.fingerprint),
        count("blocks", "blocks that it measured", lambda row: len(row.host.blocks)),
        text(
            "platform",
            "whose ratio to the baseline it is; empty: the bare host's own performance",
            lambda row: row.deviation.platform,
        ),
        shared("workload", lambda row: row.deviation.task.workload),
        shared("parameters", lambda row: row.deviation.task.parameters),
        shared("metric", lambda row: row.deviation.task.metric.name),
        shared("label", lambda row: row.deviation.task.label),
        number(
            "factor",
            "factor",
            "its performance by the mean of the others; below 1 it is slower",
            lambda row: row.deviation.factor,
        ),
        number(
            "p_adjusted",
            "probability",
            "that the others predict it, after Bonferroni; empty: fewer than 4 hosts",
            lambda row: row.deviation.p_adjusted,
        ),
        answer(
            "stands_out",
            "whether that is below 1 %; the host counts all the same",
            lambda row: row.deviation.flagged,
        ),
    ),
    optional=True,
)

VARIATIONS: Final = Table[Variation](
    "host_variation",
    "a comparison of a run that was merged of several hosts",
    lambda source: source.analysis.across_hosts.variations,
    (
        shared("platform", lambda variation: variation.platform),
        shared("workload", lambda variation: variation.task.workload),
        shared("parameters", lambda variation: variation.task.parameters),
        shared("metric", lambda variation: variation.task.metric.name),
        shared("label", lambda variation: variation.task.label),
        count("hosts", "hosts that have it", lambda variation: variation.hosts),
        number(
            "between_hosts_share",
            "share",
            "one standard deviation of the ratio from host to host; empty: not known",
            lambda variation: variation.between,
        ),
        number(
            "between_blocks_share",
            "share",
            "the same between blocks of one host",
            lambda variation: variation.within,
        ),
    ),
    optional=True,
)
