"""What runs in labs must show, whatever hosts they span."""

from __future__ import annotations

from virtoll.report import load_analysis
from virtoll.report.sections.forwarding.testbed import wiring_words
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.traffic_records import Point
from virtoll.stats.hops import locate


def assert_shaped(trial: TrialRecord, size_bytes: int, rate_bits_per_second: int) -> None:
    """So many bytes passed no faster than by a cable of this rate."""
    assert trial.result is not None
    assert trial.result["shaped_by"] in ("tbf", "netem")
    assert trial.clock is not None
    assert trial.clock.marks is not None
    passed_ns = trial.clock.marks.end_ns - trial.clock.marks.start_ns
    assert passed_ns > 0.9 * 8e9 * size_bytes / rate_bits_per_second, "it passed faster than the cable was made"


def assert_books_balance(point: Point) -> None:
    """Each frame of each source was sent or held back, and arrived or was lost at a known place."""
    arrived = {one.source: one for one in point.sink.per_source}
    for sent in point.sources:
        assert sent.offered_frames + sent.unsent_frames == sent.intended_frames
        books = arrived.pop(sent.source)
        assert books.forwarded_frames + books.lost_frames == sent.offered_frames
    assert arrived == {}
    assert sum(loss.frames for loss in locate(point)) == sum(one.lost_frames for one in point.sink.per_source)


def text_of_testbed(folder: RunFolder) -> str:
    """What a report says about the hosts of generator and sink."""
    return wiring_words(load_analysis(folder.path).data.manifest)
