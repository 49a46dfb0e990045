"""User-mode Linux while it forwards: it sleeps over some requests, and answers them all the same.

What it sleeps over, and why: ``docs/decisions/uml-sleeps-over-interrupts.md``; ``benches/soak.py`` counts it. In short,
without a guest, ``tests/agent/test_client.py`` has that a request is asked for again.
"""

from __future__ import annotations

import threading

import pytest
from tests.support import guests

from virtoll.agent.operations.session import ClocksRequest
from virtoll.pipeline.session import RunSession
from virtoll.workloads.forward import ForwardParameters, stream_through
from virtoll.workloads.traffic import send

INSIDE_LAB = "guests"
pytestmark = [pytest.mark.lab, pytest.mark.extended]
# Of so many some are slept over, the most at a rate that it can hold.
REQUESTS, FRAMES_PER_SECOND = 300, 5000.0


def test_each_request_is_answered_while_it_forwards(run_session: RunSession) -> None:
    live, over = guests.start("uml-raw", run_session), threading.Event()
    wanted = ForwardParameters(point_milliseconds=2000)

    def forward() -> None:
        stream = stream_through(live.bench, wanted)
        while not over.is_set():
            send(live.bench.peer, stream, wanted, live.bench.next_tag(), wanted.point_ns, FRAMES_PER_SECOND)

    forwarding = threading.Thread(target=forward)
    forwarding.start()
    try:
        for _ in range(REQUESTS):
            assert live.held.agent.ask(ClocksRequest(), guests.HANG_SECONDS).monotonic_ns > 0
    finally:
        over.set()
        forwarding.join()
        live.guest.stop()
