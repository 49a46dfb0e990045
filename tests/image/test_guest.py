"""The image as it is built for real: from the machine's cache where that is filled, else over the network."""

from __future__ import annotations

import json
import os
import platform
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.facts import Command, assert_facts, refused

from virtoll.errors import ImageError, UsageError, remedy_for
from virtoll.image import Cache, GuestImage, prepare_image, prepare_parts
from virtoll.image.cache import file_digest
from virtoll.image.clone import built_agent
from virtoll.lab.priority import preferred

pytestmark = pytest.mark.network

HANG_SECONDS = 600.0


@pytest.fixture
def tiny(backed_cache: Cache, fake_agent: Path) -> GuestImage:
    """A tiny image with an agent that is never started."""
    return prepare_image("tiny", kernel=True, cache=backed_cache, agent=fake_agent)


def test_tiny_is_the_agent_alone(tiny: GuestImage, fake_agent: Path) -> None:
    assert {path.name for path in tiny.root.iterdir()} == {"data", "dev", "init", "proc", "run", "sys", "tmp", "usr"}
    assert (tiny.root / "init").read_bytes() == fake_agent.read_bytes()
    assert tiny.agent.samefile(tiny.root / "init")
    assert os.access(tiny.agent, os.X_OK)
    assert tiny.agent_sha256 == file_digest(fake_agent)
    assert tiny.digest.startswith("sha256:")


def test_the_kernel_is_named_and_whole(tiny: GuestImage) -> None:
    kernel = tiny.kernel
    assert kernel.package == f"linux-image-{kernel.release}"
    assert kernel.sha256 == file_digest(kernel.vmlinuz)
    names = [module.stem for module in kernel.modules]
    assert names.index("virtio_net") > names.index("net_failover") > names.index("failover")
    assert {"virtio_console", "e1000", "virtio_blk"} <= set(names)
    assert all(module.read_bytes()[:4] == b"\x7fELF" for module in kernel.modules)
    if platform.machine() == "x86_64":
        assert kernel.vmlinux is not None
        assert kernel.vmlinux.read_bytes()[:4] == b"\x7fELF"


def test_the_same_inputs_give_the_same_image(tiny: GuestImage, tmp_path: Path, backed_cache: Cache) -> None:
    other = Cache(tmp_path / "other", backed_cache.others)
    again = prepare_image("tiny", kernel=True, cache=other, agent=tiny.agent)
    assert again.digest == tiny.digest
    assert again.initramfs.read_bytes() == tiny.initramfs.read_bytes()
    assert again.initramfs != tiny.initramfs


def test_another_agent_gives_another_image(tiny: GuestImage, backed_cache: Cache, fake_agent: Path) -> None:
    fake_agent.write_bytes(b"\x7fELF another")
    assert prepare_image("tiny", kernel=True, cache=backed_cache, agent=fake_agent).digest != tiny.digest


def test_debug_has_a_shell(backed_cache: Cache, fake_agent: Path) -> None:
    image = prepare_image("debug", kernel=True, cache=backed_cache, agent=fake_agent)
    result = subprocess.run(
        [image.root / "bin/sh", "-c", "echo $((6 * 7))"], capture_output=True, text=True, check=True
    )
    assert result.stdout == "42\n"
    assert (image.root / "bin/sh").readlink() == Path("busybox")


LATER_CALL = """if True:
    import json, os, pathlib, sys
    from virtoll.image import Cache, prepare_image
    opened = []
    def watch(event, arguments):
        if event in {"subprocess.Popen", "os.fork", "os.posix_spawn", "os.exec"}:
            sys.exit(event)
        if event == "open" and not isinstance(arguments[0], int):
            opened.append(os.fsdecode(arguments[0]))
    home, other, agent = map(pathlib.Path, sys.argv[1:])
    sys.addaudithook(watch)
    image = prepare_image("tiny", kernel=True, cache=Cache(home, (other,)), agent=agent, offline=True)
    print(json.dumps([image.digest, opened]))
"""


