"""What is equal between guests, on facts few enough to reckon by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.runfolder.facts import Facts
from virtoll.runfolder.records import BootRecord, Requested
from virtoll.stats.equivalence import Equivalence, FactRow, Likeness, PairCount, equivalence, likeness

GIB = 1 << 30


@pytest.fixture(scope="module")
def boot() -> BootRecord:
    found = run_data(Truth(REALISTIC, blocks=2)).boots[0]
    return found.replace(mismatches=(), requested=None, attachment="bridge", host_process=None)


def compared(boot: BootRecord, **facts: dict[str, Any] | None) -> Equivalence:
    """Platforms with one boot each, of these facts."""
    boots = [boot.replace(platform=platform, facts=own and Facts.from_json(own)) for platform, own in facts.items()]
    return equivalence(boots, list(facts))


def told(found: Equivalence, name: str) -> dict[str, str | None]:
    return dict(next(row.values for row in found.rows if row.name == name))


def of_one(boot: BootRecord, **facts: Any) -> dict[str, str | None]:
    """All facts of one guest, as text."""
    return {row.name: row.values["p"] for row in compared(boot, p=facts).rows}


def test_texts_are_equal_different_or_not_known() -> None:
    assert likeness(["4", "4"]) is Likeness.EQUAL
    assert likeness(["4", "5"]) is Likeness.DIFFERENT
    assert likeness(["4", None]) is Likeness.UNKNOWN
    assert likeness(["4", "5", None]) is Likeness.DIFFERENT
    assert likeness([None, None]) is Likeness.UNKNOWN
    assert likeness(["varies: 4 / 5", "varies: 4 / 5"]) is Likeness.DIFFERENT
    assert FactRow("n", {}, Likeness.EQUAL).equal
    assert not FactRow("n", {}, Likeness.UNKNOWN).equal


def test_platforms_are_compared_with_each_other_pair_by_pair(boot: BootRecord) -> None:
    """Three of four have facts; what two of them differ in is equal on the third and one of these."""
    one = {"kernel_release": "6.1", "machine": "x86_64", "cpus_online": 2}
    found = compared(boot, a=one, b=one | {"kernel_release": "6.12"}, c=one | {"machine": None}, d=None)
    assert found.platforms == ("a", "b", "c")
    assert found.without_facts == ("d",)
    assert [(pair.one, pair.other) for pair in found.pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    likenesses = {row.name: row.likeness for row in found.rows}
    assert likenesses["kernel release"] is Likeness.DIFFERENT
    assert likenesses["machine"] is Likeness.UNKNOWN
    assert likenesses["CPUs online"] is Likeness.EQUAL
    first, second, third = found.pairs
    assert first.different == ("kernel release",)
    assert {"machine", "CPUs online", "attachment"} <= set(first.same)
    assert second.different == ()
    assert "machine" in second.unknown
    assert "machine" not in second.same
    assert third.different == ("kernel release",)
    assert first.compared == 1 + len(first.same)
    assert sum(map(len, (first.different, first.same, first.unknown))) == len(found.rows)
    assert found.pair("b", "a") == found.pair("a", "b") == first
    assert found.pair("a", "a") is None
    assert PairCount("a", "b", ("x",), ("y", "z"), ("u",)).compared == 3


def test_what_varies_from_boot_to_boot_is_equal_to_nothing(boot: BootRecord) -> None:
    facts: list[dict[str, Any]] = [{"machine": "x", "uid": 0}, {"machine": "y", "uid": None}, {"machine": "x"}]
    boots = [boot.replace(platform="a", facts=Facts.from_json(own)) for own in facts]
    boots += [boot.replace(platform="a", facts=None), boot.replace(platform="b", facts=Facts(machine="x", uid=0))]
    found = equivalence(boots, ["a", "b"])
    assert told(found, "machine") == {"a": "varies: x / y", "b": "x"}
    assert told(found, "user") == {"a": "0", "b": "0"}, "what one boot did not tell, another did"
    assert told(found, "page size") == {"a": None, "b": None}
    unknown = equivalence([*boots[:2], boot.replace(platform="b", facts=Facts(uid=0))], ["a", "b"])
    assert "machine" in unknown.pairs[0].unknown, "of the other nothing is known"


def test_mismatches_are_told_once(boot: BootRecord) -> None:
    boots = [
        boot.replace(platform="b", facts=Facts(), mismatches=("less memory", "one CPU")),
        boot.replace(platform="b", facts=Facts(), mismatches=("less memory",)),
        boot.replace(platform="a", facts=Facts(), mismatches=("less memory",)),
    ]
    found = equivalence(boots, ["a", "b"])
    assert found.mismatches == (("b", "less memory"), ("b", "one CPU"), ("a", "less memory"))


def test_facts_in_words(boot: BootRecord) -> None:
    """`None` that was read is an answer for a few: no limit, no hypervisor; for others it is that nobody knows."""
    words = of_one(
        boot,
        agent_sha256="a1",
        files_count=7,
        cpus_online=2,
        scheduler_tickless="0-1",
        capabilities_hex=None,
        memory_total_bytes=2 * GIB,
        memory_limit_bytes=None,
        hypervisor=None,
        cmdline=None,
        modules_sha256=None,
        data_schedulers=None,
        cpu_quota={"quota_us": 150000, "period_us": 100000},
        pid=1,
        sysctls={"vm.swappiness": "60", "kernel.x": "0", "kernel.y": None},
    )
    assert words["attachment"] == "bridge"
    assert (words["agent"], words["number of the image's files"], words["CPUs online"]) == ("a1", "7", "2")
    assert words["CPUs without a tick"] == "0-1"
    assert words["capabilities"] is None
    assert (words["memory seen"], words["memory limit"], words["memory of the kernel"]) == ("2 GiB", "none", None)
    assert [words[name] for name in ("hypervisor", "kernel command line", "kernel modules")] == ["none"] * 3
    assert words["I/O schedulers of the data's disk"] == "none"
    assert words["CPU quota"] == "1.5"
    assert words["is process 1"] == "yes"
    assert words["security label"] is None
    assert of_one(boot, reach={"security_label": "crun (enforce)"})["security label"] == "crun (enforce)"
    assert words["machine"] is None
    assert (words["sysctl vm.swappiness"], words["sysctl kernel.x"], words["sysctl kernel.y"]) == ("60", "0", None)
    assert [name for name in words if name.startswith("sysctl")] == [
        "sysctl kernel.x",
        "sysctl kernel.y",
        "sysctl vm.swappiness",
    ]


def test_what_was_not_read_is_not_known(boot: BootRecord) -> None:
    words = of_one(boot, machine="x")
    for name in ("hypervisor", "kernel command line", "memory limit", "memory seen", "is process 1", "CPU flags"):
        assert words[name] is None, name
    assert "CPU quota" not in words
    assert of_one(boot, cpu_quota=None)["CPU quota"] == "none"
    assert of_one(boot, pid=17)["is process 1"] == "no"
    assert of_one(boot, memory_limit_bytes=None)["memory seen"] is None
    assert (words["interfaces"], words["MTU"], words["driver"]) == ("0", None, None)


def interface(name: str, mac: str | None, **more: Any) -> dict[str, Any]:
    return {"name": name, "mac": mac, "mtu": 1500, "driver": "veth", "speed_mbit": 10000, **more}


def test_the_guests_own_interfaces_count(boot: BootRecord) -> None:
    """Where it is known which those are; the loopback is none. The bare host sees those of the others too."""
    links = [
        interface("lo", "00", mtu=65536, driver=None),
        interface("eth0", "01", offloads={"tso": True, "gro": False}),
        interface("eth1", "02", mtu=9000, driver="virtio_net", speed_mbit=None, offloads={"tso": False}),
        interface("far", "09", driver="tun"),
    ]
    every = of_one(boot, interfaces=links)
    assert (every["interfaces"], every["MTU"], every["driver"]) == ("3", "1500, 9000", "tun, veth, virtio_net")
    requested = boot.requested or run_data(Truth(REALISTIC, blocks=2)).boots[0].requested
    assert isinstance(requested, Requested)
    own = boot.replace(requested=requested.replace(interface_macs=("01", "02")))
    words = of_one(own, interfaces=links)
    assert (words["interfaces"], words["MTU"], words["driver"]) == ("2", "1500, 9000", "veth, virtio_net")
    assert words["link speed, Mbit/s"] == "10000"
    assert (words["offload gro"], words["offload tso"]) == ("off", "off, on")
    assert [name for name in words if name.startswith("offload")] == ["offload gro", "offload tso"]
    none = boot.replace(requested=requested.replace(interface_macs=()))
    assert of_one(none, interfaces=links)["interfaces"] == "3"


def test_cpu_flags_are_told_as_the_difference_to_the_first_platforms(boot: BootRecord) -> None:
    """The baseline comes first in an analysis."""
    two, three, none = ({"cpu_flags": flags} for flags in (["x", "y"], ["z", "y", "w"], []))
    differences = {"a": "2 flags; + x; − w z", "b": "3 flags", "c": None}
    assert told(compared(boot, b=three, a=two, c=none), "CPU flags") == differences
    assert told(compared(boot, d=None, b=three, a=two, c=none), "CPU flags") == differences, "of the first with facts"
    assert told(compared(boot, c=none, a=two), "CPU flags") == {"c": None, "a": "2 flags; + x y"}, "the first told none"
    assert equivalence([], ["a"]) == Equivalence((), (), (), ("a",), ())
