"""NICs that dom0 hands into a guest: refused in one sentence, taken and given back, as `xl` did it in the nested host.

Guests with such NICs run in ``test_nested_guests.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support import experiments
from tests.support.dom0 import IMAGE, LAB, NOTHING, ROLES, Bridges, Dom0
from tests.support.facts import Command, assert_facts, refused

from virtoll.errors import CommandFailed, GuestError, UsageError
from virtoll.lab.network import attached, plan_links
from virtoll.platforms.base import GuestRequest
from virtoll.platforms.fake.site import model_site
from virtoll.platforms.process_guest import GuestRemains
from virtoll.platforms.xen.driver import Xen, XenParameters
from virtoll.platforms.xen.passthrough import assignable, refusal

NICS = ("0000:03:10.0", "0000:04:10.0")
DISK = "0000:00:1f.2"
BUS = Path("/sys/bus/pci")
# What `xl info` says with an IOMMU, of which a PV guest needs pv_directio.
CAPABILITIES = ["pv", "hvm", "hvm_directio", "pv_directio", "hap", "iommu_hap_pt_share", "gnttab-v1", "gnttab-v2"]


class PciDom0(Dom0):
    """Its PCI devices have drivers; ``xl`` moves them to pciback and back, and notes whose they were.

    ``kept``: those that it does not give back. A domain that fails to start has none.
    """

    def __init__(self, said: dict[str, Any] | None = None, scratch: Path = Path("/nowhere")) -> None:
        super().__init__(said or {}, scratch)
        self.drivers: dict[str, str | None] = {NICS[0]: "igbvf", NICS[1]: None, DISK: "ahci"}
        self.noted: dict[str, str] = {}
        self.kept: set[str] = set()
        self.backend = True
        for address, kind in ((NICS[0], "0x020000"), (NICS[1], "0x020000"), (DISK, "0x010601")):
            self.files[f"/sys/bus/pci/devices/{address}/class"] = f"{kind}\n"

    def run(self, argv: Sequence[str], role: str, deadline_seconds: float = 30.0, stdin: bytes | None = None) -> str:
        assert role in ROLES
        if argv[0] == "test":
            if not self._exists(Path(argv[2])):
                raise CommandFailed(argv, 1, "no message", "")
            return ""
        if argv[0] == "readlink":
            return f"../../../bus/pci/drivers/{self.drivers[Path(argv[1]).parent.name]}\n"
        if argv[:2] == ["xl", "pci-assignable-add"]:
            self.asked.append(list(argv))
            assert ["xl", "pci-assignable-remove", "-r", argv[2]] in self.promised, "it is promised before it is taken"
            if driver := self.drivers[argv[2]]:
                self.noted[argv[2]] = driver
            self.drivers[argv[2]] = "pciback"
            return ""
        if argv[:2] == ["xl", "pci-assignable-remove"]:
            self.asked.append(list(argv))
            assert argv[2] == "-r"
            if self.drivers[argv[3]] != "pciback" or argv[3] in self.kept:
                raise CommandFailed(argv, 1, f"failed to de-quarantine {argv[3]}", "")
            self.drivers[argv[3]] = self.noted.pop(argv[3], None)
            return ""
        return super().run(argv, role, deadline_seconds, stdin)

    def _exists(self, path: Path) -> bool:
        if path.name == "driver":
            return self.drivers[path.parent.name] is not None
        if path == BUS / "drivers/pciback":
            return self.backend
        return path.parent == BUS / "devices" and path.name in self.drivers


def test_a_nic_is_taken_and_given_back_to_the_driver_that_had_it() -> None:
    host = PciDom0()
    before = dict(host.drivers)
    with assignable(host, NICS[0]), assignable(host, NICS[1]):
        assert [host.drivers[one] for one in NICS] == ["pciback", "pciback"]
        assert host.promised == [["xl", "pci-assignable-remove", "-r", one] for one in NICS]
    assert host.drivers == before
    assert host.promised == []


def test_what_is_promised_gives_it_back_should_the_controller_die() -> None:
    host = PciDom0()
    taken = assignable(host, NICS[0])
    taken.__enter__()
    for argv in host.promised:  # as the agent or the janitor does
        host.run(argv, "vfio")
    assert host.drivers[NICS[0]] == "igbvf"


def test_one_that_its_owner_has_made_assignable_stays_so() -> None:
    host = PciDom0()
    host.drivers[NICS[0]] = "pciback"
    with assignable(host, NICS[0]):
        assert host.promised == []
    assert host.drivers[NICS[0]] == "pciback"
    assert host.asked == []


def test_a_nic_that_does_not_come_back_is_told_and_stays_promised() -> None:
    host = PciDom0()
    host.kept = {NICS[0]}
    remedy = Command(f"xl pci-assignable-remove -r {NICS[0]}")
    with refused("this machine", "pciback", "igbvf", remedy, error=GuestRemains), assignable(host, NICS[0]):
        pass
    assert host.promised == [["xl", "pci-assignable-remove", "-r", NICS[0]]]


def test_what_is_missing_is_named() -> None:
    host = PciDom0()
    assert refusal(host, (), "pv", []) is None
    assert refusal(host, NICS, "pv", CAPABILITIES) is None
    assert_facts(str(refusal(host, NICS, "pv", ["pv", "hvm"])), "vfio", "IOMMU", "type pv", "iommu=1")
    assert_facts(str(refusal(host, ("0000:09:00.0",), "pv", CAPABILITIES)), "vfio", "0000:09:00.0", "lspci -D")
    assert_facts(str(refusal(host, (DISK,), "pv", CAPABILITIES)), "vfio", DISK, "NIC")
    host.backend = False
    assert_facts(str(refusal(host, NICS, "pv", CAPABILITIES)), "vfio", Command("modprobe xen-pciback"))


@pytest.mark.parametrize(("kind", "modules"), [("pv", "xen_pcifront,handed_in_nics"), ("hvm", "handed_in_nics")])
def test_a_guest_is_given_the_devices_and_a_vif_for_its_marks(tmp_path: Path, kind: str, modules: str) -> None:
    host = PciDom0({"list": NOTHING, "create": GuestError("'xl create' ended with 1: no room")}, tmp_path)
    before = dict(host.drivers)
    host.others["ip"] = "g7in0 UP\ng7out UP\n"  # of somebody else: none of the guest's is of these names
    network = Bridges()
    site = replace(model_site(), host=host, image=cast("Any", IMAGE), network=cast("Any", network))
    wanted = XenParameters.model_validate({"type": kind, "attachment": "passthrough", "vfio": NICS})
    request = GuestRequest("xen/3", 1, 256 * 2**20, (), attached(plan_links(7), "passthrough"))
    with refused("no room", error=GuestError):
        Xen(wanted).start(request, site)
    found = host.configuration()
    assert found["pci"] == [f"{one},permissive=0" for one in NICS]
    assert len(found["vif"]) == 1
    assert list(network.ports) == ["marks"]
    assert f"virtoll.modules=xen_netfront,{modules}" in found["extra"].split()
    assert found["ramdisk"] == "/i/large"
    order = [argv[1] for argv in host.asked if argv[0] == "xl"]
    assert order.index("pci-assignable-add") < order.index("create") < order.index("pci-assignable-remove")
    assert host.drivers == before, "the guest did not start"
    assert host.promised == []
    assert found["name"] == f"{LAB}-xen-3"


def test_each_link_needs_a_device_of_its_own(tmp_path: Path) -> None:
    host = PciDom0({"list": NOTHING}, tmp_path)
    wanted = XenParameters.model_validate({"attachment": "passthrough", "vfio": NICS[:1]})
    request = GuestRequest("xen/3", 1, 256 * 2**20, (), attached(plan_links(7), "passthrough"))
    with refused(1, 2, "PCI", error=GuestError):
        Xen(wanted).start(request, replace(model_site(), host=host))
    assert not any(argv[1].startswith("pci-") for argv in host.asked)


PASSTHROUGH = {"platform": "xen", "attachment": "passthrough", "vfio": list(NICS)}


def test_a_nested_hosts_own_nics_can_be_handed_in() -> None:
    parsed = experiments.parsed(platforms=["native", {**PASSTHROUGH, "host": "nested:xen-pci"}]).platforms[1]
    assert parsed.parameters.model_dump()["vfio"] == NICS


def test_passthrough_needs_addresses() -> None:
    with refused("platforms[1]", "vfio", error=UsageError):
        experiments.parsed(platforms=["native", {"platform": "xen", "attachment": "passthrough"}])


@pytest.mark.parametrize(
    ("changed", "key", "fact"),
    [
        ({}, "vfio", "'testbed'"),
        ({"type": "pvh"}, "type", "pv, hvm"),
        ({"attachment": "macvtap"}, "attachment", "bridge, routed, passthrough"),
        ({"attachment": "routed"}, "vfio", "attachment: passthrough"),
    ],
)
def test_what_does_not_go_together_is_refused_in_the_file(changed: dict[str, Any], key: str, fact: str) -> None:
    with refused(f"'platforms[1].{key}'", fact, error=UsageError):
        experiments.parsed(platforms=["native", {**PASSTHROUGH, **changed}])
