"""VirtualBox's driver against what its commands said in the nested host: probe, adapters, what is left and removed.

The guests themselves run in ``test_nested_guests.py``; what a guest does with its drives, in ``test_tools_image.py``.
"""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.facts import Command, assert_facts, refused
from tests.support.present import present

from virtoll.errors import CommandFailed, GuestError, ProgramMissing
from virtoll.lab.data import LocalVolume
from virtoll.lab.inside import Lab
from virtoll.lab.network import GuestNetwork
from virtoll.platforms import virtualbox
from virtoll.platforms.base import GuestRequest
from virtoll.platforms.fake.site import model_site
from virtoll.platforms.process_guest import GuestRemains
from virtoll.platforms.virtualbox import DATA_MEDIUM, VirtualBox, VirtualBoxParameters, kernel_line, remove_leftovers

MIB = 2**20
ON_SR0 = "virtoll.root=/dev/sr0 virtoll.disktype=erofs"
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
    return present(found.reason)


def test_a_host_without_the_product_or_its_module_has_a_remedy() -> None:
    reason = probed(VBoxManage=ProgramMissing("VBoxManage", "VBoxManage: not found on this host; install it"))
    assert_facts(reason, "VBoxManage", "VirtualBox", "kernel module")
    reason = probed(VBoxManage="7.2.22_Debianr163906\n", test=GuestError("'test -r /dev/vboxdrv' ended with 1"))
    assert_facts(reason, "/dev/vboxdrv", "this machine", Command("modprobe vboxdrv"))


def test_only_machines_of_dead_runs_are_ended() -> None:
    host = VirtualBoxHost({"ps": PROCESSES})
    assert remove_leftovers(host, frozenset({OTHER})) == [f"VirtualBox machine {LAB}-virtualbox-0"]
    assert host.asked == [["ps", "axww"], ["kill", "-KILL", "241"]]


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
    conflict = present(VirtualBoxParameters.model_validate({"attachment": "macvtap"}).conflict(None))
    assert conflict[0] == "attachment"


@pytest.mark.parametrize(
    ("root", "data", "words"),
    [
        (False, False, ""),
        (True, False, f"virtoll.modules=ahci,sr_mod,erofs {ON_SR0}"),
        (False, True, "virtoll.modules=ahci,ext4 virtoll.data=/dev/sda"),
        (True, True, f"virtoll.modules=ahci,sr_mod,erofs,ext4 {ON_SR0} virtoll.data=/dev/sda"),
    ],
)
def test_the_kernels_line_names_the_drives(root: bool, data: bool, words: str) -> None:
    line = kernel_line(VirtualBoxParameters(), root=root, data=data)
    assert line.endswith(words)
    assert ("virtoll.modules" in line) == (root or data)


class DrivesHost(VirtualBoxHost):
    """A host whose ``startvm`` fails: what the machine was made of is in ``asked`` and in its folder.

    The server refuses the first ``refusals`` of its clients.
    """

    def __init__(self, scratch: Path, refusals: int) -> None:
        super().__init__({})
        self.scratch, self.refusals = scratch, refusals

    def run(self, argv: Sequence[str], role: str, deadline_seconds: float = 30.0, stdin: bytes | None = None) -> str:
        super().run(argv, role, deadline_seconds, stdin)
        if argv[0] in ("ln", "stat"):
            return subprocess.run(argv, check=True, capture_output=True, text=True).stdout
        if "VBoxManage" in argv and self.refusals:
            self.refusals -= 1
            raise CommandFailed(argv, 1, "VBoxManage: error: Failed to create the VirtualBox object!")
        if "startvm" in argv:
            raise GuestError("the machine does not start")
        return ""

    def guard(self, argv: Sequence[str]) -> Callable[[], None]:
        del argv
        return lambda: None


@pytest.fixture
def drives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., DrivesHost]]:
    """Starts a machine with these drives, as far as that goes without the product."""
    form = tmp_path / "disk.erofs"
    form.write_bytes(bytes(4096))
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(MIB + 100))
    descriptor = os.open(disk, os.O_RDWR)
    disk.unlink()
    monkeypatch.setattr(virtualbox, "root_disk", lambda _: form)
    monkeypatch.setattr(virtualbox, "boot_disk", lambda *_, drives: tmp_path / f"boot-{drives}.iso")

    def started(root: bool, data: bool, refusals: int = 0, said: str = "does not start") -> DrivesHost:
        host = DrivesHost(tmp_path / f"{root}-{data}-{refusals}", refusals)
        volume = LocalVolume(MIB, "ext4", None, descriptor) if data else None
        failed_start(host, GuestRequest("one", 1, 256 * MIB, (), GuestNetwork(()), 10.0, data=volume), root, said)
        return host

    yield started
    os.close(descriptor)


