"""Guests that lie, flood and forge: what each attack costs, and whom.

``python benches/survive guests [--seed N] [--count N] [--only forged,channel,run]``, as root. Three parts:

- *forged*: frames go through a router that drops each tenth, and writes forgeries of all (``forger.py``). Both sinks
  must lose exactly what was dropped, and count no forgery.
- *channel*: an agent that attacks (``hostile_peer.py``) behind each kind of stream that a guest's channel is here. The
  client must end with an answer or one sentence, within its time and its memory.
- *run*: ``virtoll run`` of good guests beside containers, or machines (``--platform qemu-tcg``), whose agent attacks
  (``hostile_agent.c``). The trials of the good ones must be ok, and nothing of a storm of frames may be seen on this
  machine's own links.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from virtoll.agent.client import AgentClient
from virtoll.agent.operations.session import ClocksRequest
from virtoll.agent.operations.traffic import SinkEnd, Source, Traffic, TrafficRequest
from virtoll.errors import GuestError
from virtoll.image.clone import built_agent
from virtoll.lab.inside import with_descendants
from virtoll.platforms.process_guest import connect_stdio, socket_session
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.store import RunFolder

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MOST_MIB = 500
MOST_MORE_MIB = 400
"""What an attack may add to the memory of a controller that this process forked, whatever this process holds."""
MARK = b"VIRTOLL-HOSTILE"
PARTS = ("forged", "channel", "run")
STREAMS = ("pipe", "socket", "paced", "terminal")
READY_SECONDS = 60.0
PEAK_SECONDS = 1.0
"""How often it is asked for the peak of a process that may end: one that swells is there for longer."""
PATIENCE = 1 / 30
"""How much of a deadline is given to who stands still for good."""


@dataclass
class Row:
    """One line of the table; ``wrong`` says what should not have been."""

    attack: str
    cases: int = 0
    own: int = 0
    others: int = 0
    sent: int = 0
    counted: int = 0
    peak_mib: float = 0.0
    more_mib: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def cells(self) -> list[str]:
        """As Markdown."""
        frames = [str(self.sent), str(self.counted)] if self.sent else ["–", "–"]
        peak = f"{self.peak_mib:.0f}" if self.peak_mib else "–"
        return [self.attack, str(self.cases), str(self.own), str(self.others), *frames, peak]


def table(rows: Sequence[Row]) -> str:
    """The figures."""
    head = [
        "attack",
        "cases",
        "own trials not ok",
        "others' trials not ok",
        "forged frames sent",
        "counted",
        "peak memory, MiB",
    ]
    lines = [head, ["---"] * len(head), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def progress(row: Row) -> None:
    """One line of what is done, with the time."""
    told = row.wrong or " ".join(row.cells())
    print(f"{time.strftime('%H:%M:%S')} {told}", file=sys.stderr, flush=True)


# Forged frames.


@dataclass(frozen=True)
class Path3:
    """Namespace of a generator, a router that lies and a sink: g0 - r0, r1 - s0."""

    agent: AgentClient
    inside: tuple[str, ...]


@contextlib.contextmanager
def path() -> Iterator[Path3]:
    """Started in a network namespace of its own, which is gone afterwards."""
    process = subprocess.Popen(
        ["unshare", "--net", str(built_agent()), "--role", "peer", "--channel", "stdio"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    client = connect_stdio(process, "the peer")
    try:
        client.wait_ready(READY_SECONDS)
        inside = ("nsenter", f"--net=/proc/{process.pid}/ns/net")
        script = "; ".join(
            [
                "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6",
                "ip link add g0 address 02:00:00:00:01:00 type veth peer name r0",
                "ip link add r1 type veth peer name s0 address 02:00:00:00:02:00",
                *(f"ip link set {name} up" for name in ("g0", "r0", "r1", "s0")),
            ]
        )
        subprocess.run([*inside, "sh", "-ec", script], check=True)
        yield Path3(client, inside)
    finally:
        client.close()
        process.kill()
        process.wait()


def forged(path3: Path3, sink: str, chance: random.Random, trial: int) -> Row:
    """One trial through the router that lies."""
    row = Row(f"forged frames, sink {sink}", cases=1)
    seed, copies = chance.randrange(2**32), chance.randrange(2, 6)
    forger = subprocess.Popen(
        [*path3.inside, sys.executable, str(HERE / "forger.py"), "r0", "r1", str(seed), str(copies)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert forger.stdin is not None
    assert forger.stdout is not None
    forger.stdout.readline()
    source = Source(
        interface="g0",
        source_mac="02:00:00:00:01:00",
        destination_mac="02:00:00:00:02:00",
        source_address="10.1.0.1",
        destination_address="10.2.0.1",
        source_port=1024,
        destination_port=9,
        rate_frames_per_second=500.0,
    )
    request = Traffic(
        trial=trial,
        frame_size_bytes=64,
        duration_ns=1_000_000_000,
        backend="af-packet",
        sources=(source,),
        sink=SinkEnd(interfaces=("s0",), backend=sink),
        quiet_ns=300_000_000,
        residual_ns=5_000_000_000,
        drain_limit_ns=20_000_000_000,
        catch_up_ns=2**63,
    )
    reply = path3.agent.ask(TrafficRequest.from_record(request), 120.0)
    forger.stdin.close()
    counts: dict[str, int] = json.loads(forger.stdout.read())
    forger.wait()
    arrived, sent = reply.sink.per_source[0], reply.sources[0]
    genuine = counts.pop("taken") - counts.get("dropped", 0)
    dropped, replayed = counts.pop("dropped", 0), counts.pop("replayed", 0)
    row.sent, row.counted = sum(counts.values()), max(0, arrived.forwarded_frames - genuine)
    seen = reply.sink.forged_frames or 0
    if arrived.forwarded_frames > sent.offered_frames - dropped or arrived.duplicate_frames > replayed:
        row.wrong.append(
            f"{arrived.forwarded_frames} of {genuine} frames, {arrived.duplicate_frames} of {replayed} replays"
        )
    if not seen or seen > row.sent:
        row.wrong.append(f"{seen} forged frames were seen of {row.sent}")
    return row


def forged_rows(chance: random.Random, count: int) -> list[Row]:
    """Both sinks, each so many trials."""
    rows = []
    with path() as path3:
        for number, sink in enumerate(("tpacket", "xdp")):
            whole = Row(f"forged frames, sink {sink}")
            for place in range(count):
                add(whole, forged(path3, sink, chance, 1 + number * 1000 + place))
            rows.append(whole)
    return rows


def add(whole: Row, part: Row) -> None:
    """One more case of the same attack."""
    whole.cases += part.cases
    whole.own += part.own
    whole.others += part.others
    whole.sent += part.sent
    whole.counted += part.counted
    whole.peak_mib = max(whole.peak_mib, part.peak_mib)
    whole.more_mib = max(whole.more_mib, part.more_mib)
    whole.wrong += part.wrong


# The channel.


@contextlib.contextmanager
def session(stream: str, *argv: str) -> Iterator[AgentClient]:
    """A program with a client at its standard input and output, by that kind of stream."""
    if stream == "pipe":
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        client = connect_stdio(process, "the guest")
    elif stream == "terminal":
        ours, theirs = os.openpty()
        subprocess.run(["stty", "raw", "-echo"], stdin=theirs, check=True)
        process = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL)
        os.close(theirs)
        client = AgentClient(ours, ours, "the guest")
    else:
        client, end = socket_session("the guest")
        client.window_bytes = 2048 if stream == "paced" else None
        process = subprocess.Popen(argv, stdin=end.fileno(), stdout=end.fileno(), stderr=subprocess.DEVNULL)
        end.close()
    client.patience = PATIENCE
    try:
        yield client
    finally:
        client.close()
        process.kill()
        process.wait()


def attacked(attack: str, stream: str, step: str) -> str:
    """What became of a few requests to an agent that attacks: ``answered``, or the sentence of the error."""
    with session(stream, sys.executable, str(HERE / "hostile_peer.py"), attack, step) as client:
        try:
            client.wait_ready(READY_SECONDS if step != "greeting" else 2.0)
            if attack == "never reads":
                client.call("exec", 30.0, argv=["x" * 4_000_000])
            for _ in range(3):
                client.ask(ClocksRequest(), 30.0)
        except GuestError as error:
            return str(error)
    return "answered"


def peak_mib(process: int | str = "self", what: str = "VmHWM:") -> float:
    """The most memory that a process has had (`VmRSS:`: that it has now); 0 where it is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines():
            if line.startswith(what):
                return int(line.split()[1]) / 1024
    return 0.0


