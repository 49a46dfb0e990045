# ruff: noqa: INP001
"""A path that drops, duplicates and reorders known frames: from one interface to another, decided by a seed.

`forwarder.py IN OUT SEED`: prints a line when it stands ready; at the end of its standard input it prints, as JSON and
by source, what it took in and what it did with it. Only Python's standard library.
"""

import ctypes
import fcntl
import json
import random
import select
import socket
import struct
import sys
from dataclasses import asdict, dataclass, field

MAGIC = b"VT"
SOURCE, SEQUENCE = 46, slice(48, 56)  # in an untagged IPv4 frame


def turn_on_gro(interface: str) -> None:
    """Redirected frames reach the end of a veth pair only with this."""
    value = ctypes.create_string_buffer(struct.pack("II", 0x2C, 1))
    address = ctypes.addressof(value)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8946, struct.pack("16sP", interface.encode(), address) + bytes(16))


@dataclass
class Account:
    """What became of one source's frames."""

    taken: int = 0
    dropped: int = 0
    duplicated: int = 0
    reordered: int = 0
    extents: list[int] = field(default_factory=list)
    degrees: list[int] = field(default_factory=list)

    def enter(self, sequence: int, before: list[int]) -> None:
        """A first arrival after those ``before``; RFC 4737: extent (4.2.3) and n of n-reordering (5.2)."""
        larger = [place for place, other in enumerate(before) if other > sequence]
        before.append(sequence)
        if larger:
            self.reordered += 1
            self.extents.append(len(before) - 1 - larger[0])
            smaller = [place for place, other in enumerate(before[:-1]) if other < sequence]
            self.degrees.append(len(before) - 2 - (smaller[-1] if smaller else -1))


@dataclass
class Forwarder:
    """Decides over each frame and keeps account."""

    sender: socket.socket
    choose: random.Random
    told: dict[int, Account] = field(default_factory=dict)
    seen: set[tuple[int, int]] = field(default_factory=set)
    arrived: dict[int, list[int]] = field(default_factory=dict)
    held: list[tuple[int, bytes]] = field(default_factory=list)

    def send(self, frame: bytes) -> None:
        """Lets a frame go on."""
        source, sequence = frame[SOURCE], int.from_bytes(frame[SEQUENCE], "big")
        self.sender.send(frame)
        if (source, sequence) in self.seen:
            self.told[source].duplicated += 1
            return
        self.seen.add((source, sequence))
        self.told[source].enter(sequence, self.arrived.setdefault(source, []))

    def take(self, frame: bytes) -> None:
        """Decides over a frame, after those whose time has come."""
        own = self.told.setdefault(frame[SOURCE], Account())
        own.taken += 1
        due = [other for turns, other in self.held if turns <= 1]
        self.held = [(turns - 1, other) for turns, other in self.held if turns > 1]
        for other in due:
            self.send(other)
        fate = self.choose.random()
        if fate < 0.05:
            own.dropped += 1
        elif fate < 0.10:
            self.held.append((self.choose.randint(1, 9), frame))
        else:
            self.send(frame)
            if fate < 0.15:
                self.send(frame)

    def close(self) -> str:
        """The account; what is still held is dropped."""
        for _, frame in self.held:
            self.told[frame[SOURCE]].dropped += 1
        return json.dumps({source: asdict(account) for source, account in self.told.items()})


def main() -> None:
    """Forwards until standard input ends."""
    source, target, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    turn_on_gro(source)
    receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    receiver.bind((source, 0))
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sender.bind((target, 0))
    forwarder = Forwarder(sender, random.Random(seed))
    print("ready", flush=True)
    while True:
        readable, _, _ = select.select([receiver, sys.stdin], [], [])
        if receiver not in readable:
            break
        frame, address = receiver.recvfrom(2048)
        if address[2] != socket.PACKET_OUTGOING and frame[42:44] == MAGIC:
            forwarder.take(frame)
    print(forwarder.close(), flush=True)


main()