def failed_start(
    host: DrivesHost,
    request: GuestRequest,
    root: bool = False,
    said: str = "does not start",
    parameters: dict[str, Any] | None = None,
) -> None:
    """A start on this host; ``said``: the mock's own words by which it fails."""
    model = model_site()
    site = replace(model, host=host, image=replace(model.image, tools={} if root else None))
    with refused(Command(said), error=GuestError):
        VirtualBox(VirtualBoxParameters.model_validate(parameters or {})).start(request, site)


@pytest.mark.parametrize(
    ("parameters", "quota", "words"),
    [
        ({}, None, ["--nested-paging", "on", "--paravirt-provider", "default"]),
        ({"nested_paging": False, "paravirt_provider": "none"}, None, ["--nested-paging", "off"]),
        ({}, 0.5, ["--cpu-execution-cap", "25"]),
    ],
)
def test_a_machine_is_made_as_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parameters: dict[str, Any], quota: float | None, words: list[str]
) -> None:
    monkeypatch.setattr(virtualbox, "boot_disk", lambda *_, drives: tmp_path / f"boot-{drives}.iso")
    host = DrivesHost(tmp_path / "host", 0)
    request = GuestRequest("one", 2, 256 * MIB, (), GuestNetwork(()), 10.0, cpu_quota=quota)
    failed_start(host, request, parameters=parameters)
    (made,) = (argv for argv in host.asked if "modifyvm" in argv)
    at = made.index(words[0])
    assert made[at : at + len(words)] == words
    assert made[made.index("--memory") + 1] == "256"
    assert made[made.index("--cpus") + 1] == "2"
    mode, uart = made[made.index("--uart-mode1") + 1 :][:2]
    assert (mode, Path(uart).name) == ("server", "uart")


def attached(host: DrivesHost) -> list[tuple[str, ...]]:
    """What was attached: controller, port, kind, the medium's name."""
    found = [argv for argv in host.asked if "storageattach" in argv]
    words = [dict(itertools.pairwise(argv)) for argv in found]
    return [(one["--storagectl"], one["--port"], one["--type"], Path(one["--medium"]).name) for one in words]


def test_a_machine_has_the_drives_that_it_needs(drives: Callable[..., DrivesHost]) -> None:
    plain = drives(False, False)
    assert attached(plain) == [("cd", "0", "dvddrive", "boot-False.iso")]
    assert not any("sata" in argv for argv in plain.asked)
    assert attached(drives(True, False)) == [
        ("cd", "0", "dvddrive", "boot-True.iso"),
        ("sata", "0", "dvddrive", "root.iso"),
    ]
    both = drives(True, True)
    assert attached(both)[1:] == [("sata", "0", "dvddrive", "root.iso"), ("sata", "1", "hdd", "data.vmdk")]


def test_a_command_that_the_server_did_not_take_is_given_again(drives: Callable[..., DrivesHost]) -> None:
    """It ends by itself soon after its last client, and refuses who comes just then."""
    taken, refused = ([argv[4] for argv in drives(False, False, n).asked if argv[0] == "env"] for n in (0, 2))
    assert refused == ["createvm", "createvm", *taken]
    assert taken.count("createvm") == taken.count("startvm") == 1
    never = drives(False, False, refusals=1000, said="Failed to create the VirtualBox object")
    assert not any("startvm" in argv for argv in never.asked)


def test_what_is_synced_on_a_data_disk_is_synced_on_the_host(drives: Callable[..., DrivesHost]) -> None:
    """VirtualBox drops flushes unless told otherwise, and those for an extent with an absolute path in any case."""
    host = drives(False, True)
    (told,) = (argv for argv in host.asked if "setextradata" in argv)
    assert told[-2:] == ["VBoxInternal/Devices/ahci/0/LUN#1/Config/IgnoreFlush", "0"]
    assert next(argv for argv in host.asked if "sata" in argv)[-2:] == ["--hostiocache", "on"]
    (medium,) = host.scratch.glob("**/data.vmdk")
    assert 'RW 2048 FLAT "data.raw" 0\n' in medium.read_text(encoding="ascii")
    assert medium.with_name("data.raw").stat().st_size == MIB + 100


