"""Guests of an image with tools: whatever the platform, they have its files, and nobody can write to them."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support import guests
from tests.support.guests import Connected
from tests.support.tools_image import WORD

from virtoll.agent.client import AgentClient
from virtoll.agent.operations.session import ShutdownRequest
from virtoll.hosts.base import LocalHost
from virtoll.image import GuestImage, boot_disk
from virtoll.image.cache import tree_digest
from virtoll.lab.commands import ProcessOptions
from virtoll.lab.data import make_disk
from virtoll.lab.inside import end_process
from virtoll.lab.priority import preferred
from virtoll.pipeline.session import RunSession
from virtoll.platforms.process_guest import root_disk, socket_session
from virtoll.platforms.virtualbox import VirtualBoxParameters, kernel_line

INSIDE_LAB = "guests"
pytestmark = [pytest.mark.lab]


@pytest.fixture(scope="module")
def run_session(tools_image: GuestImage) -> Iterator[RunSession]:
    """The lab's run session with a tree of two packages as the image full, one of them with a program."""
    with guests.run_session() as made:
        made.site.image = tools_image
        yield made


def run(agent: AgentClient, *argv: str) -> tuple[int | None, str]:
    """Exit code, and what the program wrote."""
    ended = guests.execute(agent, *argv, env={}, directory="/", stdin=b"")
    return ended.status, (ended.stdout + ended.stderr).decode()


def assert_packages(live: Connected) -> None:
    """They are there, and cannot be written to; what is no part of them can."""
    assert run(live.guest.agent, "/usr/bin/busybox", "cat", WORD) == (0, "from word\n")
    status, said = run(live.guest.agent, "/usr/bin/busybox", "touch", "/usr/share/word/written")
    assert (status, "Read-only file system" in said) == (1, True)
    assert run(live.guest.agent, "/usr/bin/busybox", "touch", "/tmp/written") == (0, "")


def assert_unchanged(image: GuestImage) -> None:
    assert tree_digest(image.root.parent) == image.digest.removeprefix("sha256:")


@pytest.mark.parametrize("kind", ["native", "netns", "runc", "uml"])
def test_the_packages_are_there_and_stay_as_they_are(run_session: RunSession, kind: str) -> None:
    live = guests.start(kind, run_session)
    assert_packages(live)
    live.guest.stop()
    assert_unchanged(run_session.site.image)


@dataclass(frozen=True)
class Started:
    """A machine of the test's own, with its agent."""

    agent: AgentClient
    process: subprocess.Popen[bytes]


@contextlib.contextmanager
def booted_from_cd_rom(host: LocalHost, boot: Path, root: Path, data: Path) -> Iterator[Started]:
    """What VirtualBox makes, under QEMU: the BIOS's CD-ROM on IDE, the root's and the data disk on SATA."""
    agent, end = socket_session("cd-rom")
    agent.window_bytes, agent.wake_seconds = 512, 2.0
    drives = {
        "boot": (f"format=raw,media=cdrom,readonly=on,file={boot}", "ide-cd,bus=ide.0,bootindex=0"),
        "root": (f"format=raw,media=cdrom,readonly=on,file={root}", "ide-cd,bus=sata.0"),
        "data": (f"format=raw,file={data}", "ide-hd,bus=sata.1"),
    }
    argv = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-machine", "pc", "-m", "256M", "-nodefaults"]
    argv += ["-no-user-config", "-display", "none", "-no-reboot", "-device", "ahci,id=sata"]
    for name, (drive, device) in drives.items():
        argv += ["-drive", f"if=none,id={name},{drive}", "-device", f"{device},drive={name}"]
    argv += ["-chardev", f"socket,id=serial,fd={end.fileno()}", "-serial", "chardev:serial"]
    with end:
        process = host.spawn(argv, "cd-rom", ProcessOptions(pass_fds=(end.fileno(),)))
    try:
        with preferred([process.pid]):
            agent.wait_ready(guests.HANG_SECONDS)
        yield Started(agent, process)
    finally:
        agent.close()
        end_process(process)


@pytest.mark.extended  # test_virtualbox.py knows its line, and test_esxi.py boots from such a disk beside two others
def test_a_machine_that_boots_from_a_cd_rom_has_them_on_another(run_session: RunSession) -> None:
    """The kernel, its line and the drives are VirtualBox's; the data disk is opened by the path that it gets."""
    image, host = run_session.site.image, run_session.site.this_machine
    boot = boot_disk(image, kernel_line(VirtualBoxParameters(), root=True, data=True), drives=True)
    volume = make_disk(host.lab_id, 16 * 2**20, host.run)
    try:
        assert volume.disk_path is not None
        with booted_from_cd_rom(host, boot, root_disk(image), volume.disk_path) as started:
            said = run(started.agent, "/usr/bin/busybox", "cat", "/proc/mounts")[1]
            mounts = [line.split()[:3] for line in said.splitlines()]
            assert ["/dev/sr0", "/", "erofs"] in mounts
            assert ["/dev/sda", "/data", "ext4"] in mounts
            assert run(started.agent, "/usr/bin/busybox", "cat", WORD) == (0, "from word\n")
            status, said = run(started.agent, "/usr/bin/busybox", "touch", "/usr/share/word/written")
            assert (status, "Read-only file system" in said) == (1, True)
            copied = (f"if={WORD}", "of=/data/copy", "conv=fsync")
            assert run(started.agent, "/usr/bin/busybox", "dd", *copied)[0] == 0
            started.agent.ask(ShutdownRequest(), guests.HANG_SECONDS)
            started.process.wait(guests.HANG_SECONDS)
        assert host.run(["debugfs", "-R", "cat /copy", str(volume.disk_path)], "look") == "from word\n"
    finally:
        volume.remove()
