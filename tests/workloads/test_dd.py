"""dd: what it says of itself, the image that it copies, and zeros."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.facts import refused
from tests.support.workload_trials import MIB, ProgramGuest, measure, result_of

from virtoll.runfolder.records import Check
from virtoll.workloads import WORKLOADS, dd

# GNU dd 9.1 of Debian 12, from the image full.
COPY = """16384+0 records in
16384+0 records out
8388608 bytes (8.4 MB, 8.0 MiB) copied, 0.0963888 s, 87.0 MB/s
"""
SMALL = "1+0 records in\n1+0 records out\n512 bytes copied, 3.6994e-05 s, 13.8 MB/s\n"


def test_its_report() -> None:
    figures = dd.parse(COPY)
    assert (figures["blocks_in"], figures["blocks_out"], figures["bytes"]) == (16384, 16384, 8 * MIB)
    assert figures["bytes_per_second"] == pytest.approx(8 * MIB / 0.0963888)
    assert dd.parse(SMALL)["seconds"] == pytest.approx(3.6994e-05)
    partial = dd.parse(SMALL.replace("1+0 records in", "2+3 records in").replace("3.6994e-05", "0"))
    assert (partial["blocks_in"], partial["partial_in"], partial["blocks_out"]) == (2, 3, 1)
    assert partial["bytes_per_second"] is None, "in no time"


@pytest.mark.parametrize("text", ["", COPY.replace("records out", "records"), COPY.replace(" copied", "")])
def test_another_report_is_refused(text: str) -> None:
    with refused("records", error=ValueError):
        dd.parse(text)


def copying(copy: str = "abc") -> ProgramGuest:
    """A guest in which dd works; ``copy``: the hash of what it made."""
    sums = [{"stdout": "abc  /data/virtoll-image\n"}, {"stdout": f"{copy}  /data/virtoll-copy\n"}]
    return ProgramGuest({"stat": [{"stdout": "137961112\n"}], "sha256sum": sums}, timed={"stderr": COPY})


@pytest.mark.parametrize(("copy", "right"), [("abc", True), ("def", False)])
def test_a_copy_must_be_its_source(copy: str, right: bool) -> None:
    guest = copying(copy)
    assert (measure("dd", guest, size_bytes="8MiB").problem is None) == right
    assert guest.timed_commands == [["dd", "if=/data/virtoll-image", "of=/data/virtoll-copy", "bs=512"]]


def test_a_copy_is_flushed_where_it_is_to_be() -> None:
    guest = copying()
    measure("dd", guest, size_bytes="8MiB", synced=True)
    assert guest.timed_commands[0][-1] == "conv=fsync"


def test_a_large_image_is_made_in_portions() -> None:
    guest = copying()
    measure("dd", guest, size_bytes="433MiB")
    counts = [int(word[6:]) for argv in guest.ran for word in argv if word.startswith("count=")]
    assert sum(counts) * 65536 == 433 * MIB
    assert len(counts) == 4, "one for each copy of the archive"


def test_zeros_need_no_disk_and_are_counted() -> None:
    workload = WORKLOADS["dd"]
    paper = {"source": "zeros", "size_bytes": 117187560 * 512}
    assert workload.with_parameters(paper).needs().data_bytes == 0
    assert workload.with_parameters({}).needs().data_bytes == 64 * MIB
    guest = ProgramGuest(timed={"stderr": COPY})
    measured = measure("dd", guest, source="zeros", size_bytes="8MiB")
    assert measured.check == Check("8388608 bytes", "8388608 bytes", True)
    assert guest.ran == [["dd", "if=/dev/zero", "of=/dev/null", "bs=512", "count=16384"]]
    assert "state" not in result_of(measured)


@pytest.mark.parametrize("given", [{"size_bytes": 1000}, {"size_bytes": 66048}])
def test_parts_of_blocks_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        WORKLOADS["dd"].with_parameters(given)
