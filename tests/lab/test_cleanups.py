"""The fixed set of commands that a lab's record can cause, with the forms of their arguments."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from virtoll.lab import residue
from virtoll.lab.cleanups import CLEANUPS, command, recorded
from virtoll.lab.launch import sweep_dead_labs
from virtoll.system.python import isolated

LAB = "virtoll-0123456789ab"
GUEST = f"{LAB}-kvm-1"
VBOX = ["env", "VBOX_USER_HOME=/run/virtoll/guests/1-vm/settings", "VBoxManage", "-q"]
PRIVATE = f"/vz/private/{GUEST}"
GIVEN = (
    ["xl", "destroy", GUEST],
    ["xl", "vcpu-pin", "Domain-0", "all", "0-3", "0,2"],
    ["xl", "pci-assignable-remove", "-r", "0000:01:00.0"],
    ["rm", "-f", f"/var/log/xen/qemu-dm-{GUEST}.log", f"/var/log/xen/xl-{GUEST}.log"],
    ["losetup", "--detach", "/dev/loop7"],
    ["ip", "link", "del", "vtb1left"],
    ["ip", "rule", "del", "lookup", "1234"],
    [*VBOX, "controlvm", GUEST, "poweroff"],
    [*VBOX, "unregistervm", GUEST, "--delete"],
    ["virsh", "--quiet", "--connect", "qemu:///system", "destroy", GUEST],
    ["vzctl", "stop", "7001", "--fast"],
    ["vzctl", "umount", "7001"],
    ["vzctl", "destroy", "7001"],
    ["vzctl", "destroy", GUEST],
    ["rm", "-rf", "--", PRIVATE, f"{PRIVATE}.tmp"],
    ["rm", "-f", "--", f"/vz/template/cache/{GUEST}.tar"],
    [
        "rm",
        "-f",
        "--",
        "/etc/vz/conf/7001.mount",
        "/etc/vz/conf/7001.mount.destroyed",
        "/etc/vz/conf/7001.conf.destroyed",
    ],
    ["prlctl", "stop", GUEST, "--kill"],
    ["prlctl", "delete", GUEST],
    ["vserver", "--silent", GUEST, "stop"],
    ["vserver", "--silent", GUEST, "delete"],
    isolated("virtoll.platforms.esxi.leftovers", '{"server":"esx","datastore":"a b"}', GUEST),
    isolated("virtoll.lab.flow_control", "eth0", "on", "off", "off"),
)


@pytest.mark.parametrize("argv", GIVEN, ids=lambda argv: " ".join(argv[-3:]))
def test_a_clean_up_is_the_same_after_it_was_stored(argv: list[str]) -> None:
    name, arguments = json.loads(json.dumps(recorded(argv)))
    assert command(name, arguments, LAB) == argv


def test_every_clean_up_of_the_set_is_tried() -> None:
    assert {recorded(argv)[0] for argv in GIVEN} == {cleanup.name for cleanup in CLEANUPS}


@pytest.mark.parametrize(
    "argv",
    [
        ["sh", "-c", "id"],
        ["/bin/sh", "-c", f"xl destroy {GUEST}"],
        ["xl", "destroy", "Domain-0"],
        ["xl", "destroy", GUEST, "more"],
        ["xl", "destroy", f"{GUEST}\n"],
        ["xl", "pci-assignable-remove", "-r", "0000:01:00.0/../x"],
        ["rm", "-rf", "--", "/", "/"],
        ["rm", "-rf", "--", f"/vz/../home/private/{GUEST}", f"/vz/private/{GUEST}.tmp"],
        ["rm", "-f", "--", f"/vz/template/cache/../{GUEST}.tar"],
        ["losetup", "--detach", "/dev/loop7/../sda"],
        ["ip", "link", "del", "eth0"],
        ["virsh", "--quiet", "--connect", "qemu+ext:///system?command=/tmp/x", "destroy", GUEST],
        ["env", "LD_PRELOAD=/tmp/x.so", "VBoxManage", "-q", "controlvm", GUEST, "poweroff"],
        pytest.param(isolated("os", "x"), id="isolated os x"),
    ],
    ids=lambda argv: " ".join(argv[-3:]),
)
def test_what_is_not_in_the_set_is_not_stored(argv: list[str]) -> None:
    with pytest.raises(ValueError, match=re.escape(" ".join(argv))):
        recorded(argv)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("sh -c {guest}", [GUEST]),
        ("xl destroy {guest}", []),
        ("xl destroy {guest}", [GUEST, GUEST]),
        ("xl destroy {guest}", ["Domain-0"]),
        ("xl destroy {guest}", ["virtoll-ba9876543210-kvm-1"]),
        ("xl destroy {guest}", [f"{GUEST}/x"]),
        ("losetup --detach /dev/loop{number}", ["7 /dev/sda"]),
        ("rm -rf -- {folder}/private/{guest} {folder}/private/{guest}.tmp", ["/vz/..", GUEST, "/vz", GUEST]),
        ("{nic} {switch} {switch} {switch}", ["eth0", "on", "on", "on"]),
    ],
)
def test_what_a_record_says_otherwise_is_no_command(name: str, arguments: list[str]) -> None:
    assert command(name, arguments, LAB) is None


@pytest.mark.usefixtures("state")
def test_a_hostile_record_runs_nothing(tmp_path: Path) -> None:
    """What the attack of another user was: an argument list in the record of a dead lab."""
    record, lock = residue.create_record()
    canary = tmp_path / "executed"
    hostile: list[object] = [
        {"id": 1, "argv": ["/bin/sh", "-c", f"touch {canary}"]},
        {"id": 2, "cleanup": ["touch", str(canary)], "arguments": []},
        {"id": 3, "cleanup": "touch {folder}", "arguments": [str(canary)]},
        {"id": 4, "cleanup": "rm -f /var/log/xen/qemu-dm-{guest}.log /var/log/xen/xl-{guest}.log", "arguments": 5},
        {"id": "5", "cleanup": "xl destroy {guest}", "arguments": [GUEST]},
        ["not", "an", "object"],
        10**400,
    ]
    lines = [*map(json.dumps, hostile), "[" * 100_000, "\0", '{"id": 1']
    for name in ("cleanups.jsonl", "commands.jsonl", "vfio.jsonl", "controllers.jsonl", "nested.json"):
        file = record.folder / name
        file.write_text("\n".join(lines), encoding="utf-8")
        file.chmod(0o600)
    os.close(lock)
    assert sweep_dead_labs() == [str(record.folder)]
    assert not canary.exists()
