"""Where generator, sink and guests were, as sentences for the page."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from virtoll.report.methods_setting import listed
from virtoll.runfolder.records import Manifest


def wiring_words(manifest: Manifest) -> str:
    """Where generator and sink were, what was switched for them, and which hosts the nodes were; maybe empty."""
    return _testbed(manifest.testbed) + _nodes(manifest)


def _testbed(testbed: Mapping[str, Any] | None) -> str:
    """Where generator and sink were, and what was switched for them, in sentences; empty without a testbed."""
    if testbed is None:
        return ""
    words = _ends(testbed)
    if (beside := testbed.get("neighbour")) is not None:
        reached = ", ".join(beside["hypervisor"])
        words += f" A guest beside had NICs of its own ({beside['generator']}, {beside['sink']}; reached by {reached})."
    flow_control = testbed.get("flow_control")
    if flow_control is not None:
        how = "on" if flow_control else "off"
        words += f" Layer-2 flow control of this machine's NICs was switched {how} for the run."
    return words


def _nodes(manifest: Manifest) -> str:
    """Which hosts the testbed's nodes were, a sentence a node; of a merged run those of all its parts."""
    parts = manifest.merged.parts if manifest.merged is not None else ()
    hosts_of: dict[str, set[str]] = {}
    for nodes in (manifest.nodes, *(part.nodes for part in parts)):
        for label, host in (nodes or {}).items():
            hosts_of.setdefault(label, set()).add(host)
    sentences = (listed(f"Node {label} was", sorted(hosts)) for label, hosts in hosts_of.items())
    return "".join(f" {sentence}" for sentence in itertools.chain.from_iterable(sentences))


def _ends(testbed: Mapping[str, Any]) -> str:
    roles = ("generator", "sink", "hypervisor", "timekeeper")
    ends = {role: ", ".join(testbed[role]["interfaces"]) for role in roles if testbed.get(role) is not None}
    sending = (testbed["generator"], *(testbed.get("more_generators") or ()))
    counting = (testbed["sink"], *(testbed.get("more_sinks") or ()))
    if testbed["hypervisor"]["host"].get("guests"):
        return (
            f"Generator ({ends['generator']}) and sink ({ends['sink']}) were on this machine; their NICs face the "
            "guests' own, which the guests' user wired."
        )
    if not testbed["hypervisor"]["host"]["local"]:
        return (
            f"Generator ({ends['generator']}) and sink ({ends['sink']}) were on this machine, the guests on "
            f"{_host(testbed['hypervisor']['host'])}, reached by its {ends['hypervisor']}."
        )
    generator, sink = (_host(testbed[role]["host"]) for role in ("generator", "sink"))
    reached = f"reached by {ends['hypervisor']} of this machine."
    if len(sending) > 1 or len(counting) > 1:
        return (
            f"The generators were on {_each(sending)}, the sinks on {_each(counting)}, {reached} Each began at one "
            "moment by its own clock, and several hosts have several clocks, so that one-way delays are missing."
        )
    if generator == sink:
        return (
            f"Generator ({ends['generator']}) and sink ({ends['sink']}) were on {generator}, {reached} Both ends of a "
            "delay were read from that host's clock."
        )
    return (
        f"The generator ({ends['generator']}) was on {generator} and the sink ({ends['sink']}) on {sink}, {reached} "
        "Two hosts have two clocks, so that one-way delays are missing."
    )


def _each(roles: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{_host(role['host'])} ({', '.join(role['interfaces'])})" for role in roles)


def _host(host: Mapping[str, Any]) -> str:
    if host.get("api") is not None:
        return str(host["api"])
    if host.get("node") is not None:
        return f"node {host['node']}"
    return f"ssh {host['ssh']}" if host["ssh"] is not None else f"netns {host['netns']}"
