# ruff: noqa: INP001
"""A path that does known harm to frames, from one interface to another.

`forwarder.py IN OUT harm SEED` drops, duplicates and reorders frames, as the seed decides.
`forwarder.py IN OUT cut COUNT` lets COUNT frames through, then switches OUT off and drops the rest.
`forwarder.py IN OUT hold COUNT LAST MILLISECONDS` lets COUNT frames through and holds the rest, until it has held the
one with the number LAST for so long.

It prints a line when it stands ready. Told on its standard input how many frames were offered, it goes on until it has
seen as many, then prints as JSON what became of them: how many the kernel had no room for, and the rest by source.
Only Python's standard library.
"""

import contextlib
import ctypes
import fcntl
import json
import random
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

# Of an untagged IPv4 test frame: the kind, whose upper bits mark it and whose lower ones are the source's number.
KIND, MARKER_MASK, MARKER, SOURCE_MASK = 44, 0xE0, 0xA0, 0x0F
SEQUENCE = slice(50, 54)
SOL_PACKET, PACKET_STATISTICS = 263, 6
# Frames that are on their way when nobody sends any more come within this time, or never.
MOST_SECONDS = 120
# Of what arrives (the packet's kind is not that of one that leaves), test frames alone, and they whole.
FILTER = [
    (0x28, 0, 0, 0xFFFFF004),
    (0x15, 4, 0, 4),
    (0x30, 0, 0, KIND),
    (0x54, 0, 0, MARKER_MASK),
    (0x15, 0, 1, MARKER),
    (0x06, 0, 0, 2048),
    (0x06, 0, 0, 0),
]


def turn_on_gro(interface: str) -> None:
    """Redirected frames reach the end of a veth pair only with this."""
    value = ctypes.create_string_buffer(struct.pack("II", 0x2C, 1))
    address = ctypes.addressof(value)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8946, struct.pack("16sP", interface.encode(), address) + bytes(16))


def open_receiver(interface: str) -> socket.socket:
    """A socket on which nothing but arriving test frames takes room."""
    receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    instructions = b"".join(struct.pack("HBBI", *instruction) for instruction in FILTER)
    code = ctypes.create_string_buffer(instructions)
    program = struct.pack("HP", len(FILTER), ctypes.addressof(code))
    receiver.setsockopt(socket.SOL_SOCKET, 26, program)  # SO_ATTACH_FILTER
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    with contextlib.suppress(PermissionError):
        receiver.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE, root's alone
    receiver.bind((interface, 3))
    return receiver


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
        if larger:
            self.reordered += 1
            self.extents.append(len(before) - larger[0])
            smaller = [place for place, other in enumerate(before) if other < sequence]
            self.degrees.append(len(before) - 1 - (smaller[-1] if smaller else -1))


@dataclass
class Forwarder:
    """Lets frames go on, and keeps account."""

    sender: socket.socket
    reported: dict[int, Account] = field(default_factory=dict)
    arrived: dict[int, dict[int, None]] = field(default_factory=dict)

    def send(self, frame: bytes) -> None:
        """Lets a frame go on."""
        source, sequence = frame[KIND] & SOURCE_MASK, number(frame)
        self.sender.send(frame)
        arrived = self.arrived.setdefault(source, {})
        if sequence in arrived:
            self.reported[source].duplicated += 1
        arrived[sequence] = None

    def drop(self, frame: bytes) -> None:
        """Lets a frame fall."""
        self.reported[frame[KIND] & SOURCE_MASK].dropped += 1

    def take(self, frame: bytes, decide: Callable[[bytes], None]) -> None:
        """Enters a frame, and lets its fate be decided."""
        self.reported.setdefault(frame[KIND] & SOURCE_MASK, Account()).taken += 1
        decide(frame)

    def taken(self) -> int:
        """How many frames came."""
        return sum(account.taken for account in self.reported.values())

    def account(self, missed: int) -> str:
        """All of it. The order is looked at only now: while frames come it would take too long."""
        for source, account in self.reported.items():
            before: list[int] = []
            for sequence in self.arrived.get(source, {}):
                account.enter(sequence, before)
                before.append(sequence)
        return json.dumps({"missed": missed, **{source: asdict(account) for source, account in self.reported.items()}})


