"""QEMU's monitor, against a machine that only answers; real machines have it in all other tests of QEMU."""

from __future__ import annotations

import gc
import signal
import socket
import sys
from collections.abc import Iterator

import pytest
from qemu.qmp import QMPClient
from tests.support.facts import refused
from tests.support.qmp import MonitorStub

from virtoll.errors import GuestDied
from virtoll.lab.interrupts import interruptible
from virtoll.lab.qemu_monitor import Monitor


@pytest.fixture
def monitor() -> Iterator[Monitor]:
    """A monitor that has answered once, of a machine that takes each command."""
    ours, theirs = socket.socketpair()
    machine = MonitorStub(theirs)
    opened = Monitor(ours, "a machine")
    opened.execute("query-status")
    yield opened
    opened.close()
    machine.join()


def test_an_interrupt_does_not_enter_the_clients_event_loop(
    monitor: Monitor, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """It used to end the client's reader, and its error came up again where the monitor was left: the run then ended
    with its other guests as they were, and Python complained of their tasks."""
    receive = QMPClient._do_recv
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)

    async def interrupted(client: QMPClient) -> object:
        signal.raise_signal(signal.SIGINT)
        return await receive(client)

    monkeypatch.setattr(QMPClient, "_do_recv", interrupted)
    with pytest.raises(KeyboardInterrupt), interruptible():
        monitor.execute("stop")
    monkeypatch.setattr(QMPClient, "_do_recv", receive)
    assert monitor.execute("cont") == "cont"
    monitor.close()
    gc.collect()
    assert (complaints, list(recwarn)) == ([], [])


def test_a_machine_that_has_ended_is_told_as_one(monitor: Monitor) -> None:
    monitor.connection.shutdown(socket.SHUT_RDWR)
    with refused("a machine", "'cont'", error=GuestDied):
        monitor.execute("cont")
    monitor.close()
