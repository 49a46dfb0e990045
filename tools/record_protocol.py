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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal

from virtoll.agent.client import PROTOCOL, AgentClient, Reply
from virtoll.agent.links import network_request, peer_request
from virtoll.agent.operations.counters import CountersRequest
from virtoll.agent.operations.hand_over import HandOverRequest
from virtoll.agent.operations.http import HttpLoadRequest
from virtoll.agent.operations.jobs import (
    Exchange,
    MarkLink,
    RequestResponseExchange,
    RunRequest,
    ServeCloseRequest,
    ServeFinishRequest,
    ServeRequest,
    StreamExchange,
)
from virtoll.agent.operations.programs import (
    DataRequest,
    EndRequest,
    ExecRequest,
    Program,
    ProgressRequest,
    SpawnRequest,
)
from virtoll.agent.operations.session import (
    ClocksRequest,
    FactsRequest,
    HelloRequest,
    ShutdownRequest,
    TerminalCloseRequest,
    TerminalInputRequest,
    TerminalRequest,
    TerminalResizeRequest,
)
from virtoll.agent.operations.timekeeping import MarksRequest, TimekeeperStartRequest
from virtoll.agent.operations.traffic import (
    SendRequest,
    SinkCloseRequest,
    SinkFinishRequest,
    SinkOpenRequest,
    Traffic,
    TrafficRequest,
    TrafficStartRequest,
    TrafficStopRequest,
)
from virtoll.agent.request import Request
from virtoll.agent.timekeeper import await_path, echo_request
from virtoll.image import prepare_image
from virtoll.lab.network import GuestNetwork, Link, plan_links
from virtoll.runfolder.frame_shape import FrameShape
from virtoll.workloads.forward import lane
from virtoll.workloads.network_path import peer_with_addresses, peer_without_addresses
from virtoll.workloads.router import router_request, without_vlans
from virtoll.workloads.several_agents import totals
from virtoll.workloads.traffic import FrameParameters, Table, TrafficStream

ROOT: Final = Path(__file__).resolve().parent.parent
AGENT: Final = ROOT / "build" / "virtoll-agent"
RECORDED: Final = ROOT / "tests" / "recorded" / "protocol"
_INSIDE: Final = "--inside"
_READY_SECONDS: Final = 20.0
_MACHINE_SECONDS: Final = 120.0
_POINT_NS: Final = 50_000_000
_RATE: Final = 2000.0
_SECOND_NS: Final = 1_000_000_000
_PATIENCE_NS: Final = 10 * _SECOND_NS
_DATA: Final = "/mnt"
_PORT: Final = 8080
_HOME: Final = "/tmp"  # noqa: S108 - in the guest
_ENVIRONMENT: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": _HOME, "LC_ALL": "C"}


@dataclass
class RecordingClient(AgentClient):
    """A client that can keep an exchange as it passes: before the request's types, and after the reply's."""

    def record(self, request: Request[Reply], case: str | None = None) -> Reply:
        """Ask an operation and write the exchange into the file of its case, by default the operation's own name."""
        asked = request.to_json()
        answered = self.call(**asked)
        exchange = {"operation": request.op, "request": asked, "reply": answered}
        path = RECORDED / f"{case or request.op}.json"
        path.write_text(json.dumps(exchange, indent=1) + "\n", encoding="utf-8")
        return request.read_reply(answered, self.who)


@contextmanager
def agent(role: str, *before: str) -> Iterator[tuple[RecordingClient, int]]:
    """A ready agent of that role, started by the words ``before``, with its process."""
    command = [*before, str(AGENT), "--role", role, "--channel", "stdio"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    client = RecordingClient(os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno()), f"the {role}'s agent")
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
    image = prepare_image("tiny", kernel=True)
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
    guest.record(HelloRequest(protocol=PROTOCOL))
    guest.record(ClocksRequest())
    guest.record(HandOverRequest(pairs=((0, 1), (0, 0))))


def machines_own(machine: RecordingClient, network: GuestNetwork) -> None:
    """What a machine with a kernel of its own answers."""
    machine.record(FactsRequest())
    machine.ask(network_request(network))
    versions: tuple[tuple[str, Literal[4, 6]], ...] = (("network-vlan", 4), ("network-vlan-ipv6", 6))
    for case, ip_version in versions:
        request = router_request(network, FrameShape(frame_size_bytes=88, ip_version=ip_version, vlan=5))
        assert request is not None
        machine.record(request, case)
    machine.record(without_vlans(network), "network-without-vlans")
    machine.ask(ShutdownRequest())


