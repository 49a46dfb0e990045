"""Xen's driver against what ``xl`` said in the nested testbed: probe, names that are taken, what is left and removed.

The guests themselves run in ``test_nested_guests.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from virtoll.errors import GuestError
from virtoll.lab.inside import Lab
from virtoll.platforms.base import Site
from virtoll.platforms.xen import Xen, XenParameters, remove_leftovers
from virtoll.platforms.xen_dom0 import domains

LAB = "virtoll-0123456789ab"
OTHER = "virtoll-ba9876543210"
INFO = """host                   : (none)
release                : 6.1.0-56-amd64
virt_caps              : pv hvm hap
xen_version            : 4.17.7
xen_scheduler          : credit2
"""
LIST = f"""Name                                        ID   Mem VCPUs\tState\tTime(s)
Domain-0                                     0  1024     2     r-----      21.2
{LAB}-xen-1                                  3   256     1     -b----       1.5
{OTHER}-xen-1                                4   256     1     -b----       1.5
customer                                     5   512     1     -b----       9.9
virtoll-like                                 6   512     1     -b----       9.9
"""


class Dom0(Lab):
    """A host whose ``xl`` answers from what is written down, and forgets a domain that is destroyed."""

    def __init__(self, said: dict[str, str | GuestError]) -> None:
        super().__init__(LAB)
        self.said, self.asked = said, list[list[str]]()

    def run(self, argv: Sequence[str], role: str, deadline_seconds: float = 30.0, stdin: bytes | None = None) -> str:
        assert role
        assert deadline_seconds > 0
        assert stdin is None
        self.asked.append(list(argv))
        if argv[:2] == ["xl", "destroy"]:
            rows = str(self.said["list"]).splitlines(keepends=True)
            self.said["list"] = "".join(row for row in rows if row.split()[0] != argv[2])
            return ""
        answer = self.said[argv[1]]
        if isinstance(answer, GuestError):
            raise answer
        return answer


def site(**said: str | GuestError) -> Site:
    return Site(Dom0(said), cast("Any", None))


def probed(kind: str, **said: str | GuestError) -> str:
    found = Xen(XenParameters.model_validate({"type": kind})).probe(site(**said))
    assert not found.available
    assert found.reason is not None
    return found.reason


def test_a_host_without_xen_is_told_what_to_install() -> None:
    assert "apt-get install xen-utils" in probed("pv", info=GuestError("xl: not found on this host; install it"))


def test_a_host_that_is_no_dom0_is_told_to_boot_xen() -> None:
    said = GuestError("'xl info' ended with 1: cannot init xl context")
    assert "this machine does not run under Xen" in probed("pv", info=said)
    assert "boot the hypervisor" in probed("pv", info=said)


def test_rights_are_told_from_a_missing_hypervisor() -> None:
    said = GuestError("'xl info' ended with 1: xc: error: Permission denied")
    assert "xl needs root in dom0" in probed("pv", info=said)


@pytest.mark.parametrize("kind", ["pvh", "hvm"])
def test_a_type_that_the_processor_has_not_is_a_switch_in_the_firmware(kind: str) -> None:
    reason = probed(kind, info=INFO.replace("pv hvm hap", "pv"))
    assert f"guests of type {kind} need hvm" in reason
    assert "firmware" in reason


def test_domains_are_named_without_dom0() -> None:
    assert domains(Dom0({"list": LIST})) == [f"{LAB}-xen-1", f"{OTHER}-xen-1", "customer", "virtoll-like"]


def test_only_domains_of_dead_labs_are_removed() -> None:
    host = Dom0({"list": LIST})
    assert remove_leftovers(host, frozenset({LAB})) == [f"Xen domain {OTHER}-xen-1"]
    assert [argv for argv in host.asked if argv[1] == "destroy"] == [["xl", "destroy", f"{OTHER}-xen-1"]]
    assert "customer" in domains(host)
