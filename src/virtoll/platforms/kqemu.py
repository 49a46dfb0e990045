"""KQEMU: a record. QEMU's accelerator of 2005 to 2008 is gone, its numbers stand in a paper, its successor is KVM.

Nothing of it can be started, so an experiment that names it is refused; ``virtoll list platforms`` keeps its row.
"""

from __future__ import annotations

from typing import ClassVar, NoReturn

from virtoll.errors import GuestError
from virtoll.experiment.model import Parameters
from virtoll.experiment.topology import Testbed
from virtoll.platforms.base import GuestRequest, Platform, Probe, Validation
from virtoll.platforms.host import Site

_RECORD = "a record only: QEMU dropped its module for 2.6 kernels in 2009"
_SUCCESSOR = "take its successor KVM, the platform qemu-kvm"


class KqemuParameters(Parameters):
    """There is nothing to choose, and nothing that could be chosen."""

    def conflict(self, testbed: Testbed | None) -> tuple[str, str] | None:
        """Refused in every experiment."""
        del testbed
        return "platform", f"kqemu is {_RECORD}; {_SUCCESSOR}"


class Kqemu(Platform[KqemuParameters]):
    """The row."""

    name: ClassVar[str] = "kqemu"
    without_root: ClassVar[str] = "–"
    family: ClassVar[str] = "full virtualisation in software"
    validation: ClassVar[Validation] = "record only"
    title: ClassVar[str] = "KQEMU 1.3 (history; successor: qemu-kvm)"
    parameter_model = KqemuParameters
    boot_seconds: ClassVar[float] = 0.0
    slowdown: ClassVar[float] = 1.0

    def depends_on(self) -> None:
        """Nothing is tried."""
        return

    def probe(self, site: Site) -> Probe:
        """Never available."""
        del site
        return Probe.unusable(None, _RECORD, _SUCCESSOR)

    def start(self, request: GuestRequest, site: Site) -> NoReturn:
        """Refused."""
        del site
        raise GuestError(f"{request.name}: {_RECORD}; {_SUCCESSOR}")