def networks(guest: RecordingClient, peer: RecordingClient, network: GuestNetwork) -> dict[str, str]:
    """Addresses and neighbours as a run sets them; the guest's interfaces by MAC address."""
    peer.record(peer_request(network), "network-peer")
    configured = guest.record(network_request(network))
    for link in network.links:
        await_path(peer, link)
    request = router_request(network, FrameShape(frame_size_bytes=84, ip_version=6))
    assert request is not None
    guest.record(request, "network-ipv6")
    return {one.mac: one.name for one in configured.interfaces if one.mac is not None}


def programs(guest: RecordingClient) -> None:
    """Programs of the guest, and its folder for files."""
    limits = {"timeout_ns": 10 * _SECOND_NS, "limit_bytes": 4096}
    guest.record(ExecRequest(argv=("sort", "-r"), stdin=b"a\nb\n", env=_ENVIRONMENT, directory=_HOME, **limits))
    late = ExecRequest(argv=("sleep", "60"), env=None, timeout_ns=1_000_000, limit_bytes=0)
    guest.record(late, "exec-signal")
    (Path(_DATA) / "file").write_bytes(bytes(8192))
    guest.record(DataRequest(path=_DATA, empty=False, evict=True, trim=False))
    guest.record(DataRequest(path=_DATA, empty=True, evict=True, trim=True), "data-empty")
    guest.record(TerminalRequest(argv=("/bin/sh",), rows=24, columns=80))
    guest.record(TerminalResizeRequest(rows=50, columns=132))
    guest.record(TerminalInputRequest(data=b"echo hi\n"))
    guest.record(TerminalCloseRequest())


def jobs(guest: RecordingClient, peer: RecordingClient, link: Link, interface: str) -> None:
    """Jobs of the agent between two marks, and the timekeeper's side of it."""
    peer.record(echo_request(link, 2, _SECOND_NS))
    peer.record(TimekeeperStartRequest(interface=link.peer_interface))
    marks = MarkLink(
        interface=interface,
        source=link.guest_address,
        target=link.peer_address,
        target_mac=link.peer_mac,
        identifier=7,
        first_sequence=2,
    )
    guest.record(RunRequest(job="idle", parameters={"duration_ns": 1_000_000}, marks=marks))
    peer.record(MarksRequest(interface=link.peer_interface, identifier=7, wait_for=2, timeout_ns=_SECOND_NS))
    guest.record(RunRequest(job="superpi", parameters={"digits": 100}, marks=None), "run-superpi")
    repeated = RunRequest(job="superpi", parameters={"digits": 100}, marks=None, repeats=3)
    guest.record(repeated, "run-repeated")
    wanted = {"operation": "null-call", "operations": 1000, "batch_operations": 100}
    guest.record(RunRequest(job="kernel", parameters=wanted, marks=None), "run-kernel")
    limits = {"timeout_ns": _SECOND_NS, "limit_bytes": 4096}
    program = Program(argv=("echo", "hi"), env=_ENVIRONMENT, directory=_HOME, stdin=None, **limits)
    guest.record(RunRequest(job="program", parameters=program.to_json(), marks=None), "run-program")
    for case, parameters in _jobs(link).items():
        request = RunRequest(job=case.removesuffix("-signals"), parameters=parameters, marks=None)
        guest.record(request, f"run-{case}")


def _jobs(link: Link) -> dict[str, dict[str, Any]]:
    """The jobs that are not recorded elsewhere, small; a second one of "kernel" has figures of its own."""
    return {
        "masr": {"size_bytes": 2**20},
        "stream": {"elements": 1000, "rounds": 2, "threads": 1},
        "zfg": {"path": _DATA, "size_bytes": 4096, "rounds": 2, "dump_bytes": 4096, "synced": True},
        "forkwait": {"processes": 5},
        "kernel-signals": {"operation": "signal-handle", "operations": 1000, "batch_operations": 100},
        "context-switch": {"processes": 2, "working_set_bytes": 4096, "laps": 10},
        "ipc-bandwidth": {"channel": "shared-memory", "size_bytes": 3 * 65_536, "chunk_bytes": 65_536},
        "routing-table": {"routes": 100, "seed": 3, "via": link.peer_address},
    }


