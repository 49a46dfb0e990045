"""A campaign in sentences: which part of one a run is, of which hosts it was merged, and which of them stand out.

Main functions: `campaign_lines` and `deviations_words`. No numbers are computed here.
"""

from collections.abc import Iterator, Sequence

from virtoll.report import words
from virtoll.runfolder.records import Manifest
from virtoll.stats.across_hosts import Deviation
from virtoll.stats.analysis import Analysis

_MOST_DEVIATIONS = 3  # of a host in a sentence


def campaign_lines(analysis: Analysis) -> list[str]:
    """Of a part, which blocks of a campaign it has; of a run that was merged, of which hosts, and what was left out."""
    manifest = analysis.data.manifest
    return [*_part_line(manifest), *_merged_lines(manifest), *_hosts_lines(analysis)]


def _part_line(manifest: Manifest) -> Iterator[str]:
    if manifest.part is None:
        return
    blocks = [block + 1 for block in manifest.part.blocks]
    which = f"block {blocks[0]}" if len(blocks) == 1 else f"blocks {blocks[0]} to {blocks[-1]}"
    yield (
        f"This is a part of campaign {manifest.part.campaign[:8]}: {which} of {manifest.part.of}. "
        "'virtoll campaign merge' makes one run of all parts."
    )


def _merged_lines(manifest: Manifest) -> Iterator[str]:
    if manifest.merged is None:
        return
    for line in (*manifest.merged.left_out, *manifest.merged.doubts):
        yield f"{line.rstrip('.')}."


def _hosts_lines(analysis: Analysis) -> Iterator[str]:
    """What several hosts do to the verdicts, and which of them stand out; nothing in a run of one host."""
    if not analysis.host_of:
        return
    hosts, flagged = analysis.across_hosts.hosts, analysis.across_hosts.flagged
    counted = "A host counts once in each verdict, however many blocks it has"
    yield f"This run is of {len(hosts)} hosts. {counted}, so that verdicts are of hosts like these."
    for host in hosts:
        deviations = [deviation for deviation in flagged if deviation.host == host.name]
        if not deviations:
            continue
        deviations.sort(key=lambda deviation: deviation.p_adjusted or 0.0)
        others = len(deviations) - _MOST_DEVIATIONS
        more = f", and {others} more" if others > 0 else ""
        yield (
            f"{host.name} stands out: {deviations_words(deviations)}{more}. It is not left out; "
            f"'virtoll campaign merge --without-host {host.name}' does that."
        )


def deviations_words(deviations: Sequence[Deviation]) -> str:
    """The first of them: 'runc in Super Pi is 32 % slower there than on the others; ...'."""
    return "; ".join(map(_deviation_words, deviations[:_MOST_DEVIATIONS]))


def _deviation_words(deviation: Deviation) -> str:
    slower = deviation.factor < 1
    factor = 1 / deviation.factor if slower else deviation.factor
    what = f"{deviation.platform or 'the bare host'} in {deviation.task.label}"
    return f"{what} is {words.slowdown(factor)} {'slower' if slower else 'faster'} there than on the others"
