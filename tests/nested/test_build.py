"""What a nested host's files are made of: its root, its modules in order, its kernel or hypervisor, from the cache."""

from __future__ import annotations

import gzip
import hashlib
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.support.cpio_archive import read_archive
from tests.support.facts import Command, refused
from tests.support.made_deb import NAME, kernel_files, made_deb, module
from tests.support.nested_packages import Archive

from virtoll.errors import ImageError
from virtoll.image import debian
from virtoll.image.cache import Cache
from virtoll.image.initramfs import Entry
from virtoll.nested import NestedImage, NestedKind, prepare_nested_host

RELEASE = "6.1.0-99-made"
OWN_RELEASE = "6.12-own"
KIND = NestedKind(
    name="small",
    title="a small host",
    cpu="max",
    cpus=1,
    memory_mib=256,
    packages=("busybox-static", "xen-utils"),
    programs=("usr/bin/ip", "usr/bin/awk"),
    modules=("ext4", "virtio_net"),
    data=("etc/xen/", "etc/absent", "bin/keys", "usr/share/link"),
    start=("start-the-product", "wait-for-it"),
    console="hvc0",
    hypervisor="boot/xen.gz",
)
FILES = {
    "bin/busybox": b"the busybox",
    "usr/bin/ip": b"#! ip",
    "usr/bin/awk@": b"/etc/alternatives/awk",
    "etc/alternatives/awk@": b"/usr/bin/mawk",
    "usr/bin/mawk": b"#! mawk",
    "etc/xen/xl.conf": b"of xl",
    "etc/xen/scripts/bin/block": b"a script",
    "etc/xen/scripts/also@": b"bin/block",
    "bin/keys": b"keys",
    "usr/share/link@": b"../bin/keys",
    "boot/xen.gz": gzip.compress(b"the hypervisor"),
}
BUILT = [("fetch", "qemu-system-x86", "seabios", ("trixie", "trixie-backports")), ("fetch", *KIND.packages, ())]


