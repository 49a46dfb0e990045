"""Virtual switches of an ESXi host: one with an uplink and a port group for each link, named ``virtoll-...``.

They are a lab's, shared by its guests: made with the first and removed with the last that is attached. The policy of
switch and port group lets a guest send with any address and hear all frames: a router's frames are not its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from pyVmomi import vim

from virtoll.errors import GuestError
from virtoll.lab.network import Link
from virtoll.platforms.esxi.session import Session, surviving

_PORTS = 128


def port_groups(session: Session, lab_id: str, links: Sequence[Link]) -> dict[str, str]:
    """The port group of each link by the link's name; made now where the experiment names uplinks."""
    parameters = session.parameters
    named = parameters.link_names()
    key = "uplinks" if parameters.uplinks else "port_groups"
    if len(named) < len(links):
        link_names = ", ".join(link.name for link in links)
        raise GuestError(f"{key}: {len(named)} given and {len(links)} needed, in this order: {link_names}")
    named = named[: len(links)]
    if not parameters.uplinks:
        known = session.networks()
        missing = [name for name in named if name not in known]
        if missing:
            raise GuestError(
                f"port_groups: {missing[0]} is not on {parameters.server}; it has: {', '.join(sorted(known))}"
            )
        return {link.name: name for link, name in zip(links, named, strict=True)}
    for link, uplink in zip(links, named, strict=True):
        if link.trunk not in (None, uplink):
            raise GuestError(
                f"uplinks: link {link.name} has {uplink}, and 'testbed.hypervisor.interfaces' has {link.trunk}; "
                "name them in the same order"
            )
    _require_free(session, lab_id, named)
    for link, uplink in zip(links, named, strict=True):
        _make(session, f"{lab_id}-{uplink}", uplink, link.mtu_bytes)
    return {link.name: f"{lab_id}-{uplink}" for link, uplink in zip(links, named, strict=True)}


def remove_unused(session: Session, prefix: str) -> list[str]:
    """Remove the port groups and switches whose names begin so and that no machine is attached to; their names."""
    attached = surviving(session.machines().values(), lambda machine: [network.name for network in machine.network])
    used = {name for _, names in attached for name in names}
    system = session.host.configManager.networkSystem
    removed = []
    for group in [portgroup.spec.name for portgroup in system.networkInfo.portgroup]:
        if group.startswith(prefix) and group not in used:
            system.RemovePortGroup(pgName=group)
    left = {portgroup.spec.vswitchName for portgroup in system.networkInfo.portgroup}
    for name in [switch.name for switch in system.networkInfo.vswitch]:
        if name.startswith(prefix) and name not in left:
            system.RemoveVirtualSwitch(vswitchName=name)
            removed.append(name)
    return removed


def _require_free(session: Session, lab_id: str, uplinks: Sequence[str]) -> None:
    """A ``GuestError`` where a vmnic is not there, or is another switch's."""
    server = session.parameters.server
    network = session.host.configManager.networkSystem.networkInfo
    keys = {nic.device: nic.key for nic in network.pnic or session.host.config.network.pnic}
    for uplink in uplinks:
        if uplink not in keys:
            raise GuestError(f"uplinks: {uplink} is not on {server}; it has: {', '.join(sorted(keys))}")
        for switch in network.vswitch:
            if keys[uplink] in (switch.pnic or ()) and not switch.name.startswith(f"{lab_id}-"):
                raise GuestError(f"uplinks: {uplink} is in use by {switch.name} of {server}; name a free one")


def _make(session: Session, name: str, uplink: str, mtu_bytes: int) -> None:
    system = session.host.configManager.networkSystem
    if name in {switch.name for switch in system.networkInfo.vswitch}:
        return
    policy = vim.host.NetworkPolicy(
        security=vim.host.NetworkPolicy.SecurityPolicy(allowPromiscuous=True, macChanges=True, forgedTransmits=True)
    )
    bond = vim.host.VirtualSwitch.BondBridge(nicDevice=[uplink])
    system.AddVirtualSwitch(
        vswitchName=name,
        spec=vim.host.VirtualSwitch.Specification(numPorts=_PORTS, bridge=bond, mtu=mtu_bytes, policy=policy),
    )
    try:
        # 4095: frames keep their VLAN tags, which the guest takes off itself.
        group = vim.host.PortGroup.Specification(name=name, vlanId=4095, vswitchName=name, policy=policy)
        system.AddPortGroup(portgrp=group)
    except vim.fault.VimFault:
        with contextlib.suppress(vim.fault.VimFault):
            system.RemoveVirtualSwitch(vswitchName=name)
        raise


def network_of(session: Session, port_group: str) -> Any:
    """The API's network object of a port group."""
    return session.networks()[port_group]
