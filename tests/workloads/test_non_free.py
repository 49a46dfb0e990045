"""netperf and lmbench without a network: what the real tools printed, and what goes wrong."""

from __future__ import annotations

import pytest

from virtoll.errors import ImageError
from virtoll.image import RECIPES
from virtoll.image.licences import Installed, refuse_other_components
from virtoll.workloads import WORKLOADS, lmbench, netperf
from virtoll.workloads.programs import ProgramOutput

# netperf 2.7.0 and lmbench 3.0-a9 of Debian 12: 64 MiB to 10.9.0.1, 5000 transactions.
STREAM = """MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.9.0.1 () port 0 AF_INET : demo
THROUGHPUT=2727.17
THROUGHPUT_UNITS=10^6bits/s
ELAPSED_TIME=0.20
LOCAL_BYTES_SENT=67108864
REMOTE_BYTES_RECVD=67108864
"""
REQUEST_RESPONSE = """MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.9.0.1 () : demo
THROUGHPUT=34705.11
THROUGHPUT_UNITS=Trans/s
ELAPSED_TIME=0.14
LOCAL_BYTES_SENT=5000
REMOTE_BYTES_RECVD=5000
LOCAL_SEND_CALLS=5000
MEAN_LATENCY=28.73
P99_LATENCY=44
"""
UNRESOLVED = """resolve_host: could not resolve host '127.0.0.1' port '(null)' af AF_INET
\tgetaddrinfo returned -2 Name or service not known
Netperf could not resolve 127.0.0.1 as a host name
"""


def test_netperfs_keys() -> None:
    found = netperf.parse(ProgramOutput(0, STREAM, ""))
    stream = netperf.NetperfStream(netperf.NetperfStreamParameters())
    assert stream.figures(found) == {"throughput": 2727.17, "elapsed_seconds": 0.2}
    assert netperf.number(found, "REMOTE_BYTES_RECVD") == 67108864
    found = netperf.parse(ProgramOutput(0, REQUEST_RESPONSE, ""))
    expected = {"transaction_rate": 34705.11, "elapsed_seconds": 0.14, "latency_mean_us": 28.73, "latency_p99_us": 44}
    request_response = netperf.NetperfRequestResponse(netperf.NetperfRequestResponseParameters())
    assert request_response.figures(found) == expected
    with pytest.raises(ValueError, match="the throughput is in 'Trans/s'"):
        stream.figures(found)
    with pytest.raises(ValueError, match="no line THROUGHPUT="):
        netperf.parse(ProgramOutput(255, "", UNRESOLVED))


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("Simple syscall: 0.3387 microseconds\n", ("Simple syscall", 0.3387)),
        ("Simple open/close: 2.5773 microseconds\n", ("Simple open/close", 2.5773)),
        ("Process fork+exit: 1558.8571 microseconds\n", ("Process fork+exit", 1558.8571)),
    ],
)
def test_lmbenchs_line(printed: str, expected: tuple[str, float]) -> None:
    assert lmbench.parse(printed) == expected
    assert expected[0] in {test.line for test in lmbench.TESTS.values()}


def test_a_figure_of_something_that_was_not_there_is_refused() -> None:
    """lmbench goes on where the program that it starts is missing, and prints how long failing took."""
    missing = "sh: 1: /var/tmp/lmbench/hello: not found\nProcess fork+/bin/sh -c: 19274.0000 microseconds\n"
    with pytest.raises(ValueError, match="it complained: 'sh: 1: /var/tmp/lmbench/hello: not found'"):
        lmbench.parse(missing)
    with pytest.raises(ValueError, match="no line of a latency"):
        lmbench.parse("")


def test_only_what_was_asked_for_by_name_is_not_of_main() -> None:
    packages = (Installed("bzip2", "bzip2", "utils"), Installed("netperf", "netperf", "non-free/net"))
    refuse_other_components(packages, RECIPES["full-non-free"].components)
    with pytest.raises(ImageError, match=r"^not of Debian's component main, .*: netperf \(non-free/net\)\.$"):
        refuse_other_components(packages, RECIPES["full"].components)
    assert not {"lmbench", "netperf"} & set(RECIPES["full"].packages)
    named = {name for name, workload in WORKLOADS.items() if workload.image == "full-non-free"}
    assert named == {"lmbench", "netperf-tcp-stream", "netperf-tcp-rr"}
