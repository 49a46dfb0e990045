"""Platforms that cannot be used here, and guests that never become ready: one sentence, and the evidence kept."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support import guests, machine
from tests.support.facts import Command, Fact, assert_facts, refused
from tests.support.guest_kinds import KINDS, Kind
from tests.support.privileges import skip_without_root

from virtoll.errors import GuestError
from virtoll.image import initramfs
from virtoll.lab.commands import ProcessOptions
from virtoll.pipeline.session import RunSession
from virtoll.platforms import PLATFORMS
from virtoll.platforms.base import GuestStartError
from virtoll.platforms.containers import docker, oci, podman
from virtoll.platforms.fake.site import model_site
from virtoll.platforms.host import SharedResources, Site

INSIDE_LAB = True
pytestmark = [pytest.mark.lab]


@pytest.mark.parametrize("kind", [name for name, kind in PLATFORMS.items() if kind.remedy or kind.install])
def test_a_missing_program_is_named_with_its_remedy(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("VIRTOLL_CACHE", str(tmp_path))
    found = guests.driver(kind).probe(site)
    skip_without_root(found.reason)
    assert not found.available
    assert found.reason is not None
    assert_facts(found.reason, Command(PLATFORMS[kind].how_to_get()))
    assert found.remedy
    assert found.why is not None
    assert found.reason.startswith(found.why)
    assert found.remedy not in found.why
    assert found.install == PLATFORMS[kind].install


def test_what_cannot_be_installed_has_its_reason(site: Site) -> None:
    found = guests.driver("kqemu").probe(site)
    assert not found.available
    assert_facts(found.reason or "", "qemu-kvm")


@pytest.mark.parametrize("kind", ["native", "netns"])
def test_the_host_and_its_namespaces_need_no_program(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert guests.driver(kind).probe(site).available


def test_a_user_who_may_make_no_namespaces_is_told_what_to_do(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    # A private name: this lab's own user may make all those that a guest needs.
    monkeypatch.setattr("virtoll.platforms.containers.netns._NAMESPACES", ("no-such-kind",))
    found = guests.driver("netns").probe(site)
    assert not found.available
    assert_facts(found.reason or "", "root")


REAL = [
    name for name, kind in PLATFORMS.items() if kind.validation == "real" and not kind.parameter_model.pre_provisioned
]


@pytest.mark.parametrize("kind", [*REAL, "runsc-ptrace", "podman-crun"])
def test_what_starts_here_is_found_usable(site: Site, kind: str) -> None:
    found = guests.driver(kind).probe(site)
    skip_without_root(found.reason)
    assert found.available, found.reason
    assert found.reason is None
    assert found.version
    assert re.match(r"[A-Za-z-]+ v?\d", found.version), "a product and its version"


@pytest.mark.parametrize(
    ("parameters", "facts"),
    [
        ({"vhost": "on"}, ("vhost: on", "/nowhere", Command("modprobe vhost_net"))),
        ({"machine": "microvm"}, ("machine microvm", "clock")),
        ({"machine": "virt"}, ("machine virt", "x86_64", "q35", "pc", "microvm")),
    ],
)
def test_what_the_host_lacks_is_named_before_a_boot(
    site: Site, monkeypatch: pytest.MonkeyPatch, parameters: dict[str, str], facts: tuple[Fact, ...]
) -> None:
    monkeypatch.setattr("virtoll.platforms.qemu.driver._VHOST_DEVICE", Path("/nowhere"))  # this host may have it
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setitem(KINDS, "wanted", Kind("qemu-tcg", parameters))
    found = guests.driver("wanted").probe(site)
    assert not found.available
    assert_facts(found.reason or "", *facts)


def test_a_second_cpu_is_refused_by_a_kernel_that_has_one(site: Site) -> None:
    before = machine.interfaces()
    with refused("vcpus: 1", 2, error=GuestError):
        guests.driver("uml-raw").start(dataclasses.replace(guests.request("uml-raw"), vcpus=2), site)
    assert machine.interfaces() == before


@pytest.mark.root
def test_an_engine_that_takes_no_container_is_quoted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that the engine refuses: its own words are in the sentence, and nothing stays."""
    before = machine.interfaces()
    monkeypatch.setattr(podman, "AGENT", ("/no-such-program",))
    with pytest.raises(GuestStartError) as raised:
        guests.driver("podman").start(guests.request("podman"), site)
    assert_facts(str(raised.value), "no-such-program")
    assert b"no-such-program" in raised.value.evidence["console.txt"]
    assert machine.interfaces() == before


@pytest.mark.root
def test_the_image_is_as_it_was_after_an_engine_had_it(site: Site) -> None:
    """Podman makes places to mount on in a root that it is given: not in the image that all guests share."""
    assert guests.driver("podman").probe(site).available
    assert guests.driver("docker").probe(site).available
    expected = {"bin", "data", "dev", "init", "proc", "run", "sys", "tmp"}
    assert {path.name for path in site.image.root.iterdir()} <= expected | {"usr"}
    assert not list(Path("/dev/shm").glob("libpod*"))


