"""Which hosts the nodes of a testbed are, as a run's environment says: a batch system gives each task other ones.

``VIRTOLL_NODES`` has a host for each label of the experiment's, ``generator=ssh:node12``, with commas between them.
Main functions: ``hosts_of_nodes``, ``on_its_nodes``, ``node_words``. Nothing here reaches a host.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from pydantic import ValidationError

from virtoll.errors import UsageError
from virtoll.experiment.topology import HostAddress, Testbed

VARIABLE = "VIRTOLL_NODES"
_WRITTEN = f"write {VARIABLE}=LABEL=ssh:HOST, with commas between several"


def hosts_of_nodes() -> dict[str, HostAddress]:
    """The hosts that the environment names, by their labels; UsageError where it is written in another way."""
    hosts: dict[str, HostAddress] = {}
    text = os.environ.get(VARIABLE) or ""
    for entry in filter(None, text.split(",")):
        label, _, host = entry.strip().partition("=")
        kind, _, name = host.partition(":")
        if not (label and name) or kind not in ("ssh", "netns"):
            raise UsageError(f"{VARIABLE}: {entry!r} names no host; {_WRITTEN}")
        if label in hosts:
            raise UsageError(f"{VARIABLE}: {label!r} is there twice; {_WRITTEN}")
        try:
            hosts[label] = HostAddress(ssh=name) if kind == "ssh" else HostAddress(netns=name)
        except ValidationError as error:
            raise UsageError(f"{VARIABLE}: {name!r} is no host that ssh takes; {_WRITTEN}") from error
    return hosts


def written(hosts: Mapping[str, HostAddress]) -> str:
    """Hosts over SSH or in namespaces, by their labels, as the variable has them."""
    words = []
    for label, host in hosts.items():
        place = f"netns:{host.netns}" if host.ssh is None else f"ssh:{host.ssh}"
        words.append(f"{label}={place}")
    return ",".join(words)


def on_its_nodes(testbed: Testbed) -> Testbed:
    """A testbed with the hosts that its nodes are here; UsageError where one has none."""
    if not testbed.nodes:
        return testbed
    hosts = hosts_of_nodes()
    missing = [label for label in testbed.nodes if label not in hosts]
    if missing:
        label = missing[0]
        raise UsageError(
            f"testbed: which host node {label!r} is, {VARIABLE} does not say; set {VARIABLE}={label}=ssh:HOST, or give "
            "the experiment to Slurm with 'virtoll campaign submit'"
        )
    return testbed.on(hosts)


def node_words(labels: Collection[str]) -> dict[str, str]:
    """Of these labels those that the environment has a host for, with the host in words: ``ssh node12``."""
    if not labels:
        return {}
    return {label: host.words for label, host in hosts_of_nodes().items() if label in labels}
