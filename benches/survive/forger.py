"""A router that lies: what a guest between generator and sink could write, without the key of the trial's frames.

``forger.py IN OUT SEED COPIES``: it takes the test frames (untagged IPv4) that arrive at IN. Each tenth it drops, and
claims that it came: it writes frames with that number, as each kind of forgery has them. All others it sends on from
OUT, and writes ``COPIES`` forgeries of each beside them. It prints a line when it stands ready. When its standard input
ends it takes what is still there, then prints as JSON how many frames it took, dropped and replayed, and how many
forgeries of each kind it sent. Only Python's standard library.
"""

from __future__ import annotations

import contextlib
import json
import random
import select
import socket
import struct
import sys
from collections import Counter
from collections.abc import Callable

# Places in the payload of a test frame (docs/protocol.md), which begins at 42 in an untagged IPv4 frame.
PAYLOAD = 42
KIND, SENT, SEQUENCE, TAG, END = (PAYLOAD + at for at in (2, 3, 8, 12, 18))
MARKER, MARKER_MASK, EARLIER_TIME = 0xA0, 0xE0, 0x10
DROP_EVERY = 10
OUTGOING = 4
ROOM_BYTES = 16 << 20

Forgery = Callable[[bytearray, random.Random, list[bytes]], None]


def _put(frame: bytearray, place: int, value: int, size: int) -> None:
    frame[place : place + size] = (value % 2 ** (8 * size)).to_bytes(size, "big")


def invented(frame: bytearray, chance: random.Random, _seen: list[bytes]) -> None:
    """The frame's own numbers with a tag by chance."""
    frame[TAG:END] = chance.randbytes(END - TAG)


def near(frame: bytearray, chance: random.Random, _seen: list[bytes]) -> None:
    """The right tag but for one bit."""
    frame[chance.randrange(TAG, END)] ^= 1 << chance.randrange(8)


def renumbered(frame: bytearray, chance: random.Random, _seen: list[bytes]) -> None:
    """A right tag under a number that it is not of."""
    _put(frame, SEQUENCE, int.from_bytes(frame[SEQUENCE:TAG], "big") + chance.randrange(1, 500), TAG - SEQUENCE)


def retimed(frame: bytearray, chance: random.Random, _seen: list[bytes]) -> None:
    """Sent later than it was: a shorter delay."""
    _put(frame, SENT, int.from_bytes(frame[SENT:SEQUENCE], "big") + chance.randrange(1, 10**6), SEQUENCE - SENT)


def untimed(frame: bytearray, _chance: random.Random, _seen: list[bytes]) -> None:
    """A frame with a send time says that it has none, so that its delay is not counted."""
    frame[KIND] ^= EARLIER_TIME


def of_another(frame: bytearray, chance: random.Random, seen: list[bytes]) -> None:
    """The tag of another frame that was seen."""
    others = [one for one in seen if one[SEQUENCE:TAG] != frame[SEQUENCE:TAG]]
    frame[TAG:END] = chance.choice(others)[TAG:END] if others else bytes(END - TAG)


def blank(frame: bytearray, _chance: random.Random, _seen: list[bytes]) -> None:
    """No tag at all."""
    frame[TAG:END] = bytes(END - TAG)


FORGERIES: dict[str, Forgery] = {
    one.__name__: one for one in (invented, near, renumbered, retimed, untimed, of_another, blank)
}
KEPT = 64


def opened(interface: str) -> socket.socket:
    """A packet socket of one interface."""
    channel = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM_BYTES)
    with contextlib.suppress(PermissionError):
        channel.setsockopt(socket.SOL_SOCKET, 33, ROOM_BYTES)  # SO_RCVBUFFORCE, root's alone
    channel.bind((interface, 0))
    return channel


def is_test_frame(frame: bytes, kind: int) -> bool:
    """Whether it arrived and is marked as one."""
    return (
        kind != OUTGOING
        and len(frame) >= END
        and struct.unpack_from("!H", frame, 12) == (0x0800,)
        and frame[KIND] & MARKER_MASK == MARKER
    )


class Forger:
    """Takes frames and sends what it makes of them; ``counts`` says how many of what."""

    def __init__(self, leaving: socket.socket, seed: int, copies: int) -> None:
        self.leaving, self.chance, self.copies = leaving, random.Random(seed), copies
        self.seen: list[bytes] = []
        self.counts: Counter[str] = Counter()

    def take(self, frame: bytes) -> None:
        """One genuine frame."""
        self.counts["taken"] += 1
        if self.counts["taken"] % DROP_EVERY == 0:
            self.counts["dropped"] += 1
        else:
            self.send(frame)
            if self.counts["taken"] % DROP_EVERY == 1:
                self.counts["replayed"] += 1
                self.send(frame)
        # A forgery in whose place the frame itself was dropped would be counted as that frame if it were believed.
        for _ in range(self.copies):
            name = self.chance.choice(list(FORGERIES))
            forged = bytearray(frame)
            FORGERIES[name](forged, self.chance, self.seen)
            if forged != frame:
                self.counts[name] += 1
                self.send(bytes(forged))
        self.seen = [*self.seen[1 - KEPT :], frame]

    def send(self, frame: bytes) -> None:
        """Out, however long the interface takes."""
        while True:
            try:
                self.leaving.send(frame)
            except OSError as error:
                if error.errno != 105:  # ENOBUFS: the queue is full for now
                    raise
                continue
            return


def main(arriving: str, leaving: str, seed: str, copies: str) -> None:
    """Forge until the standard input ends."""
    source = opened(arriving)
    forger = Forger(opened(leaving), int(seed), int(copies))
    print("ready", flush=True)
    ending = False
    while True:
        readable, _, _ = select.select([source] if ending else [source, sys.stdin], [], [], 0.0 if ending else None)
        if source in readable:
            frame, address = source.recvfrom(2048)
            if is_test_frame(frame, address[2]):
                forger.take(frame)
        elif ending:
            break
        elif sys.stdin in readable:
            ending = True
    print(json.dumps(forger.counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