def in_a_process(attack: str, stream: str, step: str) -> Row:
    """One attack on a controller of its own, whose memory is measured."""
    row = Row("", cases=1)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            os.close(reader)
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
            at_start = peak_mib(what="VmRSS:")
            try:
                said, wrong = attacked(attack, stream, step), ""
            except BaseException:  # noqa: BLE001 - whatever is no sentence is what is looked for
                said, wrong = "", traceback.format_exc()
            os.write(writer, json.dumps([said, wrong[-2000:], peak_mib(), peak_mib() - at_start]).encode())
            code = 0
        os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        told = answer.read()
    os.waitpid(child, 0)
    ended = ("", "the controller ended", 0.0, 0.0)
    said, wrong, row.peak_mib, row.more_mib = json.loads(told) if told else ended
    row.own = int(said != "answered")
    name = f"{attack} by {stream} {step}".strip()
    if wrong:
        row.wrong.append(f"{name}: {wrong}")
    elif not said.isprintable() or len(said) > 1000:
        row.wrong.append(f"{name}: no sentence: {said[:200]!r}")
    if row.more_mib > MOST_MORE_MIB:
        row.wrong.append(f"{name}: {row.more_mib:.0f} MiB more")
    return row


def channel_rows(attacks: Sequence[str], streams: Sequence[str], steps: Sequence[str]) -> list[Row]:
    """Each attack by each stream, when the agent is to greet and when it is to answer."""
    rows = []
    for attack in attacks:
        whole = Row(attack)
        for stream in streams:
            for step in steps:
                add(whole, in_a_process(attack, stream, step))
        rows.append(whole)
        progress(whole)
    return rows


