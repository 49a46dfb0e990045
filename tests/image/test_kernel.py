"""The pure parts of the kernel's preparation: dependencies, order of loading, decompression, the PVH entry."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.facts import refused
from tests.support.made_deb import module

from virtoll.errors import ImageError
from virtoll.image import debian, default_cache
from virtoll.image.kernel import prepare_kernel
from virtoll.image.modules import ModuleTree, load_order, module_name, needed_by
from virtoll.image.unpacking import decompress, extract_vmlinux, has_pvh_entry

NEEDS = {
    "virtio_net": ("net_failover", "virtio"),
    "net_failover": ("failover",),
    "failover": (),
    "virtio": (),
    "virtio_rng": ("virtio",),
}


def test_a_module_comes_after_everything_it_needs_and_once() -> None:
    assert load_order(["virtio_net", "virtio_rng", "virtio_net"], NEEDS.get) == (
        "failover",
        "net_failover",
        "virtio",
        "virtio_net",
        "virtio_rng",
    )


def test_a_built_in_module_is_left_out() -> None:
    assert load_order(["ext4"], NEEDS.get) == ()


@given(st.dictionaries(st.integers(0, 15), st.sets(st.integers(0, 15), max_size=4), max_size=16))
def test_any_graph_without_cycles_is_loaded_in_order(graph: dict[int, set[int]]) -> None:
    table = {f"m{node}": tuple(f"m{other}" for other in sorted(graph[node]) if other < node) for node in graph}
    order = load_order(table, table.get)
    assert sorted(order) == sorted(table)
    for name, needed in table.items():
        assert all(order.index(other) < order.index(name) for other in needed if other in table)


def test_what_modules_say_that_they_need_is_what_depmod_finds(tmp_path: Path) -> None:
    """Of the real kernel that guests are given; each name is there, so nothing that one needs was left out."""
    if shutil.which("depmod") is None:
        pytest.skip("depmod is missing: apt-get install kmod")
    try:
        kernel = prepare_kernel(default_cache(), offline=True, progress=lambda _: None)
    except ImageError as error:
        pytest.skip(str(error))
    folder = tmp_path / "lib" / "modules" / kernel.release / "kernel"
    folder.mkdir(parents=True)
    for file in {*kernel.modules, *(file for files in kernel.on_request.values() for file in files)}:
        shutil.copyfile(file, folder / file.name)
    debian.run(["depmod", "--basedir", tmp_path, kernel.release])
    tree = ModuleTree(tmp_path, kernel.release)
    lines = (folder.parent / "modules.dep").read_text(encoding="ascii").splitlines()
    assert len(lines) == len(list(folder.iterdir())) > 40
    for line in lines:
        name, _, others = line.partition(":")
        found = tree.in_order([module_name(name)])
        assert {Path(path).name for path in (name, *others.split())} == set(found), line
        named = {other for content in found.values() for other in needed_by(content)}
        assert {f"{other}.ko" for other in named} <= set(found)


def test_a_module_is_read_from_its_compressed_file(tmp_path: Path) -> None:
    folder = tmp_path / "usr" / "lib" / "modules" / "6" / "kernel" / "net"
    folder.mkdir(parents=True)
    plain = {"virtio_net": module("net-failover"), "net-failover": module("")}
    for name, content in plain.items():
        (folder / f"{name}.ko.xz").write_bytes(lzma.compress(content))
    assert ModuleTree(tmp_path, "6").in_order(["virtio_net", "of_no_file"]) == {
        "net_failover.ko": plain["net-failover"],
        "virtio_net.ko": plain["virtio_net"],
    }


def test_what_is_no_module_is_refused() -> None:
    with refused("64-bit ELF", error=ImageError):
        needed_by(b"\x7fELF\x01\x01" + bytes(64))


def test_a_module_built_for_the_kernel_goes_before_its_own(tmp_path: Path) -> None:
    for part, depends in {"kernel": "other", "updates/dkms": "vboxdrv"}.items():
        (tmp_path / "lib/modules/6" / part).mkdir(parents=True)
        (tmp_path / "lib/modules/6" / part / "vboxnetflt.ko").write_bytes(module(depends))
    assert ModuleTree(tmp_path, "6").in_order(["vboxnetflt"]) == {"vboxnetflt.ko": module("vboxdrv")}


def lzma_stream(data: bytes) -> bytes:
    """As the kernel's build makes it: an xz stream and the plain size behind it."""
    return lzma.compress(data, check=lzma.CHECK_CRC32) + struct.pack("<I", len(data))


@pytest.mark.parametrize("compress", [lzma_stream, gzip.compress, bz2.compress, bytes])
def test_each_compression_comes_back(compress: type[bytes]) -> None:
    data = b"module " * 1000
    assert decompress(compress(data)) == data


def test_zstd_comes_back() -> None:
    data = b"module " * 1000
    packed = subprocess.run(["zstd", "-c"], input=data, capture_output=True, check=True).stdout
    assert decompress(packed) == data


def elf(note_owner: bytes, note_type: int) -> bytes:
    """A 64-bit ELF file with one note segment."""
    note = struct.pack("<III", len(note_owner), 8, note_type) + note_owner + bytes(-len(note_owner) % 4) + bytes(8)
    other = struct.pack("<III", 4, 4, 1) + b"GNU\0" + bytes(4)
    notes = other + note
    program_header = struct.pack("<IIQQQQQQ", 4, 4, 120, 0, 0, len(notes), len(notes), 4)
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return header + program_header + notes


def bzimage(kernel: bytes) -> bytes:
    """A bzImage around a kernel: four set-up sectors and a payload."""
    payload = lzma_stream(kernel)
    image = bytearray(5 * 512 + 64 + len(payload) + 64)
    image[0x1F1] = 4
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", image, 0x248, 64, len(payload))
    image[5 * 512 + 64 : 5 * 512 + 64 + len(payload)] = payload
    return bytes(image)


def test_the_plain_kernel_is_taken_out_when_it_has_a_pvh_entry() -> None:
    kernel = elf(b"Xen\0", 18)
    assert extract_vmlinux(bzimage(kernel)) == kernel


@pytest.mark.parametrize("kernel", [elf(b"Xen\0", 17), elf(b"Lin\0", 18), b"MZ not an ELF file"])
def test_a_kernel_without_one_is_not_offered(kernel: bytes) -> None:
    assert not has_pvh_entry(kernel)
    assert extract_vmlinux(bzimage(kernel)) is None


def test_what_is_no_bzimage_has_no_plain_kernel() -> None:
    assert extract_vmlinux(bytes(4096)) is None