def number(frame: bytes) -> int:
    """The sequence number."""
    return int.from_bytes(frame[SEQUENCE], "big")


class Harm:
    """Drops, duplicates and reorders."""

    def __init__(self, forwarder: Forwarder, seed: str) -> None:
        self.forwarder, self.choose = forwarder, random.Random(int(seed))
        self.held: list[tuple[int, bytes]] = []

    def decide(self, frame: bytes) -> None:
        """Over a frame, after those whose time has come."""
        due = [other for turns, other in self.held if turns <= 1]
        self.held = [(turns - 1, other) for turns, other in self.held if turns > 1]
        for other in due:
            self.forwarder.send(other)
        fate = self.choose.random()
        if fate < 0.05:
            self.forwarder.drop(frame)
        elif fate < 0.10:
            self.held.append((self.choose.randint(1, 9), frame))
        else:
            self.forwarder.send(frame)
            if fate < 0.15:
                self.forwarder.send(frame)

    def close(self) -> None:
        """What is still held is dropped."""
        for _, frame in self.held:
            self.forwarder.drop(frame)


class Cut:
    """Breaks in the middle."""

    def __init__(self, forwarder: Forwarder, target: str, count: str) -> None:
        self.forwarder, self.target, self.left = forwarder, target, int(count)

    def decide(self, frame: bytes) -> None:
        """The first frames pass, the others do not."""
        if not self.left:
            self.forwarder.drop(frame)
            return
        self.forwarder.send(frame)
        self.left -= 1
        if not self.left:
            subprocess.run(["ip", "link", "set", self.target, "down"], check=True)

    def close(self) -> None:
        """Nothing is held."""


class Hold:
    """Stands still, as a guest does that is off its CPU, and goes on with what it held."""

    def __init__(self, forwarder: Forwarder, count: str, last: str, milliseconds: str) -> None:
        self.forwarder, self.left = forwarder, int(count)
        self.last, self.seconds = int(last), int(milliseconds) / 1000
        self.held: list[bytes] = []

    def decide(self, frame: bytes) -> None:
        """The first frames pass at once, the others together."""
        if self.left:
            self.forwarder.send(frame)
            self.left -= 1
            return
        self.held.append(frame)
        if number(frame) == self.last:
            time.sleep(self.seconds)
            for other in self.held:
                self.forwarder.send(other)

    def close(self) -> None:
        """All that was held has been sent, or the last one never came."""


def main() -> None:
    """Forwards until as many frames came as it is asked for, or standard input ends."""
    source, target, kind, *words = sys.argv[1:]
    turn_on_gro(source)
    receiver = open_receiver(source)
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sender.bind((target, 0))
    forwarder = Forwarder(sender)
    way: Harm | Cut | Hold
    if kind == "harm":
        way = Harm(forwarder, *words)
    elif kind == "cut":
        way = Cut(forwarder, target, *words)
    else:
        way = Hold(forwarder, *words)
    print("ready", flush=True)
    missed, offered, deadline = 0, None, None
    while offered is None or forwarder.taken() + missed < offered:
        wait = None if deadline is None else max(0, deadline - time.monotonic())
        readable, _, _ = select.select([receiver] if offered is not None else [receiver, sys.stdin], [], [], wait)
        if receiver in readable:
            forwarder.take(receiver.recv(2048), way.decide)
        elif readable:
            line = sys.stdin.readline()
            if not line:
                break
            offered, deadline = int(line), time.monotonic() + MOST_SECONDS
        else:
            break
        if receiver not in readable or offered is not None:
            # Reading sets the kernel's counter back.
            missed += struct.unpack("II", receiver.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
    way.close()
    print(forwarder.account(missed), flush=True)


main()