def test_what_is_known_to_be_whole_is_not_read_again(tiny: GuestImage, backed_cache: Cache, fake_agent: Path) -> None:
    """That makes it fast: what is in the cache was hashed as it came there, and its state says that it is the same."""
    # This call notes what the other cache has whole.
    assert prepare_image("tiny", kernel=True, cache=backed_cache, agent=fake_agent) == tiny
    places = (backed_cache.home, backed_cache.others[0], fake_agent)
    command: list[str | Path] = [sys.executable, "-c", LATER_CALL, *places]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    digest, opened = json.loads(answer.stdout)
    assert digest == tiny.digest
    known = {tiny.agent.with_name("image.json"), tiny.initramfs.with_name("machine.json"), fake_agent}
    assert known <= set(map(Path, opened)), "which it reads"
    kernel = [tiny.kernel.vmlinuz, *filter(None, [tiny.kernel.vmlinux]), *tiny.kernel.modules]
    content = {path.resolve() for path in (*tiny.root.rglob("*"), tiny.initramfs, tiny.disk_initramfs, *kernel)}
    assert content & {Path(path).resolve() for path in opened} == set()


def test_offline_without_a_cache_names_the_command(cache: Cache, fake_agent: Path) -> None:
    with refused(Command(remedy_for("image")), error=ImageError):
        prepare_image("tiny", kernel=True, cache=cache, agent=fake_agent, offline=True)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace without user namespace needs root")
def test_unreachable_sources_are_named_in_one_line(cache: Cache) -> None:
    command = [sys.executable, "-m", "virtoll.image", "tiny"]
    environment = os.environ | {"VIRTOLL_CACHE": str(cache.home)}
    answer = subprocess.run(
        ["unshare", "--net", *command], env=environment, capture_output=True, text=True, check=False
    )
    if not built_agent().exists():
        pytest.skip("no agent is built: make agent")
    assert answer.returncode == 1
    (message,) = answer.stderr.splitlines()
    hosts = ("deb.debian.org", "security.debian.org", "snapshot.debian.org")
    assert_facts(message, "kernel", *hosts, "apt", "http_proxy", "VIRTOLL_KERNEL")
    assert not list((cache.home / "building").iterdir())


def test_an_unknown_image_names_the_known_ones(cache: Cache) -> None:
    with refused("huge", "tiny", "debug", "full", error=UsageError):
        prepare_image("huge", cache=cache)
    with refused("huge", "tiny", "debug", "full", error=UsageError):
        prepare_parts(["huge"], offline=True)


# Every guest of the platform qemu-tcg boots the plain kernel of the same package with the same archive; of what unpacks
# the compressed one, test_kernel_source.py sees each byte that is lost.
@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.timeout(3 * HANG_SECONDS)
@pytest.mark.skipif(shutil.which("qemu-system-x86_64") is None or platform.machine() != "x86_64", reason="needs QEMU")
@pytest.mark.skipif(not built_agent().exists(), reason="no agent is built: make agent")
def test_the_image_boots_to_the_agent_by_the_compressed_kernel(tmp_path: Path) -> None:
    image = prepare_image("tiny", kernel=True)
    console = tmp_path / "console"
    options = "-M q35 -accel tcg -m 256 -nodefaults -no-user-config -display none -no-reboot"
    channel = "-chardev stdio,id=channel -device virtio-serial-pci -device virtserialport,chardev=channel,name=virtoll"
    command: list[str | Path] = ["qemu-system-x86_64", *options.split(), *channel.split()]
    command += ["-kernel", image.kernel.vmlinuz, "-initrd", image.initramfs, "-serial", f"file:{console}"]
    command += ["-append", "console=ttyS0 quiet panic=-1 no_timer_check"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as guest, preferred([guest.pid]):
        assert guest.stdin is not None
        assert guest.stdout is not None
        try:
            ready, _, _ = select.select([guest.stdout], [], [], HANG_SECONDS)
            line = guest.stdout.readline() if ready else b""
            assert b'"event":"ready"' in line, console.read_text(errors="replace")[-2000:]
            assert b'"pid":1' in line
            guest.stdin.write(b'{"id":1,"op":"shutdown"}\n')
            guest.stdin.flush()
            assert guest.wait(HANG_SECONDS) == 0
        finally:
            guest.kill()
