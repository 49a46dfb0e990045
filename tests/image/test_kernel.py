"""The pure parts of the kernel's preparation: dependencies, order of loading, decompression, the PVH entry."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtoll.image.kernel import load_order, module_name, parse_dependencies
from virtoll.image.unpacking import decompress, extract_vmlinux, has_pvh_entry

MODULES_DEP = """\
kernel/drivers/net/virtio_net.ko.xz: kernel/net/net_failover.ko.xz kernel/net/failover.ko.xz kernel/virtio/virtio.ko.xz
kernel/net/net_failover.ko.xz: kernel/net/failover.ko.xz
kernel/net/failover.ko.xz:
kernel/virtio/virtio.ko.xz:
kernel/drivers/char/virtio-rng.ko.xz: kernel/virtio/virtio.ko.xz
"""


def test_a_module_comes_after_everything_it_needs_and_once() -> None:
    order = load_order(["virtio_net", "virtio_rng"], parse_dependencies(MODULES_DEP))
    assert [module_name(file) for file in order] == ["virtio", "failover", "net_failover", "virtio_net", "virtio_rng"]


def test_a_built_in_module_is_left_out() -> None:
    assert load_order(["ext4"], parse_dependencies(MODULES_DEP)) == ()


@given(st.dictionaries(st.integers(0, 15), st.sets(st.integers(0, 15), max_size=4), max_size=16))
def test_any_graph_without_cycles_is_loaded_in_order(graph: dict[int, set[int]]) -> None:
    def closure(node: int) -> list[int]:
        below = sorted(other for other in graph.get(node, ()) if other < node and other in graph)
        seen: dict[int, None] = {}
        for other in below:
            seen.update(dict.fromkeys([*closure(other), other]))
        return list(seen)

    table = {f"m{node}.ko": [f"m{other}.ko" for other in reversed(closure(node))] for node in graph}
    order = load_order([f"m{node}" for node in graph], table)
    assert sorted(order) == sorted(table)
    for file, needed in table.items():
        assert all(order.index(other) < order.index(file) for other in needed)


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
