"""The forms of an image that only some platforms take: file systems in a file, an OCI image layout, and an archive.

Each is made from the folder form, when it is first asked for, into the cache. The same folder gives the same bytes with
the same tools. Everything belongs to root, all times are one second after the epoch, identifiers are fixed. A form that
was damaged in the cache is made anew.

Main types: `Form`. Must not: know a platform, or start a guest.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import stat
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from virtoll.errors import ImageError
from virtoll.image.cache import Cache, Progress, default_cache, file_digest
from virtoll.image.debian import architecture, find_program, run
from virtoll.image.guest import GuestImage

FormName = Literal["ext4", "erofs", "oci", "tar"]

_RECIPE = 2  # raise it when what is made from the same folder changes
_IDENTIFIER = "76697274-6f6c-4c00-8000-000000000001"
_SECONDS = 1  # 0 would be taken for "now"
_BLOCK_BYTES = 4096
_COPIED_BYTES = 2**20  # at once
_FREE_BYTES = 128 * 2**20  # room for what a guest writes; the file is sparse
_PACKAGES = {"ext4": "e2fsprogs", "erofs": "erofs-utils"}
_PROGRAMS = {"ext4": ("mke2fs", "debugfs"), "erofs": ("mkfs.erofs",), "oci": (), "tar": ()}


@dataclass(frozen=True)
class Form:
    """One form: a file in the cache, never to be written to, and its hash ("sha256:<hex>")."""

    name: FormName
    file: Path
    digest: str


def image_form(
    image: GuestImage, name: FormName, *, cache: Cache | None = None, progress: Progress | None = None
) -> Form:
    """This form of the image, from the cache or made now.

    Raises ImageError where the program that makes it is not installed, or fails.
    """
    cache = cache or default_cache()
    object_folder = cache.find_whole(_reference(image, name))
    if object_folder is None:
        _require_programs(name)
        say = progress or (lambda _: None)
        say(f"making the {name} form of the image {image.name}")
        object_folder = cache.build(_reference(image, name), lambda folder: _fill(folder, image.root, name), say)
    return _read(object_folder, name)


def made_forms(image: GuestImage, cache: Cache | None = None) -> tuple[Form, ...]:
    """The forms of this image that have been made so far."""
    cache = cache or default_cache()
    objects = {name: cache.find(_reference(image, name)) for name in get_args(FormName)}
    return tuple(_read(folder, name) for name, folder in objects.items() if folder is not None)


def _reference(image: GuestImage, name: FormName) -> str:
    recipe = json.dumps([_RECIPE, name, image.digest])
    return f"form-{name}-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"


def _read(folder: Path, name: FormName) -> Form:
    facts = json.loads((folder / "form.json").read_text(encoding="utf-8"))
    return Form(name, folder / facts["file"], facts["digest"])


def _require_programs(name: FormName) -> None:
    for program in _PROGRAMS[name]:
        try:
            find_program(program)
        except ImageError:
            raise ImageError(
                f"The {name} form of the guest image needs {program}: 'virtoll setup --platforms' installs or names "
                f"{_PACKAGES[name]}."
            ) from None


def _fill(folder: Path, root: Path, name: FormName) -> None:
    """Fills an object with the form's file and form.json."""
    makers: dict[FormName, tuple[str, Callable[[Path, Path], None]]] = {
        "ext4": ("disk.ext4", _make_ext4),
        "erofs": ("disk.erofs", _make_erofs),
        "oci": ("image.tar", _make_oci),
        "tar": ("root.tar", _make_tar),
    }
    file, make = makers[name]
    make(root, folder / file)
    facts = {"form": name, "file": file, "digest": f"sha256:{file_digest(folder / file)}"}
    (folder / "form.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")


def _walk(root: Path) -> Iterator[tuple[str, Path]]:
    """Everything below a folder, folders before what is in them, in an order that no file system decides."""
    for path in sorted(root.rglob("*"), key=lambda path: os.fsencode(path.relative_to(root))):
        yield path.relative_to(root).as_posix(), path


