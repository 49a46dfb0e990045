"""Layer-2 flow control of a NIC: read, switched and put back, against a stand-in for the kernel's answers.

No NIC of the machines that this was written on has pause frames (``ethtool -a``: not supported), so that what a driver
answers is played by ``Driver``, whose bytes are those of struct ethtool_pauseparam in Linux's uapi.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import subprocess
from pathlib import Path

import pytest
from tests.support.commands import environment
from tests.support.facts import assert_facts, refused

from virtoll.errors import GuestError
from virtoll.lab.flow_control import EthtoolPause, FlowControl, main, switch, wait_for
from virtoll.lab.residue import RECORD_VARIABLE, noted_commands
from virtoll.system.python import isolated

LAB = "virtoll-0123456789ab"

ON, OFF = FlowControl(True, True, True), FlowControl(True, False, False)


class Driver:
    """A NIC's driver in this process; ``stuck``: it answers as if it had been set, and stays as it is."""

    def __init__(self, state: tuple[int, int, int], *, stuck: bool = False) -> None:
        self.state, self.stuck, self.commands = state, stuck, list[int]()

    def __call__(self, interface: str, data: ctypes.Array[ctypes.c_char]) -> None:
        assert interface == "lo"
        command, *given = struct.unpack("=IIII", data.raw)
        self.commands.append(command)
        if command == 0x13 and not self.stuck:
            self.state = (given[0], given[1], given[2])
        data.raw = struct.pack("=IIII", command, *self.state)


@pytest.mark.parametrize("state", [(1, 1, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_how_a_nic_is_set_is_read_in_the_kernels_order(state: tuple[int, int, int]) -> None:
    found = EthtoolPause(Driver(state)).read("lo")
    assert (found.negotiates, found.receives, found.sends) == tuple(map(bool, state))


def test_a_nic_is_set_once_and_not_where_it_is_so_already() -> None:
    driver = Driver((1, 1, 1))
    EthtoolPause(driver).write("lo", ON)
    assert driver.commands == [0x12], "its link may go down for it"
    EthtoolPause(driver).write("lo", OFF)
    assert driver.state == (1, 0, 0)


def test_a_nic_that_does_not_take_it_is_named() -> None:
    with refused("lo", "on off off", "on on on", "testbed.flow_control", error=GuestError):
        EthtoolPause(Driver((1, 1, 1), stuck=True)).write("lo", OFF)


def test_a_nic_without_flow_control_is_refused() -> None:
    def has_none(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    with refused("lo", "driver", "testbed.flow_control", "ethtool -a", error=GuestError):
        EthtoolPause(has_none).read("lo")


def test_the_loopback_interface_has_none() -> None:
    """The real call, to the real kernel."""
    with refused("lo", "flow control", error=GuestError):
        EthtoolPause().read("lo")


def test_what_was_switched_is_noted_first_and_put_back_by_the_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note is what the janitor runs when the lab has ended, however it did."""
    driver = Driver((1, 1, 0))

    def watched(interface: str, data: ctypes.Array[ctypes.c_char]) -> None:
        if struct.unpack_from("=I", data.raw)[0] == 0x13:
            assert noted_commands(tmp_path, LAB), "what would put it back is on disk before it is switched"
        driver(interface, data)

    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        monkeypatch.setenv(RECORD_VARIABLE, str(descriptor))
        for _ in range(2):  # the second time there is nothing to switch, and so nothing to put back
            switch("lo", enabled=False, kernel=EthtoolPause(watched))
            assert driver.state == (1, 0, 0), "whether it negotiates is left"
    finally:
        os.close(descriptor)
    (argv,) = noted_commands(tmp_path, LAB)
    assert argv == isolated("virtoll.lab.flow_control", *argv[-4:])
    assert main(argv[-4:], EthtoolPause(driver)) == 0
    assert driver.state == (1, 1, 0)


def test_the_note_runs_as_a_program() -> None:
    """On an interface that has no flow control it fails; nothing else of it needs a NIC."""
    argv = isolated("virtoll.lab.flow_control", "lo", "on", "off", "off")
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment())
    assert ended.returncode != 0
    assert_facts(ended.stderr, "lo", "flow control")


def test_a_nic_that_does_not_come_back_is_reported_after_the_deadline() -> None:
    wait_for("lo", 0.0)
    assert "vtgone0" not in [name for _, name in socket.if_nameindex()]
    with refused("vtgone0", "0 s", error=GuestError):
        wait_for("vtgone0", 0.0)