def connections(guest: RecordingClient, peer: RecordingClient, link: Link) -> None:
    """TCP between the two, and requests to a web server; the peer has an address meanwhile."""
    peer.record(peer_with_addresses((link,), forward=True), "network-peer-addressed")
    stream = StreamExchange(active="opener", bytes=65_536, message_bytes=8192)
    asking = RequestResponseExchange(active="listener", transactions=5, request_bytes=1, response_bytes=1)
    shared = RequestResponseExchange(active="opener", transactions=20, request_bytes=1, response_bytes=1, connections=2)
    served: tuple[tuple[str, Exchange], ...] = (("", stream), ("-request-response", asking), ("-connections", shared))
    for case, exchange in served:
        serve = ServeRequest(address=link.peer_address, exchange=exchange, timeout_ns=_PATIENCE_NS)
        where = {"address": link.peer_address, "port": peer.record(serve, f"serve{case}").port}
        parameters = {**where, "exchange": exchange.to_json(), "timeout_ns": _PATIENCE_NS}
        guest.record(RunRequest(job="tcp", parameters=parameters, marks=None), f"run-tcp{case}")
        peer.record(ServeFinishRequest(timeout_ns=_PATIENCE_NS), f"serve-finish{case}")
    peer.record(ServeCloseRequest())
    (Path(_DATA) / "page").write_bytes(bytes(100))
    argv = ("/usr/bin/python3", "-m", "http.server", str(_PORT), "--bind", link.guest_address, "--directory", _DATA)
    log, sample_ns = f"{_DATA}/log", _SECOND_NS // 10
    guest.record(
        SpawnRequest(name="server", argv=argv, env=_ENVIRONMENT, directory="/", output=log, sample_ns=sample_ns)
    )
    _await_connection(socket.AF_INET, (link.guest_address, _PORT)).close()
    load = HttpLoadRequest(
        target=f"{link.guest_address}:{_PORT}",
        path="/page",
        requests=5,
        rate_requests_per_second=100.0,
        keep_alive=False,
        connections=4,
        timeout_ns=_PATIENCE_NS,
        cpu=None,
    )
    peer.record(load)
    guest.record(ProgressRequest(name="server"))
    guest.record(EndRequest(name="server", timeout_ns=_PATIENCE_NS, limit_bytes=4096))
    peer.record(peer_without_addresses((link,), forward=True), "network-peer-plain")


def traffic(guest: RecordingClient, peer: RecordingClient, network: GuestNetwork) -> None:
    """Frames through the guest, in one request and in halves, and the counters on their way."""
    source, sink = network.sources[0], network.sink
    stream = TrafficStream((lane(source, sink, FrameShape()),), (sink.peer_interface,), 0, 1, Table(100, 3))

    def plain(tag: int) -> Traffic:
        return stream.request(FrameParameters(), tag, _POINT_NS, _RATE)

    peer.record(TrafficRequest.from_record(plain(1)))
    shaped = FrameParameters(mix="imix", vlan=5, batch_frames=1, sink="tpacket", backend="af-packet", destinations=4)
    told = TrafficRequest.from_record(stream.request(shaped, 2, _POINT_NS, None), histograms=True)
    peer.record(told, "traffic-shaped")
    peer.record(TrafficStartRequest.from_record(plain(5), wake_ns=1_000_000))
    time.sleep(0.1)  # else nothing was due yet
    peer.record(TrafficStopRequest())
    peer.record(SinkOpenRequest.from_record(plain(3)))
    sent = peer.record(SendRequest.from_record(plain(3)))
    peer.record(SinkFinishRequest(sources=totals(sent.sources)))
    peer.ask(SinkOpenRequest.from_record(plain(4)))
    peer.record(SinkCloseRequest())
    peer.record(CountersRequest(interfaces=(source.peer_interface, sink.peer_interface)))
    guest.record(CountersRequest(), "counters-all")


def inside() -> None:
    """Everything, in namespaces of this program's own."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "virtoll-data", _DATA], check=True)
    network = plan_links(0)
    marks = network.marks
    assert marks is not None
    with agent("peer") as (peer, _), agent("guest", "unshare", "--net", "--") as (guest, guest_pid):
        connect(network, guest_pid)
        sessions(guest)
        names = networks(guest, peer, network)
        programs(guest)
        jobs(guest, peer, marks, names[marks.guest_mac])
        connections(guest, peer, network.sources[0])
        traffic(guest, peer, network)
        guest.record(ShutdownRequest())
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
