#!/usr/bin/env python3
"""Records one exchange of each operation of the protocol, as it passes between this Python and this agent.

`sudo PYTHONPATH=src .venv/bin/python tools/record_protocol.py` writes `tests/recorded/protocol/*.json` anew, one file a
case: `{"operation", "request": the whole line but its id, "reply": what the agent answered}`. A peer and a guest are
started, each in a network namespace of its own, with the links and the requests of a run; a QEMU machine of the image
"tiny" answers what needs a kernel with VLANs, or would tell of this host. Tests of both languages read these files.
Exit codes: 0 all were written, 1 an operation failed.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal

from virtoll.agent.client import PROTOCOL, AgentClient, Answer
from virtoll.agent.timekeeper import Timekeeper, await_path, echo_request
from virtoll.image import prepare_image
from virtoll.lab.network import GuestNetwork, Link, plan_links
from virtoll.platforms.base import network_request, peer_request
from virtoll.runfolder.frame_shape import FrameShape
from virtoll.workloads.forward import lane
from virtoll.workloads.router import router_request, without_vlans
from virtoll.workloads.traffic import FrameParameters, Stream, Table
from virtoll.workloads.way import peer_with_addresses, peer_without_addresses

ROOT: Final = Path(__file__).resolve().parent.parent
AGENT: Final = ROOT / "build" / "virtoll-agent"
RECORDED: Final = ROOT / "tests" / "recorded" / "protocol"
_INSIDE: Final = "--inside"
_READY_SECONDS: Final = 20.0
_MACHINE_SECONDS: Final = 120.0
_POINT_NS: Final = 50_000_000
_RATE: Final = 2000.0
_SECOND_NS: Final = 1_000_000_000
_DATA: Final = "/mnt"
_PORT: Final = 8080
_ENVIRONMENT: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LC_ALL": "C"}  # noqa: S108 - anybody's


@dataclass
class RecordingClient(AgentClient):
    """Writes the exchange that ``case`` names into its file, and forgets the name; others are not kept."""

    case: str | None = None
    _sent: dict[str, Any] = field(default_factory=dict)

    def post(self, op: str, **fields: Any) -> int:
        """As any client's; the request is kept until its answer."""
        self._sent = {"op": op, **fields}
        return super().post(op, **fields)

    def _unwrap(self, message: Answer, op: str) -> Answer:
        reply = super()._unwrap(message, op)
        if self.case is not None:
            exchange = {"operation": op, "request": self._sent, "reply": reply}
            (RECORDED / f"{self.case}.json").write_text(json.dumps(exchange, indent=1) + "\n", encoding="utf-8")
            self.case = None
        return reply

    def record(self, op: str, case: str | None = None, **fields: Any) -> Answer:
        """Ask an operation and keep the exchange, by default under the operation's own name."""
        self.case = case or op
        return self.call(op, **fields)


@contextmanager
def agent(seat: str, *before: str) -> Iterator[tuple[RecordingClient, int]]:
    """A ready agent of that seat, started by the words ``before``, with its process."""
    command = [*before, str(AGENT), "--seat", seat, "--channel", "stdio"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    client = RecordingClient(os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno()), f"the {seat}'s agent")
    process.stdin.close()
    process.stdout.close()
    try:
        client.wait_ready(_READY_SECONDS)
        yield client, process.pid
    finally:
        client.close()
        process.wait(_READY_SECONDS)


@contextmanager
def machine_agent(network: GuestNetwork) -> Iterator[RecordingClient]:
    """The agent of a QEMU machine with a NIC for each link, which leads nowhere."""
    image = prepare_image("tiny")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/agent"
        nics = [["-nic", f"user,restrict=on,model=virtio-net-pci,mac={link.guest_mac}"] for link in network.links]
        command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-m", "256"]
        command += ["-kernel", str(image.kernel.vmlinuz), "-initrd", str(image.initramfs), "-append", "quiet"]
        command += ["-chardev", f"socket,id=agent,path={path},server=on", "-device", "virtio-serial-pci"]
        command += ["-device", "virtserialport,chardev=agent,name=virtoll", *chain.from_iterable(nics)]
        process = subprocess.Popen(command)
        try:
            descriptor = _await_connection(socket.AF_UNIX, path).detach()
            client = RecordingClient(descriptor, descriptor, "the machine's agent")
            client.wait_ready(_MACHINE_SECONDS)
            yield client
            client.close()
            process.wait(_MACHINE_SECONDS)
        finally:
            process.kill()


def _await_connection(family: int, address: str | tuple[str, int]) -> socket.socket:
    """A connection to who is about to listen."""
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        connection = socket.socket(family)
        try:
            connection.connect(address)
        except OSError:
            connection.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return connection


