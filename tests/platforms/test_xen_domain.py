"""The life of a Xen guest, from its start to its end, as dom0 and the guest's agent answered in the nested host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.dom0 import IMAGE, LAB, NOTHING, TTY, Bridges, Dom0
from tests.support.facts import assert_facts, refused

from virtoll.errors import GuestError
from virtoll.lab.network import GuestNetwork, attached, plan_links
from virtoll.platforms.base import GuestRequest, GuestStartError
from virtoll.platforms.fake.site import model_site
from virtoll.platforms.host import Site
from virtoll.platforms.xen.disks import block_device
from virtoll.platforms.xen.driver import Xen, XenParameters

NAME = f"{LAB}-xen-3"
MIB = 2**20
INFO = """host                   : (none)
virt_caps              : pv hvm hap
xen_version            : 4.17.7
xen_scheduler          : credit2
"""
HELD = ["its console is held"]
REMOVED = ["the network is removed"]
DESTROY = ["xl", "destroy", NAME]
LINKS = ["ip", "-brief", "link"]
LOGS = [f"/var/log/xen/qemu-dm-{NAME}.log", f"/var/log/xen/xl-{NAME}.log"]
MADE = [["xl", "domid", NAME], ["xenstore-read", "/local/domain/7/console/tty"], HELD]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Dom0]:
    """A dom0 that makes what it is asked for."""
    made = Dom0({"list": NOTHING, "info": INFO}, tmp_path)
    made.others = {"xenstore-read": f"{TTY}\n"}
    made.affinity = {"0": ("all", "all")}
    yield made
    for console in made.consoles:
        console.end()


def site(host: Dom0) -> Site:
    return replace(model_site(), host=host, image=cast("Any", IMAGE), network=cast("Any", Bridges(host.asked)))


def started(host: Dom0, attachment: Any = "bridge", **given: Any) -> Any:
    wanted = GuestRequest("xen/3", 1, 256 * MIB, (), attached(plan_links(7), attachment), deadline_seconds=20.0)
    return Xen(XenParameters.model_validate(given)).start(wanted, site(host))


def steps(host: Dom0) -> list[list[str]]:
    """What was asked since the last look, without what only waits for an end."""
    found = [argv for argv in host.asked if argv not in (LINKS, ["xl", "list"])]
    host.asked.clear()
    return found


def test_a_guest_is_held_before_its_first_word_parked_and_ended(host: Dom0) -> None:
    guest = started(host, dom0_cpus=(0,))
    create, *rest = steps(host)
    assert create == ["xl", "create", "-p", str(host.scratch / "guests/1-xen-3/domain.cfg")]
    assert host.waited["create"] == 600.0, "on a busy host xl takes minutes"
    pinned, free = (["xl", "vcpu-pin", "Domain-0", "all", *where] for where in (["0"], ["all", "all"]))
    assert rest == [*MADE, ["xl", "vcpu-list", "Domain-0"], pinned, ["xl", "unpause", NAME]]
    assert host.promised[-3:] == [["rm", "-f", *LOGS], DESTROY, free]
    assert (guest.attachment, guest.host) == ("bridge", host)
    assert 0 < guest.spawned_monotonic_ns < guest.ready_monotonic_ns
    guest.park()
    guest.park()
    assert steps(host) == [["xl", "pause", NAME], free]
    guest.resume()
    guest.resume()
    assert steps(host) == [["xl", "vcpu-list", "Domain-0"], pinned, ["xl", "unpause", NAME]]
    guest.stop()
    assert steps(host) == [free, DESTROY, ["rm", "-f", *LOGS], REMOVED]
    assert (host.said["list"], host.promised) == (NOTHING, [])
    guest.stop()
    assert steps(host) == []
    assert host.consoles[0].asked == ["hello", "shutdown"]


def test_its_evidence_is_its_console_and_its_logs(host: Dom0) -> None:
    guest = started(host)
    assert guest.evidence() == {"console.txt": b"a kernel's last word\n"}
    host.files |= dict(zip(LOGS, ("of the device model", "of xl"), strict=True))
    said = {"device-model.txt": b"of the device model", "xl.txt": b"of xl"}
    assert guest.evidence() == {"console.txt": b"a kernel's last word\n", **said}
    guest.stop()


def test_its_interfaces_are_gone_before_their_bridges(host: Dom0) -> None:
    """Both of an emulated NIC: the device model's tap, and the vif beside it."""
    guest = started(host, type="hvm", nic="e1000")
    names = ["vte7in0", "vte7in0-emu", "vte7out-emu", "other"]
    left = [names, names[1:], names[2:], names[3:]]
    host.others["ip"] = iter(["".join(f"{name}@eth0 UP\n" for name in looked) for looked in left]).__next__
    guest.stop()
    assert [argv for argv in host.asked if argv in (LINKS, REMOVED)] == [*([LINKS] * len(left)), REMOVED]


