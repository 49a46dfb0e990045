"""Other hosts: the one seam through which a program is run, an agent is started, or a file is copied there.

``Host`` is what a host can do; ``open_host`` makes one from its address. A host is used from outside the lab, where the
network is; what goes into the lab are the byte streams of the agents (``session``).
"""

from virtoll.errors import UsageError
from virtoll.experiment.topology import HostAddress
from virtoll.hosts.base import Host
from virtoll.hosts.namespace import NamespaceHost
from virtoll.hosts.ssh import SshHost

__all__ = ["Host", "open_host"]


def open_host(address: HostAddress) -> Host:
    """The host of an address; nothing is started yet."""
    if address.ssh is not None:
        return SshHost(address.ssh)
    if address.netns is not None:
        return NamespaceHost(str(address.netns))
    raise UsageError("testbed: 'local' is this machine, not another host; give 'ssh' or 'netns'")
