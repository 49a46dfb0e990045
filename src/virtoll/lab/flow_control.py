"""Layer-2 flow control of a NIC (pause frames, IEEE 802.3): read, switched for a run, put back when the lab has ended.

Main types: ``FlowControl`` and ``EthtoolPause`` (the kernel's ``ETHTOOL_GPAUSEPARAM`` and ``ETHTOOL_SPAUSEPARAM``, as
``ethtool -a`` and ``-A`` use them; Linux, include/uapi/linux/ethtool.h, struct ethtool_pauseparam). A NIC is switched
outside the lab, before it is moved in. How it was is noted in the lab's record first (``residue``): the janitor runs
this module as a program to put it back, however the lab ends.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import fcntl
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from virtoll.errors import GuestError, VirtollError
from virtoll.lab.outside import outside_network
from virtoll.lab.residue import note_command
from virtoll.system.python import isolated

_SIOCETHTOOL, _GET, _SET = 0x8946, 0x12, 0x13
_PAUSEPARAM = struct.Struct("=IIII")  # command, autonegotiation, rx_pause, tx_pause
_LINK_MESSAGES: Final = 1  # RTMGRP_LINK
_RETURN_SECONDS = 60.0
_WORDS = {"on": True, "off": False}

Ioctl = Callable[[str, "ctypes.Array[ctypes.c_char]"], None]
"""Hands a command to the driver of an interface, which answers in its place; raises ``OSError``."""


@dataclass(frozen=True)
class FlowControl:
    """Whether a NIC negotiates pauses with the other end, obeys those that it receives, and sends its own."""

    negotiates: bool
    receives: bool
    sends: bool

    @property
    def words(self) -> tuple[str, str, str]:
        """In the order of the fields, ``on`` or ``off``."""
        return _word(self.negotiates), _word(self.receives), _word(self.sends)


def _word(value: bool) -> str:
    return "on" if value else "off"


def _by_socket(interface: str, data: ctypes.Array[ctypes.c_char]) -> None:
    request = struct.pack("16sP16x", interface.encode(), ctypes.addressof(data))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as descriptor:
        fcntl.ioctl(descriptor, _SIOCETHTOOL, request)


class EthtoolPause:
    """What the drivers of this network namespace's interfaces say and do; every ``GuestError`` names the interface."""

    def __init__(self, ioctl: Ioctl = _by_socket) -> None:
        """``ioctl`` stands in the place of the kernel in tests."""
        self._ioctl = ioctl

    def read(self, interface: str) -> FlowControl:
        """How a NIC is set."""
        data = ctypes.create_string_buffer(_PAUSEPARAM.pack(_GET, 0, 0, 0), _PAUSEPARAM.size)
        self._ask(interface, data)
        _, negotiates, receives, sends = _PAUSEPARAM.unpack(data.raw)
        return FlowControl(bool(negotiates), bool(receives), bool(sends))

    def write(self, interface: str, setting: FlowControl) -> None:
        """Set a NIC so; nothing is done where it is so already, because its link may go down for it."""
        if self.read(interface) == setting:
            return
        packed = _PAUSEPARAM.pack(_SET, setting.negotiates, setting.receives, setting.sends)
        self._ask(interface, ctypes.create_string_buffer(packed, _PAUSEPARAM.size))
        actual = self.read(interface)
        if actual != setting:
            actual_words, setting_words = (" ".join(control.words) for control in (actual, setting))
            raise GuestError(
                f"{interface} took flow control {setting_words} (negotiated, received, sent) and is at {actual_words}; "
                "leave 'testbed.flow_control' out"
            )

    def _ask(self, interface: str, data: ctypes.Array[ctypes.c_char]) -> None:
        try:
            self._ioctl(interface, data)
        except OSError as error:
            why = "its driver has none" if error.errno == errno.EOPNOTSUPP else os.strerror(error.errno or 0)
            raise GuestError(
                f"{interface} has no flow control that can be switched ({why}); leave 'testbed.flow_control' out, or "
                "use a NIC whose 'ethtool -a' shows it"
            ) from error


def switch(interface: str, enabled: bool, kernel: EthtoolPause | None = None) -> None:
    """Inside a lab: switch a NIC that is still outside; the lab's end puts it back.

    Whether it negotiates is left as it is. ``GuestError`` where it cannot be switched.
    """
    kernel = kernel or EthtoolPause()
    with outside_network():
        before = kernel.read(interface)
        after = replace(before, receives=enabled, sends=enabled)
        if after != before:
            note_command(isolated(__name__, interface, *before.words))
            kernel.write(interface, after)


def wait_for(interface: str, seconds: float = _RETURN_SECONDS) -> None:
    """Until an interface is in this namespace: the kernel gives a NIC back some time after its namespace has ended.

    ``GuestError`` after so many seconds.
    """
    deadline = time.monotonic() + seconds
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as news:
        news.bind((0, _LINK_MESSAGES))
        while interface not in (name for _, name in socket.if_nameindex()):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([news], [], [], left)[0]:
                raise GuestError(f"{interface} did not come back within {seconds:.0f} s; 'ethtool -A' sets it by hand")
            news.recv(65536)


def main(arguments: Sequence[str], kernel: EthtoolPause | None = None) -> int:
    """``NIC NEGOTIATES RECEIVES SENDS``, each on or off: put a NIC back once it is there; returns the exit code."""
    parser = argparse.ArgumentParser(description="Puts layer-2 flow control of a NIC back as it was before a run.")
    parser.add_argument("interface", help="its name outside the lab")
    for name in ("negotiates", "receives", "sends"):
        parser.add_argument(name, choices=tuple(_WORDS))
    options = parser.parse_args(arguments)
    try:
        wait_for(options.interface)
        setting = FlowControl(_WORDS[options.negotiates], _WORDS[options.receives], _WORDS[options.sends])
        (kernel or EthtoolPause()).write(options.interface, setting)
    except VirtollError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
