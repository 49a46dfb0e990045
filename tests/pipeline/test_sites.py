"""The cables of a testbed: which NIC of the hypervisor faces which of this machine, by the guest's link."""

import pytest
from tests.support.facts import refused

from virtoll.errors import GuestError
from virtoll.hosts.remote_network import RemoteNic
from virtoll.lab.network import plan_links
from virtoll.pipeline.sites import cables

MACS = {f"eth{number}": f"02:00:00:00:00:0{number}" for number in range(4)}
LINKS = plan_links(0, 2, marks=False).links


def test_each_link_has_a_nic_of_both_ends() -> None:
    found = cables(LINKS, ["ens1", "ens2", "ens3"], ["eth1", "eth2", "eth3"], MACS)
    assert found == {
        name: RemoteNic(f"ens{number}", f"eth{number}", MACS[f"eth{number}"])
        for number, name in enumerate(("in0", "in1", "out"), 1)
    }


@pytest.mark.parametrize(("there", "here"), [(2, 3), (3, 2), (2, 2), (4, 4)])
def test_a_nic_too_few_or_too_many_is_refused(there: int, here: int) -> None:
    """And no link is lost in silence."""
    with refused("3 links", f"hypervisor {there}", f"machine {here}", error=GuestError):
        cables(LINKS, [f"ens{number}" for number in range(there)], list(MACS)[:here], MACS)
