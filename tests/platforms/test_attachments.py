"""Attachments in whole runs: one entry each, named in boots and report; nothing left after kill -9; refusals."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments, machine
from tests.support.guests import right_or_disturbed
from tests.support.playground import kill_all, playground
from tests.support.real_run import run_experiment

from virtoll.lab.network import attached, plan_links, with_found_macs
from virtoll.pipeline.preview import plan_of
from virtoll.report import build_report
from virtoll.stats.hops import locate

OF_NAMESPACES = ["bridge", "routed", "macvtap", "passthrough"]


@pytest.mark.extended
@pytest.mark.lab
@pytest.mark.root
@pytest.mark.timeout(1800)
def test_each_attachment_is_a_platform_of_its_own_through_two_blocks(tmp_path: Path) -> None:
    """Interfaces of the second block have the names of the first one's: nothing may be left of those."""
    namespaces = {"platform": "netns", "attachment": OF_NAMESPACES}
    routed = {"platform": "qemu-tcg", "attachment": ["routed"]}
    sweep = {"first_rate_frames_per_second": 2000, "rate_factor": 100, "point_milliseconds": 200}
    forward = {"workload": "forward", "frame_size_bytes": 64, "sources": 2, "egress": ["one", "each"], **sweep}
    folder = run_experiment(
        tmp_path, platforms=["native", namespaces, routed], blocks=2, guest={"memory": "128MiB"}, workloads=[forward]
    )
    assert [(trial.platform, trial.reason) for trial in folder.trials() if not right_or_disturbed(trial)] == []
    attachments = {boot.platform: boot.attachment for boot in folder.boots()}
    expected = {"native": "veth", "qemu-tcg-routed": "routed", **{f"netns-{one}": one for one in OF_NAMESPACES}}
    assert attachments == expected
    for trial in folder.trials():
        arrived = [sum(one.forwarded_frames for one in point.sink.per_source) for point in trial.points or ()]
        assert sum(arrived) > 0, trial.platform
        for point in trial.points or ():
            lost = sum(source.lost_frames for source in point.sink.per_source)
            assert sum(loss.frames for loss in locate(point)) == lost
            ways = {hop.source for hop in point.hops or () if hop.role == "sink"}
            assert ways == ({0, 1} if trial.parameters["egress"] == "each" else {None})
    text = build_report(folder.path).path.read_text(encoding="utf-8")
    assert all(word in text for word in (*attachments, "attachment"))


def macvtap_nodes(family: machine.Family) -> list[Path]:
    """The host's device nodes of the macvtaps in a lab; their numbers are those of the interfaces."""
    controller = next(one for one in family.processes if "in-lab-run" in one.argv)
    enter = ["nsenter", f"--net=/proc/{controller.pid}/ns/net", "--"]
    command = [*enter, "ip", "-oneline", "link", "show", "type", "macvtap"]
    reported = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [Path("/dev", f"tap{line.partition(':')[0]}") for line in reported.splitlines()]


def short_then_long() -> dict[str, Any]:
    """An experiment of five guests: a job that is over at once in each, then one that is not while one looks."""
    for seed in itertools.count():
        changed: dict[str, Any] = {
            "platforms": [
                "native",
                {"platform": "netns", "attachment": OF_NAMESPACES[1:]},
                {"platform": "qemu-tcg", "attachment": ["macvtap"]},
            ],
            "blocks": 1,
            "seed": seed,
            "guest": {"memory": "128MiB"},
            "workloads": [{"workload": "forkwait", "processes": [200, 1_000_000]}],
        }
        if plan_of(experiments.parsed(**changed)).trials[0].workload.parameters.model_dump()["processes"] == 200:
            return changed
    raise AssertionError


@pytest.mark.lab
@pytest.mark.root
@pytest.mark.timeout(1800)
def test_nothing_of_any_attachment_is_left_after_kill_9() -> None:
    """Routers, macvtaps with their device nodes, and interfaces that were moved into guests go with the lab."""
    with playground(root=True) as place:
        file = experiments.write(place.base, **short_then_long())
        with place.start("run", file) as running:
            running.wait_for("5/10 ")
            seen = machine.family(running.process.pid)
            nodes = macvtap_nodes(seen)
            kill_all([one for one in seen.processes if "virtoll.lab.launch" not in one.argv])
            assert running.end() != 0
            place.check_clean(seen, running.token)
    routers = [one for one in seen.processes if "--role" in one.argv and "host" in one.argv]
    assert len(routers) >= 3, "one a routed link, and the lab's counters"
    assert {"l1in0", "v1in0", "l2in0", "l3in0", "g4in0"} <= seen.interfaces
    assert len(nodes) == 2
    left, _ = machine.poll_until_empty(lambda: [str(node) for node in nodes if node.exists()])
    assert left == [], "the kernel makes a node in the host's own /dev for each macvtap, and takes it away"


def test_a_passed_through_nic_has_its_own_address() -> None:
    planned = attached(plan_links(3, sources=1), "passthrough")
    marks = planned.links[-1].guest_mac
    found = ["00:00:00:00:00:00", "3c:fd:fe:00:00:01", "3c:fd:fe:00:00:02", marks]
    reported = with_found_macs(planned, found)
    assert [link.guest_mac for link in reported.links] == ["3c:fd:fe:00:00:01", "3c:fd:fe:00:00:02", marks]
    assert reported.sources[0].peer_next_hop_mac == "3c:fd:fe:00:00:01"
    as_planned = [link.guest_mac for link in planned.links]
    assert with_found_macs(planned, as_planned) == planned
    assert with_found_macs(attached(planned, "routed"), found) == attached(planned, "routed")


def test_what_each_side_addresses() -> None:
    """Behind a router of its own a guest is not addressed itself, nor the peer by it; marks never are routed."""
    links = attached(plan_links(7, sources=2), "routed").links
    assert [link.attachment for link in links] == ["routed", "routed", "routed", "bridge"]
    macs = [mac for link in links[:-1] for mac in (*link.router_macs, link.guest_mac, link.peer_mac)]
    assert len(set(macs)) == len(macs) == 12
    for link in links[:-1]:
        assert (link.peer_next_hop_mac, link.guest_next_hop_mac) == link.router_macs
    assert links[-1].peer_next_hop_mac == links[-1].guest_mac
    assert links[-1].guest_next_hop_mac == links[-1].peer_mac
