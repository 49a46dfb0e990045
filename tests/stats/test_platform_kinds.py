"""Of which family a platform's guests are, and of which kind their network interface: by the record, not the driver."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.made_up_run import Made, made_up_run

from virtoll.stats.sides import family_of, nic_kind


@pytest.mark.parametrize(
    ("platform", "parameters", "family", "nic"),
    [
        ("runc", {}, "os-level", None),
        ("runsc", {}, "application kernel", None),
        ("uml", {}, "user-mode kernel", None),
        ("qemu-kvm", {}, "hardware-assisted", "para-virtualised"),
        ("qemu-tcg", {"nic": "rtl8139"}, "emulated", "emulated"),
        ("virtualbox", {"nic": "82540EM"}, "hardware-assisted", "emulated"),
        ("xen", {"type": "pv"}, "paravirtualised", "para-virtualised"),
        ("xen", {"type": "pvh"}, "paravirtualised", "para-virtualised"),
        ("xen", {"type": "hvm"}, "hardware-assisted", "para-virtualised"),
        ("xen", {"type": "hvm", "nic": "e1000"}, "hardware-assisted", "emulated"),
        ("libvirt", {}, "emulated", "para-virtualised"),
        ("libvirt", {"domain_type": "kvm", "nic": "e1000"}, "hardware-assisted", "emulated"),
        ("libvirt", {"uri": "lxc:///system"}, "os-level", None),
        ("libvirt", {"uri": "xen:///system"}, "paravirtualised", "para-virtualised"),
    ],
)
def test_the_parameters_say_what_a_guest_is(
    platform: str, parameters: dict[str, Any], family: str, nic: str | None
) -> None:
    platforms: dict[str, dict[str, Any]] = {"native": {}, "guest": {"platform": platform, "parameters": parameters}}
    entry = made_up_run(platforms, [Made("native", "superpi")], blocks=1).manifest.platforms[1]
    assert (family_of(entry), nic_kind(entry)) == (family, nic)