def test_a_routed_guest_has_its_links_before_it_runs(host: Dom0) -> None:
    guest = started(host, "routed")
    create, *rest = steps(host)
    assert create[:2] == ["xl", "create"]
    routers = [argv[-1] for argv in rest if argv[0] == "ip"]
    assert [text.split()[2] for text in routers] == ["g7in0", "g7out"], "not the link for marks"
    assert [argv for argv in rest if argv[0] != "ip"] == [*MADE, ["xl", "unpause", NAME]]
    assert rest[0][0] == rest[1][0] == "ip"
    guest.stop()
    undone = steps(host)
    assert undone.index(DESTROY) > undone.index(["ip", "link", "del", "vtr7in0"])
    assert host.promised == []


def test_one_that_cannot_go_on_is_ended_with_its_evidence(host: Dom0) -> None:
    host.said["unpause"] = GuestError("'xl unpause' ended with 1: busy")
    host.files[LOGS[1]] = "of xl"
    with refused("busy", error=GuestStartError) as refusal:
        started(host, dom0_cpus=(0,))
    assert cast("GuestStartError", refusal.value).evidence["xl.txt"] == b"of xl"
    assert (host.said["list"], host.promised) == (NOTHING, [])
    assert {hard for hard, _ in host.affinity.values()} == {"all"}


@pytest.mark.parametrize("kind", ["pv", "pvh", "hvm"])
def test_a_probe_boots_a_small_guest_without_network(host: Dom0, kind: str) -> None:
    found = Xen(XenParameters.model_validate({"type": kind})).probe(site(host))
    assert (found.available, found.version, found.reason) == (True, "Xen 4.17.7, scheduler credit2", None)
    made = host.configuration()
    assert (made["name"], made["type"], made["vcpus"], made["memory"]) == (f"{LAB}-probe-xen", kind, 1, 128)
    assert (made["vif"], "pci" in made, "cpus" in made, "disk" in made) == ([], False, False, False)
    assert REMOVED not in host.asked
    assert (host.said["list"], host.promised) == (NOTHING, [])


@pytest.mark.parametrize(("kind", "hint"), [("pv", False), ("hvm", True)])
def test_a_probe_whose_guest_does_not_boot_says_why(host: Dom0, kind: str, hint: bool) -> None:
    host.said["create"] = GuestError("'xl create' ended with 1: no room")
    found = Xen(XenParameters.model_validate({"type": kind})).probe(site(host))
    assert (found.available, found.version) == (False, "Xen 4.17.7, scheduler credit2")
    assert_facts(found.reason or "", f"type {kind}", "no room")
    assert ("qemu-system-xen" in (found.reason or "")) == hint


def test_a_hypervisor_without_pv_is_no_matter_of_the_firmware(host: Dom0) -> None:
    host.said["info"] = "virt_caps : hvm hap\n"
    found = Xen(XenParameters()).probe(site(host))
    assert (found.available, found.version) == (False, "Xen ?, scheduler ?")
    assert_facts(found.reason or "", "type pv", "hypervisor")
    assert "firmware" not in (found.reason or "")


def test_what_it_cannot_hand_in_is_known_before_a_guest_is_booted(host: Dom0) -> None:
    wanted = XenParameters.model_validate({"attachment": "passthrough", "vfio": ["0000:03:10.0"]})
    found = Xen(wanted).probe(site(host))
    assert (found.available, found.version) == (False, "Xen 4.17.7, scheduler credit2")
    assert_facts(found.reason or "", "vfio", "IOMMU", "type pv")
    assert [argv[1] for argv in host.asked] == ["info"]


def test_a_block_device_of_dom0_is_given_as_it_is(host: Dom0) -> None:
    host.others["stat"] = "block special file\n"
    assert block_device(host, Path("/dev/vda"), cast("Any", None)) == "/dev/vda"
    assert host.asked == [["stat", "-L", "-c", "%F", "/dev/vda"]]


def test_it_boots_the_images_kernel_and_a_plan_reckons_with_that() -> None:
    driver = Xen(XenParameters())
    assert (driver.needs_kernel, driver.remote_hosts) == (True, True)
    assert (driver.boot_seconds, driver.slowdown, driver.data_by) == (12.0, 1.2, "disk")


def test_a_guest_without_links_is_none_of_the_networks(host: Dom0) -> None:
    request = GuestRequest("xen/3", 1, MIB, (), GuestNetwork(()), deadline_seconds=20.0)
    Xen(XenParameters()).start(request, site(host)).stop()
    assert REMOVED not in host.asked