# Whole runs.

BASE = 24_000
RUN_ATTACKS = (
    "none",
    "lies of its result",
    "marks without end",
    "console without end",
    "a line without end",
    "bad UTF-8",
    "NULs",
    "nested",
    "a number of 4000 digits",
    "NaN",
    "wrong ids",
    "answers twice",
    "half closed",
    "forged marks",
    "late",
    "escapes in an error",
    "ok is a list",
    "an answer of 8 MiB",
    "half a surrogate pair",
    "storm to neighbours and host",
    "dies",
    "forged test frames",
)
"""By their numbers in ``hostile_agent.c``."""
COSTS_NOTHING = frozenset({"none", "bad UTF-8", "NULs", "NaN", "wrong ids", "answers twice", "late"})
IN_TRAFFIC = frozenset({"storm to neighbours and host", "forged test frames"})
FORWARD = (
    "{workload: forward, frame_size_bytes: 64, first_rate_frames_per_second: 2000, rate_factor: 1000,"
    " point_milliseconds: 50, cpu_milliseconds: 0, stop_below_share: 1}"
)
"""What such a guest is to do as well, and the good ones beside it."""
AT_ONCE = 3
"""A guest that dies is started again so often in a block."""


def hostile_program(folder: Path) -> Path:
    """The program that stands for the agent: the shim, the real agent, and how long the shim is."""
    shim, program = folder / "shim", folder / "virtoll-agent"
    subprocess.run(
        ["cc", "-static", "-O1", "-o", str(shim), str(HERE / "hostile_agent.c")], check=True, stdout=subprocess.DEVNULL
    )
    own = shim.read_bytes()
    program.write_bytes(own + built_agent().read_bytes() + b"VTLHOSTL" + struct.pack("=Q", len(own)))
    program.chmod(0o755)
    return program


@contextlib.contextmanager
def watched_links() -> Iterator[list[bytes]]:
    """Frames of the storm on any link of this machine's own network, collected while the context is open."""
    found: list[bytes] = []
    capture = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    capture.settimeout(0.2)
    over = threading.Event()

    def collect() -> None:
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                frame = capture.recv(2048)
                if MARK in frame:
                    found.append(frame)

    thread = threading.Thread(target=collect)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
        capture.close()


def family_peak(process: int) -> float:
    """The most memory of a ``virtoll`` and of each Python below it."""
    peaks = [0.0]
    for relative in with_descendants([process]):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{relative}/cmdline").read_bytes()
            if b"virtoll" in words and b"python" in words:
                peaks.append(peak_mib(relative))
    return max(peaks)


@dataclass(frozen=True)
class Ran:
    """A run that is over."""

    trials: Sequence[TrialRecord]
    said: str
    code: int
    peak_mib: float
    seen: int


def ran(program: Path, into: Path, numbers: Sequence[int], platforms: Sequence[str]) -> Ran:
    """One block, without a report, of jobs that tell the hostile guests which attack is asked for."""
    experiment = into / "hostile.yaml"
    jobs = "\n".join(f"  - {{workload: superpi, digits: {BASE + number}}}" for number in numbers)
    in_traffic = bool(IN_TRAFFIC & {RUN_ATTACKS[number] for number in numbers})
    if in_traffic:
        jobs += f"\n  - {FORWARD}"
    experiment.write_text(
        f"name: hostile\nquestion: What does it cost?\nplatforms: [{', '.join(platforms)}]\nblocks: 1\n"
        # In the second round what a guest began in the first goes on beside all traffic.
        f"rounds: {2 if in_traffic else 1}\n"
        f"guest: {{vcpus: 1, memory: 128MiB}}\nworkloads:\n{jobs}\n",
        encoding="utf-8",
    )
    environment = {
        **os.environ,
        "VIRTOLL_AGENT": str(program),
        "VIRTOLL_CACHE": str(program.parent / "cache"),
        "PYTHONPATH": str(ROOT / "src"),
    }
    argv = [sys.executable, "-m", "virtoll", "campaign", "block", str(experiment), "--block", "1", "--into", str(into)]
    with watched_links() as found, tempfile.TemporaryFile() as output:
        process = subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=into)
        peak = 0.0
        while process.returncode is None:
            peak = max(peak, family_peak(process.pid))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PEAK_SECONDS)
        output.seek(0)
        said = output.read().decode(errors="replace")
        seen = len(found)
    part = into / "block-1"
    trials = RunFolder.open(part).latest_trials() if part.exists() else []
    return Ran(list(trials), said, process.returncode, peak, seen)


