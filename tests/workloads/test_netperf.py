"""netperf: its keys, both ends' counts, and what it is asked."""

from __future__ import annotations

import pytest
from tests.support.facts import Fact, refused
from tests.support.repository import RECORDED
from tests.support.workload_trials import ProgramGuest, assert_problem, measure, result_of, trial_bench

from virtoll.runfolder.records import Check
from virtoll.workloads import netperf
from virtoll.workloads.base import Measurement
from virtoll.workloads.programs import ProgramOutput

# netperf 2.7.0 of Debian 12: 64 MiB to 10.9.0.1, 5000 transactions.
STREAM = (RECORDED / "netperf-tcp-stream.txt").read_text()
REQUEST_RESPONSE = (RECORDED / "netperf-tcp-rr.txt").read_text()
UNRESOLVED = (RECORDED / "netperf-unresolved.txt").read_text()


def trial(
    printed: str, workload: str = "netperf-tcp-stream", *, status: int = 0, **given: object
) -> tuple[Measurement, ProgramGuest, ProgramGuest]:
    guest, programs = ProgramGuest(timed={"stdout": printed, "status": status}), ProgramGuest()
    return measure(workload, trial_bench(guest, ProgramGuest(), programs), **given), guest, programs


def test_a_stream_is_counted_at_both_ends() -> None:
    measured, guest, programs = trial(STREAM)
    assert result_of(measured)["figures"] == {"throughput": 2727.17, "elapsed_seconds": 0.2}
    assert measured.check == Check("67108864", "67108864", True)
    (argv,) = guest.timed_commands
    options = {name: argv[argv.index(name) + 1] for name in ("-H", "-p", "-t", "-l")}
    assert options == {"-H": "10.64.0.2", "-p": "12865", "-t": "TCP_STREAM", "-l": "-67108864"}
    assert guest.patience == [60.0, 75.0, 298.696]
    assert set(argv[-1].split(",")) >= {"THROUGHPUT_UNITS", "LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD"}
    (server,) = (request.to_json()["argv"] for request in programs.asked if request.op == "spawn")
    assert server == ["netserver", "-4", "-D", "-L", "10.64.0.2", "-p", "12865"]
    assert programs.servers == {}


def test_a_stream_to_the_guest_is_counted_by_other_keys() -> None:
    printed = STREAM.replace("LOCAL_BYTES_SENT", "LOCAL_BYTES_RECVD").replace("REMOTE_BYTES_RECVD", "REMOTE_BYTES_SENT")
    measured, guest, _ = trial(printed, direction="to-guest")
    result_of(measured)
    assert "TCP_MAERTS" in guest.timed_commands[0]


def test_transactions_have_a_latency() -> None:
    measured, guest, _ = trial(REQUEST_RESPONSE, "netperf-tcp-rr")
    figures = {"transaction_rate": 34705.11, "elapsed_seconds": 0.14, "latency_mean_us": 28.73, "latency_p99_us": 44}
    assert result_of(measured)["figures"] == figures
    assert "TCP_RR" in guest.timed_commands[0]


@pytest.mark.parametrize(
    ("printed", "status", "facts"),
    [
        (STREAM.replace("REMOTE_BYTES_RECVD=67108864", "REMOTE_BYTES_RECVD=67108863"), 0, ("'67108863/67108864'",)),
        (STREAM.replace("REMOTE_BYTES_RECVD", "X"), 0, ("netperf", "REMOTE_BYTES_RECVD=")),
        (REQUEST_RESPONSE, 0, ("netperf", "'Trans/s'", "'10^6bits/s'")),
        ("", 0, ("netperf", "THROUGHPUT=")),
        (UNRESOLVED, 255, ("netperf", "code 255")),
    ],
)
def test_what_went_wrong_is_the_trials_problem(printed: str, status: int, facts: tuple[Fact, ...]) -> None:
    measured, _, programs = trial(printed, status=status)
    assert_problem(measured, *facts)
    assert programs.servers == {}


def test_what_is_no_report_is_refused() -> None:
    with refused("THROUGHPUT=", error=ValueError):
        netperf.parse(ProgramOutput(255, "", UNRESOLVED))
