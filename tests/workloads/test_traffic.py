"""The shapes of frames: what is refused, what is asked of the agent, and the same IMIX in both languages."""

from __future__ import annotations

import itertools
import re
import subprocess
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.support import experiments
from tests.support.facts import Command, Fact, refused
from tests.support.repository import ROOT
from tests.support.timed_jobs import assert_entry_refused

from virtoll.errors import UsageError
from virtoll.image.clone import built_agent
from virtoll.lab.network import GuestNetwork, plan_links
from virtoll.runfolder.frame_shape import IMIX, FrameShape
from virtoll.stats.ceilings import shape_of
from virtoll.workloads.base import Bench
from virtoll.workloads.forward import ForwardParameters, stream_through
from virtoll.workloads.router import router_request
from virtoll.workloads.traffic import FrameParameters, Lane, TrafficStream

PROTOCOL = ROOT / "docs" / "protocol.md"
LANE = Lane("p0in0", "02:00:00:00:00:01", "02:00:00:00:00:02", "10.64.0.2", "10.64.3.2")
SMALLEST = {(4, 0): 64, (4, 5): 68, (6, 0): 84, (6, 5): 88}


def request(wanted: FrameParameters) -> dict[str, Any]:
    return TrafficStream((LANE,), ("p0out",), 1, 1).request(wanted, 7, 1000, None).to_json()


@given(st.integers(64, 1518), st.sampled_from([4, 6]), st.sampled_from([0, 5]))
def test_a_size_is_refused_exactly_where_no_test_frame_fits(size: int, ip_version: int, vlan: int) -> None:
    given_values = {"frame_size_bytes": size, "ip_version": ip_version, "vlan": vlan}
    if size < SMALLEST[ip_version, vlan]:
        with pytest.raises(ValidationError, match=rf"\b{SMALLEST[ip_version, vlan]} bytes"):
            FrameParameters.model_validate(given_values)
        return
    wanted = FrameParameters.model_validate(given_values)
    assert wanted.mtu_bytes == size - 18 - (4 if vlan else 0)


def test_a_size_that_is_refused_is_named_with_the_smallest() -> None:
    wanted = {"workload": "forward", "ip_version": 6, "vlan": 5}
    assert_entry_refused(wanted, "frame_size_bytes", 64, "IPv6", "VLAN", Command("frame_size_bytes 88 to 1518"))


@pytest.mark.parametrize(
    ("key", "wrong", "allowed"),
    [
        ("vlan", 4095, (0, 4094)),
        ("vlan", -1, (0, 4094)),
        ("ip_version", 5, (4, 6)),
        ("directions", "reverse", ("'one'", "'both'")),
    ],
)
def test_what_is_no_vlan_or_no_ip_is_refused(key: str, wrong: object, allowed: tuple[Fact, ...]) -> None:
    assert_entry_refused({"workload": "forward", key: wrong}, key, str(wrong), *allowed)


@pytest.mark.parametrize("more", [{"sources": 2}, {"routes": 1000}, {"routes": 1000, "destinations": 7}])
def test_both_directions_are_of_one_source_and_one_destination(more: dict[str, int]) -> None:
    assert_entry_refused({"workload": "forward", "directions": "both", **more}, "directions one")


@pytest.mark.parametrize(
    ("more", "noun"),
    [
        ({"directions": "both"}, "direction"),
        ({"routes": 1000}, "table"),
        ({"routes": 1000, "destinations": 1}, "table"),
    ],
)
def test_an_egress_link_each_is_refused_where_there_is_one_way_out(more: dict[str, object], noun: str) -> None:
    assert_entry_refused({"workload": "forward", "egress": "each", **more}, noun, "egress one")