def enter(row: Row, name: str, trial: TrialRecord, hostile: str) -> None:
    """One trial of an attack's run: whose it was, how it ended, and whether that should be."""
    reason = trial.reason or ""
    if not reason.isprintable() or len(reason) > 1000 or "Traceback" in reason:
        row.wrong.append(f"{name}: no sentence: {reason[:200]!r}")
    # A frame that was never sent and was believed ends its trial: the books do not balance.
    row.counted += int("were never sent" in reason)
    if trial.status == "ok":
        return
    own = trial.platform == hostile
    row.own += int(own)
    row.others += int(not own)
    if not own or name in COSTS_NOTHING:
        row.wrong.append(f"{name}: {trial.platform} is {trial.status}: {reason}")


def judged(ran: Ran, numbers: Sequence[int], hostile: str) -> list[Row]:
    """A row for each attack of a run; what is wrong with all of it is in the first."""
    rows = []
    for number in numbers:
        name = RUN_ATTACKS[number]
        row = Row(f"run: {name}", cases=1, peak_mib=ran.peak_mib)
        of_attack = [one for one in ran.trials if one.parameters.get("digits") == BASE + number]
        if name in IN_TRAFFIC:
            of_attack += [one for one in ran.trials if one.workload == "forward"]
        if name == "forged test frames":
            row.sent = sum(point.sink.forged_frames or 0 for trial in of_attack for point in trial.points or ())
        for trial in of_attack:
            enter(row, name, trial, hostile)
        if not of_attack:
            row.wrong.append(f"{name}: no trial, exit code {ran.code}: {ran.said[-1000:]}")
        rows.append(row)
    rows[0].wrong += whole_run(ran)
    return rows


def whole_run(ran: Ran) -> list[str]:
    """What is wrong with a run, whatever its trials are."""
    wrong = []
    if "Traceback" in ran.said or ran.code not in (0, 1):
        wrong.append(f"exit code {ran.code}: {ran.said[-2000:]}")
    if ran.seen:
        wrong.append(f"{ran.seen} frames of a guest's were seen on this machine's own links")
    if ran.peak_mib > MOST_MIB:
        wrong.append(f"{ran.peak_mib:.0f} MiB")
    return wrong


def run_rows(
    chance: random.Random, numbers: Sequence[int], hostile: str = "runc", good: Sequence[str] = ("native", "netns")
) -> list[Row]:
    """Every attack in some run, a few together, in an order by chance; the guests of ``hostile`` attack."""
    rows = []
    order = list(numbers)
    chance.shuffle(order)
    with tempfile.TemporaryDirectory(prefix="virtoll-hostile-", dir="/var/tmp") as folder:
        program = hostile_program(Path(folder))
        for first in range(0, len(order), AT_ONCE):
            part = order[first : first + AT_ONCE]
            into = Path(folder) / f"run-{first}"
            into.mkdir()
            rows += (found := judged(ran(program, into, part, (*good, hostile)), part, hostile))
            for row in found:
                progress(row)
            shutil.rmtree(into)
    return rows


def main(arguments: list[str]) -> int:
    """All parts; 1 where an attack did what it should not."""
    from benches.survive.hostile_peer import ATTACKS

    parser = argparse.ArgumentParser(prog="guests", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--count", type=int, default=20, help="trials with forged frames, for each sink")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, by comma: forged, channel, run")
    parser.add_argument("--platform", default="runc", help="whose guests attack in whole runs: containers, machines")
    parser.add_argument("--attack", action="append", choices=RUN_ATTACKS, help="in whole runs this alone; repeatable")
    wanted = parser.parse_args(arguments)
    print(f"seed {wanted.seed}", flush=True)
    chance, rows = random.Random(wanted.seed), list[Row]()
    parts = wanted.only.split(",")
    if "forged" in parts:
        rows += forged_rows(chance, wanted.count)
    if "channel" in parts:
        rows += channel_rows(list(ATTACKS), STREAMS, ("answer", "greeting"))
    if "run" in parts:
        rows += run_rows(chance, [RUN_ATTACKS.index(one) for one in wanted.attack or RUN_ATTACKS], wanted.platform)
    print(table(rows))
    wrong = [sentence for row in rows for sentence in row.wrong]
    for sentence in wrong:
        print(sentence)
    return 1 if wrong else 0
