"""ESXi's parameters, the kernel's command line and the data disk's descriptor: by no host."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.support import experiments
from tests.support.esxi import CABLES
from tests.support.facts import assert_facts

from virtoll.lab.data import disk_bytes
from virtoll.platforms.esxi.data_disk import EXTENT_FILE, MEDIUM
from virtoll.platforms.esxi.parameters import EsxiParameters
from virtoll.platforms.esxi.serial import open_line, taken_ports
from virtoll.platforms.esxi.specs import kernel_line

ON_SR1 = "virtoll.root=/dev/sr1 virtoll.disktype=erofs"
GIVEN = {
    "server": "esxi.example.org",
    "user": "root",
    "password_from": "env:PASSWORD",
    "datastore": "store",
    "uplinks": list(CABLES),
}


def given(**changed: Any) -> dict[str, Any]:
    """An experiment's entry that is right, with keys replaced or taken out."""
    return {key: value for key, value in {**GIVEN, **changed}.items() if value is not None}


@pytest.mark.parametrize(
    ("root", "data", "words"),
    [
        (False, False, "virtoll.channel=/dev/ttyS1"),
        (True, False, f"virtoll.modules=sr_mod,ata_piix,erofs {ON_SR1}"),
        (False, True, "virtoll.modules=ahci,ext4 virtoll.data=/dev/sda"),
        (True, True, f"virtoll.modules=sr_mod,ata_piix,erofs,ahci,ext4 {ON_SR1} virtoll.data=/dev/sda"),
    ],
)
def test_the_kernels_line_names_the_drives(root: bool, data: bool, words: str) -> None:
    assert kernel_line(EsxiParameters(), root=root, data=data).endswith(f" {words}")


def test_a_data_disk_is_a_flat_vmdk_of_a_whole_number_of_sectors() -> None:
    text = MEDIUM.descriptor(2**30)
    assert 'createType="vmfs"' in text
    assert f'RW {2**21} VMFS "{EXTENT_FILE}"\n' in text
    assert 'ddb.adapterType = "lsilogic"' in text
    assert 'ddb.geometry.cylinders = "130"' in text
    assert disk_bytes(3 * 2**30 + 1) % 2**20 == 0


def test_a_label_says_what_it_is_and_not_where() -> None:
    entry = given(nic=["vmxnet3", "e1000e"], verify="on", thumbprint=":".join(["AB"] * 20))
    asked = experiments.parsed(platforms=[{"platform": "esxi", **entry}], baseline="esxi-vmxnet3")
    assert [one.label for one in asked.platforms] == ["esxi-vmxnet3", "esxi-e1000e"]


@pytest.mark.parametrize(
    ("changed", "fact"),
    [
        ({"latency_sensitivity": "high"}, "memory_reservation: full"),
        ({"port_groups": ["a", "b", "c"]}, "'uplinks'"),
        ({"uplinks": None}, "'uplinks'"),
        ({"uplinks": ["vmnic1", "vmnic1", "vmnic2"]}, "vmnic1"),
        ({"serial": "call"}, "'callback'"),
        ({"password_from": "secret"}, "password_from"),
        ({"datastore": None}, "'datastore'"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(changed: dict[str, Any], fact: str) -> None:
    with pytest.raises(ValidationError) as raised:
        EsxiParameters.model_validate(given(**changed))
    assert_facts(str(raised.value), fact)


def test_each_machine_is_heard_at_a_port_of_its_own() -> None:
    taken = taken_ports(["tcp://:20000", "telnet://192.0.2.1:20001", "odd"])
    assert taken == {20000, 20001}
    line = open_line(EsxiParameters.model_validate(given(server="127.0.0.1")), "one", taken).line
    assert (line.uri, line.listens, line.host) == ("tcp://:20002", True, "127.0.0.1")