def test_a_data_disk_is_as_large_as_its_whole_sectors() -> None:
    assert f"RW {2**21} FLAT" in DATA_MEDIUM.descriptor(2**30 + 511)
    assert 'ddb.geometry.cylinders = "2080"' in DATA_MEDIUM.descriptor(2**30)


class RunningHost(DrivesHost):
    """A host on which a machine begins to run while ``startvm`` fails, as after a deadline, and what ends it.

    ``deaf``: it does not go off when it is told to. ``locked``: it is never unregistered.
    """

    def __init__(self, scratch: Path, *, deaf: bool = False, locked: bool = False) -> None:
        super().__init__(scratch, 0)
        self.deaf, self.locked = deaf, locked
        self.machine, self.runs, self.known = "", False, False
        self.promises: list[list[str]] = []

    def run(self, argv: Sequence[str], role: str, deadline_seconds: float = 30.0, stdin: bytes | None = None) -> str:
        if "createvm" in argv:
            self.machine, self.known = argv[argv.index("--name") + 1], True
        if "startvm" in argv:
            self.runs = True
        if "poweroff" in argv:
            if self.deaf:
                raise GuestError("VBoxManage: error: it does not answer")
            self.runs = False
        if argv[:2] == ["kill", "-KILL"]:
            assert argv[2] == "77"
            self.runs = False
        if "unregistervm" in argv:
            if self.runs or self.locked:
                raise GuestError("VBoxManage: error: Cannot unregister the machine while it is locked")
            self.known = False
        if argv[0] == "ps":
            line = f"   77 ?  Sl 0:01 /usr/lib/virtualbox/VBoxHeadless --comment {self.machine} --x\n"
            return line if self.runs else ""
        if argv[0] == "find":
            return f"{argv[1]}/machines/{self.machine}/{self.machine}.vbox\n" if self.known else ""
        return super().run(argv, role, deadline_seconds, stdin)

    def guard(self, argv: Sequence[str]) -> Callable[[], None]:
        self.promises.append(list(argv))
        return lambda: self.promises.remove(list(argv))


@pytest.mark.parametrize("deaf", [False, True])
def test_a_machine_that_runs_after_a_failed_start_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, deaf: bool
) -> None:
    monkeypatch.setattr(virtualbox, "boot_disk", lambda *_, drives: tmp_path / f"boot-{drives}.iso")
    host = RunningHost(tmp_path / "host", deaf=deaf)
    failed_start(host, GuestRequest("one", 1, 256 * MIB, (), GuestNetwork(()), 10.0))
    assert (host.runs, host.known, host.promises) == (False, False, [])


def test_a_machine_that_stays_is_named_and_its_end_stays_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(virtualbox, "boot_disk", lambda *_, drives: tmp_path / f"boot-{drives}.iso")
    monkeypatch.setattr(virtualbox, "_END_SECONDS", 0.5)  # it never ends: nobody need wait for it
    host = RunningHost(tmp_path / "host", locked=True)
    request = GuestRequest("one", 1, 256 * MIB, (), GuestNetwork(()), 10.0)
    with refused(f"machine {LAB}-one", "0.5 s", "while it is locked", error=GuestRemains):
        VirtualBox(VirtualBoxParameters()).start(request, replace(model_site(), host=host))
    # What runs them should the controller die begins with the last.
    assert [argv[-2:] if "unregistervm" not in argv else argv[-3:] for argv in host.promises] == [
        ["unregistervm", f"{LAB}-one", "--delete"],
        [f"{LAB}-one", "poweroff"],
    ]


def test_a_machine_that_is_not_seen_is_not_taken_for_pinned(tmp_path: Path) -> None:
    host = RunningHost(tmp_path / "host")
    with refused("one", "VBoxHeadless", error=GuestError):
        # No mock of the product gets as far as this last step of a start.
        virtualbox._pin(host, "one", (0,))
    host.machine, host.runs = "one", True
    virtualbox._pin(host, "one", (0, 1))
    assert [argv for argv in host.asked if argv[0] == "taskset"] == [["taskset", "-acp", "0,1", "77"]] * 2