def connect(network: GuestNetwork, guest_pid: int) -> None:
    """The guest's links: a veth pair each, from this namespace to the guest's."""
    for link in network.links:
        _ip(
            f"link add {link.peer_interface} address {link.peer_mac} mtu {link.mtu_bytes} type veth "
            f"peer name {link.port_interface} address {link.guest_mac} mtu {link.mtu_bytes}"
        )
        _ip(f"link set {link.port_interface} netns {guest_pid}")


def _ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True)


def sessions(guest: RecordingClient) -> None:
    """What every session begins with."""
    guest.record("hello", protocol=PROTOCOL)
    guest.record("clocks")


def machines_own(machine: RecordingClient, network: GuestNetwork) -> None:
    """What a machine with a kernel of its own answers."""
    machine.record("facts")
    machine.call("network", **network_request(network))
    versions: tuple[tuple[str, Literal[4, 6]], ...] = (("network-vlan", 4), ("network-vlan-ipv6", 6))
    for case, ip_version in versions:
        request = router_request(network, FrameShape(frame_size_bytes=88, ip_version=ip_version, vlan=5))
        assert request is not None
        machine.record("network", case, **request)
    machine.record("network", "network-without-vlans", **without_vlans(network))
    machine.call("shutdown")


def networks(guest: RecordingClient, peer: RecordingClient, network: GuestNetwork) -> Answer:
    """Addresses and neighbours as a run sets them; the guest's answer."""
    peer.record("network", "network-peer", **peer_request(network))
    answer = guest.record("network", **network_request(network))
    for link in network.links:
        await_path(peer, link)
    request = router_request(network, FrameShape(frame_size_bytes=84, ip_version=6))
    assert request is not None
    guest.record("network", "network-ipv6", **request)
    return answer


def programs(guest: RecordingClient) -> None:
    """Programs of the guest, and its folder for files."""
    limits = {"timeout_ns": 10 * _SECOND_NS, "limit_bytes": 4096}
    place = {"env": _ENVIRONMENT, "directory": "/tmp"}  # noqa: S108 - in the guest
    guest.record("exec", argv=["sort", "-r"], stdin="YQpiCg==", **place, **limits)
    guest.record("exec", "exec-signal", argv=["sleep", "60"], env=None, timeout_ns=1_000_000, limit_bytes=0)
    (Path(_DATA) / "file").write_bytes(bytes(8192))
    guest.record("data", path=_DATA, empty=False, evict=True, trim=False)
    guest.record("data", "data-empty", path=_DATA, empty=True, evict=True, trim=True)
    guest.record("terminal", argv=["/bin/sh"], rows=24, columns=80)
    guest.record("terminal-resize", rows=50, columns=132)
    guest.record("terminal-input", data="ZWNobyBoaQo=")
    guest.record("terminal-close")


def jobs(guest: RecordingClient, peer: RecordingClient, link: Link, interface: str) -> None:
    """Jobs of the agent between two marks, and the timekeeper's side of it."""
    peer.record("path-delay", count=2, timeout_ns=_SECOND_NS, **echo_request(link))
    peer.case = "timekeeper-start"
    timekeeper = Timekeeper(guest, peer, link, interface, identifier=7)
    peer.case = None
    _marked(guest, peer, timekeeper)
    alone = {"marks": None}
    guest.record("run", "run-superpi", job="superpi", parameters={"digits": 100}, **alone)
    wanted = {"operation": "null-call", "operations": 1000, "batch_operations": 100}
    guest.record("run", "run-kernel", job="kernel", parameters=wanted, **alone)
    program = {"argv": ["echo", "hi"], "env": _ENVIRONMENT, "directory": "/tmp", "stdin": None}  # noqa: S108 - in it
    limits = {"timeout_ns": _SECOND_NS, "limit_bytes": 4096}
    for job, parameters in _jobs(link).items():
        guest.record("run", f"run-{job}", job=job.removesuffix("-signals"), parameters=parameters, **alone)
    guest.record("run", "run-program", job="program", parameters={**program, **limits}, **alone)


def _jobs(link: Link) -> dict[str, dict[str, Any]]:
    """The jobs that are not recorded elsewhere, small; a second one of "kernel" has figures of its own."""
    return {
        "masr": {"size_bytes": 2**20},
        "stream": {"elements": 1000, "rounds": 2, "threads": 1},
        "zfg": {"path": _DATA, "size_bytes": 4096, "rounds": 2, "dump_bytes": 4096, "synced": True},
        "forkwait": {"processes": 5},
        "kernel-signals": {"operation": "signal-handle", "operations": 1000, "batch_operations": 100},
        "context-switch": {"processes": 2, "working_set_bytes": 4096, "laps": 10},
        "routing-table": {"routes": 100, "seed": 3, "via": link.peer_address},
    }


