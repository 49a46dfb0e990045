"""What a test frame looks like: its size or mix, its headers, and how many sources send it to how many destinations.

Main type: ``FrameShape``. The measuring side derives its parameters from it, statistics read it from the records, and
the report prints it: a parameter of frames is declared, defaulted and described here. What a rate of such frames is on
the wire is computed here alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

# As in the agent (crates/wire/src/routes.rs, crates/agent/src/traffic.rs).
MOST_DESTINATIONS, MOST_SOURCES = 65_536, 16
# Frame size in bytes and weight of the simple IMIX, as in the agent (crates/wire/src/frame.rs).
IMIX = ((64, 7), (594, 4), (1518, 1))
SMALLEST_FRAME_BYTES, LARGEST_FRAME_BYTES = 64, 1518
# The frame check sequence, which the interface adds: in every frame size, in no buffer.
FCS_BYTES = 4
# What a frame takes on the wire besides its size: preamble and start 8, inter-frame gap 12.
WIRE_OVERHEAD_BYTES = 20
# Parameters of a sweep's grid, which mean nothing beside a list of rates, and of any sweep: nothing beside one rate.
GRID_KEYS = ("first_rate_frames_per_second", "rate_factor", "stop_below_share")
SWEEP_KEYS = ("sweep", "rates_mbit_per_second", *GRID_KEYS)
# Parameters of the points for the CPU time of a frame, which change nothing of a rate.
CPU_POINT_KEYS = ("cpu_milliseconds", "cpu_rate_frames_per_second")
# By how much more than flat out must be forwarded at a stated rate for overload to do harm: that rate's grid decides.
OVERLOAD_HARMS = 1.1
_IPV6_MORE_BYTES, _TAG_BYTES, _ETHERNET_HEADER_BYTES = 20, 4, 14


class FrameShape(BaseModel):
    """Frame size (RFC 2544: with FCS), or a mix; sources; headers. A record that leaves a field out has its default.

    ``vlan``: number of the frames' 802.1Q tag, which counts in the frame's size; 0 for none.
    ``batch_frames``: frames handed to the kernel at once by live frames; 0 is the smallest that holds the rate.
    ``destinations``: how many addresses frames go to in turn, spread over a table of routes; 1 is the sink's alone.
    ``directions``: with ``both``, as many frames come from the sink's end to the source at once (RFC 2544, section 14).
    ``egress``: with ``each``, source k leaves the guest by a link of its own; with ``one``, all sources share one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    frame_size_bytes: int = Field(
        default=64,
        ge=SMALLEST_FRAME_BYTES,
        le=LARGEST_FRAME_BYTES,
        description="frame size with FCS (RFC 2544), in bytes",
    )
    sources: int = Field(default=1, ge=1, le=MOST_SOURCES, description="links that frames come in by, at once")
    mix: Literal["none", "imix"] = Field(
        default="none", description="a mix of frame sizes in place of one; imix: 7 small, 4 middle and 1 large"
    )
    ip_version: Literal[4, 6] = Field(default=4, description="IP version of the frames")
    vlan: int = Field(default=0, ge=0, le=4094, description="802.1Q tag, 1 to 4094; 0 for none")
    batch_frames: int = Field(
        default=0,
        ge=0,
        le=256,
        description="frames handed to the kernel at once by live frames; 0: the fewest that keep the rate",
    )
    destinations: int = Field(
        default=1,
        ge=1,
        le=MOST_DESTINATIONS,
        description="addresses that frames go to in turn, spread over a table of routes; 1: the sink's alone",
    )
    directions: Literal["one", "both"] = Field(
        default="one", description="both: as many frames come from the sink's end at once (RFC 2544, section 14)"
    )
    egress: Literal["one", "each"] = Field(
        default="one", description="each: source k leaves the guest by a link of its own; one: all share one"
    )

    @model_validator(mode="after")
    def _holds_a_test_frame(self) -> Self:
        if self.mix == "none" and self.frame_size_bytes < self.smallest_frame_bytes:
            kind = f"IPv{self.ip_version}" + (" with a VLAN tag" if self.tagged else "")
            raise ValueError(
                f"frame_size_bytes is {self.frame_size_bytes}, and a test frame of {kind} has at least "
                f"{self.smallest_frame_bytes} bytes; give frame_size_bytes {self.smallest_frame_bytes} to "
                f"{LARGEST_FRAME_BYTES}"
            )
        if self.destinations > 1 and self.ip_version != 4:
            raise ValueError(
                "destinations of a table of routes are IPv4 addresses; set ip_version 4, or destinations 1"
            )
        if self.both_directions and (self.sources > 1 or self.destinations > 1):
            raise ValueError("both directions are of one source and one destination; set directions one, or both to 1")
        if self.egress == "each" and (self.both_directions or self.destinations > 1):
            raise ValueError(
                "an egress link each is for sources in one direction without a table of routes; set egress one"
            )
        return self

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> FrameShape | None:
        """The shape in the stored parameters of a workload or a calibration; None where they have no frames.

        What is stored was checked when it was measured, and is not checked again.
        """
        if "frame_size_bytes" not in parameters:
            return None
        values = {key: parameters[key] for key in FrameShape.model_fields if key in parameters}
        return FrameShape.model_construct(**values)

    @property
    def tagged(self) -> bool:
        """Whether frames have a VLAN tag."""
        return self.vlan > 0

    @property
    def both_directions(self) -> bool:
        """Whether the sink's end sends too, and the source's counts."""
        return self.directions == "both"

    @property
    def egress_links(self) -> int:
        """How many links frames leave the guest by; a source alone has one in any case."""
        return self.sources if self.egress == "each" else 1

    @property
    def streams(self) -> int:
        """How many streams of frames there are at once: one a source and direction."""
        return self.sources * (2 if self.both_directions else 1)

    @property
    def plain(self) -> bool:
        """One source of untagged IPv4 frames of one size, in one direction: what studies send."""
        return (self.streams, self.mix, self.ip_version, self.tagged) == (1, "none", 4, False)

    @property
    def smallest_frame_bytes(self) -> int:
        """What the headers and the payload of a test frame need: 64, 68 (VLAN), 84 (IPv6) or 88 (both)."""
        more = _IPV6_MORE_BYTES if self.ip_version == 6 else 0
        return SMALLEST_FRAME_BYTES + more + (_TAG_BYTES if self.tagged else 0)

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """Frame sizes in bytes with their weights: IMIX's smallest is raised to what the headers need."""
        if self.mix == "none":
            return ((self.frame_size_bytes, 1),)
        return tuple((max(size, self.smallest_frame_bytes), weight) for size, weight in IMIX)

    @property
    def mtu_bytes(self) -> int:
        """The least MTU of links that let its largest frame pass: neither link header, tag nor FCS count."""
        headers = _ETHERNET_HEADER_BYTES + FCS_BYTES + (_TAG_BYTES if self.tagged else 0)
        return max(size for size, _ in self.parts) - headers

    @property
    def wire_bits_per_frame(self) -> float:
        """What one frame takes on the wire, in bits, on average over a mix: ``8 * (size + 20)``.

        Schlosser et al. 2011, section 3.3, write ``8 * (s + 24)`` of s bytes: their sizes are pktgen's, without FCS.
        """
        weights = sum(weight for _, weight in self.parts)
        return sum(8 * (size + WIRE_OVERHEAD_BYTES) * weight for size, weight in self.parts) / weights

    def mbit_per_second(self, frames_per_second: float) -> float:
        """A rate in frames/s as Mbit/s on the wire."""
        return frames_per_second * self.wire_bits_per_frame / 1e6

    def frames_per_second(self, mbit_per_second: float) -> float:
        """A rate in Mbit/s on the wire as frames/s."""
        return mbit_per_second * 1e6 / self.wire_bits_per_frame

    @property
    def description(self) -> str:
        """For tables: '64 B', 'IMIX, IPv6, VLAN 5, 2 sources'; what is as usual is left out."""
        words = ["IMIX" if self.mix == "imix" else field_words("frame_size_bytes", self.frame_size_bytes)]
        words += [field_words("ip_version", self.ip_version)] if self.ip_version != 4 else []
        words += [field_words("vlan", self.vlan)] if self.tagged else []
        words += [f"{self.sources} sources"] if self.sources > 1 else []
        words += [field_words("egress", self.egress)] if self.egress_links > 1 else []
        words += [field_words("directions", self.directions)] if self.both_directions else []
        return ", ".join(filter(None, words))


def field_words(key: str, value: object) -> str | None:
    """One field in the words of its own; None where its name and value say it."""
    match key:
        case "frame_size_bytes":
            return f"{value} B"
        case "ip_version":
            return f"IPv{value}"
        case "vlan":
            return f"VLAN {value}" if value else "untagged"
        case "egress":
            return "an egress link each" if value == "each" else "one egress link"
        case "directions":
            return "both directions" if value == "both" else "one direction"
        case _:
            return None
