"""Entries of platforms and workloads: factors expand, and a refusal names the key and what is allowed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support import experiments
from tests.support.facts import Command, Fact
from tests.support.refused_experiments import (
    QEMU,
    assert_refused,
    of_file,
    of_forwarding,
    of_machine,
    of_platform,
    of_workload,
)

from virtoll.platforms import PLATFORMS

NICS = ("virtio-net", "e1000", "rtl8139", "vmxnet3")
LIST = "rates_mbit_per_second"
LABEL = ("'.'", "'_'", "'-'", 63)  # what a label may have, and its length

PLATFORM_KEYS = [
    of_file("platforms[0].platform", "nativ", "'native'", Command("virtoll list platforms"), platforms=["nativ"]),
    of_machine("bus", "attachment", "clocksource", "nic", "disk", "channel", "isolation", bus="ide"),
    of_machine("nic", "tulip", *NICS, nic="tulip"),
    of_machine("nic", "ne2k", *NICS, nic=["e1000", "ne2k"]),
    of_machine("nic", "list", nic=[]),
    of_machine("disk", "nvme", "microvm", "PCI", "virtio-blk", machine="microvm", disk="nvme"),
    of_machine("disk", "ide", "microvm", "IDE", "virtio-blk", machine="microvm", disk=["virtio-blk", "ide"]),
    of_machine("nic", "e1000", "microvm", "PCI", "virtio-net", machine="microvm", nic="e1000"),
    of_machine("channel", "serial", "microvm", "virtio-serial", machine="microvm", channel="serial"),
    of_machine("disk", "ide", "virt", "IDE", "virtio-blk", "nvme", machine="virt", disk="ide"),
    of_machine("disk", "ide", "q35", "IDE", "pc", "virtio-blk", "ahci", "nvme", machine="q35", disk="ide"),
    of_machine("data_disk", "ahci", "pc", "q35", "virtio-blk", "ide", "nvme", machine="pc", data_disk="ahci"),
    of_machine("data_disk", "nvme", "microvm", "PCI", "virtio-blk", machine="microvm", data_disk="nvme"),
    of_machine("channel", "serial", "virt", "virtio-serial", machine="virt", channel="serial"),
    of_machine("vhost", "nic: virtio-net", nic="e1000", vhost=True),
    of_machine("queues", "nic: virtio-net", nic="e1000", queues=2),
    of_machine("queues", "microvm", machine="microvm", queues=2),
    of_machine("queues", "attachment: bridge", attachment="routed", queues=2),
    of_machine("root", "disk: virtio-blk", "'root'", root="disk"),
    of_machine("cache", "disk: virtio-blk", "'cache'", cache="none"),
    of_platform("xen", "attachment", "macvtap", "bridge", "routed", "passthrough", attachment="macvtap"),
    of_platform("openvz", "attachment", "venet", "runc", "netns", attachment="routed"),
    of_platform("netns", "attachment", "ipvlan", "bridge", "routed", "macvtap", "passthrough", attachment="ipvlan"),
    of_platform("runc", "cpu_max", 0, 0.01, 1024, cpu_max=0),
    of_platform("runc", "cpu_max", "half", "number", cpu_max="half"),
    of_platform("runc", "cpu_weight", 0, 1, "10 000", cpu_weight=0),
    of_platform("runc", "cpu_weight", 10_001, "10 000", cpu_weight=10_001),
    of_platform("runc", "memory_max", "1MiB", "16MiB", memory_max="1MiB"),
    of_platform("runc", "io_max", "fast", "256MiB", "4KiB", io_max="fast"),
    of_platform("netns", "guest", 2, "mapping", "vcpus", "memory", guest=2),
    of_platform("netns", "guest.marks", "vcpus", "memory", guest={"marks": "channel"}),
    of_platform("netns", "guest.memory", "1MiB", "64MiB", guest={"memory": "1MiB"}),
    of_platform("netns", "label", "../../etc", *LABEL, label="../../etc"),
    of_platform("netns", "label", 5, *LABEL, label=5),
    of_platform("netns", "label", "constructor", "figure", "label", label="constructor"),
    of_platform("netns", "", "native", "'label'", label="native"),
    of_platform("native", "", "native", "'label'"),
    of_file(
        "platforms[0].attachment",
        *("cpu_max", "cpu_weight", "memory_max", "io_max"),
        platforms=[{"platform": "native", "attachment": "routed"}],
    ),
    of_file("platforms[1].platform", *PLATFORMS, platforms=["native", {"nic": "e1000"}]),
    of_file("platforms[1]", 5, "name", "mapping", platforms=["native", 5]),
    of_file("platforms", "native", "list", platforms="native"),
    of_file("platforms", 0, 1, platforms=[]),
]
WORKLOAD_KEYS = [
    of_workload("pi", "workload", "pi", "superpi", Command("virtoll list workloads")),
    of_workload("superpi", "digit", "'digits'", digit=10),
    of_workload("superpi", "digits", "all", 10, "16 777 216", digits="all"),
    of_workload("superpi", "digits", 5, 10, digits=5),
    of_workload("masr", "size_bytes", 5000, "4KiB", size_bytes=5000),
    of_forwarding("frame_size_bytes", 63, 64, 1518, frame_size_bytes=[64, 63]),
    of_forwarding("sources", 4, 1, 3, sources=4),
    of_forwarding("egress", "both", "one", "each", sources=2, egress="both"),
    of_forwarding(LIST, 10, "list", "Mbit/s", sweep="rates", rates_mbit_per_second=10),
    of_forwarding(LIST, "ascend", sweep="rates", rates_mbit_per_second=[100, 10]),
    of_forwarding(LIST, "ascend", "once", sweep="rates", rates_mbit_per_second=[10, 10]),
    of_forwarding(LIST, 0, "1000000 Mbit/s", sweep="rates", rates_mbit_per_second=[0, 10]),
    of_forwarding(LIST, 33, 32, sweep="rates", rates_mbit_per_second=[*range(1, 34)]),
    of_forwarding(LIST, "list", sweep="rates", rates_mbit_per_second=[]),
    of_forwarding("", LIST, "sweep: rates", rates_mbit_per_second=[10, 100]),
    of_forwarding("", "'rates'", LIST, sweep="rates"),
    of_forwarding(
        "", "stop_below_share", "sweep: rising", sweep="rates", rates_mbit_per_second=[10, 100], stop_below_share=0.5
    ),
    of_file("workloads[0]", "superpi", "name", "mapping", workloads=[["superpi"]]),
    of_file(
        "workloads[1]",
        *("workloads[0]", "superpi", "digits 16384"),
        workloads=["superpi", {"workload": "superpi", "digits": 16384}],
    ),
]


@pytest.mark.parametrize(("changed", "key", "facts"), [*PLATFORM_KEYS, *WORKLOAD_KEYS])
def test_a_refused_entry_is_named_with_what_is_allowed(
    changed: dict[str, Any], key: str, facts: tuple[Fact, ...]
) -> None:
    assert_refused(changed, key, *facts)


def test_factors_expand_in_the_order_given() -> None:
    experiment = experiments.parsed(
        platforms=["native", QEMU | {"nic": ["virtio-net", "e1000"], "channel": ["serial"]}],
        workloads=[{"workload": "forward", "frame_size_bytes": [64, 1500], "sources": [1, 3]}],
    )
    labels = [choice.label for choice in experiment.platforms]
    assert labels == ["native", "qemu-tcg-virtio-net-serial", "qemu-tcg-e1000-serial"]
    switched = experiments.parsed(platforms=["native", {"platform": "qemu-kvm", "vhost": [False, "on"]}])
    assert [choice.label for choice in switched.platforms] == ["native", "qemu-kvm-off", "qemu-kvm-on"]
    parameters = [workload.parameters.model_dump() for workload in experiment.workloads]
    sizes = [(one["frame_size_bytes"], one["sources"]) for one in parameters]
    assert sizes == [(64, 1), (64, 3), (1500, 1), (1500, 3)]


def test_a_list_of_rates_is_one_value_and_no_factor() -> None:
    swept = {"workload": "forward", "sweep": "rates", LIST: [10, 100], "frame_size_bytes": [68, 504]}
    parameters = [one.parameters.model_dump(mode="json") for one in experiments.parsed(workloads=[swept]).workloads]
    assert [(one["frame_size_bytes"], one[LIST]) for one in parameters] == [(68, [10, 100]), (504, [10, 100])]


def test_a_platforms_guests_can_have_a_size_of_their_own() -> None:
    sizes = {"vcpus": [1, 4], "memory": ["512MiB", "1536MiB"]}
    experiment = experiments.parsed(
        platforms=["native", QEMU | {"nic": "e1000", "guest": sizes}, {"platform": "netns", "guest": {}}],
        guest={"vcpus": 2, "memory": "256MiB"},
    )
    assert {choice.label: experiment.size_of(choice) for choice in experiment.platforms} == {
        "native": (2, 256 * 2**20),
        "qemu-tcg-e1000-1vcpu-512mib": (1, 512 * 2**20),
        "qemu-tcg-e1000-1vcpu-1536mib": (1, 1536 * 2**20),
        "qemu-tcg-e1000-4vcpus-512mib": (4, 512 * 2**20),
        "qemu-tcg-e1000-4vcpus-1536mib": (4, 1536 * 2**20),
        "netns": (2, 256 * 2**20),
    }
    assert experiment.most_vcpus == 4