@pytest.fixture(autouse=True)
def packages(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian has the emulator, and a small host in two packages; the kernel is one that was made here."""
    emulator = dict.fromkeys(
        (
            "usr/bin/qemu-system-x86_64",
            "usr/share/seabios/bios-256k.bin",
            *(f"usr/share/qemu/{name}.bin" for name in ("kvmvapic", "linuxboot_dma", "multiboot_dma", "pvh")),
        ),
        b"",
    )
    archive.packages |= {"qemu-system-x86": emulator, "xen-utils": FILES}
    deb = tmp_path / "kernel.deb"
    deb.write_bytes(made_deb(kernel_files(RELEASE), architecture="amd64"))
    kernel = debian.Package(NAME, "6.1.99-1", "amd64", hashlib.sha256(deb.read_bytes()).hexdigest(), deb)
    monkeypatch.setattr(debian, "architecture", lambda: "amd64")
    for room in ("image.kernel", "nested.build"):
        monkeypatch.setattr(f"virtoll.{room}.kernel_package", lambda *_, **__: kernel)


def prepared(cache: Cache, kind: NestedKind = KIND, *, offline: bool = False) -> NestedImage:
    return prepare_nested_host(kind, offline=offline, cache=cache)


def root_of(image: NestedImage) -> dict[str, Entry]:
    return {entry.path: entry for entry in read_archive(image.root.read_bytes())}


def files_of(root: dict[str, Entry]) -> dict[str, tuple[bytes, bool]]:
    """The content of each file, and whether it is a program."""
    return {name: (entry.content, bool(entry.mode & 0o111)) for name, entry in root.items() if stat.S_ISREG(entry.mode)}


def test_its_root_has_programs_libraries_and_data_and_nothing_else(cache: Cache) -> None:
    root = root_of(prepared(cache))
    files = files_of(root)
    content = {name: files.pop(name) for name in ("usr/bin/ip", "usr/bin/awk", "usr/bin/busybox")}
    assert content == {
        "usr/bin/ip": (b"#! ip", True),
        "usr/bin/awk": (b"#! mawk", True),
        "usr/bin/busybox": (b"the busybox", True),
    }
    data = ("etc/xen/xl.conf", "etc/xen/scripts/bin/block", "etc/xen/scripts/also", "usr/bin/keys", "usr/share/link")
    assert [files.pop(name) for name in data] == [
        (b"of xl", False),
        (b"a script", True),
        (b"a script", True),
        (b"keys", False),
        (b"keys", False),
    ]
    folder = "usr/lib/x86_64-linux-gnu"
    loaded = (f"{folder}/libgcc_s.so.1", f"{folder}/libc.so.6", "usr/lib64/ld-linux-x86-64.so.2")
    assert [files.pop(name)[0] for name in loaded] == [b"libgcc", b"libc", b"the dynamic linker"]
    # What was there before the system's own: users, modules, the first process.
    assert sorted(files) == [
        "etc/group",
        "etc/nsswitch.conf",
        "etc/passwd",
        "etc/shadow",
        "etc/shells",
        "init",
        "modules/failover.ko",
        "modules/order",
        "modules/virtio_net.ko",
    ]
    assert files["etc/passwd"] == (b"root:x:0:0:root:/root:/bin/bash\n", False), "dropbear logs nobody else in"
    assert b"/bin/bash\n" in files["etc/shells"][0]


def test_its_folders_are_merged_and_come_before_what_is_in_them(cache: Cache) -> None:
    root = root_of(prepared(cache))
    for name in ("bin", "sbin", "lib", "lib64"):
        assert (root[name].content, stat.S_ISLNK(root[name].mode)) == (f"usr/{name}".encode(), True)
        assert stat.S_ISDIR(root[f"usr/{name}"].mode)
    for name in ("dev", "proc", "run", "sys", "tmp", "root", "var", "usr", "etc", "etc/xen/scripts/bin"):
        assert stat.S_ISDIR(root[name].mode), name
    console = root["dev/console"]
    assert (stat.S_ISCHR(console.mode), console.device) == (True, (5, 1))
    names = list(root)
    assert len(set(names)) == len(names)


def test_its_modules_are_loaded_after_those_that_they_need(cache: Cache) -> None:
    """One that is built in is there and is no file."""
    root = root_of(prepared(cache))
    assert root["modules/order"].content == b"failover.ko\nvirtio_net.ko\n"
    assert root["modules/virtio_net.ko"].content == module("failover")


def test_a_module_that_the_kernel_has_not_is_named(cache: Cache) -> None:
    with refused(RELEASE, "absent, missing", error=ImageError):
        prepared(cache, replace(KIND, modules=("virtio_net", "absent", "missing")))


def test_its_first_process_starts_the_product_then_lets_commands_in(
    cache: Cache, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    """It is as when all nested guests last kept the contract: whoever changes it runs ``make test-nested``."""
    init = root_of(prepared(cache))["init"]
    assert stat.S_IMODE(init.mode) == 0o755
    (tmp_path / "init").write_bytes(init.content)
    subprocess.run(["sh", "-n", tmp_path / "init"], check=True)
    lines = init.content.decode().splitlines()
    assert lines[0] == "#!/bin/busybox sh"
    assert "exec </dev/hvc0 >/dev/hvc0 2>&1" in lines
    steps = ["mount -t proc", "insmod", "start-the-product", "wait-for-it", ". /virtoll/boot.sh", "dropbear", "sleep"]
    places = [next(place for place, line in enumerate(lines) if step in line) for step in steps]
    assert places == sorted(places)
    assert lines == snapshot


def test_a_host_is_booted_by_its_hypervisor_or_by_the_guests_kernel(cache: Cache) -> None:
    image = prepared(cache)
    assert image.hypervisor is not None
    assert image.hypervisor.read_bytes() == b"the hypervisor"
    assert image.kernel.read_bytes() == b"a kernel"
    assert prepared(cache, replace(KIND, hypervisor=None)).hypervisor is None


def test_its_versions_are_those_of_all_its_packages(cache: Cache, archive: Archive) -> None:
    image = prepared(cache)
    assert image.versions == {NAME: "6.1.99-1", **archive.versions}
    assert (image.kind, image.emulator.version) == (KIND, archive.versions["qemu-system-x86"])


def test_it_is_made_once_and_anew_when_its_kind_changes(cache: Cache, archive: Archive) -> None:
    said: list[str] = []
    first = prepare_nested_host(KIND, cache=cache, progress=said.append)
    assert any("nested host small" in line for line in said)
    assert prepared(cache) == prepared(cache, offline=True) == first
    assert archive.asked == BUILT
    with refused(Command("virtoll nested build small"), error=ImageError):
        prepared(cache, replace(KIND, start=()), offline=True)
    assert prepared(cache, replace(KIND, start=())).root != first.root
    assert archive.asked == [*BUILT, BUILT[1]]


def test_a_suites_host_has_its_own_kernel_and_modules(cache: Cache, archive: Archive) -> None:
    """Its packages are installed, because their scripts make modules for the kernel that comes with them."""
    own = kernel_files(OWN_RELEASE) | {f"usr/lib/modules/{OWN_RELEASE}/updates/dkms/product.ko": module("")}
    archive.packages["linux-image"] = own
    image = prepared(cache, replace(KIND, suite="sid", modules=("product", "ext4")))
    assert archive.asked == [BUILT[0], ("install", "sid", *KIND.packages)]
    assert image.kernel == image.root.with_name("kernel")
    assert image.kernel.read_bytes() == b"a kernel"
    assert root_of(image)["modules/order"].content == b"product.ko\n"
    assert image.versions == archive.versions


def test_other_machines_than_amd64_are_refused(cache: Cache, archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "architecture", lambda: "arm64")
    with refused("arm64", "x86-64", error=ImageError):
        prepared(cache)
    assert archive.asked == []


@pytest.mark.parametrize("data", ["etc/xen/", "etc/xen/broken"])
def test_a_data_file_whose_link_leads_nowhere_is_named(cache: Cache, archive: Archive, data: str) -> None:
    archive.packages["broken"] = {"etc/xen/broken@": b"nowhere"}
    with refused("etc/xen/broken", error=ImageError):
        prepared(cache, replace(KIND, data=(data,)))
