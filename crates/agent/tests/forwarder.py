"""A path that drops, duplicates and reorders known frames: from one interface to another, decided by a seed.

`forwarder.py IN OUT SEED`: prints a line when it stands ready; at the end of its standard input it prints, as JSON and by
source, what it took in and what it did with it. Only Python's standard library.
"""

import ctypes
import fcntl
import json
import random
import select
import socket
import struct
import sys

MAGIC = b"VT"


def turn_on_gro(interface: str) -> None:
    """Redirected frames reach the end of a veth pair only with this."""
    value = ctypes.create_string_buffer(struct.pack("II", 0x2C, 1))
    address = ctypes.addressof(value)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8946, struct.pack("16sP", interface.encode(), address) + bytes(16))


def main() -> None:
    """Forwards until standard input ends."""
    source, target, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    turn_on_gro(source)
    choose = random.Random(seed)
    receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    receiver.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
    receiver.bind((source, 0))
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sender.bind((target, 0))
    told: dict[int, dict[str, int]] = {}
    seen: dict[int, set[int]] = {}
    largest: dict[int, int] = {}
    held: list[tuple[int, bytes]] = []

    def send(frame: bytes) -> None:
        number, place = frame[42 + 4], int.from_bytes(frame[48:56], "big")
        own = told[number]
        sender.send(frame)
        if place in seen.setdefault(number, set()):
            own["duplicated"] += 1
            return
        seen[number].add(place)
        if place < largest.get(number, -1):
            own["reordered"] += 1
        largest[number] = max(largest.get(number, -1), place)

    def take(frame: bytes) -> None:
        own = told.setdefault(frame[46], {"taken": 0, "dropped": 0, "duplicated": 0, "reordered": 0})
        own["taken"] += 1
        for index, (turns, other) in reversed(list(enumerate(held))):
            held[index] = (turns - 1, other)
            if turns <= 1:
                send(held.pop(index)[1])
        fate = choose.random()
        if fate < 0.05:
            own["dropped"] += 1
        elif fate < 0.10:
            held.append((choose.randint(1, 9), frame))
        elif fate < 0.15:
            send(frame)
            send(frame)
        else:
            send(frame)

    print("ready", flush=True)
    while True:
        readable, _, _ = select.select([receiver, sys.stdin], [], [])
        if receiver in readable:
            frame, address = receiver.recvfrom(2048)
            if address[2] != socket.PACKET_OUTGOING and frame[42:44] == MAGIC:
                take(frame)
        elif sys.stdin in readable:
            break
    print(json.dumps(told), flush=True)


main()
