"""What Xen's driver does to dom0 is undone, touches nothing of others, and what is left is reported."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.dom0 import LAB, Dom0
from tests.support.facts import refused

from virtoll.errors import CommandFailed, GuestError
from virtoll.lab.network import plan_links
from virtoll.platforms.host import SharedResources
from virtoll.platforms.process_guest import GuestRemains
from virtoll.platforms.xen.dom0 import Dom0Pin, destroy, domains, remove_leftovers, routed_link, wait_for_removal

OTHER = "virtoll-ba9876543210"
TABLES = ("30166", "30167")
ROUTED = """\
link set vifname nomaster down
link set vifname address 02:76:74:05:05:03
link add vtr5out address 02:76:74:04:05:03 type veth peer name vto5out
link set vto5out mtu 1400 master virtoll-out up
link set vtr5out mtu 1400 up
link set vifname mtu 1400 up
rule add iif vtr5out lookup 30166
rule add iif vifname lookup 30167
route add default via 10.69.3.1 dev vifname onlink table 30166
route add default via 10.69.3.2 dev vtr5out onlink table 30167
neigh add 10.69.3.1 lladdr 02:76:74:01:05:03 nud permanent dev vifname
neigh add 10.69.3.2 lladdr 02:76:74:02:05:03 nud permanent dev vtr5out
""".splitlines()
OTHERS_OWN = (
    "customer",
    "virtoll-like",
    "virtoll",
    LAB,
    OTHER,
    f"{OTHER}0-xen-1",
    f"my{OTHER}-xen-1",
    f"{OTHER.upper()}-xen-1",
    "virtoll-ba987654321g-xen-1",
    f"copy-of-{OTHER}-xen-1",
)


def listed(*names: str) -> str:
    rows = [f"{name:<40} {number:>5}   256     1     -b----       1.5\n" for number, name in enumerate(names, 3)]
    head = "Name                                        ID   Mem VCPUs\tState\tTime(s)\n"
    return head + "Domain-0                                     0  1024     2     r-----      21.2\n" + "".join(rows)


def test_domains_are_named_without_dom0() -> None:
    assert domains(Dom0({"list": listed("customer", f"{LAB}-xen-1")})) == ["customer", f"{LAB}-xen-1"]


def test_only_domains_of_dead_labs_are_removed() -> None:
    dead = [f"{OTHER}-xen-1", f"{OTHER}-probe-xen"]
    host = Dom0({"list": listed(f"{LAB}-xen-1", *dead, *OTHERS_OWN)})
    assert remove_leftovers(host, frozenset({LAB})) == [f"Xen domain {name}" for name in dead]
    assert [argv[2] for argv in host.asked if argv[1] == "destroy"] == dead
    assert domains(host) == [f"{LAB}-xen-1", *OTHERS_OWN]


def test_a_domain_that_does_not_go_is_told() -> None:
    name = f"{LAB}-xen-1"
    host = Dom0({"list": listed(name)})
    host.undying = {name}
    with refused("this machine", f"domain {name}", "0 s", "does not go", error=GuestRemains):
        destroy(host, name, patience_seconds=0.0)


def raising(error: GuestError) -> Callable[[], str]:
    def answer() -> str:
        raise error

    return answer


def test_each_pci_device_is_a_minute_more_to_wait_for() -> None:
    name = f"{LAB}-xen-1"
    host = Dom0({"list": listed(name)})
    destroy(host, name, devices=2)
    assert host.waited["destroy"] == 60.0 + 2 * 60.0
    host = Dom0({"list": listed(name)})
    host.undying = {name}
    with refused(f"domain {name}", "0 s", error=GuestRemains):
        destroy(host, name, patience_seconds=-120.0, devices=2)


class LossyDom0(Dom0):
    """Loses the first answer, as a connection to a busy host does: ssh ends with 255 and says nothing."""

    def run(self, argv: Sequence[str], role: str, deadline_seconds: float = 30.0, stdin: bytes | None = None) -> str:
        if not self.asked:
            self.asked.append(list(argv))
            raise CommandFailed(argv, 255, "no message", "nested xen: ")
        return super().run(argv, role, deadline_seconds, stdin)


def test_an_answer_that_is_lost_is_asked_for_again() -> None:
    name = f"{LAB}-xen-1"
    host = LossyDom0({"list": listed(name)})
    destroy(host, name)
    assert [argv[1] for argv in host.asked] == ["list", "list", "destroy", "list"]
    assert domains(host) == []


def busy(*looks: int) -> Dom0:
    """Its kernel has so many of the guest's interfaces at each look."""
    host, left = Dom0({}), iter(looks)

    def answer() -> str:
        names = ("lo", "vt4in0", *("vt3in0@eth0", "vt3out")[: next(left)])
        return "".join(f"{name:<16} UP  fe:ff:ff:ff:ff:ff <UP>\n" for name in names)

    host.others["ip"] = answer
    return host


def test_the_end_of_a_domains_interfaces_is_waited_for() -> None:
    host = busy(2, 1, 0)
    wait_for_removal(host, ["vt3in0", "vt3out"])
    assert host.asked == [["ip", "-brief", "link"]] * 3


def test_an_interface_that_does_not_go_is_told() -> None:
    host = busy(2, 2)
    with refused("this machine", "vt3in0, vt3out", "0 s", error=GuestRemains):
        wait_for_removal(host, ["vt3out", "vt3in0"], patience_seconds=0.0)


