"""The experiment file: each complaint names file, key and what is allowed; factors expand; nothing is started."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments
from tests.support.commands import virtoll

from virtoll.campaign.preview import catalogue
from virtoll.errors import UsageError
from virtoll.experiment.model import Catalogue, Image
from virtoll.experiment.parse import find_experiment, load_experiment, parse_experiment, presets
from virtoll.platforms import PLATFORMS

QEMU, FORWARD = {"platform": "qemu-tcg"}, {"workload": "forward"}
DEVICES = ["0000:01:00.0", "0000:01:00.1"]
_FAR: dict[str, Any] = {"host": {"ssh": "bench@peer"}}
TESTBED = {
    "generator": _FAR | {"interfaces": ["eth1"]},
    "sink": _FAR | {"interfaces": ["eth2"]},
    "hypervisor": {"host": "local", "interfaces": ["enp1s0", "enp2s0"]},
}
SEVERAL = {
    "generator": [_FAR | {"interfaces": ["eth1"]}, {"host": {"ssh": "bench@second"}, "interfaces": ["eth1"]}],
    "sink": _FAR | {"interfaces": ["eth2"]},
    "hypervisor": {"host": "local", "interfaces": ["enp1s0", "enp2s0", "enp3s0"]},
}


def swept(**changed: Any) -> dict[str, Any]:
    """What is changed of an experiment whose one workload sweeps so."""
    return {"workloads": [{"workload": "forward", **changed}]}


# What is wrong -> the key that is named -> words that say what is allowed.
COMPLAINTS: list[tuple[str, dict[str, Any], str, list[str]]] = [
    (
        "unknown platform",
        {"platforms": ["nativ"]},
        "platforms[0].platform",
        ["'nativ' is not known; did you mean 'native'? 'virtoll list platforms' shows all"],
    ),
    (
        "unknown workload",
        {"workloads": ["pi"]},
        "workloads[0].workload",
        ["'pi' is not known; did you mean 'superpi'?"],
    ),
    ("unknown key at the top", {"platform": "native"}, "platform", ["not known", "platforms", "workloads", "seed"]),
    (
        "unknown key of the guest",
        {"guest": {"cpus": 1}},
        "guest.cpus",
        ["not known; did you mean 'vcpus'? allowed keys: vcpus, memory"],
    ),
    (
        "unknown key of a platform",
        {"platforms": ["native", QEMU | {"bus": "ide"}]},
        "platforms[1].bus",
        [
            "not known; allowed keys: attachment, vfio, clocksource, io_scheduler, machine, nic, vhost",
            ", queues, disk, cache, root, filesystem",
        ],
    ),
    (
        "unknown key of a workload",
        {"workloads": [{"workload": "superpi", "digit": 10}]},
        "workloads[0].digit",
        ["not known; did you mean 'digits'? allowed keys: digits"],
    ),
    (
        "a value that is not allowed",
        {"platforms": ["native", QEMU | {"nic": "tulip"}]},
        "platforms[1].nic",
        ["'virtio-net', 'e1000', 'rtl8139' or 'vmxnet3'", "'tulip'"],
    ),
    (
        "one of a factor's values",
        {"platforms": ["native", QEMU | {"nic": ["e1000", "ne2k"]}]},
        "platforms[1].nic",
        ["'virtio-net', 'e1000', 'rtl8139' or 'vmxnet3'", "'ne2k'"],
    ),
    (
        "one rate and no list",
        swept(sweep="rates", rates_mbit_per_second=10),
        "workloads[0].rates_mbit_per_second",
        ["must be a list of rates in Mbit/s, such as [10, 100, 1000], got 10"],
    ),
    (
        "rates that do not ascend",
        swept(sweep="rates", rates_mbit_per_second=[100, 10]),
        "workloads[0].rates_mbit_per_second",
        ["must ascend, each of them once; sort them"],
    ),
    (
        "a rate twice",
        swept(sweep="rates", rates_mbit_per_second=[10, 10]),
        "workloads[0].rates_mbit_per_second",
        ["must ascend, each of them once"],
    ),
    (
        "a rate of nothing",
        swept(sweep="rates", rates_mbit_per_second=[0, 10]),
        "workloads[0].rates_mbit_per_second",
        ["rates are above 0 and at most 1000000 Mbit/s, got 0"],
    ),
    (
        "too many rates",
        swept(sweep="rates", rates_mbit_per_second=[*range(1, 34)]),
        "workloads[0].rates_mbit_per_second",
        ["there are 33 rates; give at most 32"],
    ),
    (
        "an empty list of rates",
        swept(sweep="rates", rates_mbit_per_second=[]),
        "workloads[0].rates_mbit_per_second",
        ["the list is empty"],
    ),
    (
        "a list for a sweep that has none",
        swept(rates_mbit_per_second=[10, 100]),
        "workloads[0]",
        ["rates_mbit_per_second is for another sweep; set sweep: rates, or leave the list out"],
    ),
    (
        "a sweep without its list",
        swept(sweep="rates"),
        "workloads[0]",
        ["the sweep 'rates' has no rates; add rates_mbit_per_second"],
    ),
    (
        "where a rising sweep ends, of a list",
        swept(sweep="rates", rates_mbit_per_second=[10, 100], stop_below_share=0.5),
        "workloads[0]",
        ["stop_below_share is for the other sweeps; leave it out, or set sweep: rising"],
    ),
    (
        "a disk that the machine has no bus for",
        {"platforms": ["native", QEMU | {"machine": "microvm", "disk": "nvme"}]},
        "platforms[1].disk",
        ["machine microvm has no PCI bus; allowed there", "virtio-blk", "'nvme'"],
    ),
    (
        "another one",
        {"platforms": ["native", QEMU | {"disk": ["virtio-blk", "ide"], "machine": "microvm"}]},
        "platforms[1].disk",
        ["machine microvm has no PCI bus", "'ide'"],
    ),
    (
        "a card that the machine has no bus for",
        {"platforms": ["native", QEMU | {"machine": "microvm", "nic": "e1000"}]},
        "platforms[1].nic",
        ["machine microvm has no PCI bus", "virtio-net"],
    ),
    (
        "a port that the machine has not",
        {"platforms": ["native", QEMU | {"machine": "microvm", "channel": "serial"}]},
        "platforms[1].channel",
        ["machine microvm has one serial port"],
    ),
    (
        "a controller that the machine has not",
        {"platforms": ["native", QEMU | {"machine": "virt", "disk": "ide"}]},
        "platforms[1].disk",
        ["machine virt has no IDE controller"],
    ),
    (
        "a second port of Arm's machine",
        {"platforms": ["native", QEMU | {"machine": "virt", "channel": "serial"}]},
        "platforms[1].channel",
        ["machine virt has one serial port", "virtio-serial"],
    ),
    (
        "vhost for a card that is emulated",
        {"platforms": ["native", QEMU | {"nic": "e1000", "vhost": True}]},
        "platforms[1].vhost",
        ["vhost is for nic: virtio-net alone"],
    ),
    (
        "several queues of a card that is emulated",
        {"platforms": ["native", QEMU | {"nic": "e1000", "queues": 2}]},
        "platforms[1].queues",
        ["queues is for nic: virtio-net alone"],
    ),
    (
        "several queues of a machine without a PCI bus",
        {"platforms": ["native", QEMU | {"machine": "microvm", "queues": 2}]},
        "platforms[1].queues",
        ["machine microvm"],
    ),
    (
        "several queues of a tap that is opened for the machine",
        {"platforms": ["native", QEMU | {"attachment": "routed", "queues": 2}]},
        "platforms[1].queues",
        ["attachment: bridge alone"],
    ),
    (
        "a root on no disk",
        {"platforms": ["native", QEMU | {"root": "disk"}]},
        "platforms[1].root",
        ["there is no disk; add 'disk: virtio-blk', or leave 'root' out"],
    ),
    (
        "a cache of no disk",
        {"platforms": ["native", QEMU | {"cache": "none"}]},
        "platforms[1].cache",
        ["there is no disk", "leave 'cache' out"],
    ),
    (
        "a host that there is not",
        {"platforms": ["native", QEMU | {"host": "nested:hyper-v"}]},
        "platforms[1].host.nested",
        ["'xen', 'xen-hvm', 'xen-pci', 'kvm' or 'virtualbox'", "'hyper-v'"],
    ),
    (
        "a host over SSH without a testbed",
        {"platforms": ["native", QEMU | {"host": {"ssh": "box"}}]},
        "platforms[1].host",
        ["a host over SSH is named in 'testbed.hypervisor'"],
    ),
    (
        "a nested host beside a testbed",
        {"platforms": ["native", QEMU | {"host": "nested:kvm"}], "testbed": TESTBED},
        "platforms[1].host",
        ["without a 'testbed'"],
    ),
    (
        "a way that Xen has not",
        {"platforms": ["native", {"platform": "xen", "attachment": "macvtap"}]},
        "platforms[1].attachment",
        ["allowed: bridge, routed, passthrough"],
    ),
    (
        "the device of OpenVZ that is no router's",
        {"platforms": ["native", {"platform": "openvz", "attachment": "routed"}]},
        "platforms[1].attachment",
        ["venet drops packets that are not of the container's own addresses", "runc or netns"],
    ),
    ("a factor without values", {"platforms": ["native", QEMU | {"nic": []}]}, "platforms[1].nic", ["at least one"]),
    ("unknown scenario", {"scenario": "beside"}, "scenario", ["dedicated", "neighbours"]),
    ("wrong type at the top", {"blocks": "many"}, "blocks", ["must be a whole number from 1 to 100 000, got 'many'"]),
    ("wrong type of a list", {"platforms": "native"}, "platforms", ["list", "'native'"]),
    ("wrong type of an entry", {"platforms": ["native", 5]}, "platforms[1]", ["a name or a mapping", "5"]),
    ("wrong type of a workload", {"workloads": [["superpi"]]}, "workloads[0]", ["a name or a mapping"]),
    ("wrong type of the guest", {"guest": 5}, "guest", ["mapping", "5"]),
    (
        "wrong type of a parameter",
        {"workloads": [{"workload": "superpi", "digits": "all"}]},
        "workloads[0].digits",
        ["a whole number from 10 to", "'all'"],
    ),
    *(
        (
            f"no limit: {key} {value}",
            {"platforms": ["native", {"platform": "runc", key: value}]},
            f"platforms[1].{key}",
            [allowed, str(value)],
        )
        for key, value, allowed in (
            ("cpu_max", 0, "from 0.01 to 1024"),
            ("cpu_max", "half", "number"),
            ("cpu_weight", 0, "from 1 to 10 000"),
            ("cpu_weight", 10_001, "from 1 to 10 000"),
            ("memory_max", "1MiB", "of at least 16MiB"),
            ("io_max", "fast", "a size such as 256MiB of at least 4KiB"),
        )
    ),
    (
        "a control that is not as the host is",
        {"platforms": ["native", {"platform": "native-again", "label": "native-again", "memory_max": "2GiB"}]},
        "platforms",
        ["native-again is the A/A control of native and is not given the same", "give both the same keys"],
    ),
    ("too few blocks", {"blocks": 0}, "blocks", ["from 1 to 100 000", "0"]),
    ("too many blocks", {"blocks": 100_001}, "blocks", ["from 1 to 100 000"]),
    ("negative seed", {"seed": -1}, "seed", ["of at least 0"]),
    ("no virtual CPU", {"guest": {"vcpus": 0}}, "guest.vcpus", ["from 1 to 1024"]),
    ("too little memory", {"guest": {"memory": "1MiB"}}, "guest.memory", ["of at least 64MiB"]),
    ("no size", {"guest": {"memory": "lots"}}, "guest.memory", ["a size such as 256MiB", "'lots'"]),
    ("too few digits", {"workloads": [{"workload": "superpi", "digits": 5}]}, "workloads[0].digits", ["10"]),
    (
        "too small a frame",
        {"workloads": [FORWARD | {"frame_size_bytes": [64, 63]}]},
        "workloads[0].frame_size_bytes",
        ["from 64 to", "63"],
    ),
    ("too many sources", {"workloads": [FORWARD | {"sources": 4}]}, "workloads[0].sources", ["3"]),
    (
        "not a multiple",
        {"workloads": [{"workload": "masr", "size_bytes": 5000}]},
        "workloads[0].size_bytes",
        ["a multiple of 4KiB"],
    ),
    ("empty platforms", {"platforms": []}, "platforms", ["at least 1"]),
    (
        "an entry without its name",
        {"platforms": ["native", {"nic": "e1000"}]},
        "platforms[1].platform",
        ["'platform' is missing", *PLATFORMS],
    ),
    (
        "the same platform twice",
        {"platforms": ["native", "native"]},
        "platforms[1]",
        ["'native' is there twice", "label"],
    ),
    (
        "a guest of its own that is no mapping",
        {"platforms": ["native", {"platform": "netns", "guest": 2}]},
        "platforms[1].guest",
        ["2 is no mapping", "vcpus, memory"],
    ),
    (
        "a key that a guest of its own has not",
        {"platforms": ["native", {"platform": "netns", "guest": {"marks": "channel"}}]},
        "platforms[1].guest.marks",
        ["vcpus", "memory"],
    ),
    (
        "a guest of its own that is too small",
        {"platforms": ["native", {"platform": "netns", "guest": {"memory": "1MiB"}}]},
        "platforms[1].guest.memory",
        ["of at least 64MiB"],
    ),
    (
        "a guest of its own beside others",
        {
            "platforms": ["native", {"platform": "netns", "guest": {"vcpus": 2}}],
            "scenario": "neighbours",
            "neighbours": ["idle"],
        },
        "platforms[1].guest",
        ["scenario neighbours has its own"],
    ),
    (
        "the same label twice",
        {"platforms": ["native", {"platform": "netns", "label": "native"}]},
        "platforms[1]",
        ["'native' is there twice"],
    ),
    (
        "the same workload twice",
        {"workloads": ["superpi", {"workload": "superpi", "digits": 16384}]},
        "workloads[1]",
        ["repeats a trial of workloads[0]: superpi, digits 16384; remove one"],
    ),
    ("baseline not listed", {"baseline": "runc"}, "baseline", ["'runc'", "allowed: native, netns"]),
    ("control not listed", {"control": "native-again"}, "control", ["'native-again'", "allowed: native, netns"]),
    ("control is the baseline", {"control": "native"}, "control", ["the baseline itself", "allowed: netns"]),
    ("a name that is no label", {"name": "Bad Name"}, "name", ["small letters, digits", "'Bad Name'"]),
    (
        "a label that is a path",
        {"platforms": ["native", {"platform": "netns", "label": "../../etc"}]},
        "platforms[1].label",
        ["'../../etc'", "small letters"],
    ),
    (
        "a label that is a number",
        {"platforms": ["native", {"platform": "netns", "label": 5}]},
        "platforms[1].label",
        ["5 is not a label"],
    ),
    (
        "a label with which Vega draws nothing",
        {"platforms": ["native", {"platform": "netns", "label": "constructor"}]},
        "platforms[1].label",
        ["'constructor'", "give another label"],
    ),
    (
        "an attachment that is none",
        {"platforms": ["native", {"platform": "netns", "attachment": "ipvlan"}]},
        "platforms[1].attachment",
        ["'bridge', 'routed', 'macvtap' or 'passthrough'", "'ipvlan'"],
    ),
    (
        "an attachment of the host",
        {"platforms": [{"platform": "native", "attachment": "routed"}]},
        "platforms[0].attachment",
        ["not known"],
    ),
    (
        "an attachment on a testbed",
        {"platforms": ["native", {"platform": "netns", "attachment": ["bridge", "routed"]}], "testbed": TESTBED},
        "platforms[1].attachment",
        ["routed does not go with a 'testbed' yet"],
    ),
    (
        "more sources than NICs",
        {"testbed": TESTBED, "workloads": [{"workload": "forward", "sources": [1, 3]}]},
        "workloads[0].sources",
        ["3 sources need as many NICs, and 'testbed.generator.interfaces' has 1", "use fewer sources"],
    ),
    (
        "a list of generators for guests elsewhere",
        {
            "testbed": {
                "generator": [{"host": "local", "interfaces": ["eth1"]}, {"host": "local", "interfaces": ["eth2"]}],
                "sink": {"host": "local", "interfaces": ["eth3"]},
                "hypervisor": _FAR | {"interfaces": ["eth1", "eth2", "eth3"]},
            }
        },
        "testbed",
        ["generator: a list is of hosts that are not this one, for guests on this machine"],
    ),
    (
        "a list of sinks of which one is here",
        {"testbed": TESTBED | {"sink": [TESTBED["sink"], {"host": "local", "interfaces": ["eth3"]}]}},
        "testbed",
        ["sink: a list is of hosts that are not this one, for guests on this machine"],
    ),
    (
        "NICs of a list of generators that nothing faces",
        {"testbed": SEVERAL | {"hypervisor": TESTBED["hypervisor"]}},
        "testbed",
        ["one that faces each of the generator's"],
    ),
    (
        "a role in a list of generators that is none",
        {"testbed": SEVERAL | {"generator": [_FAR | {"interfaces": ["eth1"]}, {"host": {"ssh": "bench@second"}}]}},
        "testbed.generator[1].interfaces",
        ["its NICs by name, in order"],
    ),
    (
        "both directions from a list of generators",
        {"testbed": SEVERAL, "workloads": [{"workload": "forward", "directions": "both"}]},
        "workloads[0].directions",
        ["'testbed' has them on several"],
    ),
    (
        "more egress links than NICs",
        {
            "testbed": {
                "generator": _FAR | {"interfaces": ["eth1", "eth3", "eth4"]},
                "sink": _FAR | {"interfaces": ["eth2", "eth5"]},
                "hypervisor": {"host": "local", "interfaces": [f"enp{number}s0" for number in range(5)]},
            },
            "workloads": [{"workload": "forward", "sources": [1, 2, 3], "egress": "each"}],
        },
        "workloads[0].egress",
        ["3 sources with an egress link each need as many NICs, and 'testbed.sink.interfaces' has 2", "egress one"],
    ),
    (
        "an egress that is none",
        {"workloads": [{"workload": "forward", "sources": 2, "egress": "both"}]},
        "workloads[0].egress",
        ["'one' or 'each'", "'both'"],
    ),
    (
        "a machine's passthrough of nothing",
        {"platforms": ["native", QEMU | {"attachment": "passthrough"}]},
        "platforms[1].vfio",
        ["needs 'vfio: [PCI addresses]'"],
    ),
    (
        "devices without passthrough",
        {"platforms": ["native", QEMU | {"vfio": DEVICES}], "testbed": TESTBED},
        "platforms[1].vfio",
        ["'attachment: passthrough'"],
    ),
    (
        "devices without a far side",
        {"platforms": ["native", QEMU | {"attachment": "passthrough", "vfio": DEVICES}]},
        "platforms[1].vfio",
        ["add the section 'testbed'"],
    ),
    ("a margin of everything", {"margin": 0.6}, "margin", ["from 0.01 to 0.5"]),
    ("a margin of next to nothing", {"margin": 0.005}, "margin", ["from 0.01 to 0.5"]),
    (
        "a device that is no address",
        {"platforms": ["native", QEMU | {"attachment": "passthrough", "vfio": ["eth0"]}]},
        "platforms[1].vfio[0]",
        ["a PCI address such as 0000:01:00.0", "'eth0'"],
    ),
]


@pytest.mark.parametrize(("changed", "key", "words"), [case[1:] for case in COMPLAINTS], ids=[c[0] for c in COMPLAINTS])
def test_a_complaint_names_file_key_and_what_is_allowed(changed: dict[str, Any], key: str, words: list[str]) -> None:
    with pytest.raises(UsageError) as raised:
        experiments.parsed(**changed)
    message = str(raised.value)
    assert message.removeprefix(f"{experiments.FILE}: ").removeprefix("missing ").startswith(f"key '{key}': ")
    for word in words:
        assert word in message
    assert "\n" not in message
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "a mapping"),
        ("- a\n", "a mapping"),
        ("5\n", "a mapping"),
        ("a: [\n", "line 1: not valid YAML: the file ends where"),
        ("name: !!int word\n", "line 1: 'word' is read as int, and is none"),
        ("a: b: c", "YAML"),
    ],
)
def test_what_is_not_a_yaml_mapping_is_one_sentence(text: str, word: str) -> None:
    with pytest.raises(UsageError, match=word) as raised:
        parse_experiment(text, experiments.FILE, catalogue())
    assert str(raised.value).startswith(f"{experiments.FILE}: ")
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_text_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read"):
        load_experiment(path, catalogue())


def test_an_unknown_experiment_names_those_that_there_are() -> None:
    with pytest.raises(UsageError, match=r"'nothing-alike' is not known; choose one of: .*models.*quick"):
        find_experiment("nothing-alike")
    with pytest.raises(UsageError, match=r"'quik' is not known; did you mean 'quick'\? 'virtoll list experiments'"):
        find_experiment("quik")
    with pytest.raises(UsageError, match=r"no/such\.yaml: no such file"):
        find_experiment("no/such.yaml")


@pytest.mark.parametrize("path", sorted(presets().glob("*.yaml")), ids=lambda path: path.stem)
def test_the_experiments_that_come_with_virtoll_are_right(path: Path) -> None:
    experiment = load_experiment(find_experiment(path.stem), catalogue())
    assert experiment.name == path.stem
    assert experiment.control is not None
    assert experiment.text == path.read_text(encoding="utf-8")


def test_a_list_of_generators_has_a_host_a_source_and_an_agent_each() -> None:
    """The sink has one of its own too, also on a host that sends."""
    testbed = experiments.parsed(testbed=SEVERAL, workloads=[{"workload": "forward", "sources": [1, 2]}]).testbed
    assert testbed is not None
    assert [(host.words, names) for host, names in testbed.far] == [
        ("ssh bench@peer", ("eth1",)),
        ("ssh bench@second", ("eth1",)),
        ("ssh bench@peer", ("eth2",)),
    ]
    assert testbed.moved == ("enp1s0", "enp2s0", "enp3s0")
    assert type(testbed).model_validate(testbed.model_dump(mode="json")) == testbed
    one = experiments.parsed(testbed={**TESTBED, "generator": [TESTBED["generator"]]}).testbed
    assert one == experiments.parsed(testbed=TESTBED).testbed


def test_sinks_may_be_a_list_too() -> None:
    """As many NICs of theirs as there are egress links."""
    second = {"host": {"ssh": "bench@second"}, "interfaces": ["eth2"]}
    listed = SEVERAL | {"sink": [SEVERAL["sink"], second]}
    listed["hypervisor"] = {"host": "local", "interfaces": [f"enp{number}s0" for number in range(4)]}
    workload = {"workload": "forward", "sources": 2, "egress": "each"}
    testbed = experiments.parsed(testbed=listed, workloads=[workload]).testbed
    assert testbed is not None
    assert [host.words for host, _ in testbed.far] == [f"ssh bench@{name}" for name in ("peer", "second") * 2]
    with pytest.raises(UsageError, match=r"'testbed\.sink\.interfaces' has 1"):
        experiments.parsed(testbed=SEVERAL, workloads=[workload])


def test_factors_expand_in_the_order_given() -> None:
    experiment = experiments.parsed(
        platforms=["native", {"platform": "qemu-tcg", "nic": ["virtio-net", "e1000"], "channel": ["serial"]}],
        workloads=[{"workload": "forward", "frame_size_bytes": [64, 1500], "sources": [1, 3]}],
    )
    assert [choice.label for choice in experiment.platforms] == [
        "native",
        "qemu-tcg-virtio-net-serial",
        "qemu-tcg-e1000-serial",
    ]
    switched = experiments.parsed(platforms=["native", {"platform": "qemu-kvm", "vhost": [False, "on"]}])
    assert [choice.label for choice in switched.platforms] == ["native", "qemu-kvm-off", "qemu-kvm-on"]
    sizes = [
        (w.parameters.model_dump()["frame_size_bytes"], w.parameters.model_dump()["sources"])
        for w in experiment.workloads
    ]
    assert sizes == [(64, 1), (64, 3), (1500, 1), (1500, 3)]


def test_each_attachment_is_an_entry_and_devices_are_one_value() -> None:
    attachments = ["bridge", "routed", "macvtap", "passthrough"]
    experiment = experiments.parsed(
        platforms=[
            "native",
            {"platform": "netns", "attachment": attachments},
            {"platform": "qemu-tcg", "attachment": ["routed", "macvtap"]},
        ],
    )
    labels = [f"netns-{one}" for one in attachments] + ["qemu-tcg-routed", "qemu-tcg-macvtap"]
    assert [choice.label for choice in experiment.platforms] == ["native", *labels]
    machine = {"platform": "qemu-kvm", "attachment": "passthrough", "vfio": DEVICES}
    handed = experiments.parsed(platforms=["native", machine], testbed=TESTBED).platforms[1]
    assert handed.label == "qemu-kvm-passthrough-0000:01:00.0+0000:01:00.1"
    assert handed.parameters.model_dump()["vfio"] == tuple(DEVICES)


def test_a_platforms_guests_can_have_a_size_of_their_own() -> None:
    own = {"vcpus": [1, 4], "memory": ["512MiB", "1536MiB"]}
    experiment = experiments.parsed(
        platforms=[
            "native",
            {"platform": "qemu-tcg", "nic": "e1000", "guest": own},
            {"platform": "netns", "guest": {}},
        ],
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


def test_a_list_of_rates_is_one_value_and_no_factor() -> None:
    found = experiments.parsed(**swept(sweep="rates", rates_mbit_per_second=[10, 100], frame_size_bytes=[68, 504]))
    dumped = [one.parameters.model_dump(mode="json") for one in found.workloads]
    assert [(one["frame_size_bytes"], one["rates_mbit_per_second"]) for one in dumped] == [
        (68, [10, 100]),
        (504, [10, 100]),
    ]


def test_the_control_is_found_by_what_it_controls() -> None:
    assert experiments.parsed(platforms=["native", "native-again"]).control == "native-again"
    assert experiments.parsed(platforms=["netns", "native-again"], baseline="netns").control is None
    held = [{"platform": name, "label": name, "memory_max": "2GiB"} for name in ("native", "native-again")]
    assert experiments.parsed(platforms=held).control == "native-again"
    assert experiments.parsed(platforms=["native", held[1]], control="native-again").control == "native-again"
    assert experiments.parsed(platforms=["native", "netns"], control="netns").control == "netns"


def test_sizes_may_have_units() -> None:
    assert experiments.parsed(guest={"memory": "256MiB"}).memory_bytes == 256 * 2**20


def needing(image: Image) -> Catalogue:
    """A catalogue whose superpi needs an image, and all others none."""
    known = catalogue()
    return replace(known, images={name: image if name == "superpi" else "tiny" for name in known.workloads})


def test_the_image_is_what_was_asked_for_or_what_the_workloads_need() -> None:
    assert experiments.parsed().image == "tiny"
    assert experiments.parsed(guest={"image": "full"}).image == "full"
    needy = needing("full")
    other, tools = {"workload": "forkwait"}, {"workload": "superpi", "digits": [10, 20]}
    assert experiments.parsed(needy, workloads=[other]).image == "tiny"
    assert experiments.parsed(needy, workloads=[other, "superpi"]).image == "full"
    assert experiments.parsed(needy, workloads=[other, tools]).image == "full"
    with pytest.raises(UsageError, match=r"key 'guest.image': 'tiny' holds the agent alone, and the workload superpi"):
        experiments.parsed(needy, workloads=["superpi"], guest={"image": "tiny"})


def test_what_is_not_free_software_must_be_asked_for() -> None:
    needy = needing("full-non-free")
    with pytest.raises(
        UsageError, match=r"superpi runs a program that Debian does not call free software; .*full-non-free"
    ):
        experiments.parsed(needy, workloads=["forkwait", "superpi"])
    with pytest.raises(
        UsageError, match=r"'full' holds free software alone, .* image full-non-free; allowed: full-non-free$"
    ):
        experiments.parsed(needy, workloads=["superpi"], guest={"image": "full"})
    assert experiments.parsed(needy, workloads=["superpi"], guest={"image": "full-non-free"}).image == "full-non-free"
    assert experiments.parsed(needy, workloads=["forkwait"]).image == "tiny"


@pytest.mark.parametrize(
    ("command", "changed", "key"),
    [
        ("run", {"blocks": 0}, "blocks"),
        ("plan", {"blocks": 0}, "blocks"),
        ("run", {"workloads": [{"workload": "ipc-bandwidth", "size_bytes": "32KiB"}]}, "workloads[0]"),
        ("plan", {"workloads": [{"workload": "ipc-bandwidth", "chunk_bytes": 0}]}, "workloads[0].chunk_bytes"),
    ],
)
def test_the_command_line_exits_with_2_and_makes_nothing(
    tmp_path: Path, command: str, changed: dict[str, Any], key: str
) -> None:
    file = experiments.write(tmp_path, **changed)
    finished = virtoll(command, file, runs=tmp_path / "runs")
    assert finished.returncode == 2
    first, line, caret = finished.stderr.splitlines()
    assert re.match(rf"{re.escape(str(file))}:\d+:\d+: key '{re.escape(key)}': ", first), first
    assert re.match(r" *\d+ \| .", line)
    assert re.fullmatch(r" +\| +\^+", caret)
    assert finished.stdout == ""
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("command", ["run", "plan"])
def test_an_unknown_experiment_exits_with_2(tmp_path: Path, command: str) -> None:
    finished = virtoll(command, "quik", runs=tmp_path / "runs")
    assert finished.returncode == 2
    assert "experiment 'quik' is not known; did you mean 'quick'? " in finished.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_nested_host_is_in_the_label_and_brands_the_platform() -> None:
    made = experiments.parsed(platforms=["native", QEMU, QEMU | {"host": "nested:kvm"}])
    assert [choice.label for choice in made.platforms] == ["native", "qemu-tcg", "qemu-tcg-nested"]
    host = made.platforms[2].host
    assert host is not None
    assert (host.words, host.caveat) == ("nested kvm", "nested: functional only")
    assert made.platforms[1].host is None
