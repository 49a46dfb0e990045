"""Hosts: the one seam through which a program is run, an agent is started, or a file is copied.

``base`` has the protocols, ``links`` those of a host's network; ``open_host`` makes a host from its address. It is used
from outside the lab, where the network is; what goes into the lab are the byte streams of the agents (``session``).
"""

from virtoll.errors import UsageError
from virtoll.experiment.topology import HostAddress
from virtoll.hosts.base import Host
from virtoll.hosts.namespace import namespace_host
from virtoll.hosts.ssh import SshHost
from virtoll.lab.commands import ConnectedHost

__all__ = ["Host", "open_host"]


def open_host(address: HostAddress) -> Host:
    """The host of an address; nothing is started yet. Nodes have their hosts already (``nodes.on_its_nodes``)."""
    if address.local:
        return ConnectedHost()
    if address.ssh is not None:
        return SshHost(address.ssh)
    if address.netns is not None:
        return namespace_host(str(address.netns))
    raise UsageError(f"testbed: {address.words} runs no programs for anybody outside; give 'ssh' or 'netns'")
