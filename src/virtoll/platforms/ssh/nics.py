"""The NICs of a guest that its user made: found by name or MAC address, and refused where they are not for us.

Main type: ``FoundNic``. Asks the guest by ``ip -json`` alone and changes nothing; every refusal is a ``GuestError`` of
one sentence.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from virtoll.errors import GuestError
from virtoll.lab.network import GuestNetwork

Run = Callable[[Sequence[str]], str]
"""Runs an argument list in the guest to its end; its output."""
_UP = "UP"


@dataclass(frozen=True)
class FoundNic:
    """A NIC as the guest has it: name, MAC address, MTU in bytes, whether it is switched on."""

    name: str
    mac: str
    mtu_bytes: int
    up: bool


def find_nics(run: Run, who: str, names: Sequence[str], network: GuestNetwork) -> tuple[FoundNic, ...]:
    """The wanted NICs in their order, each fit to carry the links' addresses; ``who`` is the guest in messages."""
    if run(["id", "-u"]).strip() != "0":
        raise GuestError(
            f"interfaces: root is needed on {who} to give its NICs addresses; log in as root there, or leave "
            "'interfaces' out and run workloads without traffic"
        )
    links = _asked(run, "address")
    routes = [*_asked(run, "route"), *_asked(run, "-6", "route")]
    reserved = _reserved(run, links, routes)
    nics: list[FoundNic] = []
    for name in names:
        link = _one(links, name, who)
        if (why := reserved.get(link["ifname"]) or _belongs(link)) is not None:
            raise GuestError(f"interfaces: {name} of {who} {why}; name another NIC, wired for the measurement alone")
        _refuse_shared_address(links, link, who)
        if any(nic.name == link["ifname"] for nic in nics):
            raise GuestError(f"interfaces: {name} of {who} is there twice; each link needs a NIC of its own")
        nics.append(FoundNic(link["ifname"], link["address"], int(link["mtu"]), _UP in link["flags"]))
    _refuse_taken_addresses(routes, who, network)
    return tuple(nics)


def _asked(run: Run, *what: str) -> list[dict[str, Any]]:
    return [row for row in json.loads(run(["ip", "-json", *what]) or "[]") if row]


def _one(links: Sequence[Mapping[str, Any]], name: str, who: str) -> Mapping[str, Any]:
    """The link of that name or MAC address."""
    named = [link for link in links if link["ifname"] == name or link.get("address") == name.lower()]
    if not named:
        known = ", ".join(sorted(link["ifname"] for link in links))
        raise GuestError(f"interfaces: {who} has no interface {name}; it has: {known}")
    return named[0]


def _refuse_shared_address(links: Sequence[Mapping[str, Any]], link: Mapping[str, Any], who: str) -> None:
    """The agent finds a NIC by its MAC address, as frames do; VLANs, macvlans and bridges may share it."""
    same = [entry["ifname"] for entry in links if entry.get("address") == link["address"]]
    if len(same) > 1:
        raise GuestError(
            f"interfaces: {' and '.join(same)} of {who} have one MAC address; give each NIC an address of its own"
        )


def _reserved(run: Run, links: Sequence[Mapping[str, Any]], routes: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Interfaces that the guest is reached by, with the reason: to touch them would be to lose it."""
    reasons = {route["dev"]: "carries the guest's default route" for route in routes if route["dst"] == "default"}
    session = run(["printenv", "SSH_CONNECTION"]).split()
    if len(session) != 4:
        raise GuestError("its SSH session does not say which way it came (SSH_CONNECTION); use OpenSSH's server there")
    client, _, server, _ = (text.partition("%")[0] for text in session)
    back = _asked(run, "route", "get", client)
    holders = [
        link["ifname"] for link in links if server in (address.get("local") for address in link.get("addr_info", []))
    ]
    return {**reasons, **dict.fromkeys([*holders, *(route["dev"] for route in back)], "carries the SSH connection")}


def _belongs(link: Mapping[str, Any]) -> str | None:
    """Why an interface is nobody's data link; None: it may be one."""
    if link.get("link_type") != "ether":
        return "is no Ethernet interface"
    if "master" in link:
        return f"is a port of {link['master']}"
    return None


def _refuse_taken_addresses(routes: Sequence[Mapping[str, Any]], who: str, network: GuestNetwork) -> None:
    ours = [ipaddress.ip_network(f"{link.guest_address}/24", strict=False) for link in network.links]
    for route in routes:
        if route["dst"] == "default":
            continue
        other = ipaddress.ip_network(route["dst"], strict=False)
        taken = next((subnet for subnet in ours if subnet.version == other.version and subnet.overlaps(other)), None)
        if taken is not None:
            raise GuestError(
                f"{who} has a route to {other} by {route['dev']}, and the measurement's links need {taken} there; take "
                "the route away"
            )
