"""What of a run's values is compared with what, as files of claims and the papers' rows ask for it. Pure data.

Main types: `Compared` (one side, or both), `Against` (the other side), `PlatformFilter` and `Reading`. `sides` finds
the values in a run, and `ratios` computes. docs/claims.md describes each key with an example.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

NOTHING: Final = "nothing"
EXTREMES: Final = frozenset({"least", "most", "next"})
NicKind = Literal["para-virtualised", "emulated", "passthrough"]
# Strict, so that "off" stays a word and 1 a number.
Scalar = StrictBool | StrictInt | StrictFloat | StrictStr
Text = Annotated[str, Field(min_length=1)]
OneOrSeveral = str | Annotated[list[str], Field(min_length=1)]


class Reading(StrEnum):
    """What is read of a trial: its metric's value, or what else its records tell.

    `FLAT_OUT`: frames/s forwarded of what was sent as fast as could be. `DELIVERED`: the share of those frames that
    came through. `NEIGHBOUR_DELIVERED`: the same of the neighbour that forwards as a load. `LEAST_SHARE`: the least
    source's (or guest's) part of the frames, 1 for an equal one. `CLOCK_ERROR`: of the guest's clock, without its sign,
    as a share of the time that passes. `HOST_CPU`: how many of the host's CPUs the guest's processes take meanwhile.
    """

    VALUE = "value"
    FLAT_OUT = "flat-out"
    DELIVERED = "delivered"
    NEIGHBOUR_DELIVERED = "neighbour-delivered"
    LEAST_SHARE = "least-share"
    CLOCK_ERROR = "clock-error"
    HOST_CPU = "host-cpu"


class Strict(BaseModel):
    """Unknown keys are an error, and nothing changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Range(Strict):
    """From `at_least` to `at_most`; one of both may be left out."""

    at_least: float | None = Field(default=None, allow_inf_nan=False)
    at_most: float | None = Field(default=None, allow_inf_nan=False)

    @field_validator("at_least", "at_most", mode="before")
    @classmethod
    def _is_a_number(cls, value: object) -> object:
        if isinstance(value, bool):
            raise ValueError("give a number, and not true or false")
        return value

    @model_validator(mode="after")
    def _holds_something(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("give 'at_least', 'at_most', or both")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError(f"'at_least' ({self.at_least:g}) is above 'at_most' ({self.at_most:g})")
        if min(bound for bound in (self.at_least, self.at_most) if bound is not None) < 0:
            raise ValueError("give a number that is not below 0")
        return self

    def inverse(self) -> Range:
        """The same of 1/x: at least 2 times slower is at most half as fast."""
        low = None if self.at_most is None else 1 / self.at_most
        return Range(at_least=low, at_most=None if self.at_least is None else 1 / self.at_least)

    def scaled(self, factor: float) -> Range:
        """Both ends times a factor above 0."""
        low = None if self.at_least is None else self.at_least * factor
        return Range(at_least=low, at_most=None if self.at_most is None else self.at_most * factor)

    def holds(self, value: object) -> bool:
        """Whether a value is a number between both ends."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)


class Each(Strict):
    """Several values, of which each must be measured: without one of them the claim stays open."""

    each: list[Scalar] = Field(min_length=2)


Allowed = Annotated[Scalar | list[Scalar] | Range, Field(union_mode="left_to_right")]
"""One value, a list of those that count, or a range. In `where` also `least`, `most`, and in `against` `next`."""
AllowedOrEach = Annotated[Scalar | list[Scalar] | Range | Each, Field(union_mode="left_to_right")]


class PlatformFilter(Strict):
    """Which platforms count: those that have all that is asked for, but for those in `but_not`.

    `product`: the driver's name; `family`: as `virtoll list platforms` has it, of Xen and libvirt by their parameters;
    `nic`: what kind its network interface is, whatever its model; `parameters`: the platform's own, by name.
    """

    label: Allowed | None = None
    product: Allowed | None = None
    family: Allowed | None = None
    nic: NicKind | list[NicKind] | None = None
    parameters: dict[str, Allowed] = Field(default_factory=dict)
    but_not: list[PlatformFilter] = Field(default_factory=list)


class Against(Strict):
    """The other side of a ratio: what is given here differs from the test's own side, and all else is the same.

    `same_product`: of other platforms only those of the same product on the same host, whose parameters differ in what
    `platforms` names alone.
    """

    workload: str | None = None
    metric: str | None = None
    reading: Reading | None = None
    platforms: Literal["baseline"] | PlatformFilter | None = None
    same_product: bool = False
    where: dict[str, Allowed] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _differs(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("give what differs: 'platforms', 'where', 'workload', 'metric' or 'reading'")
        return self


class Compared(Strict):
    """What is compared with what: the measured side here, the other in `against`; without that it is a value alone.

    `where`: by parameter of the workload, and by `guests`, `vcpus`, `neighbour_...` (see `readings`).
    `link_mbit_per_second`: only what each source sends at no more than a link of so many Mbit/s carries counts.
    `host`: on a host that is itself a virtual machine no guest counts that the CPU assists, and none of Xen's.
    `overloaded`: only guests that lost frames at the highest rate that they were offered count.
    `ignoring`: parameters that may differ between both sides. `per`: a parameter that values are divided by.
    `together`: of several guests at once, what all do. `relative_to_baseline`: both sides are shares of the baseline's.
    """

    workload: OneOrSeveral | None = None
    metric: OneOrSeveral | None = None
    reading: Reading = Reading.VALUE
    platforms: Literal["baseline"] | PlatformFilter = PlatformFilter()
    where: dict[str, AllowedOrEach] = Field(default_factory=dict)
    link_mbit_per_second: Annotated[float, Field(gt=0)] | None = None
    against: Literal["baseline"] | Against | None = None
    host: Literal["bare-metal"] | None = None
    overloaded: bool = False
    ignoring: list[str] = Field(default_factory=list)
    per: str | None = None
    together: bool = False
    relative_to_baseline: bool = False

    @field_validator("platforms", "against", mode="before")
    @classmethod
    def _is_no_label(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, str) and value != "baseline":
            example = f"{{label: {value}}}" if info.field_name == "platforms" else f"{{platforms: {{label: {value}}}}}"
            raise ValueError(f"give 'baseline' or a mapping, such as {example}")
        return value

    @field_validator("where", mode="before")
    @classmethod
    def _has_values(cls, where: object) -> object:
        for key, value in where.items() if isinstance(where, dict) else ():
            if value is None:
                raise ValueError(f"'{key}' has no value; give one")
        return where

    @field_validator("where")
    @classmethod
    def _next_is_of_against(cls, where: dict[str, Any]) -> dict[str, Any]:
        if "next" in where.values():
            raise ValueError("'next' is next to the test's own value; give it in 'against.where'")
        return where

    @model_validator(mode="after")
    def _names_what_is_read(self) -> Self:
        if (self.workload is None) != (self.reading is Reading.CLOCK_ERROR):
            raise ValueError("give 'workload'; a clock's error, of all workloads together, is read without one")
        if self.link_mbit_per_second is not None and self.reading is not Reading.VALUE:
            raise ValueError("'link_mbit_per_second' limits a rate that is forwarded; leave it or 'reading' out")
        return self

    @property
    def workloads(self) -> tuple[str, ...]:
        """Those that are read; none where it is all of them together."""
        return (self.workload,) if isinstance(self.workload, str) else tuple(self.workload or ())
