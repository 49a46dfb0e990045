"""Settings of a guest's own kernel: in force in real guests of several platforms, and read back from them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import ValidationError
from tests.support import guests
from tests.support.facts import assert_facts
from tests.support.guest_kinds import Kind, added
from tests.support.guests import Connected

from virtoll.pipeline.session import RunSession
from virtoll.platforms.kernel_settings import KernelSettings, SchedulerSetting, kernel_words, why_not_in_force
from virtoll.platforms.libvirt import domain_xml
from virtoll.platforms.libvirt.domain_xml import LibvirtParameters
from virtoll.platforms.qemu.command import QemuParameters, kernel_arguments
from virtoll.platforms.virtualbox import VirtualBoxParameters, kernel_line

INSIDE_LAB = "guests"
pytestmark = [pytest.mark.lab]
# None is what the guest's kernel chooses: a disk with one queue gets mq-deadline, and tsc or hpet come before acpi_pm.
CLOCK, ORDER = {"clocksource": "acpi_pm"}, {"io_scheduler": "none"}
SET: dict[str, Kind] = {
    "qemu-tcg-set": Kind("qemu-tcg", CLOCK | ORDER, kernel="image", vlans=True, slow=True),
    "libvirt-set": Kind("libvirt", CLOCK, kernel="image", slow=True),
    "uml-set": Kind("uml", {"io_scheduler": "kyber"}, kernel="other"),
}


# libvirt's machine boots the line that is read below, as all its machines do.
LIVE = ["qemu-tcg-set", pytest.param("libvirt-set", marks=pytest.mark.extended), "uml-set"]


@pytest.fixture(scope="module", params=LIVE)
def live(run_session: RunSession, request: pytest.FixtureRequest) -> Iterator[Connected]:
    """A guest with what can be set there; where that is an I/O scheduler, with a disk for its data."""
    name = str(request.param)
    data_bytes = 16 * 2**20 if "io_scheduler" in SET[name].parameters else 0
    with added({name: SET[name]}), guests.running(name, run_session, data_bytes=data_bytes) as started:
        yield started


def said(live: Connected, path: str) -> str:
    """A file of the guest's, by a program of its own and not by the agent's facts."""
    return guests.output_of(live.bench.guest, "/bin/busybox", "cat", path).strip()


def test_what_was_asked_is_in_force_and_read_back(live: Connected) -> None:
    found, asked = guests.facts(live), live.kind.parameters
    assert found.clock_source == said(live, "/sys/devices/system/clocksource/clocksource0/current_clocksource")
    if "clocksource" in asked:
        assert found.clock_source == asked["clocksource"]
    if "io_scheduler" in asked:
        disk = next(line for line in said(live, "/proc/mounts").splitlines() if line.split()[1] == "/data").split()[0]
        assert found.data_schedulers == said(live, f"/sys/block/{disk.removeprefix('/dev/')}/queue/scheduler")
        assert f"[{asked['io_scheduler']}]" in (found.data_schedulers or "").split()
    parameters = guests.choice(live.name).parameters
    assert why_not_in_force(parameters, found, data="io_scheduler" in asked) is None


def test_a_setting_that_its_kernel_lacks_is_refused_with_those_it_has(live: Connected) -> None:
    found = guests.facts(live)
    clocks = (found.clock_sources or "").split()
    assert found.clock_source in clocks
    reason = why_not_in_force(KernelSettings(clocksource="nobodys"), found, data=True)
    assert_facts(reason or "", "clocksource", "'nobodys'", *clocks)
    order = SchedulerSetting(io_scheduler="cfq")
    schedulers = (found.data_schedulers or "").replace("[", "").replace("]", "").split()
    assert_facts(why_not_in_force(order, found, data=True) or "", "io_scheduler", "'cfq'", *schedulers)
    assert why_not_in_force(order, found, data=False) is None, "it has no disk whose requests are ordered"


def test_a_kernel_that_is_asked_for_nothing_is_told_nothing() -> None:
    for line in (kernel_arguments(QemuParameters(), data=True), domain_xml.kernel_arguments(LibvirtParameters())):
        assert "clocksource=" not in line
        assert "virtoll.scheduler=" not in line
    words = kernel_arguments(QemuParameters.model_validate(CLOCK | ORDER), data=True).split()
    assert {"clocksource=acpi_pm", "virtoll.scheduler=none"} <= set(words)
    assert kernel_words(KernelSettings.model_validate(CLOCK | ORDER)) == ["clocksource=acpi_pm"]
    assert "clocksource=acpi_pm" in domain_xml.kernel_arguments(LibvirtParameters.model_validate(CLOCK)).split()
    wanted = VirtualBoxParameters.model_validate(CLOCK | ORDER)
    assert {"clocksource=acpi_pm", "virtoll.scheduler=none"} <= set(kernel_line(wanted, root=False, data=True).split())


def test_a_container_has_no_clock_source_of_its_own() -> None:
    with pytest.raises(ValidationError) as raised:
        LibvirtParameters(uri="lxc:///system", clocksource="tsc")
    assert_facts(str(raised.value), "clocksource", "container")
