"""Super Pi: n decimals of pi by the Gauss-Legendre iteration (Mattos et al. 2012, IV.A: 2^22 digits). CPU and cache."""

from __future__ import annotations

import math
from typing import ClassVar

from pydantic import Field

from virtoll.agent.pi import pi_sha256
from virtoll.experiment.model import Parameters
from virtoll.workloads.base import Needs, TimedJobWorkload

# Made with mpmath 1.3 and GMP: the usual sizes for which the second way takes 3 and 17 s, once a run.
_KNOWN = {
    2**20: "26633cecb8a0081cc3a273327344d854ff455cb201599af77199a6684ce284ed",
    2**22: "99780ac4a5de42dc80c073a4d03f94514e8f718e90eca0d3ac41c544023611a1",
}
_SLACK_BYTES, _BYTES_PER_DIGIT = 64 * 2**20, 32


class SuperPiParameters(Parameters):
    """``digits``: quick 2^14, the paper's size 2^22."""

    digits: int = Field(default=2**14, ge=10, le=2**24, description="digits of pi; the paper's size is 4194304")


class SuperPi(TimedJobWorkload[SuperPiParameters]):
    """Digits of pi; the check value is the digits' SHA-256."""

    name: ClassVar[str] = "superpi"
    job: ClassVar[str] = "superpi"
    title: ClassVar[str] = "Super Pi"
    about: ClassVar[str] = "digits of pi on large integers"
    origin: ClassVar[str] = "Mattos 2012"
    resource: ClassVar[str] = "CPU"
    repeatable: ClassVar[bool] = True
    parameter_model = SuperPiParameters

    def native_seconds(self) -> float:
        """Roughly n log^2 n: 0.03 s for 2^16 digits."""
        digits = self.parameters.digits
        return 1.8e-9 * digits * math.log2(digits) ** 2

    def needs(self) -> Needs:
        """The numbers and what multiplies them."""
        return Needs(_SLACK_BYTES + _BYTES_PER_DIGIT * self.parameters.digits)

    def expected_check(self) -> str:
        """Known, or computed by another formula: for any size."""
        digits = self.parameters.digits
        return _KNOWN.get(digits) or pi_sha256(digits)
