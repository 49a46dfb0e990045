"""Testbeds, attachments and hosts of an experiment: what is understood, and what is refused with the key at fault."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support import experiments
from tests.support.facts import Fact
from tests.support.refused_experiments import (
    DEVICES,
    FAR,
    QEMU,
    SECOND,
    SEVERAL,
    TESTBED,
    assert_refused,
    of_file,
    of_forwarding,
    of_machine,
)

from virtoll.experiment.topology import FUNCTIONAL_ONLY

LOCAL = [{"host": "local", "interfaces": [f"eth{number}"]} for number in (1, 2, 3)]
GUESTS_ELSEWHERE = {
    "generator": LOCAL[:2],
    "sink": LOCAL[2],
    "hypervisor": FAR | {"interfaces": ["eth1", "eth2", "eth3"]},
}
TWO_SINK_NICS = {
    "generator": FAR | {"interfaces": ["eth1", "eth3", "eth4"]},
    "sink": FAR | {"interfaces": ["eth2", "eth5"]},
    "hypervisor": {"host": "local", "interfaces": [f"enp{number}s0" for number in range(5)]},
}
NESTED_KINDS = ("xen", "xen-hvm", "xen-pci", "kvm", "virtualbox")

REFUSED = [
    of_machine("host.nested", "hyper-v", *NESTED_KINDS, host="nested:hyper-v"),
    of_machine("host", "testbed.hypervisor", *NESTED_KINDS, host={"ssh": "box"}),
    of_file("platforms[1].host", "'testbed'", platforms=["native", QEMU | {"host": "nested:kvm"}], testbed=TESTBED),
    of_file(
        "platforms[1].attachment",
        *("routed", "'testbed'"),
        platforms=["native", {"platform": "netns", "attachment": ["bridge", "routed"]}],
        testbed=TESTBED,
    ),
    of_file("testbed", "generator", "list", testbed=GUESTS_ELSEWHERE),
    of_file("testbed", "sink", "list", testbed=TESTBED | {"sink": [TESTBED["sink"], LOCAL[2]]}),
    of_file("testbed", "hypervisor.interfaces", testbed=SEVERAL | {"hypervisor": TESTBED["hypervisor"]}),
    of_file(
        "testbed.generator[1].interfaces",
        "NICs",
        testbed=SEVERAL | {"generator": [FAR | {"interfaces": ["eth1"]}, {"host": SECOND}]},
    ),
    of_forwarding("sources", "3 sources", "testbed.generator.interfaces", 1, testbed=TESTBED, sources=[1, 3]),
    of_forwarding("directions", "testbed", "directions one", testbed=SEVERAL, directions="both"),
    of_forwarding(
        "egress",
        *("3 sources", "testbed.sink.interfaces", 2, "egress one"),
        testbed=TWO_SINK_NICS,
        sources=[1, 2, 3],
        egress="each",
    ),
    of_machine("vfio", "attachment: passthrough", "vfio: [PCI addresses]", attachment="passthrough"),
    of_file(
        "platforms[1].vfio", "attachment: passthrough", platforms=["native", QEMU | {"vfio": DEVICES}], testbed=TESTBED
    ),
    of_machine("vfio", "'testbed'", attachment="passthrough", vfio=DEVICES),
    of_machine("vfio[0]", "eth0", "0000:01:00.0", attachment="passthrough", vfio=["eth0"]),
]


@pytest.mark.parametrize(("changed", "key", "facts"), REFUSED)
def test_a_refused_topology_is_named_with_what_is_allowed(
    changed: dict[str, Any], key: str, facts: tuple[Fact, ...]
) -> None:
    assert_refused(changed, key, *facts)


def test_a_list_of_generators_has_a_host_a_source_and_an_agent_each() -> None:
    """The sink has its own agent, on a host that sends too."""
    testbed = experiments.parsed(testbed=SEVERAL, workloads=[{"workload": "forward", "sources": [1, 2]}]).testbed
    assert testbed is not None
    assert [(host.words, names) for host, names in testbed.far] == [
        ("ssh bench@peer", ("eth1",)),
        ("ssh bench@second", ("eth1",)),
        ("ssh bench@peer", ("eth2",)),
    ]
    assert testbed.moved == ("enp1s0", "enp2s0", "enp3s0")
    assert type(testbed).model_validate(testbed.model_dump(mode="json")) == testbed
    single = experiments.parsed(testbed={**TESTBED, "generator": [TESTBED["generator"]]}).testbed
    assert single == experiments.parsed(testbed=TESTBED).testbed


def test_a_list_of_sinks_has_as_many_nics_as_there_are_egress_links() -> None:
    listed = SEVERAL | {"sink": [SEVERAL["sink"], {"host": SECOND, "interfaces": ["eth2"]}]}
    listed["hypervisor"] = {"host": "local", "interfaces": [f"enp{number}s0" for number in range(4)]}
    workloads = [{"workload": "forward", "sources": 2, "egress": "each"}]
    testbed = experiments.parsed(testbed=listed, workloads=workloads).testbed
    assert testbed is not None
    assert [host.words for host, _ in testbed.far] == [f"ssh bench@{name}" for name in ("peer", "second") * 2]
    changed = {"testbed": SEVERAL, "workloads": workloads}
    assert_refused(changed, "workloads[0].egress", "2 sources", "testbed.sink.interfaces", 1)


def test_each_attachment_is_an_entry_and_devices_are_one_value() -> None:
    attachments = ["bridge", "routed", "macvtap", "passthrough"]
    experiment = experiments.parsed(
        platforms=[
            "native",
            {"platform": "netns", "attachment": attachments},
            QEMU | {"attachment": ["routed", "macvtap"]},
        ]
    )
    labels = [f"netns-{name}" for name in attachments] + ["qemu-tcg-routed", "qemu-tcg-macvtap"]
    assert [choice.label for choice in experiment.platforms] == ["native", *labels]
    machine = {"platform": "qemu-kvm", "attachment": "passthrough", "vfio": DEVICES}
    handed = experiments.parsed(platforms=["native", machine], testbed=TESTBED).platforms[1]
    assert handed.label == "qemu-kvm-passthrough-0000:01:00.0+0000:01:00.1"
    assert handed.parameters.model_dump()["vfio"] == tuple(DEVICES)


def test_a_nested_host_is_in_the_label_and_brands_the_platform() -> None:
    made = experiments.parsed(platforms=["native", QEMU, QEMU | {"host": "nested:kvm"}])
    assert [choice.label for choice in made.platforms] == ["native", "qemu-tcg", "qemu-tcg-nested"]
    host = made.platforms[2].host
    assert host is not None
    assert (host.nested, host.caveat) == ("kvm", FUNCTIONAL_ONLY)
    assert made.platforms[1].host is None
