"""VirtualBox's driver against what its commands said in the nested host: probe, adapters, what is left and removed.

The guests themselves run in ``test_nested_guests.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from virtoll.errors import GuestError
from virtoll.lab.inside import Lab
from virtoll.lab.network import GuestNetwork
from virtoll.platforms.base import GuestRequest
from virtoll.platforms.fake.site import model_site
from virtoll.platforms.virtualbox import VirtualBox, VirtualBoxParameters, remove_leftovers

LAB = "virtoll-0123456789ab"
OTHER = "virtoll-ba9876543210"
PROCESSES = f"""  PID USER     COMMAND
  182 root     /usr/lib/virtualbox/VBoxSVC --auto-shutdown --inherit-startup-pipe 6
  241 root     /usr/lib/virtualbox/VBoxHeadless --comment {LAB}-virtualbox-0 --startvm e7beebf4 --vrde config
  242 root     /usr/lib/virtualbox/VBoxHeadless --comment {OTHER}-virtualbox-0 --startvm 11111111 --vrde config
  243 owner    /usr/lib/virtualbox/VBoxHeadless --comment customer --startvm 22222222 --vrde config
  244 owner    /usr/lib/virtualbox/VBoxHeadless --comment virtoll-like --startvm 33333333 --vrde config
  245 owner    less notes-on-{LAB}-virtualbox-0
"""


class VirtualBoxHost(Lab):
    """A host whose programs answer from what is written down."""

    def __init__(self, said: dict[str, str | GuestError]) -> None:
        super().__init__(LAB)
        self.said, self.asked = said, list[list[str]]()

    def run(self, argv: Sequence[str], role: str, deadline_seconds: float = 30.0, stdin: bytes | None = None) -> str:
        assert role
        assert deadline_seconds > 0
        assert stdin is None
        self.asked.append(list(argv))
        answer = self.said.get(argv[0], "")
        if isinstance(answer, GuestError):
            raise answer
        return answer


def probed(**said: str | GuestError) -> str:
    found = VirtualBox(VirtualBoxParameters()).probe(replace(model_site(), host=VirtualBoxHost(said)))
    assert not found.available
    assert found.reason is not None
    return found.reason


def test_a_host_without_the_product_is_told_what_to_install() -> None:
    reason = probed(VBoxManage=GuestError("VBoxManage: not found on this host; install it"))
    assert reason == "VBoxManage: not found on this host; install it: VirtualBox with its kernel module"


def test_a_host_whose_module_is_not_loaded_is_told_so() -> None:
    reason = probed(VBoxManage="7.2.22_Debianr163906\n", test=GuestError("'test -r /dev/vboxdrv' ended with 1"))
    assert reason.startswith("/dev/vboxdrv cannot be opened on this machine: modprobe vboxdrv")


def test_only_machines_of_dead_runs_are_ended() -> None:
    host = VirtualBoxHost({"ps": PROCESSES})
    assert remove_leftovers(host, frozenset({OTHER})) == [f"VirtualBox machine {LAB}-virtualbox-0"]
    assert host.asked == [["ps", "axww"], ["kill", "-KILL", "241"]]


@pytest.mark.parametrize(
    ("parameters", "quota", "words"),
    [
        ({}, None, ["--nested-paging", "on", "--paravirt-provider", "default"]),
        ({"nested_paging": False, "paravirt_provider": "none"}, None, ["--nested-paging", "off"]),
        ({}, 0.5, ["--cpu-execution-cap", "25"]),
    ],
)
def test_a_machine_is_made_as_it_was_asked_for(
    parameters: dict[str, Any], quota: float | None, words: list[str]
) -> None:
    request = GuestRequest("one", 2, 256 * 2**20, (), GuestNetwork(()), 10.0, cpu_quota=quota)
    model = VirtualBoxParameters.model_validate(parameters)
    made = VirtualBox(model)._settings(request, {}, Path("/somewhere/uart"))
    at = made.index(words[0])
    assert made[at : at + len(words)] == words
    assert made[made.index("--memory") + 1] == "256"
    assert made[made.index("--cpus") + 1] == "2"
    assert made[made.index("--uart-mode1") + 1 :][:2] == ["server", "/somewhere/uart"]


@pytest.mark.parametrize(
    ("parameters", "key"),
    [
        ({"nic": "e1000"}, "nic"),
        ({"nested_paging": "maybe"}, "nested_paging"),
        ({"paravirt_provider": "xen"}, "paravirt_provider"),
    ],
)
def test_what_the_product_has_not_is_refused_by_its_key(parameters: dict[str, str], key: str) -> None:
    with pytest.raises(ValidationError, match=key):
        VirtualBoxParameters.model_validate(parameters)


def test_its_adapters_are_bridged_alone() -> None:
    conflict = VirtualBoxParameters.model_validate({"attachment": "macvtap"}).conflict(None)
    assert conflict is not None
    assert conflict[0] == "attachment"
