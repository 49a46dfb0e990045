"""What an agent with counters tells beside the books of a point, made up to agree with them; and calibrations."""

from typing import Any

from tests.support.made_up_points import calibrated_at

CEILING = 10e6


def add_wire(point: dict[str, Any]) -> dict[str, Any]:
    """The point with hops (all loss is inside the guest), pace, delay and CPU time."""
    source, sink = point["sources"][0], point["sink"]["per_source"][0]
    offered, forwarded, rate = (
        source["offered_frames"],
        sink["forwarded_frames"],
        point["intended_rate_frames_per_second"],
    )
    span = round((offered - 1) * 1e9 / rate) if rate else source["end_monotonic_ns"]
    source.update(
        first_sent_monotonic_ns=500,
        last_sent_monotonic_ns=500 + span,
        refused_frames=0,
        skipped_frames=0,
        late_frames=0,
        cpu_ns=offered * 250,
        gap_ns=distribution(offered - 1, 200) | {"coefficient_of_variation": 0.05},
    )
    sink["delay_ns"] = distribution(forwarded, 1500) if forwarded else None
    point["sink"] |= {"backend": "xdp", "backend_reason": None, "seen_frames": forwarded}
    point |= {"backend": "live-frames", "backend_reason": None, "sizes_bytes": [point["frame_size_bytes"]]}
    busy = dict.fromkeys(("user_ns", "nice_ns", "system_ns", "idle_ns", "iowait_ns", "irq_ns", "steal_ns"), 0)
    point["cpu"] |= {
        "generator_cpu_ns": offered * 250,
        "sink_cpu_ns": forwarded * 100,
        "generator_cores": [1],
        "sink_core": 1,
        "sink_ran_on": [1],
        "processors": [{"cpu": cpu, "softirq_ns": 100_000_000, **busy} for cpu in (0, 1)],
    }
    point["hops"] = [
        hop("generator", "peer", "p0in0", "out", offered, 0),
        hop("guest-in", "guest", "l0in0", "in", offered, 0),
        hop("exit", "guest", "l0out", "out", forwarded, None),
        hop("sink", "peer", "p0out", "in", forwarded, None),
    ]
    point["surroundings"] = None
    return point


def hop(role: str, where: str, interface: str, way: str, frames: int, source: int | None) -> dict[str, Any]:
    """One hop that passed so many frames."""
    counter = "tx_packets" if way == "out" else "rx_packets"
    return {
        "role": role,
        "where": where,
        "interface": interface,
        "direction": way,
        "source": source,
        "before": {counter: 5},
        "after": {counter: 5 + frames},
    }


def distribution(count: int, middle: int) -> dict[str, Any]:
    """Times around ``middle``, ns."""
    return {
        "count": count,
        "minimum": middle // 2,
        "mean": float(middle),
        "p1": middle // 2,
        "p50": middle,
        "p90": middle * 2,
        "p99": middle * 4,
        "p999": middle * 5,
        "maximum": middle * 9,
    }


def calibrated(size: int, when: str) -> dict[str, Any]:
    """One calibration: flat out at ``CEILING`` (a little less at the end), and paced for the floor."""
    parameters = {"frame_size_bytes": size, "sources": 1, "mix": "none", "backend": "auto", "sink": "auto"}
    start, end = calibrated_at({**parameters, "batch_frames": 0}, CEILING if when == "start" else CEILING * 0.97)
    line = start if when == "start" else end
    return line | {"points": [add_wire(point) | {"hops": None} for point in line["points"]]}
