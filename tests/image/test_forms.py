"""The forms of an image: all hold the same files, two makings give the same bytes, a damaged one is not used."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
import tarfile
from pathlib import Path
from typing import get_args

import pytest
from tests.support.cpio_archive import read_archive
from tests.support.facts import assert_facts, refused

from virtoll.errors import ImageError
from virtoll.image import Cache, FormName, GuestImage, image_form, made_forms, prepare_image
from virtoll.image.cache import file_digest

pytestmark = pytest.mark.network
NAMES: tuple[FormName, ...] = get_args(FormName)
Found = dict[str, tuple[int, int, int, str]]


def require(name: FormName) -> None:
    """Skip where the form's program is not installed."""
    program = {"ext4": "debugfs", "erofs": "mkfs.erofs", "oci": "true", "tar": "true"}[name]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


def tree(root: Path, *, owned: bool = True) -> Found:
    """Mode, owner, group and content of everything below a folder; ``owned`` False: as if it were root's."""
    found = {}
    for path in root.rglob("*"):
        status = path.lstat()
        content = str(path.readlink()) if path.is_symlink() else "" if path.is_dir() else file_digest(path)
        owner = (status.st_uid, status.st_gid) if owned else (0, 0)
        found[path.relative_to(root).as_posix()] = (status.st_mode, *owner, content)
    return found


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can unpack other users' files as theirs")
@pytest.mark.parametrize("name", NAMES)
def test_each_form_holds_the_folders_files(
    debug_image: GuestImage, cache: Cache, tmp_path: Path, name: FormName
) -> None:
    require(name)
    form, unpacked = image_form(debug_image, name, cache=cache), tmp_path / "unpacked"
    unpacked.mkdir()
    match name:
        case "ext4":
            subprocess.run(["debugfs", "-R", f"rdump / {unpacked}", form.file], check=True, capture_output=True)
            (unpacked / "lost+found").rmdir()  # every ext4 file system has it
            checked = subprocess.run(["e2fsck", "-fn", form.file], capture_output=True, text=True, check=False)
            assert checked.returncode == 0, checked.stdout
        case "erofs":
            command = ["fsck.erofs", f"--extract={unpacked}", "--preserve", "--overwrite", str(form.file)]
            subprocess.run(command, check=True, capture_output=True)
        case "oci":
            with tarfile.open(fileobj=io.BytesIO(layer_of(form.file))) as layer:
                layer.extractall(unpacked, numeric_owner=True)
        case "tar":
            subprocess.run(["tar", "-x", "-f", form.file, "-C", unpacked], check=True, capture_output=True)
    assert tree(unpacked) == tree(debug_image.root, owned=False)


@pytest.mark.parametrize("form", ["initramfs", "disk_initramfs"])
def test_the_initramfs_holds_them_too(debug_image: GuestImage, form: str) -> None:
    def content(entry: bytes, mode: int) -> str:
        return entry.decode() if stat.S_ISLNK(mode) else "" if stat.S_ISDIR(mode) else hashlib.sha256(entry).hexdigest()

    entries = {
        one.path: (one.mode, 0, 0, content(one.content, one.mode))
        for one in read_archive(getattr(debug_image, form).read_bytes())
    }
    own = {path for path in entries if path == "dev/console" or path == "lib" or path.startswith("lib/")}
    assert {path: entry for path, entry in entries.items() if path not in own} == tree(debug_image.root, owned=False)


@pytest.mark.parametrize("name", NAMES)
def test_two_makings_give_the_same_bytes(debug_image: GuestImage, cache: Cache, tmp_path: Path, name: FormName) -> None:
    require(name)
    first = image_form(debug_image, name, cache=cache)
    copied = tmp_path / "another place"
    shutil.copytree(debug_image.root, copied, symlinks=True)
    for path in copied.rglob("*"):
        os.utime(path, (23, 42), follow_symlinks=False)
    again = image_form(dataclasses.replace(debug_image, root=copied), name, cache=Cache(tmp_path / "other"))
    assert again.digest == first.digest == f"sha256:{file_digest(first.file)}"
    assert again.file != first.file
    assert made_forms(debug_image, cache) == (first,)


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_form_is_made_anew(debug_image: GuestImage, cache: Cache, tmp_path: Path, name: FormName) -> None:
    require(name)
    form = image_form(debug_image, name, cache=cache)
    messages: list[str] = []
    assert image_form(debug_image, name, cache=cache, progress=messages.append) == form
    assert messages == []
    with form.file.open("r+b") as file:
        file.seek(form.file.stat().st_size // 2)
        file.write(b"damaged")
    elsewhere = image_form(debug_image, name, cache=Cache(tmp_path / "mine", (cache.home,)))
    assert elsewhere.file.is_relative_to(tmp_path / "mine")
    assert image_form(debug_image, name, cache=cache, progress=messages.append) == form
    (message,) = messages
    assert_facts(message, name, "debug")
    assert f"sha256:{file_digest(form.file)}" == form.digest == elsewhere.digest


def test_a_damaged_image_is_built_anew(backed_cache: Cache, fake_agent: Path) -> None:
    image = prepare_image("debug", kernel=True, cache=backed_cache, agent=fake_agent)
    before = image.initramfs.read_bytes()
    image.initramfs.write_bytes(before[:-1] + b"x")
    again = prepare_image("debug", kernel=True, cache=backed_cache, agent=fake_agent)
    assert again == image
    assert image.initramfs.read_bytes() == before
    assert image.for_machines.digests["initramfs"] == f"sha256:{hashlib.sha256(before).hexdigest()}"


@pytest.mark.parametrize(("name", "package"), [("ext4", "e2fsprogs"), ("erofs", "erofs-utils")])
def test_a_missing_program_is_named_with_its_package(
    debug_image: GuestImage, cache: Cache, monkeypatch: pytest.MonkeyPatch, name: FormName, package: str
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with refused(name, "'virtoll setup --platforms'", package, error=ImageError):
        image_form(debug_image, name, cache=cache)


def test_the_oci_form_is_a_layout_whose_digests_are_right(debug_image: GuestImage, cache: Cache) -> None:
    form = image_form(debug_image, "oci", cache=cache)
    with tarfile.open(form.file) as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    for path, content in files.items():
        if path.startswith("blobs/sha256/"):
            assert path.removeprefix("blobs/sha256/") == hashlib.sha256(content).hexdigest()
    blob = {f"sha256:{hashlib.sha256(content).hexdigest()}": content for content in files.values()}
    (manifest,) = json.loads(files["index.json"])["manifests"]
    reported = json.loads(blob[manifest["digest"]])
    (layer,) = reported["layers"]
    plain = gzip.decompress(blob[layer["digest"]])
    assert json.loads(blob[reported["config"]["digest"]])["rootfs"]["diff_ids"] == [
        f"sha256:{hashlib.sha256(plain).hexdigest()}"
    ]
    (docker,) = json.loads(files["manifest.json"])
    assert [files[path] for path in docker["Layers"]] == [blob[layer["digest"]]]


def layer_of(archive: Path) -> bytes:
    """The one layer, uncompressed."""
    with tarfile.open(archive) as opened:
        (docker,) = json.load(opened.extractfile("manifest.json"))  # type: ignore[arg-type]
        return gzip.decompress(opened.extractfile(docker["Layers"][0]).read())  # type: ignore[union-attr]
