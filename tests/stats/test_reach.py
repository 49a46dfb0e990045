"""What root in a guest may reach, as text: what is known, what is not, and which kernel it is."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.by_hand import boot_record
from tests.support.facts import assert_facts, refused

from virtoll.errors import RunFolderError
from virtoll.runfolder.guest_records import AgentClock, HostProcess
from virtoll.runfolder.records import BootRecord
from virtoll.runfolder.store import parse_record
from virtoll.stats.guests import Readiness, readiness
from virtoll.stats.reach import ATTEMPTS, capability_names, on_hosts_kernel, process_text, reach_rows

QEMU = HostProcess(
    name="qemu-system-x86",
    user=65534,
    capabilities_hex="0000000000000000",
    capabilities_bounding_hex="000001ffffffffff",
    seccomp_mode=2,
    no_new_privileges=True,
    own_namespaces=("mnt", "pid"),
    network_namespace="net:[4026531840]",
)
REACH: dict[str, Any] = {
    "user_map": "0 100000 65536",
    "seccomp_mode": 2,
    "seccomp_filters": 3,
    "no_new_privileges": True,
    "capabilities_bounding_hex": "0000000000003000",
    "security_label": None,
    "writable_mounts": ["/proc proc", "/tmp tmpfs", "/tmp tmpfs"],
    "network_namespace": "net:[4026532008]",
    "sockets": [],
    "abstract_sockets": 0,
    "attempts": {"mount": "EPERM", "keyrings": "allowed", "packet-socket": "allowed"},
}


def test_what_is_known_is_told_in_words() -> None:
    rows = reach_rows(boot_record({"reach": REACH}, host_process=QEMU))
    told: dict[str, tuple[str | int, ...]] = {
        "kernel": ("own",),
        "user namespace": ("own", "0 100000 65536"),
        "capabilities at most": (2, "NET_ADMIN NET_RAW"),
        "seccomp": (3,),
        "no new privileges": ("on",),
        "security label": ("none",),
        "mounts that may be written to": ("/proc proc", "/tmp tmpfs"),
        "sockets seen": ("none",),
        "root may": ("keyrings", "packet sockets"),
        "process on the host": ("qemu-system-x86", 65534, "none", "seccomp", "mnt, pid"),
    }
    assert list(rows) == list(told)
    for row, facts in told.items():
        assert_facts(rows[row] or "", *facts)
    assert process_text(QEMU) == rows["process on the host"]
    assert "mount" not in (rows["root may"] or "")
    assert (rows["mounts that may be written to"] or "").count("/tmp") == 1


def test_what_an_older_run_has_not_is_unknown_and_not_none() -> None:
    assert set(reach_rows(boot_record({})).values()) == {None}
    assert set(ATTEMPTS) >= set(REACH["attempts"])


@pytest.mark.parametrize(
    ("key", "value", "row", "words"),
    [
        ("user_map", "0 0 4294967295", "user namespace", "none of its own"),
        ("no_new_privileges", False, "no new privileges", "off"),
        ("security_label", "docker-default (enforce)", "security label", "docker-default (enforce)"),
        ("seccomp_mode", 0, "seccomp", "none"),
        ("seccomp_mode", 1, "seccomp", "strict"),
        ("seccomp_mode", 9, "seccomp", "9"),
        ("seccomp_filters", None, "seccomp", "filters"),
        ("sockets", ["/run/a", "/run/b"], "sockets seen", "/run/a, /run/b"),
    ],
)
def test_each_of_the_agents_facts_is_a_row(key: str, value: Any, row: str, words: str) -> None:
    assert reach_rows(boot_record({"reach": {**REACH, key: value}}))[row] == words


def test_a_guest_on_the_hosts_kernel_and_an_older_agents_process_are_told() -> None:
    here = boot_record({"reach": {"network_namespace": QEMU.network_namespace}}, host_process=QEMU)
    assert reach_rows(here)["kernel"] == "the host's"
    plain = QEMU.replace(seccomp_mode=None, own_namespaces=())
    text = process_text(plain)
    assert_facts(text, "qemu-system-x86", 65534, "none")
    assert "seccomp" not in text


@pytest.mark.parametrize(
    ("mask", "names"),
    [
        (None, None),
        ("0", "none"),
        ("1ffffffffff", "all"),
        ("1fffeffffff", "all but SYS_RESOURCE"),
        ("3000", "2: NET_ADMIN NET_RAW"),
    ],
)
def test_capabilities_have_names(mask: str | None, names: str | None) -> None:
    assert capability_names(mask) == names


def test_most_are_told_by_those_that_are_missing() -> None:
    """The kernel's numbers: CAP_SYS_NICE is 23, CAP_SYS_RESOURCE 24, CAP_SYS_TIME 25 (linux/capability.h)."""
    few, most = capability_names("ffffff"), capability_names("1ffffff")
    assert few is not None
    assert most is not None
    assert few.startswith("24: CHOWN DAC_OVERRIDE ")
    assert few.endswith(" SYS_NICE")
    assert most.startswith("all but SYS_TIME ")


def test_a_guest_with_a_boot_number_of_its_own_is_on_the_hosts_kernel() -> None:
    """systemd-nspawn and LXC give their containers a number of their own: their starts had no parts."""
    outside = QEMU.replace(network_namespace=REACH["network_namespace"])
    started = AgentClock(2000, 10_000_000, 2500)
    covered = {"boot_id": "its own", "reach": REACH}
    here = boot_record(covered, host_process=outside, host_boot_id="the host's", agent_clock=started)
    assert on_hosts_kernel(here) is True
    assert readiness(here) == Readiness(2000, 1000, None, 500)
    assert on_hosts_kernel(boot_record(covered, host_process=QEMU, host_boot_id="its own")) is False
    assert on_hosts_kernel(boot_record({"boot_id": "b"}, host_boot_id="b")) is True
    assert on_hosts_kernel(boot_record({"boot_id": "b"})) is None
    assert on_hosts_kernel(boot_record(covered, host_boot_id="its own")) is True, "without a process, by the number"
    older = boot_record({"boot_id": "b"}, host_process=QEMU, host_boot_id="b")
    assert on_hosts_kernel(older) is True, "without a name inside, too"
    unnamed = QEMU.replace(network_namespace=None)
    assert on_hosts_kernel(boot_record(covered, host_process=unnamed, host_boot_id="another")) is False


@pytest.mark.parametrize(
    ("key", "value"),
    [("seccomp_mode", "2"), ("sockets", "none"), ("capabilities_bounding_hex", "xyz"), ("attempts", {"mount": 1})],
)
def test_a_damaged_reach_is_refused_when_it_is_read(key: str, value: Any) -> None:
    good = boot_record({"reach": REACH}, host_process=QEMU)
    assert parse_record(BootRecord, good.to_json()) == good
    damaged = good.to_json() | {"facts": {"reach": {**REACH, key: value}}}
    with refused("reach", key, error=RunFolderError):
        parse_record(BootRecord, damaged)
