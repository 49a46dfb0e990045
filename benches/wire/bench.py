# ruff: noqa: INP001
"""The packet path against its peers, and its own exactness. `make bench-wire`; as root, in namespaces of its own.

`bench.py peers`: generators straight into a counting sink and through a netns router, interleaved rounds, medians.
`bench.py pacing`: 16 cells of rate and frame size. `bench.py sink-loss`: 100 million frames back to back.
`bench.py latency-floor`: the instrument's own delay. `bench.py sinks`: the sink with full books on a core of its own
against the one that only counts. Standard library only.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from peers import FAR, NEAR, PACKAGES, PEERS, Peer, Run

import lab
from lab import GENERATOR, ROUTER, SINK, Counters, inside

ROOT = Path(__file__).resolve().parents[2]
AGENT = ROOT / "build" / "virtoll-agent"
WINDOW_SECONDS = 1.0
# After the window, so that a generator that stops by itself sends through all of it.
MARGIN_SECONDS = 0.4
# Below this a generator did not run, or its frames do not pass.
MINIMUM_MFPS = 0.001
# What the sink with full books is to take of what the counting sink takes.
SINK_GOAL = 0.7


def install() -> None:
    """Installs the peers by apt."""
    listed = subprocess.run(["dpkg-query", "-W", *PACKAGES], capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        command = ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]
        if subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False).returncode != 0:
            print("bench: some peers could not be installed and are left out", file=sys.stderr)


def _receive(agent: Path, where: tuple[str, str], seconds: float, books: bool) -> subprocess.Popen[str]:
    name, device = where
    command = [str(agent), "wire", "receive", "--interface", device, "--sink", "xdp", "--duration", str(seconds)]
    command += ["--json"] if books else ["--json", "--any"]
    return subprocess.Popen(inside(name, command), stdout=subprocess.PIPE, text=True, start_new_session=True)


def _wait_open(sink: subprocess.Popen[str], device: str) -> None:
    """The sink's first line says that it counts; none comes when it could not attach."""
    assert sink.stdout is not None
    if '"open"' not in sink.stdout.readline():
        raise SystemExit(f"bench: the sink did not attach to {device}")


def measure(peer: Peer, routed: bool, own_core: bool, folder: Path, agent: Path) -> dict[str, Any] | None:
    """One run: million frames a second sent, received by interface counters and by the sink; None if it did not run."""
    seconds = peer.warm_seconds + WINDOW_SECONDS + MARGIN_SECONDS
    run = Run(FAR if routed else NEAR, seconds, folder, agent)
    where = (SINK, "s0") if routed else (ROUTER, "u0")
    server = None
    if peer.name == "iperf3":
        server = subprocess.Popen(inside(where[0], ["iperf3", "-s", "-1"]), stdout=subprocess.DEVNULL)
        sink = None
    else:
        sink = _receive(agent, where, seconds + 0.4, peer.books)
        _wait_open(sink, where[1])
    lab.place(own_core, gro=own_core or routed)
    nice = ["nice", "-n", "-20"] if peer.ours else ["nice", "-n", "-20", "taskset", "-c", "0"]
    if peer.name in {"dpdk-testpmd", "iperf2"}:  # the one places its threads itself, the other needs a second one
        nice = nice[:3]
    command = inside(GENERATOR, [*nice, *peer.command(run)])
    counters = Counters()
    sender = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    raise_session(sender.pid)
    time.sleep(peer.warm_seconds)
    start, before = counters.read()
    time.sleep(WINDOW_SECONDS)
    end, after = counters.read()
    counters.close()
    if not peer.stops_itself:
        os.killpg(sender.pid, signal.SIGINT)
    output = _finish(sender)
    told = json.loads(sink.communicate(timeout=20)[0]) if sink else None
    if server:
        server.terminate()
        server.wait()
    rate = {key: (after[key] - before[key]) / (end - start) / 1e6 for key in after}
    device = where[1]
    if rate[f"{device}.rx"] < MINIMUM_MFPS:
        print(f"bench: {peer.name} sent nothing: {output.strip()[-300:]}", file=sys.stderr)
        return None
    seen = told["seen_frames"] if told else None
    counted = told["interface"]["rx_packets"] if told else None
    return {
        "offered": rate["g0.tx"] + rate["g0.tx_drop"],
        "received": rate[f"{device}.rx"],
        "seen": seen,
        "counted": counted,
    }