def test_each_source_has_a_lane_to_the_sink_behind_its_own_link() -> None:
    bench = bench_of(plan_links(3, 3, sinks=3))
    stream = stream_through(bench, FrameShape(sources=2, egress="each"))
    assert [(one.interface, one.destination_address) for one in stream.lanes] == [
        ("p3in0", "10.67.3.2"),
        ("p3in1", "10.67.6.2"),
    ]
    assert stream.sink_interfaces == ("p3out", "p3out1")
    shared = stream_through(bench, FrameShape(sources=2))
    assert [one.destination_address for one in shared.lanes] == ["10.67.3.2"] * 2
    assert shared.sink_interfaces == ("p3out",)
    alone = FrameShape(sources=1, egress="each")
    assert stream_through(bench, alone) == stream_through(bench, FrameShape())
    with pytest.raises(ValueError, match="zip"):
        stream_through(bench_of(plan_links(3, 3)), FrameShape(sources=2, egress="each"))


def bench_of(network: GuestNetwork) -> Bench:
    """Of a guest with these links, and with nothing that answers."""
    silent = Mock()
    return Bench(
        guest=silent,
        peer=silent,
        timekeeper=silent,
        network=network,
        generator_cpu=None,
        sink_cpu=None,
        tags=itertools.count(),
        hops=silent,
    )


def test_one_calibration_serves_every_egress() -> None:
    each = ForwardParameters(sources=2, egress="each")
    assert each.shape() == ForwardParameters(sources=2).shape()
    assert shape_of(each.model_dump()) == shape_of(each.shape().model_dump())


@pytest.mark.parametrize("workload", ["forward", "throughput"])
def test_both_directions_need_generator_and_sink_on_one_host(workload: str) -> None:
    two = {
        "generator": {"host": {"netns": "one"}, "interfaces": ["a"]},
        "sink": {"host": {"netns": "two"}, "interfaces": ["b"]},
        "hypervisor": {"host": "local", "interfaces": ["c", "d"]},
    }
    asked = [{"workload": workload, "directions": "both"}]
    with refused("'testbed'", "generator", "sink", "directions one", error=UsageError):
        experiments.parsed(workloads=asked, testbed=two)
    one = {**two, "sink": {"host": {"netns": "one"}, "interfaces": ["b"]}}
    assert experiments.parsed(workloads=asked, testbed=one).testbed is not None


def test_an_untagged_ipv4_request_names_no_vlan() -> None:
    asked = request(FrameParameters())
    first = ["trial", "frame_size_bytes", "duration_ns", "backend", "sources", "sink"]
    assert list(asked) == [*first, "quiet_ns", "drain_limit_ns", "residual_ns"]
    assert isinstance(asked["sources"], list)
    assert "vlan" not in asked["sources"][0]
    assert router_request(plan_links(0), FrameShape()) is None
    assert request(FrameParameters(frame_size_bytes=68, vlan=5))["sources"][0]["vlan"] == 5


def test_a_router_is_asked_for_addresses_where_the_frames_will_be() -> None:
    links = plan_links(3, sources=2)
    plain = router_request(links, FrameShape(frame_size_bytes=84, ip_version=6))
    tagged = router_request(links, FrameShape(frame_size_bytes=68, vlan=9))
    assert plain is not None
    assert tagged is not None
    assert plain.ipv6_forward is True
    assert [one.ipv6_address for one in plain.interfaces] == [
        "2001:2:0:300::1/64",
        "2001:2:0:301::1/64",
        "2001:2:0:303::1/64",
    ]
    assert "ipv6_forward" not in tagged.to_json()
    assert [vlan.address for one in tagged.interfaces for vlan in one.vlans or ()] == [
        "10.67.128.1/24",
        "10.67.129.1/24",
        "10.67.131.1/24",
    ]
    assert {vlan.vlan for one in tagged.interfaces for vlan in one.vlans or ()} == {9}
    several = router_request(plan_links(3, sources=2, sinks=2), FrameShape(frame_size_bytes=84, ip_version=6))
    assert several is not None
    assert [one.ipv6_address for one in several.interfaces][2:] == ["2001:2:0:303::1/64", "2001:2:0:306::1/64"]