def _marked(guest: RecordingClient, peer: RecordingClient, timekeeper: Timekeeper) -> None:
    """One job with marks on its link. The timekeeper asks for path delays before and after it: those are not kept."""
    plain = peer.call

    def call(op: str, deadline_seconds: float = 60.0, **fields: Any) -> Answer:
        peer.case = "marks" if op == "marks" else None
        return plain(op, deadline_seconds, **fields)

    peer.call = call  # type: ignore[method-assign]
    guest.case = "run"
    timekeeper.time_job("idle", {"duration_ns": 1_000_000}, _READY_SECONDS)
    del peer.call


def connections(guest: RecordingClient, peer: RecordingClient, link: Link) -> None:
    """TCP between the two, and requests to a web server; the peer has an address meanwhile."""
    peer.record("network", "network-peer-addressed", **peer_with_addresses((link,), forward=True))
    stream = {"kind": "stream", "active": "opener", "bytes": 65_536, "message_bytes": 8192}
    asking = {"kind": "request-response", "active": "listener", "transactions": 5, "request_bytes": 1}
    for case, exchange in (("", stream), ("-request-response", {**asking, "response_bytes": 1})):
        serving = peer.record("serve", f"serve{case}", address=link.peer_address, exchange=exchange, **_patience())
        where = {"address": link.peer_address, "port": serving["port"], "exchange": exchange, **_patience()}
        guest.record("run", f"run-tcp{case}", job="tcp", parameters=where, marks=None)
        peer.record("serve-finish", f"serve-finish{case}", **_patience())
    peer.record("serve-close")
    (Path(_DATA) / "page").write_bytes(bytes(100))
    argv = ["/usr/bin/python3", "-m", "http.server", str(_PORT), "--bind", link.guest_address, "--directory", _DATA]
    guest.record("spawn", name="server", argv=argv, env=_ENVIRONMENT, directory="/", output="/tmp/virtoll-server")  # noqa: S108 - in it
    _await_connection(socket.AF_INET, (link.guest_address, _PORT)).close()
    load = {"requests": 5, "rate_requests_per_second": 100.0, "keep_alive": False, "connections": 4, "cpu": None}
    peer.record("http-load", target=f"{link.guest_address}:{_PORT}", path="/page", **load, **_patience())
    guest.record("end", name="server", limit_bytes=4096, **_patience())
    peer.record("network", "network-peer-plain", **peer_without_addresses((link,), forward=True))


def _patience() -> dict[str, Any]:
    return {"timeout_ns": 10 * _SECOND_NS}


def traffic(guest: RecordingClient, peer: RecordingClient, network: GuestNetwork) -> None:
    """Frames through the guest, in one request and in halves, and the counters on their way."""
    source, sink = network.sources[0], network.sink
    stream = Stream((lane(source, sink, FrameShape()),), (sink.peer_interface,), 0, 1, Table(100, 3))
    plain = stream.request(FrameParameters(), 1, _POINT_NS, _RATE)
    peer.record("traffic", **plain)
    shaped = FrameParameters(mix="imix", vlan=5, batch_frames=1, sink="tpacket", backend="af-packet", destinations=4)
    peer.record("traffic", "traffic-shaped", **stream.request(shaped, 2, _POINT_NS, None), histograms=True)
    peer.record("sink-open", **stream.request(FrameParameters(), 3, _POINT_NS, _RATE))
    sent = peer.record("send", **stream.request(FrameParameters(), 3, _POINT_NS, _RATE))
    told = [{name: sent["sources"][0][name] for name in ("intended_frames", "offered_frames", "unsent_frames")}]
    peer.record("sink-finish", sources=told)
    peer.call("sink-open", **stream.request(FrameParameters(), 4, _POINT_NS, _RATE))
    peer.record("sink-close")
    peer.record("counters", interfaces=[source.peer_interface, sink.peer_interface])
    guest.record("counters", "counters-all")


def inside() -> None:
    """Everything, in namespaces of this program's own."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "virtoll-data", _DATA], check=True)
    network = plan_links(0)
    marks = network.marks
    assert marks is not None
    with agent("peer") as (peer, _), agent("guest", "unshare", "--net", "--") as (guest, guest_pid):
        connect(network, guest_pid)
        sessions(guest)
        answer = networks(guest, peer, network)
        names: Mapping[str, str] = {entry["mac"]: entry["name"] for entry in answer["interfaces"]}
        programs(guest)
        jobs(guest, peer, marks, names[marks.guest_mac])
        connections(guest, peer, network.sources[0])
        traffic(guest, peer, network)
        guest.record("shutdown")
    with machine_agent(network) as machine:
        machines_own(machine, network)


def main() -> int:
    """Remove the old set and record a new one."""
    if _INSIDE in sys.argv:
        inside()
        return 0
    RECORDED.mkdir(parents=True, exist_ok=True)
    for old in RECORDED.glob("*.json"):
        old.unlink()
    apart = ["unshare", "--net", "--mount", "--propagation", "private", "--"]
    return subprocess.run([*apart, sys.executable, __file__, _INSIDE], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
