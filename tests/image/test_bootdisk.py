"""The image as a CD-ROM that boots: what is on it, two makings give the same bytes, one for each line."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from tests.support.cpio_archive import read_archive
from tests.support.facts import refused

from virtoll.errors import ImageError
from virtoll.image import Cache, GuestImage, boot_disk, bootdisk, prepare_image
from virtoll.lab.inside import wait_until

pytestmark = pytest.mark.network
LINE = "console=ttyS0 virtoll.channel=/dev/ttyS1"


@pytest.fixture
def image(backed_cache: Cache, fake_agent: Path) -> GuestImage:
    return prepare_image("tiny", kernel=True, cache=backed_cache, agent=fake_agent)


def test_it_holds_kernel_initramfs_and_the_line(image: GuestImage, cache: Cache, tmp_path: Path) -> None:
    disk = boot_disk(image, LINE, cache=cache)
    out = tmp_path / "out"
    read = ["xorriso", "-osirrox", "on", "-indev", str(disk), "-extract", "/", str(out)]
    subprocess.run(read, check=True, capture_output=True)
    assert (out / "vmlinuz").read_bytes() == image.kernel.vmlinuz.read_bytes()
    assert (out / "initramfs").read_bytes() == image.initramfs.read_bytes()
    assert f" append initrd=/initramfs {LINE}\n" in (out / "isolinux" / "isolinux.cfg").read_text(encoding="ascii")
    reported = subprocess.run(
        ["xorriso", "-indev", disk, "-report_el_torito", "plain"], check=True, capture_output=True, text=True
    ).stdout
    assert "BIOS" in reported
    assert "/isolinux/isolinux.bin" in reported


def test_for_a_guest_with_drives_it_has_their_modules(image: GuestImage, cache: Cache, tmp_path: Path) -> None:
    """And is another disk, with the same line too."""
    plain = boot_disk(image, LINE, cache=cache)
    disk = boot_disk(image, LINE, drives=True, cache=cache)
    assert disk != plain
    out = tmp_path / "initramfs"
    read = ["xorriso", "-osirrox", "on", "-indev", str(disk), "-extract", "/initramfs", str(out)]
    subprocess.run(read, check=True, capture_output=True)
    assert out.read_bytes() == image.disk_initramfs.read_bytes()
    modules = {entry.path for entry in read_archive(out.read_bytes())}
    assert {f"lib/modules/{name}.ko" for name in ("ahci", "ata_piix", "sd_mod", "sr_mod", "erofs")} <= modules


def test_two_makings_give_the_same_bytes(image: GuestImage, tmp_path: Path) -> None:
    first = boot_disk(image, LINE, cache=Cache(tmp_path / "one")).read_bytes()
    made = int(time.time())
    wait_until(lambda: int(time.time()) > made, 600, "the next second, which is how fine times on the disk are")
    assert boot_disk(image, LINE, cache=Cache(tmp_path / "two")).read_bytes() == first


def test_it_is_made_once_for_each_line(
    image: GuestImage, cache: Cache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    disk = boot_disk(image, LINE, cache=cache)
    assert boot_disk(image, f"{LINE} quiet", cache=cache) != disk
    # Files of the host that no setting names.
    monkeypatch.setattr(bootdisk, "_LOADER", (tmp_path / "isolinux.bin",))
    assert boot_disk(image, LINE, cache=cache) == disk
    remedy = ("'virtoll setup --platforms'", "xorriso", "isolinux", "syslinux-common")
    with refused(tmp_path / "isolinux.bin", *remedy, error=ImageError):
        boot_disk(image, f"{LINE} debug", cache=cache)


@pytest.mark.parametrize("line", ["a\nb", "x" * 1501])
def test_a_line_that_no_kernel_takes_is_refused(image: GuestImage, cache: Cache, line: str) -> None:
    with refused("line", 1500, error=ImageError):
        boot_disk(image, line, cache=cache)


def test_a_disk_for_a_pc_is_not_made_of_another_machines_image(
    image: GuestImage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootdisk, "architecture", lambda: "arm64")
    with refused("x86-64", "arm64", error=ImageError):
        boot_disk(image, LINE, cache=Cache(tmp_path))