def _make_ext4(root: Path, target: Path) -> None:
    """By debugfs and not by `mke2fs -d`, which takes owners, times and the order of names from the host's folder."""
    entries = list(_walk(root))
    content = sum(-(-path.lstat().st_size // _BLOCK_BYTES) * _BLOCK_BYTES + _BLOCK_BYTES for _, path in entries)
    blocks = (content * 17 // 16 + 16 * 2**20 + _FREE_BYTES) // _BLOCK_BYTES
    fixed = {"E2FSPROGS_FAKE_TIME": str(_SECONDS), "MKE2FS_CONFIG": "/dev/null", "DEBUGFS_PAGER": "cat"}
    features = (
        "has_journal,ext_attr,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,huge_file,dir_nlink"
    )
    options = f"hash_seed={_IDENTIFIER},lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0"
    make = ["mke2fs", "-q", "-F", "-t", "ext4", "-O", f"none,{features},extra_isize,metadata_csum"]
    make += ["-b", str(_BLOCK_BYTES), "-i", "16384", "-I", "256", "-m", "0", "-J", "size=8"]
    run([*make, "-U", _IDENTIFIER, "-E", options, target, str(blocks)], environment=fixed)
    commands = target.with_suffix(".commands")
    commands.write_text("".join(f"{line}\n" for line in _debugfs_commands(entries)), encoding="utf-8")
    run(["debugfs", "-w", "-f", commands, target], environment=fixed)
    commands.unlink()
    _require_all(entries, run(["debugfs", "-R", "ls -l -r /", target], environment=fixed), target)


def _debugfs_commands(entries: list[tuple[str, Path]]) -> Iterator[str]:
    for name, path in entries:
        if any(character in f"{name}{path}" for character in '"\n'):
            raise ImageError(f"{path}: a name with a quote or a line break cannot be put into an ext4 image")
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            yield f'symlink "/{name}" "{path.readlink()}"'
        elif stat.S_ISDIR(mode):
            yield f'mkdir "/{name}"'
            yield f'set_inode_field "/{name}" mode 0{mode:o}'
        else:
            yield f'write "{path}" "/{name}"'
            yield f'set_inode_field "/{name}" mode 0{mode:o}'


def _require_all(entries: list[tuple[str, Path]], listing: str, target: Path) -> None:
    """debugfs goes on after a command that failed, and says so nowhere but in its output."""
    named = {line.split()[-1] for line in listing.splitlines() if line.strip()}
    missing = [name for name, _ in entries if "/" not in name and name not in named]
    if missing:
        raise ImageError(f"debugfs did not put {missing[0]} into {target.name}: check the space for the image cache.")


def _make_erofs(root: Path, target: Path) -> None:
    """Uncompressed, so that reading costs no CPU time of its own."""
    fixed = ["--all-root", f"-T{_SECONDS}", f"-U{_IDENTIFIER}", "-x-1"]
    run(["mkfs.erofs", "--quiet", *fixed, target, root])


def _make_tar(root: Path, target: Path) -> None:
    """For products that unpack a guest's root themselves."""
    _write_tar(target, list(_walk(root)))


def _make_oci(root: Path, target: Path) -> None:
    """An image layout that Podman reads (`oci-archive:`), with the `manifest.json` that `docker load` reads.

    The layer goes through files: that of an image with tools would take gigabytes of memory.
    """
    layer, packed = target.with_suffix(".layer"), target.with_suffix(".layer.gz")
    _write_tar(layer, list(_walk(root)))
    with (
        layer.open("rb") as plain,
        packed.open("wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=1, mtime=0) as stream,
    ):
        shutil.copyfileobj(plain, stream, _COPIED_BYTES)
    configuration = _json(
        {
            "architecture": architecture(),
            "os": "linux",
            "config": {"Env": ["PATH=/bin:/sbin:/usr/bin:/usr/sbin"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
            "history": [{"created_by": "virtoll"}],
        }
    )
    layer.unlink()
    kind = "application/vnd.oci.image"
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{kind}.manifest.v1+json",
            "config": _descriptor(f"{kind}.config.v1+json", configuration),
            "layers": [_descriptor(f"{kind}.layer.v1.tar+gzip", packed)],
        }
    )
    index = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{kind}.index.v1+json",
            "manifests": [_descriptor(f"{kind}.manifest.v1+json", manifest)],
        }
    )
    docker = [{"Config": _blob(configuration), "RepoTags": None, "Layers": [_blob(packed)]}]
    files: dict[str, Path | bytes] = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": index,
        "manifest.json": _json(docker),
        **{_blob(content): content for content in (configuration, manifest, packed)},
    }
    _write_tar(target, sorted(files.items()))
    packed.unlink()


def _json(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":"), sort_keys=True).encode()


def _digest(content: bytes | Path) -> str:
    return f"sha256:{file_digest(content) if isinstance(content, Path) else hashlib.sha256(content).hexdigest()}"


def _blob(content: bytes | Path) -> str:
    return f"blobs/{_digest(content).replace(':', '/')}"


def _descriptor(media_type: str, content: bytes | Path) -> dict[str, object]:
    size = content.stat().st_size if isinstance(content, Path) else len(content)
    return {"mediaType": media_type, "digest": _digest(content), "size": size}


def _write_tar(target: Path, entries: Sequence[tuple[str, Path | bytes]]) -> None:
    """An uncompressed archive of files on disk or in memory, owned by root, at the one fixed time."""
    with tarfile.open(target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, source in entries:
            entry = tarfile.TarInfo(name)
            entry.mtime = _SECONDS
            if isinstance(source, bytes):
                entry.size, entry.mode = len(source), 0o644
                archive.addfile(entry, io.BytesIO(source))
            elif source.is_symlink():
                entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, str(source.readlink()), 0o777
                archive.addfile(entry)
            elif source.is_dir():
                entry.type, entry.mode = tarfile.DIRTYPE, stat.S_IMODE(source.stat().st_mode)
                archive.addfile(entry)
            else:
                entry.size, entry.mode = source.stat().st_size, stat.S_IMODE(source.stat().st_mode)
                with source.open("rb") as content:
                    archive.addfile(entry, content)
