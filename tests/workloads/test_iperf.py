"""iperf over UDP: its lines, both directions, and books that do not balance."""

from __future__ import annotations

import pytest
from tests.support.facts import Fact, refused
from tests.support.workload_trials import ProgramGuest, assert_problem, measure, result_of, server_end, trial_bench

from virtoll.agent.operations.programs import SpawnRequest
from virtoll.runfolder.records import Check
from virtoll.workloads import iperf
from virtoll.workloads.base import Measurement

# iperf 2.1.8 of Debian 12: 1000 datagrams of 1472 bytes asked for.
SENT = "19700101000000,10.64.0.1,35562,10.64.0.2,5001,1,0.0-0.3,1473472,37243569,0.000,0,-1,-0.000,0\n"
RECEIVED = "19700101000000,10.64.0.1,35562,10.64.0.2,5001,1,0.0-0.3,1473472,37195199,0.001,0,1001,0.000,0\n"
HALF_RECEIVED = "19700101000000,10.64.0.1,35562,10.64.0.2,5001,1,0.0-0.3,736000,18597599,0.118,400,900,44.444,0\n"


def test_its_lines() -> None:
    assert iperf.parse(SENT) == iperf.ReportLine(1473472, 37243569, 0.0, None, None)
    assert iperf.parse("warning: something\n" + RECEIVED) == iperf.ReportLine(1473472, 37195199, 0.001, 0, 1001)


@pytest.mark.parametrize("text", ["", "connect failed: Connection refused", RECEIVED.replace(",0.001", "")])
def test_another_line_is_refused(text: str) -> None:
    with refused("14 fields", error=ValueError):
        iperf.parse(text)


def trial(
    at_guest: str, at_peer: str, direction: str, status: int = 0
) -> tuple[Measurement, ProgramGuest, ProgramGuest]:
    """1000 datagrams; the server listens at once, and has ended when it is looked for."""
    guest = ProgramGuest(timed={"stdout": at_guest, "status": status, "stderr": "read failed"})
    programs = ProgramGuest(early=server_end(at_peer))
    bench = trial_bench(guest, ProgramGuest(), programs)
    return measure("iperf-udp", bench, direction=direction, datagrams=1000), guest, programs


def test_datagrams_from_the_guest() -> None:
    measured, guest, programs = trial(SENT, RECEIVED, "from-guest")
    assert measured.check == Check("1000 sent", "1000 sent", True)
    result = result_of(measured)
    assert "shaped_by" in result
    figures = result["figures"]
    assert (figures["sent_datagrams"], figures["received_datagrams"], figures["received_share"]) == (1001, 1001, 1.0)
    assert figures["received_rate"] == pytest.approx(37.195199)
    (argv,) = guest.timed_commands
    assert argv[:3] == ["iperf", "--client", "10.64.0.2"]
    assert "--reverse" not in argv
    assert argv[argv.index("--num") + 1] == "1472000"
    assert [op for op in programs.operations() if op != "exec"] == ["spawn", "end"]
    assert guest.patience == [60.0, 75.0, 79.71]
    assert programs.requests(SpawnRequest)[0].argv[:3] == ("iperf", "--server", "--udp")


def test_datagrams_to_the_guest_that_it_did_not_see_are_lost() -> None:
    measured, guest, _ = trial(HALF_RECEIVED, SENT, "to-guest")
    figures = result_of(measured)["figures"]
    assert (figures["received_datagrams"], figures["lost_datagrams"]) == (500, 501)
    assert figures["lost_datagrams_by_iperf"] == 400, "its count ends with the last one that arrived"
    assert "--reverse" in guest.timed_commands[0]


@pytest.mark.parametrize(
    ("at_guest", "at_peer", "status", "facts"),
    [
        (SENT.replace("1473472", "736000"), RECEIVED, 0, ("'500 sent'", "'1000 sent'")),
        (SENT, RECEIVED.replace("1473472", "1474944"), 0, ("1002 received", "1001 sent")),
        (SENT, RECEIVED.replace("1473472", "0"), 0, ("0 received", "1001 sent")),
        (SENT, "", 0, ("iperf", "14 fields")),
        (SENT, SENT, 0, ("iperf", "receiving")),
        (RECEIVED, RECEIVED, 0, ("iperf", "sending")),
        ("", "", 1, ("iperf", "code 1", "read failed")),
    ],
)
def test_books_that_do_not_balance_are_a_problem(
    at_guest: str, at_peer: str, status: int, facts: tuple[Fact, ...]
) -> None:
    measured, _, _ = trial(at_guest, at_peer, "from-guest", status)
    assert_problem(measured, *facts)
