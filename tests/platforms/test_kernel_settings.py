"""Settings of a guest's own kernel: in force in a real machine, and read back from it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support import guests
from tests.support.guests import Connected, Kind

from virtoll.agent.operations.programs import ExecRequest
from virtoll.platforms.kernel_settings import why_not_in_force
from virtoll.platforms.qemu.command import QemuParameters, kernel_arguments
from virtoll.run.session import RunSession

INSIDE_LAB = True
pytestmark = [pytest.mark.lab, pytest.mark.root]
# Neither is what this kernel chooses: a disk with one queue gets mq-deadline, and tsc or hpet come before acpi_pm.
ASKED = {"clocksource": "acpi_pm", "io_scheduler": "none"}


@pytest.fixture(scope="module")
def live(run_session: RunSession) -> Iterator[Connected]:
    """A machine with both, and with a disk for its data."""
    guests.ADDED["qemu-tcg-set"] = Kind("qemu-tcg", ASKED, kernel="image", vlans=True, slow=True)
    started = guests.start("qemu-tcg-set", run_session, data_bytes=16 * 2**20)
    yield started
    started.guest.stop()
    del guests.ADDED["qemu-tcg-set"]


def said(live: Connected, path: str) -> str:
    """A file of the guest's, by a program of its own and not by the agent's facts."""
    request = ExecRequest(argv=("/bin/busybox", "cat", path), timeout_ns=60_000_000_000, limit_bytes=4096)
    return live.bench.guest.ask(request, guests.HANG_SECONDS).stdout.decode().strip()


def test_what_was_asked_is_in_force_and_read_back(live: Connected) -> None:
    found = guests.facts(live)
    assert found.clock_source == said(live, "/sys/devices/system/clocksource/clocksource0/current_clocksource")
    assert found.clock_source == "acpi_pm"
    disk = next(line for line in said(live, "/proc/mounts").splitlines() if line.split()[1] == "/data").split()[0]
    assert found.data_schedulers == said(live, f"/sys/block/{disk.removeprefix('/dev/')}/queue/scheduler")
    assert "[none]" in (found.data_schedulers or "").split()
    assert why_not_in_force(QemuParameters.model_validate(ASKED), found, data=True) is None


def test_what_its_kernel_has_not_is_told_with_what_it_has(live: Connected) -> None:
    found = guests.facts(live)
    clock = QemuParameters(clocksource="kvm-clock")
    assert (why_not_in_force(clock, found, data=True) or "").startswith(
        "clocksource: its kernel counts by 'acpi_pm' and not by 'kvm-clock'; it has: "
    )
    assert "acpi_pm" in (why_not_in_force(clock, found, data=True) or "").partition("it has:")[2]
    order = QemuParameters(io_scheduler="cfq")
    assert why_not_in_force(order, found, data=True) == (
        "io_scheduler: its kernel did not take 'cfq' for the disk with its data; it has: "
        + ", ".join((found.data_schedulers or "").replace("[", "").replace("]", "").split())
        + "; name one of these"
    )
    assert why_not_in_force(order, found, data=False) is None, "it has no disk whose requests are ordered"


def test_a_kernel_that_is_asked_for_nothing_is_told_nothing() -> None:
    line = kernel_arguments(QemuParameters(), data=True)
    assert "clocksource=" not in line
    assert "virtoll.scheduler=" not in line
    words = kernel_arguments(QemuParameters.model_validate(ASKED), data=True).split()
    assert {"clocksource=acpi_pm", "virtoll.scheduler=none"} <= set(words)
    assert "virtoll.scheduler=none" not in kernel_arguments(QemuParameters.model_validate(ASKED)).split()
