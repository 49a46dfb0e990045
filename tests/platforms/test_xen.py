"""Xen's driver against what ``xl`` said in the nested host: probe, the domain's configuration, names that are taken.

The guests themselves run in ``test_nested_guests.py``; what is asked of dom0 is in ``test_xen_dom0.py``.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import ValidationError
from tests.support.dom0 import IMAGE, LAB, NOTHING, Bridges, Dom0
from tests.support.facts import assert_facts, refused
from tests.support.present import present
from tests.support.told_names import TESTBED

from virtoll.errors import CommandFailed, GuestError, ProgramMissing
from virtoll.lab.data import LocalVolume
from virtoll.lab.network import GuestNetwork, attached, plan_links
from virtoll.platforms.base import GuestRequest, Probe
from virtoll.platforms.fake.site import model_site
from virtoll.platforms.host import Site
from virtoll.platforms.xen.driver import Xen, XenParameters

MIB = 2**20
INFO = """host                   : (none)
release                : 6.1.0-56-amd64
virt_caps              : pv hvm hap
xen_version            : 4.17.7
xen_scheduler          : credit2
"""


def site(host: Dom0, network: Bridges | None = None) -> Site:
    return replace(model_site(), host=host, image=cast("Any", IMAGE), network=cast("Any", network))


def probed(kind: str, **said: str | GuestError) -> Probe:
    found = Xen(XenParameters.model_validate({"type": kind})).probe(site(Dom0(said)))
    assert not found.available
    return found


@pytest.mark.parametrize(
    ("error", "facts"),
    [
        (ProgramMissing("xl", "xl: not found on this host; install it"), ("xl", "xen-system-amd64")),
        (CommandFailed(["xl", "info"], 1, "cannot init xl context"), ("Xen", "hypervisor", "xenstored", "xenconsoled")),
        (CommandFailed(["xl", "info"], 1, "xc: error: Permission denied"), ("xl", "dom0", "log in as root")),
    ],
    ids=["without xl", "no dom0", "without rights"],
)
def test_a_host_without_xen_has_a_remedy(error: GuestError, facts: tuple[str, ...]) -> None:
    found = probed("pv", info=error)
    assert_facts(present(found.reason), *facts)
    assert_facts(present(found.remedy), facts[-1])
    assert "this machine" not in present(found.remedy)


@pytest.mark.parametrize("kind", ["pvh", "hvm"])
def test_a_type_that_the_processor_has_not_is_a_switch_in_the_firmware(kind: str) -> None:
    reason = present(probed(kind, info=INFO.replace("pv hvm hap", "pv")).reason)
    assert_facts(reason, f"type {kind}", "hvm", "firmware")


def asked(
    tmp_path: Path, sources: int = 1, attachment: Any = "bridge", image: Any = IMAGE, **given: Any
) -> tuple[dict[str, Any], Dom0, Bridges]:
    """The configuration that ``xl create`` was given, by a host on which it then fails."""
    keys = ("vcpus", "memory", "cpus", "quota", "data")
    request = {key: given.pop(key) for key in keys if key in given}
    network, bridges = attached(plan_links(7, sources), attachment), Bridges()
    host = Dom0({"list": NOTHING, "create": GuestError("'xl create' ended with 1: no room")}, tmp_path)
    host.others = {"stat": "regular file\n", "losetup": "/dev/loop3\n"}
    wanted = GuestRequest(
        "xen/3",
        request.get("vcpus", 1),
        request.get("memory", 256) * MIB,
        request.get("cpus", ()),
        network,
        cpu_quota=request.get("quota"),
        data=request.get("data"),
    )
    with refused("no room", error=GuestError):
        Xen(XenParameters.model_validate(given)).start(wanted, replace(site(host, bridges), image=image))
    (create,) = (argv for argv in host.asked if argv[:2] == ["xl", "create"])
    assert create[2] == "-p", "it must not say a word before its console is held"
    assert create[3].endswith("/domain.cfg")
    return host.configuration(), host, bridges


def nics(configuration: dict[str, Any]) -> list[dict[str, str]]:
    return [dict(word.split("=", 1) for word in vif.split(",")) for vif in configuration["vif"]]


@pytest.mark.parametrize(("kind", "kernel"), [("pv", "/i/vmlinux"), ("pvh", "/i/vmlinux"), ("hvm", "/i/vmlinuz")])
def test_each_type_is_booted_from_the_kernel_with_the_agent_on_its_console(
    tmp_path: Path, kind: str, kernel: str
) -> None:
    """Where no firmware starts it, the kernel is the unpacked one: dom0 would unpack it for each guest."""
    found, _, _ = asked(tmp_path, type=kind)
    assert (found["type"], found["name"]) == (kind, f"{LAB}-xen-3")
    assert (found["kernel"], found["ramdisk"]) == (kernel, "/i/large")
    words = found["extra"].split()
    assert {"console=hvc0", "virtoll.channel=/dev/hvc0", "virtoll.modules=xen_netfront"} <= set(words)
    assert "xen_emul_unplug=never" not in words
    assert ("vnc" in found) == (kind == "hvm"), "no device model, no screen to switch off"
    assert {found[f"on_{what}"] for what in ("poweroff", "reboot", "crash", "watchdog")} == {"destroy"}


@pytest.mark.parametrize(("vcpus", "memory", "cpus", "text"), [(1, 256, (), None), (3, 512, (0, 2, 5), "0,2,5")])
def test_size_and_pinning_are_as_asked(
    tmp_path: Path, vcpus: int, memory: int, cpus: tuple[int, ...], text: str | None
) -> None:
    found, _, _ = asked(tmp_path, vcpus=vcpus, memory=memory, cpus=cpus)
    assert (found["vcpus"], found["memory"], found.get("cpus")) == (vcpus, memory, text)


@pytest.mark.parametrize(
    ("given", "weight", "cap"),
    [
        ({}, 256, 0),
        ({"weight": 512, "cap": 40}, 512, 40),
        ({"quota": 0.2}, 256, 20),
        ({"quota": 1.5, "cap": 40}, 256, 150),
        ({"quota": 0.001}, 256, 1),  # 0 would be no cap at all
    ],
)
def test_the_schedulers_weight_and_cap(tmp_path: Path, given: dict[str, Any], weight: int, cap: int) -> None:
    found, _, _ = asked(tmp_path, **given)
    assert (found["cpu_weight"], found["cap"]) == (weight, cap)


@pytest.mark.parametrize("sources", [1, 3])
@pytest.mark.parametrize("attachment", ["bridge", "routed"])
def test_each_link_has_a_vif_in_its_bridge(tmp_path: Path, sources: int, attachment: str) -> None:
    found, _, bridges = asked(tmp_path, sources, attachment)
    links = plan_links(7, sources).links
    assert [nic["mac"] for nic in nics(found)] == [link.guest_mac for link in links]
    assert [nic["bridge"] for nic in nics(found)] == [f"virtoll-{link.name}" for link in links]
    assert [nic["vifname"] for nic in nics(found)] == [bridges.ports[link.name] for link in links]
    assert {(nic["type"], nic.get("model")) for nic in nics(found)} == {("vif", None)}


@pytest.mark.parametrize("model", ["e1000", "rtl8139"])
def test_an_emulated_nic_is_counted_at_the_device_models_tap(tmp_path: Path, model: str) -> None:
    found, _, bridges = asked(tmp_path, type="hvm", nic=model)
    assert {(nic["type"], nic["model"]) for nic in nics(found)} == {("ioemu", model)}
    assert [f"{nic['vifname']}-emu" for nic in nics(found)] == list(bridges.ports.values())
    assert all(len(port or "") <= 15 for port in bridges.ports.values())
    assert "xen_emul_unplug=never" in found["extra"].split()
    assert "xen_netfront" not in found["extra"]
    assert found["ramdisk"] == "/i/small"


@pytest.mark.parametrize(("given", "large"), [({"root": "disk"}, False), ({}, True)], ids=["asked for", "with tools"])
def test_a_root_on_a_disk_is_a_loop_device_that_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], large: bool
) -> None:
    monkeypatch.setattr("virtoll.platforms.xen.driver.root_disk", lambda _: Path("/i/disk.erofs"))
    image = SimpleNamespace(**{**vars(IMAGE), "needs_disk": large})
    found, host, _ = asked(tmp_path, image=image, **given)
    assert found["disk"] == ["format=raw, vdev=xvda, access=ro, target=/dev/loop3"]
    words = found["extra"].split()
    modules = "virtoll.modules=xen_netfront,xen_blkfront,erofs"
    assert {modules, "virtoll.root=/dev/xvda", "virtoll.disktype=erofs"} <= set(words)
    assert ["losetup", "--find", "--show", "--read-only", "/i/disk.erofs"] in host.asked
    assert host.asked.count(["losetup", "--detach", "/dev/loop3"]) == 1, "the guest did not start"
    assert host.promised == []


@pytest.mark.parametrize(
    ("given", "disk", "words"),
    [
        ({}, "xvdb", {"virtoll.modules=xen_netfront,xen_blkfront,ext4", "virtoll.data=/dev/xvdb"}),
        (
            {"root": "disk"},
            "xvdb",
            {
                "virtoll.modules=xen_netfront,xen_blkfront,erofs,ext4",
                "virtoll.data=/dev/xvdb",
                "virtoll.root=/dev/xvda",
            },
        ),
        (
            {"type": "hvm", "nic": "e1000"},
            "hda",
            {"xen_emul_unplug=never", "virtoll.modules=ata_piix,ext4", "virtoll.data=/dev/sda"},
        ),
    ],
    ids=["root in memory", "root on a disk", "emulated"],
)
def test_a_data_directory_is_a_disk_that_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], disk: str, words: set[str]
) -> None:
    monkeypatch.setattr("virtoll.platforms.xen.driver.root_disk", lambda _: Path("/i/disk.erofs"))
    with (tmp_path / "disk").open("wb") as file:
        room = LocalVolume(MIB, "ext4", descriptor=file.fileno())
        found, host, _ = asked(tmp_path, data=room, **given)
        path = f"/proc/{os.getpid()}/fd/{file.fileno()}"
    assert found["disk"][-1] == f"format=raw, vdev={disk}, access=rw, target=/dev/loop3"
    assert len(found["disk"]) == (2 if "root" in given else 1)
    assert words <= set(found["extra"].split())
    assert found["ramdisk"] == "/i/large"
    assert ["losetup", "--find", "--show", path] in host.asked
    assert host.asked.count(["losetup", "--detach", "/dev/loop3"]) == len(found["disk"]), "the guest did not start"
    assert host.promised == []


def test_an_image_with_tools_does_not_go_with_an_emulated_nic(tmp_path: Path) -> None:
    wanted = XenParameters.model_validate({"type": "hvm", "nic": "e1000", "root": "disk"})
    assert (wanted.conflict(None) or ("", ""))[0] == "root"
    image = SimpleNamespace(**{**vars(IMAGE), "needs_disk": True, "name": "full"})
    host = Dom0({"list": NOTHING, "info": INFO}, tmp_path)
    found = Xen(wanted.model_copy(update={"root": "initramfs"})).probe(replace(site(host), image=cast("Any", image)))
    assert not found.available
    assert_facts(found.reason or "", "image full", "PV disk", "nic: netfront")


@pytest.mark.parametrize("kind", ["pv", "pvh"])
def test_only_hvm_has_emulated_nics(kind: str) -> None:
    wanted = {"type": kind, "nic": "e1000"}
    key, said = XenParameters.model_validate(wanted).conflict(None) or ("", "")
    assert (key, "type: hvm" in said) == ("nic", True)
    assert XenParameters.model_validate({**wanted, "type": "hvm"}).conflict(None) is None


@pytest.mark.parametrize(("key", "least", "most"), [("weight", 1, 65_535), ("cap", 0, 100_000)])
def test_the_schedulers_numbers_have_bounds(key: str, least: int, most: int) -> None:
    for value in (least, most):
        assert getattr(XenParameters.model_validate({key: value}), key) == value
    for value in (least - 1, most + 1):
        with pytest.raises(ValidationError, match=key):
            XenParameters.model_validate({key: value})


@pytest.mark.parametrize(("attachment", "goes"), [("bridge", True), ("routed", True), ("macvtap", False)])
def test_dom0_routes_to_a_testbed_too(attachment: str, goes: bool) -> None:
    assert (XenParameters.model_validate({"attachment": attachment}).conflict(TESTBED) is None) == goes


def test_a_start_that_fails_leaves_nothing(tmp_path: Path) -> None:
    _, host, bridges = asked(tmp_path, dom0_cpus=(0,))
    assert bridges.removed == [attached(plan_links(7), "bridge")]
    assert host.promised == []
    assert ["rm", "-f", f"/var/log/xen/qemu-dm-{LAB}-xen-3.log", f"/var/log/xen/xl-{LAB}-xen-3.log"] in host.asked
    assert not any("vcpu-pin" in argv for argv in host.asked), "dom0 was not pinned yet"


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    host = Dom0({"list": f"{NOTHING}{LAB}-xen-3   3   256   1   -b----   1.5\n"}, tmp_path)
    with refused(f"xl destroy {LAB}-xen-3", error=GuestError):
        Xen(XenParameters()).start(GuestRequest("xen/3", 1, MIB, (), GuestNetwork(())), site(host))
    assert [argv[1] for argv in host.asked] == ["list"]
