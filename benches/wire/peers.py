# ruff: noqa: INP001
"""The generators that are measured: their Debian packages, what they are called with, and what they send.

xdp-trafficgen sends IPv6 alone. Linux 6.18 wants its version 1.6, Debian 12 has 1.3: XDP_TRAFFICGEN names another
program. Its frames cannot be routed: it does not write again what a router changed in a recycled page.
"""

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FRAME_SIZE_BYTES = 64  # with FCS; every other tool is asked for the bytes in the buffer
FRAME_BYTES = FRAME_SIZE_BYTES - 4
PAYLOAD_BYTES = FRAME_BYTES - 42
GENERATOR_MAC = "02:00:00:00:01:01"
ROUTER_MAC = "02:00:00:00:01:02"
SOURCE = "10.99.1.1"
NEAR = "10.99.1.2"
FAR = "10.99.2.1"
GENERATOR_CPU = 0

PACKAGES = (
    "dpdk-dev",
    "ethtool",
    "iperf",
    "iperf3",
    "librte-mempool-ring23",
    "librte-net-af-packet23",
    "netsniff-ng",
    "tcpreplay",
    "xdp-tools",
)


@dataclass(frozen=True)
class Run:
    """One measurement: where the frames go, for how long, and a folder for files."""

    target: str
    seconds: float
    folder: Path
    agent: Path


@dataclass(frozen=True)
class Peer:
    """A generator by name."""

    name: str
    command: Callable[[Run], list[str]]
    ours: bool = False
    stops_itself: bool = False
    warm_seconds: float = 0.6
    books: bool = False  # into the sink that keeps books of each sequence number, not the one that only counts


def _macs() -> bytes:
    return bytes.fromhex((ROUTER_MAC + GENERATOR_MAC).replace(":", ""))


def _checksum(header: bytes) -> int:
    total = sum(int.from_bytes(header[at : at + 2], "big") for at in range(0, len(header), 2))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF


def _frame(target: str) -> bytes:
    """A UDP frame of FRAME_BYTES with right IPv4 header."""
    addresses = b"".join(bytes(int(part) for part in address.split(".")) for address in (SOURCE, target))
    head = struct.pack("!BBHHHBBH", 0x45, 0, FRAME_BYTES - 14, 0, 0x4000, 64, 17, 0) + addresses
    head = head[:10] + struct.pack("!H", _checksum(head)) + head[12:]
    datagram = struct.pack("!HHHH", 5000, 6000, FRAME_BYTES - 34, 0) + bytes(PAYLOAD_BYTES)
    return _macs() + b"\x08\x00" + head + datagram


def _pcap(run: Run) -> str:
    path = run.folder / f"{run.target}.pcap"
    frame = _frame(run.target)
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    records = b"".join(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame for _ in range(1000))
    path.write_bytes(head + records)
    return str(path)


def _trafgen(run: Run) -> list[str]:
    path = run.folder / f"{run.target}.trafgen"
    path.write_text("{ " + ", ".join(f"0x{byte:02x}" for byte in _frame(run.target)) + " }\n", encoding="ascii")
    return ["trafgen", "-o", "g0", "-c", str(path), "-P", "1", "-b", "0", "-t", "0", "-S", "64KiB"]


def _testpmd(run: Run) -> list[str]:
    device = "net_af_packet0,iface=g0,qdisc_bypass=1,blocksz=65536,framesz=2048,framecnt=512"
    environment = ["-l", "0,1", "--main-lcore", "1", "--no-huge", "-m", "512", "--no-pci", "--file-prefix", "virtoll"]
    sending = ["--forward-mode=txonly", f"--txpkts={FRAME_BYTES}", "--total-num-mbufs=16384", "--nb-cores=1"]
    addresses = [f"--eth-peer=0,{ROUTER_MAC}", f"--tx-ip={SOURCE},{run.target}"]
    queues = ["--burst=64", "--txd=512", "--rxd=512", "--stats-period", "1"]
    return ["dpdk-testpmd", *environment, f"--vdev={device}", "--", *sending, *addresses, *queues]


def _ours(backend: str) -> Callable[[Run], list[str]]:
    def command(run: Run) -> list[str]:
        addresses = ["--destination-mac", ROUTER_MAC, "--source", SOURCE, "--destination", run.target]
        what = ["--backend", backend, "--size", str(FRAME_SIZE_BYTES), "--duration", str(run.seconds), "--json"]
        return [str(run.agent), "wire", "send", "--interface", "g0", *addresses, *what, "--cpu", str(GENERATOR_CPU)]

    return command


def _xdp_trafficgen(run: Run) -> list[str]:
    program = os.environ.get("XDP_TRAFFICGEN", "xdp-trafficgen")
    target = "fd99:2::1" if run.target == FAR else "fd99:1::2"
    addresses = ["-m", ROUTER_MAC, "-M", GENERATOR_MAC, "-a", target, "-A", "fd99:1::1", "-p", "9", "-P", "1024"]
    return [program, "udp", *addresses, *(["-l", "64"] if run.target == FAR else []), "-t", "1", "g0"]


def _tcpreplay(run: Run) -> list[str]:
    return ["tcpreplay", "-i", "g0", "--preload-pcap", "--topspeed", "--loop=100000000", _pcap(run)]


def _iperf2(run: Run) -> list[str]:
    what = ["-l", str(PAYLOAD_BYTES), "-b", "100g", "-t", str(int(run.seconds) + 1)]
    return ["iperf", "-u", "-c", run.target, *what]


def _iperf3(run: Run) -> list[str]:
    what = ["-l", str(PAYLOAD_BYTES), "-b", "0", "-t", str(run.seconds)]
    return ["iperf3", "-u", "-c", run.target, *what]


PEERS = (
    Peer("ours: live-frames", _ours("live-frames"), ours=True, stops_itself=True),
    Peer("ours: live, full books", _ours("live-frames"), ours=True, stops_itself=True, books=True),
    Peer("ours: af-xdp", _ours("af-xdp"), ours=True, stops_itself=True),
    Peer("ours: af-packet", _ours("af-packet"), ours=True, stops_itself=True),
    Peer("xdp-trafficgen", _xdp_trafficgen),
    Peer("trafgen", _trafgen),
    Peer("dpdk-testpmd", _testpmd, warm_seconds=2.5),
    Peer("tcpreplay", _tcpreplay),
    Peer("iperf2", _iperf2),
    Peer("iperf3", _iperf3, stops_itself=True),
)