def raise_session(process: int) -> None:
    """The same preference among sessions for every generator."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{process}/autogroup").write_text("-20", encoding="ascii")


def _finish(sender: subprocess.Popen[str]) -> str:
    try:
        return sender.communicate(timeout=10)[0]
    except subprocess.TimeoutExpired:
        os.killpg(sender.pid, signal.SIGKILL)
        return sender.communicate()[0]


def peers(options: argparse.Namespace) -> None:
    """The table of generators."""
    install()
    places = [
        ("straight, sink in the sender's softirq", False, False),
        ("straight, sink on its own core", False, True),
        ("through a netns router in the sender's softirq", True, False),
        ("through a netns router on its own core", True, True),
    ]
    results: dict[tuple[str, str], list[dict[str, Any]]] = {}
    with lab.namespaces(), tempfile.TemporaryDirectory() as folder:
        lab.add_ipv6()
        for number in range(options.rounds):
            for title, routed, own_core in places:
                for peer in PEERS:
                    result = measure(peer, routed, own_core, Path(folder), options.agent)
                    if result:
                        results.setdefault((title, peer.name), []).append(result)
            print(f"bench: round {number + 1} of {options.rounds} done", file=sys.stderr, flush=True)
    print_peers([title for title, _, _ in places], results)


def _median(results: dict[tuple[str, str], list[dict[str, Any]]], title: str, name: str, key: str) -> float | None:
    values = [one[key] for one in results.get((title, name), [])]
    return statistics.median(values) if values else None


def print_peers(titles: list[str], results: dict[tuple[str, str], list[dict[str, Any]]]) -> None:
    """Medians, the spread, whether sink and interface agree, and the ratios."""
    for title in titles:
        print(f"\n{title}: million frames of 64 bytes a second, medians")
        head = ("generator", "sent", "received", "lowest", "highest")
        print("  {:<22} {:>8} {:>9} {:>8} {:>8}  sink - interface counter".format(*head))
        for peer in PEERS:
            rows = results.get((title, peer.name), [])
            if not rows:
                continue
            received = [one["received"] for one in rows]
            differences = [one["seen"] - one["counted"] for one in rows if one["seen"] is not None]
            print(
                f"  {peer.name:<22} {statistics.median(one['offered'] for one in rows):8.3f} "
                f"{statistics.median(received):9.3f} {min(received):8.3f} {max(received):8.3f}  {differences or '-'}"
            )
    print("\nratios of the medians of received frames; the better of the two places for each generator")

    def best(name: str, routed: bool) -> float:
        chosen = titles[2:] if routed else titles[:2]
        return max((_median(results, title, name, "received") or 0.0) for title in chosen)

    goals = [
        ("live-frames / trafgen", "ours: live-frames", "trafgen", False, 10.0),
        ("live-frames / dpdk-testpmd", "ours: live-frames", "dpdk-testpmd", False, 10.0),
        ("live-frames / xdp-trafficgen", "ours: live-frames", "xdp-trafficgen", False, 1.5),
        ("af-xdp / trafgen", "ours: af-xdp", "trafgen", False, 1.0),
        ("af-packet / trafgen", "ours: af-packet", "trafgen", False, 1.0),
    ]
    for text, first, second, routed, goal in goals:
        if best(second, routed):
            ratio = best(first, routed) / best(second, routed)
            print(f"  {text:<34} {ratio:6.2f}   goal {goal:4.1f}  {'met' if ratio >= goal else 'MISSED'}")
    peer_best = max([0.0, *(best(peer.name, True) for peer in PEERS if not peer.ours)])
    own_best = max(best(peer.name, True) for peer in PEERS if peer.ours)
    if peer_best:
        verdict = "met" if own_best >= peer_best else "MISSED"
        print(f"  {'routed: ours / best peer':<34} {own_best / peer_best:6.2f}   goal  1.0  {verdict}")


def sinks(options: argparse.Namespace) -> None:
    """Frames that the sink with full books takes on a core of its own, as a share of what the counting sink takes.

    Each pair measures both within seconds, in alternating order; live frames send flat out from the other core.
    """
    counting, books = (peer for peer in PEERS if peer.name in {"ours: live-frames", "ours: live, full books"})
    taken: dict[str, list[float]] = {counting.name: [], books.name: []}
    with lab.namespaces(), tempfile.TemporaryDirectory() as folder:
        for number in range(options.pairs):
            for peer in (counting, books) if number % 2 else (books, counting):
                result = measure(peer, routed=False, own_core=True, folder=Path(folder), agent=options.agent)
                if result is None:
                    raise SystemExit(f"bench: {peer.name} did not run")
                taken[peer.name].append(result["received"])
    shares = [full / counted for full, counted in zip(taken[books.name], taken[counting.name], strict=True)]
    for name, rates in taken.items():
        rate = statistics.median(rates)
        print(f"{name:<22} {rate:6.3f} million frames/s ({min(rates):.3f} to {max(rates):.3f})")
    share = statistics.median(shares)
    verdict = "met" if share >= SINK_GOAL else "MISSED"
    spread = f"{min(shares):.3f} to {max(shares):.3f}"
    print(f"share of {len(shares)} pairs, median {share:.3f} ({spread})  goal {SINK_GOAL}  {verdict}")


def _calibrate(options: argparse.Namespace, *words: str) -> list[dict[str, Any]]:
    command = [str(options.agent), "wire", "calibrate", "--json", "--cpu", "0", *words]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [json.loads(line) for line in output.splitlines()]


_MEASURED_AGAIN = 3


def pacing(options: argparse.Namespace) -> None:
    """Rate error between first and last frame for 16 cells.

    A cell in which the host took the core away for longer than frames may be late (it has skipped frames) is measured
    again, three times at most, and says so.
    """
    head = ("bytes", "Mbit/s", "frames/s", "error %", "unsent", "batch", "gap cv", "gap max us", "late max us", "runs")
    print("{:>6} {:>7} {:>11} {:>10} {:>7} {:>6} {:>7} {:>11} {:>12} {:>5}".format(*head))
    worst = 0.0
    for size, rate in ((size, rate) for size in (64, 500, 1000, 1500) for rate in (10, 100, 300, 1000)):
        words = ("--backend", "live-frames", "--duration", str(options.seconds), "--sizes", str(size))
        answer = _calibrate(options, *words, "--rates", str(rate))[-1]
        runs = 1
        while answer["sources"][0]["skipped_frames"] > 0 and runs <= _MEASURED_AGAIN:
            answer = _calibrate(options, *words, "--rates", str(rate))[-1]
            runs += 1
        source, gap = answer["sources"][0], answer["sources"][0]["gap_ns"]
        seconds = (source["last_sent_monotonic_ns"] - source["first_sent_monotonic_ns"]) / 1e9
        reached = gap["count"] / seconds
        error = (reached / answer["rate_frames_per_second"] - 1) * 100
        worst = max(worst, abs(error), 100 * source["unsent_frames"] / source["intended_frames"])
        late = source["late_ns_max"] / 1e3
        print(
            f"{size:6} {rate:7} {reached:11.1f} {error:+10.5f} {source['unsent_frames']:7} {source['batch_frames']:6} "
            f"{gap['coefficient_of_variation']:7.3f} {gap['maximum'] / 1e3:11.1f} {late:12.1f} {runs:5}",
            flush=True,
        )
    print(f"worst error or unsent share: {worst:.5f} %  goal 0.01 %  {'met' if worst <= 0.01 else 'MISSED'}")


def sink_loss(options: argparse.Namespace) -> None:
    """Frames back to back until 100 million were received: the kernel's receive counter against the sink's count."""
    received = seen = forwarded = offered = lost = 0
    words = ("--backend", "live-frames", "--sizes", "64", "--flat-out", "--duration", "10")
    while received < options.frames:
        for answer in _calibrate(options, *words):
            sending = answer["sources"][0]["interface"]
            receiving = next(one for one in answer["interfaces"] if one["interface"] != sending)
            arrived = answer["sink"]["per_source"][0]
            received += receiving["rx_packets"]
            seen += answer["sink"]["seen_frames"] - 1  # the probe came before the counters were read
            forwarded += arrived["forwarded_frames"]
            lost += arrived["lost_frames"]
            offered += answer["sources"][0]["offered_frames"]
    print(f"offered {offered}, received by the interface {received}, seen by the sink {seen}, entered {forwarded}")
    print(f"lost between the interface's counter and the sink: {received - seen}; lost on the way: {lost}")


def latency_floor(options: argparse.Namespace) -> None:
    """One-way delay with nothing between generator and sink: what the instrument adds of its own."""
    head = ("back end", "sink", "frames/s", "min", "p50", "p90", "p99", "p99.9", "max us")
    print("{:<12} {:<8} {:>9} {:>7} {:>7} {:>7} {:>7} {:>8} {:>9}".format(*head))
    for answer in _calibrate(options, "--sizes", "64", "--rates", "10,100", "--duration", str(options.seconds)):
        if answer["rate_mbit"] is None:
            continue
        delay = answer["sink"]["per_source"][0]["delay_ns"]
        keys = ("minimum", "p50", "p90", "p99", "p999", "maximum")
        numbers = "{:7.3f} {:7.3f} {:7.3f} {:7.3f} {:8.3f} {:9.3f}".format(*(delay[key] / 1e3 for key in keys))
        rate = answer["rate_frames_per_second"]
        print(f"{answer['backend']:<12} {answer['sink']['backend']:<8} {rate:9.0f} {numbers}")


COMMANDS = {"peers": peers, "pacing": pacing, "sink-loss": sink_loss, "latency-floor": latency_floor, "sinks": sinks}


def main() -> int:
    """Runs what was asked for; everything without a word."""
    parser = argparse.ArgumentParser(description="The packet path against its peers, and its own exactness.")
    parser.add_argument("what", nargs="*", choices=[*COMMANDS, []], help="one or more; all of them without")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a paced trial")
    parser.add_argument("--frames", type=int, default=100_000_000, help="of sink-loss")
    parser.add_argument("--pairs", type=int, default=10, help="of sinks")
    parser.add_argument("--agent", type=Path, default=AGENT)
    options = parser.parse_args()
    if os.geteuid() != 0 or shutil.which("ip") is None:
        print("bench: this needs root and iproute2: run it as root.", file=sys.stderr)
        return 2
    for name in options.what or COMMANDS:
        print(f"\n== {name}", flush=True)
        COMMANDS[name](options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