def pinned(**affinity: tuple[str, str]) -> Dom0:
    """A dom0 whose vCPUs may run there."""
    host = Dom0({})
    host.affinity = {number.removeprefix("v"): where for number, where in affinity.items()}
    return host


@pytest.mark.parametrize(
    "before",
    [
        {"v0": ("all", "all"), "v1": ("all", "all")},
        {"v0": ("0-1", "all"), "v1": ("0-1", "all")},
        {"v0": ("0", "all"), "v1": ("1", "2-3"), "v2": ("0,3", "all")},
    ],
)
def test_dom0_goes_back_where_it_was(before: dict[str, tuple[str, str]]) -> None:
    host = pinned(**before)
    found, pin = dict(host.affinity), Dom0Pin(host, (2, 3), SharedResources())
    pin.take()
    assert {hard for hard, _ in host.affinity.values()} == {"2,3"}
    promised = list(host.promised)
    pin.give_back()
    assert host.affinity == found
    assert host.promised == []
    pin.take()
    for argv in promised:  # as when the controller dies now
        host.run(argv, "dom0")
    assert host.affinity == found


def test_a_guest_that_pins_nothing_asks_nothing() -> None:
    host = pinned(v0=("all", "all"))
    pin = Dom0Pin(host, (), SharedResources())
    pin.take()
    pin.give_back()
    assert host.asked == []


def test_the_last_of_two_guests_puts_dom0_back() -> None:
    host = pinned(v0=("all", "all"), v1=("1", "all"))
    found, shared = dict(host.affinity), SharedResources()
    one, other = Dom0Pin(host, (0,), shared), Dom0Pin(host, (1,), shared)
    one.take()
    one.take()
    other.take()
    one.give_back()
    one.give_back()
    assert {hard for hard, _ in host.affinity.values()} == {"1"}
    assert host.promised
    other.give_back()
    assert host.affinity == found
    assert host.promised == []


def test_dom0_that_cannot_be_put_back_is_told_and_tried_again_at_the_end() -> None:
    host = pinned(v0=("all", "all"))
    pin = Dom0Pin(host, (0,), SharedResources())
    pin.take()
    host.said["vcpu-pin"] = GuestError("'xl vcpu-pin' ended with 1: busy")
    with refused("dom0", "this machine", "busy", error=GuestRemains):
        pin.give_back()
    assert host.promised == [["xl", "vcpu-pin", "Domain-0", "all", "all", "all"]]


@pytest.mark.parametrize("said", ["Name ID VCPU\n", "Name ID VCPU\nDomain-0 0 0 1 r-- 20.0 any cpu\n"])
def test_where_dom0_runs_must_be_known_before_it_is_changed(said: str) -> None:
    host = pinned()
    host.said["vcpu-list"] = said
    with refused("vcpu-list", error=GuestError):
        Dom0Pin(host, (0,), SharedResources()).take()
    assert [argv[1] for argv in host.asked] == ["vcpu-list"]


def test_a_routed_link_is_promised_before_it_is_made_and_gone_afterwards() -> None:
    host, link = Dom0({}), replace(plan_links(5).links[1], attachment="routed", bridge="virtoll-out", mtu_bytes=1400)
    with routed_link(host, link, "vifname"):
        (batch,) = host.asked
        undo = list(host.promised)
    assert batch[:-1] == ["ip", "-batch", "-"]
    assert batch[-1].splitlines() == ROUTED, "its MAC address changes only while it is down"
    assert undo == [["ip", "link", "del", "vtr5out"], *(["ip", "rule", "del", "lookup", table] for table in TABLES)]
    settings = Path("/proc/sys/net/ipv4/conf")
    values = {"forwarding": "1", "rp_filter": "0"}
    assert host.written == {
        settings / interface / name: value for interface in ("vtr5out", "vifname") for name, value in values.items()
    }
    assert host.promised == []
    assert host.asked[1:] == undo


def test_a_routed_link_that_is_gone_already_is_no_fault_at_its_end() -> None:
    host, link = Dom0({}), plan_links(5).links[0]
    with routed_link(host, link, "vifname"):
        host.others["ip"] = raising(GuestError("Cannot find device"))
    assert host.promised == []


@pytest.mark.parametrize("value", ["1", "2"])
def test_a_host_that_filters_by_the_way_back_is_refused_and_left_as_it_is(value: str) -> None:
    host, link = Dom0({}), plan_links(5).links[0]
    host.files = {"/proc/sys/net/ipv4/conf/all/rp_filter": f"{value}\n"}
    facts = "net.ipv4.conf.all.rp_filter", int(value), 0, "attachment: bridge"
    with contextlib.ExitStack() as stack, refused(*facts, error=GuestError):
        stack.enter_context(routed_link(host, link, "vifname"))
    assert (host.asked, host.written, host.promised) == ([], {}, [])


def test_two_guests_links_have_tables_of_their_own() -> None:
    host = Dom0({})
    for owner in (0, 1, 100):
        for link in plan_links(owner, 3).links:
            with routed_link(host, link, "v"):
                pass
    made = [argv[-1] for argv in host.asked if "-batch" in argv]
    tables = [line.split()[-1] for text in made for line in text.splitlines() if line.startswith("rule add")]
    assert len(tables) == len(set(tables)) == 2 * 5 * 3