@pytest.mark.root
def test_another_program_of_dockers_name_is_passed_over(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Podman has a script named ``docker``: Virtoll takes the next client on PATH that the daemon answers."""
    other = tmp_path / "docker"
    other.write_text("#!/bin/sh\necho unknown shorthand flag >&2; exit 125\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    found = guests.driver("docker").probe(site)
    assert found.available, found.reason
    assert (found.version or "").startswith("Docker ")


# Listens, and ends when a client asks: as dockerd does whose containerd has not started within 15 s.
_ENDING_DAEMON = """\
#!{python}
import os, pathlib, socket, sys
starts = pathlib.Path({counted!r})
starts.write_text(starts.read_text() + "start\\n")
if len(starts.read_text().splitlines()) > {ends}:
    os.execv({real!r}, [{real!r}, *sys.argv[1:]])
taken = socket.socket(socket.AF_UNIX)
taken.bind(sys.argv[sys.argv.index("--host") + 1].removeprefix("unix://"))
taken.listen()
asked = b""
while not asked:
    asked = taken.accept()[0].recv(1)
print("failed to start containerd: timeout", flush=True)
"""


@pytest.fixture
def ending_daemon(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> tuple[Site, Path]:
    """A host whose dockerd ends so many times before it stays, and how often it was started."""
    counted, program = tmp_path / "starts", tmp_path / "dockerd"
    counted.write_text("")
    real = shutil.which("dockerd")
    text = _ENDING_DAEMON.format(python=sys.executable, counted=str(counted), ends=request.param, real=real)
    program.write_text(text)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(docker, "_ENDING_SECONDS", 60.0)  # a busy host may take long to start the interpreter
    return dataclasses.replace(site, shared=SharedResources()), counted


@pytest.mark.root
@pytest.mark.parametrize("ending_daemon", [9], indirect=True)
def test_a_docker_daemon_that_ends_before_it_answers_is_quoted(ending_daemon: tuple[Site, Path]) -> None:
    """And not its client, which says that it cannot connect; nor is the client to be installed."""
    site, counted = ending_daemon
    found = guests.driver("docker").probe(site)
    assert not found.available
    assert_facts(found.reason or "", "Docker", "failed to start containerd")
    assert len(counted.read_text().splitlines()) == 2


@pytest.mark.root
@pytest.mark.parametrize("ending_daemon", [1], indirect=True)
def test_a_docker_daemon_that_ended_is_started_again(ending_daemon: tuple[Site, Path]) -> None:
    """A slow machine has read containerd from its disk by then."""
    site, counted = ending_daemon
    try:
        found = guests.driver("docker").probe(site)
    finally:
        site.shared.close()
    assert found.available, found.reason
    assert len(counted.read_text().splitlines()) == 2


def test_kvm_is_tried_by_booting_a_guest(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Usable, or not with a reason: a device file alone says nothing. A host's KVM may well hang."""
    driver = guests.driver("qemu-kvm")
    monkeypatch.setattr(driver, "probe_deadline_seconds", 5.0)
    started: list[str] = []
    spawn = site.this_machine.spawn

    def spawn_recorded(argv: Sequence[str], role: str, options: ProcessOptions) -> subprocess.Popen[bytes]:
        started.extend(argv)
        return spawn(argv, role, options)

    monkeypatch.setattr(site.host, "spawn", spawn_recorded)
    found = driver.probe(site)
    assert started[started.index("-accel") :][:4] == ["-accel", "kvm", "-cpu", "host"]
    assert found.version is not None
    assert found.available == (found.reason is None)
    if found.reason is not None:
        assert_facts(found.reason, "kvm")
        assert "\n" not in found.reason


def test_without_its_folder_of_devices_a_broken_root_is_evidence(
    run_session: RunSession, site: Site, tmp_path: Path
) -> None:
    del run_session
    before = machine.interfaces()
    broken = dataclasses.replace(site, image=dataclasses.replace(site.image, root=tmp_path))
    with pytest.raises(GuestStartError) as raised:
        guests.driver("netns").start(guests.request("netns"), broken)
    assert b"virtoll-agent: enter: mount on" in raised.value.evidence["console.txt"]
    assert machine.interfaces() == before


@pytest.mark.parametrize("kind", ["runsc-systrap", "nspawn", "lxc"])
def test_a_container_without_its_program_names_it_and_leaves_nothing(site: Site, tmp_path: Path, kind: str) -> None:
    before = machine.interfaces()
    for name in ("dev", "proc", "run", "sys", "tmp", "usr"):
        (tmp_path / name).mkdir()
    empty = dataclasses.replace(site, image=dataclasses.replace(site.image, root=tmp_path))
    with pytest.raises(GuestStartError) as raised:
        guests.driver(kind).start(guests.request(kind), empty)
    assert b"/init" in raised.value.evidence["console.txt"]
    assert machine.interfaces() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dev", "proc", "run", "sys", "tmp", "usr"]


def test_a_machine_without_a_kernel_says_what_qemu_said(site: Site, tmp_path: Path) -> None:
    before = machine.interfaces()
    kernel = tmp_path / "vmlinuz"
    kernel.write_bytes(b"not a kernel")
    broken = dataclasses.replace(site.image.kernel, vmlinux=None, vmlinuz=kernel)
    image = dataclasses.replace(site.image, machine=dataclasses.replace(site.image.for_machines, kernel=broken))
    with pytest.raises(GuestStartError) as raised:
        guests.driver("qemu-tcg").start(guests.request("qemu-tcg"), dataclasses.replace(site, image=image))
    reported = raised.value.evidence["qemu.txt"].decode().splitlines()
    assert reported[-1].rpartition(": ")[2] in str(raised.value)
    assert machine.interfaces() == before


def test_a_machine_that_ends_before_it_is_ready_keeps_its_console(site: Site, tmp_path: Path) -> None:
    """A kernel without an initramfs: it boots, panics and says so on the console."""
    before = machine.interfaces()
    empty = tmp_path / "initramfs"
    empty.write_bytes(b"")
    image = dataclasses.replace(site.image, machine=dataclasses.replace(site.image.for_machines, initramfs=empty))
    with pytest.raises(GuestStartError) as raised:
        guests.driver("qemu-tcg").start(guests.request("qemu-tcg"), dataclasses.replace(site, image=image))
    assert b"Kernel panic" in raised.value.evidence["console.txt"]
    assert_facts(str(raised.value), "Kernel panic")
    assert machine.interfaces() == before


@pytest.fixture
def silent(site: Site, tmp_path: Path) -> Site:
    """The site with an image whose first program never says a word, in a folder and in memory."""
    root = tmp_path / "silent"
    shutil.copytree(site.image.root, root, symlinks=True)
    agent, init = (root / "init").rename(root / "agent"), root / "init"
    init.write_bytes(b"#!/agent hold\n")
    init.chmod(0o755)
    entries = [
        initramfs.folder("dev"),
        initramfs.character_device("dev/console", 5, 1),
        initramfs.program("agent", agent.read_bytes()),
        initramfs.program("init", init.read_bytes()),
    ]
    archive = tmp_path / "initramfs"
    archive.write_bytes(initramfs.write_archive(entries))
    machine = dataclasses.replace(site.image.for_machines, initramfs=archive)
    return dataclasses.replace(site, image=dataclasses.replace(site.image, root=root, machine=machine))


@pytest.mark.parametrize("kind", ["netns", "crun", "runsc-systrap", "nspawn", "lxc", "qemu-tcg"])
def test_a_guest_that_is_not_ready_in_time_is_named(silent: Site, kind: str) -> None:
    before, wanted = machine.interfaces(), guests.request(kind, 0.001)
    with pytest.raises(GuestStartError) as raised:
        guests.driver(kind).start(wanted, silent)
    assert_facts(str(raised.value), wanted.name, "0.001 s")
    assert "console.txt" in raised.value.evidence
    assert machine.interfaces() == before


WITHOUT_PID_FILE = """#!/bin/sh
# runc, without the option --pid-file FILE
value=
for word do
    shift
    if [ "$word" = --pid-file ]; then value=1; elif [ "$value" ]; then value=; else set -- "$@" "$word"; fi
done
exec runc "$@"
"""


def test_a_container_without_a_pid_file_is_ended(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = machine.interfaces(), processes()
    runtime = tmp_path / "forgetful"
    runtime.write_text(WITHOUT_PID_FILE)
    runtime.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setitem(KINDS, "forgetful", Kind("oci", {"runtime": "forgetful"}))
    monkeypatch.setattr(oci, "_PID_SECONDS", 0.1)  # the file never comes: nobody need wait for it
    with refused("forgetful", "0.1 s", error=GuestError):
        guests.driver("forgetful").start(guests.request("forgetful"), site)
    assert (machine.interfaces(), processes()) == before
    assert list((site.host.scratch / "forgetful").iterdir()) == [], "the runtime knows of no container"


def processes() -> set[int]:
    """What runs below this process."""
    return {one.pid for one in machine.family(os.getpid()).processes}


def test_a_platform_on_a_models_site_is_refused_and_starts_nothing() -> None:
    before = processes()
    for kind in KINDS:
        with pytest.raises(GuestError):
            guests.driver(kind).start(guests.request(kind), model_site())
    assert processes() == before