def test_imix_is_the_same_in_both_languages_and_in_the_documents() -> None:
    """A Rust test holds the agent's help to its constant, this one to ours."""
    reported = subprocess.run(
        [str(built_agent()), "wire", "send", "--help"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"--imix is ([\d:,]+)", reported)
    assert found is not None
    assert found[1] == ",".join(f"{size}:{weight}" for size, weight in IMIX)
    words = f"IMIX is {', '.join(str(size) for size, _ in IMIX)} with {', '.join(str(weight) for _, weight in IMIX)}"
    assert words in PROTOCOL.read_text(encoding="utf-8")


@pytest.mark.parametrize(("key", "smallest"), SMALLEST.items())
def test_imix_fits_its_headers(key: tuple[int, int], smallest: int) -> None:
    wanted = FrameParameters.model_validate({"mix": "imix", "ip_version": key[0], "vlan": key[1]})
    assert wanted.parts == ((smallest, 7), (594, 4), (1518, 1))
    assert wanted.mtu_bytes == 1500 - (4 if key[1] else 0)


@pytest.mark.parametrize(
    ("stored", "reported"),
    [
        ({"frame_size_bytes": 500}, "500 B"),
        (
            {"frame_size_bytes": 64, "mix": "imix", "sources": 2, "backend": "af-xdp", "rate_factor": 2},
            "IMIX, 2 sources",
        ),
        ({"frame_size_bytes": 88, "ip_version": 6, "vlan": 7}, "88 B, IPv6, VLAN 7"),
        ({"frame_size_bytes": 64, "directions": "both"}, "64 B, both directions"),
        ({"frame_size_bytes": 64, "sources": 3, "egress": "each"}, "64 B, 3 sources, an egress link each"),
    ],
)
def test_a_record_of_any_age_is_described_by_what_is_unusual(stored: dict[str, object], reported: str) -> None:
    """Fields that the record leaves out are as they are in an experiment that leaves them out."""
    shape = FrameShape.of(stored)
    assert shape is not None
    assert shape.description == reported
    assert shape == FrameShape.model_validate({key: stored[key] for key in stored if key in FrameShape.model_fields})
    assert shape.plain is (reported == "500 B")


def test_what_sends_no_frames_has_no_shape() -> None:
    assert FrameShape.of({"digits": 1000}) is None


def test_records_are_not_measured_by_what_is_refused_today() -> None:
    shape = FrameShape.of({"frame_size_bytes": 60})
    assert shape is not None
    assert shape.description == "60 B"


def test_one_calibration_serves_what_differs_in_rates_alone() -> None:
    """Guests side by side are sources of one generator."""
    choice = experiments.parsed(
        workloads=[{"workload": "virtual-routers", "routers": 3, "vlan": 5, "frame_size_bytes": 68}]
    )
    wanted = choice.workloads[0].parameters
    assert isinstance(wanted, FrameParameters)
    assert shape_of(wanted.model_dump()) == shape_of(wanted.shape().model_dump())
    assert wanted.shape().sources == 3


def test_a_rate_on_the_wire_is_schlossers() -> None:
    """Delay between frames, ns: ``8000 (s + 24) / b`` at b Mbit/s, with s bytes without FCS (section 3.3)."""
    for s, b in ((64, 10), (500, 400), (1500, 1000)):
        shape = FrameShape(frame_size_bytes=s + 4)
        assert 1e9 / shape.frames_per_second(b) == pytest.approx(8000 * (s + 24) / b)
        assert shape.mbit_per_second(shape.frames_per_second(b)) == pytest.approx(b)


def test_a_mix_is_on_the_wire_what_its_frames_are_on_average() -> None:
    bits = sum(8 * (size + 20) * weight for size, weight in IMIX) / sum(weight for _, weight in IMIX)
    assert FrameShape(mix="imix").wire_bits_per_frame == pytest.approx(bits)
    assert FrameShape(mix="imix", frame_size_bytes=1518).mbit_per_second(1e6) == pytest.approx(bits)
